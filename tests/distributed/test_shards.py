"""Models of folders, saved as one file or as shards: what they predict, recommend and refuse."""

import json

import numpy as np
import pytest

import lorank
from lorank.datasets import synthetic
from lorank.distributed import fit, open_shards, save_shards, sharded, shards
from lorank.errors import InputError
from lorank.models.recommending import recommend

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet")

PARAMS = {"row": "user", "col": "item", "value": "rating", "rank": 2, "lam": 1.0, "backend": "out-of-core"}


@pytest.fixture(scope="module")
def entries():
    data = synthetic(m=120, n=90, rank=2, seed=4).train
    users = np.array([f"é{i:x}" for i in range(120)])[data.rows]
    return users, 7 * data.cols.astype(np.int64) + 3, data.values


@pytest.fixture(scope="module")
def folder(entries, tmp_path_factory):
    made = tmp_path_factory.mktemp("data")
    users, items, ratings = entries
    for number in range(2):
        part = slice(number, None, 2)
        table = pa.table({"user": users[part], "item": items[part], "rating": ratings[part]})
        pq.write_table(table, made / f"{number}.parquet")
    return made


@pytest.fixture
def small(monkeypatch):
    """Shards, tiles and blocks of rows so small that there are many of each."""
    monkeypatch.setattr(shards.save_shards, "__defaults__", (None, 17))
    monkeypatch.setattr(sharded, "ROWS_AT_ONCE", 11)
    monkeypatch.setattr(sharded, "COLUMNS_AT_ONCE", 5)
    monkeypatch.setattr(sharded, "SEEN_AT_ONCE", 40)


def together(rankings):
    return tuple(np.concatenate(parts) for parts in zip(*rankings))


@pytest.mark.parametrize("validation", [0.0, 0.3])
@pytest.mark.parametrize("biases", [False, True])
def test_shards_answer_as_one_file_does(folder, entries, tmp_path, small, biases, validation):
    params = {**PARAMS, "biases": biases, "validation": validation}
    model = fit(folder, **params, output=tmp_path / "model")
    fit(folder, **params, output=tmp_path / "model.lorank")
    one, many = lorank.load(tmp_path / "model.lorank"), open_shards(tmp_path / "model")
    users, items, _ = entries
    assert one.observations_.nnz == users.size
    assert many.shape == one.observations_.shape == model.shape == (120, 90)
    np.testing.assert_array_equal(many.predict(users, items), one.predict(users, items))
    np.testing.assert_array_equal(many.predict(users, items), model.predict(users, items))
    for seen in (False, True):
        expected = recommend(one, n=4, seen=seen)
        rows, cols, scores = together(many.recommend(n=4, seen=seen))
        assert rows.tolist() == expected.rows.tolist()
        np.testing.assert_allclose(scores, expected.scores, rtol=1e-12)
        assert cols.tolist() == expected.cols.tolist()
    known = set(zip(users.tolist(), items.tolist()))
    rows, cols, _ = together(many.recommend(n=90))
    assert not known & set(zip(rows.tolist(), cols.tolist()))
    assert len(known) + rows.size == 120 * 90
    chosen = together(many.recommend(["é7", "é3"], n=3))
    assert chosen[0].tolist() == ["é7"] * 3 + ["é3"] * 3
    assert chosen[1].tolist() == recommend(one, ["é7", "é3"], 3).cols.tolist()


@pytest.mark.parametrize("biases", [False, True])
def test_ids_that_are_not_known(folder, tmp_path, small, biases):
    model = fit(folder, **PARAMS, biases=biases)
    model.save(tmp_path / "model")
    model.save(tmp_path / "model.lorank")
    one, many = lorank.load(tmp_path / "model.lorank").set_params(unseen="bias"), open_shards(tmp_path / "model")
    rows, cols = np.array(["é1", "nobody", "é1", "nobody"]), np.array([3, 10, 4, 4])
    np.testing.assert_allclose(many.predict(rows, cols, unseen="bias"), one.predict(rows, cols), rtol=1e-14)
    mixed = np.array([3, "word"], object)
    np.testing.assert_allclose(many.predict("é1", mixed, unseen="bias"), one.predict("é1", mixed), rtol=1e-14)
    with pytest.raises(InputError, match="Unknown row 'nobody'"):
        many.predict(rows, cols)
    with pytest.raises(InputError, match="Unknown column 4"):
        many.predict("é1", [4])
    with pytest.raises(InputError, match="Ids of cols are numbers"):
        many.predict("é1", ["3"])
    with pytest.raises(InputError, match="Unknown row 'nobody'"):
        next(many.recommend(["nobody"], seen=True))
    with pytest.raises(InputError, match="saved without its data"):
        next(many.recommend())
    assert next(many.recommend(["é1"], n=200, seen=True)).cols.size == 90


def test_what_is_damaged_or_in_the_way(folder, entries, tmp_path, small):
    users, items, _ = entries
    model = fit(folder, **PARAMS, output=tmp_path / "model")
    fit(folder, **PARAMS, output=tmp_path / "model")  # an older model is replaced
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
    (tmp_path / "model" / "row-0.npy").unlink()
    with pytest.raises(InputError, match=r"row-0\.npy is gone"):
        open_shards(tmp_path / "model").predict(users, items)
    manifest = tmp_path / "model" / "manifest.json"
    manifest.write_text(json.dumps({"format": "lorank shards 9"}))
    with pytest.raises(InputError, match="shards 9"):
        open_shards(tmp_path / "model")
    manifest.write_text("{")
    with pytest.raises(InputError, match="manifest is damaged"):
        open_shards(tmp_path / "model")
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "letter").touch()
    with pytest.raises(InputError, match="not a lorank model"):
        save_shards(model, tmp_path / "papers")
    with pytest.raises(InputError, match="not a lorank model"):  # before anything is computed
        fit(tmp_path / "nowhere", **PARAMS, output=tmp_path / "papers")
