"""`lorank complete` for NetCDF files: series at places, some of them never measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

NETCDF = (".nc", ".nc4")

VariableOption = Annotated[str | None, typer.Option(help="NetCDF: the variable to fill, if there are several.")]
DimOption = Annotated[str | None, typer.Option(help="NetCDF: the dimension of the places.")]
LatOption = Annotated[str | None, typer.Option(help="NetCDF: the coordinate with latitudes, else lat or latitude.")]
LonOption = Annotated[str | None, typer.Option(help="NetCDF: the coordinate with longitudes, else lon or longitude.")]
TimeOption = Annotated[str | None, typer.Option(help="NetCDF: the dimension of the times.")]
NormalisationOption = Annotated[
    str, typer.Option(help="NetCDF: none, zscore, zscore-rows, zscore-columns, anomalies or anomalies-trend.")
]


def fill_netcdf(
    source: Path, target: Path, names: dict[str, str | None], normalisation: str, params: dict[str, Any]
) -> dict[str, Any]:
    """Fill a file by `lorank.spatial`; what is auto is tuned on held-out places. The facts to tell."""
    from lorank.errors import InputError
    from lorank.spatial import complete_file

    if target.suffix.lower() not in NETCDF:
        raise InputError(f"A NetCDF file is filled into a NetCDF file: let the name of {target} end in .nc.")
    given = {name: None if value == "auto" else value for name, value in params.items()}
    used = complete_file(source, target, **names, normalisation=normalisation, **given)
    return {"table": str(target), "cells": used.pop("cells"), "filled": used.pop("filled"), **used}
