"""Features: how they are made, their directions, and what the sampler gains by them."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import lorank
from lorank import InputError, MatrixCompletion
from lorank.kernels import Workers
from lorank.observations import Observations
from lorank.observations.identifiers import Identifiers
from lorank.side_information import Features, GraphLaplacian, KernelPrior
from lorank.side_information import features as room
from lorank.side_information.encoding import Encoding, table_of_counts
from lorank.side_information.new_lines import FeatureMap


def test_columns_are_standardised_and_rows_have_norm_one_on_average():
    given = np.column_stack([np.arange(6.0), [1, 1, 5, np.nan, 5, 1]])
    F = Features.of(given).matrix
    np.testing.assert_allclose(F.mean(axis=0), 0, atol=1e-12)
    assert F[3, 1] == 0
    assert np.mean(np.sum(F**2, axis=1)) == pytest.approx(1)
    np.testing.assert_allclose(Features.of(given * [10, 1] + [3, 7]).matrix, F)


def test_a_frame_has_a_column_for_each_category_and_goes_by_ids():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"age": [10.0, 20.0, 30.0], "kind": ["a", "b", "a"]}, index=["x", "y", "z"])
    plain, ordered = Features.of(frame), Features.of(frame, Identifiers(np.array(["z", "x", "y"])))
    dense = [side.matrix.toarray() if sp.issparse(side.matrix) else side.matrix for side in (plain, ordered)]
    assert dense[0].shape == (3, 3)
    np.testing.assert_array_equal(dense[0][:, 1] > 0, [True, False, True])
    np.testing.assert_allclose(dense[1], dense[0][[2, 0, 1]])
    lacking = Features.of(frame, Identifiers(np.array(["w", "y"]))).matrix
    np.testing.assert_allclose(lacking[1], dense[0][1])
    assert not np.any(lacking[0])  # the mean
    with pytest.raises(InputError, match="No id of the data is among those of the features, which begin with 'x'"):
        Features.of(frame, Identifiers(np.array(["w"])))
    with pytest.raises(InputError, match="An id comes twice"):
        Features.of(frame.loc[["x", "x"]], Identifiers(np.array(["x"])))
    counted = frame.reset_index(drop=True)  # an index that only counts holds no ids
    np.testing.assert_allclose(Features.of(counted, Identifiers(np.array(["z", "x", "y"]))).matrix, dense[0])


def test_implicit_features_say_who_rated_what():
    X = np.array([[1.0, np.nan, 2.0], [np.nan, np.nan, 3.0]])
    rows, cols = Features.implicit(Observations.from_dense(X))
    np.testing.assert_allclose(rows.matrix.toarray(), [[0.5**0.5, 0, 0.5**0.5], [0, 0, 1]])
    np.testing.assert_allclose(cols.matrix.toarray(), [[1, 0], [0, 0], [0.5**0.5, 0.5**0.5]])
    assert rows.beside(rows).matrix.shape == (2, 6)


def test_numbers_of_entries_beside_who_rated_what():
    X = np.ones((4, 3))
    X[0, 1:], X[1, 2], X[3] = np.nan, np.nan, np.nan  # 1, 2, 3 and no entries
    rows, _ = Features.implicit(Observations.from_dense(X), counts=True)
    assert rows.matrix.shape == (4, 5)
    G = rows.matrix.toarray()[:, 3:]
    assert not G[3].any()  # of a line that nobody has rated nothing is known
    np.testing.assert_allclose(G.sum(axis=0), 0, atol=1e-12)
    assert (np.diff(G[:3, 0]) > 0).all()
    assert (np.diff(G[:3, 1]) < 0).all()
    assert np.sum(G**2) == pytest.approx(4)
    # New lines are encoded as those that it was learnt from.
    encoding = rows.encodings[1]
    np.testing.assert_allclose(encoding.encode(table_of_counts(np.array([3, 0, 1]))), G[[2, 3, 0]])
    assert Encoding.from_plain(encoding.plain()) == encoding
    seen = Observations.from_dense(X)
    known = FeatureMap.of_posterior(rows)
    np.testing.assert_allclose(known.coordinates([], seen.by_row, None), rows.directions().U, atol=1e-5)
    assert not known.explicit
    # Where all lines have as many entries that says nothing.
    assert not Features.implicit(Observations.from_dense(X[:, :1][:3]), counts=True)[0].matrix[:, 1:].toarray().any()


@pytest.mark.parametrize("shape", [(30, 7), (7, 30)])
def test_directions_are_those_of_the_svd(shape):
    F = np.random.default_rng(0).standard_normal(shape)
    found = Features(F).directions()
    _, s, _ = np.linalg.svd(F, full_matrices=False)
    np.testing.assert_allclose(found.squares, s**2, rtol=1e-8)
    np.testing.assert_allclose((found.U * found.squares) @ found.U.T, F @ F.T, atol=1e-4)


def test_the_leading_directions_of_a_sparse_matrix(monkeypatch):
    monkeypatch.setattr(room, "PASSES", 6)
    rng = np.random.default_rng(0)
    F = sp.csr_array(
        rng.standard_normal((300, 5)) @ rng.standard_normal((5, 200)) + 0.1 * rng.standard_normal((300, 200))
    )
    U, squares = room._leading(F, 5, Workers(2))
    left, s, _ = np.linalg.svd(F.toarray(), full_matrices=False)
    np.testing.assert_allclose(squares, s[:5] ** 2, rtol=1e-4)
    np.testing.assert_allclose(U @ U.T, left[:, :5] @ left[:, :5].T, atol=1e-3)


def problem_with_features(seed=0, m=200, n=60, noise=0.3):
    """Rows whose factors are a function of three features, and few entries of each."""
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((m, 3))
    X = F @ rng.standard_normal((3, 2)) @ rng.standard_normal((2, n))
    seen = np.where(rng.random((m, n)) < 0.06, X + noise * rng.standard_normal((m, n)), np.nan)
    seen[:5] = np.nan
    return F, X, seen


@pytest.mark.parametrize("kind", ["array", "sparse", "features"])
def test_features_help_and_rows_without_entries_are_predicted_from_them(kind, tmp_path):
    F, X, seen = problem_with_features()
    side = {"array": F, "sparse": sp.csr_array(F), "features": Features.of(F)}[kind]
    fit = {"method": "bpmf", "rank": 2, "max_iter": 150, "random_state": 0}
    plain, known = MatrixCompletion(**fit).fit(seen), MatrixCompletion(**fit, row_side=side).fit(seen)
    errors = [np.sqrt(np.mean((model.model_.factors.dense() - X) ** 2, axis=1)) for model in (plain, known)]
    assert errors[1].mean() < 0.6 * errors[0].mean()
    assert errors[1][:5].mean() < 0.3 * np.sqrt(np.mean(X**2))
    known.save(tmp_path / "features.lorank")
    again = MatrixCompletion.from_model(lorank.load(tmp_path / "features.lorank"))
    assert again.row_side.size == len(F)


def test_columns_have_features_too():
    F, X, seen = problem_with_features()
    model = MatrixCompletion("bpmf", 2, max_iter=150, random_state=0, col_side=F).fit(seen.T)
    assert np.sqrt(np.mean((model.model_.factors.dense() - X.T)[:, :5] ** 2)) < 0.3 * np.sqrt(np.mean(X**2))


def test_what_is_refused():
    F, _, seen = problem_with_features(m=20, n=10)
    with pytest.raises(InputError, match="features of 19 rows, and the data has 20"):
        MatrixCompletion("bpmf", 2, row_side=F[:19]).fit(seen)
    with pytest.raises(InputError, match="cannot take a Features"):
        MatrixCompletion("nuclear", 2, 10.0, row_side=F).fit(seen)
    with pytest.raises(InputError, match="features must be 'implicit', None or 'auto'"):
        MatrixCompletion("bpmf", 2, features="explicit").fit(seen)
    with pytest.raises(InputError, match="matrix of numbers"):
        MatrixCompletion("bpmf", 2, row_side=np.array(["a"] * 20)).fit(seen)
    prior = KernelPrior(np.arange(20.0)[:, None])
    with pytest.raises(InputError, match="A KernelPrior goes with no other side information on the same side"):
        MatrixCompletion(rank=2, row_side=prior, features="implicit").fit(seen)
    with pytest.raises(InputError, match="Features of 20 lines do not go beside those of 19"):
        MatrixCompletion(rank=2, row_side=[F, F[:19]]).fit(seen)


@pytest.mark.parametrize("method", ["nnfn", "bpmf"])
def test_features_and_a_graph_on_the_same_side(method):
    """Rows in pairs of neighbours whose factors follow features: each alone is better than none, both are best."""
    F, X, seen = problem_with_features(m=120)
    F, X = np.repeat(F[:60], 2, axis=0), np.repeat(X[:60], 2, axis=0)
    rng = np.random.default_rng(1)
    seen = np.where(rng.random(X.shape) < 0.06, X + 0.3 * rng.standard_normal(X.shape), np.nan)
    graph = GraphLaplacian.from_adjacency(np.kron(np.eye(60), [[0.0, 1.0], [1.0, 0.0]]), weight=0.1)
    fit = {"method": method, "rank": 2, "random_state": 0, "max_iter": 60, "lam": 1.0, "theta": 0.0}
    fit = {name: value for name, value in fit.items() if method == "nnfn" or name not in ("lam", "theta")}
    errors = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for side in (None, graph, F, [F, graph]):
            model = MatrixCompletion(**fit, row_side=side).fit(seen)
            errors.append(np.sqrt(np.mean((model.model_.factors.dense() - X) ** 2)))
            if method == "nnfn":
                objective = np.array(model.history_["objective"])
                assert np.all(np.diff(objective) <= 1e-10 * np.abs(objective[:-1]))
    assert errors[3] < min(errors[:3])


def test_several_graphs_are_their_sum():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 3)) @ rng.standard_normal((3, 9))
    one, two = (
        GraphLaplacian.from_adjacency(np.ones((12, 12)) * size, weight) for size, weight in ((1, 0.2), (3, 0.1))
    )
    fit = {"rank": 2, "lam": 0.1, "random_state": 0}
    whole = MatrixCompletion(**fit, row_side=one.scaled(2.5)).fit(X)
    parts = MatrixCompletion(**fit, row_side=(one, two)).fit(X)
    np.testing.assert_allclose(parts.model_.factors.dense(), whole.model_.factors.dense(), atol=1e-6)


def test_implicit_features_of_data_with_many_empty_lines():
    """Fewer directions than are asked for: the others are zero."""
    rng = np.random.default_rng(0)
    rows, cols = rng.integers(0, 200, 3000), rng.integers(0, 150, 3000)
    pairs = np.unique(np.column_stack([rows, cols]), axis=0)
    seen = Observations.from_coo(*pairs.T, np.ones(len(pairs)), (900, 700))
    for features in Features.implicit(seen):
        F, found = features.matrix.toarray(), features.directions()
        exact = np.linalg.svd(F, compute_uv=False) ** 2
        np.testing.assert_allclose(found.squares[:50], exact[:50], rtol=0.02)
