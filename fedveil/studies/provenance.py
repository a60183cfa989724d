"""Which code computed a result: versions, the revision of a checkout, and a digest of the package's source."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path

from fedveil import __version__

PACKAGE = Path(__file__).resolve().parents[1]


@cache
def code_digest(package: Path = PACKAGE) -> str:
    """Return a digest of a package's source, since other code may give other results even under the same version."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


@cache
def revision() -> str | None:
    """Return the commit of a checkout, with "+" if files differ from it; None for an installed package."""
    if not (PACKAGE.parent / ".git").exists():
        return None
    try:
        commit = _git("rev-parse", "--short=12", "HEAD")
        return commit + ("+" if _git("status", "--porcelain", "--", str(PACKAGE)) else "")
    except (OSError, subprocess.SubprocessError):
        return None


def versions() -> dict[str, str]:
    """Return the versions of fedveil, Python and the libraries that compute."""
    libraries = {name: version(name) for name in ("torch", "numpy", "scikit-learn", "scipy")}
    return {"fedveil": __version__, "code": code_digest(), "python": platform.python_version(), **libraries}


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(PACKAGE.parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()  # noqa: S603
