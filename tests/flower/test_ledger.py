"""A ledger detects any change to its files, and what is spent adds up."""

from __future__ import annotations

import functools
import json
import math
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedveil.certificates import gaussian_epsilon
from fedveil.core.errors import InputError
from fedveil.core.policy import Budget
from fedveil.flower import ledger as ledger_module
from fedveil.flower.ledger import START, Ledger, LedgerError, Totals
from fedveil.flower.secret_noise import keep_secret, secret_generator
from fedveil.flower.spending import Cost, check_budget, costs_of, epsilon_of, exhausted
from fedveil.shields import Chain, DPGaussian, DPLaplace, Identity, Sparsify

ENTRIES = 4


def write(ledger: Ledger, entries: int = 1) -> None:
    with ledger.claimed():
        reading = ledger.read()
        ledger.begin(reading)
        for _ in range(entries):
            number = len(reading.entries) + 1
            reading = ledger.append(
                reading,
                run=2**63 + 1,
                message=f"message-{number}",
                kind="update",
                shield="Größe",
                costs=[Cost("gaussian", 0.5)],
                told=["num-examples"],
                totals=Totals(updates=number, figures=0, epsilon=0.5 * number, delta=1e-5),
                policy="f" * 64,
            )


@contextmanager
def written(entries: int = ENTRIES) -> Iterator[Ledger]:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger.jsonl")
        content, head = files(entries)
        ledger.path.write_bytes(content)
        ledger.head.write_bytes(head)
        yield ledger


