"""One thread for each computation: limits hold inside and are restored, also where threads overlap."""

from __future__ import annotations

import threading

import torch
from threadpoolctl import threadpool_info

from fedveil.core.threads import single_thread


def limits() -> set[int]:
    return {torch.get_num_threads(), *(library["num_threads"] for library in threadpool_info())}


def test_limits_hold_inside_and_are_restored_after_nesting() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    outside = limits()
    try:
        with single_thread():
            assert limits() == {1}
            with single_thread():
                assert limits() == {1}
            assert limits() == {1}
        assert limits() == outside
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_threads_that_overlap_do_not_undo_each_other_s_limits() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    first_left, second_entered, seen = threading.Event(), threading.Event(), []

    def second() -> None:
        with single_thread():
            second_entered.set()
            first_left.wait(30)
            seen.append(limits())

    try:
        thread = threading.Thread(target=second)
        with single_thread():
            thread.start()
            assert second_entered.wait(30)
        first_left.set()
        thread.join(30)
        assert seen == [{1}]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
