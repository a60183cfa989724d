"""Shield: what a device does to a message before it leaves; the identity, chains, and many devices at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedveil.core.errors import InputError
from fedveil.core.randomness import child_seed, torch_generator
from fedveil.shields.message import LEAVING, Context, Damage, Kind, Message

if TYPE_CHECKING:
    import numpy.typing as npt

    from fedveil.certificates import Certificate
    from fedveil.core.arrays import IntArray
    from fedveil.data.attribute_data import AttributeData


TRAINED = frozenset({Kind.GRADIENT, Kind.UPDATE, Kind.PARAMETERS})
"""Messages that result from training: if one is not finite, training failed, and no shield can repair that."""


class ShieldError(InputError):
    """A shield could not do its work: nothing is sent."""


Answer = tuple[Message, Damage] | ShieldError
"""What leaves a device, with what the shield did to it; or the reason why nothing leaves."""


class Shield(ABC):
    """`apply(message, context) → (message, damage)`.

    A shield names the kinds of messages that it acts on; all others pass unchanged. It fails closed: whatever goes
    wrong inside raises `ShieldError`, and the device sends nothing. A shield that acts on `Kind.INPUT` changes a
    device's records before anything else sees them; if it fails, the run does not start.
    """

    name: str = "shield"
    acts_on: frozenset[Kind] = LEAVING
    certifies: frozenset[Kind] = frozenset()
    """Kinds of messages for which this shield's work gives a certificate; a chain keeps it valid for them."""
    by_device: frozenset[str] = frozenset()
    """Settings that this shield reads from each device's policy; all others are the same for all devices."""
    reads_label: bool = False
    """Whether the change to a record depends on its label: if so, a model may not be judged on changed records."""
    files: frozenset[str] = frozenset()
    """Settings that name a file; in a policy, such a path is relative to the policy's folder."""
    by_record: bool = False
    """Whether it needs `Context.samples`, each record behind an update."""

    def prepared(self, data: AttributeData, seed: int) -> Shield:
        """Return the shield with what all devices know beforehand, learned from these training records alone."""
        return self

    def certificates(self, values: int, priors: npt.ArrayLike) -> tuple[Certificate, ...]:
        """Return what no observer can beat on an attribute with these values and priors; by default, nothing."""
        return ()

    def certificates_on(
        self, data: AttributeData, rows: IntArray, attribute: str, seed: int
    ) -> tuple[Certificate, ...]:
        """Return what no observer can beat, counted on people not used to prepare the shield; by default, nothing.

        It is called on a prepared shield, with the rows of people whom the shield has never seen, and is about what is
        shown of one of them. A chain returns nothing: its other members may change what this one saw, or read u
        after it.
        """
        return ()

    @abstractmethod
    def change(self, message: Message, context: Context) -> Message:
        """Return the message as it may leave."""

    def change_all(self, updates: Tensor, contexts: Sequence[Context]) -> Tensor | None:
        """Return many devices' updates as they may leave, one row each; None to have them changed one by one.

        A shield that is faster for many devices together overrides this. It must not write to the given rows. If it
        raises, the devices are tried in smaller batches, so that only those that fail send nothing.
        """
        return None

    def apply_all(self, updates: Tensor, contexts: Sequence[Context], kind: Kind = Kind.UPDATE) -> list[Answer]:
        """Shield one update of each device, as one batch if possible; a device that fails gets the error instead.

        All other updates leave as if that device did not exist.
        """
        if updates.ndim != 2 or len(updates) != len(contexts):
            raise InputError(
                f"shield {self.name!r}: updates of shape {tuple(updates.shape)} for {len(contexts)} devices; "
                "give one row for each"
            )
        messages = [Message(kind, updates[index : index + 1]) for index in range(len(updates))]
        if not _batched(self) or kind not in self.acts_on:
            return [_applied(self, message, context) for message, context in zip(messages, contexts, strict=True)]
        answers = _shielded(self, messages, list(contexts), updates)
        sending = [index for index, answer in enumerate(answers) if isinstance(answer, Message)]
        sent = [answer for answer in answers if isinstance(answer, Message)]
        true = updates if len(sending) == len(updates) else updates[sending]
        damages = iter(Damage.of_rows(true, _stacked(sent, updates), [message.bytes for message in sent]))
        return [(answer, next(damages)) if isinstance(answer, Message) else answer for answer in answers]

    def apply(self, message: Message, context: Context) -> tuple[Message, Damage]:
        """Shield a message, and measure what that did to it."""
        if message.kind not in self.acts_on:
            return message, Damage.between(message.values, message.values, message.bytes)
        _check_shape(message, context)
        if message.kind in TRAINED and not torch.isfinite(message.values).all():
            raise _not_finite(message.kind)
        true = message.values.clone()  # a shield may change numbers in place; the damage is still measured
        try:
            sent = self.change(message, context)
            usable = sent.values.shape == true.shape and bool(torch.isfinite(sent.values).all())
        except ShieldError:
            raise
        except Exception as fault:
            raise _as_shield_error(self, fault) from fault
        if not usable:
            raise _unusable(self)
        if sent is message and not torch.equal(true, sent.values):
            sent = sent.with_values(sent.values)  # changed in place: its old short encoding is no longer valid
        return sent, Damage.between(true, sent.values, sent.bytes)

    def __repr__(self) -> str:
        settings = {name: value for name, value in vars(self).items() if not name.endswith("_")}  # not what it learned
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in settings.items())})"


