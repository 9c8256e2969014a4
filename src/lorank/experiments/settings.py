"""The experiments as data: which methods on which data sets, how often, with which search and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from lorank.errors import InputError


@dataclass(frozen=True)
class Entry:
    """A line of a table: a method of the catalogue, with what is fixed and what is searched besides its weight.

    Parameters
    ----------
    name : key of the row; for the paper's lines, the name in the catalogue.
    label : what tables and figures call it.
    method : name in the catalogue.
    fixed : parameters of MatrixCompletion that are not searched.
    shapes : values of the method's second parameter to search; None for those that the catalogue lists.
    """

    name: str
    label: str
    method: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    shapes: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class Dataset:
    """What is fitted: a name, the kind that `tasks.load` knows, its parameters, and the ranks that are searched.

    `group` is the table it belongs to. `timing_only` data are simulated: nothing is tuned, and no error is reported.
    """

    name: str
    label: str
    group: str
    kind: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    ranks: tuple[int, ...] = (5,)
    seeds: int | None = None
    timing_only: bool = False


@dataclass(frozen=True)
class Budget:
    """The same for every method: fits of a search, its seconds, and the seconds after which a cell is ended."""

    trials: int = 12
    search_seconds: float = 60.0
    cell_seconds: float = 300.0
    tol: float = 1e-4
    max_iter: int = 500


@dataclass(frozen=True)
class Cell:
    """One line of the records: a data set, an entry and a seed."""

    suite: str
    dataset: Dataset
    entry: Entry
    seed: int
    budget: Budget

    @property
    def key(self) -> str:
        return f"{self.suite}/{self.dataset.name}/{self.entry.name}/{self.seed}"

    @property
    def settings(self) -> dict[str, Any]:
        """All that the result depends on: a record made under other settings does not count."""
        described = {"dataset": asdict(self.dataset), "entry": asdict(self.entry), "budget": asdict(self.budget)}
        return described | {"seed": self.seed}


@dataclass(frozen=True)
class Suite:
    """An experiment of the paper."""

    name: str
    title: str
    metric: str
    blocks: tuple[tuple[tuple[Dataset, ...], tuple[Entry, ...]], ...]
    budget: Budget = field(default_factory=Budget)

    def cells(self, seeds: int, names: Sequence[str] | None = None) -> list[Cell]:
        """All cells, seed by seed, so that a run that is ended early has every line at least once."""
        cells = [
            Cell(self.name, dataset, entry, seed, self.budget)
            for datasets, entries in self.blocks
            for dataset in datasets
            for entry in entries
            if names is None or entry.name in names or entry.method in names
            for seed in range(min(seeds, dataset.seeds or seeds))
        ]
        return sorted(cells, key=lambda cell: cell.seed)

    @property
    def datasets(self) -> list[Dataset]:
        return [dataset for datasets, _ in self.blocks for dataset in datasets]

    @property
    def entries(self) -> dict[str, Entry]:
        return {entry.name: entry for _, entries in self.blocks for entry in entries}


# The reference of all ratios.
REFERENCE = "nnfn"

NUCLEAR = Entry("nuclear", "nuclear", "nuclear")
FACTORED_NUCLEAR = Entry("factored-nuclear", "factored nuclear", "factored-nuclear")
BPMF = Entry("bpmf", "BPMF", "bpmf", {"max_iter": 100})
FGSR = Entry("fgsr", "factored GSR", "fgsr")
GRALS = Entry("grals", "GRALS", "grals")
TRUNCATED = Entry("truncated-l12", "truncated l1-2", "truncated-l12")
CAPPED = Entry("capped-l1", "capped-l1", "capped-l1")
LSP = Entry("lsp", "LSP", "lsp")
MCP = Entry("mcp", "MCP", "mcp")
# theta = 1 is the paper's regularizer.
NNFN_PROX = Entry("nnfn-prox", "NNFN", "nnfn-prox", shapes=(1.0,))
NNFN = Entry("nnfn", "factored NNFN", "nnfn", shapes=(1.0,))

NONCONVEX = (TRUNCATED, CAPPED, LSP, MCP, NNFN_PROX, NNFN)
PAPER = (NUCLEAR, FACTORED_NUCLEAR, BPMF, FGSR, *NONCONVEX)
SCALABLE = (FACTORED_NUCLEAR, NNFN)
CLIMATE = (NUCLEAR, FACTORED_NUCLEAR, BPMF, GRALS, *NONCONVEX)
BIASED = (
    Entry("factored-nuclear+bias", "factored nuclear + biases", "factored-nuclear", {"biases": True}),
    Entry("bpmf+bias", "BPMF + biases", "bpmf", {"biases": True, "max_iter": 100}),
    Entry("nnfn+bias", "factored NNFN + biases", "nnfn", {"biases": True}, (1.0,)),
    Entry("nnfn-theta", "factored NNFN, theta tuned", "nnfn", {}, (1.0, 0.75, 0.5)),
    Entry("nnfn-theta+bias", "factored NNFN, theta tuned, + biases", "nnfn", {"biases": True}, (1.0, 0.75, 0.5)),
)


def _synthetic(m: int, rank: int) -> Dataset:
    if rank == 5:
        return Dataset(f"synthetic-{m}", f"m = {m}", "Table 4: at the true rank", "synthetic", {"m": m}, (rank,))
    name, label = f"synthetic-{m}-rank-{rank}", f"m = {m}, rank {rank}"
    return Dataset(name, label, "With more rank than the truth (5)", "synthetic", {"m": m}, (rank,))


def _ablation(m: int) -> tuple[Dataset, ...]:
    """The paper's problem, and others in which one thing is changed: noise, true rank, number of entries."""
    usual = {"noise": 0.1, "rank": 5, "density": 1.0}
    changed = [("noise", 0.01), ("noise", 1.0), ("rank", 10), ("rank", 20), ("density", 0.5), ("density", 2.0)]
    labels = {"noise": "noise {:g}", "rank": "rank {:g}", "density": "{:g} x the entries"}
    group = f"Figure 3, m = {m}"
    return (
        Dataset("ablation-usual", "noise 0.1, rank 5, 1 x the entries", group, "synthetic", {"m": m, **usual}, (5,)),
        *(
            Dataset(
                f"ablation-{name}-{value:g}",
                labels[name].format(value),
                group,
                "synthetic",
                {"m": m, name: value},
                (int(value) if name == "rank" else 5,),
            )
            for name, value in changed
        ),
    )


