"""Long tables of stations: the same answer as arrays have, in a table of the same kind."""

import numpy as np
import pytest

from lorank.errors import InputError
from lorank.spatial import SpatialCompletion, complete_table

GIVEN = {"normalisation": "departures", "rank": 2, "lam": 0.1, "nugget": 0.1, "length": 2.0, "theta": 1.0}
GIVEN |= {"residual_length": 0.0, "residual_nugget": 0.5}
NAMES = {"value": "tmax", "place": "station", "time": "month", "covariates": ["height"]}


@pytest.fixture
def stations():
    """Twelve places x 24 months that get colder with height, and the same as a long table in any order of lines."""
    rng = np.random.default_rng(0)
    lat, lon, height = rng.uniform(35, 45, 12), rng.uniform(-110, -95, 12), rng.uniform(0, 3, 12)
    months = np.datetime64("2001-01") + np.arange(24)
    season = np.cos(2 * np.pi * np.arange(24) / 12)
    values = 20 - 6 * height[:, None] - 10 * season + rng.standard_normal(24) + 0.1 * rng.standard_normal((12, 24))
    values[9:] = np.nan
    values[0, 5:15] = np.nan
    rows, cols = np.nonzero(~np.isnan(values))
    # A place without values has one line.
    rows, cols = np.r_[rows, 9, 10, 11], np.r_[cols, 0, 0, 0]
    order = np.r_[0, 1 + rng.permutation(rows.size - 1)]
    rows, cols = rows[order], cols[order]
    table = {
        "station": np.array([f"S{11 - i:02d}" for i in range(12)])[rows],
        "month": months[cols].astype(str),
        "lat": lat[rows],
        "lon": lon[rows],
        "height": height[rows],
        "tmax": values[rows, cols],
    }
    return values, lat, lon, height, months, table


def test_the_answer_is_that_of_arrays(stations):
    values, lat, lon, height, months, table = stations
    filled = complete_table(table, **NAMES, **GIVEN)
    assert list(filled) == ["station", "month", "lat", "lon", "height", "tmax", "tmax_error"]
    assert len(filled["tmax"]) == 12 * 24
    names = filled["station"].reshape(12, 24)[:, 0]
    order = [11 - int(name[1:]) for name in names]
    assert order[0] == 11 - int(table["station"][0][1:])
    assert filled["month"][:24].tolist() == [str(month) for month in months]
    model = SpatialCompletion(**GIVEN)
    model.fit(values[order], lat[order], lon[order], months, {"height": height[order]})
    predicted, deviation = model.predict(return_std=True)
    missing = np.isnan(values[order])
    np.testing.assert_allclose(filled["tmax"].reshape(12, 24)[missing], predicted[missing])
    np.testing.assert_array_equal(filled["tmax"].reshape(12, 24)[~missing], values[order][~missing])
    np.testing.assert_allclose(filled["tmax_error"].reshape(12, 24), np.where(missing, deviation, 0.0))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_dataframes_come_back_as_they_came(stations, library):
    frames = pytest.importorskip(library)
    table = stations[-1]
    plain = complete_table(table, **NAMES, **GIVEN)
    frame = frames.DataFrame({**table, "month": table["month"].astype("datetime64[ms]")})
    filled = complete_table(frame, **NAMES, **GIVEN)
    assert isinstance(filled, frames.DataFrame)
    np.testing.assert_allclose(filled["tmax"].to_numpy(), plain["tmax"])
    assert str(filled["month"].to_numpy()[1].astype("datetime64[M]")) == "2001-02"


@pytest.mark.parametrize(
    ("column", "change", "message"),
    [
        ("height", lambda c: np.where(np.arange(c.size) == 3, 9.0, c), "two values of height"),
        ("height", lambda c: np.full(c.size, np.nan), "height of .* is missing"),
        ("month", lambda c: np.full(c.size, "2001-01"), "two values at month 2001-01"),
        ("month", lambda c: np.full(c.size, "July"), "must hold dates"),
        ("tmax", lambda c: np.full(c.size, "warm"), "must be numbers"),
        ("lat", None, "no column lat or latitude"),
    ],
)
def test_errors_say_what_is_wrong(stations, column, change, message):
    table = dict(stations[-1])
    cells = table.pop(column)
    if change is not None:
        table[column] = change(cells)
    with pytest.raises(InputError, match=message):
        complete_table(table, **NAMES, **GIVEN)


def test_the_shell_fills_a_csv_file(stations, tmp_path):
    from typer.testing import CliRunner

    from lorank.cli.app import app
    from lorank.tables import write
    from lorank.tables.side_tables import read_columns

    table = stations[-1]
    write(tmp_path / "in.csv", {**table, "tmax": np.where(np.isnan(table["tmax"]), None, table["tmax"])})
    where = [str(tmp_path / name) for name in ("in.csv", "out.csv")]
    options = ["--variable", "tmax", "--dim", "station", "--time", "month", "--covariate", "height", "--rank", "2"]
    done = CliRunner().invoke(app, ["complete", where[0], "-o", where[1], *options, "--lam", "0.1"])
    assert done.exit_code == 0, done.output
    filled = read_columns(tmp_path / "out.csv")
    assert len(filled["tmax"]) == 12 * 24
    error = np.abs(filled["tmax"].astype(float).reshape(12, 24)[:, 0] - 10 + 6 * filled["height"][::24].astype(float))
    assert error.max() < 5, "January is 10 degrees less 6 for each km"
