"""How the experiments were run: what the paper leaves open, and how it is read here. No results."""

from __future__ import annotations

from collections.abc import Mapping

from lorank.experiments.methods import BESIDE
from lorank.experiments.settings import Suite
from lorank.experiments.statistics import Line

READINGS = {
    "synthetic": (
        "Noise N(0, 0.1) is read as a standard deviation of 0.1. All of Omega trains, and a second sample of the same "
        "size validates: least squares that knows the rank needs that many entries for the errors of the paper.",
        "The rank is given, not searched: 5 for table 4, and more in the tables after it.",
    ),
    "ablation": ("Methods are given the true rank, so that what differs is the data. The paper has no numbers here.",),
    "recommendation": (
        "Half of the ratings train, a quarter validates, a quarter tests. Errors are in standard deviations of the "
        "training ratings. The rank is a part of every search: 5, 10 or 20.",
        "MovieLens-10M and Yahoo are read from the data folder if they are there. The simulated ones have their shape, "
        "count and skew only: their times and memory mean something, an error on them would not, and none is shown.",
    ),
    "climate": (
        "The paper does not state the unit of the distance in its graph. Table 6 takes 1000 km; a second group of "
        "tables tunes the unit; a third has what does not need the graph.",
        "GAS is the file of anomalies that the literature passes around. The paper says that it scaled the data to "
        "zero mean and unit variance; whether seasons and trends were removed before, it does not. So the errors on "
        "the raw file after that scaling alone, and after our own removal of both, stand in columns beside it.",
        "USHCN temperature is the raw version 2.5 from 1919 to 2016 as anomalies. Precipitation is known here only "
        "from the file of 108 stations, 1915 to 2000, which has anomalies alone. The paper used 1919 to 2019, and does "
        "not say which stations.",
        "The weight of the graph and lam are searched together, on a grid over six decades of each and then around its "
        "best.",
    ),
}

# What stands for the paper's solver where the line has no solver of its own.
SOLVERS = {
    "nnfn": "alternating least squares with momentum, instead of gradient descent (Algorithm 2)",
    "nnfn-prox": "proximal steps on low rank plus sparse with sweeps between them, instead of Algorithm 1",
    "factored-nuclear": "alternating least squares with momentum, instead of gradient descent",
    "capped-l1": "proximal steps with sweeps between them, instead of FaNCL",
    "lsp": "proximal steps with sweeps between them, instead of FaNCL",
    "mcp": "proximal steps with sweeps between them, instead of FaNCL",
    "truncated-l12": "DCA and ADMM on low rank plus sparse, instead of on a full matrix",
}

COMMON = (
    "Times are of this machine and of other code: compare ratios, not seconds. The paper ran MATLAB with C on an i7 of "
    "3.6 GHz.",
    "Every method has the same search with as many fits on the validation entries; the column of fits says how many it "
    "used, which is fewer where its steps had become as fine as they may be, or its time was over. Decades to edge is "
    "how near the chosen lam, and weight of the graph, came over all seeds to an end of what was tried: at 0 it lies "
    "there, and what is beyond is not known.",
    "Every reported fit begins anew, and stops when the objective changes by less than 1e-4 of itself. Each runs on "
    "one thread, on a core of its own; another cell runs on each other core meanwhile. Seconds in which other "
    "programs had that core are not counted.",
    "Rank > 1% counts the singular values above a hundredth of the largest; the numerical rank counts those above "
    "1e-10 of it.",
    "MB to fit is what the reported fit took beyond the most that its process still held from the search before it: 0 "
    "where that was enough. Simulated ratings have no search, so that theirs is all.",
    "Curves are of the first seed.",
)


def readings(suite: Suite, summary: Mapping[str, list[Line]]) -> list[str]:
    """How this suite's part of the paper is read."""
    return list(READINGS.get(suite.name, ())) if summary else []


def notes(summaries: Mapping[str, Mapping[str, list[Line]]]) -> list[str]:
    """What holds for all suites; of solvers and methods only those that were run."""
    run = {line.method: line.label for summary in summaries.values() for lines in summary.values() for line in lines}
    solvers: dict[str, list[str]] = {}
    for method, text in SOLVERS.items():
        if method in run:
            solvers.setdefault(text, []).append(run[method])
    said = [f"{', '.join(labels)}: fitted by {text}." for text, labels in solvers.items()]
    printed = [run[method] for method in BESIDE if method in run]
    if printed:
        said.append(
            f"{'; '.join(printed)}: with the parameters that the search of the same regularizer found, by the solver "
            "of this library. What differs is the solver of the reported fit alone."
        )
    if "bpmf" in run:
        said.append(
            f"The curve of {run['bpmf']} shows single draws; its last point is their mean, which is the answer."
        )
    return [*COMMON, *said]
