"""Rubin's rules: one answer out of the answers from several draws of the missing cells.

    estimate = mean of Q_d,   U = mean of their variances,   B = variance of the Q_d over the m draws
    T = U + (1 + 1/m) B,      degrees of freedom nu = (m - 1) (1 + U / ((1 + 1/m) B))^2

and with the degrees of freedom nu_com of the complete data, nu' = 1 / (1/nu + 1/nu_obs),
nu_obs = (nu_com + 1) / (nu_com + 3) nu_com U / T.

References
----------
Rubin, "Multiple imputation for nonresponse in surveys", 1987.
Barnard, Rubin, "Small-sample degrees of freedom with multiple imputation", Biometrika 1999.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from lorank.errors import InputError
from lorank.types import Array


@dataclass(frozen=True)
class Pooled:
    """Estimates from several filled tables, together.

    Attributes
    ----------
    estimate, std : arrays
        The pooled estimate and its standard error.
    within, between : arrays
        Its variance within one table, and between tables.
    degrees : array
        Degrees of freedom of the t distribution of (estimate - truth) / std.
    missing : array
        Fraction of the information that is missing.
    """

    estimate: Array
    std: Array
    within: Array
    between: Array
    degrees: Array
    missing: Array

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Bounds that hold the truth with this probability."""
        half = stdtrit(self.degrees, (1 + level) / 2) * self.std
        return self.estimate - half, self.estimate + half


def pool(estimates: npt.ArrayLike, variances: npt.ArrayLike, degrees: float | None = None) -> Pooled:
    """Pool the estimates that each of several filled tables gave, by Rubin's rules.

    Parameters
    ----------
    estimates : (draws,) or (draws, parameters) array
        From the same analysis of each table of `LowRankImputer.draws`.
    variances : array of the same shape
        Squared standard errors of these estimates.
    degrees : float, optional
        Degrees of freedom of the analysis of a complete table, such as n - p of a regression; None for many.
    """
    Q, V = np.asarray(estimates, np.float64), np.asarray(variances, np.float64)
    if Q.shape != V.shape or Q.ndim not in (1, 2):
        raise InputError(f"Estimates of shape {Q.shape} need variances of the same shape; got {V.shape}.")
    m = len(Q)
    if m < 2:
        raise InputError("Pooling needs the estimates from at least two draws.")
    if not (V >= 0).all():
        raise InputError("Variances must not be negative; give squared standard errors.")
    within, between = V.mean(axis=0), Q.var(axis=0, ddof=1)
    added = (1 + 1 / m) * between
    total = within + added
    share = np.divide(added, total, out=np.zeros_like(total), where=total > 0)
    freedom = (m - 1) / np.maximum(share, 1e-12) ** 2
    if degrees is not None:
        observed = (degrees + 1) / (degrees + 3) * degrees * (1 - share)
        freedom = 1 / (1 / freedom + 1 / np.maximum(observed, 1e-12))
    return Pooled(Q.mean(axis=0), np.sqrt(total), within, between, freedom, share)
