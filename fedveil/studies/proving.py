"""What holds of a trained cell whatever an attacker tries, and the figures that theorems are put beside."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fedveil.config.study import Study
from fedveil.core.randomness import child_seed

if TYPE_CHECKING:
    from fedveil.certificates import Certificate
    from fedveil.data import AttributeData
    from fedveil.federation.run import Run


def certificates_of(study: Study, run: Run) -> dict[str, Any]:
    """Return what holds against every attacker; only for what the observer of this study sees.

    What the shield's noise proves is about representations. What it proves by people whom it was not prepared on, the
    test people, is about everything that is computed from what it shows of a person: outputs, too. So is what the
    game proves about its own releases.
    """
    from fedveil.data import Split

    found: dict[str, Any] = {}
    data, view = run.federation.data, study.attacks.view
    for name in study.asked:
        counts = data.attribute(name).take(data.rows(Split.TRAIN)).counts
        priors = [float(count) / float(counts.sum()) for count in counts]
        certificates = run.shield.certificates(len(priors), priors) if view == "representations" else ()
        if view in ("representations", "outputs"):
            seed = child_seed(run.federation.seed, "certificates", name)
            certificates += run.shield.certificates_on(data, data.rows(Split.TEST), name, seed)
            certificates += game_certificates(run, name, seed)
        found[name] = [certificate.as_dict() for certificate in certificates]
    return found


def game_certificates(run: Run, attribute: str, seed: int = 0) -> tuple[Certificate, ...]:
    """Return what a run's game proves about its own releases; nothing where a shield changes representations."""
    from fedveil.federation.release import released_records
    from fedveil.shields.message import Kind
    from fedveil.shields.shield import Identity

    if not isinstance(run.shield, Identity) and Kind.REPRESENTATION in run.shield.acts_on:
        return ()
    return run.game.certificates_on(run.federation.data, lambda: released_records(run), attribute, seed)


def spent_on_updates(run: Run) -> list[dict[str, Any]]:
    """Return the ε really spent by each noise shield on updates; `infinite` where nothing is clipped."""
    from fedveil.federation.spending import spent_in

    return [
        {**one.as_dict(), "infinite": math.isinf(one.bound), "covers": "updates, not representations"}
        for one in spent_in(run)
    ]


def theory_facts(study: Study, run: Run) -> dict[str, Any]:
    """Return by attribute what TAPPFL's theorems need of the test people.

    `entropy_bits` is H(u); `gap` is Δ = |P(y=1|u=0) − P(y=1|u=1)| by task, for binary u and binary tasks alone.
    """
    data = run.federation.data
    return {
        name: {"entropy_bits": _entropy(data, name), "gap": {task: _gap(data, task, name) for task in study.all_tasks}}
        for name in study.asked
    }


def _entropy(data: AttributeData, attribute: str) -> float:
    from fedveil.data import Split

    counts = data.attribute(attribute).take(data.rows(Split.TEST)).counts
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


def _gap(data: AttributeData, task: str, attribute: str) -> float | None:
    from fedveil.data import Split

    rows = data.rows(Split.TEST)
    y, u = data.labels[task].take(rows), data.attribute(attribute).take(rows)
    known = y.known & u.known
    if len(y.values) != 2 or len(u.values) != 2 or len(np.unique(u.codes[known])) != 2:
        return None
    return float(abs(np.diff([y.codes[known & (u.codes == value)].mean() for value in (0, 1)])[0]))
