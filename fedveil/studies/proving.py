"""What is proved about a trained cell, whatever an attacker tries, and the figures that theorems need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedveil.config.study import Study
from fedveil.core.entropy import entropy
from fedveil.core.randomness import child_seed
from fedveil.data import Split
from fedveil.studies.model import SpentOnUpdates, StatedCertificate, TheoryFacts

if TYPE_CHECKING:
    from fedveil.certificates import Certificate
    from fedveil.data import AttributeData
    from fedveil.federation.release import Releases
    from fedveil.federation.run import Run


def certificates_of(
    study: Study, run: Run, releases: Releases | None = None
) -> dict[str, tuple[StatedCertificate, ...]]:
    """Return, by attribute, the certificates about what the observer of this study sees.

    Certificates that follow from the shield's noise are about representations. Certificates that a shield or a game
    obtains from the test people, on whom it was not prepared, are about everything that is computed from what it
    releases of a person, outputs included. `releases` are the run's, if they are computed already.
    """
    stated = {}
    data, view = run.federation.data, study.attacks.view
    for name in study.asked:
        counts = data.attribute(name).take(data.rows(Split.TRAIN)).counts
        priors = [float(count) / float(counts.sum()) for count in counts]
        certificates = run.shield.certificates(len(priors), priors) if view == "representations" else ()
        if view in ("representations", "outputs"):
            seed = child_seed(run.federation.seed, "certificates", name)
            certificates += run.shield.certificates_on(data, data.rows(Split.TEST), name, seed)
            certificates += game_certificates(run, name, seed, releases)
        stated[name] = tuple(StatedCertificate.of(certificate) for certificate in certificates)
    return stated


def game_certificates(
    run: Run, attribute: str, seed: int = 0, releases: Releases | None = None
) -> tuple[Certificate, ...]:
    """Return what a run's game proves about its releases; nothing if a shield changes representations."""
    from fedveil.federation.release import released_records
    from fedveil.shields.message import Kind
    from fedveil.shields.shield import Identity

    if not isinstance(run.shield, Identity) and Kind.REPRESENTATION in run.shield.acts_on:
        return ()
    return run.game.certificates_on(run.federation.data, lambda: released_records(run, releases), attribute, seed)


def spent_on_updates(run: Run) -> tuple[SpentOnUpdates, ...]:
    """Return the ε that each noise shield on updates has spent; infinite where nothing is clipped."""
    from fedveil.federation.spending import spent_in

    return tuple(SpentOnUpdates(StatedCertificate.of(certificate)) for certificate in spent_in(run))


def theory_facts(study: Study, run: Run) -> dict[str, TheoryFacts]:
    """Return, by attribute, what TAPPFL's theorems need to know about the test people.

    R and C_L of the printed Theorem 1 belong to the task's head, and are measured with it (`Utility.constants`).
    """
    data = run.federation.data
    return {
        name: TheoryFacts(_entropy_bits(data, name), {task: _gap(data, task, name) for task in study.all_tasks})
        for name in study.asked
    }


def _entropy_bits(data: AttributeData, attribute: str) -> float:
    counts = data.attribute(attribute).take(data.rows(Split.TEST)).counts
    return entropy(counts[counts > 0] / counts.sum())


def _gap(data: AttributeData, task: str, attribute: str) -> float | None:
    """Return Δ; None unless the task and the attribute have two values each."""
    rows = data.rows(Split.TEST)
    y, u = data.labels[task].take(rows), data.attribute(attribute).take(rows)
    labelled = y.known & u.known
    if len(y.values) != 2 or len(u.values) != 2 or len(np.unique(u.codes[labelled])) != 2:
        return None
    return float(abs(np.diff([y.codes[labelled & (u.codes == value)].mean() for value in (0, 1)])[0]))
