"""The weight of a graph is searched where lam is, and 0 is among the candidates."""

import numpy as np
import pytest

from lorank import MatrixCompletion
from lorank.side_information import GraphLaplacian


@pytest.fixture
def chain():
    """60 x 40 of rank 2 whose rows change slowly, little of it seen."""
    rng = np.random.default_rng(0)
    t = np.linspace(0, 3, 60)
    truth = np.column_stack([np.sin(t), np.cos(2 * t)]) @ rng.standard_normal((2, 40))
    seen = np.where(rng.random(truth.shape) < 0.25, truth + 0.1 * rng.standard_normal(truth.shape), np.nan)
    neighbours = np.diag(np.ones(59), 1)
    return truth, seen, neighbours + neighbours.T


# What has nothing to do with graphs is not searched.
GIVEN = {"method": "nnfn", "rank": 4, "theta": 1.0, "features": None, "random_state": 0}


def error(truth, seen, adjacency, **given):
    graph = GraphLaplacian.from_adjacency(adjacency)
    model = MatrixCompletion(**GIVEN, row_side=graph, **given).fit(seen)
    return np.sqrt(np.mean((model.result_.factors.dense() - truth)[np.isnan(seen)] ** 2)), model


def test_a_graph_that_knows_is_used_and_one_that_does_not_is_left_out(chain):
    truth, seen, adjacency = chain
    with_graph, _ = error(truth, seen, adjacency)
    alone = MatrixCompletion(**GIVEN).fit(seen).result_.factors.dense()
    assert with_graph < 0.8 * np.sqrt(np.mean((alone - truth)[np.isnan(seen)] ** 2))
    shuffled = np.random.default_rng(1).permutation(60)
    misled, model = error(truth, seen, 30 * adjacency[np.ix_(shuffled, shuffled)])
    fixed, _ = error(truth, seen, 30 * adjacency[np.ix_(shuffled, shuffled)], graph_weight=1.0)
    assert misled < fixed, "a graph of strangers at full weight is worse"
    assert any("graph, weight 1" in str(trial.parameters) for trial in model.tuning_)
