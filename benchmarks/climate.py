"""Stations that were never measured: every method on the same splits, and what a climate scientist would do instead.

    python benchmarks/climate.py stations grids page picture --data ../shared/data

stations, grids   beside pykrige and DINEOF (`climate_stations`, `climate_grids`), into docs/benchmarks/climate.json
page     the tables of docs/climate.md from these records
picture  a map of errors and one never-measured station (docs/climate.png)

The paper's setting, with the unit of distance tuned, interpolation and kernel priors beside it: `lorank reproduce
climate`. Every method is tuned on the same validation places, with as many settings as the others.
"""

from __future__ import annotations

import argparse
import os
import warnings
from dataclasses import replace
from pathlib import Path

import climate_grids
import climate_stations
import numpy as np
from climate_records import SAVED, Records, write_page

from lorank.datasets import StationData, split_locations, ushcn


def picture(measured: StationData, out: Path, records: Records) -> None:
    """Errors at stations that were never measured on a map, and the values of the one with the median error."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from lorank.spatial import SpatialCompletion

    data = replace(measured, values=measured.values[:, -360:], time=measured.time[-360:])
    never = split_locations(len(data.station), (0.7, 0.3), seed=0)[1]
    seen = data.values.copy()
    seen[never] = np.nan
    model = SpatialCompletion(lam=2.0, rank=40, nugget=0.1, theta=1.0)
    model.fit(seen, data.latitude, data.longitude, data.time)
    predicted = model.predict()
    errors = np.sqrt(np.nanmean((predicted - data.values) ** 2, axis=1))
    here = never[np.argsort(errors[never])[never.size // 2]]
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 9), height_ratios=(3, 2), layout="constrained")
    known = np.setdiff1d(np.arange(len(errors)), never)
    top.scatter(data.longitude[known], data.latitude[known], s=5, color="0.8", label="measured")
    dots = top.scatter(data.longitude[never], data.latitude[never], c=errors[never], s=22, cmap="viridis", vmax=3)
    top.plot(data.longitude[here], data.latitude[here], "o", ms=13, mfc="none", mec="crimson", label=data.station[here])
    figure.colorbar(dots, ax=top, label="RMSE of monthly temperature (°C)", extend="max")
    top.set(title=f"{never.size} stations that were never measured", xlabel="longitude", ylabel="latitude")
    top.legend(loc="lower left")
    last = slice(-96, None)
    band, when = 2 * model.error_[here], data.time[last].astype("datetime64[D]")
    bottom.fill_between(when, predicted[here, last] - band, predicted[here, last] + band, color="crimson", alpha=0.15)
    bottom.plot(when, predicted[here, last], color="crimson", label="predicted, ± 2 estimated errors")
    bottom.plot(when, data.values[here, last], "k.", ms=5, label="measured, never shown to the model")
    bottom.set(title=f"{data.station[here]}: the never-measured station with the median error", ylabel="°C")
    bottom.legend(loc="lower left", ncols=2)
    figure.savefig(out, dpi=130)
    error = float(np.sqrt(np.nanmean((predicted[never] - data.values[never]) ** 2)))
    estimated = float(np.sqrt(np.mean(model.error_[never] ** 2)))
    correlation = float(np.corrcoef(errors[never], model.error_[never])[0, 1])
    records.add("picture", "SpatialCompletion", 0, {"RMSE": error, "estimated": estimated, "correlation": correlation})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", choices=("stations", "grids", "page", "picture"))
    parser.add_argument("--data", type=Path, default=os.environ.get("LORANK_DATA", Path("../shared/data")))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--cases", nargs="*", choices=climate_stations.CASES, default=(), help="stations: data; all if none is named"
    )
    parser.add_argument("--methods", default="", help="stations, grids: run only methods with this in their name")
    parser.add_argument("--records", type=Path, default=SAVED, help="stations, grids: what was measured")
    parser.add_argument("--again", action="store_true", help="stations, grids: measure again what is recorded")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "climate.png")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    records = Records(asked.records, asked.again)
    if "stations" in asked.what:
        climate_stations.stations(Path(asked.data), asked.seeds, asked.cases, asked.methods, records)
    if "grids" in asked.what:
        climate_grids.grids(asked.seeds, asked.methods, records)
    if "page" in asked.what:
        shown = dict.fromkeys(climate_stations.CASES, (climate_stations.COLUMNS, climate_stations.METHODS))
        shown |= dict.fromkeys(("clouds", "swaths"), (climate_grids.COLUMNS, climate_grids.METHODS))
        write_page(records, shown)
    if "picture" in asked.what:
        picture(ushcn("tavg", asked.data), asked.out, records)


if __name__ == "__main__":
    main()
