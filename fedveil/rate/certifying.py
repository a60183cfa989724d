"""The rate certificate of a trained run: for a server that knows the sender, and for an observer who does not."""

from __future__ import annotations

from dataclasses import replace

from fedveil.certificates.certificate import Certificate
from fedveil.certificates.rate import certify_information, certify_rate_accuracy
from fedveil.data.attribute_data import Split
from fedveil.federation.release import Releases
from fedveil.federation.run import Run
from fedveil.games.attri_fed import AttriFed
from fedveil.rate.measuring import Released, fitted_code, held_out_terms
from fedveil.shields.message import Kind
from fedveil.shields.shield import Identity


def rate_certificates(
    run: Run, attribute: str, seed: int = 0, releases: Releases | None = None
) -> tuple[Certificate, ...]:
    """Return bounds on information and, by Fano, on accuracy; none where nothing is coded or labels are missing.

    A quantity without further words holds for every observer, one who knows the sender included. What holds only for
    an observer who does not know the sender says so in its name: the two must never be taken for each other.
    Both are about representations, and by post-processing about whatever is computed from them.
    """
    data, game = run.federation.data, run.game
    plain = isinstance(run.shield, Identity) or Kind.REPRESENTATION not in run.shield.acts_on
    if not (isinstance(game, AttriFed) and game.compresses and plain) or data.y is None:
        return ()
    if not all(
        labels.take(data.rows(split)).known.all() for labels in (data.y, data.attribute(attribute)) for split in Split
    ):
        return ()
    released = Released.of_run(run, game.reach, draws=100, seed=seed, releases=releases)
    code = fitted_code(released)
    found: list[Certificate] = []
    for observer, terms in held_out_terms(released, data, attribute, code, seed).items():
        for certify in (certify_information, certify_rate_accuracy):
            one = certify(terms, observer=observer)
            named = one.quantity if observer == "sender known" else f"{one.quantity}, {observer}"
            found.append(replace(one, quantity=named))
    return tuple(found)
