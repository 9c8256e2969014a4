"""Pictures. matplotlib is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import bisect

from lorank.regularizers import LSP, MCP, NNFN, CappedL1, Nuclear, Separable, Spectral

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = npt.NDArray[Any]

# Okabe and Ito's palette: told apart with any kind of colour vision.
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
