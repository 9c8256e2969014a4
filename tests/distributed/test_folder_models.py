"""Models of folders, saved as one file or as shards: what is written by a fit, and that both answer alike."""

import numpy as np
import pytest

import lorank
from lorank.datasets import synthetic
from lorank.distributed import fit, parts
from lorank.distributed.prepare import drawn
from lorank.errors import InputError
from lorank.models import recommending, shards
from lorank.models.intervals import calibrate
from lorank.serving import questions

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet")

PARAMS = {"row": "user", "col": "item", "value": "rating", "rank": 2, "lam": 1.0, "backend": "out-of-core"}


@pytest.fixture(scope="module")
def entries():
    data = synthetic(m=120, n=90, rank=2, seed=4).train
    users = np.array([f"é{i:x}" for i in range(120)])[data.rows]
    # Offsets, whose variances would take hundreds of rounds to vanish.
    rng = np.random.default_rng(0)
    offsets = rng.normal(size=120)[data.rows] + rng.normal(size=90)[data.cols]
    return users, 7 * data.cols.astype(np.int64) + 3, data.values + offsets


@pytest.fixture(scope="module")
def folder(entries, tmp_path_factory):
    made = tmp_path_factory.mktemp("data")
    users, items, ratings = entries
    for number in range(2):
        part = slice(number, None, 2)
        table = pa.table({"user": users[part], "item": items[part], "rating": ratings[part]})
        pq.write_table(table, made / f"{number}.parquet")
    return made


@pytest.fixture(autouse=True)
def few_parts(monkeypatch):
    """As many as show that there are several; each costs as much as its entries would if they were thousands."""
    monkeypatch.setattr(parts, "PARTS", 5)


@pytest.fixture
def small(monkeypatch):
    """Shards, tiles and blocks of rows so small that there are many of each."""
    monkeypatch.setitem(shards.write.__kwdefaults__, "shard", 17)
    monkeypatch.setattr(recommending, "TILE", 5)
    monkeypatch.setattr(recommending, "BLOCK", 55)
    monkeypatch.setattr(recommending, "SEEN_AT_ONCE", 40)


@pytest.mark.parametrize("validation", [0.0, 0.3])
@pytest.mark.parametrize("biases", [False, True])
def test_shards_answer_as_one_file_does(folder, entries, tmp_path, small, biases, validation):
    params = {**PARAMS, "biases": biases, "validation": validation}
    model = fit(folder, **params, output=tmp_path / "model")
    fit(folder, **params, output=tmp_path / "model.lorank")
    one, many = lorank.load(tmp_path / "model.lorank"), lorank.load(tmp_path / "model")
    assert (one.sharded, many.sharded) == (False, True)
    users, items, ratings = entries
    assert one.observations.nnz == many.observations.nnz == users.size
    assert many.shape == one.shape == model.shape == (120, 90)
    np.testing.assert_array_equal(many.predict(users, items), one.predict(users, items))
    np.testing.assert_array_equal(many.predict(users, items), model.predict(users, items))
    np.testing.assert_array_equal(many.complete(), one.complete())
    assert many.range == one.range == (ratings.min(), ratings.max())
    for seen in (False, True):
        expected, found = (which.recommend(n=4, seen=seen) for which in (one, many))
        assert found.rows.tolist() == expected.rows.tolist()
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-12)
        assert found.cols.tolist() == expected.cols.tolist()
    known = set(zip(users.tolist(), items.tolist()))
    rows, cols, _ = many.recommend(n=90)
    assert not known & set(zip(rows.tolist(), cols.tolist()))
    assert len(known) + rows.size == 120 * 90
    chosen = many.recommend(["é7", "é3"], n=3)
    assert chosen.rows.tolist() == ["é7"] * 3 + ["é3"] * 3
    assert chosen.cols.tolist() == one.recommend(["é7", "é3"], 3).cols.tolist()
    for which in ({"row": "é7"}, {"col": 10}):
        (names, cosines), (found, own) = (kind.similar(**which, n=5) for kind in (one, many))
        assert found.tolist() == names.tolist()
        np.testing.assert_allclose(own, cosines, rtol=1e-12)
    table = lorank.Observations.from_ids(users[:50], items[:50], ratings[:50])
    assert many.score(table) == one.score(table)
    new = (np.array(["new", "new"]), np.array([3, 10]), np.array([1.0, 2.0]))
    folded = [which.fold_in(new).predict("new", [3, 17]) for which in (many, one)]
    np.testing.assert_allclose(*folded, rtol=1e-12)  # Grams are sums of other blocks
    if validation:
        ranges = [which.predict("é7", [3, 17], interval=0.9) for which in (many, one)]
        np.testing.assert_allclose(*ranges, rtol=1e-6)  # scales are in single precision in shards
    else:
        with pytest.raises(InputError, match="Intervals need entries"):
            many.predict("é7", 3, interval=0.9)
    # Into one file and back.
    many.save(tmp_path / "again.lorank")
    np.testing.assert_array_equal(lorank.load(tmp_path / "again.lorank").complete(), one.complete())
    facts = [which.describe() for which in (one, many)]
    assert facts[0].keys() == facts[1].keys()
    assert facts[0]["singular_values"] == facts[1]["singular_values"]


