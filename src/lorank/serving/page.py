"""The page of a model: one file that needs no server and no network."""

from __future__ import annotations

from lorank.models import Model


def model_page(model: Model) -> str:
    """The whole page as text."""
    return f"<!doctype html><title>lorank</title><p>{model.shape[0]} x {model.shape[1]}</p>"
