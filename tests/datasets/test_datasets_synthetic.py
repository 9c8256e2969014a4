import sys
import tracemalloc

import numpy as np
import pytest

from lorank.datasets import synthetic
from lorank.errors import InputError


def cells(observations):
    return set(zip(observations.rows.tolist(), observations.cols.tolist()))


def dense_nmse(problem, W, H):
    unseen = np.ones(problem.train.shape, bool)
    unseen[problem.train.rows, problem.train.cols] = False
    G = problem.W @ problem.H.T
    return np.linalg.norm((W @ H.T - G)[unseen]) / np.linalg.norm(G[unseen])


def test_all_of_omega_trains_and_a_second_sample_validates():
    problem = synthetic(m=200)
    size = round(2 * 200 * 5 * np.log(200))
    assert problem.train.nnz == problem.validation.nnz == size
    assert problem.train.shape == problem.validation.shape == (200, 200)
    assert not cells(problem.train) & cells(problem.validation)


def test_the_printed_reading_halves_one_sample():
    problem = synthetic(m=200, train_fraction=0.5)
    size = round(2 * 200 * 5 * np.log(200))
    assert problem.train.nnz + problem.validation.nnz == size
    assert abs(problem.train.nnz - problem.validation.nnz) <= 1
    assert not cells(problem.train) & cells(problem.validation)


def test_entries_are_the_truth_plus_noise_of_that_deviation():
    problem = synthetic(m=300, rank=3, noise=0.1)
    for part in (problem.train, problem.validation):
        truth = np.sum(problem.W[part.rows] * problem.H[part.cols], axis=1)
        assert np.std(part.values - truth) == pytest.approx(0.1, rel=0.05)


def test_density_and_shape():
    problem = synthetic(m=300, n=100, rank=2, density=0.5)
    assert problem.W.shape == (300, 2)
    assert problem.H.shape == (100, 2)
    assert problem.train.shape == (300, 100)
    assert problem.train.nnz == round(0.5 * 400 * 2 * np.log(300))


def test_same_seed_same_problem_and_other_seed_another():
    first, again, other = synthetic(m=100, rank=2), synthetic(m=100, rank=2), synthetic(m=100, rank=2, seed=1)
    np.testing.assert_array_equal(first.train.values, again.train.values)
    np.testing.assert_array_equal(first.train.cols, again.train.cols)
    assert cells(first.train) != cells(other.train)


def test_float32_is_the_same_problem():
    double, single = synthetic(m=100, rank=2), synthetic(m=100, rank=2, dtype=np.float32)
    assert single.train.dtype == single.W.dtype == np.float32
    np.testing.assert_array_equal(double.train.cols, single.train.cols)
    np.testing.assert_allclose(double.train.values, single.train.values, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("height", [1, 7, 1000])
def test_nmse_agrees_with_the_dense_formula(monkeypatch, height):
    problem = synthetic(m=120, n=80, rank=3)
    # The function of the same name hides the module from `import`.
    monkeypatch.setattr(sys.modules["lorank.datasets.synthetic"], "CELLS", height * 80)
    rng = np.random.default_rng(0)
    W, H = rng.standard_normal((120, 6)), rng.standard_normal((80, 6))
    assert problem.nmse(W, H) == pytest.approx(dense_nmse(problem, W, H), rel=1e-12)


def test_nmse_keeps_tiny_errors():
    problem = synthetic(m=150)
    assert problem.nmse(problem.W * (1 + 1e-12), problem.H) == pytest.approx(1e-12, rel=1e-3)
    assert problem.nmse(0 * problem.W, problem.H) == 1


def test_nmse_refuses_other_shapes():
    problem = synthetic(m=100, n=90, rank=2)
    with pytest.raises(InputError, match="100 x k and 90 x k"):
        problem.nmse(problem.H, problem.W)


def test_sampling_needs_memory_of_the_sample_only():
    synthetic(m=100, rank=2)  # compiles what Observations needs, outside the measurement
    tracemalloc.start()
    problem = synthetic(m=30_000, rank=1, density=0.1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert problem.train.nnz == round(0.1 * 60_000 * np.log(30_000))
    assert peak < 40e6  # one byte for each cell would be 900 MB


def test_dense_sampling_takes_distinct_cells():
    problem = synthetic(m=40, rank=2, density=1.2)  # more than half of all cells
    assert problem.train.nnz + problem.validation.nnz > 800
    assert len(cells(problem.train) | cells(problem.validation)) == problem.train.nnz * 2


@pytest.mark.parametrize("wrong", [{"m": 0}, {"rank": 0}, {"noise": -1}, {"density": 0}, {"train_fraction": 1.5}])
def test_impossible_parameters_are_refused(wrong):
    with pytest.raises(InputError, match="synthetic problem needs"):
        synthetic(**wrong)


def test_more_entries_than_the_matrix_has_are_refused():
    with pytest.raises(InputError, match="20 x 20 matrix cannot give"):
        synthetic(m=20, rank=5)
