"""Biases beside a graph or a kernel: level first, the graph on the rest."""

import numpy as np
import pytest

import lorank
from lorank import MatrixCompletion
from lorank.errors import InputError
from lorank.observations import Observations
from lorank.problems.offsets import empirical_bayes_offsets
from lorank.side_information import GraphLaplacian, KernelPrior


def ratings(seed=0, m=80, n=60, noise=0.3):
    """Ratings whose rows come in eight groups of alike ones, levels of rows and columns aside; a third is seen."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 8, m)
    taste = rng.standard_normal((8, 3))[group] + 0.2 * rng.standard_normal((m, 3))
    level = 3 + rng.standard_normal((m, 1)) + 0.5 * rng.standard_normal((1, n))
    truth = level + taste @ rng.standard_normal((3, n))
    seen = rng.random(truth.shape) < 0.12
    values = np.where(seen, truth + noise * rng.standard_normal(truth.shape), np.nan)
    return truth, values, (group[:, None] == group).astype(float) - np.eye(m)


@pytest.mark.parametrize(("method", "side"), [("nnfn", "graph"), ("nnfn", "kernel"), ("nuclear", "graph")])
def test_the_level_is_taken_off_and_put_back(method, side):
    _, values, adjacency = ratings()
    known = GraphLaplacian.from_adjacency(adjacency, 0.1) if side == "graph" else KernelPrior.on_time(np.arange(80.0))
    seen = Observations.from_dense(values)
    options = {"method": method, "lam": 2.0, "rank": 4, "random_state": 0, "row_side": known, "graph_weight": 1.0}
    whole = MatrixCompletion(**options, biases=True).fit(seen).result_.factors
    offsets = empirical_bayes_offsets(seen)
    left = seen.with_values(seen.values - offsets.predict(seen.rows, seen.cols))
    rest = MatrixCompletion(**options, biases=False).fit(left).result_.factors
    expected = offsets.mu + offsets.a[:, None] + offsets.b + rest.W @ rest.H.T
    np.testing.assert_allclose(whole.dense(), expected, atol=1e-10)


def test_early_stopping_sees_values_with_their_level():
    truth, values, adjacency = ratings()
    held = np.where(np.isnan(values), truth, np.nan)
    seen = []
    model = MatrixCompletion("nnfn", 4, 0.5, biases=True, row_side=GraphLaplacian.from_adjacency(adjacency, 0.1))
    model.fit(values, validation=held, callbacks=[lambda progress: seen.append(progress.factors.dense())])
    miss = [np.sqrt(np.nanmean((each - held) ** 2)) for each in seen]
    np.testing.assert_allclose(model.result_.history.validation, miss, rtol=1e-6)


def test_a_graph_that_knows_is_used_and_one_that_does_not_is_left_out():
    truth, values, adjacency = ratings()
    unseen = np.isnan(values)

    def error(side):
        model = MatrixCompletion("nnfn", 4, theta=1.0, features=None, random_state=0, row_side=side).fit(values)
        used = model.model_.params["row_side"] is not None
        return np.sqrt(np.mean((model.model_.complete() - truth)[unseen] ** 2)), used

    plain, _ = error(None)
    helped, used = error(GraphLaplacian.from_adjacency(adjacency))
    assert used
    assert helped < 0.95 * plain
    shuffled = np.random.default_rng(1).permutation(80)
    wrong, used = error(GraphLaplacian.from_adjacency(adjacency[np.ix_(shuffled, shuffled)]))
    assert not used
    assert wrong < 1.02 * plain


def test_the_sampler_says_that_it_draws_no_biases_beside_a_graph():
    _, values, adjacency = ratings()
    model = MatrixCompletion("bpmf", 4, biases=True, row_side=GraphLaplacian.from_adjacency(adjacency), max_iter=3)
    with pytest.raises(InputError, match="biases=False"):
        model.fit(values)


def test_a_model_with_both_is_saved_and_loaded(tmp_path):
    _, values, adjacency = ratings()
    model = MatrixCompletion("nnfn", 4, 2.0, biases=True, row_side=GraphLaplacian.from_adjacency(adjacency, 0.1))
    model.fit(values).save(tmp_path / "model.lorank")
    loaded = lorank.load(tmp_path / "model.lorank")
    np.testing.assert_allclose(loaded.predict([0, 5], [1, 2]), model.predict([0, 5], [1, 2]))
