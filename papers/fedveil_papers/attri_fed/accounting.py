"""Attri-Fed's privacy accounting: ε from below, what the paper's formulas make of it, post-processing, guarantees.

Symbols: ŷ is what is sent, u the attribute, v̂ the head's outputs, a function of ŷ; ε in nats, leakage in bits.

* Attribute DP (Attri-Fed, Definition 2, as it must read): P(E|u) ≤ e^ε·P(E|u′) for all events E. The true ε is a
  supremum that no sample of ŷ bounds from above; counting an event proves a *lower* bound. The event is a threshold on
  ŷ, or on the posterior of a network fitted on training people; it is chosen on validation people and counted on test
  people.
* Per-record leakage (Theorem 2) is a function of an *upper* bound on ε. At a lower bound it is only the least that the
  theorem could promise here, and no upper bound on what leaks.
* Corollary 1's ε = ln(1/T) is computed from the prior alone: every mechanism gets the same number, the one without
  protection included, and counting may refute it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedveil.attacks import Judgement, panel
from fedveil.certificates.epsilon_audit import EpsilonLowerBound, audit_attribute_dp, audit_information_privacy
from fedveil.certificates.information_privacy import (
    corrected_leakage_bound,
    printed_corollary1_epsilon,
    printed_leakage_bound,
)
from fedveil.core.arrays import FloatArray
from fedveil.core.entropy import entropy, plug_in_mutual_information
from fedveil.core.errors import InputError
from fedveil.core.figures import Estimate
from fedveil.core.learning import Recipe, fit_network, log_posterior
from fedveil.core.measures import interval
from fedveil.core.randomness import numpy_generator
from fedveil.core.standardise import Standardiser
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.rate.measuring import Released, server_view
from fedveil_papers.attri_fed.study import AttriFedStudy, Method, weak_reading
from fedveil_papers.shown import with_interval

if TYPE_CHECKING:
    from rich.table import Table

_READER = Recipe(hidden=(256, 128), learning_rate=1e-3)


@dataclass(frozen=True)
class Account:
    """What counting proved about ε, and what the paper's formulas make of it; none of it guarantees privacy.

    Attributes:
        attribute_dp, information_privacy: lower bounds on ε by event counting.
        attribute_entropy: H(u) of training people, in bits.
        corollary1: ln(1/T), from the prior alone.
    """

    attribute_dp: EpsilonLowerBound
    information_privacy: EpsilonLowerBound
    attribute_entropy: float
    corollary1: float

    @property
    def corrected_leakage(self) -> float:
        """Theorem 2, corrected, at the proved ε: the least that it could promise, no upper bound on what leaks."""
        return corrected_leakage_bound(self.information_privacy.epsilon, self.attribute_entropy)

    @property
    def printed_leakage(self) -> float:
        """Theorem 2 as printed, at the same ε."""
        return printed_leakage_bound(self.information_privacy.epsilon, self.attribute_entropy)

    @property
    def refutes_corollary1(self) -> bool:
        """Whether the proved ε of information privacy exceeds the one that Corollary 1 states."""
        return self.information_privacy.epsilon > self.corollary1

    def as_dict(self) -> dict[str, Any]:
        """Return the form that presets keep."""
        return {
            "attribute_dp": self.attribute_dp.as_dict(),
            "information_privacy": self.information_privacy.as_dict(),
            "attribute_entropy_bits": self.attribute_entropy,
            "leakage_at_that_epsilon": {
                "corrected": self.corrected_leakage,
                "printed": self.printed_leakage,
                "upper_bound": False,
            },
            "corollary1": {"epsilon": self.corollary1, "refuted": self.refutes_corollary1, "guarantees": "nothing"},
        }


def account(
    released: Released, data: AttributeData, attribute: str, *, confidence: float = 0.95, seed: int = 0
) -> Account:
    """Count events of what is sent, for an observer who does not know the sender."""
    secret = data.attribute(attribute)
    codes = {split: secret.codes[data.rows(split)] for split in Split}
    if min(codes[split].min() for split in Split) < 0:
        raise InputError(f"accounting: some records lack {attribute}; leave them out")
    scale = Standardiser.fit(released.values[Split.TRAIN])
    seen = {split: scale.apply(released.values[split]) for split in Split}
    train, validation = ((seen[split], codes[split]) for split in (Split.TRAIN, Split.VALIDATION))
    reader = fit_network(train, validation, len(secret.values), _READER, even=False, seed=seed)
    choosing, counting = (
        (np.hstack([seen[split], log_posterior(reader, seen[split])]), codes[split])
        for split in (Split.VALIDATION, Split.TEST)
    )
    rng = numpy_generator(seed, "accounting", attribute)
    shares = np.bincount(codes[Split.TRAIN], minlength=len(secret.values)) / len(codes[Split.TRAIN])
    return Account(
        audit_attribute_dp(*choosing, rng, confidence=confidence, counted_on=counting),
        audit_information_privacy(*choosing, rng, confidence=confidence, counted_on=counting),
        entropy(shares),
        printed_corollary1_epsilon(shares),
    )


@dataclass(frozen=True)
class PostProcessed:
    """Attackers retrained on the head's outputs beside those on ŷ: what is computed from ŷ reveals no more than ŷ.

    Attributes:
        outputs: the panel's judgement of u from v̂.
        difference: balanced accuracy from v̂ less that from ŷ, paired over the same test people.
        bits_sent, bits_outputs: information that attackers read from ŷ and from v̂.
        counted: plug-in I(u; ŷ) and I(u; predicted v) by frequencies of the test people, where ŷ takes few values; the
            second never exceeds the first, since the prediction is a function of ŷ. Both overestimate.
    """

    outputs: Judgement
    difference: Estimate
    bits_sent: Estimate
    bits_outputs: Estimate
    counted: tuple[float, float] | None

    def as_dict(self) -> dict[str, Any]:
        """Return the form that presets keep."""
        worst = self.outputs.worst
        return {
            "attacker": worst.name,
            "accuracy": worst.accuracy.as_dict(),
            "balanced_accuracy": worst.balanced_accuracy.as_dict(),
            "difference": self.difference.as_dict(),
            "bits_sent": self.bits_sent.as_dict(),
            "bits_outputs": self.bits_outputs.as_dict(),
            "counted_bits": self.counted and dict(zip(("sent", "prediction"), self.counted, strict=True)),
        }


def post_processed(
    released: Released, outputs: dict[Split, FloatArray], sent: Judgement, data: AttributeData
) -> PostProcessed:
    """Judge the head's outputs by the same attackers, with the same seed, as what is sent."""
    names = tuple(attacker.name for attacker in sent.attackers)
    draws = len(sent.draws["balanced_accuracy"]) - 1
    judges = panel(names, seed=sent.seed, draws=draws, confidence=sent.confidence)
    view = server_view(replace(released, values=outputs), data, sent.attribute, known=False)
    after = judges.judge(view, sent.attribute)
    difference = after.draws["balanced_accuracy"] - sent.draws["balanced_accuracy"]
    return PostProcessed(
        after,
        interval(difference, sent.confidence),
        sent.mutual_information_bits,
        after.mutual_information_bits,
        _counted(released, outputs, data, sent.attribute),
    )


