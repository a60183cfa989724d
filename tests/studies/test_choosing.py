"""The smallest of several held-out certificates holds at the stated confidence; the uncorrected smallest does not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedveil.certificates import Certificate, GaussianRelease, at_shares, certify_codes, proportion_bounds
from fedveil.config.cells import Cell
from fedveil.core.errors import InputError
from fedveil.studies.choosing import candidates, pay_for_choice, together
from fedveil.studies.model import CellFigures, StatedCertificate, weakest_certificates
from fedveil.studies.results import CellResult

TRUTH, PEOPLE, METHODS = 0.7, 400, 10


def counted(right: int) -> StatedCertificate:
    """A certificate as tight as can be: Clopper and Pearson's bound on an accuracy from right guesses."""

    def certify(confidence: float) -> Certificate:
        high = proportion_bounds(right, PEOPLE, 1 - confidence)[1]
        return Certificate(
            "accuracy", high, "upper", {"people": PEOPLE}, (), "counted", "Clopper and Pearson", confidence
        )

    return StatedCertificate.of(at_shares(certify, 0.95))


ALWAYS = StatedCertificate.of(GaussianRelease(1.0, 2.0, norm_enforced_at_release=True).certify_balanced_accuracy(2))


def cell(method: str, seed: int, *stated: StatedCertificate) -> CellResult:
    figures = CellFigures(utility={}, leakage={}, certificates={"u": stated})
    return CellResult(Cell(f"{method}-{seed}", method, None, seed), Path(), figures)


def test_the_smallest_of_several_holds_only_if_the_choice_is_paid_for() -> None:
    rng = np.random.default_rng(0)
    broken = {"alone": 0, "paid": 0}
    for _ in range(400):
        right = rng.binomial(PEOPLE, TRUTH, (METHODS, 2))  # two seeds of each method, all as leaky as each other
        cells = [cell(f"m{m}", seed, counted(int(right[m, seed]))) for m in range(METHODS) for seed in (0, 1)]
        for name, shown in (("alone", cells), ("paid", pay_for_choice(cells))):
            by_method = [
                weakest_certificates([shown[2 * m + seed].result.binding_certificates("u") for seed in (0, 1)])
                for m in range(METHODS)
            ]
            broken[name] += min(stated[0].bound for stated in by_method) < TRUTH
        one_seed = min(counted(int(number)).bound for number in right[:, 0])
        broken["one seed"] = broken.get("one seed", 0) + (one_seed < TRUTH)
    assert broken["one seed"] > 0.25 * 400  # what was shown before: the smallest of ten bounds at 95% each
    assert broken["paid"] <= 0.05 * 400
    assert broken["paid"] <= broken["alone"]


def test_the_correction_holds_for_single_seeds_too() -> None:
    rng = np.random.default_rng(1)
    broken = 0
    for _ in range(600):
        cells = [cell(f"m{m}", 0, counted(int(rng.binomial(PEOPLE, TRUTH)))) for m in range(METHODS)]
        broken += min(c.result.certificates["u"][0].bound for c in pay_for_choice(cells)) < TRUTH
    assert broken <= 0.05 * 600 + 3 * np.sqrt(0.05 * 0.95 * 600)


def test_each_certificate_gets_its_share_and_says_so() -> None:
    cells = [cell(f"m{m}", seed, counted(280), replace(counted(290), quantity="advantage"), ALWAYS)
             for m in range(3) for seed in (0, 1)]  # fmt: skip
    assert candidates(cells, "u") == 6  # three methods, two kinds; neither seeds nor what always holds
    assert together(cells, "u") == (6, pytest.approx(0.7))
    paid = pay_for_choice(cells)
    assert together(paid, "u").confidence >= 0.95
    first, second, always = paid[0].result.certificates["u"]
    assert always == ALWAYS
    for before, after in zip((counted(280), counted(290)), (first, second), strict=True):
        assert after.bound > before.bound
        assert after.confidence == pytest.approx(1 - 0.05 / 8)  # the next halving of 5% below a sixth
        assert after.bound == proportion_bounds(280 if before.bound == counted(280).bound else 290, PEOPLE, 0.05 / 8)[1]
        assert after.assumptions["chosen among"] == (
            "6 held-out certificates about u in this study, which hold together at 0.95"
        )


def test_a_single_certificate_needs_no_correction() -> None:
    cells = [cell("a", 0, counted(280)), cell("b", 0, ALWAYS)]
    assert [shown.result for shown in pay_for_choice(cells)] == [shown.result for shown in cells]
    assert pay_for_choice(cells)[1] is cells[1]


def test_certificates_of_earlier_versions_are_not_corrected_and_say_so() -> None:
    old = replace(counted(280), stricter=())
    cells = [cell("a", 0, old), cell("b", 0, old)]
    paid = pay_for_choice(cells)
    (stated,) = paid[0].result.certificates["u"]
    assert (stated.bound, stated.confidence) == (old.bound, 0.95)
    assert str(stated.assumptions["chosen among"]).endswith("not corrected for that choice")
    assert together(paid, "u") == (2, pytest.approx(0.9))


def test_bounds_at_shares_grow_and_are_the_bounds_at_those_confidences() -> None:
    rng = np.random.default_rng(2)
    codes, u = rng.integers(0, 3, 900), rng.integers(0, 2, 900)
    certificate = certify_codes(codes, u, 2)
    bounds = [certificate.bound, *(bound for _, bound in certificate.stricter)]
    assert bounds == sorted(bounds)
    assert len(bounds) == 11
    for level, bound in certificate.stricter:
        assert certify_codes(codes, u, 2, level).bound == bound
    assert json.loads(json.dumps(certificate.as_dict()))["stricter"] == [list(pair) for pair in certificate.stricter]


def test_stricter_bounds_are_at_higher_confidences() -> None:
    with pytest.raises(InputError, match="confidences above the certificate's own"):
        replace(certify_codes([0, 1] * 9, [0, 1] * 9, 2), stricter=((0.9, 1.0),))
    with pytest.raises(InputError, match="confidences above the certificate's own"):
        Certificate("accuracy", 0.7, "upper", {"a": 1}, (), "m", "c", None, ((0.99, 0.8),))
