"""Places and times: xarray in and out, NetCDF files, places that were never measured."""

from lorank.spatial.arrays import complete, complete_file
from lorank.spatial.completion import SpatialCompletion
from lorank.spatial.grids import GridCompletion
from lorank.spatial.long_tables import complete_table

__all__ = ["GridCompletion", "SpatialCompletion", "complete", "complete_file", "complete_table"]
