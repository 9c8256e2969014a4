"""MatrixCompletion and complete, as a user meets them."""

import pickle
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

import lorank
from lorank import InputError, MatrixCompletion, Observations
from lorank.errors import MemoryLimitError
from lorank.estimators import running


def test_completes_a_table(table):
    holes, whole = table
    model = MatrixCompletion(rank=5, lam=0.05, random_state=0).fit(holes)
    filled = model.complete()
    seen = ~np.isnan(holes)
    np.testing.assert_array_equal(filled[seen], holes[seen])
    assert np.abs(filled - whole)[~seen].max() < 0.1
    assert model.rank_ == 3
    assert model.result_.success
    assert model.score(whole) > -0.1
    W, H = model.factors_
    assert (W.shape, H.shape) == ((60, 5), (20, 5))
    assert model.singular_values_.shape == (5,)
    assert set(model.history_) == {"iteration", "seconds", "objective", "rank", "validation"}


@pytest.mark.parametrize("method", ["nnfn", "nnfn-prox", "factored-nuclear", "nuclear", "mf"])
def test_every_method_of_the_core(table, method):
    holes, whole = table
    model = MatrixCompletion(method, rank=3, lam=0.05, random_state=0, tol=1e-6).fit(holes)
    assert np.abs(model.complete() - whole).max() < 0.2


@pytest.mark.parametrize("method", ["nnfn", "nnfn-prox"])
def test_biases_take_the_offsets(table, method):
    holes, whole = table
    rng = np.random.default_rng(1)
    offsets = 50 + 5 * rng.standard_normal((60, 1)) + 5 * rng.standard_normal(20)
    options = {"rank": 3, "lam": 0.05, "random_state": 0, "max_iter": 3000, "tol": 1e-7}
    model = MatrixCompletion(method, biases=True, **options).fit(holes + offsets)
    assert np.abs(model.complete() - whole - offsets).max() < 0.2
    assert model.offset_ == pytest.approx(50, abs=5)
    assert model.row_bias_.std() > 2


def test_biases_are_a_joint_optimum(table):
    """Gradient of F by offset, row biases and column biases is zero at the solution."""
    holes, _ = table
    model = MatrixCompletion(rank=3, lam=0.7, biases=True, random_state=0, tol=1e-13, max_iter=5000).fit(holes + 3)
    rows, cols = model.setting_.bias_ridges
    assert rows != cols
    residual = np.where(np.isnan(holes), 0, model.result_.factors.dense() - holes - 3)
    np.testing.assert_allclose(residual.sum(axis=1) + rows * model.row_bias_, 0, atol=2e-3)
    np.testing.assert_allclose(residual.sum(axis=0) + cols * model.col_bias_, 0, atol=2e-3)
    assert residual.sum() + min(rows, cols) * (model.offset_ - np.nanmean(holes + 3)) == pytest.approx(0, abs=2e-2)


def test_predict_by_position_and_by_id():
    seen = Observations.from_ids(["a", "a", "b", "b"], [10, 20, 10, 30], [1.0, 2.0, 2.0, 6.0])
    model = MatrixCompletion(rank=1, lam=0.001, random_state=0).fit(seen)
    assert model.predict(["b"], [20]) == pytest.approx(4.0, abs=0.1)
    assert model.predict("a", [10, 20]).shape == (2,)
    with pytest.raises(InputError, match="Unknown row 'z'"):
        model.predict(["z"], [10])
    with pytest.raises(InputError, match="Unknown column 40"):
        model.predict(["a"], [40])
    positions = MatrixCompletion(rank=1, lam=0.001).fit(np.array([[1.0, 2.0], [2.0, np.nan]]))
    with pytest.raises(InputError, match="no column 5"):
        positions.predict([0], [5])
    with pytest.raises(InputError, match="no row -1"):
        positions.predict([-1], [0])
    with pytest.raises(InputError, match="As many rows as columns"):
        positions.predict([0, 1], [0, 1, 0])
    with pytest.raises(InputError, match="whole numbers"):
        positions.predict([0.5], [1])


def test_same_seed_same_bits_at_any_thread_count(small_problem):
    models = [
        MatrixCompletion(rank=5, lam=0.1, random_state=4, n_jobs=jobs).fit(small_problem.train)
        for jobs in (1, 2, None, -1)
    ]
    assert len({model.factors_[0].tobytes() for model in models}) == 1


def test_clone_params_pickle(table):
    model = MatrixCompletion(rank=3, lam=0.1, random_state=0).fit(table[0])
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(lam=2.0).lam == 2.0
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict([1, 2], [3, 4]), model.predict([1, 2], [3, 4]))


@pytest.mark.parametrize("library", [pd, pl])
def test_complete_gives_back_a_frame(table, library):
    holes, whole = table
    frame = library.DataFrame({f"c{j}": holes[:, j] for j in range(20)})
    # Columns are centred, which adds a direction.
    filled = lorank.complete(frame, rank=4, lam=0.05, random_state=0)
    assert type(filled) is type(frame)
    assert list(filled.columns) == list(frame.columns)
    assert np.abs(filled.to_numpy() - whole).max() < 0.2


