"""Both distributions as a packager sees them: source archives, wheels built from them, and a bare environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from email.parser import HeaderParser
from importlib import metadata
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
GENERATED = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info", "build", ".*_cache")
BUILD = """
import sys
from setuptools import build_meta
getattr(build_meta, sys.argv[1])(sys.argv[2])
"""


@dataclass(frozen=True)
class Distribution:
    """A distribution's name, its folder in the repository, and its package."""

    name: str
    folder: Path
    package: str

    @property
    def files(self) -> set[str]:
        """All files of the package in the repository: each belongs in the wheel."""
        package = self.folder / self.package
        return {
            path.relative_to(self.folder).as_posix()
            for path in package.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }


DISTRIBUTIONS = (
    Distribution("fedveil", REPOSITORY, "fedveil"),
    Distribution("fedveil_papers", REPOSITORY / "papers", "fedveil_papers"),
)


def build(source: Path, what: str, out: Path) -> Path:
    """Build one archive by the hook that pip calls, without an isolated environment, and return its path."""
    pytest.importorskip("setuptools", minversion="77")
    out.mkdir(parents=True)
    command = [sys.executable, "-c", BUILD, f"build_{what}", str(out)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Cannot find any files" not in done.stderr  # a licence or data file that is named but missing
    (archive,) = out.iterdir()
    return archive


@dataclass(frozen=True)
class Built:
    """A distribution's source archive, and the wheel that was built from it alone."""

    distribution: Distribution
    archive: Path
    wheel: Path

    def read(self, name: str) -> str:
        """Return a file of the wheel's metadata."""
        with zipfile.ZipFile(self.wheel) as wheel:
            return wheel.read(f"{self.distribution.name}-{metadata.version('fedveil')}.dist-info/{name}").decode()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Built]:
    """Build both: a copy of the repository → source archive → unpacked → wheel."""
    results = {}
    for distribution in DISTRIBUTIONS:
        folder = tmp_path_factory.mktemp(distribution.name)
        copy = folder / "copy"
        copy.mkdir()
        for path in distribution.folder.iterdir():
            if path.is_file() and not path.name.startswith("."):
                shutil.copy2(path, copy)
        for package in (distribution.package, "tests"):
            shutil.copytree(distribution.folder / package, copy / package, ignore=GENERATED)
        archive = build(copy, "sdist", folder / "sdist")
        with tarfile.open(archive) as packed:
            packed.extractall(folder / "unpacked", filter="data")
        (unpacked,) = (folder / "unpacked").iterdir()
        results[distribution.name] = Built(distribution, archive, build(unpacked, "wheel", folder / "wheel"))
    return results


@pytest.mark.parametrize("name", [distribution.name for distribution in DISTRIBUTIONS])
def test_a_wheel_holds_the_package_its_licence_and_nothing_else(built: dict[str, Built], name: str) -> None:
    with zipfile.ZipFile(built[name].wheel) as wheel:
        names = set(wheel.namelist())
    about = {path for path in names if ".dist-info/" in path}
    assert names - about == built[name].distribution.files
    assert {path.rpartition("/")[2] for path in about} >= {"METADATA", "LICENSE", "entry_points.txt"}
    assert f"{name}/py.typed" in names
    needed = {
        "fedveil": {"fedveil/cli/demo.yaml", "fedveil/report/page.html", "fedveil/report/style.css"},
        "fedveil_papers": {"fedveil_papers/presets/tappfl/table2.yaml"},
    }
    assert needed[name] <= names


@pytest.mark.parametrize("name", [distribution.name for distribution in DISTRIBUTIONS])
def test_a_source_archive_holds_the_package_and_what_builds_it(built: dict[str, Built], name: str) -> None:
    with tarfile.open(built[name].archive) as packed:
        paths = {member.name.partition("/")[2] for member in packed.getmembers() if member.isfile()}
    beside = {path for path in paths - built[name].distribution.files if ".egg-info/" not in path}
    assert built[name].distribution.files <= paths
    assert beside == {"LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"}


def test_metadata_says_who_may_use_it_and_with_what(built: dict[str, Built]) -> None:
    licence = (REPOSITORY / "LICENSE").read_text("utf-8")
    for package in built.values():
        about = HeaderParser().parsestr(package.read("METADATA"))
        assert about["License-Expression"] == "Apache-2.0"
        assert about["Keywords"]
        assert about.get_all("Classifier")
        assert package.read("licenses/LICENSE") == licence
    papers = HeaderParser().parsestr(built["fedveil_papers"].read("METADATA"))
    library = HeaderParser().parsestr(built["fedveil"].read("METADATA"))
    assert papers["Version"] == library["Version"]
    (needs,) = papers.get_all("Requires-Dist") or []
    extras, _, version = needs.removeprefix("fedveil[").partition("]")
    assert set(extras.split(",")) <= set(library.get_all("Provides-Extra") or [])
    assert version == f"=={library['Version']}"


def test_every_entry_point_names_a_module_that_the_wheel_holds(built: dict[str, Built]) -> None:
    for package in built.values():
        lines = [line for line in package.read("entry_points.txt").splitlines() if "=" in line]
        assert lines
        for line in lines:
            module = line.partition("=")[2].strip().partition(":")[0].replace(".", "/")
            assert {f"{module}.py", f"{module}/__init__.py"} & package.distribution.files, line


@pytest.mark.slow
def test_both_install_into_a_bare_environment_and_work(built: dict[str, Built], tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "bare"], check=True)
    commands = tmp_path / "bare" / ("Scripts" if os.name == "nt" else "bin")
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [str(commands / str(arguments[0])), *map(str, arguments[1:])]
        return subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True)

    def install(*arguments: object) -> None:
        done = run("pip", "install", "--quiet", "-c", REPOSITORY / "constraints.txt", *arguments)
        assert done.returncode == 0, done.stderr

    install(built["fedveil"].wheel)
    assert run("fedveil", "--help").returncode == 0
    refused = run("fedveil", "reproduce", "tappfl/table2", "--scale", "quick")
    assert refused.returncode == 2
    assert refused.stderr.strip().splitlines() == [
        "fedveil: fedveil reproduce comes with another package: pip install fedveil-papers"
    ]
    install("--find-links", built["fedveil"].wheel.parent, built["fedveil_papers"].wheel)
    listed = run("fedveil", "reproduce", "--list", "--json")
    assert listed.returncode == 0, listed.stderr
    presets = {preset["name"] for preset in json.loads(listed.stdout.splitlines()[-1])["presets"]}
    files = {path for path in built["fedveil_papers"].distribution.files if path.endswith(".yaml")}
    assert presets == {path.removeprefix("fedveil_papers/presets/").removesuffix(".yaml") for path in files}
    where = run("python", "-c", "import fedveil, fedveil_papers.cli; print(fedveil.__file__)")
    assert where.returncode == 0, where.stderr
    assert str(tmp_path) in where.stdout
