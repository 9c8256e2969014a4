"""The description of the HTTP interface, in OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

import lorank
from lorank.serving.questions import Limits

ID = {
    "oneOf": [{"type": "string"}, {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}],
    "description": "Id of a row or a column.",
}


def description(limits: Limits, token: bool) -> dict[str, Any]:
    """The whole description as a JSON object."""
    several = {"type": "array", "items": ID, "minItems": 1, "maxItems": limits.batch}
    ids = {"anyOf": [several, ID]}  # one may stand alone
    n = {"type": "integer", "minimum": 1, "maximum": limits.length, "default": 10}
    filters = {
        "n": n,
        "allow": {**ids, "description": "Only these columns are listed."},
        "deny": {**ids, "description": "None of these columns is listed."},
        "min_count": {
            "type": "integer",
            "minimum": 0,
            "maximum": 10**9,
            "description": "Least number of entries of a column.",
        },
        "diversity": {"type": "number", "minimum": 0, "maximum": 0.99},
        "seen": {"type": "boolean", "description": "Whether columns that were observed may be listed."},
    }
    value = {"type": "number", "minimum": -1e12, "maximum": 1e12}
    entry = _object({"col": ID, "value": value}, ("col", "value"))
    item = {"type": "object", "required": ["col", "score"], "properties": {"col": ID, "score": {"type": "number"}}}
    like = {"type": "object", "required": ["cosine"], "properties": {"cosine": {"type": "number"}}}
    number = {"type": "number"}
    pair = {"row": ID, "col": ID, "value": number, "lower": number, "upper": number}
    pair |= {"unknown": {"type": "array", "items": {"type": "string"}}}
    paths = {
        "/v1/predict": _question(
            "Values at pairs of rows and columns.",
            _object(
                {"rows": ids, "cols": ids, "interval": {"type": "number", "minimum": 0.01, "maximum": 0.999}},
                ("rows", "cols"),
            ),
            _answer("predictions", {"type": "object", "required": ["row", "col", "value"], "properties": pair}),
        ),
        "/v1/recommend": _question(
            "The best columns of rows.",
            _object({"rows": ids, **filters}, ("rows",)),
            _answer("lists", _answer("items", item, {"row": ID})),
        ),
        "/v1/similar": _question(
            "Columns like columns, or rows like rows.",
            {"oneOf": [_object({side: ids, "but_not": ids, "n": n}, (side,)) for side in ("rows", "cols")]},
            _answer("lists", _answer("items", like)),
        ),
        "/v1/fold-in": _question(
            "The best columns for somebody who was not in the data.",
            _object(
                {"entries": {"type": "array", "items": entry, "minItems": 1, "maxItems": limits.batch}, **filters},
                ("entries",),
            ),
            _answer("items", item),
        ),
        "/v1/health": {
            "get": {
                "summary": "Whether the server answers, and with which model.",
                "responses": {"200": {"description": "It does.", "content": _json({"type": "object"})}},
                "security": [],
            }
        },
    }
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "lorank", "version": lorank.__version__, "description": "Answers of a low-rank model."},
        "paths": paths,
    }
    if token:
        document["components"] = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}
        document["security"] = [{"token": []}]
    return document


def _object(properties: dict[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _answer(name: str, item: dict[str, Any], more: dict[str, Any] | None = None) -> dict[str, Any]:
    properties = {name: {"type": "array", "items": item}, **(more or {})}
    return {"type": "object", "required": [name], "properties": properties}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _question(summary: str, body: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    error = _object({"error": {"type": "string"}}, ("error",))
    refused = {
        "400": "The request is wrong; `error` says what to do.",
        "401": "The token is missing or wrong.",
        "413": "The body is too large.",
        "415": "The body is not JSON by its Content-Type.",
        "503": "The answer takes too long, or too many requests are under way.",
    }
    responses = {code: {"description": text, "content": _json(error)} for code, text in refused.items()}
    responses["200"] = {"description": "The answer.", "content": _json(answer)}
    return {
        "post": {
            "summary": summary,
            "requestBody": {"required": True, "content": _json(body)},
            "responses": dict(sorted(responses.items())),
        }
    }
