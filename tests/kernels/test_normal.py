"""The normal distribution by tables, against SciPy's."""

import numpy as np
from scipy.stats import norm

from lorank.kernels.normal import lower_normal, normal_cdf, normal_quantile


def test_probabilities_and_densities():
    t = np.r_[-np.inf, -40.0, -np.linspace(0, 9, 2001)]
    found = np.array([lower_normal(each) for each in t])
    np.testing.assert_allclose(found[:, 0], norm.cdf(t), rtol=2e-5)
    np.testing.assert_allclose(found[:, 1], norm.pdf(t), rtol=1e-3)
    near = t > -3
    np.testing.assert_allclose(found[near, 0], norm.cdf(t[near]), rtol=3e-7)
    np.testing.assert_allclose(found[near, 1], norm.pdf(t[near]), rtol=1e-4)
    np.testing.assert_allclose([normal_cdf(-each) for each in t], norm.cdf(-t), rtol=1e-7)


def test_quantiles():
    p = np.r_[1e-200, 1e-12, 1 / 64, np.linspace(0.001, 0.999, 2001)]
    np.testing.assert_allclose([normal_quantile(each) for each in p], norm.ppf(p), rtol=1e-13, atol=1e-7)