def _ratings(name: str, label: str, ranks: tuple[int, ...], **more: Any) -> Dataset:
    return Dataset(name, label, "Table 5", "ratings", {"name": name.replace("-", "_")}, ranks, **more)


def _simulated(name: str, label: str) -> Dataset:
    group = "Simulated ratings: time and memory only"
    return Dataset(f"{name}-simulated", label, group, "simulated", {"name": name}, (10,), seeds=1, timing_only=True)


def _stations(name: str, label: str, group: str = "Table 6", **parameters: Any) -> Dataset:
    return Dataset(name, label, group, "stations", parameters, (10,))


ML_1M = _ratings("movielens-1m", "MovieLens-1M", (10,))
ML_10M = _ratings("movielens-10m", "MovieLens-10M", (10,))
YAHOO = Dataset("yahoo", "Yahoo", "Table 5", "ratings", {"name": "yahoo_music"}, (10,))
STATIONS = (
    _stations("gas-co2", "GAS CO2", source="gas_anomalies", variable="CO2"),
    _stations("gas-h2", "GAS H2", source="gas_anomalies", variable="H2"),
    _stations("ushcn-temperature", "USHCN temperature", source="ushcn", variable="tavg", normalisation="anomaly"),
    _stations("ushcn-precipitation", "USHCN precipitation", source="ushcn_anomalies", variable="prcp"),
)
OTHER_NORMALISATIONS = tuple(
    _stations(
        f"gas-{gas.lower()}-{normalisation}",
        f"GAS {gas}, {normalisation} of the raw file",
        "Other normalisations of GAS",
        source="gas",
        variable=gas,
        normalisation=normalisation,
    )
    for gas in ("CO2", "H2")
    for normalisation in ("zscore", "anomaly")
)

FULL: Mapping[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(
            "synthetic",
            "Synthetic data (table 4, figure 2)",
            "NMSE",
            (
                (tuple(_synthetic(m, 5) for m in (500, 1000, 2000)), PAPER),
                (tuple(_synthetic(m, rank) for rank in (10, 20) for m in (500, 1000)), PAPER),
            ),
            Budget(trials=12, search_seconds=20, cell_seconds=90),
        ),
        Suite(
            "ablation",
            "Noise, rank and sparsity (figure 3)",
            "NMSE",
            ((_ablation(1000), PAPER),),
            Budget(trials=8, search_seconds=10, cell_seconds=60),
        ),
        Suite(
            "recommendation",
            "Recommendation (table 5, figure 4)",
            "RMSE",
            (
                ((ML_1M,), (*PAPER, *BIASED)),
                ((ML_10M, YAHOO), PAPER),
                ((_simulated("ml10m", "MovieLens-10M (simulated)"),), (FACTORED_NUCLEAR, NNFN, NUCLEAR, NNFN_PROX)),
                ((_simulated("yahoo", "Yahoo (simulated)"),), SCALABLE),
            ),
            Budget(trials=12, search_seconds=60, cell_seconds=600),
        ),
        Suite(
            "climate",
            "Climate (table 6, figure 5)",
            "RMSE",
            ((STATIONS, CLIMATE), (OTHER_NORMALISATIONS, (FACTORED_NUCLEAR, NNFN))),
            Budget(trials=24, search_seconds=20, cell_seconds=120),
        ),
        Suite("shrinkage", "Shrinkage (figure 1)", "", ()),
    )
}

_QUICK_BUDGET = Budget(trials=6, search_seconds=3, cell_seconds=20)
QUICK: Mapping[str, Suite] = {
    suite.name: suite
    for suite in (
        replace(
            FULL["synthetic"],
            blocks=(((_synthetic(500, 5),), PAPER), ((_synthetic(500, 10),), PAPER)),
            budget=_QUICK_BUDGET,
        ),
        replace(
            FULL["ablation"],
            blocks=((_ablation(800), (FACTORED_NUCLEAR, LSP, NNFN)),),
            budget=replace(_QUICK_BUDGET, trials=5),
        ),
        replace(
            FULL["recommendation"],
            blocks=(
                ((_ratings("movielens-100k", "MovieLens-100K", (5,)),), (*PAPER, *BIASED)),
                ((ML_1M,), (FACTORED_NUCLEAR, NNFN)),
            ),
            budget=_QUICK_BUDGET,
        ),
        replace(FULL["climate"], blocks=((STATIONS[:2], CLIMATE),), budget=replace(_QUICK_BUDGET, trials=8)),
        FULL["shrinkage"],
    )
}


def suites(name: str, quick: bool = False) -> list[Suite]:
    """The suites of this name; "all" is all of them."""
    known = QUICK if quick else FULL
    if name != "all" and name not in known:
        raise InputError(f"There is no experiment {name!r}; choose one of {', '.join(known)}, all.")
    return list(known.values()) if name == "all" else [known[name]]
