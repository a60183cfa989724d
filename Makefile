# Everything runs in .venv, made anew wherever it is missing or its inputs changed.
PYTHON ?= python3
BIN := .venv/bin
# A folder of data sets beside the checkout is used where it is there; FEDVEIL_DATA names another.
FEDVEIL_DATA ?= $(wildcard $(CURDIR)/../shared/data)
export FEDVEIL_DATA

.PHONY: demo test test-slow lint types docs schema reproduce bench setup clean

setup: .venv/.installed

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt -e '.[data,dp,report,sinks,docs,dev]'
	touch $@

demo: setup
	$(BIN)/fedveil demo

# One thread per worker: steps this small gain nothing from two, and lose much when they meet.
test: lint types docs
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --maxprocesses 4

test-slow: setup
	OMP_NUM_THREADS=1 $(BIN)/pytest -m slow

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# docs/study.schema.json and docs/study-fields.md, from the models and docstrings.
schema: setup
	$(BIN)/python -m fedveil.studies.field_docs

bench: setup
	$(BIN)/python benchmarks/engine.py

reproduce: setup
	$(BIN)/python studies/information_coverage.py

clean:
	rm -rf .venv site build *.egg-info