@functools.cache
def files(entries: int) -> tuple[bytes, bytes]:
    """Write a ledger once: every entry waits for the disk."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger.jsonl")
        write(ledger, entries)
        return ledger.path.read_bytes(), ledger.head.read_bytes()


def noticed(ledger: Ledger) -> str:
    with pytest.raises(LedgerError) as refusal:
        Ledger(ledger.path).read()
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def test_entries_are_read_as_they_were_written() -> None:
    with written() as ledger:
        reading = Ledger(ledger.path).read()
        assert [entry.number for entry in reading.entries] == [1, 2, 3, 4]
        assert reading.entries[0].previous == START
        for before, after in zip(reading.entries, reading.entries[1:], strict=False):
            assert after.previous == before.hash
        assert reading.costs == [Cost("gaussian", 0.5)] * 4
        assert (reading.count("update"), reading.count("figures")) == (4, 0)
        assert reading.size == ledger.path.stat().st_size


@given(st.data())
def test_any_byte_that_is_edited_is_noticed(data: st.DataObject) -> None:
    with written() as ledger:
        file = data.draw(st.sampled_from([ledger.path, ledger.head]))
        content = bytearray(file.read_bytes())
        index = data.draw(st.integers(0, len(content) - 1))
        content[index] ^= data.draw(st.integers(1, 255))
        file.write_bytes(content)
        noticed(ledger)


@given(st.data())
def test_lines_that_are_dropped_doubled_or_reordered_are_noticed(data: st.DataObject) -> None:
    with written() as ledger:
        lines = ledger.path.read_bytes().splitlines(keepends=True)
        chosen = data.draw(
            st.lists(st.integers(0, ENTRIES - 1), max_size=ENTRIES + 2).filter(
                lambda order: order != list(range(ENTRIES))
            )
        )
        ledger.path.write_bytes(b"".join(lines[number] for number in chosen))
        noticed(ledger)


@given(st.integers(0, 10_000))
def test_a_file_that_is_cut_is_noticed(cut: int) -> None:
    with written() as ledger:
        content = ledger.path.read_bytes()
        ledger.path.write_bytes(content[: cut % len(content)])
        noticed(ledger)


@given(st.integers(1, ENTRIES - 1))
def test_a_head_of_another_ledger_is_noticed(entries: int) -> None:
    with written() as ledger, written(entries) as other:
        ledger.head.write_bytes(other.head.read_bytes())
        noticed(ledger)


def test_another_spelling_of_the_same_entry_is_noticed() -> None:
    with written() as ledger:
        lines = ledger.path.read_text(encoding="utf-8").splitlines()
        for other in (
            json.dumps(json.loads(lines[0])),
            json.dumps(json.loads(lines[0]), separators=(",", ":")),  # ö as \\u00f6
            lines[0].replace('"delta":1e-05', '"delta":0.00001'),
            lines[0].replace('"epsilon":0.5', '"epsilon":NaN'),
            lines[0].replace('"number":1', '"number":1,"number":1'),
            lines[0] + "\r",
        ):
            ledger.path.write_text("\n".join([other, *lines[1:]]) + "\n", encoding="utf-8")
            noticed(ledger)


def test_one_file_without_the_other_is_noticed() -> None:
    with written() as ledger:
        head = ledger.head.read_bytes()
        ledger.head.unlink()
        assert "head" in noticed(ledger)
        ledger.head.write_bytes(head)
        ledger.path.unlink()
        assert "missing" in noticed(ledger)


@pytest.mark.parametrize("head", ["", "{}", "[1]", '{"count":"4","hash":"x"}', '{"count":-1,"hash":"x"}', "\x00"])
def test_an_invalid_head_is_noticed(head: str) -> None:
    with written() as ledger:
        ledger.head.write_text(head)
        noticed(ledger)


def test_a_crash_may_count_one_message_too_many_and_never_one_too_few() -> None:
    with written(2) as ledger:
        head = ledger.head.read_bytes()
        write(ledger)
        ledger.head.write_bytes(head)  # a crash between entry and head: the entry counts
        reading = Ledger(ledger.path).read()
        assert len(reading.entries) == 3
        assert reading.ahead
        write(Ledger(ledger.path))
        assert len(Ledger(ledger.path).read().entries) == 4
        ledger.head.write_bytes(head)  # a crash never leaves two entries that the head does not know
        noticed(ledger)


def test_an_unfinished_entry_is_overwritten() -> None:
    with written(2) as ledger:
        whole = ledger.path.read_bytes()
        ledger.path.write_bytes(whole + whole.splitlines()[1][:50])
        assert len(Ledger(ledger.path).read().entries) == 2
        write(Ledger(ledger.path))
        assert len(Ledger(ledger.path).read().entries) == 3


def test_a_crash_before_the_first_entry_is_not_a_fault() -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger.jsonl")
        with ledger.claimed():
            ledger.begin(ledger.read())
        assert Ledger(ledger.path).read().entries == ()
        write(Ledger(ledger.path))
        assert len(Ledger(ledger.path).read().entries) == 1


def test_a_claim_inside_a_claim_is_refused_at_once() -> None:
    with (
        written() as ledger,
        ledger.claimed(),
        pytest.raises(LedgerError, match="two mods"),
        Ledger(ledger.path.parent / "." / ledger.path.name).claimed(),
    ):
        pass


# What is spent.


@given(st.lists(st.floats(0.01, 3.0), min_size=1, max_size=30), st.floats(1e-9, 1e-2))
def test_gaussian_releases_compose_exactly(amounts: list[float], delta: float) -> None:
    epsilon = epsilon_of([Cost("gaussian", amount) for amount in amounts], delta)
    assert epsilon == pytest.approx(
        gaussian_epsilon(1 / math.sqrt(sum(amount**2 for amount in amounts)), delta), rel=1e-9
    )


def test_equal_shields_cost_what_the_shield_itself_says() -> None:
    for shield in (DPGaussian(6.0, clip=2.0), DPLaplace(9.0, clip=1.5)):
        for releases in (1, 7, 40):
            expected = shield.spent(releases, 1e-6).bound
            assert epsilon_of(costs_of(shield) * releases, 1e-6) == pytest.approx(expected, rel=1e-9)


def privacy_loss_epsilon(costs: list[Cost], delta: float) -> float:
    """Compose by privacy loss distributions: another implementation, and a tight one."""
    from dp_accounting import GaussianDpEvent, LaplaceDpEvent
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    for cost in costs:
        event = GaussianDpEvent if cost.mechanism == "gaussian" else LaplaceDpEvent
        accountant.compose(event(1 / cost.amount))
    return float(accountant.get_epsilon(delta))


@pytest.mark.parametrize(
    "costs",
    [
        [Cost("gaussian", 0.5), Cost("gaussian", 0.25), Cost("gaussian", 0.25)],
        [Cost("pure", 0.1)] * 20,
        [Cost("pure", 0.1)] * 20 + [Cost("pure", 0.3)] * 5,
        [Cost("gaussian", 0.4)] * 6 + [Cost("pure", 0.2)] * 6,
    ],
    ids=["gaussian", "laplace", "two laplaces", "both"],
)
@pytest.mark.filterwarnings("ignore")
def test_what_is_counted_is_never_below_the_tight_figure(costs: list[Cost]) -> None:
    pytest.importorskip("dp_accounting")
    counted, tight = epsilon_of(costs, 1e-5), privacy_loss_epsilon(costs, 1e-5)
    assert tight * (1 - 1e-3) <= counted <= 2.5 * tight


@given(st.lists(st.tuples(st.sampled_from(["gaussian", "pure"]), st.floats(0.01, 2.0)), min_size=1, max_size=12))
def test_one_message_more_never_costs_less(listed: list[tuple[str, float]]) -> None:
    costs = [Cost(mechanism, amount) for mechanism, amount in listed]  # type: ignore[arg-type]
    assert epsilon_of(costs[:-1], 1e-5) <= epsilon_of(costs, 1e-5) * (1 + 1e-9)


def test_shields_without_a_guarantee_cost_everything() -> None:
    for shield in (Identity(), Sparsify(), DPGaussian(1.0, clip=None), DPLaplace(1.0, clipped_in="L2")):
        assert costs_of(shield) == (Cost("none"),)
        assert epsilon_of(costs_of(shield), 1e-5) == math.inf
    assert costs_of(Chain([Sparsify(), DPGaussian(4.0)])) == (Cost("gaussian", 0.5),)


def test_a_budget_that_cannot_be_kept_is_refused() -> None:
    with pytest.raises(InputError, match="no differential privacy"):
        check_budget(Budget(epsilon=1.0, delta=1e-5), [Cost("none")], "policy")
    with pytest.raises(InputError, match=r"budget\.delta"):
        check_budget(Budget(epsilon=1.0), [Cost("gaussian", 0.1)], "policy")
    with pytest.raises(InputError, match="single update"):
        check_budget(Budget(epsilon=1.0), [Cost("pure", 1.5)], "policy")
    check_budget(Budget(epsilon=1.0), [Cost("pure", 1.0)], "policy")
    assert exhausted(Budget(epsilon=2.0), [Cost("pure", 1.0)], 1, [Cost("pure", 1.0)]) is None
    assert "epsilon" in str(exhausted(Budget(epsilon=2.0), [Cost("pure", 1.0)] * 2, 2, [Cost("pure", 1.0)]))
    assert "messages" in str(exhausted(Budget(messages=2), [], 2, [Cost("none")]))


# Noise that cannot be guessed.


@pytest.mark.parametrize(("shield", "law"), [(DPGaussian(3.0), stats.norm), (DPLaplace(3.0), stats.laplace)])
def test_secret_noise_has_the_shields_law(shield: DPGaussian | DPLaplace, law: stats.rv_continuous) -> None:
    keep_secret(shield)
    drawn = shield.noise(torch.Size([1, 20_000]), torch.Generator().manual_seed(0)).numpy()[0]
    again = shield.noise(torch.Size([1, 20_000]), torch.Generator().manual_seed(0)).numpy()[0]
    assert not np.array_equal(drawn, again)  # the generator that it is given does not matter
    assert stats.kstest(drawn / 3.0, law.cdf).pvalue > 1e-4


def test_a_secret_generators_whole_state_is_random() -> None:
    first, second = (secret_generator().get_state().numpy()[24 : 24 + 8 * 624].view(np.uint64) for _ in range(2))
    assert (first != second).mean() > 0.99
    assert len(np.unique(first)) > 600
    drawn = torch.rand(20_000, generator=secret_generator(), dtype=torch.float64).numpy()
    assert stats.kstest(drawn, "uniform").pvalue > 1e-4
    # Why a seed is not enough: torch uses 32 bits of it, so that these two generators are the same.
    assert torch.equal(*(torch.rand(3, generator=torch.Generator().manual_seed(seed)) for seed in (5, 5 + 2**32)))


def test_two_names_of_one_ledger_share_its_lock_and_head(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    write(ledger)
    (tmp_path / "other.jsonl").symlink_to("ledger.jsonl")
    (tmp_path / "folder").symlink_to(tmp_path)
    for name in ("other.jsonl", "folder/ledger.jsonl", "folder/other.jsonl"):
        same = Ledger(tmp_path / name, wait=0.05)
        before = len(ledger.read().entries)
        write(same)
        assert len(ledger.read().entries) == before + 1
        with ledger.claimed(), ThreadPoolExecutor(1) as another:
            claim = another.submit(same.claimed().__enter__)
            with pytest.raises(LedgerError, match="another process has held"):
                claim.result()


def test_reading_while_a_node_writes_raises_no_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Ledger(tmp_path / "ledger.jsonl")
    write(node, 2)
    plain, reads = ledger_module._content, []

    def content(path: Path) -> bytes | None:
        data = plain(path)
        reads.append(path)
        if len(reads) == 1:  # between the reader's two files
            write(node)
        return data

    monkeypatch.setattr(ledger_module, "_content", content)
    assert len(Ledger(tmp_path / "ledger.jsonl").read().entries) == 3
