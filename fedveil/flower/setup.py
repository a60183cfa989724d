"""What a game on Flower is made of: one cell of a study, built alike by the server and by every node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from fedveil.config.cells import load_data, make_federation, make_game
from fedveil.config.study import Method, Study, read_study
from fedveil.core.errors import InputError, nearest
from fedveil.data.partition import OneHolder

if TYPE_CHECKING:
    from fedveil.data import AttributeData
    from fedveil.federation.fleet import Fleet
    from fedveil.federation.run import Run


@dataclass(frozen=True)
class Setup:
    """One method of a study at one strength with one seed.

    Server and nodes derive players, first weights and randomness from it, so that no code and no seed has to travel.
    """

    study: Study
    method: Method
    strength: float | None
    seed: int

    @classmethod
    def read(cls, path: str | Path, config: Mapping[str, Any]) -> Setup:
        """Read a study and pick the cell that a run's config names by `method`, `strength` and `seed`.

        What it leaves out (or gives as "") is the study's first; what the study does not list is refused.
        """
        study = read_study(Path(path))
        by_name = {method.name: method for method in study.methods}
        name = str(config.get("method") or study.methods[0].name)
        if name not in by_name:
            raise InputError(f"run config: method: no method {name!r} in {path}: {nearest(name, by_name)}")
        method = by_name[name]
        strength = method.points[0] if config.get("strength") in (None, "") else float(config["strength"])
        if strength not in method.points:  # a server could ask for a shield's σ of next to nothing
            listed = ", ".join(f"{own:g}" for own in method.strengths or []) or "none"
            raise InputError(f"run config: strength: {strength:g} is none of the study's for {name!r}: {listed}")
        seed = study.seeds[0] if config.get("seed") in (None, "") else int(config["seed"])
        return cls(study, method, strength, seed)

    @property
    def rounds(self) -> int:
        """Rounds of stages that name none themselves."""
        return self.method.rounds or self.study.federation.rounds

    def run(self, data: AttributeData | None = None, fleet: Fleet | None = None, holder: int | None = None) -> Run:
        """Build the run.

        Args:
            data: this machine's own records; None: the study's source, dealt to devices as the study says.
            fleet: where devices are; None: here.
            holder: the device that holds all of `data`; None: they are dealt.
        """
        from fedveil.federation.run import begin

        torch.set_num_threads(self.study.threads)
        records = load_data(self.study, self.seed) if data is None else data
        holders = None if holder is None else OneHolder(self.study.federation.devices, holder)
        federation = make_federation(self.study, self.method, self.strength, self.seed, records, holders)
        return begin(federation, make_game(self.method, self.strength), fleet)
