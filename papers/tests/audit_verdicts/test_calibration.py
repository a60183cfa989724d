"""Verdicts counted, and what limits are chosen from."""

import pytest
from curious_settings import AUDIT
from fedveil_papers.audit_verdicts.calibration import AuditFigures, Member, counts, counts_by_rows, ends_of
from fedveil_papers.audit_verdicts.experiment import VerdictResults
from fedveil_papers.kinds import make_experiment

from fedveil.audit.explained import Explained
from fedveil.audit.verdict import LIMITS
from fedveil.core.figures import Estimate


def member(label, verdict, half="calibration", at=0.2, values=2, correlation=0.1, reason="below"):
    share = Estimate(at, at - 0.1, at + 0.1)
    by = Estimate(correlation, correlation, correlation)
    explained = Explained(1.0, 0.9, values, by, by, by)
    audits = [
        AuditFigures(rows, share, explained, share, share, share, share, True, verdict, reason, 0.1)
        for rows in (2000, 500)
    ]
    rounded = None if label == "curious" else audits[0]
    return Member("c", "r", half, 0, label, label != "standard", 0.0, share, 0.5, None, None, audits, rounded)


def test_verdicts_are_counted_by_half_and_by_rows():
    members = [
        member("standard", "correlated"),
        member("standard", "curious", "report"),
        member("curious", "curious", "report"),
        member("curious", "standard", "report"),
        member("failed attempt", "undecided"),
    ]
    by_half = {(count.half, count.label): count for count in counts(members) if not count.rounded}
    with_two_decimals = {
        count.label: count.members for count in counts(members) if count.rounded and count.half == "all"
    }
    assert with_two_decimals == {"standard": 2, "curious": 0, "digit code": 0, "failed attempt": 1}
    assert by_half["report", "standard"].curious == 1
    assert by_half["calibration", "standard"].curious == 0
    total = by_half["all", "curious"]
    assert (total.members, total.standard, total.correlated, total.undecided, total.curious) == (2, 1, 0, 0, 1)
    assert [count.rows for count in counts_by_rows(members)] == [500] * 4 + [2000] * 4
    results = VerdictResults(LIMITS, members, counts(members), counts_by_rows(members), ends_of(members, LIMITS), [])
    notes = make_experiment(AUDIT, "preset x: experiment").notes(results)
    assert sum(line.startswith("Wrong verdict") for line in notes) == 2  # a failed attempt is not counted as missed


def test_what_limits_are_chosen_from():
    plain = [member("standard", "standard", at=at) for at in (0.0, 0.1)]
    plain += [member("curious", "curious", at=at) for at in (0.5, 0.6)] + [member("failed attempt", "standard", at=0.0)]
    ends = ends_of(plain, LIMITS)
    assert ends.rounded_standard == pytest.approx(0.2)
    assert ends.curious == pytest.approx(0.4 / 0.1)  # as a multiple of its limit
    assert ends.code_standard == pytest.approx(0.2)
    assert ends.further_class is ends.ruled_out_standard is ends.ruled_out_curious is None
    many = [member("standard", "correlated", at=0.5, values=10), member("curious", "curious", at=0.8, values=10)]
    several = [member("standard", "standard", at=0.2, values=5, correlation=0.0)]
    ends = ends_of([*plain, *many, *several], LIMITS)
    base = LIMITS.excess_share + 8 * LIMITS.further_class
    assert ends.ruled_out_standard == pytest.approx((0.6 - base) / 0.7)
    assert ends.ruled_out_curious == pytest.approx((0.7 - base) / 0.7)
    assert ends.further_class == pytest.approx((1.2 * 0.2 - LIMITS.excess_share) / 3)
    assert ends_of([], LIMITS).rounded_standard is None


def test_a_digit_code_is_written_and_wrong_only_if_it_passes_unseen():
    assert not member("digit code", "undecided", reason="order").is_wrong
    assert member("digit code", "undecided", reason="precision").is_wrong
    assert not member("digit code", "curious").is_wrong
