"""Figures; matplotlib is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import bisect

from lorank.regularizers import LSP, MCP, NNFN, CappedL1, Nuclear, Separable, Spectral
from lorank.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The palette of Okabe and Ito, which readers with any kind of colour vision can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def figure(panels: int, width: float = 5.2, height: float = 4.2) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels side by side, drawn without a screen."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("Pictures need matplotlib: pip install 'lorank[plot]'.") from None
    drawn = Figure(figsize=(width * panels, height), layout="constrained")
    FigureCanvasAgg(drawn)
    axes = list(np.atleast_1d(drawn.subplots(1, panels)))
    for panel in axes:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.25, linewidth=0.6)
        panel.set_axisbelow(True)
    return drawn, axes


def draw_error_against_time(
    panel: Axes, curves: Mapping[str, tuple[Sequence[float], Sequence[float]]], ylabel: str, floor: float | None = None
) -> None:
    """Error against seconds of solving, both logarithmic; a dashed line marks the error that cannot be beaten."""
    for index, (name, (seconds, errors)) in enumerate(curves.items()):
        style = "-" if index < 3 else "--"
        colour = COLOURS[index % 3] if len(curves) <= 6 else COLOURS[index % len(COLOURS)]
        panel.plot(seconds, errors, style, color=colour, label=name, marker="o", markersize=2.5, linewidth=1.4)
    if floor is not None:
        panel.axhline(floor, color="0.35", linewidth=0.9, linestyle=":", label="least squares at the true rank")
    panel.set(xscale="log", yscale="log", xlabel="seconds", ylabel=ylabel)
    low, high = panel.get_xlim()
    panel.set_xlim(low, high * (high / low) ** 0.4)  # room for the legend
    panel.legend(frameon=False, fontsize=7, loc="upper right")


def draw_spectra(panel: Axes, truth: Array, found: Mapping[str, Array]) -> None:
    """Singular values found, beside the true ones."""
    panel.plot(range(1, len(truth) + 1), truth, "s", color="0.6", markersize=11, fillstyle="none", label="truth")
    for index, (name, sigma) in enumerate(found.items()):
        alive = sigma[sigma > 1e-6 * sigma[0]]
        shift = 0.12 * (index - (len(found) - 1) / 2)
        panel.plot(np.arange(1, len(alive) + 1) + shift, alive, "o", color=COLOURS[index], markersize=4, label=name)
    panel.set(yscale="log", xlabel="index", ylabel="singular value")
    panel.legend(frameon=False, fontsize=8)


def shrinkage_examples(zero_below: float = 5.0) -> dict[str, Spectral]:
    """Figure 1 of the paper: every regularizer tuned to send singular values up to `zero_below` to zero."""
    z = zero_below
    # LSP's threshold grows with lam, but not in closed form.
    lam = bisect(lambda lam: LSP(lam=lam, theta=1.0).threshold(1.0) - z, 1e-6, 4 * z**2)
    return {
        "nuclear": Nuclear(lam=z),
        "capped-l1": CappedL1(lam=z, theta=z),
        "LSP": LSP(lam=lam, theta=1.0),
        "MCP": MCP(lam=z, theta=1.5),
        "NNFN": NNFN(lam=z, theta=1.0),
    }


def draw_shrinkage(panel: Axes, regularizers: Mapping[str, Spectral], largest: float = 15.0) -> None:
    """How each regularizer maps singular values.

    NNFN's map depends on the whole spectrum: it is shown for a matrix with the few values that are marked. The others
    work on each value alone.
    """
    fine, few = np.linspace(largest, 0.0, 601), np.linspace(largest, 0.0, 7)
    panel.plot(fine, fine, color="0.7", linewidth=1, linestyle=":", label="no shrinkage")
    for index, (name, regularizer) in enumerate(regularizers.items()):
        sigma, marker = (fine, "") if isinstance(regularizer, (Separable, Nuclear)) else (few, "o")
        panel.plot(sigma, regularizer.prox(sigma, 1.0), marker=marker, color=COLOURS[index], label=name, linewidth=1.5)
    panel.set(xlabel="singular value of Z", ylabel="after the proximal step")
    panel.legend(frameon=False, fontsize=8)


def draw_convergence(panel: Axes, history: Mapping[str, Array]) -> None:
    """How far the objective is above its lowest, against iterations, and the validation error where there is one."""
    iterations, objective = history["iteration"], history["objective"]
    if iterations.size:
        # Each point is drawn against the lowest; that one itself has no place on a logarithmic axis.
        above = (objective - objective.min()) / max(abs(float(objective.min())), 1e-300)
        panel.plot(iterations[above > 0], above[above > 0], "o-", color=COLOURS[0], markersize=3, linewidth=1.4)
        panel.set(yscale="log")
    panel.set(xlabel="iteration", ylabel="objective above its lowest, relative")
    if np.isfinite(history["validation"]).any():
        beside = panel.twinx()
        beside.plot(iterations, history["validation"], "-", color=COLOURS[1], linewidth=1.4)
        beside.set_ylabel("validation error", color=COLOURS[1])


def draw_residuals(panel: Axes, residuals: Array) -> None:
    """How predictions and observed values differ: a histogram of 60 bars, its tails cut at one in a thousand."""
    low, high = np.quantile(residuals, [0.001, 0.999])
    panel.hist(residuals, bins=60, range=(float(low), float(high) if high > low else float(low) + 1), color=COLOURS[0])
    spread = float(np.sqrt(np.mean(np.square(residuals, dtype=np.float64))))
    panel.set(xlabel="prediction - observed value", ylabel="entries", title=f"training RMSE {spread:.4g}")


def draw_model(model: Any) -> Figure:
    """A fitted MatrixCompletion in panels: convergence, spectrum, the search for its parameters, residuals.

    The last two are drawn only if there was a search, and if the model has its data.
    """
    has_search, seen = bool(len(getattr(model, "tuning_", ()))), model.observations_
    drawn, axes = figure(2 + has_search + bool(seen.nnz))
    panels = iter(axes)
    draw_convergence(next(panels), model.history_)
    spectrum = next(panels)
    sigma = model.singular_values_
    spectrum.bar(np.arange(1, sigma.size + 1), sigma, color=COLOURS[0])
    spectrum.set(xlabel="direction", ylabel="singular value", title=f"rank {model.rank_}")
    for panel in axes[:2]:
        panel.locator_params(axis="x", integer=True)
    if has_search:
        model.tuning_.plot(next(panels))
    if seen.nnz:
        draw_residuals(next(panels), model.result_.factors.predict(seen.rows, seen.cols) - seen.values)
    return drawn
