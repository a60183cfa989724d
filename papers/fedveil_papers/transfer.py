"""Whether meta-test steps follow meta-train steps, and whether that carries over (RecUP-FL, Appendix I)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from fedveil_papers.experiment import Experiment, Kept, Say
from fedveil_papers.shown import PaperFigures, with_interval
from fedveil_papers.update_parts import Case, zoos_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from rich.table import Table
    from torch import Tensor

    from fedveil.shields.recup import Zoo


@dataclass(frozen=True)
class Transfer(Experiment):
    """Cosines between steps, and how many members of another zoo each variant fools, which it never saw.

    Appendix I claims that the meta-test step is forced to be similar to the meta-train step. Its Taylor argument would
    hold for any two steps against alike models; so the cosine is set beside that of the step which the last member
    would have asked for at the start, without a meta-train. A difference of 0 says that meta-train does not matter.

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
        Case.of(self.case, "experiment: case")

    def run(self, kept: Kept, say: Say, paper: PaperFigures) -> dict[str, Any]:
        """Measure cosines and fooled members by round."""
        settings = {"case": self.case, "relative": self.relative, "clients": self.clients, "zoo": self.zoo}
        figures = kept.part({**settings, "seed": self.seed}, lambda: self._measure(say))
        return {"kind": self.kind, **figures, "paper": [dict(one) for one in paper]}

    def _measure(self, say: Say) -> dict[str, Any]:
        from fedveil.data import Split
        from fedveil_papers.exposure import Laboratory

        case = Case.of(self.case, "experiment: case")
        lab = Laboratory(
            case.task(self.seed), case.rounds, case.asked, [("max", "stru-nn")], (), length=case.length, progress=say
        )
        say("zoos")
        own = zoos_of(lab, self.zoo)
        others = zoos_of(lab, {**self.zoo, "depth": 4, "seed_of_members": 1})
        rows = []
        for number in lab.rounds:
            model = lab.task.model(lab.undefended.weights[number])
            people = lab.task.people(Split.TEST)[: self.clients]
            updates = lab.task.gradients(model, people)
            for name in lab.attributes:
                import torch

                codes = torch.from_numpy(lab.task.labels(people, name).codes)
                known = codes >= 0
                say(f"round {number}: {name}")
                rows.append(
                    {
                        "round": number,
                        "attribute": name,
                        **self._cosines(own[name], updates[known], codes[known], number),
                        "fooled": self._fooled(own[name], others[name], updates[known], codes[known], number),
                    }
                )
        return {"rows": rows, "clients": self.clients}

    def _cosines(self, zoo: Zoo, updates: Tensor, codes: Tensor, number: int) -> dict[str, Any]:
        import torch
        from torch.nn import functional

        from fedveil.shields.recup.fgsm import DirectPoint, draw_models, slopes_of

        slopes = slopes_of(zoo, codes)
        size = self._size(updates, zoo) * torch.ones(len(updates), 1)
        after, before = [], []
        for members in draw_models(zoo, "meta", 10, 5, self.seed, number):
            point = DirectPoint(updates, zoo.segments, zoo.features)
            straight = point.gradient(slopes(members[-1], point.features())).signs(size).amounts
            for member in members[:-1]:
                point.add(point.gradient(slopes(member, point.features())).signs(size / len(members)))
            train = point.now - updates
            test = point.gradient(slopes(members[-1], point.features())).signs(size).amounts
            after.append(functional.cosine_similarity(train, test).numpy())
            before.append(functional.cosine_similarity(train, straight).numpy())
        return {"with_meta_train": _mean(after, self.seed), "without": _mean(before, self.seed)}

    def _size(self, updates: Tensor, zoo: Zoo) -> float:
        """Return a step whose change of one entry per feature has the asked norm after ten of them."""
        count = len(zoo.mean) ** 0.5
        return float(self.relative * updates.norm(dim=1).mean() / (10 * count))

    def _fooled(self, zoo: Zoo, other: Zoo, updates: Tensor, codes: Tensor, number: int) -> dict[str, Any]:
        """Return by variant how many members of its own zoo and of another guess wrong, at the same largest change."""
        import torch

        from fedveil.shields.recup.fgsm import VARIANTS, DirectPoint, climb, draw_models, fooled, reach, slopes_of

        found: dict[str, Any] = {}
        total = 10 * self._size(updates, zoo)
        for variant in ("none", *VARIANTS):
            point = DirectPoint(updates, zoo.segments, zoo.features)
            if variant != "none":
                size = torch.full((len(updates), 1), total / reach(variant, 10))
                climb(point, slopes_of(zoo, codes), draw_models(zoo, variant, 10, 5, self.seed, number), size, variant)
            seen = point.features()
            found[variant] = {
                "own": _mean([fooled(zoo, seen, codes).numpy()], self.seed),
                "unseen": _mean([fooled(other, seen, codes).numpy()], self.seed),
            }
        return found

    def tables(self, found: dict[str, Any]) -> list[Table]:
        """Cosines, then fooled members."""
        from rich.table import Table

        cosines = Table(title="Cosine between the meta-train change and the meta-test step")
        for heading in ("round", "attribute", "behind the meta-train", "same member at the start"):
            cosines.add_column(heading, justify="right")
        fooling = Table(
            title=f"Share of members that guess wrong, {found['clients']} test clients, same largest change"
        )
        for heading in ("round", "attribute", "variant", "own zoo", "unseen zoo"):
            fooling.add_column(heading, justify="right")
        for row in found["rows"]:
            about = (str(row["round"]), row["attribute"])
            cosines.add_row(*about, with_interval(row["with_meta_train"]), with_interval(row["without"]))
            for variant, told in row["fooled"].items():
                fooling.add_row(*about, variant, with_interval(told["own"]), with_interval(told["unseen"]))
        return [cosines, fooling]

    def notes(self, found: dict[str, Any]) -> list[str]:
        """Say what the figures rest on."""
        lines = ["Static members only: a retrained attacker reads the printed form's changes (recup/single-attribute)."]
        return lines + [str(one["note"]) for one in found["paper"] if "note" in one]

    def draw(self, found: dict[str, Any], canvas: Any) -> None:
        """Draw both cosines by round."""
        canvas.set_size_inches(4.5, 3.2)
        axis = canvas.subplots()
        labels = [f"round {row['round']}, {row['attribute']}" for row in found["rows"]]
        for shift, key, name in ((-0.2, "with_meta_train", "behind the meta-train"), (0.2, "without", "at the start")):
            heights = [row[key]["estimate"] for row in found["rows"]]
            axis.bar([place + shift for place in range(len(labels))], heights, 0.38, label=name)
        axis.set_xticks(range(len(labels)), labels)
        axis.set_ylabel("cosine to the meta-train change")
        axis.legend(frameon=False)


def _mean(parts: list[npt.NDArray[np.floating]], seed: int) -> dict[str, float]:
    """Return the mean over clients of their mean, with a bootstrap interval over clients."""
    import numpy as np

    from fedveil.core.randomness import numpy_generator

    each = np.mean(parts, axis=0)
    draws = numpy_generator(seed, "clients").integers(len(each), size=(1000, len(each)))
    low, high = np.quantile(each[draws].mean(axis=1), [0.025, 0.975])
    return {"estimate": float(each.mean()), "low": float(low), "high": float(high)}
