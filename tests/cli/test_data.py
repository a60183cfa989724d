from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from fedveil.cli.data import app
from fedveil.core.errors import InputError
from fedveil.data import catalogue

RUN = CliRunner()


def run(*arguments: str):
    return RUN.invoke(app, list(arguments), env={"COLUMNS": "240"})  # wide enough that no cell is wrapped


def test_list_shows_every_source_and_where_its_files_are(nowhere):
    result = run("list")
    assert result.exit_code == 0
    for word in ("adult", "coloured_digits", "loans", "downloadable", "needs no files"):
        assert word in result.stdout


def test_json_is_one_line_on_stdout_and_all_else_goes_to_stderr(nowhere):
    result = run("list", "--json")
    (line,) = result.stdout.splitlines()
    rows = {row["name"]: row for row in json.loads(line)["sources"]}
    assert rows["loans"]["where"] == "downloadable"
    assert rows["adult"]["attributes"] == ["sex", "race", "marital-status"]
    assert "adult" in result.stderr


def test_path(published):
    folder = published("adult")
    assert run("path", "adult").stdout.strip() == str(folder)
    answer = json.loads(run("path", "adult", "--json").stdout)
    assert answer["where"] == "folder"
    assert set(answer["files"]) == {"adult.data", "adult.test"}
    assert json.loads(run("fetch", "adult", "--json").stdout) == answer


def test_missing_and_misspelt_sources(nowhere):
    result = run("path", "loans")
    assert isinstance(result.exception, InputError)
    assert "fedveil data fetch loans" in str(result.exception)
    assert "did you mean 'loans'" in str(run("path", "lons").exception)


@pytest.mark.parametrize("command", ["path", "fetch"])
def test_sources_without_files(nowhere, command):
    assert "needs no files" in run(command, "synthetic").stderr
    assert json.loads(run(command, "synthetic", "--json").stdout)["files"] == {}


def test_a_broken_plugin_does_not_hide_the_others(nowhere, monkeypatch):
    find = catalogue.find_source

    def broken(name: str):
        if name == "table":
            raise InputError("data 'table' cannot be loaded")
        return find(name)

    monkeypatch.setattr(catalogue, "find_source", broken)
    rows = {row["name"]: row for row in json.loads(run("list", "--json").stdout)["sources"]}
    assert "cannot be loaded" in rows["table"]["where"]
    assert rows["synthetic"]["where"] == "needs no files"
