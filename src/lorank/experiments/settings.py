"""What an experiment is: lines of tables, data sets, budgets, and the cells that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Entry:
    """A line of a table: a method of the catalogue, with what is fixed and what is searched besides its weight.

    Parameters
    ----------
    name : key of the row; for the paper's lines, the name in the catalogue.
    label : what tables and figures call it.
    method : name in the catalogue, or in `baselines`.
    fixed : parameters of MatrixCompletion that are not searched.
    shapes : values of the method's second parameter to search; None for those that the catalogue lists.
    sides : what the places of the rows may be used for, one of them searched; see `data.Places.side`.
    like : the line of the same regularizer by the library's solver, whose search this line takes its parameters from.
    graph_range : the ends of the coarse grid of the graph's weight; None for a prior, whose weight is lam.
    """

    name: str
    label: str
    method: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    shapes: tuple[Any, ...] | None = None
    sides: tuple[Mapping[str, Any], ...] = ()
    graph_range: tuple[float, float] | None = None
    like: str | None = None


@dataclass(frozen=True)
class Budget:
    """The same for every method: the fits of a search, and the seconds after which a cell is ended.

    Fits are what is counted. So that a cell comes to an end, no other fit of a search begins after half of its seconds,
    and a single fit may take a third; records and tables say where that came first.
    """

    trials: int = 12
    cell_seconds: float = 600.0
    tol: float = 1e-4
    max_iter: int = 500

    @property
    def search_seconds(self) -> float:
        return self.cell_seconds / 2

    @property
    def fit_seconds(self) -> float:
        return self.cell_seconds / 3


@dataclass(frozen=True)
class Dataset:
    """What is fitted: a name, the kind that `data.load` knows, its parameters, and the ranks that are searched.

    `group` is the table it belongs to, `published` the paper's column beside it, if it has not the same name.
    `timing_only` data are simulated: nothing is tuned, and no error is reported. `budget` is in place of the suite's.
    `beside` names another data set, in whose table the errors on this one are a column called `column`.
    """

    name: str
    label: str
    group: str
    kind: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    ranks: tuple[int, ...] = (5,)
    seeds: int | None = None
    timing_only: bool = False
    published: str | None = None
    budget: Budget | None = None
    beside: str | None = None
    column: str = ""


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
        return self.key_of(self.entry.name)

    def key_of(self, line: str) -> str:
        """The key of another line on the same data."""
        return f"{self.suite}/{self.dataset.name}/{line}/{self.seed}"

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
            Cell(self.name, dataset, entry, seed, dataset.budget or self.budget)
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
