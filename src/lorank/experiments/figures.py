"""What is drawn: curves of error against time, ablations, shrinkage; as data for the page, and as SVG and PNG files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lorank import plots
from lorank.experiments.records import Row
from lorank.experiments.settings import Suite
from lorank.experiments.statistics import Line

# As on the page: six colours that readers with any colour vision tell apart, and three kinds of line.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000")
DASHES = ("-", "--", ":")


@dataclass(frozen=True)
class Curve:
    """A line of a chart."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    marked: bool = True


@dataclass(frozen=True)
class Chart:
    """Curves on common axes; `floor` is a level that cannot be beaten."""

    name: str
    title: str
    xlabel: str
    ylabel: str
    curves: tuple[Curve, ...]
    logx: bool = True
    logy: bool = True
    floor: float | None = None


def labels_of(charts: Iterable[Chart]) -> list[str]:
    """The labels of all curves, each once: a label has the same colour and kind of line in every chart of a page."""
    return list(dict.fromkeys(curve.label for chart in charts for curve in chart.curves))


def convergence(suite: Suite, rows: Iterable[Row]) -> list[Chart]:
    """Test error against seconds of training for each data set of the paper, of the first seed."""
    if suite.name == "ablation":
        return []
    mine = [row for row in rows if row["suite"] == suite.name and row["seed"] == 0 and row.get("curve")]
    charts = []
    for dataset in (dataset for dataset in suite.datasets if dataset.published is None):
        found = {row["method"]: row for row in mine if row["dataset"] == dataset.name}
        curves = tuple(
            _curve(entry.label, found[name]["curve"]) for name, entry in suite.entries.items() if name in found
        )
        if curves:
            floors = [row["floor"] for row in found.values() if row.get("floor")]
            floor = floors[0] if floors and dataset.ranks == (dataset.parameters.get("rank", 5),) else None
            title = f"{dataset.label}: test {suite.metric} against time"
            name = f"{suite.name}-{dataset.name}"
            charts.append(Chart(name, title, "seconds of training", f"test {suite.metric}", curves, floor=floor))
    return charts


def ablation(suite: Suite, summary: dict[str, list[Line]]) -> list[Chart]:
    """Figure 3: error and time against noise, rank and number of entries."""
    if suite.name != "ablation":
        return []
    charts = []
    units = {"noise": "standard deviation of the noise", "rank": "true rank", "density": "entries, x the paper's"}
    for name, xlabel in units.items():
        varied = [dataset for dataset in suite.datasets if name in dataset.parameters]
        chosen = sorted(varied, key=lambda dataset: float(dataset.parameters[name]))
        for quantity, ylabel in (("error", "test NMSE"), ("time", "seconds of training")):
            curves = []
            for method, entry in suite.entries.items():
                points = [
                    (float(dataset.parameters[name]), getattr(line, quantity))
                    for dataset in chosen
                    for line in summary.get(dataset.name, [])
                    if line.method == method and getattr(line, quantity) is not None
                ]
                if points:
                    curves.append(_curve(entry.label, points))
            if curves:
                title = f"{ylabel} against the {xlabel}"
                charts.append(Chart(f"ablation-{name}-{quantity}", title, xlabel, ylabel, tuple(curves)))
    return charts


def shrinkage() -> Chart:
    """Figure 1: what a proximal step makes of a singular value, all tuned to be zero up to 5."""
    fine, few = np.linspace(15.0, 0.0, 151), np.linspace(15.0, 0.0, 7)
    curves = [Curve("no shrinkage", (0.0, 15.0), (0.0, 15.0), marked=False)]
    for name, regularizer in plots.shrinkage_examples().items():
        # NNFN's map depends on the whole spectrum: it is shown for a matrix with the few values that are marked.
        marked = name == "NNFN"
        sigma = few if marked else fine
        curves.append(Curve(name, tuple(sigma.tolist()), tuple(regularizer.prox(sigma, 1.0).tolist()), marked))
    title = "Shrinkage of singular values, all tuned to be zero up to 5"
    return Chart("shrinkage", title, "singular value of Z", "after the proximal step", tuple(curves), False, False)


def _curve(label: str, points: Sequence[Sequence[float]]) -> Curve:
    x, y = zip(*points)
    return Curve(label, x, y)


def save(chart: Chart, folder: Path, labels: Sequence[str]) -> None:
    """The chart as SVG and PNG; the same chart gives the same bytes. `labels` are those of all charts (`labels_of`)."""
    from matplotlib import rc_context

    drawn, (panel,) = plots.figure(1, 6.4, 4.2)
    for curve in chart.curves:
        index = labels.index(curve.label)
        panel.plot(
            curve.x,
            curve.y,
            DASHES[index // len(COLOURS) % len(DASHES)],
            color=COLOURS[index % len(COLOURS)],
            label=curve.label,
            marker="o" if curve.marked else "",
            markersize=2.5,
            linewidth=1.4,
        )
    if chart.floor is not None:
        panel.axhline(chart.floor, color="0.35", linewidth=0.9, linestyle=":", label="least squares, true rank")
    panel.set(xlabel=chart.xlabel, ylabel=chart.ylabel)
    panel.set(xscale="log" if chart.logx else "linear", yscale="log" if chart.logy else "linear")
    if chart.logy:
        _readable(panel.yaxis, [value for curve in chart.curves for value in curve.y])
    panel.set_title(chart.title, fontsize=10)
    drawn.legend(frameon=False, fontsize=7, loc="outside right upper", handlelength=3.2)
    with rc_context({"svg.hashsalt": chart.name}):  # names of clips and markers are random without it
        drawn.savefig(folder / f"{chart.name}.svg", metadata={"Date": None})
    drawn.savefig(folder / f"{chart.name}.png", dpi=130)


def _readable(axis: Any, values: Sequence[float]) -> None:
    """Ticks at round numbers on a logarithmic axis that spans less than a decade, where powers of ten are too few."""
    from matplotlib.ticker import MaxNLocator, NullLocator, StrMethodFormatter

    if max(values) < 10 * min(values):
        axis.set_major_locator(MaxNLocator(6))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
