"""Tables in and out, a block at a time: delimited text, Parquet, npz, Matrix Market, NetCDF."""

from lorank.tables.reading import read
from lorank.tables.writing import appending, write

__all__ = ["appending", "read", "write"]
