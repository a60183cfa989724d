"""Whether meta-test steps follow meta-train steps, and whether that carries over (RecUP-FL, Appendix I)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from fedveil.studies.units import Report
from fedveil_papers.experiment import Experiment, Measured, Part
from fedveil_papers.recup.cases import Case, fit_zoos, laboratory, laboratory_key
from fedveil_papers.rows import Figure, PaperFigures, Row, notes_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from rich.table import Table
    from torch import Tensor

    from fedveil.shields.recup import Zoo

STEPS = 10
"""How many steps a change consists of."""


@dataclass(frozen=True)
class Steps:
    """What was measured in a round for an attribute.

    Attributes:
        round, attribute: which round, and which attribute.
        with_meta_train: the cosine between the meta-train change and the meta-test step that follows it.
        without: the cosine between the same change and the step that the last member asks for at the start.
        fooled: by variant, the share of members that guess wrong, in the "own" zoo and in an "unseen" one.
    """

    round: int
    attribute: str
    with_meta_train: Figure | None
    without: Figure | None
    fooled: dict[str, dict[str, Figure | None]]


@dataclass(frozen=True)
class Transfers:
    """The results."""

    steps: list[Steps]
    clients: int
    paper: PaperFigures


@dataclass(frozen=True)
class Transfer(Experiment[Transfers]):
    """Cosines between steps, and how many members each variant fools, also of a zoo that it never saw.

    Appendix I claims that the meta-test step is forced to be similar to the meta-train step. Its Taylor argument would
    hold for any two steps against similar models; so the cosine is compared with that of the step that the last member
    would have asked for at the start, without a meta-train. A difference of 0 means that meta-train does not matter.

    Attributes:
        case: data set, attribute, rounds.
        relative: the change's size in L2 relative to the update's, at which variants are compared.
        clients: how many test clients are moved.
        zoo: settings of the zoo; a second one, with other seeds and widths, plays the unseen adversaries.
        seed: all randomness derives from it.
    """

    kind: ClassVar[str] = "transfer"
    case: dict[str, Any]
    relative: float = 0.09
    clients: int = 300
    zoo: dict[str, Any] = field(default_factory=dict)
    seed: int = 0

    def check(self) -> None:
        """Refuse a case that cannot be made."""
        Case.of(self.case)

    def locate_data(self) -> None:
        """Find all data, or download it."""
        Case.of(self.case).locate()

    def parts(self) -> list[Part]:
        """Return the one part."""
        settings = {"case": self.case, "relative": self.relative, "clients": self.clients, "zoo": self.zoo}
        name = Case.of(self.case).name
        return [Part({**settings, "seed": self.seed}, "fedveil_papers.recup.transfer:measure_steps", name)]

    def gather(self, measured: Measured, paper: PaperFigures) -> Transfers:
        """Return cosines and fooled members by round."""
        (part,) = self.parts()
        figures = measured[part]
        steps = [
            Steps(
                round=row["round"],
                attribute=row["attribute"],
                with_meta_train=Figure.of(row["with_meta_train"]),
                without=Figure.of(row["without"]),
                fooled={
                    variant: {zoo: Figure.of(share) for zoo, share in shares.items()}
                    for variant, shares in row["fooled"].items()
                },
            )
            for row in figures["rows"]
        ]
        return Transfers(steps, figures["clients"], paper)

    def rows(self, results: Transfers) -> list[Row]:
        """Return a row for each round, attribute, variant and zoo; rows of the variant "meta" have the cosines."""
        rows = []
        for steps in results.steps:
            cosines = {"cosine": steps.with_meta_train, "cosine_without_meta_train": steps.without}
            for variant, shares in steps.fooled.items():
                more = {name: figure and figure.as_dict() for name, figure in cosines.items() if variant == "meta"}
                rows += [
                    Row(
                        method=variant,
                        strength=self.relative,
                        attribute=steps.attribute,
                        attacker=f"{zoo} zoo",
                        seeds=[self.seed],
                        leakage={"fooled": share},
                        more={"round": steps.round, "clients": results.clients, **more},
                    )
                    for zoo, share in shares.items()
                ]
        return rows

    def tables(self, results: Transfers) -> list[Table]:
        """Lay out cosines, then fooled members."""
        from rich.table import Table

        cosines = Table(title="Cosine between the meta-train change and the meta-test step")
        for heading in ("round", "attribute", "after the meta-train", "same member at the start"):
            cosines.add_column(heading, justify="right")
        fooling = Table(title=f"Share of members that guess wrong, {results.clients} test clients, same largest change")
        for heading in ("round", "attribute", "variant", "own zoo", "unseen zoo"):
            fooling.add_column(heading, justify="right")
        for steps in results.steps:
            about = (str(steps.round), steps.attribute)
            cosines.add_row(*about, str(steps.with_meta_train), str(steps.without))
            for variant, shares in steps.fooled.items():
                fooling.add_row(*about, variant, str(shares["own"]), str(shares["unseen"]))
        return [cosines, fooling]

    def notes(self, results: Transfers) -> list[str]:
        """Say what the figures are based on."""
        lines = ["Only static members: a retrained attacker reads the printed form's changes (recup/single-attribute)."]
        return lines + notes_of(results.paper)

    def draw(self, results: Transfers, canvas: Any) -> None:
        """Draw both cosines by round."""
        canvas.set_size_inches(4.5, 3.2)
        axis = canvas.subplots()
        labels = [f"round {steps.round}, {steps.attribute}" for steps in results.steps]
        bars = {"after the meta-train": -0.2, "at the start": 0.2}
        for (name, shift), figures in zip(
            bars.items(),
            zip(*((steps.with_meta_train, steps.without) for steps in results.steps), strict=True),
            strict=True,
        ):
            heights = [float("nan") if figure is None else figure.estimate for figure in figures]
            axis.bar([index + shift for index in range(len(labels))], heights, 0.38, label=name)
        axis.set_xticks(range(len(labels)), labels)
        axis.set_ylabel("cosine to the meta-train change")
        axis.legend(frameon=False)


def measure_steps(payload: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Measure cosines and fooled members, by round and attribute: the task of the part."""
    import torch

    from fedveil.data import Split

    case, seed = Case.of(payload["case"]), payload["seed"]
    reads = [("max", "stru-nn")]
    lab = laboratory(laboratory_key(case, seed, case.asked, static=reads, length=case.length), report)
    report.progress(0.0, "zoos")
    zoos = fit_zoos(lab, payload["zoo"])
    unseen = fit_zoos(lab, {**payload["zoo"], "depth": 4, "seed_of_members": 1})
    rows = []
    for number in lab.rounds:
        model = lab.task.model(lab.undefended.weights[number])
        people = lab.task.people(Split.TEST)[: payload["clients"]]
        updates = lab.task.gradients(model, people)
        for name in lab.attributes:
            codes = torch.from_numpy(lab.task.labels(people, name).codes)
            labelled = codes >= 0
            report.progress(0.5, f"round {number}: {name}")
            moved = _Moved(updates[labelled], codes[labelled], zoos[name], payload["relative"], seed, number)
            rows.append({"round": number, "attribute": name, **moved.cosines(), "fooled": moved.fooled(unseen[name])})
    return {"rows": rows, "clients": payload["clients"]}