class Identity(Shield):
    """No protection: the message leaves as it is."""

    name = "none"

    def change(self, message: Message, context: Context) -> Message:
        """Return the message itself."""
        return message


class Chain(Shield):
    """Several shields, one after another; if one fails, nothing is sent.

    A member's certificate is also the chain's. What comes before the member does not matter: the bound holds for
    whatever is sent into it, even u itself. What comes after it works on its output, and no processing of an output
    reveals more than the output does. The chain ensures that later members work on nothing else: their contexts hold no
    records, no model and no policy, and their randomness does not reveal the noise.
    """

    def __init__(self, shields: Sequence[Shield]) -> None:
        self.shields = tuple(shields)
        self.name = " → ".join(shield.name for shield in self.shields) or "none"
        self.acts_on = frozenset().union(*(shield.acts_on for shield in self.shields))
        self.certifies = frozenset().union(*(shield.certifies for shield in self.shields))
        self.reads_label = any(shield.reads_label for shield in self.shields)
        self.by_record = any(shield.by_record for shield in self.shields)

    def __repr__(self) -> str:
        return f"Chain({list(self.shields)!r})"  # sets of kinds print in a different order in each process

    def prepared(self, data: AttributeData, seed: int) -> Chain:
        """Prepare each shield, all on the same records: none sees what the others make of them."""
        return Chain(
            [shield.prepared(data, child_seed(seed, "link", link)) for link, shield in enumerate(self.shields)]
        )

    def certificates(self, values: int, priors: npt.ArrayLike) -> tuple[Certificate, ...]:
        """Return all members' certificates: each of them holds."""
        return tuple(certificate for shield in self.shields for certificate in shield.certificates(values, priors))

    def change(self, message: Message, context: Context) -> Message:
        """Apply each shield to the output of the one before it."""
        for shield in self.shields:
            message, _ = shield.apply(message, context)
            if message.kind in shield.certifies:
                context = _after_certificate(context)
        return message


def members(shield: Shield) -> Iterator[Shield]:
    """Return a chain's shields, or the one shield."""
    if isinstance(shield, Chain):
        for member in shield.shields:
            yield from members(member)
    else:
        yield shield


def _after_certificate(context: Context) -> Context:
    """Return what a chain's later members may know: no records, no model, no policy, and fresh randomness."""
    seed = int(torch.randint(2**62, (1,), generator=context.generator))
    fresh = torch_generator(seed, "behind a certificate")
    return Context(context.device, context.round, fresh, segments=context.segments)


def _check_shape(message: Message, context: Context) -> None:
    """Refuse an update whose length is not the model's."""
    if message.kind in TRAINED and context.segments:
        expected, length = context.segments[-1].stop, message.values[:1].numel()
        if len(message.values) and length != expected:
            raise ShieldError(
                f"the {message.kind} has {length} numbers, but the model has {expected}, so nothing is sent"
            )


def _not_finite(kind: Kind) -> ShieldError:
    return ShieldError(f"the {kind} holds NaN or infinite numbers, so nothing is sent")


def _unusable(shield: Shield) -> ShieldError:
    return ShieldError(f"shield {shield.name!r} returned an unusable message (wrong shape or NaN), so nothing is sent")


def _as_shield_error(shield: Shield, fault: Exception) -> ShieldError:
    if isinstance(fault, ShieldError):
        return fault
    return ShieldError(f"shield {shield.name!r} failed, so nothing is sent: {fault}")


# Many devices at once: as one batch if the shield can, while each device fails by itself.


def _batched(shield: Shield) -> bool:
    """Whether a shield, or a chain's member, treats many devices together."""
    if isinstance(shield, Chain):
        return any(_batched(member) for member in shield.shields)
    return type(shield).change_all is not Shield.change_all


