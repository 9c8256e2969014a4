"""DCA against the known optimum of a matrix that is observed as a whole."""

import numpy as np
import pytest

from lorank.observations import Observations
from lorank.problems import Problem
from lorank.regularizers import NNFN, TruncatedL12
from lorank.solvers import DCA, Stopping, solve


@pytest.mark.parametrize("t", [0, 1, 3])
@pytest.mark.parametrize("lam", [0.3, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_stop_where_the_objective_still_falls(seed, lam, t):
    """The t largest values are kept as they are, and the rest is a proximal point of NNFN: rank t + 1 at least.

    From lam above the strongest value on, the nuclear norm that DCA begins with has the solution 0.
    """
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((12, 8))
    Z = rng.standard_normal((12, 2)) @ rng.standard_normal((2, 8)) + 0.1 * noise if seed % 2 else noise
    z = np.linalg.svd(Z, compute_uv=False)
    x = np.concatenate([z[:t], NNFN(lam=lam).prox(z[t:], 1.0)])
    regularizer = TruncatedL12(lam=lam, t=t)
    best = 0.5 * np.sum((x - z) ** 2) + regularizer.value(x)
    problem = Problem(Observations.from_dense(Z), regularizer, 8, n_jobs=1)
    result = solve(DCA(), problem, seed=0, stopping=Stopping(tol=1e-12, max_iter=3000))
    assert result.success
    assert result.objective == pytest.approx(best, rel=1e-8)
    assert result.factors.k == np.count_nonzero(x)
    assert np.all(np.diff(result.history.objective) <= 1e-12 * result.objective)


def test_missing_entries_and_biases():
    """Under a weight that leaves nothing of the nuclear norm, t + 1 directions and the biases fit what was observed."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 15)) + 3
    X[rng.random(X.shape) < 0.3] = np.nan
    seen = Observations.from_dense(X)
    problem = Problem(seen, TruncatedL12(lam=10.0, t=1), 5, bias_ridges=(1.0, 2.0), n_jobs=1)
    result = solve(DCA(), problem, seed=0, stopping=Stopping(tol=1e-7, max_iter=3000))
    assert result.success
    assert result.factors.k == 2
    residual = result.factors.predict(seen.rows, seen.cols) - seen.values
    assert np.sqrt(np.mean(residual**2)) < 1e-3
