"""The page of a model: one file that needs no server and no network."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files

from lorank.models import Model
from lorank.serving.content import content


def model_page(model: Model) -> str:
    """The whole page as text: search, lists with error bars and reasons, a map, curves of the fit, facts."""
    shown = content(model)
    m, n = model.shape
    held = len(shown["rows"]), len(shown["columns"])
    summary = f"{m} x {n}, {model.entries} entries, {model.method_text}."
    if held != (m, n):
        summary += f" This page has the {held[0]} rows and {held[1]} columns with the most entries."
    names = shown["names"]
    parts = {
        "STYLE": _resource("page.css"),
        "SCRIPT": _resource("page.js"),
        "TITLE": escape(f"{names[0]} x {names[1]}"),
        "SUMMARY": escape(summary),
        "FACTS": "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in shown.pop("facts")),
        # "</" would end the script that holds the data, and "<!--" hide the end of it.
        "DATA": json.dumps(shown, allow_nan=False).replace("<", "\\u003c"),
    }
    page = _resource("page.html")
    for name, text in parts.items():
        page = page.replace(f"[[{name}]]", text)
    return page


def _resource(name: str) -> str:
    return files("lorank.serving").joinpath(name).read_text(encoding="utf-8")
