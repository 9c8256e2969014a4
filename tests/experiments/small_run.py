"""A run of a few small cells, as a program of its own that can be killed: `python small_run.py RECORDS`."""

import sys
from pathlib import Path

from lorank.experiments.methods import FACTORED_NUCLEAR, MCP, NNFN, PRINTED
from lorank.experiments.runner import run
from lorank.experiments.settings import Budget, Dataset, Entry, Suite

BUDGET = Budget(trials=3, cell_seconds=120)
DATASETS = tuple(Dataset(f"small-{m}", f"m = {m}", "Small", "synthetic", {"m": m, "rank": 2}, (2,)) for m in (60, 80))
PRINTED_MCP = next(entry for entry in PRINTED if entry.like == "mcp")
METHODS = (FACTORED_NUCLEAR, NNFN, MCP, PRINTED_MCP, Entry("unheard", "unheard", "unheard"))
SUITE = Suite("synthetic", "Small", "NMSE", ((DATASETS, METHODS),), BUDGET)

if __name__ == "__main__":
    run(SUITE.cells(seeds=2), Path(sys.argv[1]))
