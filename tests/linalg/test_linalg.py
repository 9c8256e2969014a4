"""Frames balance, operators multiply, truncated SVDs find what is above the threshold."""

import numpy as np
import pytest

from lorank.errors import MemoryLimitError
from lorank.kernels import Workers
from lorank.linalg import Factors, SparsePlusLowRank, balance, truncated_svd
from lorank.linalg.factors import effective_rank
from lorank.observations import Observations


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_balanced_frame(scale):
    rng = np.random.default_rng(0)
    W, H = scale * rng.standard_normal((30, 4)) @ rng.standard_normal((4, 4)), rng.standard_normal((20, 4))
    frame = balance(W.T @ W, H.T @ H)
    WA, HA = W @ frame.A, H @ frame.inverse_transposed
    np.testing.assert_allclose(WA @ HA.T, W @ H.T, rtol=1e-7, atol=1e-7 * scale)
    np.testing.assert_allclose(WA.T @ WA, frame.gram, rtol=1e-6, atol=1e-6 * frame.sigma.max())
    np.testing.assert_allclose(HA.T @ HA, frame.gram, rtol=1e-6, atol=1e-6 * frame.sigma.max())
    np.testing.assert_allclose(frame.sigma[::-1], np.linalg.svd(W @ H.T, compute_uv=False)[:4], rtol=1e-6)


def test_balanced_frame_of_dead_directions():
    W, H = np.random.default_rng(0).standard_normal((2, 30, 3))
    W[:, 1] = 0
    frame = balance(W.T @ W, H.T @ H)
    assert np.isfinite(frame.A).all()
    assert np.isfinite(frame.inverse_transposed).all()
    assert effective_rank(frame.sigma) == 2
    assert np.isfinite(balance(np.zeros((3, 3)), np.zeros((3, 3))).A).all()


def operator(m=60, n=40, r=3, seed=0):
    rng = np.random.default_rng(seed)
    U, V = rng.standard_normal((m, r)), rng.standard_normal((n, r))
    S = np.where(rng.random((m, n)) < 0.2, rng.standard_normal((m, n)), 0)
    seen = Observations.from_dense(np.where(S == 0, np.nan, S))
    return SparsePlusLowRank(U, V, seen.by_row, seen.by_col, Workers(1)), U @ V.T + S


def test_sparse_plus_low_rank():
    Z, dense = operator()
    B, C = np.random.default_rng(1).standard_normal((40, 5)), np.random.default_rng(2).standard_normal((60, 11))
    np.testing.assert_allclose(Z.dot(B), dense @ B, atol=1e-10)
    np.testing.assert_allclose(Z.transposed_dot(C), dense.T @ C, atol=1e-10)


@pytest.mark.parametrize("threshold", [0.0, 4.0, 20.0, 1e9])
@pytest.mark.parametrize("max_rank", [1, 5, 40])
def test_truncated_svd(threshold, max_rank):
    Z, dense = operator()
    U, sigma, V = np.linalg.svd(dense)
    wanted = max(1, min(max_rank, int((sigma > threshold).sum())))
    found = truncated_svd(Z, np.zeros((40, 0)), threshold, max_rank, np.random.default_rng(0), 1e-12, 500)
    np.testing.assert_allclose(found.sigma, sigma[:wanted], rtol=1e-6)
    best = (U[:, :wanted] * sigma[:wanted]) @ V[:wanted]
    np.testing.assert_allclose((found.U * found.sigma) @ found.V.T, best, atol=1e-3)


def test_warm_start_needs_one_comparison():
    Z, _ = operator()
    first = truncated_svd(Z, np.zeros((40, 0)), 8.0, 10, np.random.default_rng(0), 1e-10, 500)
    again = truncated_svd(Z, first.subspace, 8.0, 10, np.random.default_rng(0), 1e-10, 2)
    np.testing.assert_allclose(again.sigma, first.sigma, rtol=1e-9)


def test_dense_is_refused_with_its_size():
    factors = Factors.of(np.zeros((4_000_000, 1), np.float32), np.zeros((4_000_000, 1), np.float32))
    with pytest.raises(MemoryLimitError, match=r"59604\.6 GiB"):
        factors.dense()


def test_singular_values():
    W, H = np.random.default_rng(0).standard_normal((2, 30, 3))
    np.testing.assert_allclose(Factors.of(W, H).singular_values(), np.linalg.svd(W @ H.T, compute_uv=False)[:3])


@pytest.mark.parametrize("block", [2, 7, 20])
def test_singular_values_of_factors_in_blocks(monkeypatch, block):
    """Blocks shorter than the rank, blocks that do not divide the rows, and one block that is all."""
    monkeypatch.setattr("lorank.linalg.factors.QR_BLOCK", block)
    rng = np.random.default_rng(0)
    W, H = rng.standard_normal((20, 4)), rng.standard_normal((9, 4)) * [1, 1e-3, 1e-6, 1e-9]
    expected = np.linalg.svd(W @ H.T, compute_uv=False)[:4]
    np.testing.assert_allclose(Factors.of(W, H).singular_values(), expected, rtol=1e-6)


def test_a_gram_that_rounding_made_indefinite_has_a_frame():
    rng = np.random.default_rng(0)
    W = (rng.standard_normal((40, 2)) @ rng.standard_normal((2, 5))).astype(np.float32)
    GW = (W.T @ W).astype(np.float64) - 1e-7 * np.trace(W.T @ W) * np.eye(5)
    frame = balance(GW, np.eye(5))
    assert np.isfinite(frame.A).all()
    np.testing.assert_allclose(frame.A @ frame.inverse_transposed.T, np.eye(5), atol=1e-4)
