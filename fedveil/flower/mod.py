"""`shield_mod`: a site's shield as a Flower client mod, one line in an existing app.

    app = ClientApp(mods=[shield_mod()])

For each message the mod reads the site's policy, claims and checks the ledger, and checks whether the budget allows one
more message; only then does the app work. The mod takes the app's answer apart, shields the update, writes an entry to
the ledger on disk, and puts a new reply together. Whatever goes wrong, the server gets one fixed sentence, which says
nothing about the site, its files or its records; the site's log has the details.
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
    FlatLayout,
    answer_of,
    check_same,
    content_of,
    received_arrays,
)
from fedveil.flower.secret_noise import keep_secret, secret_generator
from fedveil.flower.site_shield import own_values, site_shield, zoos_in
from fedveil.flower.spending import Cost, costs_of, epsilon_of, exhausted
from fedveil.shields import message as shielding
from fedveil.shields.shield import Shield, ShieldError, members

POLICY_KEY = "fedveil-policy"
"""The key of the node config that names the site's policy."""

STATE = "fedveil.ledger"
"""The record of the node's state that holds the ledger's last hash."""

DELTA = 1e-5
"""The δ at which ε is recorded if the policy does not limit it."""

T = TypeVar("T")

_log = logging.getLogger("fedveil.flower")


class Refusal(Exception):  # noqa: N818 (a decision of the site, not a fault)
    """Nothing is sent: a fixed sentence for the server, and a line for the site's log."""

    def __init__(self, sentence: str, line: str) -> None:
        super().__init__(line)
        self.sentence = sentence


NO_POLICY = "the site's policy is missing or cannot be used"
NO_LEDGER = "the site's ledger cannot be relied on or written"
NO_BUDGET = "the site's budget is spent"
NOT_ALLOWED = "the app's reply holds what the site does not allow"
NOT_SHIELDED = "the update could not be shielded"
APP_FAILED = "the app failed"
NO_MESSAGE = "messages of this kind are not answered"
MOD_FAILED = "the mod failed"
_SENTENCES = (NO_POLICY, NO_LEDGER, NO_BUDGET, NOT_ALLOWED, NOT_SHIELDED, APP_FAILED, NO_MESSAGE, MOD_FAILED)
_PREFIX = "fedveil: nothing was sent: "


def shield_mod(policy: str | Path | None = None, *, seed: int | None = None, wait: float = 10.0) -> Mod:
    """Return a mod that lets only what the site's policy allows leave a node.

    Args:
        policy: the site's policy; used only if the node config does not name one under `fedveil-policy`.
        seed: the seed of the shield's randomness, for tests only: whoever knows it can subtract the noise. None: use
            the operating system's randomness.
        wait: how many seconds to wait for another process that holds the ledger.
    """

    def mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        # A reply repeats its message's metadata: as they arrived, not as an app may have changed them.
        original = copy.copy(message)
        original.__dict__["_metadata"] = copy.deepcopy(message.metadata)
        try:
            return _Exchange(message, original, context, policy, seed, wait).answer(call_next)
        except Refusal as refusal:
            _log.error("nothing was sent: %s", refusal)
            sentence = refusal.sentence
        except Exception:  # the exception must not reach Flower, which would send its text to the server
            _log.exception("nothing was sent: the mod failed")
            sentence = MOD_FAILED
        error = Error(ErrorCode.MOD_FAILED_PRECONDITION, _PREFIX + sentence)
        return Message(error, reply_to=original)

    return mod


