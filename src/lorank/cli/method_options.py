"""The options that say which method is meant, and with which parameters."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorank.errors import InputError

if TYPE_CHECKING:
    from lorank.registry import Method

MethodOption = Annotated[
    str, typer.Option(help="Name of the method, or auto; `lorank compare` shows several side by side.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Parameter of the method, such as p=0.5 or p=auto; may be given several times."),
]
ThetaOption = Annotated[str | None, typer.Option(help="For NNFN from 0 (nuclear norm) to 1, or auto.")]


def method_of(name: str, assignments: list[str] | None) -> Any:
    """The method of this name with what --set gives it, or "auto"."""
    if name == "auto":
        if assignments:
            raise typer.BadParameter("give --method too: a parameter belongs to one method.", param_hint="--set")
        return name
    return _having(_find(name, "--method"), _assigned(assignments))


def methods_of(names: str, assignments: list[str] | None) -> list[Method | str]:
    """The methods of these names, each with what --set gives those that have such a parameter.

    "auto", "offsets" and baselines of lists are words of `lorank.compare`, and stay as they are.
    """
    from lorank import registry
    from lorank.estimators.comparison import AUTO, OFFSETS
    from lorank.estimators.list_baselines import BASELINES

    values = _assigned(assignments)
    wanted = registry.CATALOGUE if names == "all" else [name.strip() for name in names.split(",") if name.strip()]
    words = (AUTO, OFFSETS, *BASELINES)
    found = [name if name in words else _find(name, "--methods") for name in wanted]
    known = dict.fromkeys(p.name for method in found if not isinstance(method, str) for p in method.declared)
    for name in values:
        if name not in known:
            there = ", ".join(known) or "none"
            raise typer.BadParameter(f"no method here has a parameter {name}; there are {there}.", param_hint="--set")
    return [
        method
        if isinstance(method, str)
        else _having(method, {n: value for n, value in values.items() if n in method.parameters})
        for method in found
    ]


def _find(name: str, option: str) -> Method:
    from lorank import registry

    try:
        return registry.find(name)
    except InputError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def _having(method: Method, values: dict[str, Any]) -> Method:
    """The method with these values; they are tried at once, since a table may take minutes to read."""
    try:
        chosen = method.having(**values)
        chosen.build_regularizer(1.0, **{name: chosen.candidates(name)[0] for name in chosen.automatic})
    except InputError as error:
        raise typer.BadParameter(str(error), param_hint="--set") from None
    return chosen


def theta_for(method: Method, text: str | None) -> Any:
    """What --theta says, or else "auto" where the method has a range for it and no value, and its own otherwise."""
    if text is None:
        theta = method.parameters.get("theta")
        return "auto" if theta is not None and theta.range and "theta" not in dict(method.given) else None
    return number_or_auto(text, "--theta", float)


def number_or_auto(text: str, name: str, kind: type[int] | type[float]) -> Any:
    """A number, or "auto"."""
    if text == "auto":
        return text
    try:
        return kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise typer.BadParameter(f"give {what} or auto, not {text!r}.", param_hint=name) from None


def numbers(text: str, option: str) -> list[float]:
    """Numbers with commas between."""
    return [number_or_auto(part, option, float) for part in text.split(",")]


def _assigned(assignments: list[str] | None) -> dict[str, Any]:
    """Names and values of texts such as p=0.5: whole numbers, other numbers, or "auto"."""
    values: dict[str, Any] = {}
    for text in assignments or ():
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals):
            raise typer.BadParameter(f"give a name and a value, such as p=0.5, not {text!r}.", param_hint="--set")
        values[name] = number_or_auto(value, f"--set {name}", float)
        with suppress(ValueError):
            values[name] = int(value)
    return values
