"""`shield_mod`: a site's shield as a Flower client mod, one line in an existing app.

    app = ClientApp(mods=[shield_mod()])

The order of work for a message: the site's policy is read; the ledger is claimed and checked; the budget is asked
whether one message more may leave; only then the app works. Its answer is taken apart, its update shielded, an entry
written to the disk, and a new reply put together. Whatever goes wrong, the server gets one fixed sentence, which says
nothing about the site, its files or its records; the site's own log says the rest.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from flwr.app import ConfigRecord, Context, Error, Message
from flwr.clientapp.typing import ClientAppCallable, Mod
from flwr.common.constant import ErrorCode

from fedveil.config.policy import read_policy
from fedveil.core.errors import InputError
from fedveil.core.policy import MOD_PREFIX, Policy
from fedveil.core.randomness import torch_generator
from fedveil.flower.ledger import Ledger, LedgerError, Reading, Totals
from fedveil.flower.records import (
    Answer,
    Arrays,
    Figures,
    Places,
    answer_of,
    came_with,
    check_same,
    content_of,
)
from fedveil.flower.secret_noise import keep_secret, secret_generator
from fedveil.flower.site_shield import own_values, site_shield, zoos_in
from fedveil.flower.spending import Cost, costs_of, epsilon_of, exhausted
from fedveil.shields import message as shielded
from fedveil.shields.shield import Shield, ShieldError, members

POLICY_KEY = "fedveil-policy"
"""Where the node config names the site's policy."""

STATE = "fedveil.ledger"
"""The record of the node's state that remembers the ledger's last hash."""

T = TypeVar("T")
DELTA = 1e-5
"""At which ε is written down where the policy limits none."""

_log = logging.getLogger("fedveil.flower")


class Refusal(Exception):  # noqa: N818 (a decision of the site, not a fault)
    """Nothing is sent: a fixed sentence for the server, and a line for the site's log."""

    def __init__(self, told: str, line: str) -> None:
        super().__init__(line)
        self.told = told


NO_POLICY = "the site's policy is missing or cannot be used"
NO_LEDGER = "the site's ledger cannot be relied on or written"
NO_BUDGET = "the site's budget is spent"
NOT_ALLOWED = "the app's reply holds what the site does not allow"
NOT_SHIELDED = "the update could not be shielded"
APP_FAILED = "the app failed"
NO_MESSAGE = "messages of this kind are not answered"
MOD_FAILED = "the mod failed"
_SENTENCES = (NO_POLICY, NO_LEDGER, NO_BUDGET, NOT_ALLOWED, NOT_SHIELDED, APP_FAILED, NO_MESSAGE, MOD_FAILED)
_SAID = "fedveil: nothing was sent: "


def shield_mod(policy: str | Path | None = None, *, seed: int | None = None, wait: float = 10.0) -> Mod:
    """Return a mod that lets nothing leave a node but what the site's policy allows.

    Args:
        policy: the site's policy, where the node config does not name one under `fedveil-policy`; that one wins.
        seed: of the shield's randomness, for tests alone: whoever knows it takes the noise off. None: the operating
            system's.
        wait: for how many seconds another process may hold the ledger.
    """

    def mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        # A reply says again what its message's metadata say: those that came, not what an app made of them.
        asked = copy.copy(message)
        asked.__dict__["_metadata"] = copy.deepcopy(message.metadata)
        try:
            return _Exchange(message, asked, context, policy, seed, wait).answer(call_next)
        except Refusal as refusal:
            _log.error("nothing was sent: %s", refusal)
            told = refusal.told
        except Exception:  # nothing of it may reach the server: Flower would send it the exception's text
            _log.exception("nothing was sent: the mod failed")
            told = MOD_FAILED
        error = Error(ErrorCode.MOD_FAILED_PRECONDITION, _SAID + told)
        return Message(error, reply_to=asked)

    return mod


