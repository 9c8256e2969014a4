"""The catalogue: one name per method, each a regularizer, the solvers made for it, and what is known about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lorank.errors import InputError
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
from lorank.results_table import Table
from lorank.side_information.base import suits
from lorank.solvers import BPMF, DCA, GRALS, PALM, Alternating, GradientDescent, ProximalGradient, SoftImputeALS, Solver

Solvers = Mapping[str, Callable[[], Solver]]

_FACTORED: Solvers = {
    "alternating": Alternating,
    "gradient": GradientDescent,
    "alternating-gradient": lambda: GradientDescent(in_turn=True),
}
_SPECTRAL: Solvers = {
    "proximal": ProximalGradient,
    "proximal-momentum": lambda: ProximalGradient("momentum"),
    "proximal-plain": lambda: ProximalGradient("none"),
}


@dataclass(frozen=True)
class Cost:
    """Of one iteration of the default solver, and of all it holds; nnz entries, m + n lines, rank k."""

    time: str = "nnz k^2 + (m + n) k^3"
    space: str = "(m + n) k + nnz"


@dataclass(frozen=True)
class Method:
    """A name, its regularizer, and its solvers, of which the first is the default.

    Parameters
    ----------
    name, formula : str
    regularizer : callable
        Makes the regularizer from its parameters by name; None for a method that has none.
    defaults : mapping
        The method's parameters besides lam, each with its default: a value, or a function of lam.
    solvers : mapping
        Solvers by name.
    guarantees : str
        Columns of the paper's table 1: A scalable (works on factors), B adaptive (shrinks strong directions less),
        C statistical guarantee, D convergence guarantee.
    cost : Cost
    shapes : tuple
        Values of the second parameter that a search tries; (None,) for a method without one. Concave penalties have a
        sharp one, best where the rank is plain to see, and a mild one, best on ratings, where it never is.
    at : callable
        (strength, shape) -> parameters for a search. Singular values under the strength are set to 0 by a proximal
        step, so that the same strengths suit every method, whatever lam means to it.
    weighted : bool
        Whether the regularizer has a lam.
    """

    name: str
    formula: str
    regularizer: Callable[..., Any] | None
    defaults: Mapping[str, Any]
    solvers: Solvers
    guarantees: str
    cost: Cost = field(default_factory=Cost)
    shapes: tuple[Any, ...] = (None,)
    at: Callable[[float, Any], dict[str, Any]] = lambda strength, shape: {"lam": strength}
    weighted: bool = True

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of what its regularizer takes."""
        return (("lam",) if self.weighted else ()) + tuple(self.defaults)

    def build_regularizer(self, lam: float, **values: Any) -> Any:
        """The regularizer; a value of None is the method's default, and one that it does not have is refused."""
        given = {name: value for name, value in values.items() if value is not None}
        for name in given:
            if name not in self.parameters:
                has = " and ".join(self.parameters) or "none"
                raise InputError(f"Method {self.name!r} has no parameter {name}; it has {has}.")
        if self.regularizer is None:
            return None
        chosen = {name: given.get(name, default) for name, default in self.defaults.items()}
        chosen = {name: value(lam) if callable(value) else value for name, value in chosen.items()}
        return self.regularizer(**({"lam": lam} if self.weighted else {}), **chosen)

    def build_solver(self, name: str | Solver, sides: tuple[Any, ...] = ()) -> Solver:
        """The solver of this name; "auto" is the first that takes the given graphs and priors (`sides`) into account.

        One that is built already must be of a kind listed here.
        """
        if not isinstance(name, str):
            if not any(isinstance(name, type(build())) for build in self.solvers.values()):
                raise InputError(f"Method {self.name!r} cannot be fitted by a {type(name).__name__}.")
            return name
        if name == "auto":
            built = [build() for build in self.solvers.values()]
            kinds = [getattr(solver, "coupling", ()) for solver in built]
            able = [s for s, kind in zip(built, kinds) if all(suits(side, kind) for side in sides)]
            if not able:
                raise InputError(f"Method {self.name!r} cannot take a {type(sides[0]).__name__} into account.")
            return able[0]
        if name not in self.solvers:
            raise InputError(
                f"Unknown solver {name!r} for method {self.name!r}; there are auto, {', '.join(self.solvers)}."
            )
        return self.solvers[name]()


def _with_theta(strength: float, theta: float) -> dict[str, Any]:
    return {"lam": strength, "theta": theta}


def _capped(strength: float, cap: float) -> dict[str, Any]:
    return {"lam": strength, "theta": cap * strength}


def _log_sum(strength: float, scale: float) -> dict[str, Any]:
    """The slope at 0, lam / theta, is the strength."""
    return {"lam": scale * strength**2, "theta": scale * strength}


