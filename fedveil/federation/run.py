"""Run: a game being played by a federation, round by round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError, nearest
from fedveil.core.randomness import child_seed, torch_generator
from fedveil.data.attribute_data import Split
from fedveil.federation.exchange import aggregate
from fedveil.federation.federation import Federation
from fedveil.federation.fleet import Fleet, HomeFleet
from fedveil.federation.heads import fit_heads, score_outputs
from fedveil.federation.inputs import judged_tensors, record_tensors, without_variety
from fedveil.federation.layout import Layout
from fedveil.federation.local_players import LocalPlayer
from fedveil.federation.model import Model
from fedveil.federation.prepare import prepare
from fedveil.federation.progress import Progress, RoundRecord
from fedveil.federation.recording import PARTS, shadow_rows, update_view, watch
from fedveil.federation.rehearsal import rehearse
from fedveil.federation.release import release, released_view
from fedveil.federation.stacked.descent import memory_size
from fedveil.federation.utility import Utility
from fedveil.federation.work import Seat, Work
from fedveil.games.game import DataShape, Game, Player, Stage
from fedveil.shields.message import Kind
from fedveil.view import View


class Run:
    """A game in play: the shared weights, the local players, and what has left the devices."""

    def __init__(self, federation: Federation, game: Game, fleet: Fleet | None = None) -> None:
        self.federation = federation
        self.fleet = fleet or HomeFleet()
        self.game = game
        self.shield = federation.shield.prepared(
            federation.data.take(federation.data.rows(Split.TRAIN)), federation.seed
        )
        self.shape = DataShape.of(federation.data)
        own = federation.own_codes()
        if own is not None:
            self.shape = replace(self.shape, attributes={**self.shape.attributes, "own": len(own.values)})
        game.check_settings(federation.settings)
        self.stages = game.stages(self.shape)
        players = game.players(self.shape)
        self.seats = {
            name: Seat(prepare(_built(player, federation.seed, name), name), player) for name, player in players.items()
        }
        for stage in self.stages:
            for name in (*stage.players, *stage.shared, *stage.restarts):
                if name not in self.seats:
                    raise InputError(
                        f"stage {stage.name!r} moves, shares or restarts {name!r}, which is no player of {game.name}"
                    )
        self.layouts = {name: Layout.of(seat.template) for name, seat in self.seats.items()}
        for stage in self.stages:
            for name in stage.players:
                if not self.layouts[name].trained:
                    raise InputError(
                        f"stage {stage.name!r} moves player {name!r}, whose network has no weights to move"
                    )
        place, number = federation.place, federation.number_type
        self.shared = {
            name: self.layouts[name].flatten(seat.template, number).to(place) for name, seat in self.seats.items()
        }
        self.local: dict[str, LocalPlayer] = {}
        self.restarted: Counter[str] = Counter()  # how often devices have had to forget a player
        self.best_shared: dict[str, Tensor] | None = None
        self.last_shared: dict[str, Tensor] | None = None
        self.progress = Progress()
        self.engine = federation.make_engine()
        self.recorded: list[tuple[int, IntArray, Tensor]] = []
        self.shadows: list[tuple[int, IntArray, Tensor]] = []
        self.shadow_rows: list[IntArray] = []
        self.started_from: dict[int, Tensor] = {}
        self.tensors = record_tensors(self)
        self.judged = judged_tensors(self)
        rehearse(self)

    @property
    def paths(self) -> dict[str, str]:
        """Which path each player's network takes through the engine."""
        return self.engine.paths(self.seats)

    @property
    def utility_only(self) -> dict[str, int]:
        """By attribute that the game hides, how many devices lack it or hold one value of it: they hide nothing."""
        return without_variety(self, np.arange(len(self.federation.partition)))

    @property
    def history(self) -> list[RoundRecord]:
        """One record per round played."""
        return self.progress.history

    def play(
        self,
        rounds: int | None = None,
        *,
        callbacks: Sequence[Callable[[RoundRecord], None]] = (),
        record: Sequence[int] = (),
        shadows: int = 0,
        checkpoint: str | Path | None = None,
    ) -> Run:
        """Play on to the end of the last stage.

        Args:
            rounds: rounds of stages that name none themselves.
            callbacks: called with every round's record.
            record: rounds whose updates are kept, as the server saw them; of the last stage that was played.
            shadows: the attacker's own devices in those rounds, which hold validation records.
            checkpoint: a folder to which the whole state is saved after every round.
        """
        if self.stages and self.federation.engine == "flower" and isinstance(self.fleet, HomeFleet):
            raise InputError(
                "engine 'flower' plays on machines of its own: in a study (fedveil run) or an app (fedveil flower new)"
            )
        self.shadow_rows = shadow_rows(self, shadows) if shadows else self.shadow_rows
        if self.last_shared is not None:  # played to an end before: go on from there, not from the kept round
            self.shared, self.last_shared = self.last_shared, None
        while self.progress.stage < len(self.stages):
            stage = self.stages[self.progress.stage]
            planned = stage.rounds if stage.rounds is not None else rounds
            if planned is None:
                raise InputError(f"stage {stage.name!r} names no rounds; say how many: play(game, rounds=…)")
            while self.progress.round < planned and not self._stalled(stage):
                self._round(stage, record)
                for callback in callbacks:
                    callback(self.history[-1])
                if checkpoint is not None:
                    self.save(checkpoint)
            if self.progress.stage == len(self.stages) - 1:
                break
            self._keep_best()
            self.best_shared = self.last_shared = None
            self.recorded, self.shadows, self.started_from = [], [], {}  # rounds are recorded per stage
            self.progress.stage, self.progress.round, self.progress.best = self.progress.stage + 1, 0, None
        self._keep_best()
        if checkpoint is not None and not self.stages:
            self.save(checkpoint)
        return self

    def _round(self, stage: Stage, record: Sequence[int]) -> None:
        federation, number = self.federation, self.progress.round + 1
        devices = self.fleet.present(self, federation.sample(stage.name, number))
        losses: dict[str, float] = {}
        damage: dict[str, float] = {}
        silent, sent_bytes = 0, 0
        self._restart(stage, number)
        if len(devices):
            self._seat_local_players(stage)
            answers = self.fleet.play(self, stage, number, devices)
            sent = answers.sent
            silent = len(devices) - len(sent.speaking) if stage.shared.intersection(stage.players) else 0
            damage, sent_bytes = sent.damage, sent.bytes
            if len(sent.speaking):
                seen = watch(self, stage, number) if number in record else None
                aggregate(self, stage, sent, answers.records)
                if seen is not None:
                    self.started_from[number] = seen.started_from
                    self.shadows += seen.shadows
                    self.recorded.append((number, answers.devices[sent.speaking], sent.updates))
            if len(answers.losses):
                means = np.average(answers.losses, axis=0, weights=np.maximum(answers.steps, 1))
                losses = {move.title: float(mean) for move, mean in zip(stage.moves, means, strict=True)}
        validation = None if stage.validation is None else self._validate(stage)
        self.progress.round = number
        bare = without_variety(self, devices)
        self.history.append(
            RoundRecord(stage.name, number, len(devices), silent, losses, validation, damage, sent_bytes, bare)
        )
        if validation is not None and validation < (np.inf if self.progress.best is None else self.progress.best):
            self.progress.best, self.progress.best_round = validation, number
            self.best_shared = {name: state.clone() for name, state in self.shared.items()}

    def work(self, stage: Stage, number: int, devices: IntArray) -> Work:
        """Lay out one round's work."""
        federation = self.federation
        sizes, epochs = federation.batch_sizes, federation.local_epochs
        return Work(
            stage=stage,
            seats=self.seats,
            data=self.readable(stage.reads),
            rows=[federation.partition.device(int(device)) for device in devices],
            devices=devices,
            seed=federation.seed,
            round=number,
            batch_sizes=np.full(len(devices), stage.batch_size) if sizes is None else np.asarray(sizes)[devices],
            epochs=np.full(len(devices), stage.local_epochs) if epochs is None else np.asarray(epochs)[devices],
            rate_scales=None if federation.rate_scales is None else np.asarray(federation.rate_scales)[devices],
            settings={name: federation.setting(values, devices) for name, values in federation.settings.items()},
        )

    def readable(self, reads: frozenset[str], records: dict[str, Tensor] | None = None) -> dict[str, Tensor]:
        """Return only what a stage has declared to read: the rest is withheld."""
        return {
            name: column
            for name, column in (self.tensors if records is None else records).items()
            if name in reads or (name.startswith("u:") and "u" in reads)
        }

    def device_states(self, stage: Stage, devices: IntArray) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return each player's state on some devices, and the optimiser memory of those that stay there."""
        states, memories = {}, {}
        for name in self.seats:
            if name in self.local and name not in stage.shared:
                whole = self.local[name].get(devices).to(self.federation.place)
                size = self.layouts[name].size
                states[name] = whole[:, :size]
                if name in stage.players:
                    memories[name] = whole[:, size:]
            else:
                states[name] = self.shared[name].expand(len(devices), -1)
        return states, memories

    def _restart(self, stage: Stage, number: int) -> None:
        """Give players whose time has come fresh weights; devices forget what they had of them."""
        for name, rounds in stage.restarts.items():
            if number > 1 and (number - 1) % rounds == 0:
                fresh = _built(self.seats[name].player, self.federation.seed, f"{name} in {stage.name} from {number}")
                state = self.layouts[name].flatten(prepare(fresh, name), self.federation.number_type)
                self.shared[name] = state.to(self.federation.place)
                self.local.pop(name, None)
                self.restarted[name] += 1

    def _seat_local_players(self, stage: Stage) -> None:
        for name in stage.players:
            if name not in stage.shared and name not in self.local:
                self.seat_locally(name)

    def seat_locally(self, name: str) -> None:
        """Let every device have a player of its own from now on; all begin with the weights that are shared now."""
        state = self.shared[name].cpu()
        memory = memory_size(self.seats[name].player.optimiser, self.layouts[name].trained)
        self.local[name] = LocalPlayer(torch.cat([state, state.new_zeros(memory)]), self.federation.local_limit)

    def _validate(self, stage: Stage) -> float:
        assert stage.validation is not None
        rows = self.federation.data.rows(Split.VALIDATION)
        if not len(rows):
            raise InputError(f"stage {stage.name!r} selects on validation records, but the data has none")
        everyone = np.arange(len(self.federation.partition))
        settings = {  # a setting that differs per device is judged by its mean
            name: self.tensors["x"].new_tensor([self.federation.setting(values, everyone).mean()])
            for name, values in self.federation.settings.items()
        }
        seed = child_seed(self.federation.seed, "validation", stage.name)  # every round is judged by the same numbers
        return float(
            self.model().loss(stage.validation, self.readable(stage.reads, self.judged), rows, settings, seed).mean()
        )

    def _stalled(self, stage: Stage) -> bool:
        waited = self.progress.round - self.progress.best_round
        return stage.patience is not None and self.progress.best is not None and waited >= stage.patience

    def _keep_best(self) -> None:
        if self.best_shared is not None:
            self.shared, self.last_shared = self.best_shared, self.shared

    def model(self, device: int | None = None) -> Model:
        """Return the networks as the server has them; with a device, its own local players as well."""
        states = dict(self.shared)
        if device is not None:
            for name, player in self.local.items():
                states[name] = player.get(np.array([device]))[0, : self.layouts[name].size].to(self.federation.place)
        return Model(self.seats, self.layouts, states)

    def release(self, split: Split, kind: Kind = Kind.REPRESENTATION) -> FloatArray:
        """Return what the people of a split send once each, through the shield: (records, d)."""
        return release(self, split, kind)

    def view(self, what: str = "representations") -> View:
        """Return exactly what an observer saw.

        After training: "representations", "outputs". In recorded rounds: "updates", "parameters", "statistics".
        """
        if what in PARTS:
            return update_view(self, what)
        kinds = {"representations": Kind.REPRESENTATION, "outputs": Kind.OUTPUT}
        if what not in kinds:
            raise InputError(f"no view of {what!r}: {nearest(what, [*kinds, *PARTS])}")
        return released_view(self, kinds[what])

    def fit_head(self, *tasks: str, seed: int = 0, heads: Sequence[str] = ("mlp",), draws: int = 1000) -> list[Utility]:
        """Train heads per task on the released representations, and score the best of each task on test people."""
        return fit_heads(self, tasks, seed=seed, heads=heads, draws=draws)

    def score_outputs(self, *, seed: int = 0, draws: int = 1000) -> Utility:
        """Score the game's own outputs on the data's target, where it has a task head of its own."""
        return score_outputs(self, seed=seed, draws=draws)

    def save(self, folder: str | Path) -> None:
        """Save the whole state, so that a run continues bit-identically."""
        from fedveil.federation.checkpoint import save

        save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path, federation: Federation, game: Game) -> Run:
        """Continue a saved run with the same federation and game."""
        from fedveil.federation.checkpoint import load

        return load(Path(folder), federation, game)


def _built(player: Player, seed: int, name: str) -> nn.Module:
    """Build a player's network; a builder that draws from torch's global state gets the same weights each time, too."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(child_seed(seed, "weights", name, "global"))
        return player.build(torch_generator(seed, "weights", name))
