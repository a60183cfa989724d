"""Run: the state of a game that a federation plays.

A run is plain state, and plain functions act on it: `begin` returns a new run, `rounds.play` plays it,
`release.release` and `recording.update_view` return what left the devices, `heads.fit_heads` measures how useful that
is, and `checkpoint.save` writes the state to a folder. The methods of `Run` call these functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError, nearest
from fedveil.data.attribute_data import Split
from fedveil.federation import checkpoint as checkpoints
from fedveil.federation.fleet import Fleet, HomeFleet
from fedveil.federation.heads import fit_heads, score_outputs
from fedveil.federation.progress import Progress, RoundRecord
from fedveil.federation.recording import Recorded, update_view
from fedveil.federation.records import judged_tensors, prepare_shield, record_tensors, without_variety
from fedveil.federation.rehearsal import rehearse
from fedveil.federation.release import release, released_view
from fedveil.federation.replaced_layers import replace_layers
from fedveil.federation.rounds import build_network, play
from fedveil.federation.utility import Utility
from fedveil.federation.weights import Layout, LocalPlayer, Model, Seat, model_of
from fedveil.federation.work import Engine
from fedveil.games.game import DataShape, Game, Stage
from fedveil.shields.message import Kind
from fedveil.shields.shield import Shield
from fedveil.view import RELEASE_VIEWS, UPDATE_VIEWS, View

if TYPE_CHECKING:
    from fedveil.federation.federation import Federation


@dataclass(eq=False, repr=False)
class Run:
    """A game in play: the shared weights, the local players, and what has left the devices.

    `Federation.begin(game)` returns a run that is ready for its first round, `Federation.play(game)` one that was
    played.

    Attributes:
        federation: who takes part.
        game: what is played.
        fleet: where the devices are.
        engine: what trains the devices of this process.
        shape: what the game knows about the data.
        stages: the game's stages on this data.
        seats: the players' template networks, and how they learn.
        layouts: where each tensor lies in a player's flat vector.
        shared: each player's flat weights as the server has them.
        shield: the federation's shield, prepared on the training records.
        tensors: all records, x shielded.
        judged: the records that a model is judged on and that people release.
        local: the players that stay on their devices, once they have moved there for the first time.
        restarted: how often devices have had to forget a player.
        best_shared: the shared weights of the best round of this stage.
        last_shared: the shared weights of the last round, while those of the best round are in use.
        progress: how far the run has come.
        recorded: what devices sent in recorded rounds.
        shadows: what shadow devices sent in them.
        shadow_rows: the records of each shadow device.
        started_from: the shared weights at the start of each recorded round.
    """

    federation: Federation
    game: Game
    fleet: Fleet
    engine: Engine
    shape: DataShape
    stages: tuple[Stage, ...]
    seats: dict[str, Seat]
    layouts: dict[str, Layout]
    shared: dict[str, Tensor]
    shield: Shield
    tensors: dict[str, Tensor]
    judged: dict[str, Tensor]
    local: dict[str, LocalPlayer] = field(default_factory=dict)
    restarted: Counter[str] = field(default_factory=Counter)
    best_shared: dict[str, Tensor] | None = None
    last_shared: dict[str, Tensor] | None = None
    progress: Progress = field(default_factory=Progress)
    recorded: list[Recorded] = field(default_factory=list)
    shadows: list[Recorded] = field(default_factory=list)
    shadow_rows: list[IntArray] = field(default_factory=list)
    started_from: dict[int, Tensor] = field(default_factory=dict)

    def __repr__(self) -> str:
        data, devices = self.federation.data.name, len(self.federation.partition)
        played = f"rounds={len(self.history)}, shield={self.shield.name!r}"
        return f"Run({self.game.name!r}, data={data!r}, devices={devices}, {played})"

    @property
    def paths(self) -> dict[str, str]:
        """Which path each player's network takes through the engine."""
        return self.engine.paths(self.seats)

    @property
    def utility_only(self) -> dict[str, int]:
        """For each hidden attribute, how many devices lack it or hold only one value of it: they hide nothing."""
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
        """Play to the end of the last stage.

        Args:
            rounds: the number of rounds of stages that do not state one.
            callbacks: called with every round's record.
            record: rounds of the last stage whose updates are kept as the server saw them.
            shadows: how many devices the attacker has in those rounds; they hold validation records.
            checkpoint: a folder to which the whole state is saved after every round.
        """
        play(self, rounds, callbacks=callbacks, record=record, shadows=shadows, checkpoint=checkpoint)
        return self

    def model(self, device: int | None = None) -> Model:
        """Return the networks with the server's weights; with a device, with that device's local players as well."""
        return model_of(self, device)

    def release(self, split: Split, kind: Kind = Kind.REPRESENTATION) -> FloatArray:
        """Return what the people of a split send, once each, through the shield: (records, d)."""
        return release(self, split, kind)

    def view(self, what: str = "representations") -> View:
        """Return exactly what an observer saw.

        After training: "representations", "outputs". In recorded rounds: "updates", "parameters", "statistics".
        """
        if what in UPDATE_VIEWS:
            return update_view(self, what)
        if what not in RELEASE_VIEWS:
            raise InputError(f"no view of {what!r}: {nearest(what, [*RELEASE_VIEWS, *UPDATE_VIEWS])}")
        return released_view(self, Kind.REPRESENTATION if what == "representations" else Kind.OUTPUT)

    def fit_head(self, *tasks: str, seed: int = 0, heads: Sequence[str] = ("mlp",), draws: int = 1000) -> list[Utility]:
        """Train heads for each task on the released representations, and score the best of each task on test people."""
        return fit_heads(self, tasks, seed=seed, heads=heads, draws=draws)

    def score_outputs(self, *, seed: int = 0, draws: int = 1000) -> Utility:
        """Score the outputs of the game on the data's target, if the game has a task head."""
        return score_outputs(self, seed=seed, draws=draws)

    def save(self, folder: str | Path) -> None:
        """Save the whole state, so that a loaded run continues bit for bit."""
        checkpoints.save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path, federation: Federation, game: Game) -> Run:
        """Continue a saved run with the same federation and game."""
        saved = checkpoints.read(Path(folder), federation, game)
        run = begin(federation, game)
        checkpoints.restore(run, saved)
        return run


