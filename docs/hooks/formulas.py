"""Turns formulas into MathML as the site is built, so that pages show them without a script or a network.

`pymdownx.arithmatex` marks the formulas of a page; each is converted from LaTeX here.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

MARKED = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Called by mkdocs: replace the formulas of a page."""
    return MARKED.sub(_mathml, content)


def _mathml(match: re.Match[str]) -> str:
    kind, latex = match.groups()
    formula = convert(html.unescape(latex).strip(), display="block" if kind == "div" else "inline")
    if "\\" in formula:
        raise ValueError(f"This formula has a command that latex2mathml does not know: {latex}")
    return f'<div class="formula">{formula}</div>' if kind == "div" else formula
