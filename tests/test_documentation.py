"""The documentation is true: its code runs, its options exist, its links lead somewhere."""

from __future__ import annotations

import doctest
import importlib
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
import yaml

import fedveil
from fedveil.attacks import panel
from fedveil.cli import app, main
from fedveil.cli.further import add_commands
from fedveil.core import plugins
from fedveil.data import available, load
from fedveil.federation import Federation
from fedveil.view import View

REPOSITORY = Path(__file__).resolve().parents[1]
PAGES = sorted((REPOSITORY / "docs").glob("*.md"))
TEXTS = [*PAGES, *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]
# The figures in results.md take minutes, so that its code is only parsed.
RUN = [REPOSITORY / "README.md", *(page for page in PAGES if page.name != "results.md")]


def name_of(path: Path) -> str:
    return path.name


def blocks(path: Path, language: str) -> list[str]:
    """Return the fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def prose(path: Path) -> str:
    return re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def commands() -> dict[str, set[str]]:
    """Return every command with the options that its --help shows."""
    options_by_command: dict[str, set[str]] = {}

    def walk(command: object, path: tuple[str, ...]) -> None:
        options = {
            option
            for parameter in command.params
            if parameter.param_type_name == "option" and not parameter.hidden
            for option in (*parameter.opts, *parameter.secondary_opts)
        }
        options_by_command[" ".join(path)] = options | {"--help"}
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, (*path, name))

    walk(typer.main.get_command(app), ("fedveil",))
    return options_by_command


@pytest.mark.parametrize("path", [path for path in RUN if blocks(path, "python")], ids=name_of)
def test_python_examples_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number, code in enumerate(blocks(path, "python")):
        exec(compile(code, f"{path.name}, block {number + 1}", "exec"), {"__name__": "example"})


def test_the_readme_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks(REPOSITORY / "README.md", "python")
    exec(code, {"__name__": "example"})
    attacked, certified = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"0\.7\d\d \[0\.\d{3}, 0\.\d{3}\] best possible: 0\.714", attacked)
    assert certified.startswith("CERTIFIED advantage ≤ 0.080 — assumes ")


@pytest.mark.parametrize("path", [path for path in PAGES if blocks(path, "pycon")], ids=name_of)
def test_interactive_examples_print_what_they_show(path: Path) -> None:
    session = "\n".join(blocks(path, "pycon"))
    example = doctest.DocTestParser().get_doctest(session, {}, path.name, str(path), 0)
    assert example.examples
    output: list[str] = []
    failed = doctest.DocTestRunner(verbose=False).run(example, out=output.append).failed
    assert not failed, "".join(output)


def test_the_code_behind_the_results_is_python() -> None:
    code_blocks = blocks(REPOSITORY / "docs" / "results.md", "python")
    assert code_blocks
    for code in code_blocks:
        compile(code, "results.md", "exec")


@pytest.fixture
def recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install the recipes of CONTRIBUTING.md as a package beside ours, entry points and all."""
    contributing = REPOSITORY / "CONTRIBUTING.md"
    for code in blocks(contributing, "python"):
        name = re.match(r"# (\w+\.py)\n", code)
        assert name, "a recipe begins with the name of its file"
        (tmp_path / name[1]).write_text(code, encoding="utf-8")
    lines: list[str] = []
    for text in blocks(contributing, "toml"):
        for group, points in tomllib.loads(text)["project"]["entry-points"].items():
            lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    metadata = tmp_path / "recipes-0.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: recipes\nVersion: 0.1\n")
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for code in tmp_path.glob("*.py"):
        sys.modules.pop(code.stem, None)