def _applied(shield: Shield, message: Message, context: Context) -> Answer:
    try:
        return shield.apply(message, context)
    except ShieldError as fault:
        return fault


def _shielded(
    shield: Shield, messages: list[Message], contexts: list[Context], rows: Tensor | None = None
) -> list[Message | ShieldError]:
    """Return what leaves of each device's message; `rows` is all of them in one tensor, if there is one already."""
    if isinstance(shield, Chain):
        return _through_chain(shield, messages, contexts, rows)
    kind = messages[0].kind if messages else Kind.UPDATE
    if not messages or kind not in shield.acts_on:
        return list(messages)
    if not _batched(shield):
        applied = [_applied(shield, message, context) for message, context in zip(messages, contexts, strict=True)]
        return [answer if isinstance(answer, ShieldError) else answer[0] for answer in applied]
    together = _stacked(messages, messages[0].values) if rows is None else rows
    answers: list[Message | ShieldError] = list(messages)
    usable = _finite(together) if kind in TRAINED else torch.ones(len(together), dtype=torch.bool)
    for index, (message, context) in enumerate(zip(messages, contexts, strict=True)):
        try:
            _check_shape(message, context)
        except ShieldError as fault:
            return [fault] * len(messages)  # they lie in one matrix, so all have the same length
        if index == 0 and all(other.segments is context.segments for other in contexts):
            break
    for index in (~usable).nonzero()[:, 0].tolist():
        answers[index] = _not_finite(kind)
    indices = usable.nonzero()[:, 0].numpy()
    for index, answer in zip(indices.tolist(), _changed(shield, kind, together, contexts, indices), strict=True):
        answers[index] = answer
    return answers


def _through_chain(
    chain: Chain, messages: list[Message], contexts: list[Context], rows: Tensor | None
) -> list[Message | ShieldError]:
    answers: list[Message | ShieldError] = list(messages)
    sending = list(range(len(messages)))
    contexts = list(contexts)
    for member in chain.shields:
        current = [message for index in sending if isinstance(message := answers[index], Message)]
        changed = _shielded(member, current, [contexts[index] for index in sending], rows)
        for index, answer in zip(sending, changed, strict=True):
            answers[index] = answer
            if isinstance(answer, Message) and answer.kind in member.certifies:
                contexts[index] = _after_certificate(contexts[index])
        sending = [index for index in sending if isinstance(answers[index], Message)]
        rows = None  # the messages are no longer rows of this tensor
    return answers


def _changed(
    shield: Shield, kind: Kind, rows: Tensor, contexts: list[Context], indices: IntArray
) -> list[Message | ShieldError]:
    """Change the rows at some indices; if that fails, halve them until those that fail are isolated."""
    if not len(indices):
        return []
    selected = rows if len(indices) == len(rows) else rows[torch.from_numpy(indices)]
    version = selected._version
    try:
        sent = shield.change_all(selected, [contexts[index] for index in indices])
        if sent is None:
            raise InputError("it cannot treat these as one batch")
        if selected._version != version:
            raise InputError("it wrote to the updates themselves")
        if sent.shape != selected.shape:
            raise InputError("it returned a message of another shape")
        usable = _finite(sent)
    except Exception as fault:
        if len(indices) == 1:
            return [_as_shield_error(shield, fault)]
        middle = len(indices) // 2
        halves = (indices[:middle], indices[middle:])
        return [answer for half in halves for answer in _changed(shield, kind, rows, contexts, half)]
    return [
        Message(kind, row) if fine else _unusable(shield)
        for row, fine in zip(torch.split(sent, 1), usable.tolist(), strict=True)
    ]


def _stacked(messages: Sequence[Message], like: Tensor) -> Tensor:
    """Return the messages' rows in one tensor; without a copy if they are rows of one tensor, in its order."""
    if not messages:
        return like[:0]
    first = messages[0].values
    base = first._base
    if (
        base is not None
        and base.shape == (len(messages), first.shape[1])
        and base.is_contiguous()
        and all(
            message.values._base is base
            and message.values.storage_offset() == index * base.shape[1] + base.storage_offset()
            for index, message in enumerate(messages)
        )
    ):
        return base
    return torch.cat([message.values for message in messages])


def _finite(rows: Tensor) -> Tensor:
    """Return which rows hold only finite numbers: the largest magnitude of any other row is NaN or infinite."""
    return torch.isfinite(rows.abs().amax(dim=1)) if rows.shape[1] else torch.ones(len(rows), dtype=torch.bool)
