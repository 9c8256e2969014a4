"""Methods by name, and a method for every regularizer, registered or not."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from typing import Any

from lorank.errors import InputError
from lorank.registry.builtin import BUILT_IN, FACTORED, MOMENTUM, SPECTRAL
from lorank.registry.method import Method, Parameter, Solvers
from lorank.regularizers import Factored, SpectralValue
from lorank.results_table import Table
from lorank.solvers import DCA, PALM, SoftImputeALS

CATALOGUE: dict[str, Method] = {method.name: method for method in BUILT_IN}

# Solvers for a regularizer that is not in the catalogue, those made for the least first.
_ANY: Solvers = {"palm": PALM, **FACTORED, "softimpute": SoftImputeALS, "dca": DCA}


def distributable() -> str:
    """The names of the methods that run on several machines, in a sentence."""
    return ", ".join(name for name, method in CATALOGUE.items() if method.distributes)


def find(method: Any) -> Method:
    """The method that is meant.

    Parameters
    ----------
    method : str, Method, regularizer, or class of regularizers
        A name of the catalogue. A regularizer's parameters are those of the method, but for lam, which the estimator
        has; of a class, they are at their defaults, and a comparison searches those that say what to try.
    """
    if isinstance(method, Method):
        return method if method.registered else saved(method.name, dict(method.given))
    if isinstance(method, str):
        if method not in CATALOGUE:
            raise InputError(
                f"Unknown method {method!r}; there are {', '.join(CATALOGUE)}, and whatever lorank.register adds."
            )
        return CATALOGUE[method]
    if isinstance(method, type):
        return _of_class(method)
    if isinstance(method, (SpectralValue, Factored)):
        return _of_class(type(method)).having(**{f.name: getattr(method, f.name) for f in _own_fields(type(method))})
    raise InputError(f"method must be a name, a Method or a regularizer; got {method!r}.")


def register(method: Any, name: str | None = None) -> Method:
    """Add a method to the catalogue, so that it can be asked for by name.

    Parameters
    ----------
    method : class of regularizers, regularizer, or Method
        As for `find`. A name that was registered before is taken over.
    name : str, optional
        Else the class's `name`, or what the class is called.

    Returns
    -------
    Method
    """
    found = _derived(method) if isinstance(method, type) else find(method)
    found = replace(found, name=found.name if name is None else name)
    if any(found.name == built_in.name for built_in in BUILT_IN):
        raise InputError(f"{found.name!r} is a method of lorank's own; register yours by another name.")
    CATALOGUE[found.name] = found
    return found


def saved(name: str, values: dict[str, Any]) -> Method:
    """The method of a model file; one that is not registered here can be asked its name, but fits nothing."""
    known = CATALOGUE.get(name) or Method(name, "", None, (), {}, registered=False)
    # JSON has lists only, and parameters are kept in tuples.
    return replace(known, given=tuple((n, tuple(v) if isinstance(v, list) else v) for n, v in values.items()))


def methods() -> Table:
    """All methods: what each minimises, its parameters, what it can do, and what an iteration costs.

    The columns scalable to convergence are A to D of the paper's table 1, empty where nothing is known. A parameter is
    shown with its default, and what a comparison tries in brackets. `print(lorank.methods())` shows it, `.to_frame()`
    gives a DataFrame.
    """
    letters = {"scalable": "A", "adaptive": "B", "statistical": "C", "convergence": "D"}
    return Table(
        [
            {
                "name": method.name,
                "formula": method.formula,
                "parameters": ", ".join(_text(parameter) for parameter in method.parameters.values()),
                **{
                    column: letter in method.guarantees if method.guarantees else None
                    for column, letter in letters.items()
                },
                "samples": method.samples,
                "distributes": method.distributes,
                "folds_in": method.folds_in,
                "solver": next(iter(method.solvers)),
                "time": f"O({method.cost.time})",
                "space": f"O({method.cost.space})",
            }
            for method in CATALOGUE.values()
        ]
    )


def _text(parameter: Parameter) -> str:
    if parameter.required:
        return parameter.name
    tried = " or ".join(_short(value) for value in parameter.values)
    tried += " times the strength" if parameter.scaled else ""
    return f"{parameter.name}={_short(parameter.default)}" + (f" [{tried}]" if tried else "")


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _of_class(kind: type) -> Method:
    """The registered method of a regularizer's class, or one that is derived from the class."""
    known = next((method for method in CATALOGUE.values() if method.regularizer is kind), None)
    if known is not None:
        return known
    derived = _derived(kind)
    if derived.name in CATALOGUE:
        raise InputError(f"The name {derived.name!r} is that of another method; call lorank.register with this one.")
    return derived


def _derived(kind: type) -> Method:
    """The method of a regularizer's class: its fields but lam are the parameters, and what it can do finds solvers."""
    if not (is_dataclass(kind) and issubclass(kind, (SpectralValue, Factored))):
        raise InputError(
            f"{kind.__name__} is no regularizer: it must be a dataclass that extends one of lorank.regularizers."
        )
    if inspect.isabstract(kind):
        raise InputError(
            f"{kind.__name__} is no regularizer yet: it lacks {', '.join(sorted(kind.__abstractmethods__))}."
        )
    name = getattr(kind, "name", kind.__name__)
    formula = (kind.__doc__ or "").strip().partition("\n")[0]
    if formula.startswith(f"{kind.__name__}("):  # which dataclass writes where there is no docstring
        formula = ""
    declared = tuple(_declared(own) for own in _own_fields(kind))
    proximal = SPECTRAL if getattr(kind, "concave", False) else MOMENTUM
    # A solver says which methods it asks of a regularizer.
    able = {
        solver: build
        for solver, build in {**_ANY, **proximal}.items()
        if all(hasattr(kind, asked) for asked in getattr(build(), "requires", ()))
    }
    if not able:
        raise InputError(f"No solver takes {kind.__name__}: give it prox and threshold, or multipliers and majorizer.")
    return Method(str(name), formula, kind, declared, able)


def _own_fields(kind: type) -> list[Field[Any]]:
    """What a regularizer has besides lam."""
    return [own for own in fields(kind) if own.init and own.name != "lam"]


def _declared(own: Field[Any]) -> Parameter:
    default = own.default_factory() if own.default_factory is not MISSING else own.default
    required = default is MISSING
    values = tuple(own.metadata.get("search", ()))
    return Parameter(own.name, None if required else default, values, own.metadata.get("range"), required=required)
