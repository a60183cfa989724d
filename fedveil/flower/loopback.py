"""A Flower deployment on one machine: SuperLink, SuperNodes and runs of apps, only over 127.0.0.1."""

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

Setting = str | int | float | bool
NodeConfig = Mapping[str, Setting]

_NAME = "loopback"
_HOST = "127.0.0.1"
_ATTEMPTS = 3
"""How many ports are tried: one that was free a moment ago may be taken when the process opens it."""

_SHOWN = 12
"""How many of a log's last lines an error message shows."""

Flwr = Callable[..., str]
"""A function that runs `flwr` with its arguments and returns what was printed."""

_QUIET = {
    # Nothing is reported, looked up or fetched; addresses of this machine need no proxy.
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "NO_PROXY": f"{_HOST},localhost",
    "no_proxy": f"{_HOST},localhost",
    # Polling costs nothing on one machine: tasks are fetched more often than once a second.
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.3",
    "PYTHONUNBUFFERED": "1",
}


@dataclass(frozen=True)
class AppRun:
    """A run that has ended: its id, its status in `flwr list` (such as finished:completed), and its log."""

    id: int
    status: str
    log: str

    @property
    def completed(self) -> bool:
        """Whether the app ran to its end without an error."""
        return self.status == "finished:completed"


@dataclass
class RunningApp:
    """A run in progress, with the `flwr run --stream` that writes its log."""

    stream: subprocess.Popen[bytes]
    log_file: Path
    superlink: str
    flwr: Flwr

    @property
    def log(self) -> str:
        """What the ServerApp has logged so far."""
        return read_log(self.log_file)

    @property
    def id(self) -> int | None:
        """The run's id; None until the SuperLink has accepted the app."""
        return _number_after("Successfully started run", self.log)

    def wait_for(self, text: str, timeout: float) -> None:
        """Wait until the log contains a text, for steps that depend on the app's progress."""
        end = time.monotonic() + timeout
        while text not in self.log:
            if time.monotonic() > end or self.stream.poll() is not None:
                raise InputError(f"the app's log did not show {text!r} within {timeout:g} s; it ends: {tail(self.log)}")
            time.sleep(0.1)

    def wait(self, timeout: float, *, check: bool = True) -> AppRun:
        """Wait for the run to end; one that takes longer than `timeout` seconds is stopped, which is an error.

        Args:
            timeout: how long to wait, in seconds.
            check: raise an error if the run did not complete.
        """
        try:
            self.stream.wait(timeout)
        except subprocess.TimeoutExpired:
            self.stop()
            raise InputError(
                f"the Flower app did not end within {timeout:g} s and was stopped; its log ends: {tail(self.log)}"
            ) from None
        run = self.id
        if run is None:
            raise InputError(f"the SuperLink did not accept the Flower app: {tail(self.log)}")
        ended = AppRun(run, self._status(run), self.log)
        if check and not ended.completed:
            raise InputError(f"the Flower app ended as {ended.status}; its log ends: {tail(ended.log)}")
        return ended

    def stop(self) -> None:
        """End the run on the SuperLink and stop following it."""
        if self.stream.poll() is None:
            self.stream.terminate()
            self.stream.wait()
        if self.id is not None:
            self.flwr("stop", str(self.id), self.superlink, "--format", "json")

    def _status(self, run: int) -> str:
        listed = json.loads(self.flwr("list", self.superlink, "--run-id", str(run), "--format", "json"))
        return str(listed["runs"][0]["status"])


@dataclass
class Node:
    """A SuperNode: its process, its node config, its log, and its id once the SuperLink has admitted it."""

    name: str
    config: NodeConfig
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def id(self) -> int | None:
        """The id that the SuperLink has given it; None until it is admitted."""
        return _number_after("SuperNode ID:", read_log(self.log))


