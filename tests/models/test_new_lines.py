"""Rows and columns that are not there yet, predicted from their features; what files keep for it."""

import numpy as np
import pytest
import scipy.sparse as sp

import lorank
from lorank import InputError, MatrixCompletion
from lorank.models import shards
from lorank.observations import Observations

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FITS = {
    "nnfn": {"rank": 2, "lam": 1.0, "theta": 0.5, "biases": True, "tol": 1e-10, "max_iter": 2000, "random_state": 0},
    "bpmf": {"rank": 2, "biases": True, "max_iter": 150, "random_state": 0},
}


def data(m=220, n=60, share=0.15, noise=0.3, seed=0):
    """Features of rows, the whole matrix, whose rows follow them, and what was seen."""
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((m, 3))
    X = F @ rng.standard_normal((3, 2)) @ rng.standard_normal((2, n)) + 3 + F[:, :1]
    return F, X, np.where(rng.random((m, n)) < share, X + noise * rng.standard_normal((m, n)), np.nan)


def error(model, X):
    return float(np.sqrt(np.mean((model.predictor.dense() - X) ** 2)))


@pytest.mark.parametrize("method", FITS)
@pytest.mark.parametrize("axis", [0, 1])
def test_new_lines_from_features_alone(method, axis):
    F, X, seen = data()
    known, new = slice(0, 200), slice(200, 220)
    side = {("row_side", "col_side")[axis]: F[known]}
    turn = (lambda A: A) if axis == 0 else (lambda A: A.T)
    model = MatrixCompletion(method, **FITS[method], **side).fit(turn(seen[known])).model_
    folded = model.fold_in(axis=axis, features=F[new])
    assert folded.shape == turn(X[new]).shape
    spread = np.sqrt(np.mean((X - X.mean()) ** 2))
    assert error(folded, turn(X[new])) < 0.15 * spread
    # Entries and features together are better than either alone.
    rng = np.random.default_rng(1)
    few = np.where(rng.random((20, 60)) < 0.05, X[new] + 0.3 * rng.standard_normal((20, 60)), np.nan)
    few[:, 0] = X[new][:, 0]
    both = error(model.fold_in(turn(few), axis, features=F[new]), turn(X[new]))
    entries = error(model.fold_in(turn(few), axis), turn(X[new]))
    assert both < 0.7 * entries
    assert method == "nnfn" or both < 1.1 * error(folded, turn(X[new]))
    assert "folded" in folded.result.message
    assert "nan" in repr(folded)


@pytest.mark.parametrize("sides", ["row", "implicit", "both"])
@pytest.mark.parametrize("axis", [0, 1])
def test_training_lines_come_back(sides, axis):
    """New lines satisfy the equations of the fit."""
    F, _, seen = data(60, 30)
    given = {"features": None if sides == "row" else "implicit", "row_side": None if sides == "implicit" else F}
    model = MatrixCompletion(**FITS["nnfn"], **given).fit(seen).model_
    features = F[:9] if sides != "implicit" and axis == 0 else None
    folded = model.fold_in(seen[:9] if axis == 0 else seen[:, :9], axis, features=features)
    whole = model.factors.dense()
    np.testing.assert_allclose(folded.factors.dense(), whole[:9] if axis == 0 else whole[:, :9], atol=2e-4)


def test_intervals_of_new_rows_hold_what_they_say():
    F, X, seen = data(share=0.2)
    model = MatrixCompletion("bpmf", **FITS["bpmf"], row_side=F[:200]).fit(seen[:200]).model_
    folded = model.fold_in(features=F[200:])
    rows, cols = np.divmod(np.arange(20 * 60), 60)
    values = X[200:].ravel() + 0.3 * np.random.default_rng(2).standard_normal(1200)
    lower, upper = folded.interval(rows, cols, 0.9)
    assert 0.86 < np.mean((lower <= values) & (values <= upper)) < 0.97
    assert np.mean(upper - lower) < 2.5 * 2 * 1.645 * 0.3


