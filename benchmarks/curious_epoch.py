"""An epoch of a curious classifier and its attack, compared with a plain PyTorch loop of the same networks.

Prints ratios of times measured in one run: `fedveil_papers.curious.train` to a loop as the paper's code would have it
(both players, the same steps in the same modes), and to a loop of the classifier alone. The loops take turns, so that a
busy machine slows all of them equally.

    python benchmarks/curious_epoch.py --images 2000 --threads 1
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from fedveil_papers.curious.training import Training
from torch import Tensor
from torch.nn import functional

from fedveil.data import Attribute, AttributeData
from fedveil.games import Curious, DataShape


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=17_000)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    data = faces(options.images)
    game = Curious("s")
    training = Training.prepare(game, data, 0, {}, torch.device("cpu"))
    plain = Plain(game, data)
    loops = {"fedveil": training.epoch, "plain, both players": plain.both, "plain, classifier alone": plain.alone}
    size = min(game.batch_size * 2, options.images)
    for loop in loops.values():
        loop(torch.arange(size))
    # In each turn every loop trains on the same chunk of an epoch, until the epoch is over.
    ratios = {name: [] for name in loops}
    for _ in range(options.repeat):
        seconds = dict.fromkeys(loops, 0.0)
        for rows in torch.split(torch.randperm(options.images), 1000):
            for name, loop in loops.items():
                start = time.perf_counter()
                loop(rows)
                seconds[name] += time.perf_counter() - start
        for name in loops:
            ratios[name].append(seconds["fedveil"] / seconds[name])
    for name in list(loops)[1:]:
        each = ", ".join(f"{ratio:.2f}" for ratio in ratios[name])
        print(f"fedveil / {name}: {np.median(ratios[name]):.2f} (median of {each}), {options.images} images")


def faces(count: int) -> AttributeData:
    """Return noise in UTKFace's shape: the content does not matter for the time."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count + 1, 3, 64, 64)).astype(np.float32)
    labels = [Attribute(name, rng.integers(0, 3, count + 1), ("a", "b", "c")) for name in ("y", "s")]
    split = np.array([0] * count + [1], dtype=np.int8)
    return AttributeData(x, {"s": labels[1]}, split, y=labels[0])


class Plain:
    """A plain training loop."""

    def __init__(self, game: Curious, data: AttributeData) -> None:
        players = game.players(DataShape.of(data))
        self.f, self.g = (players[name].build(torch.Generator()) for name in ("classifier", "attack:s"))
        self.optimisers = [torch.optim.Adam(m.parameters(), 1e-3) for m in (self.f, self.g)]
        self.x = torch.from_numpy(data.x)
        self.y = torch.from_numpy(data.y.codes)
        self.s = torch.from_numpy(data.attributes["s"].codes)

    def both(self, order: Tensor) -> None:
        """G, then F, on every batch."""
        for rows in torch.split(order, 100):
            x, y, s = self.x[rows], self.y[rows], self.s[rows]
            self.f.eval()
            self.g.train()
            with torch.no_grad():
                scores = self.f(x)
            self._step(1, functional.cross_entropy(self.g(scores), s))
            self.f.train()
            self.g.eval()
            scores = self.f(x)
            self._step(0, 0.7 * functional.cross_entropy(scores, y) + 0.3 * functional.cross_entropy(self.g(scores), s))

    def alone(self, order: Tensor) -> None:
        """F for y alone."""
        self.f.train()
        for rows in torch.split(order, 100):
            self._step(0, functional.cross_entropy(self.f(self.x[rows]), self.y[rows]))

    def _step(self, which: int, loss: Tensor) -> None:
        for module in (self.f, self.g):
            module.zero_grad()
        loss.backward()
        self.optimisers[which].step()


if __name__ == "__main__":
    main()