def test_complete_keeps_a_pandas_index(table):
    frame = pd.DataFrame(table[0], index=[f"r{i}" for i in range(60)])
    assert lorank.complete(frame, rank=3, lam=0.05).index.equals(frame.index)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_complete_gives_back_a_sparse_matrix(table, kind):
    holes, whole = table
    filled = lorank.complete(kind(np.nan_to_num(holes)), rank=3, lam=0.05, random_state=0)
    assert type(filled) is kind
    assert np.abs(filled.toarray() - whole).max() < 0.2


def test_complete_gives_back_an_array(table):
    assert isinstance(lorank.complete(table[0], rank=4, lam=0.05), np.ndarray)


def test_large_matrices_are_not_made_dense():
    model = MatrixCompletion(rank=1, lam=0.1).fit(Observations.from_coo([0, 1], [0, 1], [1.0, 2.0], (10**6, 10**6)))
    with pytest.raises(MemoryLimitError, match=r"1000000 x 1000000 entries would take 7450\.6 GiB"):
        model.complete()


def test_validation_as_a_fraction_and_as_a_set(small_problem):
    model = MatrixCompletion(rank=5, lam=0.1, random_state=0).fit(small_problem.train, validation=0.2)
    assert model.observations_.nnz == small_problem.train.nnz - round(0.2 * small_problem.train.nnz)
    assert np.isfinite(model.history_["validation"]).all()
    MatrixCompletion(rank=5, lam=0.1).fit(small_problem.train, validation=small_problem.validation)
    with pytest.raises(InputError, match=r"3 x 3 matrix; 150 x 150 is needed"):
        MatrixCompletion(rank=2).fit(small_problem.train, validation=np.ones((3, 3)))


def test_start_from_another_model(small_problem):
    first = MatrixCompletion(rank=5, lam=0.1, random_state=0).fit(small_problem.train)
    again = MatrixCompletion(rank=5, lam=0.1, random_state=1).fit(small_problem.train, start=first)
    assert again.n_iter_ <= 2


def test_verbose_tells_on_standard_error(small_problem, capsys):
    MatrixCompletion(rank=3, lam=0.1, verbose=True).fit(small_problem.train)
    said = capsys.readouterr()
    assert "objective" in said.err
    assert said.out == ""


def test_not_fitted():
    with pytest.raises(NotFittedError):
        MatrixCompletion().predict([0], [0])


BAD_PARAMETERS = [
    ({"rank": 0}, "rank must be a whole number of at least 1"),
    ({"rank": 2.5}, "rank must be a whole number"),
    ({"lam": -1.0}, "lam"),
    ({"lam": float("nan")}, "lam"),
    ({"lam": "much"}, "lam must be a number"),
    ({"theta": 1.5}, "theta"),
    ({"theta": -0.1}, "theta"),
    ({"method": "svd"}, "Unknown method 'svd'; there are nnfn, nnfn-prox, factored-nuclear"),
    ({"solver": "newton"}, "Unknown solver 'newton' for method 'nnfn'; there are auto, alternating, gradient"),
    ({"tol": -1e-3}, "tol"),
    ({"max_iter": 0}, "max_iter"),
    ({"max_seconds": 0}, "max_seconds"),
    ({"n_jobs": 0}, "n_jobs"),
    ({"n_jobs": "many"}, "n_jobs must be a number of threads"),
    ({"rank": np.array([2, 3])}, "rank must be a single value; got ndarray"),
    ({"loss": np.ones((2, 2))}, "loss must be a single value; got ndarray"),
    ({"dtype": 5}, "dtype must be 'float32' or 'float64'; got 5"),
    ({"n_workers": 0}, "n_workers"),
    ({"backend": "dask"}, "Unknown backend 'dask'; there are local"),
    ({"dtype": "int32"}, "dtype"),
]


@pytest.mark.parametrize(("params", "said"), BAD_PARAMETERS)
def test_bad_parameters_get_one_sentence(table, params, said):
    with pytest.raises(InputError, match=said) as caught:
        MatrixCompletion(**{"rank": 3, "lam": 10.0, **params}).fit(table[0])
    assert "\n" not in str(caught.value)


def test_compiling_is_said_once(tmp_path):
    """With an empty kernel cache, the first fit says that it compiles; from a warm cache it says nothing."""
    code = "import numpy as np, lorank; lorank.MatrixCompletion(rank=1, lam=1.0, solver='gradient').fit(np.eye(3))"
    said = []
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"NUMBA_CACHE_DIR": str(tmp_path), "PATH": "", "PYTHONPATH": ":".join(p for p in sys.path if p)},
        )
        said.append(run.stderr)
    assert said[0].count("compiling kernels") == 1
    assert "compiling" not in said[1]


