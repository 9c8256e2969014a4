"""Makes the reference as the site is built: a page for each room of the library, with all its public names.

The names come from the library itself, so that none is forgotten and none is kept that has gone.
"""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module
from types import ModuleType
from typing import Any

from mkdocs.structure.files import File

import lorank

# The rooms that users need, in the order of the menu.
ROOMS = {
    "estimators": "Estimators",
    "models": "Models",
    "observations": "Observations",
    "tables": "Tables",
    "datasets": "Data sets",
    "registry": "Methods",
    "regularizers": "Regularizers",
    "losses": "Losses",
    "side_information": "Side information",
    "problems": "Problems",
    "solvers": "Solvers",
    "tuning": "Tuning",
    "linalg": "Linear algebra",
    "distributed": "Distributed execution",
    "spatial": "Places and times",
    "plots": "Plots",
}


def on_files(files: Any, config: Any) -> Any:
    """Called by mkdocs: add the pages."""
    for room, title in ROOMS.items():
        module = import_module(f"lorank.{room}")
        parts = [f"# {title}", f"Module `lorank.{room}`. {first_sentence(module)}"]
        places = {f"lorank.{room}.{name}": place for name, place in public_names(module).items()}
        places |= {f"lorank.{name}": place for name, place in _offered_at_the_top(room, set(places.values())).items()}
        parts += [_entry(place, name) for name, place in places.items()]
        files.append(File.generated(config, f"reference/{room}.md", content="\n\n".join(parts)))
    files.append(File.generated(config, "reference/index.md", content=_overview()))
    return files


def public_names(module: ModuleType) -> dict[str, str]:
    """Names that a room offers, each with the place of its definition."""
    names = getattr(module, "__all__", None)
    if names is None and hasattr(module, "__path__"):
        inside = [import_module(f"{module.__name__}.{info.name}") for info in pkgutil.iter_modules(module.__path__)]
        return {name: place for part in inside for name, place in _defined_in(part).items()}
    if names is None:
        return _defined_in(module)
    # A constant that is loaded when it is first used has no place that the documentation could read.
    things = {name: getattr(module, name) for name in names}
    known = {name: thing for name, thing in things.items() if name in vars(module) or hasattr(thing, "__module__")}
    return {name: _place(thing, f"{module.__name__}.{name}") for name, thing in known.items()}


def _offered_at_the_top(room: str, listed: set[str]) -> dict[str, str]:
    """Names of `import lorank` that a room defines but does not offer itself."""
    things = {name: _place(getattr(lorank, name), "") for name in lorank.__all__}
    return {
        name: place for name, place in things.items() if place.startswith(f"lorank.{room}.") and place not in listed
    }


def first_sentence(thing: Any) -> str:
    """The first sentence of a docstring."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def _defined_in(module: ModuleType) -> dict[str, str]:
    return {
        name: f"{module.__name__}.{name}"
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(thing) or inspect.isfunction(thing))
        and thing.__module__ == module.__name__
    }


def _place(thing: Any, otherwise: str) -> str:
    if (inspect.isclass(thing) or inspect.isfunction(thing)) and thing.__module__.startswith("lorank"):
        return f"{thing.__module__}.{thing.__qualname__}"
    return otherwise


def _entry(place: str, name: str) -> str:
    return f'::: {place}\n    options:\n      heading: "{name}"\n      toc_label: "{name.rpartition(".")[2]}"'


def _overview() -> str:
    lines = [
        "# Reference",
        "",
        "What `import lorank` offers at the top. The pages beside list all public names, room by room.",
        "",
        "| name | what it is |",
        "|---|---|",
    ]
    for name in lorank.__all__:
        thing = getattr(lorank, name)
        if isinstance(thing, ModuleType):
            link = f"{name}.md" if name in ROOMS else None
        else:
            link = f"{thing.__module__.split('.')[1]}.md#{_place(thing, '')}"
            link = link if link.split(".")[0] in ROOMS else None
        shown = f"`lorank.{name}`"
        lines.append(f"| {f'[{shown}]({link})' if link else shown} | {first_sentence(thing)} |")
    return "\n".join(lines)
