"""Factors with ids, for other programs: Parquet, npz, or an index for nearest neighbours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lorank.errors import InputError
from lorank.files import replacing, write_npz
from lorank.memory import check_memory
from lorank.models.contents import Contents
from lorank.types import Array

FORMATS = (".parquet", ".npz", ".usearch")


def query(model: Contents, axis: int) -> Array:
    """Vectors (lines, width) in float32 whose inner products with those of the other side rank as predictions do.

    A row is (w_i, 1) and a column (h_j, b_j): their inner product is the prediction less what is the same for all
    columns of the row, its offsets.
    """
    factors = model.factors if axis == 0 else model.factors.transposed()
    width = factors.k + 1
    vectors = np.zeros((len(factors.left), width), np.float32)
    vectors[:, : factors.k] = np.asarray(factors.left)[:, : factors.k]
    if factors.biased:
        vectors[:, factors.k] = 1 if axis == 0 else np.asarray(factors.left)[:, factors.k]
    return vectors


def export(model: Contents, path: str | Path, axis: int = 1) -> None:
    """Write the vectors of the columns (rows with axis=0) with their ids, whole or not at all.

    The ending of the path says how: `.parquet` (columns `id` and `vector`, and titles), `.npz` (arrays `ids` and
    `vectors`), or `.usearch` (an index for nearest neighbours by inner product; beside it `.ids.npz` with the ids by
    the index's keys).
    """
    path, suffix = Path(path), Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise InputError(f"{path} should end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}.")
    vectors = query(model, axis)
    positions = np.arange(len(vectors))
    ids = model.names(positions, axis)
    if suffix == ".parquet":
        _parquet(path, ids, vectors, model.titles(positions, axis))
    elif suffix == ".npz":
        write_npz(path, {"ids": _plain(ids), "vectors": vectors})
    else:
        _index(path, ids, vectors)


def _plain(ids: Array) -> Array:
    """Ids that numpy saves without pickling: objects become text, with room for the longest in each."""
    if ids.dtype.kind != "O":
        return ids
    texts = [str(name) for name in ids]
    if any(text.endswith("\0") for text in texts):
        raise InputError("An id ends in a null character, which numpy would drop; export to .parquet.")
    check_memory(4 * len(texts) * max(map(len, texts), default=0), "Ids of so different lengths", "export to .parquet")
    return np.array(texts, str)


def _parquet(path: Path, ids: Array, vectors: Array, titles: dict[str, Array]) -> None:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install 'lorank[tables]'.") from None
    flat = pa.array(np.ascontiguousarray(vectors).ravel())
    columns: dict[str, Any] = {
        "id": [str(name) for name in ids] if ids.dtype.kind == "O" else ids,
        "vector": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]),
    }
    columns |= {name: texts.tolist() for name, texts in titles.items() if name not in columns}
    with replacing(path) as beside:
        parquet.write_table(pa.table(columns), beside)


def _index(path: Path, ids: Array, vectors: Array) -> None:
    try:
        from usearch.index import Index
    except ImportError:
        raise ImportError("An index for nearest neighbours needs usearch: pip install 'lorank[index]'.") from None
    index = Index(ndim=vectors.shape[1], metric="ip", dtype="f32")
    index.add(np.arange(len(vectors)), vectors)
    with replacing(path) as beside:
        index.save(str(beside))
    names = path.with_suffix(".ids.npz")
    write_npz(names, {"ids": _plain(ids)})
