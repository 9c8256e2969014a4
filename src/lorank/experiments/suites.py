"""The experiments as data: which methods on which data sets, how often, with which search and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lorank.errors import InputError
from lorank.experiments.methods import (
    BIASED,
    CLIMATE,
    FACTORED_NUCLEAR,
    INSTEAD,
    LSP,
    NNFN,
    PAPER,
    PRINTED,
    TUNED_UNIT,
)
from lorank.experiments.settings import Budget, Dataset, Suite

# USHCN temperature is larger than the other climate data by far: fewer fits, the same for all methods, and fewer
# seeds in the tables beyond the paper's.
LARGE = Budget(trials=24, cell_seconds=600)
LARGE_SEEDS = 2
# The ranks that ratings are searched over.
RANKS = (5, 10, 20)


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


def _ratings(name: str, label: str, ranks: tuple[int, ...] = RANKS) -> Dataset:
    return Dataset(name, label, "Table 5", "ratings", {"name": name.replace("-", "_")}, ranks)


def _simulated(name: str, label: str) -> Dataset:
    group = "Simulated ratings: time and memory only"
    # One fit, which may take 100 s.
    budget = Budget(trials=1, cell_seconds=300)
    dataset = Dataset(f"{name}-simulated", label, group, "simulated", {"name": name}, (10,), budget=budget)
    return replace(dataset, seeds=1, timing_only=True)


def _stations(name: str, label: str, **parameters: Any) -> Dataset:
    budget = LARGE if parameters["source"] == "ushcn" else None
    return Dataset(name, label, "Table 6", "stations", parameters, (10,), budget=budget)


def _again(dataset: Dataset, ending: str, group: str, ranks: tuple[int, ...] = (10,)) -> Dataset:
    """The same data and splits in another table, beside the same column of the paper."""
    seeds = LARGE_SEEDS if dataset.budget is LARGE and ranks == (10,) else None
    name = f"{dataset.name}-{ending}"
    return replace(dataset, name=name, group=group, ranks=ranks, published=dataset.name, seeds=seeds)


def _normalised(name: str, label: str, kind: str, **raw: Any) -> Dataset:
    """The raw file in another normalisation: a column of the table of these data, and a table of its own."""
    dataset = _stations(f"{name}-{kind}", f"{label}, {KINDS[kind]} of the raw file", **raw, normalisation=kind)
    group, column = "Table 6 with other normalisations", f"RMSE, {KINDS[kind]}"
    seeds = LARGE_SEEDS if dataset.budget is LARGE else None
    return replace(dataset, group=group, beside=name, column=column, seeds=seeds)


ML_1M = _ratings("movielens-1m", "MovieLens-1M")
ML_1M_BIASED = replace(
    ML_1M, name="movielens-1m-biases", label="MovieLens-1M, biases and theta tuned", group="Beyond table 5"
)
ML_10M = _ratings("movielens-10m", "MovieLens-10M")
YAHOO = Dataset("yahoo", "Yahoo", "Table 5", "ratings", {"name": "yahoo_music"}, RANKS)
KINDS = {"zscore": "zero mean and unit variance", "anomaly": "anomalies"}
USHCN = {"source": "ushcn", "variable": "tavg", "since": "1919-01"}
STATIONS = (
    _stations("gas-co2", "GAS CO2", source="gas_anomalies", variable="CO2"),
    _stations("gas-h2", "GAS H2", source="gas_anomalies", variable="H2"),
    _stations("ushcn-temperature", "USHCN temperature", **USHCN, normalisation="anomaly"),
    _stations("ushcn-precipitation", "USHCN precipitation", source="ushcn_anomalies", variable="prcp"),
)
TUNED_STATIONS = tuple(_again(data, "unit", "Table 6 with the unit of distance tuned") for data in STATIONS)
# As many dimensions as there are places that train, up to 40.
INSTEAD_STATIONS = tuple(
    _again(data, "instead", "Beyond the paper: interpolation, and a kernel prior instead of the graph", (rank,))
    for data, rank in zip(STATIONS, (12, 12, 40, 11))
)
OTHER_NORMALISATIONS = (
    *(
        _normalised(f"gas-{gas.lower()}", f"GAS {gas}", kind, source="gas", variable=gas)
        for gas in ("CO2", "H2")
        for kind in KINDS
    ),
    _normalised("ushcn-temperature", "USHCN temperature", "zscore", **USHCN),
)

FULL: Mapping[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(
            "synthetic",
            "Synthetic data (table 4, figure 2)",
            "NMSE",
            (
                (tuple(_synthetic(m, 5) for m in (500, 1000, 2000)), (*PAPER, *PRINTED)),
                (tuple(_synthetic(m, rank) for rank in (10, 20) for m in (500, 1000)), PAPER),
            ),
            Budget(trials=12, cell_seconds=300),
        ),
        Suite(
            "ablation",
            "Noise, rank and sparsity (figure 3)",
            "NMSE",
            ((_ablation(1000), PAPER),),
            Budget(trials=8, cell_seconds=300),
        ),
        Suite(
            "recommendation",
            "Recommendation (table 5, figure 4)",
            "RMSE",
            (
                ((ML_1M,), (*PAPER, *PRINTED)),
                ((ML_1M_BIASED,), BIASED),
                ((ML_10M, YAHOO), PAPER),
                ((_simulated("ml10m", "MovieLens-10M (simulated)"), _simulated("yahoo", "Yahoo (simulated)")), PAPER),
            ),
            Budget(trials=32, cell_seconds=600),
        ),
        Suite(
            "climate",
            "Climate (table 6, figure 5)",
            "RMSE",
            (
                (STATIONS, CLIMATE),
                (TUNED_STATIONS, TUNED_UNIT),
                (INSTEAD_STATIONS, INSTEAD),
                (OTHER_NORMALISATIONS, CLIMATE),
            ),
            Budget(trials=48, cell_seconds=300),
        ),
        Suite("shrinkage", "Shrinkage (figure 1)", "", ()),
    )
}

_QUICK_BUDGET = Budget(trials=6, cell_seconds=120)
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
                ((_ratings("movielens-100k", "MovieLens-100K", (5, 10)),), (*PAPER, *BIASED[1:])),
                ((ML_1M,), (FACTORED_NUCLEAR, NNFN)),
            ),
            budget=_QUICK_BUDGET,
        ),
        replace(
            FULL["climate"],
            blocks=((STATIONS[:2], CLIMATE), (TUNED_STATIONS[:2], TUNED_UNIT), (INSTEAD_STATIONS[:2], INSTEAD)),
            budget=replace(_QUICK_BUDGET, trials=16),
        ),
        FULL["shrinkage"],
    )
}


def suites(name: str, quick: bool = False) -> list[Suite]:
    """The suites of this name; "all" is all of them."""
    known = QUICK if quick else FULL
    if name != "all" and name not in known:
        raise InputError(f"There is no experiment {name!r}; choose one of {', '.join(known)}, all.")
    return list(known.values()) if name == "all" else [known[name]]
