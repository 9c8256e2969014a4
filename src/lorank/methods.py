"""The catalogue: one name per method, each a regularizer, the solvers made for it, and what is known about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lorank.errors import InputError
from lorank.regularizers import NNFN, FactoredNNFN, FactoredNuclear, Nuclear
from lorank.solvers import GRALS, Alternating, GradientDescent, ProximalGradient, Solver

_FACTORED: Mapping[str, Callable[[], Solver]] = {"alternating": Alternating, "gradient": GradientDescent}
_SPECTRAL: Mapping[str, Callable[[], Solver]] = {
    "proximal": ProximalGradient,
    "proximal-plain": lambda: ProximalGradient(accelerate=False),
}


@dataclass(frozen=True)
class Method:
    """A name, its regularizer, and its solvers, of which the first is the default.

    `parameters` are those that the regularizer takes; others of the estimator do not concern it.
    """

    name: str
    formula: str
    regularizer: Callable[..., Any]
    parameters: tuple[str, ...]
    solvers: Mapping[str, Callable[[], Solver]]

    def build_regularizer(self, **values: Any) -> Any:
        """The regularizer, from whichever of the values it takes."""
        return self.regularizer(**{name: values[name] for name in self.parameters})

    def build_solver(self, name: str) -> Solver:
        """The solver of this name; "auto" is the default."""
        if name == "auto":
            return next(iter(self.solvers.values()))()
        if name not in self.solvers:
            raise InputError(
                f"Unknown solver {name!r} for method {self.name!r}; there are auto, {', '.join(self.solvers)}."
            )
        return self.solvers[name]()


CATALOGUE: Mapping[str, Method] = {
    method.name: method
    for method in (
        Method(
            "nnfn",
            "lam/2 (||W||_F^2 + ||H||_F^2) - theta lam ||W H^T||_F",
            FactoredNNFN,
            ("lam", "theta"),
            _FACTORED,
        ),
        Method("nnfn-prox", "lam (||X||_* - theta ||X||_F)", NNFN, ("lam", "theta"), _SPECTRAL),
        Method("factored-nuclear", "lam/2 (||W||_F^2 + ||H||_F^2)", FactoredNuclear, ("lam",), _FACTORED),
        Method(
            "grals",
            "lam/2 (||W||_F^2 + ||H||_F^2) + gamma/2 tr(W^T L W)",
            FactoredNuclear,
            ("lam",),
            {"grals": GRALS},
        ),
        Method("nuclear", "lam ||X||_*", Nuclear, ("lam",), _SPECTRAL),
        Method("mf", "none: plain matrix factorization", lambda: FactoredNuclear(lam=0.0), (), _FACTORED),
    )
}


def find(name: str) -> Method:
    """The method of this name."""
    if name not in CATALOGUE:
        raise InputError(f"Unknown method {name!r}; there are {', '.join(CATALOGUE)}.")
    return CATALOGUE[name]
