"""Synthetic studies, and the Chromium installed on this machine."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fedveil.cli import app, main
from fedveil.cli.report import report
from fedveil.studies.results import StudyResults, open_study

sys.path.append(str(Path(__file__).parent))  # tests import synthetic_study

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture
def study(tmp_path: Path) -> Callable[..., StudyResults]:
    """Return a function that writes a synthetic study with the given changes and opens it."""

    def make(synthetic: Any = None, **changed: Any) -> StudyResults:
        if synthetic is None:
            synthetic = importlib.import_module("synthetic_study").SyntheticStudy(**changed)
        return open_study(synthetic.write(tmp_path / "study"))

    return make


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Return a browser, or skip with a reason: none is ever downloaded."""
    executable = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None
    )
    if executable is None:
        pytest.skip("no Chromium on this machine: the page is not tested in a browser")
    drivers = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with drivers.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs `fedveil report` in this process: exit code, stdout, stderr."""
    if not any(registered.name == "report" for registered in app.registered_commands):
        app.command("report")(report)

    def run(*arguments: Any) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main(["report", *map(str, arguments)])
        output = capsys.readouterr()
        return int(stop.value.code or 0), output.out, output.err

    return run
