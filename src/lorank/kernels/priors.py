"""Draws of what stands above the factors: for small tables the interpreter would take longer than the numbers do."""

import math

import numpy as np

from lorank.kernels.compiling import kernel


@kernel
def wishart(scatter, dof, rng):
    """Wishart(scatter^-1, dof) by Bartlett: B B^T with B = L^-T A, scatter = L L^T, A lower triangular."""
    p = len(scatter)
    L = np.linalg.cholesky(scatter)
    B = np.zeros((p, p))
    for i in range(p):
        for j in range(i):
            B[i, j] = rng.standard_normal()
        B[i, i] = math.sqrt(2 * rng.standard_gamma((dof - i) / 2))
    for i in range(p - 1, -1, -1):
        for t in range(i + 1, p):
            for j in range(p):
                B[i, j] -= L[t, i] * B[t, j]
        for j in range(p):
            B[i, j] /= L[i, i]
    return B @ B.T


@kernel
def draw_mean(total, weight, Lambda, free, rng):
    """mu at the one place where it is free, if there is one, and 0 elsewhere.

    It has precision weight Lambda_ff and the linear term (Lambda total)_f.
    """
    mu = np.zeros(total.size)
    for f in range(total.size):
        if free[f]:
            precision, linear = weight * Lambda[f, f], 0.0
            for t in range(total.size):
                linear += Lambda[f, t] * total[t]
            mu[f] = (linear + math.sqrt(precision) * rng.standard_normal()) / precision
    return mu


@kernel
def draw_prior(second, total, weight, dof, Lambda, inverse_a, A, free, nu, rng):
    """mu, Lambda and 1/a given sum w w^T and sum w over lines; the prior of mu counts in `weight`.

    Lambda ~ Wishart((sum (w - mu)(w - mu)^T + 2 nu diag(1/a))^-1, dof),
    1/a_d ~ Gamma((nu + p) / 2, rate nu Lambda_dd + A_d^-2).
    """
    p = total.size
    mu = draw_mean(total, weight, Lambda, free, rng)
    scatter = np.empty((p, p))
    for i in range(p):
        for j in range(p):
            scatter[i, j] = second[i, j] - mu[i] * total[j] - total[i] * mu[j] + weight * mu[i] * mu[j]
        scatter[i, i] += 2 * nu * inverse_a[i]
    drawn, scales = wishart(scatter, dof, rng), np.empty(p)
    for d in range(p):
        scales[d] = rng.standard_gamma((nu + p) / 2) / (nu * drawn[d, d] + A[d] ** -2)
    return mu, drawn, scales


@kernel
def log_rising(h, a):
    """log(Gamma(h + a) / (Gamma(h) h^a)), which is small where h is large.

    There by Stirling's series: the logarithms of two Gamma functions would lose it.
    """
    if h < 16:
        return math.lgamma(h + a) - math.lgamma(h) - a * math.log(h)
    x, y = 1 / h, 1 / (h + a)
    last = (y * (1 / 12 - y * y * (1 / 360 - y * y / 1260))) - (x * (1 / 12 - x * x * (1 / 360 - x * x / 1260)))
    return (h + a - 0.5) * math.log1p(a / h) - a + last


@kernel
def weights_density(t, least, middle, width, times, energy, counts):
    """log density of t = log(nu - least): the likelihood of nu/2 = h with the weights integrated out, and the prior of
    nu; times[n] is how many lines have n entries.

    Of each line Gamma(h + n/2) / Gamma(h) h^h (h + e)^-(h + n/2), without powers of h that cancel: h grows where lines
    are all alike, and what is left of sums of h log h is rounding.
    """
    h = (least + math.exp(t)) / 2
    value = -(((t - middle) / width) ** 2) / 2
    for n in range(times.size):
        if times[n] > 0:
            value += times[n] * log_rising(h, n / 2)
    for i in range(energy.size):
        value -= (h + counts[i] / 2) * math.log1p(energy[i] / h)
    return value


@kernel
def draw_weights(loss, counts, alpha, t, least, middle, width, rng, out):
    """A new t = log(nu - least) by Neal's slice, stepping out, and out = weights ~ Gamma(nu/2 + n/2, rate nu/2 + e);
    counts (lines,) are whole numbers n, and e = alpha loss."""
    energy, times = alpha * loss, np.zeros(counts.max() + 1, np.int64)
    for i in range(counts.size):
        times[counts[i]] += 1
    level = weights_density(t, least, middle, width, times, energy, counts) + math.log(rng.random())
    low = t - rng.random()
    high = low + 1
    while weights_density(low, least, middle, width, times, energy, counts) > level:
        low -= 1
    while weights_density(high, least, middle, width, times, energy, counts) > level:
        high += 1
    new = low + rng.random() * (high - low)
    # At t itself the density is the level where that is so large that the logarithm is lost.
    while not weights_density(new, least, middle, width, times, energy, counts) >= level:
        low, high = (new, high) if new < t else (low, new)
        new = low + rng.random() * (high - low)
    h = (least + math.exp(new)) / 2
    for i in range(counts.size):
        out[i] = rng.standard_gamma(h + counts[i] / 2) / (h + energy[i])
    return new


@kernel
def slope_density(slope, h, levels, energy, counts):
    """log likelihood of the slope of log weights over levels, up to a constant, those weights integrated out: energies
    count exp(slope level)-fold.

    levels (lines,) have the mean 0 over entries, so that sizes of weights cancel.
    """
    value = 0.0
    for i in range(energy.size):
        value -= (h + counts[i] / 2) * math.log1p(energy[i] * math.exp(slope * levels[i]) / h)
    return value