@dataclass
class Loopback:
    """A SuperLink with SuperNodes, on which to run Flower apps; leaving the block stops every process by its id.

    Args:
        folder: where configurations, keys, certificates and logs are written; each party has a FLWR_HOME in it.
        nodes: the node config of each SuperNode.
        tls: encrypt, with certificates created for this deployment.
        authenticate: admit only SuperNodes whose public key was registered with the SuperLink; implies TLS.
        patience: seconds within which the SuperLink and each node must be ready.

    Over plain HTTP, everybody who can reach a port of this machine can join, and run apps on the SuperLink. With
    authentication only registered nodes join, but apps can still be submitted by everybody on the machine.
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
            # All nodes are started before any is waited for: each takes seconds to load.
            for node in [self.start_node(config, wait=False) for config in self.nodes]:
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
        """Start a SuperNode; if the deployment authenticates, its key is created and registered first.

        Args:
            config: its node config.
            wait: wait until the SuperLink has admitted it.
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
        """Wait until the SuperLink has admitted a node; the error says why it was not."""
        if not self._within(lambda: node.id is not None, node.process):
            log = tail(read_log(node.log))
            raise InputError(f"Flower's SuperNode {node.name} was not admitted within {self.patience:g} s: {log}")

    def kill_node(self, node: Node) -> None:
        """Kill a SuperNode and what it runs with SIGKILL, as if its machine lost power."""
        processes.kill(node.process)

    def run_app(
        self, app: Path, run_config: Mapping[str, Setting] | None = None, timeout: float = 600.0, *, check: bool = True
    ) -> AppRun:
        """Run an app with `flwr run` and wait for its end; with `check`, one that did not complete is an error."""
        return self.start_app(app, run_config).wait(timeout, check=check)

    def start_app(self, app: Path, run_config: Mapping[str, Setting] | None = None) -> RunningApp:
        """Submit an app with `flwr run` and return at once."""
        if not (Path(app) / "pyproject.toml").is_file():
            raise InputError(f"{app}: holds no Flower app (no pyproject.toml); give an app's folder")
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
            if self._within(self._superlink_is_ready, self._superlink):
                return
            log = read_log(self._log("superlink"))
            processes.stop([self._superlink])
            if "address already in use" not in log:
                break
        raise InputError(f"Flower's SuperLink did not start within {self.patience:g} s on {self.address}: {tail(log)}")

    def _superlink_is_ready(self) -> bool:
        # The log is read, since an open port may belong to another process.
        return "Uvicorn running on" in read_log(self._log("superlink"))

    def _write_connection(self) -> None:
        """Write the SuperLink's address to a FLWR_HOME for `flwr`."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        secured = f"root-certificates = {_toml(str(self._certificates.authority))}" if self.tls else "insecure = true"
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "{_NAME}"\n\n[superlink.{_NAME}]\naddress = "{self.address}"\n{secured}\n'
        )

    def _trust(self) -> list[str]:
        return ["--root-certificates", str(self._certificates.authority)] if self.tls else ["--insecure"]

    def _within(self, is_ready: Callable[[], bool], process: subprocess.Popen[bytes]) -> bool:
        """Wait until something is ready; False if the process has ended or patience runs out."""
        end = time.monotonic() + self.patience
        while time.monotonic() < end:
            if process.poll() is not None:
                return False
            if is_ready():
                return True
            time.sleep(0.1)
        return False

    def _launch(self, name: str, command: Sequence[str], home: str | None = None) -> subprocess.Popen[bytes]:
        folder = self.folder / (home or name)
        folder.mkdir(parents=True, exist_ok=True)
        return processes.start(command, _environment(folder), folder, self._log(name))

    def _write_settings(self, name: str, settings: Mapping[str, Setting]) -> Path:
        """Write settings to a file: on a command line Flower's quoting would lose some texts."""
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
            what = f"flwr {' '.join(arguments[:2])} did not answer within {self.patience:g} s"
            raise InputError(f"{what}; the machine may be too busy: increase patience") from None
        if done.returncode:
            raise InputError(f"flwr {' '.join(arguments[:2])} failed: {tail(done.stdout + done.stderr)}")
        return done.stdout


def _environment(home: Path) -> dict[str, str]:
    # Flower starts its helper programs by name: they must be those next to this interpreter.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    data = os.environ.get("FEDVEIL_DATA")  # made absolute: the processes run in other folders
    paths = {"FEDVEIL_DATA": str(Path(data).resolve())} if data else {}
    return {**os.environ, **_QUIET, **paths, "FLWR_HOME": str(home), "PATH": path}


def _script(name: str) -> str:
    script = Path(sys.executable).parent / name
    if not script.is_file():
        raise InputError(f"Flower's command {name} is not next to {sys.executable}: pip install 'fedveil[flower]'")
    return str(script)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


def _toml(value: Setting) -> str:
    """Write a setting as TOML; text, numbers and booleans are written as in JSON."""
    return json.dumps(value, ensure_ascii=False)


def read_log(path: Path) -> str:
    """Return a log as plain text, without the colours of a terminal."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def tail(log: str) -> str:
    r"""Return a log's last lines joined into one.

    >>> tail("a\n\nb\n")
    'a | b'
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return " | ".join(lines[-_SHOWN:]) or "(the log is empty)"


def _number_after(words: str, log: str) -> int | None:
    match = re.search(rf"{words} (\d+)", log)
    return int(match.group(1)) if match else None
