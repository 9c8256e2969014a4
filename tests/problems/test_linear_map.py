"""The data term of linear measurements."""

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator

from lorank.errors import InputError
from lorank.problems import LinearMap, SensingProblem
from lorank.regularizers import NNFN


def test_value_gradient_and_lipschitz_constant():
    rng = np.random.default_rng(0)
    A, b, X = rng.standard_normal((11, 4, 3)), rng.standard_normal(11), rng.standard_normal((4, 3))
    data = LinearMap.of(A, b, (4, 3))
    assert data.value(X) == pytest.approx(0.5 * np.sum((np.tensordot(A, X) - b) ** 2))
    slope = data.gradient(X)
    for i, j in np.ndindex(4, 3):
        step = np.zeros((4, 3))
        step[i, j] = 1e-6
        assert slope[i, j] == pytest.approx((data.value(X + step) - data.value(X - step)) / 2e-6, rel=1e-6)
    norm = np.linalg.norm(A.reshape(11, 12), 2) ** 2
    assert norm <= data.lipschitz <= 1.02 * norm


def test_an_operator_that_measures_nothing_has_a_step_length():
    assert LinearMap.of(aslinearoperator(np.zeros((3, 12))), np.ones(3), (4, 3)).lipschitz > 0


@pytest.mark.parametrize("rank", [0, 4])
def test_a_rank_that_cannot_be(rank):
    data = LinearMap.of(np.ones((2, 4, 3)), np.ones(2), (4, 3))
    with pytest.raises(InputError, match="rank must be between 1 and 3"):
        SensingProblem(data, NNFN(lam=1.0), rank)
