"""`lorank inspect`: what a model file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lorank.cli.options import JsonOption, ModelArgument
from lorank.cli.terminal import answer
from lorank.files import size_of


def inspect(model: ModelArgument, as_json: JsonOption = False) -> None:
    """Show a model's size, its parameters and how its fit ended."""
    if model.is_dir():
        inspect_shards(model, as_json)
        return
    from lorank.models import model_file as models

    fitted = models.load(model)
    m, n = fitted.observations_.shape
    result, seen = fitted.result_, fitted.observations_
    ids = ["positions" if side is None else str(side.values.dtype) for side in (seen.row_ids, seen.col_ids)]
    facts: dict[str, Any] = {
        "model": str(model),
        "bytes": model.stat().st_size,
        "rows": m,
        "columns": n,
        "row_ids": ids[0],
        "column_ids": ids[1],
        "entries": seen.nnz if seen.nnz else "not kept",
        "method": fitted.method,
        **vars(fitted.setting_),
        "rank_found": fitted.rank_,
        "singular_values": [round(float(s), 4) for s in fitted.singular_values_[:10]],
        "status": result.status.name.lower(),
        "message": result.message,
        "iterations": result.n_iter,
        "seconds": result.seconds,
        "objective": result.objective,
        "mean": fitted.mean_,
        "intervals": fitted.calibration_ is not None or fitted.method == "bpmf",
        "trials": len(getattr(fitted, "tuning_", ())),
    }
    if hasattr(fitted, "columns_"):
        facts["table"] = list(fitted.columns_)
    answer(facts, as_json)


def inspect_shards(folder: Path, as_json: bool) -> None:
    """What the manifest says."""
    from lorank.distributed import open_shards

    model = open_shards(folder)
    about = model.manifest
    facts = {
        "model": str(folder),
        "bytes": size_of(folder),
        "rows": model.shape[0],
        "columns": model.shape[1],
        "row_ids": str(model.id_type("row")),
        "column_ids": str(model.id_type("col")),
        "entries": about["entries"] if about["seen"] else "not kept",
        "method": about["method"],
        **about["setting"],
        "status": about["status"].lower(),
        "message": about["message"],
        "iterations": about["n_iter"],
        "seconds": about["seconds"],
        "objective": about["objective"],
        "mean": about["mean"],
        "table": list(model.columns_),
    }
    answer(facts, as_json)