def _counted(
    released: Released, outputs: dict[Split, FloatArray], data: AttributeData, attribute: str
) -> tuple[float, float] | None:
    values = released.values[Split.TEST]
    codes = np.unique(values, axis=0, return_inverse=True)[1].reshape(-1)
    if released.reach is None or codes.max() + 1 > len(values) // 10:
        return None  # nearly every record has another value: frequencies say nothing
    u = data.attribute(attribute).codes[data.rows(Split.TEST)]
    return plug_in_mutual_information(u, codes), plug_in_mutual_information(u, outputs[Split.TEST].argmax(axis=1))


@dataclass(frozen=True)
class AttriFedAccounting(AttriFedStudy):
    """An Attri-Fed study whose rows also carry "accounting", "post_processing" and the shield's "guarantees".

    Settings are those of `AttriFedStudy`.
    """

    kind: ClassVar[str] = "attri-fed-accounting"

    def _measure(self, method: Method, game: dict[str, Any], participants: int, samples: int) -> dict[str, Any]:
        data = self._load(method, participants * samples)
        trained = self._train(method, game, data, participants)
        measured = trained.measure(data, self.attribute, self.panel, self.seed)
        after = trained.outputs and post_processed(trained.released, trained.outputs, measured.stranger, data)
        counts = np.asarray(data.attribute(self.attribute).take(data.rows(Split.TRAIN)).counts, dtype=np.float64)
        certificates = trained.shield.certificates(len(counts), counts / counts.sum())
        return {
            **trained.figures(measured, data),
            "accounting": account(trained.released, data, self.attribute, seed=self.seed).as_dict(),
            "post_processing": after and after.as_dict(),
            "guarantees": [certificate.as_dict() for certificate in certificates],
        }

    def tables(self, found: dict[str, Any]) -> list[Table]:
        """Return two tables: accounting, and what the head's outputs reveal beside what is sent."""
        from rich.table import Table

        accounting = Table(title=f"What is sent about {found['attribute']}: accounting")
        headings = ["method", found["task"], "attackers", "weak: small network", "weak: privatiser"]
        headings += ["ε of attribute DP ≥", "ε of information privacy ≥", "leakage at that ε, corrected", "printed"]
        headings += ["Corollary 1: ε", "refuted", "rate certificate, sender known", "CERTIFIED accuracy ≤"]
        post_processing = Table(
            title=f"Post-processing: {found['attribute']} from the head's outputs, beside what is sent"
        )
        after_headings = ["method", "sent, balanced", "outputs, balanced", "outputs − sent", "bits, sent"]
        after_headings += ["bits, outputs", "counted bits, sent", f"counted bits, predicted {found['task']}"]
        for table, names in ((accounting, headings), (post_processing, after_headings)):
            for name in names:
                table.add_column(name, justify="left" if name == "method" else "right")
        for row in found["rows"]:
            proved, leakage = row["accounting"], row["accounting"]["leakage_at_that_epsilon"]
            ceilings = [
                f"{certificate['bound']:.3f}"
                for certificate in row["guarantees"]
                if certificate["quantity"] == "accuracy"
            ]
            accounting.add_row(
                row["method"],
                with_interval(row["accuracy"]),
                with_interval(row["stranger"]["accuracy"]),
                *(weak_reading(row, name) for name in ("network", "privatiser")),
                *(f"{proved[name]['epsilon_at_least']:.3f}" for name in ("attribute_dp", "information_privacy")),
                *(f"{leakage[name]:.2f}" for name in ("corrected", "printed")),
                f"{proved['corollary1']['epsilon']:.3f}",
                "yes" if proved["corollary1"]["refuted"] else "no",
                f"{row['certificates']['sender known']['bound']:.2f}" if row["certificates"] else "–",
                ceilings[0] if ceilings else "–",
            )
            after = row["post_processing"]
            if after is None:
                continue
            counted = after["counted_bits"] or {}
            post_processing.add_row(
                row["method"],
                with_interval(row["stranger"]["balanced_accuracy"]),
                with_interval(after["balanced_accuracy"]),
                with_interval(after["difference"]),
                with_interval(after["bits_sent"]),
                with_interval(after["bits_outputs"]),
                *(f"{counted[name]:.3f}" if counted else "–" for name in ("sent", "prediction")),
            )
        return [accounting, post_processing]

    def notes(self, found: dict[str, Any]) -> list[str]:
        """Say what may be concluded, and what not."""
        same = len({round(row["accounting"]["corollary1"]["epsilon"], 9) for row in found["rows"]}) == 1
        value = (
            "the same number for every method here, no protection included" if same else "computed from the prior alone"
        )
        return [
            "ε is bounded from below by counting (chosen on validation people, counted on test people, 95%): it may be "
            "larger, and no sample can say how much.",
            "The leakage bound needs an upper bound on ε. At a lower bound it is the least that the theorem could "
            "promise here: no upper bound on what leaks. As printed, with e^+ε, it may even fall below 0.",
            f"Corollary 1's ε = ln(1/T) holds for every mechanism: {value}; it guarantees nothing.",
            "Outputs are computed from what is sent: no attacker can gain by them (post-processing). Where a "
            "difference lies above 0, the attackers on what is sent were too weak, and the larger reading counts for "
            "both.",
            *(str(printed["note"]) for printed in found["paper"] if "note" in printed),
        ]

    def draw(self, found: dict[str, Any], canvas: Any) -> None:
        """Draw each method's proved ε beside Corollary 1's, and attackers' readings before and after the head."""
        left, right = canvas.subplots(1, 2)
        canvas.set_size_inches(9, 3.2)
        rows = found["rows"]
        proved = [row["accounting"]["information_privacy"]["epsilon_at_least"] for row in rows]
        left.barh([row["method"] for row in rows], proved, color="steelblue")
        left.axvline(rows[0]["accounting"]["corollary1"]["epsilon"], color="grey", linestyle=":", linewidth=1)
        left.set_title("ε of information privacy, at least (dotted: Corollary 1)")
        for row in rows:
            readings = [row["stranger"]["balanced_accuracy"]["estimate"]]
            readings += [row["post_processing"]["balanced_accuracy"]["estimate"]] if row["post_processing"] else []
            right.plot(readings, [row["method"]] * len(readings), marker="o", markersize=3, linewidth=1)
        right.set_title(f"{found['attribute']} read from what is sent, from outputs (balanced)")
