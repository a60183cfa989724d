"""Many devices' updates through one shield: as one batch where it can, and each device fails by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedveil.core.errors import InputError
from fedveil.shields.message import Context, Damage, Kind, Message
from fedveil.shields.shield import TRAINED, Chain, Shield, ShieldError, behind_certificate, check_shape

if TYPE_CHECKING:
    from fedveil.core.arrays import IntArray

Answer = tuple[Message, Damage] | ShieldError


def apply_all(shield: Shield, updates: Tensor, contexts: Sequence[Context], kind: Kind) -> list[Answer]:
    """Shield one row of each device; see `Shield.apply_all`."""
    if updates.ndim != 2 or len(updates) != len(contexts):
        raise InputError(
            f"shield {shield.name!r}: updates of shape {tuple(updates.shape)} for {len(contexts)} devices; "
            "give one row for each"
        )
    messages = [Message(kind, updates[place : place + 1]) for place in range(len(updates))]
    if not _batched(shield) or kind not in shield.acts_on:
        return [_one(shield, message, own) for message, own in zip(messages, contexts, strict=True)]
    answers = _messages(shield, messages, list(contexts), updates)
    spoken = [place for place, answer in enumerate(answers) if isinstance(answer, Message)]
    sent = [answer for answer in answers if isinstance(answer, Message)]
    true = updates if len(spoken) == len(updates) else updates[spoken]
    damages = iter(Damage.of_rows(true, _stacked(sent, updates), [message.bytes for message in sent]))
    return [(answer, next(damages)) if isinstance(answer, Message) else answer for answer in answers]


def _batched(shield: Shield) -> bool:
    """Whether a shield, or a chain's member, treats many devices together."""
    if isinstance(shield, Chain):
        return any(_batched(member) for member in shield.shields)
    return type(shield).change_all is not Shield.change_all


def _one(shield: Shield, message: Message, context: Context) -> Answer:
    try:
        return shield.apply(message, context)
    except ShieldError as fault:
        return fault


def _messages(
    shield: Shield, messages: list[Message], contexts: list[Context], rows: Tensor | None = None
) -> list[Message | ShieldError]:
    """Return what leaves of each device's message; `rows` are all of them together, where they lie so."""
    if isinstance(shield, Chain):
        return _through_chain(shield, messages, contexts, rows)
    kind = messages[0].kind if messages else Kind.UPDATE
    if not messages or kind not in shield.acts_on:
        return list(messages)
    if not _batched(shield):
        answers = [_one(shield, message, own) for message, own in zip(messages, contexts, strict=True)]
        return [answer if isinstance(answer, ShieldError) else answer[0] for answer in answers]
    together = _stacked(messages, messages[0].values) if rows is None else rows
    found: list[Message | ShieldError] = list(messages)
    usable = _finite(together) if kind in TRAINED else torch.ones(len(together), dtype=torch.bool)
    for place, (message, own) in enumerate(zip(messages, contexts, strict=True)):
        try:
            check_shape(message, own)
        except ShieldError as fault:
            return [fault] * len(messages)  # they lie in one matrix, so all are as long
        if place == 0 and all(one.segments is own.segments for one in contexts):
            break
    for place in (~usable).nonzero()[:, 0].tolist():
        found[place] = ShieldError(f"the {kind} holds NaN or infinite numbers, so nothing is sent")
    places = usable.nonzero()[:, 0].numpy()
    for place, answer in zip(places.tolist(), _changed(shield, kind, together, contexts, places), strict=True):
        found[place] = answer
    return found


def _through_chain(
    chain: Chain, messages: list[Message], contexts: list[Context], rows: Tensor | None
) -> list[Message | ShieldError]:
    found: list[Message | ShieldError] = list(messages)
    alive = list(range(len(messages)))
    known = list(contexts)
    for member in chain.shields:
        now = [message for place in alive if isinstance(message := found[place], Message)]
        for place, answer in zip(alive, _messages(member, now, [known[p] for p in alive], rows), strict=True):
            found[place] = answer
            if isinstance(answer, Message) and answer.kind in member.certifies:
                known[place] = behind_certificate(known[place])
        alive = [place for place in alive if isinstance(found[place], Message)]
        rows = None  # what lay together has been changed
    return found


def _changed(
    shield: Shield, kind: Kind, rows: Tensor, contexts: list[Context], places: IntArray
) -> list[Message | ShieldError]:
    """Change the rows at some places; where that fails, halve them until those that fail stand alone."""
    if not len(places):
        return []
    given = rows if len(places) == len(rows) else rows[torch.from_numpy(places)]
    version = given._version
    try:
        sent = shield.change_all(given, [contexts[place] for place in places])
        if sent is None:
            raise InputError("it cannot treat these as one batch")
        if given._version != version:
            raise InputError("it wrote to the updates themselves")
        if sent.shape != given.shape:
            raise InputError("it made a message of another shape")
        usable = _finite(sent)
    except Exception as fault:
        if len(places) == 1:
            return [_as_shield_error(shield, fault)]
        middle = len(places) // 2
        halves = (places[:middle], places[middle:])
        return [answer for half in halves for answer in _changed(shield, kind, rows, contexts, half)]
    broken = ShieldError(f"shield {shield.name!r} made an unusable message (shape or NaN), so nothing is sent")
    return [
        Message(kind, row) if fine else broken for row, fine in zip(torch.split(sent, 1), usable.tolist(), strict=True)
    ]


def _as_shield_error(shield: Shield, fault: Exception) -> ShieldError:
    if isinstance(fault, ShieldError):
        return fault
    return ShieldError(f"shield {shield.name!r} failed, so nothing is sent: {fault}")


def _stacked(messages: Sequence[Message], like: Tensor) -> Tensor:
    """Lay the messages' rows together; without a copy where they are rows of one tensor, in its order."""
    if not messages:
        return like[:0]
    first = messages[0].values
    base = first._base
    if (
        base is not None
        and base.shape == (len(messages), first.shape[1])
        and base.is_contiguous()
        and all(
            own.values._base is base and own.values.storage_offset() == place * base.shape[1] + base.storage_offset()
            for place, own in enumerate(messages)
        )
    ):
        return base
    return torch.cat([message.values for message in messages])


def _finite(rows: Tensor) -> Tensor:
    """Return which rows hold finite numbers only: 0·v is NaN for every other."""
    return torch.isfinite(rows.abs().amax(dim=1)) if rows.shape[1] else torch.ones(len(rows), dtype=torch.bool)