@dataclass(frozen=True, eq=False)
class _Moved:
    """Updates of clients with known codes, moved against a zoo in a round."""

    updates: Tensor
    codes: Tensor
    zoo: Zoo
    relative: float
    seed: int
    number: int

    @property
    def size(self) -> float:
        """The size of a step: if one entry per feature changes, the change has the relative norm after all steps."""
        count = len(self.zoo.mean) ** 0.5
        return float(self.relative * self.updates.norm(dim=1).mean() / (STEPS * count))

    def cosines(self) -> dict[str, Any]:
        """Return the cosines between the meta-train change and the last member's step, after it and at the start."""
        import torch
        from torch.nn import functional

        from fedveil.shields.recup.fgsm import DirectPoint, draw_models, slopes_of

        slopes = slopes_of(self.zoo, self.codes)
        size = self.size * torch.ones(len(self.updates), 1)
        after, before = [], []
        for members in draw_models(self.zoo, "meta", STEPS, 5, self.seed, self.number):
            point = DirectPoint(self.updates, self.zoo.segments, self.zoo.features)
            straight = point.gradient(slopes(members[-1], point.features())).signs(size).amounts
            for member in members[:-1]:
                point.add(point.gradient(slopes(member, point.features())).signs(size / len(members)))
            train = point.now - self.updates
            test = point.gradient(slopes(members[-1], point.features())).signs(size).amounts
            after.append(functional.cosine_similarity(train, test).numpy())
            before.append(functional.cosine_similarity(train, straight).numpy())
        return {"with_meta_train": _mean(after, self.seed), "without": _mean(before, self.seed)}

    def fooled(self, unseen: Zoo) -> dict[str, Any]:
        """Return, by variant, what share of both zoos' members guesses wrong, at the same largest change."""
        import torch

        from fedveil.shields.recup.fgsm import VARIANTS, DirectPoint, climb, draw_models, fooled, reach, slopes_of

        shares: dict[str, Any] = {}
        total = STEPS * self.size
        for variant in ("none", *VARIANTS):
            point = DirectPoint(self.updates, self.zoo.segments, self.zoo.features)
            if variant != "none":
                size = torch.full((len(self.updates), 1), total / reach(variant, STEPS))
                members = draw_models(self.zoo, variant, STEPS, 5, self.seed, self.number)
                climb(point, slopes_of(self.zoo, self.codes), members, size, variant)
            features = point.features()
            shares[variant] = {
                "own": _mean([fooled(self.zoo, features, self.codes).numpy()], self.seed),
                "unseen": _mean([fooled(unseen, features, self.codes).numpy()], self.seed),
            }
        return shares


def _mean(parts: list[npt.NDArray[np.floating[Any]]], seed: int) -> dict[str, float]:
    """Return the mean over clients of each client's mean, with a bootstrap interval over clients."""
    import numpy as np

    from fedveil.core.randomness import numpy_generator

    each = np.mean(parts, axis=0)
    draws = numpy_generator(seed, "clients").integers(len(each), size=(1000, len(each)))
    low, high = np.quantile(each[draws].mean(axis=1), [0.025, 0.975])
    return {"estimate": float(each.mean()), "low": float(low), "high": float(high)}