@dataclass
class _Exchange:
    """One message and the answer to it."""

    message: Message
    asked: Message
    context: Context
    named: str | Path | None
    seed: int | None
    wait: float

    def answer(self, call_next: ClientAppCallable) -> Message:
        kind = self.asked.metadata.message_type.partition(".")[0]
        if kind not in ("train", "evaluate", "query"):
            # Of "get_parameters" no update can be told, and "get_properties" may hold anything.
            raise Refusal(
                NO_MESSAGE,
                f"{kind!r}: a site answers train, evaluate and query messages; give the server its first weights",
            )
        policy = _or(NO_POLICY, self._policy)
        shield = _or(NO_POLICY, lambda: site_shield(policy))
        named = repr(shield)
        costs = costs_of(shield)
        ledger = Ledger(Path(policy.ledger), self.wait)
        with _claimed(ledger):
            known = _or(NO_LEDGER, lambda: self._checked(ledger))
            _or(NO_LEDGER, lambda: ledger.begin(known))
            training = kind == "train"
            _check_budget(policy, known, costs, updating=training)
            came = _or(NOT_ALLOWED, lambda: came_with(self.message.content)) if training else {}
            answer = self._from_app(call_next, came)
            _check_allowed(policy, answer)
            known = _or(NO_LEDGER, lambda: self._checked(ledger))  # it may have been changed in the meantime
            _check_budget(policy, known, costs, updating=answer.arrays is not None)
            arrays, figures = None, dict(answer.figures)
            if answer.arrays is not None:
                if answer.record is None or not training:
                    raise Refusal(NOT_ALLOWED, f"arrays in the reply to a {kind} message")
                arrays, damage = self._shielded(policy, shield, came[_origin(answer)], answer.arrays, known)
                if "damage" in policy.tell:
                    figures |= damage
            updating = arrays is not None
            totals = _totals(policy, known, costs, updating)
            if updating and "spent" in policy.tell:
                figures |= _spent(totals)
            content = content_of(answer, arrays, figures)
            written = _or(
                NO_LEDGER,
                lambda: ledger.append(
                    known,
                    run=self.context.run_id,
                    message=self.asked.metadata.message_id,
                    kind="update" if updating else "figures",
                    shield=named if updating else "",
                    costs=list(costs) if updating else [],
                    told=list(figures),
                    totals=totals,
                    policy=policy.digest,
                ),
            )
            self._remember(ledger, written)
            return Message(content, reply_to=self.asked)

    def _policy(self) -> Policy:
        path = self.context.node_config.get(POLICY_KEY, self.named)
        if not isinstance(path, str | Path) or not str(path):
            raise InputError(
                f"node config: {POLICY_KEY} names no file; start the node with --node-config "
                f"'{POLICY_KEY}=\"policy.toml\"'"
            )
        return read_policy(path)

    def _checked(self, ledger: Ledger) -> Reading:
        """Read the ledger; it must still hold the last entry that this node remembers."""
        known = ledger.read()
        remembered = self.context.state.config_records.get(STATE)
        if remembered is not None and remembered.get("path") == str(ledger.path.resolve()):
            count = remembered.get("count")
            if (
                not isinstance(count, int)
                or len(known.entries) < count
                or (count and known.entries[count - 1].hash != remembered.get("hash"))
            ):
                raise LedgerError(f"{ledger.path}: is older than what this node remembers: it was set back or replaced")
        return known

    def _remember(self, ledger: Ledger, known: Reading) -> None:
        self.context.state[STATE] = ConfigRecord(
            {"path": str(ledger.path.resolve()), "count": len(known.entries), "hash": known.last}
        )

    def _from_app(self, call_next: ClientAppCallable, came: dict[str, Arrays]) -> Answer:
        remembered = self.context.state.config_records.get(STATE)
        try:
            reply = call_next(self.message, self.context)
        except (Exception, SystemExit) as fault:  # its text may hold records, and Flower would send it to the server
            _log.exception("the app failed")
            raise Refusal(APP_FAILED, f"the app raised {type(fault).__name__}") from None
        finally:
            if remembered is not None:
                self.context.state[STATE] = remembered
        if not isinstance(reply, Message):
            raise Refusal(APP_FAILED, f"the app returned a {type(reply).__name__}, and no message")
        if reply.has_error():
            inner = next((own for own in _SENTENCES if reply.error.reason == _SAID + own), APP_FAILED)
            raise Refusal(inner, "the app, or a mod inside this one, replied with an error")
        return _or(NOT_ALLOWED, lambda: answer_of(reply.content, came))

    def _shielded(
        self, policy: Policy, shield: Shield, came: Arrays, reached: Arrays, known: Reading
    ) -> tuple[Arrays, Figures]:
        """Return the arrays as they may leave, and what that did to the update."""
        _or(NOT_ALLOWED, lambda: check_same(came, reached))
        layout = next((zoo.segments for zoo in zoos_in(shield).values()), ())
        places = _or(NOT_SHIELDED, lambda: Places.of(came, layout))
        if not places.keys:
            raise Refusal(NOT_ALLOWED, "arrays without one of floating-point numbers")
        number = known.count("update") + 1
        if self.seed is None:
            for member in members(shield):
                keep_secret(member)
            generator = secret_generator()
        else:
            generator = torch_generator(self.seed, "shield", number, self.context.node_id)
        own = shielded.Context(
            self.context.node_id, number, generator, data=own_values(policy, shield), segments=places.segments
        )
        update = shielded.Message(shielded.Kind.UPDATE, places.update(came, reached))
        try:
            sent, damage = shield.apply(update, own)
        except ShieldError as fault:
            raise Refusal(NOT_SHIELDED, str(fault)) from None
        arrays = _or(NOT_SHIELDED, lambda: places.moved(came, sent.values))
        figures = {"l2": damage.l2, "linf": damage.linf, "cosine": damage.cosine, "bytes": damage.bytes}
        return arrays, {f"{MOD_PREFIX}{name}": value for name, value in figures.items()}