def test_a_fit_of_a_folder_goes_on(folder, entries, tmp_path, small):
    """From shards as from one file, to the same bits; the model itself has left its data behind."""
    users, items, ratings = entries
    model = fit(folder, **PARAMS, max_iter=30, output=tmp_path / "model")
    fit(folder, **PARAMS, max_iter=30, output=tmp_path / "model.lorank")
    more = (users[:3], items[:3], ratings[:3] + 1)
    one, many = (
        lorank.MatrixCompletion.from_model(lorank.load(tmp_path / name)).partial_fit(
            lorank.Observations.from_ids(*more)
        )
        for name in ("model.lorank", "model")
    )
    np.testing.assert_array_equal(one.factors_[0], many.factors_[0])
    assert many.observations_.nnz == users.size
    assert many.observations_.values.dtype == np.float64
    with pytest.raises(InputError, match="saved without its data"):
        model.recommend(["é1"])
    with pytest.raises(InputError, match="range of the data is not known"):
        model.predict("é1", 3, clip=True)


@pytest.mark.parametrize("biases", [False, True])
def test_ids_that_are_not_known(folder, tmp_path, small, biases):
    model = fit(folder, **PARAMS, biases=biases)
    model.save(tmp_path / "model", shards=True)
    model.save(tmp_path / "model.lorank")
    one, many = lorank.load(tmp_path / "model.lorank"), lorank.load(tmp_path / "model")
    rows, cols = np.array(["é1", "nobody", "é1", "nobody"]), np.array([3, 10, 4, 4])
    for pairs in (
        (rows, cols),
        ("é1", np.array([3, "word"], object)),
        ("é1", ["3", "4"]),
        (np.array([1, "é1"], object), 3),
    ):
        expected, found = (which.predict(*pairs, unseen="bias") for which in (one, many))
        np.testing.assert_allclose(found, expected, rtol=1e-14)
    for which in (one, many):
        with pytest.raises(InputError, match="Unknown row 'nobody'"):
            which.predict(rows, cols)
        with pytest.raises(InputError, match="Unknown column 4"):
            which.predict("é1", [4])
        with pytest.raises(InputError, match="Unknown column '3'"):
            which.predict("é1", ["3"])
        with pytest.raises(InputError, match="Unknown row 'nobody'"):
            which.recommend(["nobody"], seen=True)
        with pytest.raises(InputError, match="saved without its data"):
            which.recommend()
        assert which.recommend(["é1"], n=200, seen=True).cols.size == 90


def test_intervals_are_those_of_a_fit_in_memory(folder, entries, small, tmp_path):
    """Scales and quantiles by the same held-out entries, from shards, from one file and from what fit gives back."""
    params = {**PARAMS, "validation": 0.2, "biases": True}
    back = fit(folder, **params, output=tmp_path / "model")
    one = fit(folder, **params, output=tmp_path / "model.lorank")
    many = lorank.load(tmp_path / "model")
    users, items, _ = entries
    kept = many.loaded().observations
    held = drawn(kept.rows, kept.cols, 0.2, 0)
    expected = calibrate([(many.loaded().factors, kept.subset(~held), kept.subset(held))], 0)
    for model in (back, many, one, lorank.load(tmp_path / "model.lorank"), many.loaded()):
        found = model.calibration
        assert found.count == expected.count
        np.testing.assert_allclose(np.asarray(found.row_scale), expected.row_scale, rtol=1e-6)
        np.testing.assert_allclose(np.asarray(found.col_scale), expected.col_scale, rtol=1e-6)
        np.testing.assert_allclose(found.ratios, expected.ratios, rtol=1e-6)
        lower, upper = model.interval(users[:50], items[:50], 0.8)
        wanted = expected.quantile(0.8) * expected.scale(*(model.find(n[:50], a) for a, n in enumerate((users, items))))
        np.testing.assert_allclose((upper - lower) / 2, wanted, rtol=1e-5)


def test_what_is_in_the_way(folder, tmp_path, small):
    model = fit(folder, **PARAMS, output=tmp_path / "model")
    fit(folder, **PARAMS, output=tmp_path / "model")  # an older model is replaced
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "letter").touch()
    with pytest.raises(InputError, match="not a lorank model"):
        model.save(tmp_path / "papers", shards=True)
    with pytest.raises(InputError, match="not a lorank model"):  # before anything is computed
        fit(tmp_path / "nowhere", **PARAMS, output=tmp_path / "papers")


@pytest.mark.parametrize("axis", [0, 1])
def test_new_lines_are_folded_in_as_in_memory_and_nothing_is_loaded(
    folder, entries, small, tmp_path, monkeypatch, axis
):
    fit(folder, **PARAMS, validation=0.2, biases=True, output=tmp_path / "model")
    many = lorank.load(tmp_path / "model")
    one = many.loaded()
    rng = np.random.default_rng(0)
    known = entries[1 - axis][rng.choice(entries[0].size, 12, replace=False)]
    known, new = np.unique(known), np.repeat(["a", "b", "c"], 4)[: np.unique(known).size]
    table = (new, known, rng.normal(size=known.size))
    table = table if axis == 0 else (known, new, table[2])
    asked = {"entries": [{"col": int(item), "value": 1.5} for item in np.unique(entries[1])[:4]], "n": 5}
    served = questions.fold_in(one, asked, questions.Limits())
    expected = one.fold_in(lorank.Observations.from_ids(*table), axis)
    monkeypatch.setattr(type(many), "loaded", None)
    found = many.fold_in(lorank.Observations.from_ids(*table), axis)
    assert found.sharded
    names = [["a", "b", "c", "a"], known[[0, 1, 2, 3]]][:: 1 if axis == 0 else -1]
    for level in (None, 0.9):
        answers = [np.stack(np.atleast_2d(model.predict(*names, interval=level))) for model in (found, expected)]
        np.testing.assert_allclose(*answers, rtol=1e-6)
    lists = [model.recommend(None if axis == 0 else known[:3], n=4) for model in (found, expected)]
    np.testing.assert_array_equal(lists[0].cols, lists[1].cols)
    again = questions.fold_in(many, asked, questions.Limits())
    assert [item["col"] for item in again["items"]] == [item["col"] for item in served["items"]]
