from __future__ import annotations

import json
import pickle
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedveil.certificates import AgainstAttackersTried, Certificate, EpsilonLowerBound
from fedveil.core.errors import InputError
from fedveil.core.figures import Estimate


def certificate(**changes: Any) -> Certificate:
    fields: dict[str, Any] = {
        "quantity": "accuracy",
        "bound": 0.7301,
        "direction": "upper",
        "assumptions": {"sigma": 2.0, "clipped": True, "priors": (0.25, 0.75)},
        "does_not_cover": ("updates",),
        "method": "a method",
        "citation": "a citation",
    }
    return Certificate(**{**fields, **changes})


def test_certificates_and_estimates_share_no_base_and_no_words() -> None:
    kinds = (Certificate, AgainstAttackersTried, EpsilonLowerBound, Estimate)
    for kind in kinds:
        assert kind.__mro__ == (kind, object)
    tried = AgainstAttackersTried("accuracy", 0.73, "Fano's form", ("mlp",))
    counted = EpsilonLowerBound("attribute DP", 1.0, 0.95, "an event", 100)
    assert str(certificate()).startswith("CERTIFIED accuracy ≤ 0.731 — assumes sigma = 2, clipped = yes")
    assert "estimate, against the attackers tried: mlp" in str(tried)
    for other in (tried, counted, Estimate(0.7, 0.6, 0.8)):
        assert "certified" not in str(other).lower()
        assert "guarantee" not in str(other).lower() or "no guarantee" in str(other)


def test_json_says_which_is_which() -> None:
    written = json.loads(json.dumps(certificate(confidence=0.95).as_dict()))
    assert written["certified"] is True
    assert written["assumptions"] == {"sigma": 2.0, "clipped": True, "priors": [0.25, 0.75]}
    assert written["confidence"] == 0.95
    assert json.loads(json.dumps(AgainstAttackersTried("a", 0.5, "m", ("mlp",)).as_dict()))["certified"] is False
    assert json.loads(json.dumps(EpsilonLowerBound("d", 1.0, 0.95, "e", 9).as_dict()))["certified"] is False


@given(st.floats(0.0, 5.0), st.sampled_from(["upper", "lower"]))
def test_printing_rounds_to_the_safe_side(bound: float, direction: str) -> None:
    shown = float(certificate(bound=bound, direction=direction).rounded())
    assert abs(shown - bound) < 1.001e-3
    # Only float noise (1e-9) may be rounded away to the unsafe side.
    assert shown >= bound - 1.1e-9 if direction == "upper" else shown <= bound + 1.1e-9


def test_lower_bounds_infinite_bounds_and_confidence_are_shown() -> None:
    assert "≥ 0.730 with confidence 0.9 " in str(certificate(direction="lower", confidence=0.9))
    assert "≤ ∞" in str(certificate(bound=float("inf")))


def test_a_certificate_is_frozen_through_and_survives_pickling() -> None:
    source = {"sigma": 1.0}
    kept = certificate(assumptions=source)
    source["sigma"] = 9.0
    assert kept.assumptions["sigma"] == 1.0
    with pytest.raises(TypeError):
        kept.assumptions["sigma"] = 3.0  # type: ignore[index]
    with pytest.raises(FrozenInstanceError):
        kept.bound = 0.1  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(kept)) == kept
    assert replace(kept, bound=0.5).bound == 0.5
    assert hash(kept) == hash(certificate(assumptions={"sigma": 1.0}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"assumptions": {}}, "assumptions"),
        ({"bound": float("nan")}, "not a number"),
        ({"direction": "about"}, "direction"),
        ({"confidence": 1.0}, "confidence"),
        ({"citation": ""}, "citation"),
    ],
)
def test_a_certificate_that_says_too_little_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        certificate(**change)


def test_an_estimate_must_name_the_attackers() -> None:
    with pytest.raises(InputError, match="attackers"):
        AgainstAttackersTried("accuracy", 0.5, "m", ())
