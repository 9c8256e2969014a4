"""Good files of every format, to be damaged."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np


def entries() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((12, 9)) < 0.6)
    return rows, cols, np.round(rng.normal(size=rows.size), 3)


def long_csv(folder: Path) -> Iterator[bytes]:
    rows, cols, values = entries()
    lines = [f"u{i},{j},{v}" for i, j, v in zip(rows, cols, values)]
    yield ("user,item,value\n" + "\n".join(lines) + "\n").encode()
    yield "\n".join(f'"ü {i}";{j};{v}' for i, j, v in zip(rows, cols, values)).encode()
    yield b"\xef\xbb\xbf" + "\r\n".join(f"{i}::{j}::{v}" for i, j, v in zip(rows, cols, values)).encode()


def wide_csv(folder: Path) -> Iterator[bytes]:
    rng = np.random.default_rng(1)
    cells = [["", *(f"c{j}" for j in range(6))]]
    cells += [
        [f'"r,{i}"', *("NA" if rng.random() < 0.2 else f"{rng.normal():.4g}" for _ in range(6))] for i in range(9)
    ]
    yield "\n".join(",".join(line) for line in cells).encode()
    yield "\r\n".join("\t".join(line[1:]) for line in cells[1:]).encode()


def other_habits(folder: Path) -> Iterator[bytes]:
    rows, cols, values = entries()
    lines = [f"ü{i};{j};{v}".replace(".", ",") for i, j, v in zip(rows, cols, values)]
    yield ("# ratings\nuser;item;value\n" + "\n".join(lines) + "\nu;1;missing\n").encode("latin-1")


def json_lines(folder: Path) -> Iterator[bytes]:
    records = [{"user": f"u{i}", "item": int(j), "value": float(v)} for i, j, v in zip(*entries())]
    yield "\n".join(map(json.dumps, records)).encode()
    yield json.dumps(records).encode()


def packed_csv(folder: Path) -> Iterator[bytes]:
    yield from (gzip.compress(content, mtime=0) for content in long_csv(folder))


def zipped_csv(folder: Path) -> Iterator[bytes]:
    for content in long_csv(folder):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.csv", content)
        yield out.getvalue()


def excel(folder: Path) -> Iterator[bytes]:
    from openpyxl import Workbook

    book = Workbook(write_only=True)
    sheet = book.create_sheet("ratings")
    sheet.append(["user", "item", "value"])
    for i, j, v in zip(*entries()):
        sheet.append([f"u{i}", int(j), float(v)])
    book.save(folder / "a.xlsx")
    yield (folder / "a.xlsx").read_bytes()


def parquet_files(folder: Path) -> Iterator[bytes]:
    import pyarrow as pa
    from pyarrow import parquet

    rows, cols, values = entries()
    ids = [pa.array(rows), pa.array([f"i{j}" for j in cols]), pa.array(rows.astype("datetime64[D]"))]
    for number, (row, col) in enumerate(((ids[0], ids[1]), (ids[1].dictionary_encode(), ids[0]), (ids[2], ids[1]))):
        table = pa.table({"row": row, "col": col, "value": values})
        parquet.write_table(table, folder / f"{number}.parquet", compression=["none", "snappy", "gzip"][number])
        yield (folder / f"{number}.parquet").read_bytes()
    wide = {"name": [f"r{i}" for i in range(9)], **{f"c{j}": np.arange(9.0) + j for j in range(4)}}
    parquet.write_table(pa.table(wide), folder / "wide.parquet")
    yield (folder / "wide.parquet").read_bytes()


def npz(folder: Path) -> Iterator[bytes]:
    from scipy import sparse

    rows, cols, values = entries()
    matrix = sparse.coo_array((values, (rows, cols)), shape=(12, 9))
    for packed in (False, True):
        for kind in ("csr", "csc", "coo", "bsr", "dia"):
            sparse.save_npz(folder / "a.npz", matrix.asformat(kind), compressed=packed)
            yield (folder / "a.npz").read_bytes()
    np.savez(folder / "a.npz", rows=rows, cols=np.array([f"i{j}" for j in cols]), values=values)
    yield (folder / "a.npz").read_bytes()


def npy(folder: Path) -> Iterator[bytes]:
    X = np.random.default_rng(0).normal(size=(7, 5))
    X[1, 2] = np.nan
    for array in (X, X.astype(">f4"), np.asfortranarray(X), X.astype(object).astype(float)):
        np.save(folder / "a.npy", array)
        yield (folder / "a.npy").read_bytes()


def matrix_market(folder: Path) -> Iterator[bytes]:
    from scipy import io as scipy_io
    from scipy import sparse

    rows, cols, values = entries()
    matrix = sparse.coo_array((values, (rows, cols)), shape=(12, 9))
    square = (matrix @ matrix.T).tocoo()
    for given, more in (
        (matrix, {}),
        (matrix.toarray(), {}),
        (square, {"symmetry": "symmetric"}),
        (matrix, {"field": "pattern"}),
    ):
        scipy_io.mmwrite(folder / "a.mtx", given, **more)
        yield (folder / "a.mtx").read_bytes()


def netcdf(folder: Path) -> Iterator[bytes]:
    import xarray

    X = np.random.default_rng(0).normal(size=(5, 4))
    data = xarray.Dataset({"tas": (("station", "time"), X)}, {"station": np.arange(5), "time": np.arange(4.0)})
    for engine in ("h5netcdf", "scipy"):
        data.to_netcdf(folder / "a.nc", engine=engine)
        yield (folder / "a.nc").read_bytes()


def zarr_stores(folder: Path) -> Iterator[dict[str, bytes]]:
    """The files of a store of each format, by their names within it."""
    import xarray

    X = np.random.default_rng(0).normal(size=(5, 4))
    data = xarray.Dataset({"tas": (("station", "time"), X)}, {"station": np.arange(5), "time": np.arange(4.0)})
    for number in (2, 3):
        store = folder / f"{number}.zarr"
        data.to_zarr(store, zarr_format=number, consolidated=False)
        files = sorted(path for path in store.rglob("*") if path.is_file())
        yield {str(path.relative_to(store)): path.read_bytes() for path in files}


def side_table(folder: Path) -> Iterator[bytes]:
    yield b"id,title,year,genre\n" + b"".join(b"%d,T%d,%d,drama\n" % (i, i, 1990 + i) for i in range(9))
    yield "\n".join(f'"ü{i}"\t"a ""b"" {i}"\tNA' for i in range(9)).encode()


def side_parquet(folder: Path) -> Iterator[bytes]:
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"id": range(9), "title": list("abcdefghi"), "year": [None, *range(8)]}), folder / "p")
    yield (folder / "p").read_bytes()


def models(folder: Path) -> Iterator[bytes]:
    """Models with biases, ids, titles, weights, features, a graph, draws, levels: whatever a file can hold."""
    from scipy import sparse

    import lorank
    from lorank.side_information import Features, GraphLaplacian

    rows, cols, values = entries()
    names = np.array([f"r{i}" for i in range(12)])
    ages = Features(np.arange(24.0).reshape(12, 2))
    chain = GraphLaplacian.from_adjacency(sparse.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(9, 9)))
    weights = 1 + rows % 3.0
    kinds: list[tuple[dict[str, Any], Any, Any]] = [
        ({"biases": True}, values, weights),
        ({"col_side": chain}, values, None),
        ({"max_iter": 8, "row_side": ages}, values, None),
        ({"max_iter": 8, "loss": "ordinal"}, np.clip(np.round(values), -1, 1) + 2, None),
    ]
    for method, (more, own, weight) in zip(("nnfn", "nnfn", "bpmf", "bpmf"), kinds):
        seen = lorank.Observations.from_coo(rows, cols, own, (12, 9), names, None, weight)
        fitted = lorank.MatrixCompletion(method, rank=2, lam=0.1, random_state=0, **more)
        fitted.fit(seen, validation=0.2).save(folder / "a.lorank")
        yield (folder / "a.lorank").read_bytes()


def shards(folder: Path) -> dict[str, bytes]:
    import lorank

    (folder / "b.lorank").write_bytes(next(models(folder)))
    model = lorank.load(folder / "b.lorank")
    model.save(folder / "shards", shards=True)
    return {file.name: file.read_bytes() for file in sorted((folder / "shards").iterdir())}


_X = np.random.default_rng(0).normal(size=(9, 7))
# Solvers whose states are of different kinds.
FITS = ({"method": "nnfn"}, {"method": "bpmf"}, {"method": "nuclear"}, {"method": "nnfn", "biases": True})


def checkpoints(folder: Path) -> Iterator[bytes]:
    def stop(progress: Any) -> None:
        if progress.iteration == 3:
            raise KeyboardInterrupt

    for more in FITS:
        go_on(folder / "c", stop, **more)
        yield (folder / "c").read_bytes()
        (folder / "c").unlink()


def go_on(path: Path, *callbacks: Any, **more: Any) -> None:
    import lorank

    fit = lorank.MatrixCompletion(rank=2, lam=0.1, max_iter=5, tol=0, random_state=0, **more)
    fit.fit(_X, checkpoint=path, callbacks=callbacks)


def block(folder: Path) -> bytes:
    part = write_block(folder / "part")
    return Path(part.path).read_bytes()


def write_block(path: Path) -> Any:
    import lorank
    from lorank.distributed.parts import PartFile

    return PartFile.write(path, lorank.Observations.from_coo(*entries(), (12, 9)).by_row)


def folder_of_parquet(folder: Path) -> list[bytes]:
    return list(parquet_files(folder))[:3]
