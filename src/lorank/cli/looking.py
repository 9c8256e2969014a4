"""`lorank inspect` and `plot`: what a model file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lorank.cli.folders import inspect_shards
from lorank.cli.terminal import JsonOption, ModelArgument, answer, say


def inspect(model: ModelArgument, as_json: JsonOption = False) -> None:
    """What a model is, what it was fitted with and how that went."""
    if model.is_dir():
        inspect_shards(model, as_json)
        return
    from lorank import registry
    from lorank.models import model_file as models

    fitted = models.load(model)
    method = registry.find(fitted.method)
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
        "method": str(method),
        **fitted.setting_.facts(),
        "rank_found": fitted.rank_,
        "singular_values": [round(float(s), 4) for s in fitted.singular_values_[:10]],
        "status": result.status.name.lower(),
        "message": result.message,
        "iterations": result.n_iter,
        "seconds": result.seconds,
        "objective": result.objective,
        "mean": fitted.mean_,
        "intervals": fitted.calibration_ is not None or method.samples,
        "trials": len(getattr(fitted, "tuning_", ())),
    }
    if hasattr(fitted, "columns_"):
        facts["table"] = list(fitted.columns_)
    answer(facts, as_json)


def plot(
    model: ModelArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="png, pdf or svg.")] = Path("model.png"),
) -> None:
    """Draw convergence, spectrum, tuning and residuals."""
    from lorank.files import replacing
    from lorank.models import model_file as models
    from lorank.plots import draw_model

    fitted = models.load(model)
    suffix = output.suffix.lower().lstrip(".")
    if suffix not in ("png", "pdf", "svg"):
        raise typer.BadParameter(f"{output} should end in .png, .pdf or .svg.", param_hint="--output")
    drawn = draw_model(fitted)
    with replacing(output) as beside:
        drawn.savefig(beside, dpi=130, format=suffix)
    say(f"Picture: {output}")
