"""Read a study's files into the model. Every shape and type is checked here, and only here.

A faulty result.json raises `Damaged`, whose message says which part is wrong and why. Results of earlier versions can
be read; they lack the parts that were added later. null stands for a figure that is not a number.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from fedveil import __version__
from fedveil.attacks.judgement import AttackerFigures, Decensoring, Judgement
from fedveil.certificates.certificate import Direction
from fedveil.certificates.tappfl_theorems import ClassifierConstants
from fedveil.config.cells import Cell
from fedveil.core.errors import InputError
from fedveil.core.figures import Estimate
from fedveil.federation.progress import RoundRecord
from fedveil.federation.utility import Utility
from fedveil.studies.checked_json import Damaged, JsonObject, Part, can_be_written, read_json
from fedveil.studies.model import (
    FORMAT,
    CellConfig,
    CellFigures,
    PlannedMethod,
    SpentOnUpdates,
    StatedCertificate,
    StudyFacts,
    TheoryFacts,
)

Arrays = dict[str, np.ndarray]


def read_result(folder: Path, cell_id: str) -> CellFigures | None:
    """Return the figures of a cell from its directory; None if it is not finished.

    Raises:
        Damaged: if its result.json cannot be used.
    """
    path = folder / "result.json"
    if not path.exists():
        return None
    content = read_json(path)
    if content is None:
        raise Damaged("it is not a JSON object")
    return cell_figures(content, cell_id)


def sound_result(folder: Path, cell_id: str) -> CellFigures | None:
    """Return the figures of a cell from its directory; None if it is not finished, or its result is damaged."""
    try:
        return read_result(folder, cell_id)
    except Damaged:
        return None


def cell_figures(content: JsonObject, cell_id: str) -> CellFigures:
    """Return what the content of a result.json says; raise `Damaged` if it is not the result of this cell."""
    result = Part(content, "")
    if content.get("format") != FORMAT:
        raise Damaged(f"it is written in format {content.get('format')!r}, and this version reads format {FORMAT}")
    if result["cell"]["id"].text() != cell_id:
        raise Damaged("it is the result of another cell")
    utility = {task: _utility(part, task) for task, part in result["utility"].items()}
    leakage = {attribute: _judgement(part, attribute) for attribute, part in result["leakage"].items()}
    if not utility or not leakage:
        raise Damaged("it has no utility of any task, or no leakage of any attribute")
    return CellFigures(
        utility=utility,
        leakage=leakage,
        cotrained={attribute: _attacker(part) for attribute, part in result["cotrained"].items()},
        decensoring={attribute: _decensoring(part, attribute) for attribute, part in result.items_of("decensoring")},
        floor={
            task: {
                attribute: {measure: figure.estimate() for measure, figure in figures.items()}
                for attribute, figures in by_attribute.items()
            }
            for task, by_attribute in result["floor"].items()
        },
        certificates={
            attribute: tuple(_certificate(part) for part in stated.entries())
            for attribute, stated in result["certificates"].items()
        },
        spent=tuple(_spent(part) for part in result.entries_of("spent")),
        utility_only={attribute: part.whole() for attribute, part in result.items_of("utility_only")},
        devices=result.whole_of("devices"),
        theory={attribute: _theory(part) for attribute, part in result.items_of("theory")},
        paths={player: part.text() for player, part in result.items_of("paths")},
        rounds=result.whole_of("rounds"),
        bytes_up=result.whole_of("bytes_up"),
    )


def read_facts(folder: Path) -> StudyFacts:
    """Return what study.json says; refuse a directory that holds no study of a version that can be read."""
    path = folder / "study.json"
    if not folder.is_dir():
        raise InputError(f"{folder}: no such directory; name one that `fedveil run` has written")
    if not path.exists():
        raise InputError(f"{folder}: holds no study (study.json is missing); name one that `fedveil run` has written")
    content = read_json(path)
    if content is not None and "format" in content and content["format"] != FORMAT:
        raise InputError(
            f"{folder}: written in format {content['format']} by fedveil {content.get('version')}; this is fedveil "
            f"{__version__}, which reads format {FORMAT}; run the study again with --fresh, or into another folder"
        )
    try:
        if content is None:
            raise Damaged("it is not a JSON object")
        return _facts(content)
    except Damaged as fault:
        raise InputError(f"{path}: is damaged ({fault}); discard the directory's results with --fresh") from None


def read_config(folder: Path) -> CellConfig:
    """Return how a cell was computed; empty if its config.json is missing or damaged."""
    config = read_json(folder / "config.json") or {}
    study, versions, threads = (config.get(key) for key in ("study", "versions", "threads"))
    revision = config.get("revision")
    settings = study if isinstance(study, dict) else {}
    return CellConfig(
        settings={part: values for part, values in settings.items() if isinstance(values, dict)},
        versions={str(k): str(v) for k, v in versions.items()} if isinstance(versions, dict) else {},
        revision=revision if isinstance(revision, str) else None,
        threads=threads if isinstance(threads, int) else None,
    )


def read_rounds(folder: Path) -> list[RoundRecord]:
    """Return the record of each round that a cell has played; empty if metrics.jsonl is missing or damaged."""
    try:
        lines = (folder / "metrics.jsonl").read_text("utf-8").splitlines()
        return [_round(Part(json.loads(line), "")) for line in lines]
    except (OSError, ValueError, RecursionError, Damaged):
        return []


def read_seconds(folder: Path) -> float | None:
    """Return how long a cell took to compute; None if that is not known."""
    seconds = (read_json(folder / "timing.json") or {}).get("seconds")
    return float(seconds) if isinstance(seconds, int | float) else None


def read_tensors(path: Path) -> Arrays:
    """Return the arrays of a safetensors file; empty if it is missing or damaged."""
    try:
        return dict(load_file(path))
    except (OSError, ValueError, SafetensorError):
        return {}


def _utility(part: Part, task: str) -> Utility:
    return Utility(
        task=task,
        accuracy=part["accuracy"].estimate(),
        balanced_accuracy=part["balanced_accuracy"].estimate(),
        prior=part["prior"].share(),
        by_group={
            attribute: {value: figure.estimate() for value, figure in groups.items()}
            for attribute, groups in part.items_of("by_group")
        },
        head=part["head"].text(),
        validation_accuracy=part["validation_accuracy"].number(),
        heads={kind: figure.number() for kind, figure in part.items_of("heads")},
        constants=None if part.get("constants").value is None else _constants(part["constants"]),
    )


def _constants(part: Part) -> ClassifierConstants:
    lipschitz = part.get("lipschitz")
    constants = ClassifierConstants(
        part["radius"].number(), math.inf if lipschitz.value is None else lipschitz.number()
    )
    if not (constants.radius >= 0 and constants.lipschitz >= 0):
        part.fail("has a norm or a Lipschitz constant below 0")
    return constants


def _judgement(part: Part, attribute: str) -> Judgement:
    classes = tuple(value.text() for value in part["classes"].entries())
    if len(classes) < 2:
        part["classes"].fail("has fewer than two values")
    confidence, pools = part["confidence"].share(), part["split"]
    attackers = part["attackers"].entries()
    # The strongest attacker is the first; it is written a second time, with the validation figure of the choice.
    worst = _attacker(part["worst"], confidence)
    if not attackers or _without_choice(part["worst"]) != _without_choice(attackers[0]):
        part["worst"].fail("is not the first of the attackers")
    return Judgement(
        attribute=attribute,
        classes=classes,
        n=(pools["auxiliary"].whole(), pools["validation"].whole(), pools["victims"].whole()),
        unlabelled=part["unlabelled"].whole(),
        groups=None if part.get("groups").value is None else part["groups"].whole(),
        prior=part["prior"].estimate(confidence),
        attackers=tuple(_attacker(attacker, confidence) for attacker in attackers),
        mutual_information_bits=part["mutual_information_bits"].estimate(confidence),
        mutual_information_attacker=part["mutual_information_attacker"].text(),
        detectable_advantage=part["detectable_advantage"].number(),
        p_value=part.get("p_value").number(),
        adjusted_p_value=part.get("adjusted_p_value").number(),
        confidence=confidence,
        seed=part["seed"].whole(),
        chosen=None if part.get("chosen").value is None else _attacker(part["chosen"], confidence),
        validation_leakage=_on_validation(part["worst"], worst, confidence),
        learned_from=None if part.get("learned_from").value is None else part["learned_from"].whole(),
        from_half=None if part.get("from_half").value is None else part["from_half"].number(),
        notes=() if part.get("notes").value is None else tuple(note.text() for note in part["notes"].entries()),
    )


def _on_validation(part: Part, worst: AttackerFigures, confidence: float) -> Estimate:
    """Return the figure of the choice; results of older versions have no interval for it."""
    if part.get("validation_interval").value is not None:
        return part["validation_interval"].estimate(confidence)
    point = worst.validation_balanced_accuracy
    return Estimate(point, math.nan, math.nan, confidence)


def _without_choice(part: Part) -> JsonObject:
    chosen = ("validation_balanced_accuracy", "validation_interval")
    return {name: value for name, value in part.fields().items() if name not in chosen}


def _attacker(part: Part, confidence: float = 0.95) -> AttackerFigures:
    measures = ("accuracy", "gap", "balanced_accuracy", "auc", "advantage", "mutual_information_bits")
    return AttackerFigures(
        name=part["name"].text(),
        **{measure: part[measure].estimate(confidence) for measure in measures},
        validation_balanced_accuracy=part.get("validation_balanced_accuracy").number(),
    )


def _decensoring(part: Part, attribute: str) -> Decensoring:
    return Decensoring(attribute, _attacker(part["attack"]), _attacker(part["control"]), part["gain"].estimate())


def _certificate(part: Part) -> StatedCertificate:
    if part["certified"].value is not True:
        part.fail("is not a certificate")
    direction = _direction(part["direction"])
    bound = part.get("bound")
    infinite = math.inf if direction == "upper" else -math.inf
    return StatedCertificate(
        quantity=part["quantity"].text(),
        bound=infinite if bound.value is None else bound.number(),
        direction=direction,
        assumptions={name: assumption.value for name, assumption in part["assumptions"].items()},
        does_not_cover=tuple(text.text() for text in part["does_not_cover"].entries()),
        method=part["method"].text(),
        citation=part["citation"].text(),
        confidence=None if part.get("confidence").value is None else part["confidence"].share(),
        stricter=tuple(_level_and_bound(pair) for pair in part.entries_of("stricter")),
    )


def _level_and_bound(pair: Part) -> tuple[float, float]:
    if len(pair.entries()) != 2:
        pair.fail("is not a confidence and a bound")
    level, bound = pair.entries()
    return level.share(), bound.number()


def _direction(part: Part) -> Direction:
    directions: dict[str, Direction] = {"upper": "upper", "lower": "lower"}
    if part.text() not in directions:
        part.fail("is neither upper nor lower")
    return directions[part.text()]


def _spent(part: Part) -> SpentOnUpdates:
    if (part["infinite"].value is True) != (part.get("bound").value is None):
        part.fail("states a bound that is both finite and infinite")
    return SpentOnUpdates(_certificate(part), part["covers"].text())


def _theory(part: Part) -> TheoryFacts:
    gaps = {task: None if gap.value is None else gap.share() for task, gap in part["gap"].items()}
    return TheoryFacts(part["entropy_bits"].number(), gaps)


def _round(part: Part) -> RoundRecord:
    return RoundRecord(
        stage=part["stage"].text(),
        round=part["round"].whole(),
        devices=part["devices"].whole(),
        silent=part["silent"].whole(),
        losses={move: loss.number() for move, loss in part["losses"].items()},
        validation=None if part.get("validation").value is None else part["validation"].number(),
        damage={measure: figure.number() for measure, figure in part["damage"].items()},
        bytes_up=part["bytes_up"].whole(),
        utility_only={attribute: count.whole() for attribute, count in part.items_of("utility_only")},
    )


def _facts(content: JsonObject) -> StudyFacts:
    """Return the facts of a study; fields that other versions of the study's format may lack are optional."""
    facts = Part(content, "")
    study = facts["study"].fields()
    data, federation, attacks = (_fields(study.get(name)) for name in ("data", "federation", "attacks"))
    devices, data_seed = federation.get("devices"), content.get("data_seed")
    methods = study.get("methods")
    return StudyFacts(
        name=facts["name"].text(),
        cells=tuple(_cell(cell) for cell in facts["cells"].entries()),
        study=study,
        description=_text(study.get("description")),
        command=_text(content.get("command")),
        version=_text(content.get("version")),
        revision=_text(content.get("revision")),
        data=_text(content.get("data")) or None,
        data_seed=data_seed if isinstance(data_seed, int) else None,
        source=_text(data.get("source")) or None,
        devices=devices if isinstance(devices, int) else None,
        view=_text(attacks.get("view")) or None,
        tasks=_texts(study.get("tasks")) or _texts(data.get("target")),
        attributes=_texts(attacks.get("attributes")) or _texts(data.get("sensitive")),
        methods=tuple(_method(_fields(method)) for method in (methods if isinstance(methods, list) else [])),
    )


def _cell(part: Part) -> Cell:
    """Return a planned cell; its id must name a directory directly under cells."""
    cell_id = part["id"].text()
    if not re.fullmatch(r"[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*", cell_id):
        part["id"].fail("is not the name of a directory")
    if "strength" not in part.fields():
        part.fail("has no strength")
    strength = None if part.get("strength").value is None else part["strength"].number()
    return Cell(cell_id, part["method"].text(), strength, part["seed"].whole())


def _method(method: JsonObject) -> PlannedMethod:
    return PlannedMethod(
        name=_text(method.get("name")),
        game=_text(_fields(method.get("game")).get("kind")) or None,
        shielded=bool(method.get("shield") or method.get("policy")),
        swept=bool(method.get("strengths")),
        varies=_text(method.get("varies")) or "game.strength",
    )


def _fields(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) and can_be_written(value) else ""


def _texts(value: object) -> tuple[str, ...]:
    """Return the texts of a list; a single text counts as a list of one."""
    listed = value if isinstance(value, list) else [value]
    return tuple(text for text in map(_text, listed) if text)
