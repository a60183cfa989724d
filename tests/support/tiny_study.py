"""A tiny study, and commands run as a person would run them: in a process of their own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TINY: dict[str, Any] = {
    "name": "tiny",
    "data": {"source": "synthetic", "target": "y", "sensitive": ["u"], "options": {"n": 600}},
    "federation": {"devices": 5, "rounds": 6},
    "methods": [
        {"name": "none", "game": "undefended"},
        {"name": "adversarial", "game": {"kind": "adversarial", "attribute": "u"}, "strengths": [1, 4]},
    ],
    "drop_columns": [1],
    "attacks": {"panel": ["logistic"], "draws": 100},
    "checkpoint_seconds": 0,
}
VOLATILE = {"timing.json", ".lock", "study.json"}


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "fedveil", *map(str, arguments)]


def environment(**further: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", **further}


def fedveil(*arguments: str | Path, **further: str) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, env=environment(**further), timeout=300, check=False
    )


def fedveil_here(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run one command in this process, which has everything loaded; workers are still separate processes."""
    from fedveil.cli import main

    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code
    assert isinstance(code, int)
    return subprocess.CompletedProcess(list(map(str, arguments)), code, out.getvalue(), errors.getvalue())


def snapshot(folder: Path) -> dict[str, bytes]:
    """Return every file that must not depend on interruptions of a study or on which process computed it."""
    arrays = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in VOLATILE:
            content = path.read_bytes()
            if path.name == "config.json":
                config = json.loads(content)
                content = json.dumps({key: config[key] for key in ("cell", "study", "threads")}).encode()
            arrays[path.relative_to(folder).as_posix()] = content
    return arrays


def last_json(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    answer = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(answer, dict)
    return answer
