"""What the noise shields share: what noise is added to, how a message is clipped first, and what that certifies."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

from fedveil.core.errors import InputError
from fedveil.shields.message import Context, Kind, Message
from fedveil.shields.shield import Shield

if TYPE_CHECKING:
    import numpy.typing as npt

    from fedveil.certificates import Certificate

Place = Literal["update", "input", "last-layer", "representation"]
"""What noise is added to. The last layer's output is the representation: two names for the same thing."""

KINDS = {
    "update": Kind.UPDATE,
    "input": Kind.INPUT,
    "last-layer": Kind.REPRESENTATION,
    "representation": Kind.REPRESENTATION,
}

NOT_COVERED = (
    "messages of other kinds, which leave as they are",
    "how many records a device has, when it sends a message, and that it sent none",
    "the lowest bits of floating-point noise (Mironov 2012)",
)


class NoiseShield(Shield):
    """Clip every row of a message to norm B, then add noise that does not depend on the data.

    The model is local: one row is one release, and any two clipped rows count as neighbours. So a bound on the update
    protects the device as a whole, and one on an input or a representation protects the person whose record it is.
    Sampling gains nothing, because the server, who is the observer, draws the sample itself. What is spent grows with
    the number of rounds in which a device sends an update.
    """

    order: float = 2.0
    """The norm in which a row is clipped."""

    def __init__(self, clip: float | None, place: Place) -> None:
        if place not in KINDS:
            raise InputError(f"{self.name}: place must be one of {', '.join(KINDS)}; got {place!r}")
        if clip is not None and not 0 < clip < math.inf:
            raise InputError(f"{self.name}: clip must be above 0 and finite, or none at all; got {clip}")
        self.clip, self.place = clip, place
        self.acts_on = frozenset({KINDS[place]})
        self.certifies = frozenset() if clip is None else self.acts_on

    def __repr__(self) -> str:
        derived = (
            "acts_on",
            "certifies",
        )  # from `place`; and sets print in a different order in each process
        settings = {name: value for name, value in vars(self).items() if name not in derived}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in settings.items())})"

    @abstractmethod
    def noise(self, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Draw noise in double precision."""

    @abstractmethod
    def certificates_over(self, releases: int, values: int, priors: npt.ArrayLike) -> tuple[Certificate, ...]:
        """Certify what no observer of this many clipped messages can beat; nothing if messages are not clipped."""

    @abstractmethod
    def spent(self, releases: int | None = None) -> Certificate:
        """Return the ε that one device has spent after this many messages; infinite if they are not clipped."""

    def certificates(self, values: int, priors: npt.ArrayLike) -> tuple[Certificate, ...]:
        """Certify one release about a person.

        Updates get no certificate here, since how many of them a device sends depends on the run; see `spent` and
        `certificates_over`.
        """
        return () if KINDS[self.place] is Kind.UPDATE else self.certificates_over(1, values, priors)

    def change(self, message: Message, context: Context) -> Message:
        """Clip every row and add noise drawn from the device's generator."""
        rows = self.clipped(message.values.flatten(1).double())
        sent = rows + self.noise(rows.shape, context.generator).to(rows.device)
        return message.with_values(sent.to(message.values.dtype).view(message.values.shape))

    def change_all(self, updates: Tensor, contexts: Sequence[Context]) -> Tensor | None:
        """Clip many devices' updates together; each device's noise comes from its own generator."""
        rows = self.clipped(updates.flatten(1).double())
        drawn = [self.noise(rows[:1].shape, context.generator) for context in contexts]
        return (rows + torch.cat(drawn).to(rows.device)).to(updates.dtype).view(updates.shape)

    def clipped(self, rows: Tensor) -> Tensor:
        """Return rows·min(1, B/‖row‖); unchanged if there is no clip."""
        if self.clip is None:
            return rows
        norms: Tensor = torch.linalg.vector_norm(rows, ord=self.order, dim=1, keepdim=True)
        return rows * (self.clip / norms.clamp_min(1e-300)).clamp_max(1.0)

    def checked_priors(self, values: int, priors: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Check that there is one prior for each value."""
        law = np.asarray(priors, dtype=np.float64)
        if law.shape != (values,):
            raise InputError(f"{self.name}: {law.size} priors for {values} values; give one for each")
        return law

    def covers(self) -> dict[str, object]:
        """Return, as an assumption, what the certificate is about."""
        kind = KINDS[self.place]
        if kind is Kind.UPDATE:
            return {"covered messages": "the clipped updates of one device, as many as are counted"}
        if kind is Kind.INPUT:
            return {
                "covered messages": "one shielded input per person, and what is computed from it alone, never from u"
            }
        return {"covered messages": "one clipped representation per person"}


def unbounded(name: str, setting: str, value: float) -> Certificate:
    """Return a certificate that guarantees nothing: noise on an unclipped message has ε = ∞."""
    from fedveil.certificates import Certificate

    return Certificate(
        quantity="epsilon",
        bound=math.inf,
        direction="upper",
        assumptions={"clip": "none: two messages may lie arbitrarily far apart, and no ε is finite", setting: value},
        does_not_cover=("anything: this is the papers' unclipped noise, which guarantees nothing",),
        method=f"{name} without clipping",
        citation="Dwork and Roth 2014, §3: noise must be scaled to a sensitivity, and there is none",
    )


def one_of(name: str, setting: str, amount: float | None, epsilon: float | None, clip: float | None) -> None:
    """Check that either the noise or its ε is given, and that this ε can be reached."""
    if (amount is None) == (epsilon is None):
        raise InputError(f"{name}: give either {setting}, the noise, or epsilon, from which the noise follows")
    if amount is not None and not 0 < amount < math.inf:
        raise InputError(f"{name}: {setting} must be above 0 and finite, got {amount}")
    if epsilon is not None and clip is None:
        raise InputError(f"{name}: epsilon {epsilon} cannot be reached without clip: unclipped, it is infinite")


def count(name: str, releases: int) -> int:
    """Check a number of releases; a device that sent nothing spent nothing."""
    if isinstance(releases, bool) or int(releases) != releases or releases < 0:
        raise InputError(f"{name}: releases must be a whole number of at least 0, got {releases!r}")
    return int(releases)
