"""Attri-Fed's figures and studies: what compressed representations tell, cost and can tell at most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import product
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from fedveil.config import parts
from fedveil.core.errors import InputError
from fedveil_papers import attri_fed_layout as layout
from fedveil_papers.experiment import Kept, LaidOutExperiment, Say
from fedveil_papers.shown import PaperFigures

if TYPE_CHECKING:
    from fedveil.data import AttributeData

GREYSCALE = "greyscale"
"""The oracle: it knows where the attribute sits and leaves it out of the input."""


@dataclass(frozen=True)
class Method:
    """One way to send representations.

    Attributes:
        name: what its rows are called.
        game: settings of `games.AttriFed`; or, with "kind", of another game (representations as they are, no code).
        dp: settings of DP-SGD on each participant in place of a game.
        shield: with "kind": on representations, or on the input, as drop-columns is: the oracle's for tables.
        data: further options of the data: the oracle's for images.
    """

    name: str
    game: dict[str, Any] = field(default_factory=dict)
    dp: dict[str, Any] | None = None
    shield: dict[str, Any] | None = None
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AttriFedStudy(LaidOutExperiment):
    """Methods × participants × whatever varies, each judged on test people.

    Attributes:
        data: "source", "target", "attribute" and "options"; `test` at most so many test records are judged.
        methods: each a `Method`.
        participants: numbers of devices.
        samples: training records of each.
        game: settings of `games.AttriFed` that all its methods share.
        vary: values by the name of a setting of `games.AttriFed`, or "samples".
        panel: attackers that are retrained on what is sent.
        seed: all randomness derives from it.
    """

    kind: ClassVar[str] = "attri-fed"
    layout: ClassVar[ModuleType] = layout
    data: dict[str, Any]
    methods: list[dict[str, Any]]
    participants: list[int] = field(default_factory=lambda: [10])
    samples: int = 500
    game: dict[str, Any] = field(default_factory=dict)
    vary: dict[str, list[Any]] = field(default_factory=dict)
    panel: str = "quick"
    seed: int = 0

    def check(self) -> None:
        """Refuse what cannot be run."""
        from fedveil.attacks import panel
        from fedveil.data import find_source
        from fedveil_papers.attri_fed_measuring import shield_of

        for name in ("source", "target", "attribute"):
            if name not in self.data:
                raise InputError(f"experiment: data: give {name}")
        find_source(str(self.data["source"]))
        if min([self.samples, *self.participants]) < 1:
            raise InputError("experiment: participants and samples must be at least 1")
        panel(self.panel)
        for method in self._methods():
            shield_of(method)
            for point in self._points():
                self.made(method, self._game(method, point))

    def _methods(self) -> list[Method]:
        return [parts.make(Method, told, f"experiment: methods[{place}]") for place, told in enumerate(self.methods)]

    def _points(self) -> list[dict[str, Any]]:
        return [dict(zip(self.vary, values, strict=True)) for values in product(*self.vary.values())]

    def _game(self, method: Method, point: Mapping[str, Any]) -> dict[str, Any]:
        settings = {**({} if "kind" in method.game else self.game), **method.game}
        return settings | {name: value for name, value in point.items() if name != "samples" and "kind" not in settings}

    def run(self, kept: Kept, say: Say, paper: PaperFigures) -> dict[str, Any]:
        """Train and judge what is not in the folder yet."""
        asked, rows = [], []
        for point, many, method in product(self._points(), self.participants, self._methods()):
            game = self._game(method, point)
            samples = int(point.get("samples", self.samples))
            key = {"kind": self.kind, "data": self.data, "game": game, "dp": method.dp, "shield": method.shield}
            key |= {"more": method.data, "participants": many, "samples": samples, "panel": self.panel}
            said = ", ".join([f"{many} participants", *(f"{name} {value}" for name, value in point.items())])
            measure = partial(self._measure, method, game, many, samples)
            asked.append((f"{method.name}: {said}", {**key, "seed": self.seed}, measure))
            rows.append({"method": method.name, "participants": many, **point})
        rows = [{**row, **figures} for row, figures in zip(rows, kept.parts(asked, say), strict=True)]
        facts = {name: rows[0]["facts"].get(name) for name in ("prior", "floor", "bits")}
        return {
            "kind": self.kind,
            "rows": rows,
            "facts": facts,
            "varied": list(self.vary),
            "task": self.data["target"],
            "attribute": self.data["attribute"],
            "paper": [dict(one) for one in paper],
        }

    def _measure(self, method: Method, game: dict[str, Any], many: int, samples: int) -> dict[str, Any]:
        from fedveil_papers.attri_fed_measuring import measure_method

        attribute = str(self.data["attribute"])
        data = self.dealt(method, many * samples)
        return measure_method(self.made(method, game), method, data, attribute, many, self.panel, self.seed)

    def dealt(self, method: Method, records: int) -> AttributeData:
        """Return a method's data, with so many training records."""
        told = {**self.data, "options": {**self.data.get("options", {}), **method.data}}
        return _dealt(str(told["source"]), _frozen(told), records, self.seed)

    def made(self, method: Method, game: dict[str, Any]) -> Any:
        """Return a method's game, or its settings of DP-SGD, checked."""
        return _maker(method, game, str(self.data["attribute"]))


def _maker(method: Method, game: dict[str, Any], attribute: str) -> Any:
    """Return the game, or the settings of DP-SGD, checked."""
    where = f"experiment: method {method.name!r}"
    if method.dp is not None:
        from fedveil_papers.rate.dp_training import DPTraining

        return parts.make(DPTraining, method.dp, where)
    kind = str(game.get("kind", "attri-fed"))
    settings = {name: value for name, value in game.items() if name != "kind"}
    return parts.make(parts.game_class(kind), {"attribute": attribute, **settings}, where)


def _frozen(told: Mapping[str, Any]) -> tuple[Any, ...]:
    options = tuple(sorted((told.get("options") or {}).items()))
    return (told["target"], told["attribute"], options, told.get("test"))


@lru_cache(maxsize=2)
def _dealt(source: str, told: tuple[Any, ...], records: int, seed: int) -> AttributeData:
    """Load the data as flat vectors, with so many training records, drawn at random."""
    import numpy as np

    from fedveil.core.randomness import numpy_generator
    from fedveil.data import Split, load

    target, attribute, options, most = told
    data = load(source, target=target, sensitive=attribute, seed=seed, **dict(options))
    rows = data.rows(Split.TRAIN)
    if len(rows) < records:
        raise InputError(
            f"experiment: {source} has {len(rows)} training records, {records} are asked for; fewer participants"
        )
    rng = numpy_generator(seed, "attri-fed", "records")
    kept = [rng.choice(rows, records, replace=False), data.rows(Split.VALIDATION)]
    test = data.rows(Split.TEST)
    kept.append(test if most is None or most >= len(test) else rng.choice(test, most, replace=False))
    taken = data.take(np.sort(np.concatenate(kept)))
    if taken.x.ndim == 2:  # a table keeps its columns' names: the oracle leaves some out
        return taken
    return replace(taken, x=np.ascontiguousarray(taken.x.reshape(len(taken), -1)))
