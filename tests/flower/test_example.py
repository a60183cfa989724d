"""The example: the diffs apply, the mod works in the patched app, and the measurements use no phone twice."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from fedveil.core.errors import InputError

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower-quickstart"
pytestmark = pytest.mark.skipif(shutil.which("patch") is None, reason="patch is not on this machine")


@pytest.fixture(scope="module")
def example() -> Iterator[tuple[ModuleType, ModuleType]]:
    """The example's two scripts, imported as they are run."""
    before = set(sys.modules)
    sys.path.insert(0, str(EXAMPLE))
    try:
        import measure
        import sums

        yield measure, sums
    finally:
        sys.path.remove(str(EXAMPLE))
        for name in set(sys.modules) - before:
            if name.partition(".")[0] in ("measure", "sums", "make_phones", "quickstart"):
                del sys.modules[name]


def _policy(folder: Path, shield: str) -> Path:
    path = folder / "given.toml"
    path.write_text(f'shield = {shield}\nmetrics = ["num-examples", "train_loss"]\nledger = "ledger.jsonl"\n')
    return path


def test_the_mod_is_two_lines() -> None:
    lines = (EXAMPLE / "two-lines.diff").read_text().splitlines()
    added = [line for line in lines if line.startswith("+") and not line.startswith("+++")]
    assert added == ["+from fedveil.flower import shield_mod", "+app = ClientApp(mods=[shield_mod()])"]


def test_the_patched_app_sends_what_the_policy_allows(example: tuple[ModuleType, ModuleType], tmp_path: Path) -> None:
    measure, _ = example
    policy = _policy(tmp_path, '{kind = "sparsify", p = 0.99}')
    plain = measure.app_with(tmp_path / "plain")
    shielded = measure.app_with(tmp_path / "shielded", "capture.diff", "two-lines.diff")
    dense, sexes = measure.shadows(plain, tmp_path / "a", policy, 3, 0)
    sparse, again = measure.shadows(shielded, tmp_path / "b", policy, 3, 0)
    assert dense.shape == sparse.shape == (3, 24 * 32 + 32 + 2 * 32 + 2)
    assert (np.count_nonzero(dense, axis=1) > 500).all()
    assert (np.count_nonzero(sparse, axis=1) <= 9).all()
    np.testing.assert_array_equal(sexes, again)
    assert "capture(strategy" in (shielded / "quickstart" / "server_app.py").read_text()


def test_shadow_nodes_without_a_policy_are_refused(example: tuple[ModuleType, ModuleType], tmp_path: Path) -> None:
    measure, _ = example
    shielded = measure.app_with(tmp_path / "shielded", "two-lines.diff")
    (tmp_path / "broken.toml").write_text("shield = {kind = 'no such shield'}\n")
    with pytest.raises(InputError, match="policy is missing or cannot be used"):
        measure.shadows(shielded, tmp_path, tmp_path / "broken.toml", 1, 0)


def test_cohorts_of_victims_share_no_phone_and_are_labelled_with_their_majority(
    example: tuple[ModuleType, ModuleType],
) -> None:
    _, sums = example
    rng = np.random.default_rng(0)
    # A phone's "update" is its own number: the average of a cohort of three then says who was in it.
    shadows, victims = (np.arange(count, dtype=float)[:, None] for count in (60, 30))
    sexes = rng.integers(2, size=30)
    seen = sums.view((shadows, rng.integers(2, size=60)), (victims, sexes), 3, "cohort", 0)
    assert len(seen.victims) == 10
    assert seen.victims.vectors.sum() * 3 == pytest.approx(np.arange(30).sum())
    alone = sums.view((shadows, rng.integers(2, size=60)), (victims, sexes), 1, "member", 0)
    order = alone.victims.vectors[:, 0].astype(int)
    assert sorted(order.tolist()) == list(range(30))
    np.testing.assert_array_equal(alone.victims.attributes["sex"].codes, sexes[order])
    assert alone.auxiliary.vectors.max() < 40 <= alone.validation.vectors.min()
