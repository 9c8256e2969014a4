"""What the page of a model shows, as plain numbers and text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import ndtri

from lorank.models import Model
from lorank.models.explaining import reasons
from lorank.types import Array

# Lines that the page holds, the most observed first; it says so where there are more.
ROWS, COLUMNS = 500, 3000
# Length of a list, of a list of likes, and of the reasons of one column.
LIST, LIKES, REASONS = 10, 8, 3
# Pairs that the width of intervals is shown of, by how often their lines were seen.
PAIRS = 4000
LEVEL = 0.9


def content(model: Model) -> dict[str, Any]:
    """Facts, rows with their lists, columns with their likes and a place on the map, and the curves of the fit."""
    counts = [_counts(model, axis) for axis in (0, 1)]
    chosen = [np.argsort(-count, kind="stable")[:most] for count, most in zip(counts, (ROWS, COLUMNS))]
    rows = _rows(model, chosen[0], counts[0])
    # Lists and reasons may name columns that have no line of their own on the page.
    named = {col for row in rows for item in row["list"] for col in (item["col"], *item["why"])}
    others = np.array(sorted(named - set(chosen[1].tolist())), np.int64)
    facts = {name: value for name, value in model.describe().items() if name not in ("singular_values", "message")}
    return {
        "facts": [[name.replace("_", " "), _text(value)] for name, value in facts.items()],
        "names": _column_names(model),
        "all": list(model.shape),
        "rows": rows,
        "columns": _columns(model, chosen[1], counts[1]),
        "others": dict(zip(map(str, others.tolist()), _named(model, others, 1))),
        "spectrum": [float(s) for s in model.singular_values[:60]],
        "history": _history(model),
        "trials": [_trial(model, trial) for trial in model.trials],
        "widths": _widths(model, counts),
        "calibration": _calibration(model),
        "level": LEVEL,
    }


def _column_names(model: Model) -> list[str]:
    """What rows, columns and scores are called."""
    names = (*(model.columns or ("row", "column")), "value")  # a table of clicks has two columns
    return [*names[:2], "preference" if model.setting.grades is not None else names[2]]


def _trial(model: Model, trial: Mapping[str, Any]) -> dict[str, str]:
    """A trial as text. Of a model that ranks, its error is what its lists lack; rank 0 stands for offsets alone."""
    lists = f"1 - {model.params['metric']}" if model.setting.grades is not None else "error"
    shown = {lists if name == "error" else str(name): _text(value) for name, value in trial.items()}
    return shown | ({"candidate": "offsets alone"} if trial.get("rank") == 0 and "candidate" in shown else {})


def _counts(model: Model, axis: int) -> Array:
    """Entries of each line; zeros if that was not kept."""
    if model.observations is None:
        return np.zeros(model.shape[axis], np.int64)
    if axis == 0:
        return np.diff(np.asarray(model.observations.by_row.pointers))
    return np.bincount(np.asarray(model.observations.by_row.indices), minlength=model.shape[1])


def _named(model: Model, positions: Array, axis: int) -> list[dict[str, Any]]:
    names, titles = model.names(positions, axis), model.titles(positions, axis)
    return [
        {"id": str(name), "title": " · ".join(str(text[t]) for text in titles.values() if text[t])}
        for t, name in enumerate(names.tolist())
    ]


def _rows(model: Model, chosen: Array, counts: Array) -> list[dict[str, Any]]:
    """Rows with the columns listed for them, error bars and reasons."""
    lines = _named(model, chosen, 0)
    known = model.observations is not None
    with_bars = model.calibration is not None or model.posterior is not None
    found = model.recommend(model.names(chosen, 0), LIST, seen=not known) if chosen.size else None
    by_row: dict[Any, list[int]] = {}
    for t, row in enumerate(found.rows.tolist() if found is not None else []):
        by_row.setdefault(row, []).append(t)
    for line, position, name in zip(lines, chosen.tolist(), model.names(chosen, 0).tolist()):
        own = by_row.get(name, [])
        assert found is not None or not own
        cols = model.find(found.cols[own], 1) if own and found is not None else np.zeros(0, np.int64)
        bars: tuple[Array, Array] | None = None
        if with_bars and own and found is not None:
            bars = model.interval([name], found.cols[own], LEVEL)
        why = reasons(model, position, cols, REASONS) if known and own else [[] for _ in own]
        line["count"] = int(counts[position])
        line["list"] = [
            {
                "col": int(cols[t]),
                "score": float(found.scores[own[t]]) if found is not None else 0.0,
                **({"low": float(bars[0][t]), "high": float(bars[1][t])} if bars is not None else {}),
                "why": [int(col) for col, _ in why[t]],
            }
            for t in range(len(own))
        ]
    return lines


def _columns(model: Model, chosen: Array, counts: Array) -> list[dict[str, Any]]:
    """Columns with their likes and their places on the map."""
    factors = model.result.summary
    H = np.asarray(factors.right[chosen], np.float64)[:, : factors.k] if chosen.size else np.zeros((0, factors.k))
    lines = _named(model, chosen, 1)
    unit = H / np.maximum(np.linalg.norm(H, axis=1, keepdims=True), 1e-300)
    centred = unit - unit.mean(axis=0) if len(unit) else unit
    # Two directions of the factors along which the columns differ most.
    places = np.zeros((len(unit), 2))
    if unit.shape[1] and len(unit) > 1:
        axes = np.linalg.svd(centred, full_matrices=False)[2][:2]
        places[:, : len(axes)] = centred @ axes.T
    for start in range(0, len(unit), 512):
        cosine = unit[start : start + 512] @ unit.T
        cosine[np.arange(len(cosine)), start + np.arange(len(cosine))] = -np.inf
        many = min(LIKES, cosine.shape[1] - 1)
        best = np.argsort(-cosine, axis=1)[:, :many]
        for t, likes in enumerate(best):
            lines[start + t]["like"] = [[int(j), round(float(cosine[t, j]), 3)] for j in likes]
    for t, line in enumerate(lines):
        line |= {
            "position": int(chosen[t]),
            "count": int(counts[chosen[t]]),
            "place": [round(float(c), 4) for c in places[t]],
        }
    return lines


def _history(model: Model) -> dict[str, list[float | None]]:
    history = model.result.history
    return {
        "iteration": list(history.iteration),
        "objective": [_number(value) for value in history.objective],
        "validation": [_number(value) for value in history.validation],
    }


def _widths(model: Model, counts: list[Array]) -> list[dict[str, Any]]:
    """Half the width of intervals of random entries, by how many entries their row or column has."""
    if (model.calibration is None and model.posterior is None) or model.observations is None:
        return []
    rng = np.random.default_rng(0)
    rows, cols = (rng.integers(0, size, PAIRS) for size in model.shape)
    low, high = model.interval(model.names(rows, 0), model.names(cols, 1), LEVEL)
    half = (high - low) / 2
    found = []
    for what, count in (("row", counts[0][rows]), ("column", counts[1][cols])):
        edges = np.unique(np.quantile(count, np.linspace(0, 1, 9)).astype(int))
        bins = np.clip(np.searchsorted(edges, count, side="right") - 1, 0, max(len(edges) - 2, 0))
        points = [
            [float(count[bins == b].mean()), float(half[bins == b].mean())]
            for b in range(max(len(edges) - 1, 1))
            if (bins == b).any()
        ]
        found.append({"side": what, "points": points})
    return found


def _calibration(model: Model) -> list[list[list[float]]]:
    """Shares of the held-out errors that are within t times their scale, by the share of a normal's; and the diagonal.

    Intervals are as wide as the errors ask for, whatever their distribution; this shows how it differs from a normal.
    """
    if model.calibration is None:
        return []
    levels = np.linspace(0.05, 0.95, 19)
    within = np.searchsorted(model.calibration.ratios, ndtri((1 + levels) / 2), side="right")
    shares = within / max(model.calibration.ratios.size, 1)
    return [np.column_stack([levels, own]).tolist() for own in (shares, levels)]


def _number(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_text, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(part)}" for name, part in value.items())
    return "" if value is None else str(value)