def _schatten(strength: float, p: float) -> dict[str, Any]:
    """The threshold (2 - p) / (2 (1 - p)) (2 lam (1 - p))^(1 / (2 - p)), solved for lam."""
    jump = strength * 2 * (1 - p) / (2 - p)
    return {"lam": jump ** (2 - p) / (2 * (1 - p)), "p": p}


CATALOGUE: Mapping[str, Method] = {
    method.name: method
    for method in (
        Method(
            "nnfn",
            "lam/2 (||W||_F^2 + ||H||_F^2) - theta lam ||W H^T||_F",
            FactoredNNFN,
            {"theta": 1.0},
            _FACTORED,
            "ABCD",
            shapes=(1.0, 0.5),
            at=_with_theta,
        ),
        Method(
            "nnfn-prox",
            "lam (||X||_* - theta ||X||_F)",
            NNFN,
            {"theta": 1.0},
            _SPECTRAL,
            "BCD",
            shapes=(1.0, 0.5),
            at=_with_theta,
        ),
        Method("factored-nuclear", "lam/2 (||W||_F^2 + ||H||_F^2)", FactoredNuclear, {}, _FACTORED, "ACD"),
        Method(
            "grals",
            "lam/2 (||W||_F^2 + ||H||_F^2) + gamma/2 tr(W^T L W)",
            FactoredNuclear,
            {},
            {"grals": GRALS},
            "ACD",
        ),
        Method(
            "nuclear",
            "lam ||X||_*",
            Nuclear,
            {},
            {"softimpute": SoftImputeALS, **_SPECTRAL},
            "CD",
            Cost(time="nnz k + (m + n) k^2"),
        ),
        Method(
            "mf",
            "none: plain matrix factorization",
            lambda: FactoredNuclear(lam=0.0),
            {},
            _FACTORED,
            "AD",
            at=lambda strength, shape: {},
            weighted=False,
        ),
        Method(
            "bpmf",
            "Gaussian-Wishart priors on W and H, sampled",
            None,
            {},
            {"gibbs": BPMF},
            "AB",
            at=lambda strength, shape: {},
            weighted=False,
        ),
        Method(
            "capped-l1",
            "lam sum_i min(sigma_i, theta)",
            CappedL1,
            {"theta": lambda lam: 2 * lam},
            _SPECTRAL,
            "BCD",
            shapes=(2.0, 100.0),
            at=_capped,
        ),
        Method(
            "lsp",
            "lam sum_i log(1 + sigma_i / theta)",
            LSP,
            {"theta": lambda lam: lam**0.5},
            _SPECTRAL,
            "BCD",
            shapes=(1.0, 30.0),
            at=_log_sum,
        ),
        Method(
            "mcp",
            "sum_i lam sigma_i - sigma_i^2 / (2 theta) up to theta lam, theta lam^2 / 2 beyond",
            MCP,
            {"theta": 5.0},
            _SPECTRAL,
            "BCD",
            shapes=(5.0, 200.0),
            at=_with_theta,
        ),
        Method(
            "schatten-p",
            "lam sum_i sigma_i^p",
            SchattenP,
            {"p": 0.5},
            _SPECTRAL,
            "CD",
            shapes=(1 / 2, 2 / 3),
            at=_schatten,
        ),
        Method(
            "fgsr",
            "lam sum_j (||w_j|| ||h_j||)^p, p = 1/2 or 2/3",
            group_sparse,
            {"p": 0.5},
            {"palm": PALM},
            "ACD",
            shapes=(1 / 2, 2 / 3),
            at=_schatten,
        ),
        Method(
            "truncated-l12",
            "lam (sum_{i > t} sigma_i - (sum_{i > t} sigma_i^2)^(1/2))",
            TruncatedL12,
            {"t": 1},
            {"dca": DCA},
            "BCD",
            Cost(time="q (nnz k + (m + n) k^2), q inner ADMM steps"),
            shapes=(1, 3),
            at=lambda strength, t: {"lam": strength, "t": t},
        ),
    )
}


def find(name: str) -> Method:
    """The method of this name."""
    if name not in CATALOGUE:
        raise InputError(f"Unknown method {name!r}; there are {', '.join(CATALOGUE)}.")
    return CATALOGUE[name]


def methods() -> Table:
    """All methods: what each minimises, what is known of it, and what an iteration costs.

    The columns scalable to convergence are A to D of the paper's table 1. `print(lorank.methods())` shows it,
    `.to_frame()` gives a DataFrame.
    """
    letters = {"scalable": "A", "adaptive": "B", "statistical": "C", "convergence": "D"}
    return Table(
        [
            {
                "name": method.name,
                "formula": method.formula,
                "parameters": ", ".join(method.parameters),
                **{column: letter in method.guarantees for column, letter in letters.items()},
                "solver": next(iter(method.solvers)),
                "time": f"O({method.cost.time})",
                "space": f"O({method.cost.space})",
            }
            for method in CATALOGUE.values()
        ]
    )
