"""Central training of a curious classifier: the server holds all data and plays the game alone."""

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

_BATCH = 512
_LEVELS = 2**15


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
    """Train F and G on the training records, and keep the epoch that does best on validation records.

    The best epoch has the largest (β_y·δ_y + β_s·δ_s)/(β_y + β_s).

    Args:
        game: weights, attack and networks; its batch size is used, its local epochs are not.
        data: with the target y and the secrets.
        epochs: passes over the training records.
        seed: all randomness derives from it; the same seed and number of threads give the same bits.
        start: trained networks to start from, by player ("classifier", "attack:<secret>"); others are initialised.
        device: where to train, as torch names it; "auto" chooses.
        progress: called with a line per epoch.
    """
    if epochs < 1:
        raise InputError(f"curious: epochs must be at least 1, got {epochs}")
    training = Training.prepare(game, data, seed, start or {}, pick_device(device))
    if not len(training.train["x"]) or not len(training.validation["x"]):
        raise InputError(f"{data.name}: training needs both training and validation records")
    for name in game.names:  # without a known value the best epoch cannot be chosen
        if not all((records[f"u:{name}"] >= 0).any() for records in (training.train, training.validation)):
            raise InputError(
                f"{data.name}: {name!r} is missing in all training or in all validation records; take others"
            )
    order = torch_generator(seed, "curious", "order")
    best, best_epoch, state = -1.0, 0, training.state()
    history = []
    with torch.random.fork_rng(devices=[]):  # dropout draws from the global state: seed it here, restore it after
        torch.default_generator.manual_seed(child_seed(seed, "curious", "dropout"))
        for epoch in range(1, epochs + 1):
            losses = training.epoch(torch.randperm(len(training.train["x"]), generator=order))
            figures = training.judge()
            history.append({**figures, **losses})
            if progress:
                progress(f"epoch {epoch}: honesty {figures['honesty']:.3f}, curiosity {figures['curiosity']:.3f}")
            if figures["score"] > best:
                best, best_epoch, state = figures["score"], epoch, training.state()
    training.load(state)
    classifier = training.classifier(history, best_epoch)
    return classifier if game.attack == "parameterised" else classifier.with_thresholds(data, Split.VALIDATION)


