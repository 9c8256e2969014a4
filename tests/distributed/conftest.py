"""One Ray for all tests here: starting it takes longer than most of them."""

from importlib.util import find_spec

import pytest

from lorank.datasets import synthetic


@pytest.fixture(scope="session")
def session():
    if find_spec("ray") is None:  # not imported here: lorank has to be there first
        pytest.skip("ray is not installed")
    from lorank.distributed import open_ray

    with open_ray(cpus=4, store_bytes=200 << 20):
        yield


@pytest.fixture(scope="module")
def data():
    return synthetic(m=300, n=220, rank=3, seed=1)


@pytest.fixture
def folder(data, tmp_path):
    """Three Parquet files with the columns u, i and v."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (tmp_path / "data").mkdir()
    for number in range(3):
        part = slice(number, None, 3)
        table = {"u": data.train.rows[part], "i": data.train.cols[part], "v": data.train.values[part]}
        pq.write_table(pa.table(table), tmp_path / "data" / f"{number}.parquet")
    return tmp_path / "data"
