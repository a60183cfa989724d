"""RecUP-FL as printed: small steps against a zoo of models that read the true attribute from an update."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedveil.core.errors import InputError, nearest
from fedveil.core.policy import Policy, check_attributes, check_levels
from fedveil.shields.message import Context, Kind, Message
from fedveil.shields.recup.fgsm import (
    VARIANTS,
    DirectPoint,
    Point,
    Variant,
    climb,
    depth,
    draw_models,
    fooled,
    reach,
    slopes_of,
)
from fedveil.shields.recup.pools import PooledPoint
from fedveil.shields.recup.zoo import Zoo
from fedveil.shields.shield import Shield, ShieldError

KIND = "recup"
"""The registered name, by which a policy asks for this shield."""

_NUMBERS = 2**23
"""How many candidate entries of pools are held at once."""

_ROUNDS = 8
"""How many rounds' start weights are kept; the oldest are dropped first."""


class PublishesWhatItHides(UserWarning):
    """A shield whose change to an update is a function of the attribute that it should hide."""


class RecUP(Shield):
    """Publishes what it hides: RecUP-FL as printed, which moves updates so that a zoo reads the wrong value.

    Sends ∇w + Σ_m γ_m·(∇w^{P,m} − ∇w). For each attribute m, Q members of its zoo are drawn P times; FGSM steps ε/Q
    against the first Q − 1 lead to a point from which one step ε against the last is taken, and only that step is kept.
    Symbols: ∇w an update (a gradient, or a difference of weights after several steps); ε the step; P iterations; Q
    models; γ_m the level of attribute m, in [0, 1]; levels sum to at most 1. Cui et al. (2023), RecUP-FL, Algorithm 1,
    corrected: the sum over m comes after the loop over p, and differences are summed.
    Guarantee: only |sent − ∇w|_∞ ≤ P·ε (in the other variants ε), and ≤ `budget` if that is given.
    **Publishes what it hides**: the change is computed from the true value, so an attacker who has seen defended
    updates reads the value from the change. On Adult's sex at 30% of the norm, attackers reach 0.84 on clean updates;
    on defended ones, the paper's attackers, who have seen none, reach 0.31, and one who has seen some reaches 1.00
    (docs/results.md). The shield is kept as a reproduction; creating one warns.

    Attributes:
        zoos: a zoo for each attribute, or its file.
        levels: the level γ of each attribute; by default, equal shares of 1. A device's policy has its own levels.
        epsilon: the step ε; or give budget.
        budget: the most that a number may move in total: ε = budget/P, or budget itself in the other variants.
        iterations: P, how often members are drawn.
        models: Q, how many members are drawn each time; all members if the zoo has fewer.
        variant: meta is the method above; one-step, average, iterative and momentum are compared with it (Appendix E).
        minimal: stop for a device once all members guess wrong (§3.2), or this share of them; judged for each attribute
            separately, before levels.
        seed: the seed for the draws of members, which all devices of a round share; no secret depends on them.
    """

    name = "recup"
    acts_on = frozenset({Kind.GRADIENT, Kind.UPDATE})
    by_device = frozenset({"budget", "minimal"})

    def __init__(
        self,
        zoos: Zoo | str | Path | Sequence[Zoo | str | Path],
        levels: Mapping[str, float] | None = None,
        epsilon: float | None = None,
        budget: float | None = None,
        iterations: int = 10,
        models: int = 5,
        variant: Variant = "meta",
        minimal: bool | float = False,
        seed: int = 0,
    ) -> None:
        listed = [zoos] if isinstance(zoos, Zoo | str | Path) else zoos
        if not isinstance(listed, Sequence) or not all(isinstance(zoo, Zoo | str | Path) for zoo in listed):
            raise InputError(f"recup: zoos are zoos or their files, got {zoos!r}")
        loaded = [zoo if isinstance(zoo, Zoo) else Zoo.load(zoo) for zoo in listed]
        self.zoos = {zoo.attribute: zoo for zoo in loaded}
        if not loaded or len(self.zoos) < len(loaded):
            raise InputError("recup: give one zoo for each attribute, at least one and none twice")
        if (epsilon is None) == (budget is None):
            raise InputError("recup: give either epsilon, the size of a step, or budget, the most a number may move")
        for setting, value in (("epsilon", epsilon), ("budget", budget)):
            if value is not None:
                _check_amount(setting, value)
        for setting, count in (("iterations", iterations), ("models", models)):
            if not _number(count) or int(count) != count or count < 1:
                raise InputError(f"recup: {setting} is a whole number of at least 1; got {count}")
        if variant not in VARIANTS:
            raise InputError(f"recup: no variant {variant!r}: {nearest(str(variant), VARIANTS)}")
        _check_minimal(minimal)
        levels = {name: 1 / len(self.zoos) for name in self.zoos} if levels is None else levels
        check_levels(levels, "recup")
        check_attributes(levels, tuple(self.zoos), "recup")
        self.levels = {name: float(level) for name, level in levels.items()}
        self.minimal, self.seed = minimal if isinstance(minimal, bool) else float(minimal), seed
        self.epsilon, self.budget, self.variant = epsilon, budget, variant
        self.iterations, self.models = int(iterations), int(models)
        self.start_weights_: dict[int, Tensor] = {}
        warnings.warn(
            "recup, as printed, publishes what it hides: its change to an update follows from the true value, and an "
            "attacker retrained on defended updates reads it almost always (Adult's sex: 1.00); use the recommended "
            "shield of a policy",
            PublishesWhatItHides,
            stacklevel=2,
        )

    def __repr__(self) -> str:
        settings = {name: value for name, value in vars(self).items() if name != "zoos" and not name.endswith("_")}
        listed = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        return f"RecUP(zoos={list(self.zoos.values())}, {listed})"

    def staleness(self) -> dict[int, dict[str, float | None]]:
        """Return, by round and attribute, how far the model had moved from what the zoo was fitted on; see `Zoo`.

        None if the zoo does not say what it was fitted on. Only the last eight rounds are known.
        """
        return {
            number: {name: zoo.staleness(weights) for name, zoo in self.zoos.items()}
            for number, weights in self.start_weights_.items()
        }

    def change(self, message: Message, context: Context) -> Message:
        """Change each row: per-sample gradients by the value of their record, others by the most frequent value."""
        rows = message.values.flatten(1)
        each = range(len(rows)) if message.kind is Kind.GRADIENT and len(rows) > 1 else None
        sent = self._sent(rows, [context] * len(rows), each)
        return message.with_values(sent.view(message.values.shape))

    def change_all(self, updates: Tensor, contexts: Sequence[Context]) -> Tensor:
        """Change every device's update, many as one batch."""
        return self._sent(updates, contexts, None)

    def _sent(self, rows: Tensor, contexts: Sequence[Context], records: Sequence[int] | None) -> Tensor:
        """Return changed rows; `records` gives the record of each row, if rows belong to records."""
        choices = [self._choice(context) for context in contexts]
        levels = [choice[0] for choice in choices]
        hidden = {name for by_name in levels for name, level in by_name.items() if level > 0}
        for context in {id(context.segments): context for context in contexts}.values():
            for name in hidden:
                self.zoos[name].check(context.segments, name)
        sent = rows.clone()
        if not hidden or not len(rows):
            return sent
        self._remember(rows[0], contexts[0])
        sizes, bounds = self._sizes([choice[1] for choice in choices], rows)
        shares = torch.tensor([_share(choice[2]) for choice in choices], dtype=torch.float64)
        for name in sorted(hidden):
            level = torch.tensor([by_name.get(name, 0.0) for by_name in levels], dtype=rows.dtype, device=rows.device)
            for indices in self._parts(name, level.nonzero()[:, 0]):
                codes = torch.tensor(
                    [
                        _true_code(self.zoos[name], contexts[index], None if records is None else records[index])
                        for index in indices.tolist()
                    ]
                )
                start = rows if len(indices) == len(rows) else rows[indices]
                point = self._climbed(name, start, codes, contexts[0].round, sizes[indices], shares[indices])
                part = sent if len(indices) == len(sent) else sent[indices]
                nonzero = (rows[indices] != 0).any(dim=1, keepdim=True).to(level)  # a zero update stays 0
                point.write(part, level[indices, None] * nonzero, bounds[indices])
                if part is not sent:
                    sent[indices] = part
        return sent

    def _climbed(self, name: str, rows: Tensor, codes: Tensor, number: int, sizes: Tensor, shares: Tensor) -> Point:
        zoo = self.zoos[name]
        point: Point
        if zoo.features == "max":
            count = depth(self.variant, self.iterations, min(self.models, len(zoo)))
            point = PooledPoint.of(rows, zoo.segments, count)
        else:
            point = DirectPoint(rows, zoo.segments, zoo.features)
        drawn = draw_models(zoo, self.variant, self.iterations, self.models, self.seed, number)

        def going_on(inputs: Tensor) -> Tensor:
            return fooled(zoo, inputs, codes) < shares - 1e-9

        judged = going_on if bool((shares <= 1).any()) else None
        with torch.no_grad():
            climb(point, slopes_of(zoo, codes), drawn, sizes, self.variant, judged)
        return point

    def _parts(self, name: str, indices: Tensor) -> Sequence[Tensor]:
        zoo = self.zoos[name]
        width = len(zoo.mean) * depth(self.variant, self.iterations, self.models)
        parts: Sequence[Tensor] = torch.split(indices, max(1, _NUMBERS // max(1, width)))
        return parts

    def _sizes(self, totals: Sequence[float | None], rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return each row's step ε and the most that its numbers may move, (n, 1) each."""
        steps = reach(self.variant, self.iterations)
        sizes = [float(self.epsilon or 0.0) if total is None else total / steps for total in totals]
        bounds = [math.inf if total is None else total for total in totals]
        return rows.new_tensor(sizes)[:, None], rows.new_tensor(bounds)[:, None]

    def _choice(self, context: Context) -> tuple[Mapping[str, float], float | None, bool | float]:
        """Return levels, budget and minimal: those of the device's policy, or the shield's if the policy names none."""
        if context.policy is None:
            return self.levels, self.budget, self.minimal
        context.policy.check(tuple(self.zoos))
        settings = _settings_in(context.policy)
        if "budget" in settings:
            _check_amount("budget", settings["budget"])
        _check_minimal(settings.get("minimal", False))
        return context.policy.hide, settings.get("budget", self.budget), settings.get("minimal", self.minimal)

    def _remember(self, update: Tensor, context: Context) -> None:
        """Keep the weights from which a round's updates started, if the device knows them."""
        if context.round in self.start_weights_:
            return
        weights = _start_weights(update, context)
        if weights is not None:
            self.start_weights_[context.round] = weights
            while len(self.start_weights_) > _ROUNDS:
                del self.start_weights_[min(self.start_weights_)]


def _settings_in(policy: Policy) -> Mapping[str, Any]:
    """Return the settings that a policy names for this shield; nothing is sent if it asks for another shield."""
    for choice in policy.chosen:
        if choice.kind == KIND:
            return choice.settings
    asked_for = ", ".join(str(choice) for choice in policy.chosen)
    raise ShieldError(f"the policy asks for {asked_for}, but this shield is {KIND}, so nothing is sent")


def _share(minimal: bool | float) -> float:
    """Return the share of members that is enough to stop; a share above 1 never stops early."""
    return 2.0 if minimal is False else float(minimal)


def _start_weights(update: Tensor, context: Context) -> Tensor | None:
    """Return the start weights in an update's order: the network's, or the final weights minus the update."""
    players = dict.fromkeys(segment.player for segment in context.segments)
    if all(player in context.networks for player in players):
        states = {player: context.networks[player].state_dict() for player in players}
        tensors = [states[segment.player].get(segment.name) for segment in context.segments]
        flat = [tensor.flatten() for tensor in tensors if tensor is not None]
        return torch.cat(flat).detach().clone() if len(flat) == len(tensors) else None
    if all(player in context.model for player in players):
        final = torch.cat([context.model[player].flatten() for player in players])
        return final - update.to(final) if len(final) == len(update) else None
    return None


def _true_code(zoo: Zoo, context: Context, record: int | None) -> int:
    """Return a device's most frequent known value, or one record's value."""
    column = context.data.get(f"u:{zoo.attribute}")
    if column is None:
        raise ShieldError(f"the device does not hold its own {zoo.attribute!r}, so nothing is sent")
    codes = column.flatten() if record is None else column.flatten()[record : record + 1]
    codes = codes[codes >= 0].long()
    if not len(codes):
        raise ShieldError(f"the device's own {zoo.attribute!r} is unknown, so nothing is sent")
    counts = torch.bincount(codes)
    if len(counts) > len(zoo.values):
        raise ShieldError(
            f"{zoo.attribute!r} has a value numbered {len(counts) - 1}, but its zoo knows {len(zoo.values)} values, "
            "so nothing is sent"
        )
    return int(counts.argmax())


def _check_amount(setting: str, value: Any) -> None:
    if not _number(value) or not 0 < value < math.inf:
        raise InputError(f"recup: {setting} must be above 0 and finite; got {value}")


def _check_minimal(minimal: Any) -> None:
    if not isinstance(minimal, bool) and not (_number(minimal) and 0 < minimal <= 1):
        raise InputError(f"recup: minimal is true, false, or the share of members to fool, in (0, 1]; got {minimal!r}")


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
