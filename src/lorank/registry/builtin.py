"""The methods of lorank's own: the paper's, and those that it is compared with."""

from __future__ import annotations

from functools import partial

from lorank.registry.method import Cost, Method, Parameter, Solvers
from lorank.regularizers import (
    LSP,
    MCP,
    NNFN,
    CappedL1,
    FactoredNNFN,
    FactoredNuclear,
    Nuclear,
    SchattenP,
    TruncatedL12,
    group_sparse,
)
from lorank.solvers import DCA, GRALS, PALM, Alternating, GradientDescent, ProximalGradient, SoftImputeALS
from lorank.solvers.gibbs import BPMF

FACTORED: Solvers = {
    "alternating": Alternating,
    "gradient": GradientDescent,
    "alternating-gradient": partial(GradientDescent, in_turn=True),
}
MOMENTUM: Solvers = {
    "proximal-momentum": partial(ProximalGradient, "momentum"),
    "proximal-plain": partial(ProximalGradient, "none"),
}
# Sweeps bound the regularizer by its tangent, so it must be concave in the singular values.
SPECTRAL: Solvers = {"proximal": ProximalGradient, **MOMENTUM}

_THETA = Parameter("theta", 1.0, (1.0, 0.5), (0.0, 1.0))
_POWER = Parameter("p", 0.5, (1 / 2, 2 / 3))


def _twice(lam: float) -> float:
    return 2 * lam


def _root(lam: float) -> float:
    return lam**0.5


BUILT_IN: tuple[Method, ...] = (
    Method(
        "nnfn",
        "lam/2 (||W||_F^2 + ||H||_F^2) - theta lam ||W H^T||_F",
        FactoredNNFN,
        (_THETA,),
        FACTORED,
        "ABCD",
    ),
    Method("nnfn-prox", "lam (||X||_* - theta ||X||_F)", NNFN, (_THETA,), SPECTRAL, "BCD"),
    Method("factored-nuclear", "lam/2 (||W||_F^2 + ||H||_F^2)", FactoredNuclear, (), FACTORED, "ACD"),
    Method(
        "grals",
        "lam/2 (||W||_F^2 + ||H||_F^2) + gamma/2 tr(W^T L W)",
        FactoredNuclear,
        (),
        {"grals": GRALS},
        "ACD",
    ),
    Method(
        "nuclear",
        "lam ||X||_*",
        Nuclear,
        (),
        {"softimpute": SoftImputeALS, **SPECTRAL},
        "CD",
        Cost(time="nnz k + (m + n) k^2"),
    ),
    Method(
        "mf",
        "none: plain matrix factorization",
        partial(FactoredNuclear, lam=0.0),
        (),
        FACTORED,
        "AD",
        tunes=False,
    ),
    Method(
        "bpmf", "normal priors on W and H with half-t scales, sampled", None, (), {"gibbs": BPMF}, "AB", tunes=False
    ),
    Method(
        "capped-l1",
        "lam sum_i min(sigma_i, theta)",
        CappedL1,
        (Parameter("theta", "2 lam", (2.0, 100.0), scaled=True, of_lam=_twice),),
        SPECTRAL,
        "BCD",
    ),
    Method(
        "lsp",
        "lam sum_i log(1 + sigma_i / theta)",
        LSP,
        (Parameter("theta", "sqrt(lam)", (1.0, 30.0), scaled=True, of_lam=_root),),
        SPECTRAL,
        "BCD",
    ),
    Method(
        "mcp",
        "sum_i lam sigma_i - sigma_i^2 / (2 theta) up to theta lam, theta lam^2 / 2 beyond",
        MCP,
        (Parameter("theta", 5.0, (5.0, 200.0)),),
        SPECTRAL,
        "BCD",
    ),
    Method("schatten-p", "lam sum_i sigma_i^p", SchattenP, (_POWER,), SPECTRAL, "CD"),
    Method(
        "fgsr",
        "lam sum_j (||w_j|| ||h_j||)^p, p = 1/2 or 2/3",
        group_sparse,
        (_POWER,),
        {"palm": PALM},
        "ACD",
    ),
    Method(
        "truncated-l12",
        "lam (sum_{i > t} sigma_i - (sum_{i > t} sigma_i^2)^(1/2))",
        TruncatedL12,
        (Parameter("t", 1, (1, 3)),),
        {"dca": DCA},
        "BCD",
        Cost(time="q (nnz k + (m + n) k^2), q inner ADMM steps"),
    ),
)
