"""Ordered probit: quantiles of truncated normals, derivatives of the cuts' likelihood, probabilities of levels."""

import numpy as np
import pytest
from scipy.stats import norm, truncnorm

from lorank.kernels import LEVEL_BLOCK, cut_terms, draw_latent, level_probabilities
from lorank.kernels.ordinal import truncated_normal


@pytest.mark.parametrize(("low", "high"), [(-1, 0.5), (3, 4), (-np.inf, -6.0), (8, np.inf), (-0.2, np.inf)])
def test_truncated_normal_quantiles(low, high):
    for u in (0.001, 0.2, 0.5, 0.9, 0.999):
        assert truncated_normal(low, high, u) == pytest.approx(truncnorm.ppf(u, low, high), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_cut_terms_are_derivatives(weighted):
    rng = np.random.default_rng(0)
    n, cuts = 5000, np.array([-1.0, -0.3, 0.4, 1.2])
    rows, cols, x = rng.integers(0, 30, n), rng.integers(0, 20, n), rng.standard_normal(n)
    own, roots = rng.gamma(5, 0.2, 30), np.sqrt(rng.gamma(5, 0.2, 20))
    level = rng.integers(0, 5, n).astype(np.uint8)
    weights = rng.gamma(3, 0.3, n) if weighted else None

    def terms(c):
        out = np.empty((-(-n // LEVEL_BLOCK), 13))
        cut_terms(rows, cols, weights, level, x, own, roots, c, out, 0, len(out))
        return out.sum(axis=0)

    here, h = terms(cuts), 1e-5
    root = np.sqrt(own[rows] * (1 if weights is None else weights)) * roots[cols]
    ends = np.r_[-np.inf, cuts, np.inf]
    low, high = (ends[level] - x) * root, (ends[level + 1] - x) * root
    shares = np.where(low > 0, norm.sf(low) - norm.sf(high), norm.cdf(high) - norm.cdf(low))
    assert here[0] == pytest.approx(np.log(shares).sum(), rel=1e-6)
    for a in range(4):
        step = h * np.eye(4)[a]
        up, down = terms(cuts + step), terms(cuts - step)
        assert here[1 + a] == pytest.approx((up[0] - down[0]) / (2 * h), rel=1e-5, abs=1e-4)
        assert here[5 + a] == pytest.approx((up[1 + a] - down[1 + a]) / (2 * h), rel=1e-3)
        if a < 3:
            assert here[9 + a] == pytest.approx((up[2 + a] - down[2 + a]) / (2 * h), rel=1e-3)


@pytest.mark.parametrize("weighted", [False, True])
def test_latent_values_are_truncated_normals(weighted):
    n, cuts, own, root, x = 40000, np.array([-0.5, 0.8]), 2.0, 0.7, 0.3
    weights = np.full(n, 1.5) if weighted else None
    for level in range(3):
        out = np.empty(n)
        arrays = (np.zeros(n, np.int32), weights, np.full(n, level, np.uint8), np.full(n, x))
        draw_latent(np.array([0, n]), *arrays, np.array([own]), np.array([root]), cuts, np.uint64(4), 6, out, 0, 1)
        deviation = 1 / (np.sqrt(own * (1.5 if weighted else 1)) * root)
        ends = (np.r_[-np.inf, cuts, np.inf][level : level + 2] - x) / deviation
        truth = truncnorm(*ends, loc=x, scale=deviation)
        np.testing.assert_allclose([out.mean(), out.std()], [truth.mean(), truth.std()], atol=0.02)
        assert abs(np.corrcoef(out[:-1], out[1:])[0, 1]) < 0.02


def test_probabilities_average_draws_and_their_mirror_images():
    rng = np.random.default_rng(1)
    m, n, width, draws = 4, 3, 2, 3
    means, deviations, right = (rng.standard_normal((lines, draws * width)) for lines in (m, m, n))
    noise_rows, noise_cols = rng.gamma(5, 0.2, (m, draws)), rng.gamma(5, 0.2, (n, draws))
    cuts = np.sort(rng.standard_normal((draws, 2)), axis=1)
    rows, cols = (part.ravel() for part in np.indices((m, n)))
    out = np.empty((rows.size, 3))
    level_probabilities(
        rows, cols, means, deviations, right, noise_rows, noise_cols, width, draws, cuts, out, 0, rows.size
    )
    expected = np.zeros((m, n, 3))
    for s in range(draws):
        at = slice(s * width, (s + 1) * width)
        x, off = draws * means[:, at] @ right[:, at].T, deviations[:, at] @ right[:, at].T
        deviation = np.sqrt(draws * np.outer(noise_rows[:, s], noise_cols[:, s]))
        ends = np.r_[-np.inf, cuts[s], np.inf]
        for centre in (x + off, x - off):
            expected += np.diff(norm.cdf((ends - centre[..., None]) / deviation[..., None]), axis=-1) / (2 * draws)
    np.testing.assert_allclose(out.reshape(m, n, 3), expected, atol=1e-6)
