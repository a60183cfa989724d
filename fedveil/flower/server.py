"""The ServerApp of a study's games."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedveil.core.errors import InputError
from fedveil.flower.fleet import FlowerFleet
from fedveil.flower.setup import Setup
from fedveil.studies.training import play

if TYPE_CHECKING:
    from fedveil.data import AttributeData
    from fedveil.federation.rounds import RoundRecord

_log = logging.getLogger("flwr")


def server_app(study: str | Path, *, data: Callable[[], AttributeData] | None = None) -> ServerApp:
    """Return the ServerApp of a study's games.

    Its run config may name `method`, `strength` and `seed` (the study's first if unsaid), `least-nodes` (all devices if
    unsaid), `round-seconds` (600), `every-answer` (end the run where one is missing), `out` (a folder for weights,
    rounds and state) and `reveal` (ask nodes for their local players at the end: research on one machine).

    Args:
        study: the study's file, the nodes' own.
        data: returns records of the server's own, for shapes and validation; None: the study's data.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        config = context.run_config
        setup = Setup.read(study, config)
        devices = setup.study.federation.devices
        least = int(config.get("least-nodes") or devices)
        if not 1 <= least <= devices:
            raise InputError(f"run config: least-nodes must lie between 1 and {devices}; got {least}")
        seconds = float(config.get("round-seconds") or 600)
        strict = config.get("every-answer") is True
        fleet = FlowerFleet(grid, least=least, seconds=seconds, say=_log.info, every_answer=strict)
        run = setup.run(None if data is None else data(), fleet)
        out = str(config.get("out") or "")
        folder = Path(out) if out else None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

        def after_round(record: RoundRecord) -> None:
            losses = ", ".join(f"{name} {loss:.4f}" for name, loss in record.losses.items())
            _log.info("%s, round %d: %d devices, %s", record.stage, record.round, record.devices, losses)
            if folder is not None:
                with (folder / "metrics.jsonl").open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(record.as_dict()) + "\n")

        play(setup.study, setup.method, run, [after_round])
        if config.get("reveal"):
            fleet.reveal(run)
        if folder is not None:
            run.save(folder / "checkpoint")
            _log.info("written: %s", folder.resolve())

    return app