@dataclass
class Training:
    """Networks, their optimisers, and the records on which they are trained and judged."""

    game: Curious
    modules: dict[str, nn.Module]
    optimisers: dict[str, torch.optim.Optimizer]
    train: dict[str, Tensor]
    validation: dict[str, Tensor]
    device: torch.device
    classes: int
    moves: tuple[Move, ...] = field(init=False)

    def __post_init__(self) -> None:
        stage = self.game.curious_stage()
        self.moves, self.size = stage.moves, min(stage.batch_size, max(1, len(self.train["x"])))

    @classmethod
    def prepare(
        cls, game: Curious, data: AttributeData, seed: int, start: Mapping[str, nn.Module], device: torch.device
    ) -> Training:
        """Build the networks, with the weights of those in `start`, and put the records on the device."""
        shape = DataShape.of(data)
        modules, optimisers = {}, {}
        for name, player in game.players(shape).items():
            network = with_quick_dropout(player.build(torch_generator(seed, "weights", name)))
            if name in start:
                _copy_weights(start[name], network, data.name)
            # Channels last in memory halves the time of a step on a CPU; the numbers are the same.
            modules[name] = network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
            optimisers[name] = _optimiser(modules[name], player.optimiser)
        assert data.y is not None  # the game's players need a target
        train, validation = (_tensors(game, data, split, device) for split in (Split.TRAIN, Split.VALIDATION))
        return cls(game, modules, optimisers, train, validation, device, len(data.y.values))

    def epoch(self, order: Tensor) -> dict[str, float]:
        """Train on all whole batches once, in the given order, and return each move's mean loss."""
        whole = order[: len(order) - len(order) % self.size].to(self.device)
        sums = [torch.zeros((), device=self.device) for _ in self.moves]
        batches = torch.split(whole, self.size)
        for rows in batches:
            data = {name: column[rows] for name, column in self.train.items()}
            data["x"] = channels_last(data["x"])
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
        """Return honesty, curiosity and the score that selects the epoch, on validation records."""
        scores = self._scores(self.validation["x"])
        honesty = float((scores.argmax(dim=1) == self.validation["y"]).float().mean())
        accuracies = []
        for name in self.game.names:
            codes = self.validation[f"u:{name}"]
            if self.game.attack == "regularised":
                nats = entropies(scores)
                guess = (nats > best_threshold(nats, codes, self.classes)).long()
            else:
                with torch.no_grad():
                    guess = self.modules[f"attack:{name}"].eval()(self.game.released(scores)).argmax(dim=1)
            accuracies.append(float((guess == codes)[codes >= 0].float().mean()))
        curiosity = sum(accuracies) / len(accuracies)
        weights = self.game.beta_y, self.game.beta_s
        score = (weights[0] * honesty + weights[1] * curiosity) / sum(weights)
        return {"honesty": honesty, "curiosity": curiosity, "score": score}

    def _scores(self, x: Tensor) -> Tensor:
        network = self.modules["classifier"].eval()
        with torch.no_grad():
            return torch.cat([network(channels_last(part)) for part in torch.split(x, _BATCH)])

    def state(self) -> dict[str, dict[str, Tensor]]:
        """Return a copy of all weights."""
        return {name: copy.deepcopy(module.state_dict()) for name, module in self.modules.items()}

    def load(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Restore a copy of all weights."""
        for name, module in self.modules.items():
            module.load_state_dict(state[name])

    def classifier(self, history: list[dict[str, float]], kept: int) -> Classifier:
        """Return F with its G."""
        for module in self.modules.values():
            module.eval().requires_grad_(False)
        attacks = {name: self.modules[f"attack:{name}"] for name in self.game.names if f"attack:{name}" in self.modules}
        return Classifier(self.game, self.modules["classifier"], attacks, history=history, kept=kept)


def _copy_weights(start: nn.Module, network: nn.Module, name: str) -> None:
    """Give a network the weights of another of the same shape."""
    start_shapes, shapes = (
        {key: part.shape for key, part in module.state_dict().items()} for module in (start, network)
    )
    if start_shapes != shapes:
        raise InputError(
            f"{name}: its features or classes (or the game's widths) are not those of the network to start from; "
            "encode them in the same way"
        )
    network.load_state_dict(start.state_dict())


def _tensors(game: Curious, data: AttributeData, split: Split, device: torch.device) -> dict[str, Tensor]:
    rows = data.rows(split)
    assert data.y is not None
    columns = {"x": torch.from_numpy(data.x[rows]), "y": torch.from_numpy(data.y.codes[rows])}
    columns |= {f"u:{name}": torch.from_numpy(data.attribute(name).codes[rows]) for name in game.names}
    return {name: column.to(device) for name, column in columns.items()}


def channels_last(x: Tensor) -> Tensor:
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


class QuickDropout(nn.Dropout):
    """Dropout with p rounded to a multiple of 2⁻¹⁵, which needs a quarter of the random numbers: one for four entries.

    Torch draws a number for every entry, which takes a quarter of the time of a step of the paper's classifier on a
    CPU. The draws come from torch's global state, which the caller must have seeded.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Drop entries in training."""
        if not self.training or self.p == 0:
            return x
        dropped = round(self.p * _LEVELS)
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device).random_()
        bits = words.view(torch.int16)[: x.numel()].bitwise_and(_LEVELS - 1)  # the sign is 0 in every fourth
        mask = (bits >= dropped).to(x.dtype).mul_(_LEVELS / (_LEVELS - dropped))
        # The mask has the memory layout of x, whatever the order of its axes, so that the product is fast.
        filled = x.is_contiguous() or (x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last))
        return x * (mask.as_strided(x.shape, x.stride()) if filled else mask.view(x.shape))


def with_quick_dropout(module: nn.Module) -> nn.Module:
    """Turn a new network's dropout layers into `QuickDropout`."""
    for part in module.modules():
        if type(part) is nn.Dropout:
            part.__class__ = QuickDropout
    return module