@dataclass
class _Exchange:
    """One message and the answer to it."""

    message: Message
    original: Message
    context: Context
    default_policy: str | Path | None
    seed: int | None
    wait: float

    def answer(self, call_next: ClientAppCallable) -> Message:
        kind = self.original.metadata.message_type.partition(".")[0]
        if kind not in ("train", "evaluate", "query"):
            # The answer to "get_parameters" is not an update, and the answer to "get_properties" may hold anything.
            raise Refusal(
                NO_MESSAGE,
                f"{kind!r}: a site answers train, evaluate and query messages; give the server its first weights",
            )
        policy = _or(NO_POLICY, self._policy)
        shield = _or(NO_POLICY, lambda: site_shield(policy))
        shield_name = repr(shield)
        costs = costs_of(shield)
        ledger = Ledger(Path(policy.ledger), self.wait)
        with _claimed(ledger):
            reading = _or(NO_LEDGER, lambda: self._checked(ledger))
            _or(NO_LEDGER, lambda: ledger.begin(reading))
            training = kind == "train"
            _check_budget(policy, reading, costs, updating=training)
            received = _or(NOT_ALLOWED, lambda: received_arrays(self.message.content)) if training else {}
            answer = self._from_app(call_next, received)
            _check_allowed(policy, answer)
            reading = _or(NO_LEDGER, lambda: self._checked(ledger))  # it may have been changed in the meantime
            _check_budget(policy, reading, costs, updating=answer.arrays is not None)
            arrays, figures = None, dict(answer.figures)
            if answer.arrays is not None:
                if answer.record is None or not training:
                    raise Refusal(NOT_ALLOWED, f"arrays in the reply to a {kind} message")
                arrays, damage = self._shielded(policy, shield, received[_origin(answer)], answer.arrays, reading)
                if "damage" in policy.tell:
                    figures |= damage
            updating = arrays is not None
            totals = _totals(policy, reading, costs, updating)
            if updating and "spent" in policy.tell:
                figures |= _spent(totals)
            content = content_of(answer, arrays, figures)
            written = _or(
                NO_LEDGER,
                lambda: ledger.append(
                    reading,
                    run=self.context.run_id,
                    message=self.original.metadata.message_id,
                    kind="update" if updating else "figures",
                    shield=shield_name if updating else "",
                    costs=list(costs) if updating else [],
                    told=list(figures),
                    totals=totals,
                    policy=policy.digest,
                ),
            )
            self._remember(ledger, written)
            return Message(content, reply_to=self.original)

    def _policy(self) -> Policy:
        path = self.context.node_config.get(POLICY_KEY, self.default_policy)
        if not isinstance(path, str | Path) or not str(path):
            raise InputError(
                f"node config: {POLICY_KEY} names no file; start the node with --node-config "
                f"'{POLICY_KEY}=\"policy.toml\"'"
            )
        return read_policy(path)

    def _checked(self, ledger: Ledger) -> Reading:
        """Read the ledger; it must still hold the last entry that this node remembers."""
        reading = ledger.read()
        remembered = self.context.state.config_records.get(STATE)
        if remembered is not None and remembered.get("path") == str(ledger.path.resolve()):
            count = remembered.get("count")
            if (
                not isinstance(count, int)
                or len(reading.entries) < count
                or (count and reading.entries[count - 1].hash != remembered.get("hash"))
            ):
                raise LedgerError(f"{ledger.path}: is older than what this node remembers: it was set back or replaced")
        return reading

    def _remember(self, ledger: Ledger, reading: Reading) -> None:
        self.context.state[STATE] = ConfigRecord(
            {"path": str(ledger.path.resolve()), "count": len(reading.entries), "hash": reading.last}
        )

    def _from_app(self, call_next: ClientAppCallable, received: dict[str, Arrays]) -> Answer:
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
            raise Refusal(APP_FAILED, f"the app returned a {type(reply).__name__} instead of a message")
        if reply.has_error():
            inner = next((text for text in _SENTENCES if reply.error.reason == _PREFIX + text), APP_FAILED)
            raise Refusal(inner, "the app, or a mod inside this one, replied with an error")
        return _or(NOT_ALLOWED, lambda: answer_of(reply.content, received))

    def _shielded(
        self, policy: Policy, shield: Shield, received: Arrays, trained: Arrays, reading: Reading
    ) -> tuple[Arrays, Figures]:
        """Return the arrays as they may leave, and what the shield did to the update."""
        _or(NOT_ALLOWED, lambda: check_same(received, trained))
        layout = next((zoo.segments for zoo in zoos_in(shield).values()), ())
        flat_layout = _or(NOT_SHIELDED, lambda: FlatLayout.of(received, layout))
        if not flat_layout.keys:
            raise Refusal(NOT_ALLOWED, "no array of floating-point numbers")
        number = reading.count("update") + 1
        if self.seed is None:
            for member in members(shield):
                keep_secret(member)
            generator = secret_generator()
        else:
            generator = torch_generator(self.seed, "shield", number, self.context.node_id)
        context = shielding.Context(
            self.context.node_id, number, generator, data=own_values(policy, shield), segments=flat_layout.segments
        )
        update = shielding.Message(shielding.Kind.UPDATE, flat_layout.update(received, trained))
        try:
            sent, damage = shield.apply(update, context)
        except ShieldError as fault:
            raise Refusal(NOT_SHIELDED, str(fault)) from None
        arrays = _or(NOT_SHIELDED, lambda: flat_layout.moved(received, sent.values))
        figures = {"l2": damage.l2, "linf": damage.linf, "cosine": damage.cosine, "bytes": damage.bytes}
        return arrays, {f"{MOD_PREFIX}{name}": value for name, value in figures.items()}


def _origin(answer: Answer) -> str:
    """Return the name of the record that an answer's arrays came in."""
    return "fitins.parameters" if answer.legacy else str(answer.record)


def _check_allowed(policy: Policy, answer: Answer) -> None:
    for name in answer.figures:
        if name not in policy.metrics:
            raise Refusal(NOT_ALLOWED, f"{policy.path}: metrics: does not allow {name!r}, which the app would send")


def _check_budget(policy: Policy, reading: Reading, costs: tuple[Cost, ...], updating: bool) -> None:
    budget, figures = policy.budget, reading.count("figures")
    if not updating and budget.evaluations is not None:
        why = f"all {budget.evaluations} evaluations of the budget are sent" if figures >= budget.evaluations else None
    else:
        why = exhausted(budget, reading.costs, reading.count("update"), costs)
    if why is not None:
        raise Refusal(NO_BUDGET, f"{policy.ledger}: {why}")


def _totals(policy: Policy, reading: Reading, costs: tuple[Cost, ...], updating: bool) -> Totals:
    delta = policy.budget.delta or (DELTA if policy.budget.epsilon is None else 0.0)
    epsilon = epsilon_of([*reading.costs, *(costs if updating else ())], delta)
    return Totals(
        updates=reading.count("update") + updating,
        figures=reading.count("figures") + (not updating),
        epsilon=epsilon if math.isfinite(epsilon) else None,
        delta=delta,
    )


def _spent(totals: Totals) -> Figures:
    figures: Figures = {f"{MOD_PREFIX}messages": totals.updates}
    if totals.epsilon is not None:
        figures |= {f"{MOD_PREFIX}epsilon": totals.epsilon, f"{MOD_PREFIX}delta": totals.delta}
    return figures


def _or(sentence: str, work: Callable[[], T]) -> T:
    """Do a piece of work; if it is refused, the server gets this sentence and no more."""
    try:
        return work()
    except InputError as fault:
        raise Refusal(sentence, str(fault)) from None


@contextmanager
def _claimed(ledger: Ledger) -> Iterator[None]:
    """Hold the ledger; a refusal inside the block keeps its sentence."""
    claim = ledger.claimed()
    _or(NO_LEDGER, claim.__enter__)
    try:
        yield
    finally:
        claim.__exit__(None, None, None)
