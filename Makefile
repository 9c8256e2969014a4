# Each target makes its own .venv from nothing; only python3, gcc and make are needed.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow lint types bench docs clean

.venv/installed-%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	touch $@

demo: .venv/installed-cli,plot  ## complete a matrix, print a table, draw demo.png
	$(BIN)/lorank demo

test: .venv/installed-dev lint types  ## lint, types and tests
	$(BIN)/python -m pytest

test-slow: .venv/installed-dev  ## the checks that take minutes or gigabytes
	$(BIN)/python -m pytest -m slow

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed-dev
	$(BIN)/mypy

bench: .venv/installed-dev  ## the figures that the README quotes
	$(BIN)/python benchmarks/core.py

docs: .venv/installed-docs  ## the site, in build/site; the examples are run for its gallery
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache
