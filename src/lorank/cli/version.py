"""`lorank version`: what is installed."""

from __future__ import annotations

from lorank.cli.options import JsonOption
from lorank.cli.terminal import answer


def version(as_json: JsonOption = False) -> None:
    """Print the versions of lorank, Python and the libraries that it uses.

    Example: lorank version --json
    """
    import platform
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as of

    import lorank

    facts = {"lorank": lorank.__version__, "python": platform.python_version(), "system": platform.platform()}
    for name in ("numpy", "scipy", "numba", "scikit-learn", "pyarrow", "ray", "starlette", "uvicorn", "xarray"):
        try:
            facts[name] = of(name)
        except PackageNotFoundError:
            facts[name] = "not installed"
    answer(facts, as_json)
