"""Shield: what a device does to a message before it leaves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
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
"""Messages that training made: where one is not finite, training failed, and no shield can mend that."""


class ShieldError(InputError):
    """A shield could not do its work: nothing is sent."""


def check_shape(message: Message, context: Context) -> None:
    """Refuse an update that is not as long as the model says."""
    if message.kind in TRAINED and context.segments:
        expected, given = context.segments[-1].stop, message.values[:1].numel()
        if len(message.values) and given != expected:
            raise ShieldError(
                f"the {message.kind} has {given} numbers where the model has {expected}, so nothing is sent"
            )


class Shield(ABC):
    """`apply(message, context) → (message, damage)`.

    A shield names the kinds of messages that it acts on; all others pass unchanged. It fails closed:
    whatever goes wrong inside raises `ShieldError`, and the device sends nothing. One that acts on `Kind.INPUT`
    changes a device's records before anything else sees them; if it fails, there is no run.
    """

    name: str = "shield"
    acts_on: frozenset[Kind] = LEAVING
    certifies: frozenset[Kind] = frozenset()
    """Kinds of messages whose certificate this shield's own work gives; a chain keeps it true for them."""
    form: str | None = None
    """What a policy calls what this does; a policy that asks for another form is not met."""
    by_device: bool = False
    """Whether it does for each device what that device's own policy says."""
    reads_label: bool = False
    """Whether records are changed by what their label is: a model may then not be judged on changed records."""
    by_record: bool = False
    """Whether it needs `Context.samples`, what an update was computed from, record by record."""

    def prepared(self, data: AttributeData, seed: int) -> Shield:
        """Return the shield with what all devices are told beforehand, learned from these training records alone."""
        return self

    def certificates(self, values: int, priors: npt.ArrayLike) -> tuple[Certificate, ...]:
        """Return what no observer can beat on an attribute of so many values with these priors; by default nothing."""
        return ()

    def certificates_on(
        self, data: AttributeData, rows: IntArray, attribute: str, seed: int
    ) -> tuple[Certificate, ...]:
        """Return what people not used in preparing the shield show that no observer can beat; by default nothing.

        Called on a prepared shield with people whom it has never seen, and about what is shown of one of them. A chain
        returns nothing: its other members may change what this one saw, or read u behind it.
        """
        return ()

    @abstractmethod
    def change(self, message: Message, context: Context) -> Message:
        """Return the message as it may leave."""

    def change_all(self, updates: Tensor, contexts: Sequence[Context]) -> Tensor | None:
        """Return many devices' updates as they may leave, one row each, or None: to be changed one by one.

        A shield whose work is faster for many devices together overrides this. The rows given are not to be written
        to. Where it raises, the devices are tried in smaller batches, so that only those who fail are silent.
        """
        return None

    def apply_all(
        self, updates: Tensor, contexts: Sequence[Context], kind: Kind = Kind.UPDATE
    ) -> list[tuple[Message, Damage] | ShieldError]:
        """Shield one update of each device; where that cannot be done for one, its place holds the error.

        All others' updates leave as if that device had not been there.
        """
        from fedveil.shields.batch import apply_all

        return apply_all(self, updates, contexts, kind)

    def apply(self, message: Message, context: Context) -> tuple[Message, Damage]:
        """Shield a message, and measure what that did to it."""
        if message.kind not in self.acts_on:
            return message, Damage.between(message.values, message.values, message.bytes)
        check_shape(message, context)
        if message.kind in TRAINED and not torch.isfinite(message.values).all():
            raise ShieldError(f"the {message.kind} holds NaN or infinite numbers, so nothing is sent")
        true = message.values.clone()  # a shield may change numbers in place; the damage is measured all the same
        try:
            sent = self.change(message, context)
            usable = sent.values.shape == true.shape and bool(torch.isfinite(sent.values).all())
        except ShieldError:
            raise
        except Exception as fault:
            raise ShieldError(f"shield {self.name!r} failed, so nothing is sent: {fault}") from fault
        if not usable:
            raise ShieldError(f"shield {self.name!r} made an unusable message (shape or NaN), so nothing is sent")
        if sent is message and not torch.equal(true, sent.values):
            sent = sent.with_values(sent.values)  # changed in place: a shorter form that it had holds no longer
        return sent, Damage.between(true, sent.values, sent.bytes)

    def __repr__(self) -> str:
        made = {name: value for name, value in vars(self).items() if not name.endswith("_")}  # not what it learned
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in made.items())})"


class Identity(Shield):
    """No protection: the message leaves as it is."""

    name = "none"

    def change(self, message: Message, context: Context) -> Message:
        """Return the message itself."""
        return message


class Chain(Shield):
    """Several shields, one after another; one that fails stops them all.

    A member's certificate is the chain's. What stands before it does not matter: the bound holds for whatever is sent
    into it, even u itself. What stands behind it works on its output, and no processing of an output tells more than
    the output does. That this is all it works on is seen to: later members' contexts hold no records, no model and no
    policy, and their randomness does not tell the noise.
    """

    def __init__(self, shields: Sequence[Shield]) -> None:
        self.shields = tuple(shields)
        self.name = " → ".join(shield.name for shield in self.shields) or "none"
        self.acts_on = frozenset().union(*(shield.acts_on for shield in self.shields))
        self.certifies = frozenset().union(*(shield.certifies for shield in self.shields))
        self.reads_label = any(shield.reads_label for shield in self.shields)
        forms = {shield.form for shield in self.shields} - {None}
        self.form = forms.pop() if len(forms) == 1 else None
        self.by_device = all(shield.by_device for shield in self.shields if shield.form is not None)
        self.reads_label = any(shield.reads_label for shield in self.shields)
        self.by_record = any(shield.by_record for shield in self.shields)

    def __repr__(self) -> str:
        return f"Chain({list(self.shields)!r})"  # sets of kinds print in another order in another process

    def prepared(self, data: AttributeData, seed: int) -> Chain:
        """Prepare each shield, all on the same records: none sees what the others would have left of them."""
        ready = [shield.prepared(data, child_seed(seed, "link", link)) for link, shield in enumerate(self.shields)]
        return Chain(ready)

    def certificates(self, values: int, priors: npt.ArrayLike) -> tuple[Certificate, ...]:
        """Return all members' certificates: each of them holds."""
        return tuple(one for shield in self.shields for one in shield.certificates(values, priors))

    def change(self, message: Message, context: Context) -> Message:
        """Apply each shield to what the one before it would have sent."""
        for shield in self.shields:
            message, _ = shield.apply(message, context)
            if message.kind in shield.certifies:
                context = behind_certificate(context)
        return message


def behind_certificate(context: Context) -> Context:
    """Return what a chain's later members may know: no records, no model, no policy, and fresh randomness."""
    seed = int(torch.randint(2**62, (1,), generator=context.generator))
    fresh = torch_generator(seed, "behind a certificate")
    return Context(context.device, context.round, fresh, segments=context.segments)
