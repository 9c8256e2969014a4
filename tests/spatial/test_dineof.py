"""The benchmark's reference for grids, on fields whose answer is known."""

import importlib.util
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter

PATH = Path(__file__).parents[2] / "benchmarks" / "dineof.py"


def load():
    found = importlib.util.spec_from_file_location("dineof", PATH)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def field(noise, rank=3, n=100, rows=16, cols=20):
    """Truth of this rank about a mean of 5, and what is seen of it between clouds, with noise and some land."""
    rng = np.random.default_rng(0)
    series = rng.standard_normal((n, rank)) * 2.0 ** -np.arange(rank)
    truth = 5 + ((series - series.mean(axis=0)) @ rng.standard_normal((rank, rows * cols))).reshape(n, rows, cols)
    clouds = gaussian_filter(rng.standard_normal(truth.shape), (0, 3, 3))
    seen = np.where(clouds / clouds.std() > 0.3, np.nan, truth + noise * rng.standard_normal(truth.shape))
    seen[:, :3, :4] = np.nan
    return truth, seen


def test_the_number_of_modes_and_the_field_are_found():
    truth, seen = field(noise=0.1)
    answer, modes = load().dineof(seen)
    assert modes == 3
    sea = ~np.isnan(seen).all(axis=0)
    assert np.isnan(answer[:, ~sea]).all()
    gaps = np.isnan(seen) & sea
    # k (n + c) numbers are estimated from the values that are seen.
    expected = 0.1 * np.sqrt(3 * (len(seen) + sea.sum()) / (~np.isnan(seen)).sum())
    assert np.sqrt(np.mean((answer - truth)[gaps] ** 2)) < 1.5 * expected


def test_one_iteration_ends_at_a_fixed_point():
    truth, seen = field(noise=0.0, rank=2)
    cells = seen.reshape(len(seen), -1)[:, ~np.isnan(seen).all(axis=0).ravel()] - 5
    known = ~np.isnan(cells)
    answer = load().converged(cells, np.where(known, cells, 0.0), known, 2)
    U, sigma, V = np.linalg.svd(np.where(known, cells, answer), full_matrices=False)
    again = (U[:, :2] * sigma[:2]) @ V[:2]
    assert np.sqrt(np.mean((again - answer) ** 2)) < 2e-3 * cells[known].std()
    whole = truth.reshape(len(seen), -1)[:, ~np.isnan(seen).all(axis=0).ravel()] - 5
    assert np.sqrt(np.mean((answer - whole) ** 2)) < 0.03 * whole.std()