@pytest.mark.parametrize("axis", [0, 1])
def test_new_lines_are_as_noisy_as_those_that_are_known(axis):
    """The noise differs from line to line, by a factor of ten: intervals of new ones hold what they say on average."""
    rng = np.random.default_rng(0)
    m, n, known = 420, 60, 220
    X = rng.standard_normal((m, 2)) @ rng.standard_normal((2, n))
    values = X + 0.5 * rng.standard_normal((m, n)) / np.sqrt(rng.gamma(1.5, 1 / 1.5, (m, 1)))
    seen = np.where(rng.random((m, n)) < 0.4, values, np.nan)
    turn = (lambda A: A) if axis == 0 else (lambda A: A.T)
    folded = MatrixCompletion("bpmf", **FITS["bpmf"]).fit(turn(seen[:known])).model_.fold_in(turn(seen[known:]), axis)
    rows, cols = np.nonzero(np.isnan(turn(seen[known:])))
    lower, upper = folded.interval(rows, cols, 0.9)
    at = turn(values[known:])[rows, cols]
    assert np.mean((lower <= at) & (at <= upper)) == pytest.approx(0.9, abs=0.02)


def frame(F, ids):
    pd = pytest.importorskip("pandas")
    kinds = np.where(F[:, 2] > 0, "warm", "cold")
    return pd.DataFrame({"a": F[:, 0], "b": F[:, 1], "c": F[:, 2], "kind": kinds}, index=ids)


@pytest.mark.parametrize("method", FITS)
def test_ids_that_only_features_know_are_predicted_and_ids_without_features_too(method):
    F, X, seen = data()
    names = np.array([f"u{i:03d}" for i in range(220)])
    rows, cols = np.nonzero(~np.isnan(seen[:200]))
    entries = Observations.from_ids(names[rows], cols, seen[:200][rows, cols])
    table = frame(F, names).iloc[5:]  # five have no features, twenty no entries
    model = MatrixCompletion(method, **FITS[method], row_side=table).fit(entries).model_
    assert model.shape == (220, 60)
    predicted = model.predict(np.repeat(names[200:], 60), np.tile(np.arange(60), 20)).reshape(20, 60)
    assert np.sqrt(np.mean((predicted - X[200:]) ** 2)) < 0.2 * X.std()
    assert np.isfinite(model.predict("u000", np.arange(60))).all()
    # And others that come later.
    later = model.fold_in(features=frame(F, names).iloc[[7, 8]].rename(index=lambda name: f"new {name}"))
    np.testing.assert_array_equal(later.row_ids.values, ["new u007", "new u008"])
    assert np.sqrt(np.mean((later.predictor.dense() - X[7:9]) ** 2)) < 0.25 * X.std()


@pytest.mark.parametrize("shards", [False, True])
@pytest.mark.parametrize("method", FITS)
def test_a_loaded_model_does_the_same(method, shards, tmp_path):
    F, _, seen = data(80, 30)
    names = np.array([f"u{i}" for i in range(80)])
    rows, cols = np.nonzero(~np.isnan(seen[:60]))
    entries = Observations.from_ids(names[rows], cols, seen[:60][rows, cols])
    estimator = MatrixCompletion(
        method, **FITS[method], row_side=[frame(F, names), sp.csr_array(np.eye(80)[:, :5])], features="implicit"
    ).fit(entries)
    path = tmp_path / "model.lorank"
    estimator.save(path, shards=shards)
    loaded = lorank.load(path)
    new = [frame(F, names)[10:13].rename(index=lambda name: "x" + name), sp.csr_array(np.ones((3, 5)))]
    few = Observations.from_ids(["xu10", "xu11"], [3, 4], [1.0, 2.0])
    for given in (None, few):
        one, two = (model.fold_in(given, features=new) for model in (estimator.model_, loaded))
        np.testing.assert_array_equal(one.row_ids.values, two.row_ids.values)
        assert one.factors.shape == (3, 30)
        np.testing.assert_allclose(one.predictor.dense(), two.predictor.dense(), rtol=1e-5, atol=1e-5)
    if method == "nnfn":
        again = MatrixCompletion.from_model(loaded).partial_fit(Observations.from_ids(["u70"], [2], [5.0]))
        plain = estimator.partial_fit(Observations.from_ids(["u70"], [2], [5.0]))
        np.testing.assert_allclose(again.model_.factors.dense(), plain.model_.factors.dense(), atol=1e-3)
        assert again.model_.features[0] is not None


