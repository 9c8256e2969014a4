"""Tables in and out: delimited text, Parquet, npz, Matrix Market, NetCDF."""
