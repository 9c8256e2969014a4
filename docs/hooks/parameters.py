"""Corrects the tables of parameters: griffe gives names that share a line the type and default of the first of them."""

from __future__ import annotations

from typing import Any

from griffe import Class, DocstringSectionKind, Extension, Function, Object


class OwnTypesAndDefaults(Extension):
    """Gives each documented parameter its own default, and its own annotation where the docstring has no type."""

    def on_package(self, *, pkg: Any, **_: Any) -> None:
        """Called by griffe when the package has been read."""
        _correct(pkg)


def _correct(thing: Object) -> None:
    if isinstance(thing, (Class, Function)) and thing.docstring:
        sections = thing.docstring.parse("numpy", warnings=False)
        own = {parameter.name: parameter for parameter in thing.parameters}
        for section in sections:
            if section.kind is DocstringSectionKind.parameters:
                of_first = {str(own[item.name].annotation) for item in section.value if item.name in own}
                for item in section.value:
                    if item.name in own:
                        item.value = own[item.name].default
                        if str(item.annotation) in of_first:
                            item.annotation = own[item.name].annotation
        thing.docstring.__dict__["parsed"] = sections  # where the cached property looks
    for member in thing.members.values():
        if not member.is_alias:
            _correct(member)
