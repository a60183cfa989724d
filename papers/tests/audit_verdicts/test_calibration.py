"""Verdicts counted, and limits midway between standard and curious classifiers."""

import pytest
from curious_settings import AUDIT
from fedveil_papers.audit_verdicts.calibration import AuditFigures, Member, counts, counts_by_rows, midway
from fedveil_papers.audit_verdicts.experiment import VerdictResults
from fedveil_papers.kinds import make_experiment

from fedveil.audit.explained import Explained
from fedveil.audit.verdict import LIMITS
from fedveil.core.figures import Estimate


def member(label, verdict, half="calibration", at=0.2, values=2, correlation=0.1):
    share = Estimate(at, at - 0.1, at + 0.1)
    by = Estimate(correlation, correlation, correlation)
    explained = Explained(1.0, 0.9, values, by, by, by)
    audits = [AuditFigures(rows, share, explained, share, share, share, verdict, 0.1) for rows in (2000, 500)]
    return Member("c", "r", half, 0, label, label != "standard", 0.0, share, 0.5, None, None, audits)


def test_verdicts_are_counted_by_half_and_by_rows():
    members = [
        member("standard", "correlated"),
        member("standard", "curious", "report"),
        member("curious", "curious", "report"),
        member("curious", "standard", "report"),
        member("failed attempt", "undecided"),
    ]
    by_half = {(count.half, count.label): count for count in counts(members)}
    assert by_half["report", "standard"].curious == 1
    assert by_half["calibration", "standard"].curious == 0
    total = by_half["all", "curious"]
    assert (total.members, total.standard, total.correlated, total.undecided, total.curious) == (2, 1, 0, 0, 1)
    assert [count.rows for count in counts_by_rows(members)] == [500, 500, 500, 2000, 2000, 2000]
    results = VerdictResults(LIMITS, members, counts(members), counts_by_rows(members), midway(members, 0.02), [])
    notes = make_experiment(AUDIT, "preset x: experiment").notes(results)
    assert sum(line.startswith("Wrong verdict") for line in notes) == 2  # a failed attempt is not counted as missed


def test_limits_lie_midway_between_standard_and_curious_ones():
    plain = [member("standard", "standard", at=at) for at in (0.0, 0.1)]
    plain += [member("curious", "curious", at=at) for at in (0.5, 0.6)] + [member("failed attempt", "standard", at=0.0)]
    limits = midway(plain, 0.02)
    assert (limits.standard, limits.curious) == pytest.approx((0.2, 0.4))
    assert limits.share == pytest.approx(0.08**0.5)
    assert limits.ruled_out is None
    many = [member("standard", "correlated", at=0.5, values=10), member("curious", "curious", at=0.8, values=10)]
    limits = midway([*plain, *many], 0.02)
    assert limits.share == pytest.approx(0.08**0.5)
    ends = [(end - 0.08**0.5) / 0.1 for end in (0.6, 0.7)]
    assert (limits.ruled_out_standard, limits.ruled_out_curious) == pytest.approx(tuple(ends))
    assert limits.ruled_out == pytest.approx((ends[0] * ends[1]) ** 0.5)
    assert midway(plain[:2], 0.02).share is None
