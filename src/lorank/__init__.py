"""Learn low-rank matrices from the entries that were seen.

    >>> import lorank
    >>> model = lorank.MatrixCompletion(rank=5, lam=0.1).fit(X)     # sparse, NaN array, DataFrame, triplets
    >>> model.predict(rows, cols)

Names load what they need when they are first used, so that importing lorank is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "EntryRegressor": "lorank.estimators",
    "InputError": "lorank.errors",
    "LowRankImputer": "lorank.estimators",
    "MatrixCompletion": "lorank.estimators",
    "Model": "lorank.models",
    "Observations": "lorank.observations",
    "compare": "lorank.estimators",
    "complete": "lorank.estimators",
    "load": "lorank.models",
    "methods": "lorank.registry",
    "pool": "lorank.estimators",
    "recommend": "lorank.models",
    "register": "lorank.registry",
    "save": "lorank.models",
    "sense": "lorank.estimators.sensing",
    "similar": "lorank.models",
}
_ROOMS = (
    "datasets",
    "distributed",
    "estimators",
    "linalg",
    "losses",
    "models",
    "observations",
    "plots",
    "problems",
    "registry",
    "regularizers",
    "side_information",
    "solvers",
    "spatial",
    "tables",
    "tuning",
)

__all__ = [*_HOME, *_ROOMS]

if TYPE_CHECKING:
    from lorank.errors import InputError as InputError
    from lorank.estimators import EntryRegressor as EntryRegressor
    from lorank.estimators import LowRankImputer as LowRankImputer
    from lorank.estimators import MatrixCompletion as MatrixCompletion
    from lorank.estimators import compare as compare
    from lorank.estimators import complete as complete
    from lorank.estimators import pool as pool
    from lorank.estimators.sensing import sense as sense
    from lorank.models import Model as Model
    from lorank.models import load as load
    from lorank.models import recommend as recommend
    from lorank.models import save as save
    from lorank.models import similar as similar
    from lorank.observations import Observations as Observations
    from lorank.registry import methods as methods
    from lorank.registry import register as register


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in _ROOMS:
        return import_module(f"lorank.{name}")
    raise AttributeError(f"module 'lorank' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
