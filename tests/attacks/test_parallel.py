"""Attackers in several threads give the bits of attackers one after the other, and leave torch's limit as it was."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from fedveil.attacks.attack import Attack, Labelled
from fedveil.attacks.boosting import Boosting
from fedveil.attacks.forest import Forest
from fedveil.attacks.logistic import Logistic
from fedveil.attacks.mlp import SmallMLP
from fedveil.attacks.svm import RBFSVM
from fedveil.attacks.updates import UpdateReader
from fedveil.core.arrays import FloatArray

KINDS: list[type[Attack]] = [SmallMLP, Boosting, Logistic, UpdateReader, Forest, RBFSVM]


def drawn(n: int, seed: int) -> Labelled:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, n)
    return Labelled((rng.normal(size=(n, 8)) + 0.5 * codes[:, None]).astype(np.float32), codes)


def answer(kind: type[Attack]) -> FloatArray:
    attack = kind(seed=4)
    attack.fit(drawn(900, 0), drawn(300, 1), 3)
    return attack.scores(drawn(500, 2).vectors)


def test_threads_change_no_bit_and_no_limit() -> None:
    threads = torch.get_num_threads()
    alone = [answer(kind) for kind in KINDS]
    for workers in (2, 6):
        with ThreadPoolExecutor(workers) as pool:
            together = list(pool.map(answer, KINDS))
        for kind, first, second in zip(KINDS, alone, together, strict=True):
            np.testing.assert_array_equal(first, second, err_msg=kind.name)
    assert torch.get_num_threads() == threads
