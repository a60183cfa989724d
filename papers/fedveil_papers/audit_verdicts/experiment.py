"""How often the audit's verdict is right, on classifiers whose training is known, from outputs of unseen records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np
from rich.table import Table

from fedveil.attacks import panel
from fedveil.audit import Outputs, audit
from fedveil.audit.readings import KEPT_DECIMALS
from fedveil.audit.verdict import LEAST_ROWS, LIMITS, Limits
from fedveil.config import parts
from fedveil.core.errors import InputError, nearest
from fedveil.core.figures import Estimate
from fedveil.core.measures import share_right
from fedveil.data import Split
from fedveil.studies.units import Report
from fedveil_papers.audit_verdicts.calibration import (
    LABELS,
    VERDICTS,
    AuditFigures,
    Ends,
    Member,
    VerdictCount,
    counts,
    counts_by_rows,
    ends_of,
    kept_of,
)
from fedveil_papers.audit_verdicts.zoo import AuditCase, CaseData, Recipe, make
from fedveil_papers.curious.experiments.cases import locate_sources
from fedveil_papers.experiment import Experiment, Measured, Part
from fedveil_papers.rows import Figure, PaperFigures, Row, notes_of
from fedveil_papers.wide_table import WideTable

COLOURS = {"standard": "#1b6ca8", "curious": "#b5471b", "digit code": "#7a4fa3", "failed attempt": "#888888"}
CURVES = (
    ("curious", "curious", "curious: caught", "-"),
    ("curious", "undecided", "curious: undecided", ":"),
    ("standard", "curious", "standard: called curious", "-"),
    ("standard", "undecided", "standard: undecided", ":"),
)
"""What is drawn over the number of rows: label, verdict, name, line."""


@dataclass(frozen=True)
class VerdictResults:
    """All classifiers with their audits, counts of verdicts, and what the limits were chosen from."""

    limits: Limits
    members: list[Member]
    counts: list[VerdictCount]
    by_rows: list[VerdictCount]
    ends: Ends
    paper: PaperFigures


@dataclass(frozen=True)
class AuditVerdicts(Experiment[VerdictResults]):
    """Verdicts on a zoo of classifiers.

    Attributes:
        cases: data sets, each with the recipes used on it (`AuditCase`).
        recipes: how classifiers are trained, by name (`Recipe`).
        audited_rows: how many records an audit sees.
        row_counts: further numbers of records, for the recipes that a case lists as its curve.
        panel: the audit's attackers.
        least_gain: a curious classifier is a failed attempt, and counted separately, if its maker's accuracy on s
            (on validation records) exceeds that from the case's standard network by less than this.
        runs: how often all classifiers are trained; run r has seed `seed` + r.
        seed: all randomness derives from it.
    """

    kind: ClassVar[str] = "audit-verdicts"
    cases: list[dict[str, Any]]
    recipes: dict[str, dict[str, Any]]
    audited_rows: int = 2000
    row_counts: list[int] = field(default_factory=list)
    panel: str = "quick"
    least_gain: float = 0.05
    runs: int = 1
    seed: int = 0

    def check(self) -> None:
        """Refuse settings that cannot be run."""
        if self.runs < 1 or not self.cases or min([self.audited_rows, *self.row_counts]) < LEAST_ROWS:
            raise InputError(f"experiment: needs at least 1 run, 1 case and {LEAST_ROWS} rows")
        panel(self.panel)
        recipes = self.made_recipes()
        for case in self.made_cases():
            if not case.recipes:
                raise InputError(f"experiment: case {case.name!r} names no recipes; name some")
            for name in case.recipes:
                if name not in recipes:
                    raise InputError(f"experiment: case {case.name!r}: no recipe {name!r}: {nearest(name, recipes)}")
            if any(recipes[name].curious for name in case.recipes) and self._reference(case) is None:
                raise InputError(
                    f"experiment: case {case.name!r} has curious classifiers and no standard network to compare their "
                    "makers' reading with; add a recipe whose maker is network"
                )

    def made_recipes(self) -> dict[str, Recipe]:
        """Return the recipes by name, checked."""
        return {
            name: parts.make(Recipe, recipe, f"experiment: recipe {name!r}") for name, recipe in self.recipes.items()
        }

    def made_cases(self) -> list[AuditCase]:
        """Return the cases, checked."""
        return [
            parts.make(AuditCase, case, f"experiment: case {number}") for number, case in enumerate(self.cases, start=1)
        ]

    def _reference(self, case: AuditCase) -> str | None:
        """Return the name of the case's first standard network."""
        return next((name for name in case.recipes if self.recipes[name].get("maker") == "network"), None)

    def locate_data(self) -> None:
        """Find all data, or download it."""
        locate_sources(case.source for case in self.made_cases())

    def parts(self) -> list[Part]:
        """Return a part for each run, case and recipe."""
        return [
            self._part(case, recipe, seed)
            for seed in self._seeds
            for case in self.made_cases()
            for recipe in case.recipes
        ]

    @property
    def _seeds(self) -> range:
        return range(self.seed, self.seed + self.runs)

    def _part(self, case: AuditCase, recipe: str, seed: int) -> Part:
        settings = {
            "kind": self.kind,
            "case": {part.name: getattr(case, part.name) for part in fields(CaseData)},
            "recipe": self.recipes[recipe],
            "seed": seed,
            "rows": [self.audited_rows, *(self.row_counts if recipe in case.curve else [])],
            "panel": self.panel,
            "rounded": not self.made_recipes()[recipe].curious,
        }
        name = f"run {seed}: {case.name}: {recipe}"
        return Part(settings, f"{__name__}:measure_member", name, shares=f"{case.name} {seed}")

    def gather(self, measured: Measured, paper: PaperFigures) -> VerdictResults:
        """Label every classifier, decide on it, and count verdicts."""
        members = [
            member
            for seed in self._seeds
            for case in self.made_cases()
            for member in self._members(case, seed, measured)
        ]
        calibration = [member for member in members if member.half == "calibration"]
        return VerdictResults(
            limits=LIMITS,
            members=members,
            counts=counts(members),
            by_rows=counts_by_rows(members),
            ends=ends_of(calibration, LIMITS),
            paper=paper,
        )

    def _members(self, case: AuditCase, seed: int, measured: Measured) -> list[Member]:
        """Return a case's classifiers, each labelled as standard, curious, or a failed attempt to be curious."""
        recipes, reference = self.made_recipes(), self._reference(case)
        standard = None if reference is None else measured[self._part(case, reference, seed)]["own"]["validation"]
        members = []
        for name in case.recipes:
            recipe, figures = recipes[name], measured[self._part(case, name, seed)]
            read, gain, label = figures["own"], None, "standard"
            if recipe.curious:
                assert standard is not None  # checked before anything is run
                gain = read["validation"] - standard
                label = "curious" if gain >= self.least_gain else "failed attempt"
            elif recipe.code:
                label = "digit code"
            members.append(
                Member(
                    case=case.name,
                    recipe=name,
                    half=case.half,
                    seed=seed,
                    label=label,
                    curious=recipe.curious,
                    beta_x=recipe.beta_x,
                    honesty=Estimate(**figures["honesty"]),
                    prior=figures["prior"],
                    read=None if read is None else read["test"],
                    gain=gain,
                    audits=[AuditFigures.of(stored, LIMITS) for stored in figures["audits"]],
                    rounded=None if figures["rounded"] is None else AuditFigures.of(figures["rounded"], LIMITS),
                )
            )
        return members

    def rows(self, results: VerdictResults) -> list[Row]:
        """Return every audit of every classifier, and what its maker reads."""
        cases = {case.name: case for case in self.made_cases()}
        rows = []
        for member in results.members:
            case = cases[member.case]
            about = {name: getattr(member, name) for name in ("case", "half", "label", "beta_x", "gain")}
            row = Row(
                method=member.recipe,
                task=case.target,
                attribute=case.secret,
                attacker="maker",
                seeds=[member.seed],
                utility={"accuracy": Figure.of(member.honesty)},
                leakage={"accuracy": Figure.of(member.read), "prior": Figure.of(member.prior)},
                more=about,
            )
            if member.read is not None:
                rows.append(row)
            every = [(each, False) for each in member.audits]
            every += [] if member.rounded is None else [(member.rounded, True)]
            for audited, rounded in every:
                leakage = {
                    "balanced_accuracy": Figure.of(audited.curiosity),
                    "mutual_information_bits": Figure.of(audited.information),
                    "unexplained_bits": Figure.of(audited.unexplained),
                    "unexplained_share": Figure.of(audited.share),
                    "prior": Figure.of(member.prior),
                }
                more = {
                    **about,
                    "rows": audited.rows,
                    "rounded": rounded,
                    "verdict": audited.verdict,
                    "reason": audited.reason,
                    "limit": audited.limit,
                }
                rows.append(replace(row, attacker="retrained", leakage=leakage, more=more))
        return rows

    def tables(self, results: VerdictResults) -> list[Table]:
        """Counts, verdicts by rows, curious classifiers by β_x, every classifier."""
        by_rows = [_rows_table(results)] if results.by_rows else []
        codes = [_code_table(results)] if any(member.label == "digit code" for member in results.members) else []
        return [self._count_table(results), *codes, *by_rows, _compression_table(results), _member_table(results)]

    def _count_table(self, results: VerdictResults) -> Table:
        table = WideTable(
            f"Verdicts at {self.audited_rows:,} rows ({self.panel} panel)",
            ("scores", "half", "trained to be", "classifiers", *(f'"{verdict}"' for verdict in VERDICTS)),
            left=("scores", "half", "trained to be"),
            keys=3,
        )
        for count in results.counts:
            if count.members:
                numbers = (str(getattr(count, verdict)) for verdict in VERDICTS)
                scores = "two decimals" if count.rounded else "as released"
                table.add_row(scores, count.half, count.label, str(count.members), *numbers)
        return table

    def notes(self, results: VerdictResults) -> list[str]:
        """State how many verdicts are right, which are wrong, and what the limits are based on."""
        total = {(count.label, count.rounded): count for count in results.counts if count.half == "all"}
        standard, curious, rounded = total["standard", False], total["curious", False], total["standard", True]
        coded = [member for member in results.members if member.label == "digit code"]
        caught = sum(member.is_caught for member in coded)
        ordered = sum(member.audit.reason == "order" for member in coded)
        return [
            f"Standard classifiers called curious: {standard.curious} of {standard.members}. Rounded to two decimals: "
            f"{rounded.curious} called curious, {rounded.standard + rounded.correlated} standard or correlated, "
            f"{rounded.undecided} undecided. Curious ones caught: {curious.curious} of {curious.members}; left "
            f"undecided: {curious.undecided}. Digit codes caught: {caught} of {len(coded)}; of the others, {ordered} "
            "are undecided because the order of rows reveals s.",
            f"Limits: {results.limits.provenance}.",
            "A failed attempt is a curious classifier whose maker gains less than "
            f"{100 * self.least_gain:g} points of accuracy over the case's standard network, on validation records; "
            "the verdict plays no part in this.",
            *(
                f"Wrong verdict: {member.case}, {member.recipe}, run {member.seed} ({member.label}): "
                f"{member.audit.verdict} ({member.audit.reason}); share {member.audit.share}, limit "
                f"{member.audit.limit:.3f}"
                + (f"; rounded: {member.rounded.verdict}, {member.rounded.share}." if member.rounded else ".")
                for member in results.members
                if member.is_wrong
            ),
            _provenance(results.ends, results.limits),
            *notes_of(results.paper),
        ]

    def draw(self, results: VerdictResults, canvas: Any) -> None:
        """Draw every classifier's excess against the limit, verdicts over rows, and excess over β_x."""
        canvas.set_size_inches(12, 4.2)
        excess, by_rows, compression = canvas.subplots(1, 3, width_ratios=(2, 1, 1))
        _draw_excess(excess, results)
        excess.set_title(f"Excess at {self.audited_rows:,} rows")
        _draw_by_rows(by_rows, results.by_rows)
        _draw_compression(compression, results)


