"""From records to numbers: means, deviations, and who is as good as the best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lorank.experiments.methods import BESIDE, REFERENCE
from lorank.experiments.published import PUBLISHED, Published
from lorank.experiments.records import Row
from lorank.experiments.settings import Dataset, Suite

CONFIDENCE = 0.95
# How a fit ends that had not converged.
LIMITS = ("MAX_ITER", "TIME_LIMIT")


@dataclass(frozen=True)
class Line:
    """A method on a data set, over all seeds; numbers are None where there is none.

    `rank` counts singular values above a hundredth of the largest, `numerical_rank` all that are not zero. `edges` says
    for each weight how near, in decades, it came over all seeds to an end of what its search tried.
    """

    dataset: str
    method: str
    label: str
    errors: Mapping[int, float] = field(default_factory=dict)
    seconds: Mapping[int, float] = field(default_factory=dict)
    peak_mb: float | None = None
    fit_mb: float | None = None
    floor: float | None = None
    rank: float | None = None
    numerical_rank: float | None = None
    trials: float | None = None
    allowed_trials: int | None = None
    edges: Mapping[str, float] = field(default_factory=dict)
    runs: int = 0
    searches_out_of_time: int = 0
    limited_fits: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    best_error: bool = False
    best_time: bool = False
    time_ratio: float | None = None
    published: Published | None = None
    published_time_ratio: float | None = None

    @property
    def error(self) -> float | None:
        return float(np.mean(list(self.errors.values()))) if self.errors else None

    @property
    def error_std(self) -> float | None:
        return _deviation(self.errors)

    @property
    def time(self) -> float | None:
        return float(np.mean(list(self.seconds.values()))) if self.seconds else None

    @property
    def time_std(self) -> float | None:
        return _deviation(self.seconds)

    @property
    def error_ratio(self) -> float | None:
        """Ours over the paper's."""
        return self.error / self.published.error if self.error is not None and self.published else None


def summarise(suite: Suite, rows: Iterable[Row]) -> dict[str, list[Line]]:
    """The lines of each data set of a suite, by its name, in the order of the suite."""
    mine = [row for row in rows if row["suite"] == suite.name]
    summary: dict[str, list[Line]] = {}
    for datasets, entries in suite.blocks:
        for dataset in datasets:
            lines = [
                _line(dataset, entry.name, entry.label, found)
                for entry in entries
                if (found := [row for row in mine if (row["dataset"], row["method"]) == (dataset.name, entry.name)])
            ]
            if lines:
                summary.setdefault(dataset.name, []).extend(lines)
    return {name: _compared(lines) for name, lines in summary.items()}


def comparable(values: Mapping[str, Mapping[int, float]]) -> set[str]:
    """The name with the least mean, and those not different from it by a paired t-test at 95%.

    Values are by name and seed; pairs are formed over the seeds that both have. With fewer than two of them nothing can
    be said, and only the best is named.
    """
    from scipy.stats import ttest_rel

    values = {name: by_seed for name, by_seed in values.items() if by_seed}
    if not values:
        return set()
    best = min(values, key=lambda name: float(np.mean(list(values[name].values()))))
    alike = {best}
    for name, by_seed in values.items():
        seeds = sorted(set(by_seed) & set(values[best]))
        if name == best or len(seeds) < 2:
            continue
        mine, its = (np.array([side[seed] for seed in seeds]) for side in (by_seed, values[best]))
        if np.ptp(mine - its) == 0:  # the test is undefined where all differences are the same
            if (mine == its).all():
                alike.add(name)
        elif ttest_rel(mine, its).pvalue > 1 - CONFIDENCE:
            alike.add(name)
    return alike


def _line(dataset: Dataset, method: str, label: str, rows: list[Row]) -> Line:
    def values(key: str) -> dict[int, float]:
        return {row["seed"]: row[key] for row in rows if row.get(key) is not None}

    def mean(key: str) -> float | None:
        found = list(values(key).values())
        return float(np.mean(found)) if found else None

    return Line(
        dataset=dataset.name,
        method=method,
        label=label,
        errors=values("error"),
        seconds=values("seconds"),
        peak_mb=mean("peak_mb"),
        fit_mb=mean("fit_mb"),
        floor=mean("floor"),
        rank=mean("rank"),
        numerical_rank=mean("numerical_rank"),
        trials=mean("trials"),
        allowed_trials=max((row["allowed_trials"] for row in rows if row.get("allowed_trials")), default=None),
        edges=_nearest(row["edges"] for row in rows if row.get("edges")),
        runs=len(rows),
        searches_out_of_time=sum(bool(row.get("out_of_time")) for row in rows),
        limited_fits=sum(row.get("solver_status") in LIMITS for row in rows),
        parameters=next((row["parameters"] for row in rows if row.get("parameters")), {}),
        reasons=tuple(dict.fromkeys(row["reason"] for row in rows if row["reason"])),
        published=PUBLISHED.get(dataset.published or dataset.name, {}).get(BESIDE.get(method, method)),
    )


def _compared(lines: list[Line]) -> list[Line]:
    """The same lines with what only a comparison can tell."""
    good = comparable({line.method: line.errors for line in lines})
    quick = comparable({line.method: line.seconds for line in lines})
    reference = next((line for line in lines if line.method == REFERENCE), None)
    compared = []
    for line in lines:
        ratio = published_ratio = None
        if reference is not None and reference.time and line.time is not None:
            ratio = line.time / reference.time
        if reference is not None and reference.published and line.published:
            published_ratio = line.published.seconds / reference.published.seconds
        compared.append(
            replace(
                line,
                best_error=line.method in good,
                best_time=line.method in quick,
                time_ratio=ratio,
                published_time_ratio=published_ratio,
            )
        )
    return compared


def _nearest(edges: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The least distance of each name."""
    least: dict[str, float] = {}
    for each in edges:
        for name, distance in each.items():
            least[name] = min(distance, least.get(name, distance))
    return least


def _deviation(values: Mapping[int, float]) -> float | None:
    """Sample standard deviation over the seeds."""
    return float(np.std(list(values.values()), ddof=1)) if len(values) > 1 else None
