"""Write a complete Flower app for a study's games: for `fedveil flower new`, and for `engine: flower`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from fedveil.config.study import Study
from fedveil.core.errors import InputError
from fedveil.flower import protocol

_PACKAGE = "fedveil_app"

EXAMPLE: dict[str, Any] = {
    "name": "tappfl-on-flower",
    "data": {"source": "adult", "target": "income", "sensitive": ["sex"], "options": {"tasks": False}},
    "federation": {"devices": 2, "rounds": 5},
    "methods": [{"name": "tappfl", "game": {"kind": "tappfl", "attribute": "sex", "strength": 0.5}}],
}
"""The study of an app if the user names none."""

_PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "1.0.0"
description = "{title}"
license = "Apache-2.0"
dependencies = ["fedveil[flower]"]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "fedveil"

[tool.flwr.app.components]
serverapp = "{package}.server_app:app"
clientapp = "{package}.client_app:app"

[tool.flwr.app.config]
method = ""          # one of the study's methods; if empty, the first
strength = ""        # one of the method's strengths; if empty, the first
seed = ""            # a seed; if empty, the study's first
least-nodes = 0      # how many nodes to wait for before the first round; 0: all devices of the study
round-seconds = 600  # nodes that do not answer in time take no part in a round
every-answer = false # end the run if an answer is missing or cannot be used, instead of going on without it
out = ""             # a folder at the server for weights, rounds and state; if empty, nothing is written
reveal = false       # ask nodes for their local players at the end; only for research on one machine
"""

_SERVER = '''\
"""The server: plays the study's game with the nodes that are connected."""

from pathlib import Path

from fedveil.flower.server import server_app

app = server_app(Path(__file__).parent / "study.yaml")
'''

_CLIENT = '''\
"""A node: one device of the study's game. For other records: client_app(…, data=function of the context)."""

from pathlib import Path

from fedveil.flower.node import client_app

app = client_app(Path(__file__).parent / "study.yaml")
'''

_README = """\
# {name}

{title}

`{package}/study.yaml` says what is played, on what data and by how many devices; `fedveil schema` explains its fields.
Every node is one device; its node config says which. It uses its part of the study's data, which must be where
`study.yaml` says, as must a method's policy; or it uses other records. To run everything on one machine, enter each
command in a separate terminal:

    export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
    flower-superlink --insecure --host 127.0.0.1 --disable-runtime-dependency-installation
{nodes}

`flwr` reads the SuperLink's address from `~/.flwr/config.toml`. Add the first three lines to that file, then run the
app:

    [superlink.here]
    address = "127.0.0.1:8000"
    insecure = true

    flwr run . here --stream --run-config 'out="/path/to/results"'

Local players stay in the node's state between messages and never travel. To let the person at a site decide what may
leave, pass `mods=[shield_mod()]` to `client_app`, and give each node a policy (`fedveil-policy` in its node config)
whose metrics are {metrics}. For TLS and node authentication see the page "Deploying on Flower" of fedveil's
documentation.
"""

METRICS = (protocol.PARTITION, protocol.PARTITIONS, "num-examples", "steps", "losses")
"""The figures that a node sends besides its update: a site's policy has to allow each by name."""


def _node_command(device: int, devices: int) -> str:
    """Return the command that starts a node; the third command is marked if more nodes follow."""
    config = f"--node-config '{protocol.PARTITION}={device} {protocol.PARTITIONS}={devices}'"
    more = "   # and so on" if device == 2 and devices > 3 else ""
    return f"    flower-supernode --insecure --superlink 127.0.0.1:8000 --port {9094 + device} {config}{more}"


def write_app(folder: Path, study: Study) -> list[Path]:
    """Write an app for a study and return its files; a folder that is not empty is refused."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is not empty; name a new folder")
    if study.federation.engine != "flower":
        section = study.federation.model_copy(update={"engine": "flower"})
        study = study.model_copy(update={"federation": section})
    methods = [
        method if method.policy is None else method.model_copy(update={"policy": str(Path(method.policy).resolve())})
        for method in study.methods
    ]
    study = study.model_copy(update={"methods": methods})  # a node works in a folder of its own
    name = re.sub(r"[^a-z0-9-]+", "-", folder.resolve().name.lower()).strip("-") or "fedveil-app"
    title = f"The study {study.name} on Flower."
    devices = study.federation.devices
    fields = {
        "name": name,
        "title": title,
        "package": _PACKAGE,
        "nodes": "\n".join(_node_command(device, devices) for device in range(devices)[:3]),
        "metrics": ", ".join(METRICS),
    }
    plain = study.model_dump(mode="json", exclude_defaults=True)
    texts = {
        "pyproject.toml": _PYPROJECT.format(**fields),
        "README.md": _README.format(**fields),
        f"{_PACKAGE}/__init__.py": f'"""{title}"""\n',
        f"{_PACKAGE}/server_app.py": _SERVER,
        f"{_PACKAGE}/client_app.py": _CLIENT,
        f"{_PACKAGE}/study.yaml": yaml.safe_dump(plain, sort_keys=False, allow_unicode=True),
    }
    try:
        (folder / _PACKAGE).mkdir(parents=True)
        for path, text in texts.items():
            (folder / path).write_text(text, encoding="utf-8")
    except OSError as fault:
        raise InputError(f"{folder}: cannot be written ({fault.strerror})") from fault
    return [folder / path for path in texts]
