"""Proximal gradient where numbers are next to nothing."""

from dataclasses import replace

import numpy as np
import pytest

from lorank.observations import Observations
from lorank.problems import Problem
from lorank.regularizers import LSP, MCP, NNFN, CappedL1, Nuclear, SchattenP
from lorank.solvers import ProximalGradient, Stopping, solve
from lorank.solvers.proximal import _weight_of_threshold

KINDS = [Nuclear(lam=1.0), NNFN(lam=1.0), CappedL1(lam=1.0, theta=2.0), LSP(lam=1.0, theta=1.0)]
KINDS += [MCP(lam=1.0, theta=5.0), SchattenP(lam=1.0, p=0.5)]


def named(regularizer):
    return type(regularizer).__name__


@pytest.mark.parametrize("regularizer", KINDS, ids=named)
@pytest.mark.parametrize("lam", [1.0, 1e-3, 1e-250, 1e-300, 5e-324])
def test_the_weight_of_a_threshold(regularizer, lam):
    """To a hundredth of lam, which no threshold grows faster than."""
    regularizer = replace(regularizer, lam=lam)
    for threshold in (1e-3, 1.0, 1e3):
        found = _weight_of_threshold(regularizer, threshold)
        reached = replace(regularizer, lam=found).threshold(1.0)
        if found > lam:
            assert threshold <= reached <= 1.02 * threshold
        else:
            assert found == lam
            assert reached >= threshold


def test_a_weight_that_no_finite_number_reaches_ends():
    assert np.isfinite(_weight_of_threshold(CappedL1(lam=1e-300, theta=1e-320), 1e3))


@pytest.mark.parametrize("regularizer", KINDS, ids=named)
@pytest.mark.parametrize(("lam", "scale"), [(1e-300, 1.0), (5e-324, 1.0), (1e-305, 1e-300), (1.0, 1e-300)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_weights_and_data_next_to_nothing(regularizer, lam, scale):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((15, 2)) @ rng.standard_normal((2, 10))
    X[rng.random(X.shape) < 0.2] = np.nan
    problem = Problem(Observations.from_dense(scale * X), replace(regularizer, lam=lam), 3, n_jobs=1)
    result = solve(ProximalGradient(), problem, seed=0, stopping=Stopping(max_iter=20))
    assert result.factors.is_finite()
    assert np.isfinite(result.objective)
