"""A Flower deployment on one machine: SuperLink and SuperNodes as processes that talk over 127.0.0.1 alone."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from fedveil.core.errors import InputError
from fedveil.flower import processes
from fedveil.flower.app_run import AppRun, RunningApp, read_log, tail

Setting = str | int | float | bool
NodeConfig = Mapping[str, Setting]

_NAME = "loopback"
_HOST = "127.0.0.1"
_ATTEMPTS = 3
"""A port that was free a moment ago may be taken when a process asks for it: so often another one is tried."""

_QUIET = {
    # Nothing is reported, nothing is looked up, nothing is fetched; addresses of this machine need no proxy.
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "NO_PROXY": f"{_HOST},localhost",
    "no_proxy": f"{_HOST},localhost",
    # On one machine a question costs nothing: tasks are fetched sooner than once a second.
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.3",
    "PYTHONUNBUFFERED": "1",
}


@dataclass
class Node:
    """A SuperNode: its process, what it was started with, its log, and its id once the SuperLink has admitted it."""

    name: str
    config: NodeConfig
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def id(self) -> int | None:
        """The id that the SuperLink has given it; None while it is not admitted."""
        found = re.search(r"SuperNode ID: (\d+)", read_log(self.log))
        return int(found.group(1)) if found else None


@dataclass
class Loopback:
    """Run Flower apps on a SuperLink and SuperNodes of their own; leaving the block stops every process by its id.

    Args:
        folder: where configurations, keys, certificates and logs are written; every party has its own FLWR_HOME in it.
        nodes: the SuperNodes' node configs, one each.
        tls: encrypt, with certificates made for this deployment.
        authenticate: admit only SuperNodes whose public key the SuperLink was told beforehand; takes TLS for granted.
        patience: seconds within which the SuperLink and each node must be there.

    Over plain HTTP whoever may open a port of this machine may also run an app on the SuperLink; with TLS and
    authentication nobody but the registered nodes joins, though apps may still be sent in by anybody on the machine.
    """

    folder: Path
    nodes: Sequence[NodeConfig] = ()
    tls: bool = False
    authenticate: bool = False
    patience: float = 120.0
    started: list[Node] = field(default_factory=list, init=False)
    port: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if find_spec("flwr") is None:
            raise InputError("Flower is not installed: pip install 'fedveil[flower]'")
        self.folder = Path(self.folder).resolve()
        self.tls = self.tls or self.authenticate
        self._superlink: subprocess.Popen[bytes] | None = None
        self._streams: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        """Where the SuperLink listens."""
        return f"{_HOST}:{self.port}"

    def __enter__(self) -> Self:
        try:
            (self.folder / "logs").mkdir(parents=True, exist_ok=True)
            if self.tls:
                from fedveil.flower.tls import write_certificates

                self._certificates = write_certificates(self.folder / "certificates")
            self._start_superlink()
            self._write_connection()
            # All are started before the first is waited for: each takes seconds to load.
            waiting = [self.start_node(config, wait=False) for config in self.nodes]
            for node in waiting:
                self.wait_for(node)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop every process that this deployment has started, whatever state it is in."""
        ending = [*self._streams, *(node.process for node in self.started)]
        processes.stop([*ending, *([self._superlink] if self._superlink else [])])
        self._streams, self._superlink = [], None

    def start_node(self, config: NodeConfig, *, wait: bool = True, authenticated: bool = True) -> Node:
        """Start a SuperNode; where the deployment authenticates, its key is made and told to the SuperLink first.

        Args:
            config: its node config.
            wait: until the SuperLink has admitted it.
            authenticated: False starts a node whose key the SuperLink does not know, which must not be admitted.
        """
        name = f"node-{len(self.started)}"
        command = [_script("flower-supernode"), "--superlink", self.address, *self._trust()]
        if self.authenticate:
            from fedveil.flower.tls import write_node_key

            key = write_node_key(self.folder / "keys", name)
            if authenticated:
                self._flwr("supernode", "register", str(key.public), _NAME, "--format", "json")
            command += ["--auth-supernode-private-key", str(key.private)]
        if config:
            command += ["--node-config", str(self._write_settings(name, config))]
        command += ["--host", _HOST, "--port", str(_free_port())]
        node = Node(name, dict(config), self._launch(name, command), self._log(name))
        self.started.append(node)
        if wait:
            self.wait_for(node)
        return node

    def wait_for(self, node: Node) -> None:
        """Wait until the SuperLink has admitted a node; say why where it is not."""
        if not self._within(lambda: node.id is not None, node.process):
            said = tail(read_log(node.log))
            raise InputError(f"Flower's SuperNode {node.name} was not admitted within {self.patience:g} s: {said}")

    def kill_node(self, node: Node) -> None:
        """Kill a SuperNode and what it runs with SIGKILL, as a machine that loses its power."""
        processes.kill(node.process)

    def run_app(
        self, app: Path, run_config: Mapping[str, Setting] | None = None, timeout: float = 600.0, *, check: bool = True
    ) -> AppRun:
        """Run an app with `flwr run` and wait for its end; `check` refuses one that did not complete."""
        return self.start_app(app, run_config).wait(timeout, check=check)

    def start_app(self, app: Path, run_config: Mapping[str, Setting] | None = None) -> RunningApp:
        """Send an app in with `flwr run` and return at once."""
        if not (Path(app) / "pyproject.toml").is_file():
            raise InputError(f"{app} holds no Flower app: there is no pyproject.toml in it")
        name = f"run-{len(self._streams)}"
        command = [_script("flwr"), "run", str(Path(app).resolve()), _NAME, "--stream"]
        if run_config:
            command += ["--run-config", str(self._write_settings(name, run_config))]
        stream = self._launch(name, command, home="home")
        self._streams.append(stream)
        return RunningApp(stream, self._log(name), _NAME, self._flwr)

    def _start_superlink(self) -> None:
        for _ in range(_ATTEMPTS):
            self.port = _free_port()
            command = [_script("flower-superlink"), "--host", _HOST, "--port", str(self.port)]
            command += ["--disable-runtime-dependency-installation"]
            if self.tls:
                files = self._certificates
                command += ["--ssl-ca-certfile", str(files.authority), "--ssl-certfile", str(files.certificate)]
                command += ["--ssl-keyfile", str(files.key)]
            else:
                command += ["--insecure"]
            if self.authenticate:
                command += ["--enable-supernode-auth"]
            self._superlink = self._launch("superlink", command)
            if self._within(self._answers, self._superlink):
                return
            said = read_log(self._log("superlink"))
            processes.stop([self._superlink])
            if "address already in use" not in said:
                break
        raise InputError(f"Flower's SuperLink did not start within {self.patience:g} s on {self.address}: {tail(said)}")

    def _answers(self) -> bool:
        # Its own word: that something listens on the port may be another process's doing.
        return "Uvicorn running on" in read_log(self._log("superlink"))

    def _write_connection(self) -> None:
        """Tell `flwr` where the SuperLink is, in a FLWR_HOME of its own."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        secured = f"root-certificates = {_toml(str(self._certificates.authority))}" if self.tls else "insecure = true"
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "{_NAME}"\n\n[superlink.{_NAME}]\naddress = "{self.address}"\n{secured}\n'
        )

    def _trust(self) -> list[str]:
        return ["--root-certificates", str(self._certificates.authority)] if self.tls else ["--insecure"]

    def _within(self, there: Callable[[], bool], process: subprocess.Popen[bytes]) -> bool:
        """Wait until something is there; False where the process has ended or patience has."""
        end = time.monotonic() + self.patience
        while time.monotonic() < end:
            if process.poll() is not None:
                return False
            if there():
                return True
            time.sleep(0.1)
        return False

    def _launch(self, name: str, command: Sequence[str], home: str | None = None) -> subprocess.Popen[bytes]:
        place = self.folder / (home or name)
        place.mkdir(parents=True, exist_ok=True)
        return processes.start(command, _environment(place), place, self._log(name))

    def _write_settings(self, name: str, settings: Mapping[str, Setting]) -> Path:
        """Write settings to a file: on a command line Flower's own quoting would lose some texts."""
        path = self.folder / f"{name}.toml"
        path.write_text("".join(f"{key} = {_toml(value)}\n" for key, value in settings.items()), encoding="utf-8")
        return path

    def _log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    def _flwr(self, *arguments: str) -> str:
        home = self.folder / "home"
        try:
            done = subprocess.run(  # noqa: S603 (our own command line, no shell)
                [_script("flwr"), *arguments],
                env=_environment(home),
                cwd=home,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=self.patience,
                check=False,
            )
        except subprocess.TimeoutExpired:
            said = f"flwr {' '.join(arguments[:2])} did not answer within {self.patience:g} s"
            raise InputError(f"{said}; the machine may be too busy: give more patience") from None
        if done.returncode:
            raise InputError(f"flwr {' '.join(arguments[:2])} failed: {tail(done.stdout + done.stderr)}")
        return done.stdout


def _environment(home: Path) -> dict[str, str]:
    # Flower starts its helpers by name: they must be those beside this interpreter.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    data = os.environ.get("FEDVEIL_DATA")  # seen from here: the processes stand elsewhere
    own = {"FEDVEIL_DATA": str(Path(data).resolve())} if data else {}
    return {**os.environ, **_QUIET, **own, "FLWR_HOME": str(home), "PATH": path}


def _script(name: str) -> str:
    found = Path(sys.executable).parent / name
    if not found.is_file():
        raise InputError(f"Flower's command {name} is not beside {sys.executable}: pip install 'fedveil[flower]'")
    return str(found)


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind((_HOST, 0))
        return int(asked.getsockname()[1])


def _toml(value: Setting) -> str:
    """Write a setting as TOML does; what JSON writes of text, numbers and truth is TOML, too."""
    return json.dumps(value, ensure_ascii=False)
