# Each target makes its own .venv from nothing; only python3, gcc and make are needed.
PYTHON ?= python3
BIN := .venv/bin
PIP := -m pip install --quiet --disable-pip-version-check

.PHONY: help setup demo test test-slow cluster fuzz faults bounds lowest lint types bench bench-core bench-kernels docs package clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' Makefile

.venv/installed-%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python $(PIP) -e '.[$*]'
	$(BIN)/python -m pip check
	touch $@

setup: .venv/installed-dev  ## everything for development, in .venv

demo: .venv/installed-cli,plot  ## complete a matrix, print a table, draw demo.png
	$(BIN)/lorank demo

# Ray's tests have a process of their own: beside all other libraries its driver has been seen to crash.
test: .venv/installed-dev lint types  ## lint, types and tests
	$(BIN)/python -m pytest -n 2 --ignore=tests/distributed
	$(BIN)/python -m pytest -n 2 tests/distributed

test-slow: .venv/installed-dev  ## the tests that take minutes or gigabytes
	$(BIN)/python -m pytest -m slow

cluster: .venv/installed-dev  ## three Ray nodes in network namespaces; needs root and iproute2
	$(BIN)/python -m pytest -m slow tests/distributed/test_nodes.py tests/distributed/test_cluster.py

fuzz: .venv/installed-dev  ## damaged files for every reader, 100,000 of each format (hours); FILES=1000, MINUTES=2 a format for fewer
	$(BIN)/python tests/fuzz/fuzz.py --files $(or $(FILES),100000) --minutes $(or $(MINUTES),inf)

faults: .venv/installed-dev  ## kills at random moments, full disks, locks, each kill 25 times; KILLS=3 for fewer
	LORANK_FAULTS=$(or $(KILLS),25) $(BIN)/python -m pytest tests/faults tests/kernels/test_cache.py -m "slow or not slow"

bounds: .venv/installed-dev  ## the tests of kernels and solvers with every index of a kernel checked
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=build/bounds $(BIN)/python -m pytest tests/kernels tests/linalg tests/problems tests/solvers tests/conformance --deselect tests/kernels/test_cache.py

# An environment of its own, since the versions are those that pyproject.toml names. Old releases warn about themselves.
lowest:  ## the fast tests of what touches dependencies, with the lowest versions that pyproject.toml allows
	test -x .venv-lowest/bin/uv || ($(PYTHON) -m venv .venv-lowest && .venv-lowest/bin/python $(PIP) uv)
	.venv-lowest/bin/uv pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct -e '.[test]'
	.venv-lowest/bin/python -m pip check
	.venv-lowest/bin/python -m pytest -o filterwarnings=default $(or $(TESTS),$(LOWEST))
LOWEST := tests/observations tests/tables tests/models tests/linalg tests/side_information tests/serving tests/spatial tests/cli tests/fuzz

lint: .venv/installed-dev  ## ruff: rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed-dev  ## mypy
	$(BIN)/mypy

bench: .venv/installed-dev .venv-bench/installed  ## lorank beside its peers and beside plain C, growth, proximal steps
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
	for peer in cmfrec libmf smurff myfm scikit-surprise lenskit implicit irspack 'setuptools<80'; do \
	  .venv-bench/bin/python $(PIP) "$$peer" || true; done
	touch $@

docs: .venv/installed-docs  ## the site, in build/site; the examples are run for its gallery
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Each package is installed into an environment of its own: first bare, then with the extras of the demo.
package:  ## wheel and sdist, in dist/, each installed and tried
	rm -rf dist build/package
	$(PYTHON) -m venv build/package/tools
	build/package/tools/bin/python $(PIP) build twine
	build/package/tools/bin/python -m build
	build/package/tools/bin/twine check --strict dist/*
	set -e; for package in dist/*; do \
	  $(PYTHON) -m venv --clear build/package/try; cd build/package/try; \
	  bin/python $(PIP) "../../../$$package"; \
	  bin/python -c 'import lorank; print(lorank.__version__, lorank.complete([[1.0, float("nan")], [2.0, 4.0]], rank=1, lam=0.01))'; \
	  bin/python $(PIP) "../../../$$package[cli,plot]"; \
	  bin/lorank --version; bin/lorank demo; cd ../../..; \
	done

clean:  ## remove what the other targets made
	rm -rf .venv .venv-bench .venv-lowest .benchmarks build dist .pytest_cache .mypy_cache .ruff_cache
