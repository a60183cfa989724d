"""The experiment attri-fed-accounting: methods with their accounts, attackers on the head's outputs, and guarantees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedveil.data import Split
from fedveil.studies.units import Report
from fedveil_papers.attri_fed import accounting
from fedveil_papers.attri_fed.cases import Case, Cell, Reading
from fedveil_papers.attri_fed.study import Comparison, MethodComparison, weak_readings
from fedveil_papers.experiment import Measured
from fedveil_papers.rows import Figure, PaperFigures, Row, notes_of
from fedveil_papers.shown import with_interval

if TYPE_CHECKING:
    from rich.table import Table


def measure_and_account(payload: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Train, judge and account for one case: the task of a part."""
    case = Case.of(payload)
    trained = case.train()
    report.progress(0.4, "attacks")
    measured, data = case.judge(trained), trained.data
    report.progress(0.7, "accounting")
    after = trained.outputs and accounting.post_processed(trained.released, trained.outputs, measured.stranger, data)
    counts = np.asarray(data.attribute(case.attribute).take(data.rows(Split.TRAIN)).counts, dtype=np.float64)
    certificates = trained.shield.certificates(len(counts), counts / counts.sum())
    return {
        **trained.figures(measured),
        "accounting": accounting.account(trained.released, data, case.attribute, seed=case.seed).as_dict(),
        "post_processing": after and after.as_dict(),
        "guarantees": [certificate.as_dict() for certificate in certificates],
    }


@dataclass(frozen=True)
class OutputFigures:
    """What attackers read from the head's outputs; the fields of `PostProcessed`, read back."""

    reading: Reading
    difference: Figure | None
    bits_sent: Figure | None
    bits_outputs: Figure | None
    counted: Mapping[str, float] | None

    @classmethod
    def of(cls, figures: Mapping[str, Any]) -> OutputFigures:
        """Return them from JSON values."""
        difference, sent, outputs = (Figure.of(figures[name]) for name in ("difference", "bits_sent", "bits_outputs"))
        return cls(Reading.of(figures), difference, sent, outputs, figures["counted_bits"])

    @property
    def leakage(self) -> dict[str, Figure | None]:
        """The figures as a row names them."""
        read = {"mutual_information_bits": self.bits_outputs, "difference_to_sent": self.difference}
        return {**self.reading.leakage, **read}


@dataclass(frozen=True)
class AccountFigures:
    """A case's account: the fields of `Account`, read back, with the certified ceiling on accuracy, if there is one.

    Attributes:
        attribute_dp, information_privacy: lower bounds on ε.
        corrected_leakage, printed_leakage: Theorem 2 at that ε; not an upper bound on what leaks.
        corollary1, refuted: Corollary 1's ε, and whether counting refutes it.
        outputs: attackers on the head's outputs; None if the head reads something else than what is sent.
        accuracy_ceiling: what no attacker's accuracy exceeds, by the shield's certificate.
    """

    attribute_dp: float
    information_privacy: float
    corrected_leakage: float
    printed_leakage: float
    corollary1: float
    refuted: bool
    outputs: OutputFigures | None
    accuracy_ceiling: float | None

    @classmethod
    def of(cls, figures: Mapping[str, Any]) -> AccountFigures:
        """Return it from a part's figures."""
        proved, after = figures["accounting"], figures["post_processing"]
        ceilings = [stated["bound"] for stated in figures["guarantees"] if stated["quantity"] == "accuracy"]
        return cls(
            proved["attribute_dp"]["epsilon_at_least"],
            proved["information_privacy"]["epsilon_at_least"],
            proved["leakage_at_that_epsilon"]["corrected"],
            proved["leakage_at_that_epsilon"]["printed"],
            proved["corollary1"]["epsilon"],
            proved["corollary1"]["refuted"],
            None if after is None else OutputFigures.of(after),
            ceilings[0] if ceilings else None,
        )


@dataclass(frozen=True)
class Accounts(Comparison):
    """The results: a comparison, and an account for each of its cells."""

    accounts: Sequence[AccountFigures]

    @property
    def pairs(self) -> list[tuple[Cell, AccountFigures]]:
        """Each cell with its account."""
        return list(zip(self.cells, self.accounts, strict=True))


