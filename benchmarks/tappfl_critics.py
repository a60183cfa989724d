"""TAPPFL's printed critic against the light one: what JSD each reaches, and at what cost.

    python benchmarks/tappfl_critics.py

Four devices with Adult (sex), λ = 0: f and h alone, Adam or the paper's SGD. JSD lies at 2 ln 2 = 1.386 as long as the
critic tells nothing, and falls towards 0.
"""

import time

import torch

import fedveil as fv
from fedveil.games import SGD, TAPPFL, Adam

ROUNDS = 5


def main() -> None:
    """Print a line per critic."""
    torch.set_num_threads(1)
    data = fv.data.load("adult", target="income", sensitive="sex")
    federation = fv.Federation(data, devices=100, fraction=0.04, seed=0)
    print("networks optimiser   critic's weights  seconds per round  JSD, last round")
    for optimiser, batch_size in ((Adam(0.001), 50), (SGD(0.01), 10)):
        for networks in ("light", "paper"):
            game = TAPPFL("sex", 0.0, networks=networks, optimiser=optimiser, batch_size=batch_size, local_epochs=5)
            started = time.process_time()
            run = federation.play(game, ROUNDS)
            seconds = (time.process_time() - started) / ROUNDS
            weights = run.layouts["utility"].trained
            name = type(optimiser).__name__
            print(
                f"{networks:8s} {name:10s} {weights:17,d} {seconds:18.2f} {run.history[-1].losses['JSD']:15.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