def _origin(answer: Answer) -> str:
    """Return the name of the record that an answer's arrays came in."""
    return "fitins.parameters" if answer.legacy else str(answer.record)


def _check_allowed(policy: Policy, answer: Answer) -> None:
    for name in answer.figures:
        if name not in policy.metrics:
            raise Refusal(NOT_ALLOWED, f"{policy.path}: metrics: does not allow {name!r}, which the app would tell")


def _check_budget(policy: Policy, known: Reading, costs: tuple[Cost, ...], updating: bool) -> None:
    budget, figures = policy.budget, known.count("figures")
    if not updating and budget.evaluations is not None:
        why = f"all {budget.evaluations} evaluations of the budget are sent" if figures >= budget.evaluations else None
    else:
        why = exhausted(budget, known.costs, known.count("update"), costs)
    if why is not None:
        raise Refusal(NO_BUDGET, f"{policy.ledger}: {why}")


def _totals(policy: Policy, known: Reading, costs: tuple[Cost, ...], updating: bool) -> Totals:
    delta = policy.budget.delta or (DELTA if policy.budget.epsilon is None else 0.0)
    epsilon = epsilon_of([*known.costs, *(costs if updating else ())], delta)
    return Totals(
        updates=known.count("update") + updating,
        figures=known.count("figures") + (not updating),
        epsilon=epsilon if math.isfinite(epsilon) else None,
        delta=delta,
    )


def _spent(totals: Totals) -> Figures:
    told: Figures = {f"{MOD_PREFIX}messages": totals.updates}
    if totals.epsilon is not None:
        told |= {f"{MOD_PREFIX}epsilon": totals.epsilon, f"{MOD_PREFIX}delta": totals.delta}
    return told


def _or(told: str, work: Callable[[], T]) -> T:
    """Do a piece of work; where it is refused, say to the server no more than this."""
    try:
        return work()
    except InputError as fault:
        raise Refusal(told, str(fault)) from None


@contextmanager
def _claimed(ledger: Ledger) -> Iterator[None]:
    """Hold the ledger; what is refused inside keeps its own words."""
    claim = ledger.claimed()
    _or(NO_LEDGER, claim.__enter__)
    try:
        yield
    finally:
        claim.__exit__(None, None, None)
