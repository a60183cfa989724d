"""A panel's findings: every figure is an estimate against the attackers tried, never a guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table
from rich.text import Text

from fedveil.core.arrays import FloatArray
from fedveil.core.figures import Estimate

_RISES = 0.01
"""The gain in balanced accuracy from twice as many people above which attackers are said to be still learning."""

FRESH = " (fresh people)"
"""Ends the name of an attacker that learned from people on whom the defence was never fitted."""


@dataclass(frozen=True)
class AttackerFigures:
    """One attacker's figures on the victims.

    Attributes:
        name: the attacker's name.
        accuracy: the share of right guesses.
        gap: accuracy minus prior.
        balanced_accuracy: the mean over values of the share of right guesses.
        auc: the mean over values of the area under the ROC curve.
        advantage: (K · balanced accuracy − 1)/(K − 1).
        mutual_information_bits: an estimated lower bound on I(u; r).
        validation_balanced_accuracy: the figure by which it was chosen.
    """

    name: str
    accuracy: Estimate
    gap: Estimate
    balanced_accuracy: Estimate
    auc: Estimate
    advantage: Estimate
    mutual_information_bits: Estimate
    validation_balanced_accuracy: float

    def __repr__(self) -> str:
        return f"AttackerFigures({self.name!r}, balanced accuracy {self.balanced_accuracy}, accuracy {self.accuracy})"

    def as_dict(self) -> dict[str, Any]:
        """Return the figures in the form of every `--json` output."""
        figures = {name: value.as_dict() for name, value in vars(self).items() if isinstance(value, Estimate)}
        return {"name": self.name, **figures, "validation_balanced_accuracy": self.validation_balanced_accuracy}


@dataclass(frozen=True)
class Beyond:
    """What the vectors add to columns that the attacker already knew, paired over the same victims.

    Attributes:
        columns: the columns' names.
        baseline: the figures of the strongest attacker that saw these columns alone.
        balanced_accuracy, auc, mutual_information_bits: the differences from the baseline.
    """

    columns: tuple[str, ...]
    baseline: AttackerFigures
    balanced_accuracy: Estimate
    auc: Estimate
    mutual_information_bits: Estimate

    def as_dict(self) -> dict[str, Any]:
        """Return the differences in the form of every `--json` output."""
        return {
            "columns": list(self.columns),
            "baseline": self.baseline.as_dict(),
            "balanced_accuracy": self.balanced_accuracy.as_dict(),
            "auc": self.auc.as_dict(),
            "mutual_information_bits": self.mutual_information_bits.as_dict(),
        }


@dataclass(frozen=True)
class Judgement:
    """The panel's findings about one attribute; `worst` is the attacker that counts.

    Attributes:
        attribute, classes: the attribute and its values' names.
        n: labelled records by pool: auxiliary, validation, victims.
        unlabelled: how many records were left out because they have no value.
        groups: how many groups the victims form, or None.
        prior: accuracy of always guessing the most frequent value.
        attackers: all that were tried, the strongest on victims first. The interval of its balanced accuracy and
            advantage holds although the largest was taken; other intervals are for each attacker alone.
        mutual_information_bits: the most that an attacker's posterior gains; an estimated lower bound, whose interval
            holds although the largest was taken.
        mutual_information_attacker: that attacker's name.
        detectable_advantage: the smallest advantage that this many victims could have shown (power 0.8).
        p_value: the probability of a balanced accuracy this high if what the attackers saw carried no information.
        adjusted_p_value: the same, corrected (Holm) for all attributes that are judged together.
        confidence: level of the intervals; above 0.95 if several attributes share the error (Bonferroni).
        seed: all randomness derives from it.
        chosen: the panel's attacker that is strongest on validation people, with its figures on victims; None in
            results of older versions.
        validation_leakage: its balanced accuracy on validation people. Only this figure may decide between releases.
        learned_from: how many people (or groups) the strongest attacker learned from; None if unknown.
        from_half: its balanced accuracy if it learns from half as many; None if not tried.
        notes: what attackers left out.
        beyond: what the vectors add to what the attacker knew, if columns were given.
        draws: "balanced_accuracy" and "accuracy" of the strongest attacker on the victims (entry 0) and on each
            bootstrap draw of them. For one seed and attribute the draws are the same victims, so differences
            between judgements of the same people are paired.
    """

    attribute: str
    classes: tuple[str, ...]
    n: tuple[int, int, int]
    unlabelled: int
    groups: int | None
    prior: Estimate
    attackers: tuple[AttackerFigures, ...]
    mutual_information_bits: Estimate
    mutual_information_attacker: str
    detectable_advantage: float
    p_value: float
    adjusted_p_value: float
    confidence: float
    seed: int
    chosen: AttackerFigures | None = None
    validation_leakage: Estimate | None = None
    learned_from: int | None = None
    from_half: float | None = None
    notes: tuple[str, ...] = ()
    beyond: Beyond | None = None
    draws: dict[str, FloatArray] = field(default_factory=dict, repr=False, compare=False)

    def __repr__(self) -> str:
        worst = self.worst
        return f"Judgement({self.attribute!r}, {worst.name}: balanced accuracy {worst.balanced_accuracy})"

    @property
    def worst(self) -> AttackerFigures:
        """The attacker that counts: of all that were tried, the one that guesses the victims best."""
        return self.attackers[0]

    @property
    def chosen_name(self) -> str:
        """The name of the attacker chosen on validation; older results list it first."""
        return self.worst.name if self.chosen is None else self.chosen.name

    @property
    def still_rises(self) -> bool:
        """Whether half as many people read over a point less, so that more people would probably read more."""
        return self.from_half is not None and self.worst.balanced_accuracy.estimate - self.from_half > _RISES

    def as_dict(self) -> dict[str, Any]:
        """Return the judgement in the form of every `--json` output."""
        figures: dict[str, Any] = {
            "attribute": self.attribute,
            "n": sum(self.n),
            "classes": list(self.classes),
            "prior": self.prior.as_dict(),
            "worst": self.worst.as_dict() | self._selected_by(),
            "attackers": [attacker.as_dict() for attacker in self.attackers],
            "mutual_information_bits": self.mutual_information_bits.as_dict(),
            "mutual_information_attacker": self.mutual_information_attacker,
            "detectable_advantage": self.detectable_advantage,
            "p_value": self.p_value,
            "adjusted_p_value": self.adjusted_p_value,
            "split": dict(zip(("auxiliary", "validation", "victims"), self.n, strict=True)),
            "groups": self.groups,
            "unlabelled": self.unlabelled,
            "confidence": self.confidence,
            "seed": self.seed,
            "learned_from": self.learned_from,
            "from_half": self.from_half,
            "notes": list(self.notes),
            "kind": "estimate, against the attackers tried",
        }
        if self.chosen:
            figures["chosen"] = self.chosen.as_dict()
        return figures | ({"beyond": self.beyond.as_dict()} if self.beyond else {})

    def _selected_by(self) -> dict[str, Any]:
        """Return the figure on validation people to show with the attacker that counts."""
        chosen = self.validation_leakage
        if chosen is None:
            return {}
        return {"validation_balanced_accuracy": chosen.estimate, "validation_interval": chosen.as_dict()}

    def in_words(self) -> list[str]:
        """Return what the figures mean, as sentences."""
        worst, chance = self.worst, 1 / len(self.classes)
        p_value = f"p = {self.adjusted_p_value:.2g}" if self.adjusted_p_value > 1e-12 else "p < 1e-12"
        lines = [
            f"{self.attribute}: the strongest of {len(self.attackers)} attackers ({worst.name}) reads it at balanced "
            f"accuracy {worst.balanced_accuracy.estimate:.3f}, where guessing gives {chance:.3f}, and gains "
            f"{worst.mutual_information_bits.estimate:.3f} bits.",
            f"{self.n[2]:,} victims could have shown an advantage of {self.detectable_advantage:.3f} or more; guessing "
            f"alone would look this good with {p_value}.",
        ]
        if self.chosen and self.chosen.name != worst.name:
            lines.insert(1, f"The one chosen on validation ({self.chosen.name}) reads {self.chosen.balanced_accuracy}.")
        lines += self._on_learning()
        if self.mutual_information_attacker != worst.name:
            lines.append(f"Most bits were read by {self.mutual_information_attacker}: {self.mutual_information_bits}.")
        if len(self.classes) <= 12:
            lines.append(f"Values of {self.attribute}: {'; '.join(self.classes)}.")
        if self.unlabelled:
            lines.append(f"{self.unlabelled:,} records without a label were left out.")
        if self.beyond:
            lines.append(
                f"Beyond {', '.join(self.beyond.columns)} (read at {self.beyond.baseline.balanced_accuracy} from these "
                f"alone), the vectors add {self.beyond.balanced_accuracy} of balanced accuracy and "
                f"{self.beyond.mutual_information_bits} bits."
            )
        return lines

    def _on_learning(self) -> list[str]:
        """Return from how many people the strongest attacker learned, if more would help, and what was left out."""
        if self.learned_from is None:
            return []
        what = "people" if self.groups is None else "groups"
        line = f"It learned from {self.learned_from:,} {what}"
        if self.from_half is None:
            line += "; fewer were not tried."
        elif self.still_rises:
            line += f"; from half as many it reads {self.from_half:.3f}: still rising, so more people would read more."
        else:
            line += f"; from half as many it reads {self.from_half:.3f}, so more people would hardly read more."
        return [line, *(f"Note: {note}." for note in self.notes)]

    def __str__(self) -> str:
        worst = self.worst
        return (
            f"{self.attribute}: {worst.name} reads it at balanced accuracy {worst.balanced_accuracy} "
            f"(chance {1 / len(self.classes):.3f}); accuracy {worst.accuracy}, prior {self.prior.estimate:.3f}; "
            f"advantage {worst.advantage}; information {self.mutual_information_bits} bits "
            f"(estimate, against the attackers tried)"
        )


@dataclass(frozen=True)
class Decensoring:
    """The figures of de-censoring and of an attacker of equal capacity, and the difference, paired over victims.

    Attributes:
        attribute: the attribute that was attacked.
        attack: the figures of de-censoring.
        control: the figures of the attacker of equal capacity.
        gain: the difference in balanced accuracy.
    """

    attribute: str
    attack: AttackerFigures
    control: AttackerFigures
    gain: Estimate

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "attribute": self.attribute,
            "attack": self.attack.as_dict(),
            "control": self.control.as_dict(),
            "gain": self.gain.as_dict(),
        }


def as_table(judgement: Judgement) -> Table:
    """Return a judgement as a table for the terminal, strongest attacker first."""
    level = f"{100 * judgement.confidence:.4g}%"
    table = Table(title=Text(f"What the vectors say about {judgement.attribute}"), title_justify="left")
    table.add_column("attacker")
    for heading in ("balanced accuracy", "accuracy", "AUC", "advantage", "information (bits)"):
        table.add_column(heading, justify="right")
    for rank, attacker in enumerate(judgement.attackers):
        figures: Sequence[Estimate] = (
            attacker.balanced_accuracy,
            attacker.accuracy,
            attacker.auc,
            attacker.advantage,
            attacker.mutual_information_bits,
        )
        table.add_row(Text(attacker.name), *map(str, figures), style="bold" if rank == 0 else None)
    chance = 1 / len(judgement.classes)
    table.add_row(
        "(guessing)", f"{chance:.3f}", f"{judgement.prior.estimate:.3f}", "0.500", "0.000", "0.000", style="dim"
    )
    table.caption = (
        f"Estimates against the attackers tried, not guarantees; {level} intervals over {judgement.n[2]:,} victims"
        + (f" in {judgement.groups:,} groups" if judgement.groups is not None else "")
        + ". The strongest comes first; its interval of balanced accuracy holds although the largest was taken."
    )
    table.caption_justify = "left"
    return table