@pytest.mark.parametrize("method", FITS)
def test_shards_answer_like_the_model_in_memory(method, tmp_path, monkeypatch):
    """Values, bounds and lists of lines that were there, of those that come later, and of what comes of both."""
    monkeypatch.setitem(shards.write.__kwdefaults__, "shard", 17)
    F, _, seen = data(60, 30)
    sides = {"row_side": F, "col_side": np.random.default_rng(4).standard_normal((30, 2)), "features": "implicit"}
    model = MatrixCompletion(method, **FITS[method], **sides).fit(seen, validation=0.1).model_
    model.save(tmp_path / "model", shards=True)
    there = lorank.load(tmp_path / "model")
    assert there.sharded
    assert len(list((tmp_path / "model").glob("row-[0-9].npy"))) == 4
    rows, cols = np.divmod(np.arange(0, 1800, 7), 30)
    new = data(66, 30, seed=5)[0][60:]
    pairs = [(model, there)]
    pairs += [tuple(one.fold_in(features=new) for one in (model, there))]
    pairs += [tuple(one.fold_in(seen[:6], features=new) for one in (model, there))]
    for one, two in pairs:
        inside = rows < one.shape[0]
        asked = rows[inside], cols[inside]
        np.testing.assert_allclose(two.predict(*asked), one.predict(*asked), rtol=1e-5)
        np.testing.assert_allclose(two.interval(*asked, 0.8), one.interval(*asked, 0.8), rtol=1e-4, atol=1e-4)
        for mine, other in zip(one.recommend([0, 5], n=4), two.recommend([0, 5], n=4)):
            np.testing.assert_allclose(np.asarray(other, float), np.asarray(mine, float), rtol=1e-5)
    assert {**there.describe()}.keys() == {**model.describe()}.keys()
    # Twice through a folder, and back into one file.
    there.save(tmp_path / "again", shards=True)
    lorank.load(tmp_path / "again").save(tmp_path / "model.lorank")
    back = lorank.load(tmp_path / "model.lorank").fold_in(features=new)
    np.testing.assert_allclose(back.predictor.dense(), pairs[1][0].predictor.dense(), rtol=1e-4, atol=1e-4)


def test_what_is_refused():
    F, _, seen = data(40, 20)
    plain = MatrixCompletion(rank=2, lam=1.0).fit(seen).model_
    with pytest.raises(InputError, match="fitted without features of its rows"):
        plain.fold_in(features=F)
    with pytest.raises(InputError, match="need entries or features"):
        plain.fold_in()
    model = MatrixCompletion(rank=2, lam=1.0, row_side=F).fit(seen).model_
    with pytest.raises(InputError, match="knows 3 features; 2 are given"):
        model.fold_in(features=F[:, :2])
    with pytest.raises(InputError, match="features of 3 new lines, and 2 new lines"):
        model.fold_in(seen[:2], features=F[:3])
    with pytest.raises(InputError, match="fitted with 1 tables of features; give as many"):
        model.fold_in(seen[:2], features=[F[:2], F[:2]])
    table = MatrixCompletion(rank=2, lam=1.0, row_side=frame(F, None)).fit(seen).model_
    with pytest.raises(InputError, match="lack 'kind'"):
        table.fold_in(features=frame(F, None).drop(columns="kind"))
    with pytest.raises(InputError, match="'a' is a number where the model was fitted, and text here"):
        table.fold_in(features=frame(F, None).assign(a="x"))
    unknown = table.fold_in(features=frame(F[:2], None).assign(kind=["warm", "hot"]))
    assert unknown.factors.is_finite()
