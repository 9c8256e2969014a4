"""Pictures of tables with missing cells: what was missing, what was filled in, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lorank.plots.figures import COLOURS
from lorank.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More lines than this are shown in groups, by the share that is missing in each.
MOST_LINES = 1000
# Fewest and most bars of a distribution: many bars of few cells have gaps that mean nothing.
BINS = (8, 24)


def draw_missing(panel: Axes, missing: Any, names: Sequence[str] | None = None) -> None:
    """A map of the missing cells: a row of the picture for each row of the table, or for a group of them.

    `missing` is a boolean array (rows, columns), such as `table.isna()`.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    gaps = np.asarray(missing, np.float64)
    step = -(-len(gaps) // MOST_LINES)
    shown = np.array([gaps[i : i + step].mean(axis=0) for i in range(0, len(gaps), step)])
    panel.imshow(shown, aspect="auto", cmap="Blues", vmin=-0.1, vmax=1.0, interpolation="nearest")
    panel.grid(visible=False)
    labels = [str(j) for j in range(gaps.shape[1])] if names is None else list(names)
    shares = [f"{name} ({share:.0%})" for name, share in zip(labels, gaps.mean(axis=0))]
    panel.set_xticks(range(len(shares)), shares, rotation=50, ha="right", rotation_mode="anchor", fontsize=8)
    panel.yaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10]))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda line, _: f"{line * step:g}"))
    panel.set_ylabel("row")
    panel.set_title(f"{gaps.mean():.0%} of the cells are missing (dark)")


def draw_filled(panel: Axes, observed: Any, filled: Any, name: str = "") -> None:
    """The distribution of what was filled into a column beside that of what was there, in shares of each.

    Filled cells of one table are expected values, whose spread is smaller; those of a draw are not.
    """
    there, added = (np.asarray(values, np.float64) for values in (observed, filled))
    fewer = min(there, added, key=len)
    bins = int(np.clip(1.5 * np.sqrt(fewer.size), *BINS))
    edges = np.histogram_bin_edges(np.concatenate([there, added]), bins).tolist()
    for values, colour, label in ((there, COLOURS[0], "there"), (added, COLOURS[1], "filled in")):
        weights = np.full(values.size, 1 / max(values.size, 1))
        panel.hist(values, edges, weights=weights, histtype="stepfilled", color=colour, alpha=0.25)
        panel.hist(values, edges, weights=weights, histtype="step", color=colour, linewidth=1.6, label=label)
    panel.set_xlabel(name)
    panel.set_ylabel("share of cells")
    panel.legend(frameon=False)


def draw_coverage(panel: Axes, levels: Sequence[float], inside: Sequence[float], cells: int) -> None:
    """How many of the cells lay inside their intervals, for intervals of several levels; with the noise of so many."""
    asked: Array = np.asarray(levels, np.float64)
    noise = 2 * np.sqrt(asked * (1 - asked) / max(cells, 1))
    panel.fill_between(asked, asked - noise, asked + noise, color="#bbbbbb", alpha=0.5, linewidth=0, label="noise")
    panel.plot([0, 1], [0, 1], color="#777777", linewidth=1, linestyle="--", label="as promised")
    panel.plot(asked, inside, marker="o", color=COLOURS[0], label=f"measured on {cells} cells")
    panel.set_xlim(0, 1)
    panel.set_ylim(0, 1)
    panel.set_xlabel("level of the interval")
    panel.set_ylabel("share of the truth inside")
    panel.legend(frameon=False, loc="upper left")
