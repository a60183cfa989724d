"""DP-SGD (Abadi et al. 2016) on a device: clip every record's gradient, average, add Gaussian noise."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedveil.core.errors import InputError
from fedveil.shields.dp.gaussian import DPGaussian
from fedveil.shields.dp.noise import Place
from fedveil.shields.message import Context, Message, Samples
from fedveil.shields.records import check_recomputed, samples_of, step_of
from fedveil.shields.shield import Shield, ShieldError
from fedveil.updates.gradients import per_sample_gradients
from fedveil.updates.segments import checked

if TYPE_CHECKING:
    import numpy.typing as npt

    from fedveil.certificates import Certificate

_RECORDS = 64
"""How many records' gradients are held at once."""


class DPSGD(DPGaussian):
    """Send step · (Σⱼ gⱼ·min(1, C/‖gⱼ‖₂)/n + N(0, σ²C²/n² I)).

    Symbols: gⱼ the gradient of record j's loss at the weights that the round started from, n the number of the device's
    records, C the clip, σ the noise multiplier, step the factor of the mean gradient (minus the learning rate, or 1), k
    the number of releases.
    Guarantee: replacing one record of a device, n being known, moves the clipped mean by at most 2C/n, so k releases
    are μ-Gaussian differentially private for that record with μ = 2√k/σ, exactly (Dong, Roth and Su 2022); an
    attacker's advantage on a binary attribute of it is at most 2Φ(√k/σ) − 1. The model is local: no trust in the
    server, all records take part in every step, and neither sampling nor the sum over devices is counted. With one
    record this is `DPGaussian` on gradients with B = C and standard deviation σC. For n records *together* (the device,
    or a person with several records) the bound is the one for σ/n: use `DPGaussian`, whose noise does not shrink with
    n.
    It needs one step of plain SGD over all records of a device; after several steps, with batch norm across records or
    with dropout, no record has a gradient of its own, and nothing is sent. Batch norm's statistics are sent as if they
    had not changed.

    Attributes:
        sigma: the noise multiplier: the standard deviation of the noise on the sum of clipped gradients is σC; or give
            epsilon.
        clip: the norm C to which each record's gradient is clipped.
        epsilon: choose the least σ whose ε over `releases` rounds is at most this, at `delta`.
        delta: the δ of (ε, δ).
        releases: the most rounds in which a device sends an update.
    """

    name = "DP-SGD"
    by_record = True
    neighbours = "two devices' records that differ in one, with equal n (local model)"

    def __init__(
        self,
        sigma: float | None = None,
        clip: float = 1.0,
        epsilon: float | None = None,
        delta: float = 1e-5,
        releases: int = 1,
    ) -> None:
        if clip is None:
            raise InputError("DP-SGD: clip must be above 0 and finite; without it no noise hides a record")
        super().__init__(sigma, clip, "update", epsilon, delta, releases)

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on the sum of clipped gradients."""
        assert self.clip is not None
        return self.sigma * self.clip

    def _calibrated(self) -> float:
        assert self.clip is not None
        return super()._calibrated() / self.clip

    @classmethod
    def for_advantage(
        cls, advantage: float, releases: int = 1, clip: float = 1.0, place: Place = "update", delta: float = 1e-5
    ) -> DPSGD:
        """Return the shield with the least noise that bounds the advantage on a record's binary attribute by this."""
        from fedveil.certificates import sigma_for_advantage

        if place != "update":
            raise InputError(f"DP-SGD: it acts on updates, not on place {place!r}; use DP-Gaussian there")
        return cls(sigma_for_advantage(advantage, 1.0, releases), clip, delta=delta, releases=releases)

    def spent(self, releases: int | None = None, delta: float | None = None) -> Certificate:
        """Return the (ε, δ) that one record of a device has spent after this many updates."""
        return _of_one_record(super().spent(releases, delta))

    def certificates_over(self, releases: int, values: int, priors: npt.ArrayLike) -> tuple[Certificate, ...]:
        """Certify advantage, balanced accuracy and accuracy on an attribute of one record after this many updates."""
        certificates = super().certificates_over(releases, values, priors)
        return tuple(_of_one_record(certificate) for certificate in certificates)

    def covers(self) -> dict[str, object]:
        """Return, as an assumption, what the certificate is about."""
        return {"covered messages": "what one record adds to its device's updates, as many as are counted"}

    change_all = Shield.change_all  # device by device: each has its own records

    def change(self, message: Message, context: Context) -> Message:
        """Send the noisy mean of the clipped gradients in place of the update."""
        rows = message.values.flatten(1)
        if len(rows) != 1:
            raise ShieldError(f"{self.name}: got {len(rows)} updates, but the records of one; nothing is sent")
        samples = samples_of(self.name, context)
        step = step_of(self.name, samples)
        checked(rows, context.segments)
        mean, count = self._clipped_mean(rows, context, samples, step), len(samples.x)
        noisy = mean + self.noise(mean.shape, context.generator).to(mean.device) / count
        trained = torch.ones_like(rows, dtype=torch.bool)
        for segment in context.segments:
            trained[:, segment.start : segment.stop] = not segment.statistic
        sent = torch.where(trained, noisy * step, 0.0)
        return message.with_values(sent.to(message.values.dtype).view(message.values.shape))

    def _clipped_mean(self, rows: Tensor, context: Context, samples: Samples, step: float) -> Tensor:
        """Return (1, d) in double precision; refuse if the unclipped gradients do not give the update."""
        if len(samples.x) == 1:
            return self.clipped(rows.double() / step)  # one record's update is its gradient
        plain, clipped = torch.zeros_like(rows, dtype=torch.float64), torch.zeros_like(rows, dtype=torch.float64)
        trained = [segment for segment in context.segments if not segment.statistic]
        for x, y in zip(torch.split(samples.x, _RECORDS), torch.split(samples.y, _RECORDS), strict=True):
            flat = per_sample_gradients(samples.network, samples.loss, x, y).detach().double()
            start = 0
            gradients = torch.zeros(len(x), rows.shape[1], dtype=torch.float64, device=rows.device)
            for segment in trained:
                size = segment.stop - segment.start
                gradients[:, segment.start : segment.stop] = flat[:, start : start + size]
                start += size
            plain += gradients.sum(dim=0)
            clipped += self.clipped(gradients).sum(dim=0)
        weights = torch.cat([parameter.detach().flatten() for parameter in samples.network.parameters()])
        check_recomputed(self.name, rows, plain * (step / len(samples.x)), weights)
        return clipped / len(samples.x)


def _of_one_record(certificate: Certificate) -> Certificate:
    further = "several records of one person, or a device's records together: for n of them the noise counts as σ/n"
    return replace(certificate, does_not_cover=(further, *certificate.does_not_cover))
