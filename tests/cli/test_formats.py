"""The same ratings in every format that is promised give the same model."""

import bz2
import gzip
import json
import lzma
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

RNG = np.random.default_rng(0)
ROWS, COLS = np.nonzero(RNG.random((40, 25)) < 0.5)
STARS = RNG.integers(1, 6, ROWS.size)
EXPLICIT = ["--rank", "2", "--lam", "0.5", "--theta", "1", "--biases", "yes", "--json"]


def text(delimiter, header=True):
    lines = [delimiter.join(map(str, line)) for line in zip(ROWS, COLS, STARS)]
    return "\n".join([delimiter.join(("user", "film", "stars"))] * header + lines) + "\n"


def zipped(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ratings.csv", text(","))


def parquet(path):
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"user": ROWS, "film": COLS, "stars": STARS}), path)


def netcdf(path):
    import xarray as xr

    xr.DataArray(dense(), dims=("user", "film"), name="stars").to_netcdf(path, engine="h5netcdf")


def dense():
    X = np.full((40, 25), np.nan)
    X[ROWS, COLS] = STARS
    return X


def sparse():
    return scipy.sparse.coo_matrix((STARS.astype(float), (ROWS, COLS)))


FORMATS = {
    "ratings.csv": lambda path: path.write_text(text(",")),
    "ratings.tsv": lambda path: path.write_text(text("\t")),
    "semicolon.txt": lambda path: path.write_text(text(";")),
    "ratings.dat": lambda path: path.write_text(text("::", header=False)),
    "bom.csv": lambda path: path.write_text(text(","), encoding="utf-8-sig"),
    "ratings.csv.gz": lambda path: path.write_bytes(gzip.compress(text(",").encode())),
    "ratings.dat.gz": lambda path: path.write_bytes(gzip.compress(text("::", header=False).encode())),
    "ratings.csv.xz": lambda path: path.write_bytes(lzma.compress(text(",").encode())),
    "ratings.csv.bz2": lambda path: path.write_bytes(bz2.compress(text(",").encode())),
    "ratings.zip": zipped,
    "ratings.parquet": parquet,
    "sparse.npz": lambda path: scipy.sparse.save_npz(path, sparse()),
    "triplets.npz": lambda path: np.savez(path, rows=ROWS, cols=COLS, values=STARS.astype(float)),
    "dense.npy": lambda path: np.save(path, dense()),
    "ratings.mtx": lambda path: scipy.io.mmwrite(path, sparse()),
    "ratings.nc": netcdf,
}


@pytest.fixture(scope="module")
def expected():
    import lorank

    model = lorank.MatrixCompletion(rank=2, lam=0.5, theta=1.0, biases=True, random_state=0)
    model.fit((ROWS, COLS, STARS.astype(float)))
    return -model.score(model.observations_)


@pytest.mark.parametrize("name", FORMATS)
def test_fit_reads(run, expected, name):
    FORMATS[name](Path(name))
    code, out, err = run("fit", name, *EXPLICIT)
    assert code == 0, err
    facts = json.loads(out)
    assert (facts["rows"], facts["columns"], facts["entries"]) == (40, 25, ROWS.size)
    assert facts["training_rmse"] == pytest.approx(expected, rel=0.01)


def test_named_columns_in_any_order_and_a_delimiter_that_is_given(run, expected):
    lines = [f"{stars}~x~{film}~{user}" for user, film, stars in zip(ROWS, COLS, STARS)]
    Path("odd.txt").write_text("\n".join(["stars~when~film~user", *lines]))
    words = ["--row", "user", "--col", "film", "--value", "stars", "--delimiter", "~"]
    code, out, err = run("fit", "odd.txt", *words, *EXPLICIT)
    assert code == 0, err
    assert json.loads(out)["training_rmse"] == pytest.approx(expected, rel=0.01)


def test_a_wide_table(run, expected):
    header = ",".join(["user", *(f"film {j}" for j in range(25))])
    cells = [",".join([f"user {i}", *("" if np.isnan(x) else f"{x:g}" for x in row)]) for i, row in enumerate(dense())]
    Path("wide.csv").write_text("\n".join([header, *cells]) + "\n")
    code, out, err = run("fit", "wide.csv", *EXPLICIT)
    assert code == 0, err
    assert "Taking wide.csv as a wide table: 40 rows, 25 columns." in err
    assert json.loads(out)["training_rmse"] == pytest.approx(expected, rel=0.01)
    assert run("recommend", "model.lorank", "--row", "user 3", "-n", 2)[1].startswith("row,column,score\nuser 3,film")
