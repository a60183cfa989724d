"""RecUP-FL as printed: small steps against a zoo of models that read the true attribute from an update."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from fedveil.core.errors import InputError, nearest
from fedveil.core.policy import Policy
from fedveil.shields.message import Context, Kind, Message
from fedveil.shields.pool_entries import entries_of
from fedveil.shields.recup import Zoo
from fedveil.shields.recup.fgsm import VARIANTS, Variant, climb, depth, draw_models, fooled, reach, slopes_of
from fedveil.shields.recup.fgsm_points import DirectPoint, Point, PooledPoint
from fedveil.shields.recup.zoo_age import ZooAge
from fedveil.shields.shield import Shield, ShieldError

FORM = "as-printed"
"""What a policy calls this."""

_NUMBERS = 2**23
"""How many candidate entries of pools are held at once."""


class PublishesWhatItHides(UserWarning):
    """A shield whose change to an update is a function of the attribute that it is to hide."""


class RecUP(Shield):
    """Send ∇w + Σ_m γ_m·(∇w^{P,m} − ∇w): for each attribute m, P times Q members of its zoo are drawn; FGSM steps ε/Q
    against the first Q − 1 lead to a point from which one step ε against the last is made, and only that step is kept.

    Symbols: ∇w an update (a gradient, or a difference of weights after several steps); ε the step; P iterations; Q
    models; γ_m the level of attribute m, in [0, 1], together at most 1. Cui et al. (2023), RecUP-FL, Algorithm 1, with
    its slips put right: the sum over m stands behind the loop over p, and what is summed are differences.
    Guarantee: none but |sent − ∇w|_∞ ≤ P·ε (in the other variants ε), and ≤ `budget` where that is given.
    **Publishes what it hides**: the change is computed from the true value, so an attacker who has seen defended
    updates reads that from the change. On Adult's sex at 30% of the norm: clean updates .84; defended ones .31 by the
    paper's attackers, who have not seen any, and 1.00 by one who has (docs/results.md). Kept as a reproduction; making
    one warns.

    Attributes:
        zoos: a zoo for each attribute, or where its file lies.
        levels: γ of each attribute; equal shares of 1 if unsaid. A device's policy has its own.
        epsilon: the step ε; or give budget.
        budget: the most that a number may move in all: ε = budget/P, or budget itself in the other variants.
        iterations: P.
        models: Q; all members where the zoo has fewer.
        variant: meta is the above; one-step, average, iterative and momentum are what it is compared with (Appendix E).
        minimal: stop for a device once all members guess wrong (§3.2), or this share of them; judged for each attribute
            by itself, before levels.
        seed: of the draws of members, which are the round's, the same for all devices: nothing secret hangs on them.
    """

    name = "recup"
    acts_on = frozenset({Kind.GRADIENT, Kind.UPDATE})
    form = FORM
    by_device = True

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
        if not isinstance(zoos, Zoo | str | Path | Sequence) or not all(
            isinstance(own, Zoo | str | Path) for own in ([] if isinstance(zoos, Zoo | str | Path) else zoos)
        ):
            raise InputError(f"recup: zoos are zoos or their files, got {zoos!r}")
        given = [zoos] if isinstance(zoos, Zoo | str | Path) else list(zoos)
        loaded = [own if isinstance(own, Zoo) else Zoo.load(own) for own in given]
        self.zoos = {zoo.attribute: zoo for zoo in loaded}
        if not loaded or len(self.zoos) < len(loaded):
            raise InputError("recup: give one zoo for each attribute, at least one and none twice")
        if (epsilon is None) == (budget is None):
            raise InputError("recup: give either epsilon, the size of a step, or budget, the most a number may move")
        for setting, value in (("epsilon", epsilon), ("budget", budget)):
            if value is not None and (not _number(value) or not 0 < value < math.inf):
                raise InputError(f"recup: {setting} must be above 0 and finite; got {value}")
        for setting, count in (("iterations", iterations), ("models", models)):
            if not _number(count) or int(count) != count or count < 1:
                raise InputError(f"recup: {setting} is a whole number from 1 on; got {count}")
        if variant not in VARIANTS:
            raise InputError(f"recup: no variant {variant!r}: {nearest(str(variant), VARIANTS)}")
        shares = {name: 1 / len(self.zoos) for name in self.zoos} if levels is None else levels
        if not isinstance(minimal, bool) and not _number(minimal):
            raise InputError(f"recup: minimal is true, false, or the share of members to fool; got {minimal!r}")
        for name, level in shares.items():
            if not _number(level):
                raise InputError(f"recup: hide.{name}: a level is a number between 0 and 1; got {level!r}")
        own = {"hide": {name: float(level) for name, level in shares.items()}, "shield": FORM}
        chosen = Policy.of({**own, "minimal": minimal if isinstance(minimal, bool) else float(minimal)}, "recup")
        chosen.check(tuple(self.zoos), "recup")
        self.levels, self.minimal, self.seed = chosen.hide, chosen.minimal, seed
        self.epsilon, self.budget, self.variant = epsilon, budget, variant
        self.iterations, self.models = int(iterations), int(models)
        self.age_ = ZooAge()
        warnings.warn(
            "recup, as printed, publishes what it hides: its change to an update follows from the true value, and an "
            "attacker retrained on defended updates reads it almost always (Adult's sex: 1.00); use the hardened form",
            PublishesWhatItHides,
            stacklevel=2,
        )

    def __repr__(self) -> str:
        made = {name: value for name, value in vars(self).items() if name != "zoos" and not name.endswith("_")}
        return (
            f"RecUP(zoos={list(self.zoos.values())}, {', '.join(f'{name}={value!r}' for name, value in made.items())})"
        )

    def staleness(self) -> dict[int, dict[str, float | None]]:
        """Return by round and attribute how far the model had moved from what the zoo was fitted on; see `Zoo`."""
        return self.age_.of(self.zoos)

    def change(self, message: Message, context: Context) -> Message:
        """Change each row; per-sample gradients by the value of their own record, all else by the most frequent."""
        rows = message.values.flatten(1)
        each = range(len(rows)) if message.kind is Kind.GRADIENT and len(rows) > 1 else None
        sent = self._sent(rows, [context] * len(rows), each)
        return message.with_values(sent.view(message.values.shape))

    def change_all(self, updates: Tensor, contexts: Sequence[Context]) -> Tensor:
        """Change every device's update, many as one batch."""
        return self._sent(updates, contexts, None)

    def _sent(self, rows: Tensor, contexts: Sequence[Context], records: Sequence[int] | None) -> Tensor:
        """Return changed rows; `records` says which record each row is of, where rows are records'."""
        policies = [_policy(context) for context in contexts]
        levels = [self.levels if policy is None else policy.hide for policy in policies]
        hidden = {name for own in levels for name, level in own.items() if level > 0}
        for policy in {id(policy): policy for policy in policies if policy is not None}.values():
            policy.check(tuple(self.zoos))
        for context in {id(context.segments): context for context in contexts}.values():
            for name in hidden:
                self.zoos[name].check(context.segments, name)
        sent = rows.clone()
        if not hidden or not len(rows):
            return sent
        self.age_.meet(rows[0], contexts[0])
        sizes, bounds = self._sizes(policies, rows)
        shares = torch.tensor([self._share(policy) for policy in policies], dtype=torch.float64)
        for name in sorted(hidden):
            level = torch.tensor([own.get(name, 0.0) for own in levels], dtype=rows.dtype, device=rows.device)
            for places in self._parts(name, level.nonzero()[:, 0]):
                where = [(contexts[place], None if records is None else records[place]) for place in places.tolist()]
                codes = torch.tensor([_true_code(self.zoos[name], own, record) for own, record in where])
                own_rows = rows if len(places) == len(rows) else rows[places]
                point = self._climbed(name, own_rows, codes, contexts[0].round, sizes[places], shares[places])
                part = sent if len(places) == len(sent) else sent[places]
                spoken = (rows[places] != 0).any(dim=1, keepdim=True).to(level)  # who has nothing to say moves nothing
                point.write(part, level[places, None] * spoken, bounds[places])
                if part is not sent:
                    sent[places] = part
        return sent

    def _climbed(self, name: str, rows: Tensor, codes: Tensor, number: int, sizes: Tensor, shares: Tensor) -> Point:
        zoo = self.zoos[name]
        point: Point
        if zoo.features == "max":
            count = depth(self.variant, self.iterations, min(self.models, len(zoo)))
            point = PooledPoint(entries_of(rows, zoo.segments, count))
        else:
            point = DirectPoint(rows, zoo.segments, zoo.features)
        drawn = draw_models(zoo, self.variant, self.iterations, self.models, self.seed, number)

        def going_on(found: Tensor) -> Tensor:
            return fooled(zoo, found, codes) < shares - 1e-9

        judged = going_on if bool((shares <= 1).any()) else None
        with torch.no_grad():
            climb(point, slopes_of(zoo, codes), drawn, sizes, self.variant, judged)
        return point

    def _parts(self, name: str, places: Tensor) -> Sequence[Tensor]:
        zoo = self.zoos[name]
        width = len(zoo.mean) * depth(self.variant, self.iterations, self.models)
        found: Sequence[Tensor] = torch.split(places, max(1, _NUMBERS // max(1, width)))
        return found

    def _sizes(self, policies: Sequence[Policy | None], rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return each row's step ε and the most that its numbers may move, (n, 1) each."""
        steps = reach(self.variant, self.iterations)
        totals = [policy.budget if policy is not None and policy.budget else self.budget for policy in policies]
        sizes = [float(self.epsilon or 0.0) if total is None else total / steps for total in totals]
        bounds = [math.inf if total is None else total for total in totals]
        return rows.new_tensor(sizes)[:, None], rows.new_tensor(bounds)[:, None]

    def _share(self, policy: Policy | None) -> float:
        """Return the share of members that is enough to stop at; above 1: go on to the end."""
        minimal = self.minimal if policy is None or policy.minimal is None else policy.minimal
        return 2.0 if minimal is False or minimal is None else float(minimal)


def _policy(context: Context) -> Policy | None:
    """Return the device's choice; one that asks for another form of shield is not met by this one."""
    chosen = context.policy
    if isinstance(chosen, Mapping):
        if not chosen:
            return None
        chosen = Policy.of(dict(chosen))
    if chosen.shield != FORM:
        raise ShieldError(
            f"the policy asks for the form {chosen.shield!r} and this shield is {FORM!r}, so nothing is sent"
        )
    return chosen


def _true_code(zoo: Zoo, context: Context, record: int | None) -> int:
    """Return a device's most frequent known value, or one record's."""
    column = context.data.get(f"u:{zoo.attribute}")
    if column is None:
        raise ShieldError(f"the device does not hold its own {zoo.attribute!r}, so nothing is sent")
    codes = column.flatten() if record is None else column.flatten()[record : record + 1]
    known = codes[codes >= 0].long()
    if not len(known):
        raise ShieldError(f"the device's own {zoo.attribute!r} is unknown, so nothing is sent")
    counts = torch.bincount(known)
    if len(counts) > len(zoo.values):
        raise ShieldError(
            f"{zoo.attribute!r} has a value numbered {len(counts) - 1} and its zoo knows {len(zoo.values)} values, "
            "so nothing is sent"
        )
    return int(counts.argmax())


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
