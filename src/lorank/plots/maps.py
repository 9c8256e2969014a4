"""Maps of filled fields: values, their errors, and what was measured; one time as a picture, all times as a page."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lorank.errors import InputError
from lorank.files import replacing, write_bytes
from lorank.plots.coast import draw_coast
from lorank.plots.figures import COLOURS, figure
from lorank.spatial.cf import LATITUDE, LONGITUDE, find_coordinate, find_time
from lorank.types import Array

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Times that a page shows, evenly spread, and how dense its pictures are.
FRAMES, DPI = 48, 80
ERROR = "estimated_error"
# Lower and upper ends of the colours of values, and of errors.
Limits = tuple[tuple[float, float], tuple[float, float]]


@dataclass(frozen=True)
class FilledField:
    """A field over times (n, places) or (n, y, x), the deviations of its errors (0: measured), and where it is."""

    name: str
    units: str
    values: Array
    errors: Array | None
    latitude: Array
    longitude: Array
    times: list[str]

    @classmethod
    def of(cls, data: Any, variable: str | None = None) -> FilledField:
        """From what `lorank.spatial.complete` returns, or a Dataset with a variable and <variable>_error.

        Further dimensions, such as depth, are shown at their first level.
        """
        da, error = _parts(data, variable)
        lat, lon = find_coordinate(da, None, LATITUDE), find_coordinate(da, None, LONGITUDE)
        plane = tuple(dict.fromkeys((*da.coords[lat].dims, *da.coords[lon].dims)))
        others = [str(name) for name in da.dims if name not in plane]
        time = find_time(da, None, others)
        first = {name: 0 for name in others if name != time}
        order = (time, *plane)
        values = da.isel(first).transpose(*order)
        errors = None if error is None else np.asarray(error.isel(first).transpose(*order).values, np.float64)
        when = values.coords[time].values if time in values.coords else np.arange(values.shape[0])
        labels = [str(t.astype("datetime64[D]")) if when.dtype.kind == "M" else str(t) for t in when]
        y, x = (np.asarray(da.coords[name].values, np.float64) for name in (lat, lon))
        if len(plane) == 2 and y.ndim == 1:
            x, y = np.meshgrid(x, y)
        shown = str(da.attrs.get("long_name", "value" if da.name is None else da.name))
        field = np.asarray(values.values, np.float64)
        return cls(shown, str(da.attrs.get("units", "")), field, errors, y, x, labels)

    @property
    def measured(self) -> Array:
        """Which values were measured, and not filled in."""
        known = ~np.isnan(self.values)
        return known if self.errors is None else known & (self.errors == 0)

    def limits(self, times: slice = slice(None)) -> Limits:
        """Between which nearly all values of some times are, and the errors of those that were filled in."""
        errors = np.empty(0) if self.errors is None else self.errors[times][~self.measured[times]]
        return _limits(self.values[times]), (0.0, _limits(np.append(errors, 0.0))[1])

    def position(self, time: str | int | None) -> int:
        """Of a time given as a number, or as the beginning of its date; the middle one if None."""
        if time is None:
            return len(self.times) // 2
        if isinstance(time, int):
            if not -len(self.times) <= time < len(self.times):
                raise InputError(f"There are {len(self.times)} times; there is no number {time}.")
            return time % len(self.times)
        found = [i for i, label in enumerate(self.times) if label.startswith(time)]
        if not found:
            raise InputError(f"There is no time {time!r}; they run from {self.times[0]} to {self.times[-1]}.")
        return found[0]


def map(data: xarray.DataArray | xarray.Dataset, time: str | int | None = None, variable: str | None = None) -> Figure:
    """Draw a filled field at one time: values with the measured places marked, and the estimated errors.

    Parameters
    ----------
    data : what `lorank.spatial.complete` returns, or a Dataset as `lorank.spatial.complete_file` writes it
    time : the beginning of a date such as "1998-07", or a number; by default the one in the middle
    variable : str, optional; not needed if there is only one that has errors beside it
    """
    return draw_map(FilledField.of(data, variable), time)


def draw_map(field: FilledField, time: str | int | None = None) -> Figure:
    """The picture of one time, whose colours reach over this time; see `map`."""
    t = field.position(time)
    drawn, show = _maps(field, field.limits(slice(t, t + 1)))
    show(t)
    return drawn


def _maps(field: FilledField, limits: Limits) -> tuple[Figure, Callable[[int], None]]:
    """A picture of the field and of its errors, and what puts another time into it: all else is drawn once."""
    drawn, panels = figure(1 if field.errors is None else 2, 6.0, 4.6)
    # Maps have a shape of their own: colour bars and labels go where it leaves room.
    drawn.set_layout_engine("compressed")
    styles = [_style(panels[0], field, "viridis", limits[0])]
    if field.errors is not None:
        styles.append(_style(panels[1], field, "magma_r", limits[1]))
        panels[1].set_title("deviation of the error where filled in", fontsize=9)
    changing: list[Any] = []

    def show(t: int) -> None:
        for artist in changing:
            artist.remove()
        changing.clear()
        measured = field.measured[t]
        changing.extend(_draw(panels[0], field, field.values[t], measured, styles[0]))
        panels[0].set_title(f"{field.name}, {field.times[t]}", fontsize=9)
        if field.errors is not None:
            shown = np.where(measured, np.nan, field.errors[t])
            changing.extend(_draw(panels[1], field, shown, measured, styles[1]))

    return drawn, show


def write_page(data: Any, target: str | Path, variable: str | None = None) -> None:
    """Write one HTML file, which needs nothing else: facts, maps of many times with a slider, the mean over time."""
    field = FilledField.of(data, variable)
    n = len(field.times)
    some = np.unique(np.linspace(0, n - 1, min(FRAMES, n)).astype(int))
    # Limits of all times, so that a colour means the same throughout.
    drawn, show = _maps(field, field.limits())
    frames = []
    for t in some.tolist():
        show(t)
        frames.append(_image(drawn))
        drawn.set_layout_engine("none")  # all pictures have the places of the first
    known, total = int(field.measured.sum()), field.values.size
    filled = int((~np.isnan(field.values)).sum()) - known
    facts = {
        "variable": f"{field.name} [{field.units}]" if field.units else field.name,
        "times": f"{n}, {field.times[0]} to {field.times[-1]}",
        "places": f"{field.values[0].size:,}",
        "measured": f"{known:,} of {total:,} values ({100 * known / total:.1f}%)",
        "filled in": f"{filled:,} ({100 * filled / total:.1f}%)",
        "left missing": f"{total - known - filled:,} ({100 * (total - known - filled) / total:.1f}%)",
    }
    if field.errors is not None and filled:
        gaps = field.errors[~field.measured & ~np.isnan(field.errors)]
        facts["error of filled values"] = (
            f"{np.sqrt(np.mean(gaps**2)):.3g} {field.units} (root mean square of estimates)"
        )
    history = str(getattr(data, "attrs", {}).get("history", ""))
    page = PAGE.format(
        title=html.escape(field.name),
        facts="".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in facts.items()),
        first=frames[0],
        last=len(frames) - 1,
        frames=",".join(f'"{frame}"' for frame in frames),
        labels=",".join(f'"{html.escape(field.times[t])}"' for t in some),
        series=_image(_series(field)),
        history=f"<h2>History</h2><pre>{html.escape(history)}</pre>" if history else "",
    )
    write_bytes(Path(target), page.encode())


def save_map(data: Any, target: Path, time: str | None = None, variable: str | None = None) -> None:
    """Write a picture (png, pdf, svg) of one time, or a page (html) of all."""
    if target.suffix.lower() == ".html":
        write_page(data, target, variable)
        return
    drawn = map(data, time, variable)
    with replacing(target) as beside:
        drawn.savefig(beside, dpi=130, format=target.suffix.lower().lstrip("."))


def _parts(data: Any, variable: str | None) -> tuple[xarray.DataArray, xarray.DataArray | None]:
    """The field and the deviations of its errors."""
    if hasattr(data, "data_vars"):
        usual = [name for name in (*LATITUDE, *LONGITUDE) if name in data.data_vars]
        data = data.set_coords(usual)
        if variable is None:
            able = [str(name) for name in data.data_vars if f"{name}_error" in data.data_vars]
            able = able or [str(name) for name in data.data_vars if data[name].ndim >= 2]
            if len(able) != 1:
                raise InputError(f"There are {', '.join(able) or 'no fields'}; say which variable to draw.")
            variable = able[0]
        if variable not in data.data_vars:
            raise InputError(f"There is no variable {variable!r} among {', '.join(str(v) for v in data.data_vars)}.")
        beside = f"{variable}_error"
        return data[variable], data[beside] if beside in data.data_vars else None
    return data.drop_vars(ERROR, errors="ignore"), data.coords.get(ERROR)


def _limits(values: Array) -> tuple[float, float]:
    """Between which nearly all values are."""
    known = values[~np.isnan(values)]
    if not known.size:
        return 0.0, 1.0
    low, high = np.quantile(known[:: max(1, known.size // 200_000)], [0.005, 0.995])
    return float(low), float(high) if high > low else float(low) + 1.0


def _style(panel: Axes, field: FilledField, colours: str, limits: tuple[float, float]) -> dict[str, Any]:
    """Everything of a map that no time changes; the colours that its values have."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    x, y = field.longitude, field.latitude
    style: dict[str, Any] = {"cmap": colours, "norm": Normalize(*limits)}
    grid = field.values.ndim == 3
    # The panel learns how far the map reaches.
    reach: Any = panel.pcolormesh(x, y, np.zeros(field.values.shape[1:]), shading="nearest") if grid else None
    reach = reach or panel.scatter(x, y)
    panel.set(xlim=panel.get_xlim(), ylim=panel.get_ylim())
    reach.remove()
    if grid:
        panel.set_facecolor("0.88")
    panel.grid(visible=not grid)
    draw_coast(panel, float(np.nanmax(x)) > 180)
    # A degree of longitude is shorter than one of latitude.
    panel.set_aspect(1 / max(float(np.cos(np.radians(np.nanmean(y)))), 0.1))
    panel.set(xlabel="longitude", ylabel="latitude")
    # As many ticks at any size: the layout is made before the map has its shape.
    panel.locator_params(nbins=6)
    ends = "both" if limits[0] else "max"
    panel.figure.colorbar(ScalarMappable(**style), ax=panel, label=field.units, shrink=0.8, extend=ends)
    return style


