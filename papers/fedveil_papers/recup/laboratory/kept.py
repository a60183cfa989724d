"""How much of learning a shield keeps: the fall of the loss under it, as a share of the undefended run's fall."""

from __future__ import annotations

from collections.abc import Mapping


def fall_of(losses: Mapping[int, float]) -> float:
    """Return how much the loss fell from the first round to the last; below 0 if it rose."""
    return losses[min(losses)] - losses[max(losses)]


def share_kept(fall: float, undefended: float) -> float | None:
    """Return a run's fall of the loss as a share of the undefended run's; None unless the undefended loss fell.

    If the undefended loss rose, there is nothing to keep: the ratio of two rises would call the larger rise better.

    >>> share_kept(0.05, 0.1), share_kept(-0.0547, -0.02), share_kept(0.1, 0.0)
    (0.5, None, None)
    """
    return fall / undefended if undefended > 0 else None
