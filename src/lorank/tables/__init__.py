"""Tables in and out, a block at a time: delimited text, Parquet, Excel, JSON lines, npz, Matrix Market, NetCDF."""

from lorank.tables.reading import read
from lorank.tables.translation import Habits
from lorank.tables.writing import appending, write

__all__ = ["Habits", "appending", "read", "write"]
