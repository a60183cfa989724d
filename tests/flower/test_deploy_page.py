"""docs/deploy.md: its commands for certificates and keys work, and Flower's commands accept its options."""

from __future__ import annotations

import re
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from fedveil.flower.loopback import Loopback

PAGE = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(
    not (shutil.which("openssl") and shutil.which("ssh-keygen")), reason="openssl or ssh-keygen is missing"
)
def test_certificates_and_keys_are_created_and_valid(tmp_path: Path) -> None:
    for block in BLOCKS:
        if "openssl" in block or "ssh-keygen" in block:
            subprocess.run(["bash", "-e", "-c", block], cwd=tmp_path, check=True, capture_output=True)
    folder = tmp_path / "certificates"
    subprocess.run(
        ["openssl", "verify", "-CAfile", "ca.crt", "-verify_ip", "127.0.0.1", "server.pem"], cwd=folder, check=True
    )
    ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(folder / "server.pem", folder / "server.key")
    key = load_ssh_private_key((tmp_path / "site-1" / "key").read_bytes(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert (folder / "server.key").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("command", ["flower-superlink", "flower-supernode", "flwr run"])
def test_flower_knows_the_page_s_options(command: str) -> None:
    name, *rest = command.split()
    shown = subprocess.run(
        [str(Path(sys.executable).parent / name), *rest, "--help"],
        env=_quiet(),
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    options = set(re.findall(r"--[a-z][a-z-]+", shown))
    used = set()
    for block in BLOCKS:
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith(command):
                used |= set(re.findall(r"(?<=\s)--[a-z][a-z-]+", line))
    assert used
    assert used <= options


def _quiet() -> dict[str, str]:
    import os

    return {**os.environ, "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "COLUMNS": "200"}


def test_the_page_s_deployment_is_what_loopback_starts(tmp_path: Path) -> None:
    deployment = Loopback(tmp_path, nodes=[{}], authenticate=True)
    assert deployment.tls  # authentication without encryption is refused by Flower