def data_shape(federation: Federation) -> DataShape:
    """Return what a game knows about a federation's data, with "own" if devices choose the attribute to protect."""
    shape = DataShape.of(federation.data)
    protected = federation.own_codes()
    if protected is None:
        return shape
    return replace(shape, attributes={**shape.attributes, "own": len(protected.values)})


def begin(federation: Federation, game: Game, fleet: Fleet | None = None) -> Run:
    """Return a run that is ready for its first round.

    Networks are built, the shield is prepared on the training records, all records pass through it, and every loss is
    rehearsed once on a few of them: whatever does not fit is refused here, in one line, before anything is trained.
    """
    game.check_settings(federation.settings)
    shape = data_shape(federation)
    stages = game.stages(shape)
    seats = {
        name: Seat(replace_layers(build_network(player, federation.seed, name), name), player)
        for name, player in game.players(shape).items()
    }
    layouts = {name: Layout.of(seat.template) for name, seat in seats.items()}
    _check_stages(game, stages, layouts)
    number, device = federation.number_type, federation.torch_device
    shield = prepare_shield(federation.shield, federation.data, federation.seed)
    tensors = record_tensors(federation, stages, shield)
    run = Run(
        federation=federation,
        game=game,
        fleet=fleet or HomeFleet(),
        engine=federation.make_engine(),
        shape=shape,
        stages=stages,
        seats=seats,
        layouts=layouts,
        shared={name: layouts[name].flatten(seat.template, number).to(device) for name, seat in seats.items()},
        shield=shield,
        tensors=tensors,
        judged=judged_tensors(federation, shield, tensors),
    )
    rehearse(run)
    return run


def _check_stages(game: Game, stages: tuple[Stage, ...], layouts: dict[str, Layout]) -> None:
    """Refuse stages that name players which do not exist, or that move players without weights."""
    for stage in stages:
        for name in (*stage.players, *stage.shared, *stage.restarts):
            if name not in layouts:
                raise InputError(
                    f"stage {stage.name!r} moves, shares or restarts {name!r}, which is not a player of {game.name}"
                )
        for name in stage.players:
            if not layouts[name].trained:
                raise InputError(f"stage {stage.name!r} moves player {name!r}, whose network has no weights to move")
