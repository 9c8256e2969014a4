# Each target makes its own .venv from nothing; only python3, gcc and make are needed.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow lint types bench bench-core bench-kernels docs clean

.venv/installed-%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	touch $@

demo: .venv/installed-cli,plot  ## complete a matrix, print a table, draw demo.png
	$(BIN)/lorank demo

test: .venv/installed-dev lint types  ## lint, types and tests
	$(BIN)/python -m pytest -n 2

test-slow: .venv/installed-dev  ## the checks that take minutes or gigabytes
	$(BIN)/python -m pytest -m slow

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed-dev
	$(BIN)/mypy

bench: .venv/installed-dev .venv-bench/installed  ## lorank beside its peers, the floor in C, growth, proximal steps
	$(BIN)/python benchmarks/peers.py --peers-python .venv-bench/bin/python
	$(BIN)/python benchmarks/floor.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/proximal.py

bench-core: .venv/installed-dev  ## the figures that the README quotes
	$(BIN)/python benchmarks/core.py

bench-kernels: .venv/installed-dev  ## the kernels one by one; add --benchmark-compare to see a slower commit
	$(BIN)/python -m pytest benchmarks/test_kernels_benchmark.py --benchmark-autosave

# The peers have an environment of their own. One that cannot be installed is reported by the benchmark as not run.
.venv-bench/installed:
	test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	for peer in cmfrec libmf smurff myfm scikit-surprise lenskit 'setuptools<80'; do \
	  .venv-bench/bin/python -m pip install --quiet --disable-pip-version-check "$$peer" || true; done
	touch $@

docs: .venv/installed-docs  ## the site, in build/site; the examples are run for its gallery
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf .venv .venv-bench .benchmarks build dist .pytest_cache .mypy_cache .ruff_cache