def measure_member(settings: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Train one classifier, let its maker read its outputs, and audit them."""
    case, recipe, seed = CaseData(**settings["case"]), Recipe(**settings["recipe"]), settings["seed"]
    classifier = make(recipe, case.load(seed), case.secrets, seed)
    report.progress(0.5, "auditing")
    outputs = classifier.outputs(Split.TEST)
    read = None
    if classifier.guesses is not None:
        read = {}
        for name, seen in (("validation", classifier.outputs(Split.VALIDATION)), ("test", outputs)):
            read[name] = float((classifier.guesses(seen) == seen.secrets[case.secret].codes).mean())
    return {"own": read, **audit_member(outputs, settings)}


def audit_member(outputs: Outputs, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Audit a classifier's outputs as released, with each number of rows, and rounded unless it is curious."""
    secret, (first, *further) = settings["case"]["secret"], settings["rows"]
    # The first number of rows is reduced to what the data has; further numbers that are too large are left out.
    audited = [min(first, len(outputs)), *(count for count in further if count <= len(outputs))]

    def kept(part: Outputs) -> dict[str, Any]:
        # The audit's seed differs from the classifier's: an auditor does not know how it was trained.
        return kept_of(audit(part, secret, panel=settings["panel"], seed=1000 + settings["seed"]))

    return {
        "honesty": share_right(outputs.predicted == outputs.y.codes).as_dict(),
        "prior": outputs.secrets[secret].prior,
        "audits": [kept(outputs.take(np.arange(count))) for count in audited],
        "rounded": kept(outputs.take(np.arange(audited[0])).rounded(KEPT_DECIMALS)) if settings["rounded"] else None,
    }


def _rows_table(results: VerdictResults) -> Table:
    table = WideTable(
        "Verdicts by rows",
        ("trained to be", "rows", "classifiers", *(f'"{verdict}"' for verdict in VERDICTS)),
        left=("trained to be",),
        keys=2,
    )
    for count in sorted(results.by_rows, key=lambda count: LABELS.index(count.label)):
        if count.members:
            numbers = (str(getattr(count, verdict)) for verdict in VERDICTS)
            table.add_row(count.label, f"{count.rows:,}", str(count.members), *numbers)
    return table


def _code_table(results: VerdictResults) -> Table:
    """Digit codes by kind: in how many cases each was caught."""
    table = WideTable(
        "Digit codes",
        (
            "code",
            "cases",
            "caught",
            "undecided: order",
            "not caught",
            "bits read below two decimals",
        ),
        left=("code",),
    )
    coded = [member for member in results.members if member.label == "digit code"]
    for kind in dict.fromkeys(member.recipe for member in coded):
        members = [member for member in coded if member.recipe == kind]
        caught = sum(member.is_caught for member in members)
        ordered = sum(member.audit.reason == "order" for member in members)
        bits = sorted(member.audit.code.estimate for member in members)
        numbers = (len(members), caught, ordered, len(members) - caught - ordered)
        table.add_row(kind, *map(str, numbers), f"{bits[0]:.3f} – {bits[-1]:.3f}")
    return table


def _compression_table(results: VerdictResults) -> Table:
    """Curious classifiers by β_x: the attack's success, and whether it was caught."""
    table = WideTable(
        "Curious classifiers by β_x",
        ("β_x", "trained", "failed attempts", "caught", "undecided", "missed", "share"),
        left=(),
    )
    for beta_x in sorted({member.beta_x for member in results.members if member.curious}):
        members = [member for member in results.members if member.curious and member.beta_x == beta_x]
        working = [member.audit for member in members if member.label == "curious"]
        verdicts = [audited.verdict for audited in working]
        caught, undecided = verdicts.count("curious"), verdicts.count("undecided")
        shares = sorted(audited.share.estimate for audited in working)
        numbers = (
            len(members),
            len(members) - len(working),
            caught,
            undecided,
            len(working) - caught - undecided,
        )
        span = f"{shares[0]:.2f} – {shares[-1]:.2f}" if shares else "—"
        table.add_row(f"{beta_x:g}", *map(str, numbers), span)
    table.caption = "Caught, undecided and missed count those whose maker can read s. Share: of H(s | y, ŷ)."
    return table


def _member_table(results: VerdictResults) -> Table:
    table = WideTable(
        "All classifiers",
        (
            *("case", "classifier", "half", "trained to be", "verdict", "with two decimals"),
            *("honesty", "maker reads", "gain", "unexplained share", "limit", "with two decimals, share", "rows"),
        ),
        left=("case", "classifier", "half", "trained to be", "verdict", "with two decimals"),
        keys=2,
    )
    for member in sorted(results.members, key=_by_excess):
        table.add_row(
            member.case,
            member.recipe,
            member.half,
            member.label,
            f"{member.audit.verdict} ({member.audit.reason})",
            member.rounded.verdict if member.rounded else "",
            f"{member.honesty.estimate:.3f}",
            "—" if member.read is None else f"{member.read:.3f} ({member.prior:.3f})",
            "" if member.gain is None else f"{member.gain:+.3f}",
            str(member.audit.share),
            f"{member.audit.limit:.3f}",
            str(member.rounded.share) if member.rounded else "",
            f"{member.audit.rows:,}",
        )
    table.caption = (
        "Maker reads: accuracy of the maker's attack on test records (prior). Gain: on validation records, over the "
        "case's standard network. Unexplained share: of the bits that (y, ŷ) leave open, as the verdict counts them."
    )
    return table


def _by_excess(member: Member) -> tuple[int, float]:
    """Order classifiers by label, then the largest excess first."""
    return LABELS.index(member.label), -member.audit.share.estimate


def _provenance(ends: Ends, limits: Limits) -> str:
    """State what the calibration half shows, and where the limits are."""

    def shown(figure: float | None) -> str:
        return "none" if figure is None else f"{figure:.3f}"

    return (
        f"Calibration half: rounded to two decimals, the highest upper end of a standard classifier is "
        f"{shown(ends.rounded_standard)} (limit {limits.excess_share:g}). As released, each further class needs "
        f"{shown(ends.further_class)} ({limits.further_class:g}); ruled-out values of a correlated y need "
        f"{shown(ends.ruled_out_standard)} for standard and allow {shown(ends.ruled_out_curious)} for curious ones "
        f"({limits.ruled_out:g}); codes in standard ones reach {shown(ends.code_standard)} bits "
        f"({limits.code_bits:g}). The lowest lower end of a curious one is {shown(ends.curious)} times its limit."
    )


def _draw_excess(axis: Any, results: VerdictResults) -> None:
    for number, member in enumerate(sorted(results.members, key=_by_excess)):
        share, colour = member.audit.share, COLOURS[member.label]
        axis.plot([number, number], [share.low, share.high], color=colour, linewidth=1)
        axis.plot(number, share.estimate, "o", color=colour, markersize=3)
        axis.plot(number, member.audit.limit, "_", color="black", markersize=5)
    for label in LABELS:
        axis.plot([], [], "o", color=COLOURS[label], label=label)
    axis.plot([], [], "_", color="black", label="limit")
    axis.set(ylabel="share of H(s | y, ŷ)", xlabel="classifier", xticks=[])
    axis.legend(frameon=False)


def _draw_by_rows(axis: Any, by_rows: Sequence[VerdictCount]) -> None:
    for label, verdict, name, line in CURVES:
        counted = [count for count in by_rows if count.label == label and count.members]
        if counted:
            shares = [getattr(count, verdict) / count.members for count in counted]
            axis.plot([count.rows for count in counted], shares, line, marker="o", color=COLOURS[label], label=name)
    axis.set(title="Verdicts by rows", xlabel="rows", ylabel="share of classifiers", ylim=(-0.03, 1.03))
    if axis.lines:
        sizes = sorted({count.rows for count in by_rows if count.rows is not None})
        axis.set_xscale("log")
        axis.set_xticks(sizes, [f"{size / 1000:g}k" for size in sizes])
        axis.set_xticks([], minor=True)
        axis.legend(frameon=False)


def _draw_compression(axis: Any, results: VerdictResults) -> None:
    for output, mark in (("raw", "o"), ("soft", "s")):
        members = [member for member in results.members if member.curious and member.recipe.startswith(output)]
        if members:
            axis.scatter(
                [member.beta_x for member in members],
                [member.audit.share.estimate for member in members],
                c=[COLOURS[member.label] for member in members],
                marker=mark,
                s=16,
                label=output,
            )
    axis.axhline(results.limits.excess_share, color="black", linewidth=0.8, linestyle="--")
    axis.set(title="Curious, by β_x", xlabel="β_x", ylabel="share of H(s | y, ŷ)")
    if axis.collections:
        axis.legend(frameon=False)
