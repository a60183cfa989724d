"""A graded score of a correlated target is forgiven what it reveals honestly; a code in certainty is not."""

import numpy as np
import pytest
from audited_outputs import trained

from fedveil.attacks.fresh import halves
from fedveil.audit.excess import Excess, excess
from fedveil.audit.graded import graded_posterior
from fedveil.audit.outputs import Outputs
from fedveil.data.attribute import Attribute


def certain_by_s(agreement: float, n: int = 2000) -> Outputs:
    """Three values of y, one of which goes with s; whoever has s = 1 gets sharp answers, others blunt ones."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n)
    s = np.where(rng.random(n) < agreement, (y == 1).astype(int), rng.integers(0, 2, n))
    scores = rng.normal(size=(n, 3)) + 2 * np.eye(3)[y]
    powers = np.exp(scores * np.where(s == 1, 2.5, 0.6)[:, None])
    probabilities = powers / powers.sum(axis=1, keepdims=True)
    return Outputs(probabilities, False, Attribute("y", y, ("0", "1", "2")), {"s": Attribute("s", s, ("f", "m"))})


def measured(outputs: Outputs, name: str) -> Excess:
    return excess(outputs, outputs.secrets[name], ["logistic"], seed=0)


@pytest.mark.parametrize("agreement", [0.0, 0.3, 0.6])
def test_a_code_in_certainty_is_not_forgiven_however_s_and_y_are_related(agreement: float) -> None:
    measurement = measured(certain_by_s(agreement), "s")
    assert measurement.bits.estimate > 0.4
    assert measurement.graded.estimate < 0.25 * measurement.bits.estimate


def test_an_honest_score_of_a_correlated_target_is_forgiven() -> None:
    measurement = measured(trained(2000, overlap=0.5), "u")
    assert measurement.bits.low > 0.02
    assert measurement.unexplained.estimate < 0.5 * measurement.bits.estimate


def test_the_reading_is_a_posterior_that_rises_with_what_is_inferred() -> None:
    outputs = trained(1000, overlap=0.5)
    secret = outputs.secrets["u"]
    half = halves(secret.codes, None, 0)
    posterior = graded_posterior(outputs, secret, half)
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0)
    joint = np.array([[np.mean(secret.codes[outputs.y.codes == k] == v) for v in (0, 1)] for k in (0, 1)])
    inferred = (outputs.soft @ joint)[:, 1]
    for side in (0, 1):
        for value in (0, 1):
            rows = np.flatnonzero((half == side) & (outputs.y.codes == value))
            rows = rows[inferred[rows].argsort()]
            assert (np.diff(posterior[rows, 1]) > -1e-9).all()
