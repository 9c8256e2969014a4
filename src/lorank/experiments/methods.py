"""The lines of the tables: the paper's methods, and those that stand beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lorank.experiments.settings import Entry

# The reference of all ratios.
REFERENCE = "nnfn"

NUCLEAR = Entry("nuclear", "nuclear", "nuclear")
FACTORED_NUCLEAR = Entry("factored-nuclear", "factored nuclear", "factored-nuclear")
BPMF = Entry("bpmf", "BPMF", "bpmf", {"max_iter": 100})
FGSR = Entry("fgsr", "factored GSR", "fgsr")
# Its graph acts on W alone, whose size shrinks with lam: it takes larger weights.
GRALS = Entry("grals", "GRALS", "grals", graph_range=(1e-3, 1e3))
TRUNCATED = Entry("truncated-l12", "truncated l1-2", "truncated-l12")
CAPPED = Entry("capped-l1", "capped-l1", "capped-l1")
LSP = Entry("lsp", "LSP", "lsp")
MCP = Entry("mcp", "MCP", "mcp")
# theta = 1 is the paper's regularizer.
NNFN_PROX = Entry("nnfn-prox", "NNFN", "nnfn-prox", shapes=(1.0,))
NNFN = Entry("nnfn", "factored NNFN", "nnfn", shapes=(1.0,))


# The paper's own algorithms, and the solvers it names for others where ours differ, beside the same numbers of its.
def _printed(like: Entry, solver: str, label: str) -> Entry:
    name = f"{like.name}-{'plain' if solver == 'proximal-plain' else solver}"
    return replace(like, name=name, label=f"{like.label}, {label}", fixed={"solver": solver}, like=like.name)


PRINTED = (
    _printed(FACTORED_NUCLEAR, "gradient", "gradient descent"),
    *(_printed(like, "proximal-plain", "proximal steps alone") for like in (CAPPED, LSP, MCP)),
    _printed(NNFN_PROX, "proximal-plain", "Algorithm 1 as printed"),
    _printed(NNFN, "gradient", "Algorithm 2 as printed"),
)
# The line of the paper that a line of ours stands beside, if it is not the one of its own name.
BESIDE = {entry.name: entry.method for entry in PRINTED}

NONCONVEX = (TRUNCATED, CAPPED, LSP, MCP, NNFN_PROX, NNFN)
PAPER = (NUCLEAR, FACTORED_NUCLEAR, BPMF, FGSR, *NONCONVEX)
BIASED = (
    NNFN,
    Entry("factored-nuclear+bias", "factored nuclear + biases", "factored-nuclear", {"biases": True}),
    Entry("bpmf+bias", "BPMF + biases", "bpmf", {"biases": True, "max_iter": 100}),
    Entry("nnfn+bias", "factored NNFN + biases", "nnfn", {"biases": True}, (1.0,)),
    Entry("nnfn-theta", "factored NNFN, theta tuned", "nnfn", {}, (1.0, 0.75, 0.5)),
    Entry("nnfn-theta+bias", "factored NNFN, theta tuned, + biases", "nnfn", {"biases": True}, (1.0, 0.75, 0.5)),
)

# Six decades in which the weight of a graph is searched.
WEIGHTS = (1e-6, 1.0)
# exp(-2 b), b in 1000 km; the paper does not say in which unit its b is.
PAPER_GRAPH = ({"rate": 2.0},)
ANY_UNIT = tuple({"rate": rate} for rate in (2.0, 4.0, 8.0, 16.0))
# Without a nugget to speak of: lam has its part.
KERNELS = tuple(
    {"kernel": kernel, "length": length, "nugget": 1e-6}
    for kernel in ("exponential", "matern32")
    for length in (1.0, 3.0, 10.0)
)


def _with_graph(entries: Sequence[Entry], sides: tuple[Mapping[str, Any], ...]) -> tuple[Entry, ...]:
    return tuple(replace(entry, sides=sides, graph_range=entry.graph_range or WEIGHTS) for entry in entries)


CLIMATE = _with_graph((NUCLEAR, FACTORED_NUCLEAR, BPMF, GRALS, *NONCONVEX), PAPER_GRAPH)
TUNED_UNIT = _with_graph(CLIMATE, ANY_UNIT)
INSTEAD = (
    Entry("nearest", "nearest station", "nearest"),
    Entry("inverse-distance", "inverse distance", "inverse-distance"),
    Entry("kriging", "kriging month by month", "kriging"),
    Entry("factored-nuclear-kernel", "kernel prior, factored nuclear", "factored-nuclear", sides=KERNELS),
    Entry("nnfn-kernel", "kernel prior, factored NNFN", "nnfn", {}, (1.0,), KERNELS),
)
