"""Shield: what a device does to a message before it leaves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

from fedveil.errors import InputError
from fedveil.shields.message import Context, Damage, Kind, Message


class ShieldError(InputError):
    """A shield could not do its work: nothing is sent."""


class Shield(ABC):
    """`apply(message, context) → (message, damage)`.

    A shield names the kinds of messages that it acts on; all others pass unchanged. It fails closed:
    whatever goes wrong inside raises `ShieldError`, and the device sends nothing.
    """

    name: str = "shield"
    acts_on: frozenset[Kind] = frozenset(Kind)

    @abstractmethod
    def change(self, message: Message, context: Context) -> Message:
        """Return the message as it may leave."""

    def apply(self, message: Message, context: Context) -> tuple[Message, Damage]:
        """Shield a message, and measure what that did to it."""
        if message.kind not in self.acts_on:
            return message, Damage.between(message.values, message.values)
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
        return sent, Damage.between(true, sent.values)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


class Identity(Shield):
    """No protection: the message leaves as it is."""

    name = "none"

    def change(self, message: Message, context: Context) -> Message:
        """Return the message itself."""
        return message


class Chain(Shield):
    """Several shields, one after another; one that fails stops them all."""

    def __init__(self, shields: Sequence[Shield]) -> None:
        self.shields = tuple(shields)
        self.name = " → ".join(shield.name for shield in self.shields) or "none"
        self.acts_on = frozenset().union(*(shield.acts_on for shield in self.shields))

    def change(self, message: Message, context: Context) -> Message:
        """Apply each shield to what the one before it would have sent."""
        for shield in self.shields:
            message, _ = shield.apply(message, context)
        return message
