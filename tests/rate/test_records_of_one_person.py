"""A certificate counts people, not their records: those of one person are copies of one draw."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedveil.core.figures import Estimate
from fedveil.data import Attribute, AttributeData, Split
from fedveil.rate.measuring import Released, fitted_code, held_out

PEOPLE, EACH = 36, 40


def test_records_of_one_person_count_once() -> None:
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(PEOPLE), EACH)
    secret = rng.integers(0, 2, PEOPLE)[person]
    task = Attribute("v", rng.integers(0, 2, len(person)), ("0", "1"))
    split = np.repeat([0, 1, 2], PEOPLE // 3 * EACH).astype(np.int8)
    x = rng.normal(size=(len(person), 2)).astype(np.float32)
    data = AttributeData(x, {"u": Attribute("u", secret, ("a", "b"))}, split, y=task, groups=person)
    values = {part: task.codes[data.rows(part)][:, None].astype(float) for part in Split}
    senders = {part: np.zeros(len(data.rows(part)), dtype=np.int64) for part in Split}
    released = Released(values, senders, Estimate(1, 1, 1), reach=1)
    code = fitted_code(released)
    assert len(held_out(released, data, "u", code, "sender unknown")) == PEOPLE // 3
    assert len(held_out(released, replace(data, groups=None), "u", code, "sender unknown")) == PEOPLE // 3 * EACH