def _draw(panel: Axes, field: FilledField, values: Array, measured: Array, style: dict[str, Any]) -> list[Any]:
    """What one time has: cells of a grid, or dots of places, those that were measured with a line or ring around."""
    x, y = field.longitude, field.latitude
    if values.ndim == 2:
        cells = np.ma.masked_invalid(values)
        drawn: list[Any] = [panel.pcolormesh(x, y, cells, shading="nearest", rasterized=True, **style)]
        if measured.any() and not measured.all():
            line: dict[str, Any] = {"colors": "w", "linewidths": 0.7, "linestyles": "dashed"}
            drawn.append(panel.contour(x, y, measured.astype(float), levels=[0.5], **line))
        return drawn
    size = float(np.clip(4000 / max(len(x), 1), 6, 40))
    ring: dict[str, Any] = {"facecolors": "none", "edgecolors": "0.45", "linewidths": 0.7, "label": "measured"}
    drawn = [panel.scatter(x[measured], y[measured], s=size * 1.8, **ring)]
    some = ~np.isnan(values)
    drawn.append(panel.scatter(x[some], y[some], c=values[some], s=size, linewidths=0, **style))
    if measured.any():
        drawn.append(panel.legend(frameon=False, fontsize=7, loc="lower left"))
    return drawn


