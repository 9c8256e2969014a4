"""New rows and columns, more observations, and ids that were never seen."""

import numpy as np
import pytest
import scipy.sparse as sp

from lorank import InputError, MatrixCompletion, Observations
from lorank.models.updating import updated
from lorank.observations import observe


def fit(X, **params):
    defaults = {"rank": 3, "lam": 0.5, "random_state": 0, "tol": 1e-12, "max_iter": 3000}
    return MatrixCompletion(**{**defaults, **params}).fit(X)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"theta": 0.5, "biases": True},
        {"method": "factored-nuclear", "biases": True},
        {"method": "nuclear"},
        {"method": "nnfn-prox", "theta": 0.5},
        {"method": "mf"},
    ],
    ids=str,
)
def test_training_rows_come_back_as_they_were(table, axis, params):
    holes, _ = table
    model = fit(holes, **params)
    some = (slice(5, 25), slice(None)) if axis == 0 else (slice(None), slice(3, 9))
    folded = model.fold_in(holes[some], axis=axis)
    np.testing.assert_allclose(folded.result_.factors.dense(), model.result_.factors.dense()[some], atol=2e-4)


def test_rows_of_the_same_matrix_are_recovered(small_problem):
    rng = np.random.default_rng(0)
    whole = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 80))
    model = fit(whole[:200], lam=0.01)
    holes = np.where(rng.random((100, 80)) < 0.5, np.nan, whole[200:])
    filled = model.fold_in(sp.csr_array(np.nan_to_num(holes))).complete()
    np.testing.assert_allclose(filled, whole[200:], atol=0.01)
    # All at once is the same as one by one.
    one = model.fold_in(holes[7:8]).result_.factors.W
    np.testing.assert_allclose(one[0], model.fold_in(holes).result_.factors.W[7], rtol=1e-10)


def test_columns_are_matched_by_id():
    rng = np.random.default_rng(0)
    whole = np.outer(rng.standard_normal(40), rng.standard_normal(6)) + 2
    names = np.array(list("abcdef"))
    rows, cols = np.nonzero(np.ones((40, 6)))
    model = fit(([f"u{i}" for i in rows], names[cols], whole.ravel()), rank=1, biases=True, lam=0.01)
    new = model.fold_in(
        (["ann"] * 3 + ["bob"] * 2, list("fdb") + list("af"), [*whole[3, [5, 3, 1]], *whole[8, [0, 5]]])
    )
    np.testing.assert_allclose(new.predict("ann", names), whole[3], atol=0.1)
    assert new.observations_.row_ids.values.tolist() == ["ann", "bob"]
    with pytest.raises(InputError, match="Unknown column 'z'"):
        model.fold_in((["ann"], ["z"], [1.0]))
    with pytest.raises(InputError, match="Unknown row 'u3'"):
        new.predict("u3", "a")


def test_a_new_row_of_nothing_but_one_value_leans_on_the_biases(table):
    holes, _ = table
    model = fit(holes + 7, biases=True, lam=5.0)
    assert model.fold_in(([0], [4], [8.0])).complete()[0, 4] == 8.0
    empty = model.fold_in(Observations.from_coo([1], [4], [8.0], (2, 20)))
    np.testing.assert_allclose(empty.result_.factors.dense()[0], model.offset_ + model.col_bias_)


def test_wrong_shapes_are_refused(table):
    holes, _ = table
    model = fit(holes)
    with pytest.raises(InputError, match="21 columns and the model 20"):
        model.fold_in(np.ones((2, 21)))
    with pytest.raises(InputError, match="axis is 0"):
        model.fold_in(np.ones((2, 20)), axis=2)


def test_partial_fit_is_fit_on_the_union(table):
    holes, whole = table
    rng = np.random.default_rng(1)
    more = np.where(rng.random(holes.shape) < 0.2, whole + 0.5, np.nan)
    union = np.where(np.isnan(more), holes, more)
    for biases in (False, True):
        model = fit(holes, biases=biases)
        before = model.result_.objective
        model.partial_fit(more)
        again = fit(union, biases=biases)
        assert model.observations_.nnz == again.observations_.nnz
        assert model.result_.objective == pytest.approx(again.result_.objective, rel=1e-4)
        assert model.result_.objective != pytest.approx(before, rel=1e-3)
        np.testing.assert_allclose(model.complete(), again.complete(), atol=0.02)


def test_partial_fit_starts_from_where_it_was(table):
    holes, _ = table
    model = MatrixCompletion(rank=3, lam=0.5, random_state=0, tol=1e-6).fit(holes)
    assert model.partial_fit(holes).n_iter_ <= 2
    fresh = MatrixCompletion(rank=3, lam=0.5, random_state=0).partial_fit(holes)
    assert fresh.n_iter_ > 2


