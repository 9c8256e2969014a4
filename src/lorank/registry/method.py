"""What a method is: a regularizer with its parameters, the solvers made for it, and what the program asks about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from lorank.errors import InputError
from lorank.side_information.base import suits
from lorank.solvers import Solver

Solvers = Mapping[str, Callable[[], Solver]]


@dataclass(frozen=True)
class Cost:
    """Of one iteration of the default solver, and of all it holds; nnz entries, m + n lines, rank k."""

    time: str = "nnz k^2 + (m + n) k^3"
    space: str = "(m + n) k + nnz"


@dataclass(frozen=True)
class Parameter:
    """A parameter of a method: its default, and what a search tries.

    Parameters
    ----------
    name : str
    default : any
        A value; if `of_lam` is given, the text that shows it.
    values : tuple
        What a comparison tries. Concave penalties have a sharp value, best where the rank is plain to see, and a mild
        one, best on ratings, where it never is.
    range : (low, high), optional
        "auto" starts in the middle of it and tries both ends; without it, "auto" tries the values.
    scaled : bool
        Whether the values are multiples of the strength, as for a parameter in the unit of the singular values.
    of_lam : callable, optional
        The default as a function of lam.
    required : bool
        There is no default.
    """

    name: str
    default: Any = None
    values: tuple[Any, ...] = ()
    range: tuple[float, float] | None = None
    scaled: bool = False
    of_lam: Callable[[float], float] | None = None
    required: bool = False

    @property
    def candidates(self) -> tuple[Any, ...]:
        """What "auto" tries, in order; nothing if it cannot be searched."""
        if self.range is not None:
            return ((self.range[0] + self.range[1]) / 2, *self.range)
        return () if self.scaled else self.values

    def at(self, lam: float) -> Any:
        """The default at this lam."""
        return self.default if self.of_lam is None else self.of_lam(lam)


@dataclass(frozen=True, repr=False)
class Method:
    """A name, a regularizer with its parameters, and solvers, of which the first is the default.

    Parameters
    ----------
    name, formula : str
    regularizer : callable
        Makes the regularizer from its parameters by name; None for a method that has none.
    declared : tuple of Parameter
        All parameters but lam.
    solvers : mapping
        Solvers by name.
    guarantees : str
        Columns of the paper's table 1: A scalable (works on factors), B adaptive (shrinks strong directions less),
        C statistical guarantee, D convergence guarantee.
    cost : Cost
    tunes : bool
        Whether it has a lam, which a search can choose.
    given : tuple of (name, value)
        Parameters that are not at their defaults; see `having`.
    registered : bool
        False for one of which only the name is known, from a model file.
    """

    name: str
    formula: str
    regularizer: Callable[..., Any] | None
    declared: tuple[Parameter, ...]
    solvers: Solvers = field(compare=False)
    guarantees: str = ""
    cost: Cost = field(default_factory=Cost)
    tunes: bool = True
    given: tuple[tuple[str, Any], ...] = ()
    registered: bool = True

    @property
    def parameters(self) -> dict[str, Parameter]:
        """What its regularizer takes, by name."""
        lam = (Parameter("lam", required=True),) if self.tunes else ()
        return {parameter.name: parameter for parameter in lam + self.declared}

    @property
    def samples(self) -> bool:
        """Whether it draws from a posterior instead of seeking one optimum."""
        return any(build().samples for build in self.solvers.values())

    @property
    def distributes(self) -> bool:
        """Whether its default solver runs on lines that are kept elsewhere, in other processes or on disk."""
        return bool(self.solvers) and self.build_solver("auto").distributes

    @property
    def folds_in(self) -> bool:
        """Whether new rows can be regressed on its factors."""
        return self.regularizer is not None or self.samples

    @property
    def automatic(self) -> tuple[str, ...]:
        """Parameters that were given as "auto"."""
        return tuple(name for name, value in self.given if _is_auto(value))

    def having(self, **values: Any) -> Method:
        """The same method with these values of its parameters, which a comparison then keeps.

        "auto" leaves a parameter to the search that also chooses lam, rank or biases.
        """
        if "lam" in values:
            raise InputError("lam is not set on a method: give it to the estimator, beside the method.")
        self._check_names(values)
        for name, value in values.items():
            if _is_auto(value):
                self.candidates(name)
        return replace(self, given=tuple({**dict(self.given), **values}.items()))

    def searches(self, name: str) -> bool:
        """Whether a search has values of this parameter to try, and none was given."""
        return name in self.parameters and name not in dict(self.given) and bool(self.parameters[name].candidates)

    def candidates(self, name: str) -> tuple[Any, ...]:
        """What "auto" tries for this parameter, in order."""
        found = self.parameters[name].candidates
        if not found:
            raise InputError(f"Method {self.name!r} declares no values of {name} to search; give a number.")
        return found

    def build_regularizer(self, lam: float | None, **values: Any) -> Any:
        """The regularizer; a value of None is the method's own, and one that it does not have is refused.

        lam is None for a method that has none.
        """
        self._check_registered()
        values = dict(self.given) | {name: value for name, value in values.items() if value is not None}
        self._check_names(values)
        if self.regularizer is None:
            return None
        chosen = {p.name: p.at(1.0 if lam is None else lam) for p in self.declared if not p.required} | values
        lacking = [p.name for p in self.declared if p.name not in chosen or _is_auto(chosen[p.name])]
        if lacking:
            raise InputError(f"Method {self.name!r} needs a value of {' and '.join(lacking)}.")
        return self.regularizer(**({"lam": lam} if self.tunes else {}), **chosen)

    def build_solver(self, name: str | Solver, sides: tuple[Any, ...] = ()) -> Solver:
        """The solver of this name; "auto" is the first that takes the given graphs and priors (`sides`) into account.

        One that is built already must be of a kind listed here.
        """
        self._check_registered()
        if not isinstance(name, str):
            if not any(isinstance(name, type(build())) for build in self.solvers.values()):
                raise InputError(f"Method {self.name!r} cannot be fitted by a {type(name).__name__}.")
            return name
        if name == "auto":
            built = [build() for build in self.solvers.values()]
            able = [solver for solver in built if all(suits(side, solver.coupling) for side in sides)]
            if not able:
                raise InputError(f"Method {self.name!r} cannot take a {type(sides[0]).__name__} into account.")
            return able[0]
        if name not in self.solvers:
            raise InputError(
                f"Unknown solver {name!r} for method {self.name!r}; there are auto, {', '.join(self.solvers)}."
            )
        return self.solvers[name]()

    @property
    def shapes(self) -> tuple[Any, ...]:
        """What a comparison tries of the parameters besides lam: values, or tuples of them if there are several."""
        free = self._free
        return free[0].values if len(free) == 1 else tuple(product(*(parameter.values for parameter in free)))

    def at(self, strength: float, shape: Any = ()) -> dict[str, Any]:
        """Parameters by name for a search, at one of the `shapes`.

        Singular values up to the strength are set to 0 by a proximal step of length 1, so that the same strengths suit
        every method, whatever lam means to it.
        """
        free = self._free
        values = {
            parameter.name: value * strength if parameter.scaled else value
            for parameter, value in zip(free, (shape,) if len(free) == 1 else shape)
        }
        if not self.tunes:
            return values
        return {"lam": self.build_regularizer(strength, **values).with_threshold(strength).lam, **values}

    def arguments(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Keywords of an estimator for these values: lam and theta are its own, the rest are set on the method."""
        names = {parameter.name for parameter in self.declared} - {"theta"}
        own = {name: value for name, value in parameters.items() if name in names}
        rest = {name: value for name, value in parameters.items() if name not in names}
        return {"method": self.having(**own), **rest}

    @property
    def _free(self) -> list[Parameter]:
        """Parameters whose values a comparison chooses."""
        fixed = {name for name, value in self.given if not _is_auto(value)}
        return [parameter for parameter in self.declared if parameter.values and parameter.name not in fixed]

    def _check_names(self, values: Mapping[str, Any]) -> None:
        for name in values:
            if name not in self.parameters:
                has = " and ".join(self.parameters) or "none"
                raise InputError(f"Method {self.name!r} has no parameter {name}; it has {has}.")

    def _check_registered(self) -> None:
        if not self.registered:
            raise InputError(
                f"Method {self.name!r} is not registered, so that nothing can be fitted with it: "
                "call lorank.register with its regularizer first."
            )

    def __str__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self.given)
        return f"{self.name}({values})" if values else self.name

    def __repr__(self) -> str:
        return f"<Method {self}>"


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"