def _series(field: FilledField) -> Figure:
    """The mean over all places that are filled or measured, and the part that was measured, at each time."""
    drawn, (panel,) = figure(1, 11.0, 2.8)
    places = ~np.isnan(field.values).all(axis=tuple(range(1, field.values.ndim)))
    mean = np.full(len(field.values), np.nan)
    mean[places] = [float(np.nanmean(values)) for values in field.values[places]]
    # Of places that have any value: land is not missing.
    some = ~np.isnan(field.values).all(axis=0)
    share = field.measured[:, some].mean(axis=1) if some.any() else np.zeros(len(mean))
    steps = np.arange(len(mean))
    panel.plot(steps, mean, color=COLOURS[0], linewidth=1.2)
    panel.set_ylabel(f"mean {field.units}", color=COLOURS[0])
    beside = panel.twinx()
    beside.fill_between(steps, share, color=COLOURS[1], alpha=0.2, linewidth=0)
    beside.set_ylim(0, 1)
    beside.set_ylabel("part measured", color=COLOURS[1])
    ticks = np.unique(np.linspace(0, len(mean) - 1, 6).astype(int))
    panel.set_xticks(ticks, [field.times[t] for t in ticks])
    return drawn


def _image(drawn: Figure) -> str:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    stream = io.BytesIO()
    drawn.set_dpi(DPI)
    canvas: Any = FigureCanvasAgg(drawn)
    canvas.print_png(stream)  # `savefig` draws everything twice
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 1000px; margin: 2em auto; padding: 0 1em; color: #222;
  background: #fff; }}
@media (prefers-color-scheme: dark) {{ body {{ color: #ddd; background: #181a1b; }} }}
img {{ width: 100%; height: auto; background: #fff; border-radius: 4px; }}
.maps {{ overflow-x: auto; }} .maps img {{ min-width: 640px; }}
table {{ border-collapse: collapse; }}
th {{ text-align: left; padding-right: 1.5em; font-weight: 600; vertical-align: top; }}
.bar {{ display: flex; gap: 1em; align-items: center; }} .bar input {{ flex: 1; }}
output {{ min-width: 7em; font-variant-numeric: tabular-nums; }}
pre {{ white-space: pre-wrap; }}
</style></head><body>
<h1>{title}</h1>
<table>{facts}</table>
<h2>Maps</h2>
<div class="bar"><button id="play" type="button">Play</button>
<input id="time" type="range" min="0" max="{last}" value="0" aria-label="time"><output id="label"></output></div>
<div class="maps" tabindex="0"><img id="frame" src="{first}" alt="map of the field and of its errors"></div>
<h2>Mean over all places</h2>
<div class="maps" tabindex="0"><img src="{series}" alt="mean over all places, and the part measured, over time"></div>
{history}
<script>
const frames = [{frames}], labels = [{labels}];
const time = document.getElementById("time"), play = document.getElementById("play");
let timer = null;
function show() {{
  document.getElementById("frame").src = frames[time.value];
  document.getElementById("label").value = labels[time.value];
}}
time.addEventListener("input", show);
play.addEventListener("click", () => {{
  if (timer) {{ clearInterval(timer); timer = null; play.textContent = "Play"; return; }}
  play.textContent = "Pause";
  timer = setInterval(() => {{ time.value = (Number(time.value) + 1) % frames.length; show(); }}, 350);
}});
show();
</script></body></html>
"""
