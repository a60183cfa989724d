# Everything runs in .venv, made anew wherever it is missing or its inputs changed.
PYTHON ?= python3
BIN := .venv/bin
# A folder of data sets beside the checkout is used where it is there; FEDVEIL_DATA names another.
FEDVEIL_DATA ?= $(wildcard $(CURDIR)/../shared/data)
export FEDVEIL_DATA

.PHONY: demo test test-slow lint types docs schema chromium reproduce bench setup clean

setup: .venv/.installed

.venv/.installed: pyproject.toml papers/pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt -e '.[audit,data,dp,flower,rate,report,sinks,docs,dev]' -e papers
	touch $@

demo: setup
	$(BIN)/fedveil demo

# One worker more than cores, since tests of real processes mostly wait for them; one thread per worker, since steps
# this small gain nothing from two, and lose much when they meet.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(4, (os.cpu_count() or 1) + 1))')
test: lint types docs chromium
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS)

test-slow: setup
	OMP_NUM_THREADS=1 $(BIN)/pytest -m slow

# The report is tested in a real browser: installed where we may (root on a Debian-like machine), else said aloud.
chromium:
	@{ command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null || \
	  { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && echo "installing Chromium for the report's tests" && \
	    { apt-get install -y -q chromium || { apt-get update -q && apt-get install -y -q chromium; }; } >/dev/null 2>&1; } || \
	  echo "No Chromium here, and none may be installed: the report's browser tests will be skipped."

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# docs/study.schema.json and docs/study-fields.md, from the models and docstrings.
schema: setup
	$(BIN)/python -m fedveil.config.field_docs

bench: setup
	$(BIN)/python benchmarks/engine.py

# Everything in docs/results.md that takes minutes; finished cells are not computed again.
reproduce: setup
	$(BIN)/python studies/information_coverage.py
	$(BIN)/python studies/seed_coverage.py
	$(BIN)/fedveil reproduce baselines/adult

clean:
	rm -rf .venv site build *.egg-info