@dataclass(frozen=True)
class AttriFedAccounting(MethodComparison[Accounts]):
    """Methods with their accounts, attackers on the head's outputs, and guarantees; see `MethodComparison`."""

    kind: ClassVar[str] = "attri-fed-accounting"
    task: ClassVar[str] = "fedveil_papers.attri_fed.accounting_study:measure_and_account"

    def gather(self, measured: Measured, paper: PaperFigures) -> Accounts:
        """Return a cell and an account per case."""
        comparison = self.comparison(measured, paper)
        return Accounts(**vars(comparison), accounts=[AccountFigures.of(cell.figures) for cell in comparison.cells])

    def rows(self, results: Accounts) -> list[Row]:
        """Return the comparison's rows, then each account with what attackers read from the head's outputs."""
        return super().rows(results) + [
            Row(
                method=cell.method,
                task=results.task,
                attribute=results.attribute,
                attacker="retrained",
                seeds=[self.seed],
                utility={"accuracy": cell.accuracy},
                leakage=None if account.outputs is None else account.outputs.leakage,
                more={
                    "participants": cell.participants,
                    **cell.point,
                    "observer": "sender unknown",
                    "reads": "outputs",
                    "epsilon_attribute_dp_at_least": account.attribute_dp,
                    "epsilon_information_privacy_at_least": account.information_privacy,
                    "corollary1_epsilon": account.corollary1,
                    "corollary1_refuted": account.refuted,
                    "certified_accuracy": account.accuracy_ceiling,
                },
            )
            for cell, account in results.pairs
        ]

    def tables(self, results: Accounts) -> list[Table]:
        """Return two tables: accounting, and what the head's outputs reveal beside what is sent."""
        return [_accounting_table(results), _outputs_table(results)]

    def notes(self, results: Accounts) -> list[str]:
        """Say what may be concluded, and what may not."""
        equal = len({round(account.corollary1, 9) for account in results.accounts}) == 1
        value = (
            "the same number for every method here, even without protection"
            if equal
            else "computed from the prior alone"
        )
        return [
            "ε is bounded from below by counting (chosen on validation people, counted on test people, 95%): it may be "
            "larger, and no sample can say how much.",
            "The leakage bound needs an upper bound on ε. At a lower bound it is the least that the theorem could "
            "promise here, not an upper bound on what leaks. As printed, with e^+ε, it may even fall below 0.",
            f"Corollary 1's ε = ln(1/T) holds for every mechanism: {value}; it guarantees nothing.",
            "Outputs are computed from what is sent, so no attacker can gain from them (post-processing). If a "
            "difference lies above 0, the attackers on what is sent were too weak, and the larger reading counts for "
            "both.",
            *notes_of(results.paper),
        ]

    def draw(self, results: Accounts, canvas: Any) -> None:
        """Draw each method's proved ε beside Corollary 1's, and attackers' readings before and after the head."""
        left, right = canvas.subplots(1, 2)
        canvas.set_size_inches(9, 3.2)
        proved = [account.information_privacy for account in results.accounts]
        left.barh([cell.method for cell in results.cells], proved, color="steelblue")
        left.axvline(results.accounts[0].corollary1, color="grey", linestyle=":", linewidth=1)
        left.set_title("ε of information privacy, at least (dotted: Corollary 1)")
        for cell, account in results.pairs:
            figures = [cell.stranger.balanced_accuracy]
            if account.outputs is not None:
                figures.append(account.outputs.reading.balanced_accuracy)
            readings = [figure.estimate for figure in figures if figure is not None]
            right.plot(readings, [cell.method] * len(readings), marker="o", markersize=3, linewidth=1)
        right.set_title(f"{results.attribute} read from what is sent, from outputs (balanced)")


def _accounting_table(results: Accounts) -> Table:
    headings = ["method", results.task, "attackers", "weak: small network", "weak: privatiser"]
    headings += ["ε of attribute DP ≥", "ε of information privacy ≥", "leakage at that ε, corrected", "printed"]
    headings += ["Corollary 1: ε", "refuted", "rate certificate, sender known", "CERTIFIED accuracy ≤"]
    table = _empty_table(f"What is sent about {results.attribute}: accounting", headings)
    for cell, account in results.pairs:
        certified = cell.certified.get("sender known")
        table.add_row(
            cell.method,
            with_interval(cell.accuracy),
            with_interval(cell.stranger.accuracy),
            *weak_readings(cell),
            f"{account.attribute_dp:.3f}",
            f"{account.information_privacy:.3f}",
            f"{account.corrected_leakage:.2f}",
            f"{account.printed_leakage:.2f}",
            f"{account.corollary1:.3f}",
            "yes" if account.refuted else "no",
            "–" if certified is None else f"{certified:.2f}",
            "–" if account.accuracy_ceiling is None else f"{account.accuracy_ceiling:.3f}",
        )
    return table


def _outputs_table(results: Accounts) -> Table:
    headings = ["method", "sent, balanced", "outputs, balanced", "outputs − sent", "bits, sent", "bits, outputs"]
    headings += ["counted bits, sent", f"counted bits, predicted {results.task}"]
    title = f"Post-processing: {results.attribute} from the head's outputs, beside what is sent"
    table = _empty_table(title, headings)
    for cell, account in results.pairs:
        if account.outputs is None:
            continue
        counted = account.outputs.counted
        table.add_row(
            cell.method,
            with_interval(cell.stranger.balanced_accuracy),
            with_interval(account.outputs.reading.balanced_accuracy),
            with_interval(account.outputs.difference),
            with_interval(account.outputs.bits_sent),
            with_interval(account.outputs.bits_outputs),
            *("–" if counted is None else f"{counted[name]:.3f}" for name in ("sent", "prediction")),
        )
    return table


def _empty_table(title: str, headings: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(title=title)
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "method" else "right")
    return table
