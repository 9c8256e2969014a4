"""`lorank inspect`: what a model holds."""

from __future__ import annotations

from lorank.cli.options import JsonOption, ModelArgument
from lorank.cli.terminal import answer
from lorank.files import size_of, url_of


def inspect(model: ModelArgument, as_json: JsonOption = False) -> None:
    """Show a model's size, its parameters and how its fit ended.

    Example: lorank inspect model.lorank
    """
    import lorank

    facts = lorank.load(model).describe()
    answer({"model": url_of(model) or str(model), "bytes": size_of(model), **facts}, as_json)
