"""Which records of a batch are paired, from uniform numbers: one device (batch,) and stacks (devices, batch) alike.

Padding (weight 0) is never paired with a record, so a device draws in a padded stack what it would draw alone.
"""

from __future__ import annotations

import torch
from torch import Tensor

_BELOW_ONE = 1 - 2.0**-20  # so that adding a uniform number never carries into the next code


def permutation(uniform: Tensor, weights: Tensor | None) -> Tensor:
    """Return the places of each batch's records in a random order; padding stays behind, where it was.

    >>> permutation(torch.tensor([[0.3, 0.1, 0.2], [0.9, 0.5, 0.0]]), torch.tensor([[1, 1, 1], [1, 1, 0]])).tolist()
    [[1, 2, 0], [1, 0, 2]]
    """
    keys = uniform if weights is None else torch.where(weights > 0, uniform, 2.0)
    return keys.argsort(dim=-1, stable=True)


def partners(uniform: Tensor, codes: Tensor | None, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return for each record the place of another one of equal code, drawn evenly, and whether there is one.

    The records of a code form a random cycle, each pointing at the next: never at itself, and every record is the
    partner of exactly one. A code of −1 (no label) has no partner; without codes all records count alike. Where there
    is none, the place is the record's own.

    >>> places, found = partners(torch.tensor([0.3, 0.1, 0.2, 0.5]), torch.tensor([0, 1, 0, 2]), None)
    >>> places.tolist(), found.tolist()
    ([2, 1, 0, 3], [True, False, True, False])
    """
    codes = torch.zeros(uniform.shape, dtype=torch.int64, device=uniform.device) if codes is None else codes
    codes = codes if weights is None else torch.where(weights > 0, codes, -1)
    order = (codes + uniform * _BELOW_ONE).argsort(dim=-1, stable=True)
    sorted_codes = codes.gather(-1, order)
    here = torch.arange(codes.shape[-1], device=codes.device).expand_as(codes)
    turns = sorted_codes[..., 1:] != sorted_codes[..., :-1]
    edge = torch.ones_like(turns[..., :1]) if codes.shape[-1] > 1 else torch.ones_like(codes, dtype=torch.bool)
    first, last = torch.cat([edge, turns], dim=-1), torch.cat([turns, edge], dim=-1)
    start = torch.where(first, here, 0).cummax(dim=-1).values
    following = torch.where(last, start, here + 1)
    following = torch.where(sorted_codes >= 0, following, here)
    places = torch.empty_like(codes).scatter_(-1, order, order.gather(-1, following))
    return places, places != here


def pick(values: Tensor, places: Tensor) -> Tensor:
    """Return values (…, batch, …) of the records at some places (…, batch) of their own device's batch."""
    behind = values.dim() - places.dim()
    if not behind:
        return values.gather(-1, places)
    return values.gather(places.dim() - 1, places.view(*places.shape, *[1] * behind).expand_as(values))
