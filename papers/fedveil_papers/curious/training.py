"""Central training of a curious classifier: the server holds all data and plays the game by itself."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from fedveil.core.errors import InputError
from fedveil.core.models import pick_device
from fedveil.core.randomness import child_seed, torch_generator
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.federation.work import DivergedError
from fedveil.games.curious import Curious, best_threshold, entropies
from fedveil.games.game import DataShape, Move
from fedveil.games.optimisers import SGD, Optimiser
from fedveil.games.play import Play
from fedveil_papers.curious.classifier import Classifier
from fedveil_papers.curious.quick_dropout import quicken

_BATCH = 512


def train(
    game: Curious,
    data: AttributeData,
    *,
    epochs: int = 50,
    seed: int = 0,
    start: Mapping[str, nn.Module] | None = None,
    device: str = "auto",
    progress: Callable[[str], None] | None = None,
) -> Classifier:
    """Train F and G on the training records; the epoch that validation records like best is kept.

    Args:
        game: weights, attack and networks; its batch size counts, its local epochs do not.
        data: with the target y and the secrets.
        epochs: passes over the training records.
        seed: all randomness derives from it; same seed and threads, same bits.
        start: networks to go on from, by player ("classifier", "attack:<secret>"); others start fresh.
        device: where to train.
        progress: called with a line per epoch.
    """
    if epochs < 1:
        raise InputError(f"curious: epochs must be at least 1, got {epochs}")
    table = Training.set(game, data, seed, start or {}, pick_device(device))
    if not len(table.train["x"]) or not len(table.validation["x"]):
        raise InputError(f"{data.name}: training needs both training and validation records")
    for name in game.names:  # without one that is known the epoch could not be chosen
        if not all((records[f"u:{name}"] >= 0).any() for records in (table.train, table.validation)):
            raise InputError(
                f"{data.name}: {name!r} is missing in all training or in all validation records; take others"
            )
    order = torch_generator(seed, "curious", "order")
    best, kept, state = -1.0, 0, table.state()
    history = []
    with torch.random.fork_rng(devices=[]):  # dropout draws from the global state, seeded here and left no trace in
        torch.default_generator.manual_seed(child_seed(seed, "curious", "dropout"))
        for epoch in range(1, epochs + 1):
            losses = table.epoch(torch.randperm(len(table.train["x"]), generator=order))
            told = table.judge()
            history.append({**told, **losses})
            if progress:
                progress(f"epoch {epoch}: honesty {told['honesty']:.3f}, curiosity {told['curiosity']:.3f}")
            if told["score"] > best:
                best, kept, state = told["score"], epoch, table.state()
    table.load(state)
    made = table.classifier(history, kept)
    return made if game.attack == "parameterised" else made.with_thresholds(data, Split.VALIDATION)


@dataclass
class Training:
    """Networks, their optimisers, and the records that they learn from and are judged by."""

    game: Curious
    modules: dict[str, nn.Module]
    optimisers: dict[str, torch.optim.Optimizer]
    train: dict[str, Tensor]
    validation: dict[str, Tensor]
    place: torch.device
    classes: int
    moves: tuple[Move, ...] = field(init=False)

    def __post_init__(self) -> None:
        stage = self.game.curious_stage()
        self.moves, self.size = stage.moves, min(stage.batch_size, max(1, len(self.train["x"])))

    @classmethod
    def set(
        cls, game: Curious, data: AttributeData, seed: int, start: Mapping[str, nn.Module], place: torch.device
    ) -> Training:
        """Build the networks, from `start` where it names them, and lay out the records."""
        shape = DataShape.of(data)
        modules, optimisers = {}, {}
        for name, player in game.players(shape).items():
            built = quicken(player.build(torch_generator(seed, "weights", name)))
            if name in start:
                _go_on(built, start[name], f"{data.name}: its features or classes")
            # Channels last in memory halves the time of a step on a CPU; the numbers are the same.
            modules[name] = built.to(place, memory_format=torch.channels_last)  # type: ignore[call-overload]
            optimisers[name] = _optimiser(modules[name], player.optimiser)
        assert data.y is not None  # the game's players need one
        learned, judged = (_tensors(game, data, split, place) for split in (Split.TRAIN, Split.VALIDATION))
        return cls(game, modules, optimisers, learned, judged, place, len(data.y.values))

    def epoch(self, order: Tensor) -> dict[str, float]:
        """Go through all whole batches once, and return each move's mean loss."""
        whole = order[: len(order) - len(order) % self.size].to(self.place)
        sums = [torch.zeros((), device=self.place) for _ in self.moves]
        batches = torch.split(whole, self.size)
        for rows in batches:
            data = {name: column[rows] for name, column in self.train.items()}
            data["x"] = laid_out(data["x"])
            for index, move in enumerate(self.moves):
                sums[index] += self._step(move, data)
        losses = {
            f"loss of {move.title}": float(total) / len(batches) for move, total in zip(self.moves, sums, strict=True)
        }
        for name, loss in losses.items():
            if loss != loss or abs(loss) == float("inf"):
                raise DivergedError(f"curious: the {name} became {loss}; lower the learning rate")
        return losses

    def _step(self, move: Move, data: Mapping[str, Tensor]) -> Tensor:
        for name, module in self.modules.items():
            module.train(move.trains(name))
            module.requires_grad_(name in move.players)
        loss = move.loss(Play(data, None, {}, self._send)).mean()
        for name in move.players:
            self.optimisers[name].zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        for name in move.players:
            self.optimisers[name].step()
        return loss.detach()

    def _send(self, player: str, inputs: Tensor) -> Tensor:
        return torch.as_tensor(self.modules[player](inputs))

    def judge(self) -> dict[str, float]:
        """Return honesty, curiosity and what selects the epoch, on validation records."""
        scores = self._scores(self.validation["x"])
        honesty = float((scores.argmax(dim=1) == self.validation["y"]).float().mean())
        read = []
        for name in self.game.names:
            codes = self.validation[f"u:{name}"]
            if self.game.attack == "regularised":
                held = entropies(scores)
                guess = (held > best_threshold(held, codes, self.classes)).long()
            else:
                with torch.no_grad():
                    guess = self.modules[f"attack:{name}"].eval()(self.game.released(scores)).argmax(dim=1)
            known = codes >= 0
            read.append(float((guess == codes)[known].float().mean()))
        curiosity = sum(read) / len(read)
        weights = self.game.beta_y, self.game.beta_s
        score = (weights[0] * honesty + weights[1] * curiosity) / sum(weights)
        return {"honesty": honesty, "curiosity": curiosity, "score": score}

    def _scores(self, x: Tensor) -> Tensor:
        network = self.modules["classifier"].eval()
        with torch.no_grad():
            return torch.cat([network(laid_out(part)) for part in torch.split(x, _BATCH)])

    def state(self) -> dict[str, dict[str, Tensor]]:
        """Return a copy of all weights."""
        return {name: copy.deepcopy(module.state_dict()) for name, module in self.modules.items()}

    def load(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Go back to kept weights."""
        for name, module in self.modules.items():
            module.load_state_dict(state[name])

    def classifier(self, history: list[dict[str, float]], kept: int) -> Classifier:
        """Return F with its G."""
        for module in self.modules.values():
            module.eval().requires_grad_(False)
        attacks = {name: self.modules[f"attack:{name}"] for name in self.game.names if f"attack:{name}" in self.modules}
        return Classifier(self.game, self.modules["classifier"], attacks, history=history, kept=kept)


def _go_on(built: nn.Module, start: nn.Module, what: str) -> None:
    given, wanted = ({key: one.shape for key, one in part.state_dict().items()} for part in (start, built))
    if given != wanted:
        raise InputError(f"{what} (or the game's widths) are not those of the network to go on from; encode them alike")
    built.load_state_dict(start.state_dict())


def _tensors(game: Curious, data: AttributeData, split: Split, place: torch.device) -> dict[str, Tensor]:
    rows = data.rows(split)
    assert data.y is not None
    found = {"x": torch.from_numpy(data.x[rows]), "y": torch.from_numpy(data.y.codes[rows])}
    found |= {f"u:{name}": torch.from_numpy(data.attribute(name).codes[rows]) for name in game.names}
    return {name: column.to(place) for name, column in found.items()}


def laid_out(x: Tensor) -> Tensor:
    """Return images with their channels last in memory, which halves the time of a step on a CPU."""
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x


def _optimiser(module: nn.Module, settings: Optimiser) -> torch.optim.Optimizer:
    if isinstance(settings, SGD):
        return torch.optim.SGD(
            module.parameters(), settings.learning_rate, settings.momentum, weight_decay=settings.weight_decay
        )
    return torch.optim.Adam(
        module.parameters(),
        settings.learning_rate,
        (settings.beta1, settings.beta2),
        settings.epsilon,
        settings.weight_decay,
        fused=True,
    )