@pytest.mark.parametrize("biases", [False, True])
def test_the_mean_of_several_fits(small_problem, biases):
    options = {"rank": 6, "lam": 0.5, "biases": biases, "random_state": 0, "tol": 1e-3}
    model = MatrixCompletion(n_fits=3, **options).fit(small_problem.train)
    first = MatrixCompletion(**options).fit(small_problem.train)
    np.testing.assert_allclose(np.sqrt(3) * model.factors_[0][:, :6], first.factors_[0])
    assert model.factors_[0].shape[1] == 18
    W, H = model.factors_
    mean = (
        sum(W[:, at : at + 6] @ H[:, at : at + 6].T for at in (0, 6, 12))
        + model.offset_
        + model.row_bias_[:, None]
        + model.col_bias_
    )
    np.testing.assert_allclose(model.result_.factors.dense(), mean)
    assert model.score(small_problem.validation) >= first.score(small_problem.validation)
    for refused in (model.fold_in, model.partial_fit):
        with pytest.raises(InputError, match="is for a single fit"):
            refused(small_problem.train)
    with pytest.raises(InputError, match="n_fits must be"):
        MatrixCompletion(n_fits=0).fit(small_problem.train)


def test_clipping_keeps_to_the_observed_range_and_never_hurts():
    rng = np.random.default_rng(0)
    stars = np.clip(np.round(3 + 1.5 * rng.standard_normal((60, 2)) @ rng.standard_normal((2, 40))), 1, 5)
    held = rng.random(stars.shape) < 0.3
    model = MatrixCompletion(rank=2, lam=0.1, biases=True, random_state=0).fit(
        np.where(held, np.nan, stars), validation=0.1
    )
    rows, cols = np.nonzero(held)
    free, clipped = model.predict(rows, cols), model.predict(rows, cols, clip=True)
    assert model.range_ == (1.0, 5.0)
    assert free.max() > 5.2
    np.testing.assert_array_equal(clipped, np.clip(free, 1, 5))
    assert np.mean((clipped - stars[held]) ** 2) < np.mean((free - stars[held]) ** 2)
    (_, low, high), (_, low_free, high_free) = (model.predict(rows, cols, interval=0.9, clip=c) for c in (True, False))
    inside, inside_free = ((a <= stars[held]) & (stars[held] <= b) for a, b in ((low, high), (low_free, high_free)))
    assert inside[inside_free].all()
    assert model.fold_in(np.full((1, 40), 3.0)).range_ == (1.0, 5.0)


def test_scikit_learn_passes_y(table):
    """Rows are samples there; y goes along and is not taken for validation data."""
    holes, _ = table
    y = np.arange(len(holes), dtype=float)
    plain = MatrixCompletion(rank=2, lam=0.5, random_state=0)
    np.testing.assert_array_equal(plain.fit(holes, y).factors_[0], plain.fit(holes).factors_[0])
    assert plain.calibration_ is None

    def score(model, X, y):  # of the rows that it was fitted on
        return model.score(model.observations_)

    scores = cross_val_score(plain, holes, y, cv=3, scoring=score)
    assert (scores < 0).all()
    assert (scores > -1).all()
    search = GridSearchCV(plain, {"lam": [0.1, 50.0]}, cv=2, scoring=score).fit(holes, y)
    assert search.best_params_ == {"lam": 0.1}
    for validation in (0.1, Observations.from_dense(holes)):
        with pytest.raises(InputError, match=r"fit\(X, validation=\.\.\.\)"):
            plain.fit(holes, validation)


def test_tuning_is_that_of_the_last_fit(table):
    model = MatrixCompletion(rank=2, lam="auto", random_state=0).fit(table[0])
    assert model.tuning_.chosen.lam == pytest.approx(model.setting_.lam)
    model.set_params(lam=0.1).fit(table[0])
    assert not hasattr(model, "tuning_")
    assert model.model_.trials == ()


def test_representation_shows_what_was_found(table):
    model = MatrixCompletion("nnfn", random_state=0)
    assert repr(model) == str(clone(model)) == "MatrixCompletion(method='nnfn', random_state=0)"
    model.fit(table[0])
    error = f"held-out error {model.tuning_.chosen.error:.4g}"
    for text in (repr(model), model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert "MatrixCompletion" in text
        assert f"fitted rank {model.rank_}, {error}, chosen among {len(model.tuning_)} trials" in text
    assert "validation" not in repr(model)
    watched = MatrixCompletion(rank=2, lam=0.5, random_state=0).fit(table[0], validation=0.1)
    assert f"held-out error {np.nanmin(watched.history_['validation']):.4g}" in repr(watched)


def test_backends_are_entry_points(table, monkeypatch):
    """Any installed package may bring one."""
    used = []

    @contextmanager
    def elsewhere(problem, solver, n_workers):
        used.append((type(solver).__name__, n_workers))
        yield problem

    class Point:
        name = "elsewhere"

        def load(self):
            return elsewhere

    monkeypatch.setattr(running, "entry_points", lambda group: [Point()] if group == "lorank.backends" else [])
    params = {"rank": 2, "lam": 0.5, "random_state": 0}
    far = MatrixCompletion(**params, backend="elsewhere", n_workers=3).fit(table[0])
    assert used == [("Alternating", 3)]
    np.testing.assert_array_equal(far.factors_[0], MatrixCompletion(**params).fit(table[0]).factors_[0])
    with pytest.raises(InputError, match="Unknown backend 'ray'; there are local, elsewhere"):
        MatrixCompletion(**params, backend="ray").fit(table[0])
