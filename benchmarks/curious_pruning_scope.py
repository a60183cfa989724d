"""Pruning the smallest weights of each layer, compared with those of the whole network, on the preset's faces.

Run it with FEDVEIL_DATA pointing at the data sets: `python benchmarks/curious_pruning_scope.py`.
"""

from __future__ import annotations

from dataclasses import replace

from fedveil_papers.curious import prune, train
from fedveil_papers.curious.experiments.cases import CuriousCase
from fedveil_papers.curious.experiments.pruning import CuriousPruning
from fedveil_papers.curious.pruning import Scope
from fedveil_papers.preset import read_preset

from fedveil.core.measures import share_right
from fedveil.data import Split
from fedveil.games.curious import Curious

SCOPES: tuple[Scope, ...] = ("layer", "network")


def main() -> None:
    """Train the preset's first two classifiers of faces and print honesty and what G reads, by scope and amount."""
    experiment = read_preset("curious/pruning", "quick").experiment
    assert isinstance(experiment, CuriousPruning)
    case = CuriousCase.of(experiment.cases[0], "preset")
    data = case.load(0)
    raw = Curious(case.secret, beta_y=0.7, beta_s=0.3, widths=tuple(case.widths))
    for name, game in (("Std", replace(raw, beta_y=1.0, beta_s=0.0)), ("RawHBC (0, .7, .3)", raw)):
        whole = train(game, data, epochs=case.epochs)
        for scope in SCOPES:
            for amount in (0.0, 0.3, 0.5, 0.7, 0.9):
                pruned = prune(whole, amount, scope=scope)
                outputs = pruned.outputs(data, Split.TEST)
                honesty = share_right(outputs.predicted == outputs.y.codes)
                curiosity = share_right(pruned.guesses(outputs, case.secret) == outputs.secrets[case.secret].codes)
                print(f"{name}, {scope}, {amount:.0%}: honesty {honesty}, G {curiosity}")


if __name__ == "__main__":
    main()