def test_partial_fit_takes_in_new_rows_and_columns(table):
    """By id: the same as a fit of everything at once; what is new comes last."""
    holes, _ = table
    m, n = holes.shape
    names = np.array([f"r{i}" for i in range(m)]), np.array([f"c{j}" for j in range(n)])
    rows, cols = np.nonzero(~np.isnan(holes))
    first = (rows < m - 3) & (cols < n - 2)
    parts = [(names[0][rows[part]], names[1][cols[part]], holes[rows[part], cols[part]]) for part in (first, ~first)]
    model = fit(Observations.from_ids(*parts[0]))
    titled = MatrixCompletion.from_model(model.model_.with_titles({"id": names[1][:2], "title": ["a", "b"]}))
    titled.partial_fit(Observations.from_ids(*parts[1]))
    assert titled.model_.shape == (m, n)
    assert titled.model_.entries == rows.size
    assert titled.model_.row_ids.values.tolist()[-3:] == names[0][-3:].tolist()
    assert len(titled.model_.col_titles["title"]) == n
    whole = fit(titled.observations_)
    assert titled.result_.objective == pytest.approx(whole.result_.objective, rel=1e-4)
    expected = whole.predict(names[0][rows], names[1][cols])
    np.testing.assert_allclose(titled.predict(names[0][rows], names[1][cols]), expected, atol=0.02)


def test_new_lines_have_intervals_and_positions_grow_too(table):
    holes, _ = table
    model = MatrixCompletion(rank=3, lam=0.5, random_state=0).fit(holes[:-2], validation=0.2)
    model.partial_fit(holes)
    assert model.model_.shape == holes.shape
    assert np.isfinite(model.predict([len(holes) - 1], [0], interval=0.5)[2]).all()
    with pytest.raises(InputError, match="both have row ids, or neither"):
        model.partial_fit((["c"], ["x"], [1.0]))


def test_the_newer_value_wins():
    older = observe((np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([1.0, 2.0, 3.0])))
    newer = Observations.from_coo([0, 1], [1, 0], [9.0, 0.0], (2, 2))
    np.testing.assert_array_equal(updated(older, newer).to_sparse().toarray(), [[1, 9], [0, 3]])
    assert updated(older, newer).nnz == 4


def test_unseen_ids(table):
    holes, _ = table
    rows, cols = np.nonzero(~np.isnan(holes))
    named = ([f"r{i}" for i in rows], [f"c{j}" for j in cols], holes[rows, cols] + 5)
    model = fit(named, biases=True)
    b = dict(zip(model.observations_.col_ids.values, model.col_bias_))
    predicted = model.predict(["r1", "new", "r1", "new"], ["c2", "c2", "new", "new"], unseen="bias")
    assert predicted[0] == fit(named, biases=True).predict("r1", "c2")[0]
    assert predicted[1] == pytest.approx(model.offset_ + b["c2"])
    a = dict(zip(model.observations_.row_ids.values, model.row_bias_))
    assert predicted[2] == pytest.approx(model.offset_ + a["r1"])
    assert predicted[3] == pytest.approx(model.offset_)
    assert fit(named).predict("new", "c2", unseen="bias")[0] == pytest.approx(np.nanmean(holes + 5))
    with pytest.raises(InputError, match="Unknown row 'new'"):
        fit(named).predict("new", "c2")


def test_unseen_positions(table):
    holes, _ = table
    model = fit(holes, biases=True)
    assert model.predict(60, 3, unseen="bias")[0] == pytest.approx(model.offset_ + model.col_bias_[3])
    with pytest.raises(InputError, match="There is no row -1"):
        model.predict(-1, 3, unseen="bias")
    with pytest.raises(InputError, match="There is no row 60"):
        model.predict(60, 3)
    with pytest.raises(InputError, match="unseen must be"):
        model.predict(0, 0, unseen="guess")


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_sampled_model_takes_in_rows_and_columns_with_their_intervals(table, biases, axis):
    holes, full = table
    if axis == 1:
        holes, full = holes.T, full.T
    old, new = (
        (slice(0, 45), slice(45, None)) if axis == 0 else ((slice(None), slice(0, 45)), (slice(None), slice(45, None)))
    )
    model = MatrixCompletion("bpmf", rank=3, biases=biases, max_iter=150, random_state=0).fit(holes[old])
    folded = model.fold_in(holes[new], axis=axis)
    missing = np.nonzero(np.isnan(holes[new]))
    truth = full[new][missing]
    mean, lower, upper = folded.predict(*missing, interval=0.9)
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.3 * truth.std()
    # The truth is without noise, so that ranges for further values hold more of it.
    assert np.mean((lower <= truth) & (truth <= upper)) > 0.85
    again = model.fold_in(holes[old], axis=axis)
    assert np.sqrt(np.mean((again.result_.factors.dense() - model.result_.factors.dense()) ** 2)) < 0.1 * full.std()