def test_the_recipe_for_a_data_set_works(recipes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "survey" in available()
    (recipes / "data" / "survey").mkdir(parents=True)
    rows = [f"{20 + i % 50},{'fm'[i % 2]},{'nsew'[i % 4]},{('no', 'yes')[i % 3 == 0]}" for i in range(300)]
    (recipes / "data" / "survey" / "survey.csv").write_text("age,sex,region,bought\n" + "\n".join(rows) + "\n")
    monkeypatch.setenv("FEDVEIL_DATA", str(recipes / "data"))
    data = load("survey", target="bought", sensitive="sex")
    assert len(data) == 300
    assert data.y is not None
    assert "sex" not in " ".join(data.feature_names)
    assert data.attribute("sex").prior == 0.5


def test_the_recipe_for_an_attack_works(recipes: Path) -> None:
    data = load("synthetic", sensitive="u", n=2000, bits=0.4, seed=0)
    accuracy = panel(["nearest-mean"], draws=100).judge(View.of_data(data)).worst.balanced_accuracy
    assert accuracy.low > 0.6
    assert abs(accuracy.estimate - data.facts["bayes_accuracy"]) < 0.06


def test_the_recipes_for_a_game_and_a_shield_work(recipes: Path) -> None:
    data = load("synthetic", sensitive="u", n=400, bits=0.4, seed=0)
    game = plugins.load("fedveil.games", "denoiser")()
    shield = plugins.load("fedveil.shields", "rounding")(step=0.01)
    federation = Federation(data, devices=4, shield=shield)
    run = federation.play(game, rounds=3)
    assert run.history[-1].losses["encoder+decoder"] < run.history[0].losses["encoder+decoder"]
    assert 0 < run.history[-1].damage["linf"] <= 0.005 + 1e-6
    assert run.view("representations").victims.vectors.shape[1] == 4


def test_the_recipe_for_a_command_works(recipes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = typer.Typer()
    add_commands(commands)
    commands(["count", "synthetic", "u"], standalone_mode=False)
    assert capsys.readouterr().out == f"{len(load('synthetic', sensitive='u'))}\n"


def test_the_page_on_leak_names_every_option_and_no_other() -> None:
    options = set(re.findall(r"--[a-z][a-z-]*", (REPOSITORY / "docs" / "leak.md").read_text(encoding="utf-8")))
    table = re.findall(r"^\| (`--.*?) \|", (REPOSITORY / "docs" / "leak.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert options == commands()["fedveil leak"]
    assert set(re.findall(r"--[a-z-]+", " ".join(table))) == commands()["fedveil leak"]


def shown_messages() -> list[tuple[str, str]]:
    """Return the commands that leak.md shows, each with the message that the page quotes."""
    lines = "".join(blocks(REPOSITORY / "docs" / "leak.md", "console")).splitlines()
    return list(zip(lines[::2], lines[1::2], strict=True))


@pytest.mark.parametrize(("command", "message"), shown_messages())
def test_the_page_on_leak_quotes_its_messages(
    command: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    n = 200
    vectors = np.random.default_rng(0).normal(size=(n, 2))
    np.save("vectors.npy", vectors)
    np.save("short.npy", vectors[:10])
    np.save("gaps.npy", np.where(np.arange(n)[:, None] == 6, np.nan, vectors))
    np.savez("two.npz", a=vectors, b=vectors)
    people = pd.DataFrame(
        {"sex": ["f", "m"] * (n // 2), "race": "a", "town": "Ulm", "job": ["cook"] + ["nurse"] * (n - 1)}
    )
    people.to_csv("people.csv", index=False)
    people[["sex", "race"]].assign(a=vectors[:, 0]).to_csv("both.csv", index=False)
    assert command.startswith("$ fedveil leak ")
    with pytest.raises(SystemExit) as stop:
        main(command.split()[2:])
    printed = capsys.readouterr()
    assert stop.value.code == 2
    assert printed.out == ""
    assert printed.err == message + "\n"


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_lines_are_not_too_long(path: Path) -> None:
    boxes = "┏┡│┃└╇"  # what a terminal printed
    long = [line for line in path.read_text(encoding="utf-8").splitlines() if len(line) > 200 and line[0] not in boxes]
    assert not long


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_commands_shown_exist_with_their_options(path: Path) -> None:
    options_by_command = commands()
    shown = [line for block in blocks(path, "sh") for line in block.splitlines()]
    shown += re.findall(r"`(fedveil [a-z][^`]*)`", path.read_text(encoding="utf-8"))
    for line in shown:
        call = re.search(r"\bfedveil ((?:data |flower |zoo )?[a-z]+)\b([^#|]*)", line)
        if call:
            command = f"fedveil {call[1]}"
            assert command in options_by_command, line
            assert set(re.findall(r"--[a-z][a-z-]*", call[2])) <= options_by_command[command], line


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_make_targets_shown_exist(path: Path) -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    text = "\n".join(blocks(path, "sh") + re.findall(r"`(make [^`]*)`", path.read_text(encoding="utf-8")))
    for target in re.findall(r"^make ([a-z-]+)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_relative_links_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", prose(target), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings], link


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_dotted_names_exist(path: Path) -> None:
    for dotted in re.findall(r"`(fedveil(?:\.\w+)+)`", path.read_text(encoding="utf-8")):
        parent, _, name = dotted.rpartition(".")
        try:
            importlib.import_module(dotted)
        except ModuleNotFoundError:
            assert hasattr(importlib.import_module(parent), name), dotted


def test_the_readme_fits_one_screen_and_the_navigation_is_complete() -> None:
    assert len((REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()) <= 60
    site = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(page for entry in site["nav"] for page in entry.values()) == [page.name for page in PAGES]
    assert site["theme"]["font"] is False


def test_the_citation_and_the_changelog_name_the_version() -> None:
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == fedveil.__version__
    assert all(reference["title"] and reference["authors"] for reference in citation["references"])
    assert f"## [{fedveil.__version__}]" in (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
