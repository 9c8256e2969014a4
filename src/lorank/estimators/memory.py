"""How much memory a fit takes, estimated before it is begun."""

from __future__ import annotations

import numpy as np

from lorank import registry
from lorank.estimators.choosing import candidates
from lorank.estimators.parameters import Parameters
from lorank.estimators.running import build_solver
from lorank.linalg import padded_width
from lorank.memory import check_memory
from lorank.observations import Observations
from lorank.tuning.setting import AUTO

# Arrays of a number for each entry that a held-out part costs: the entries that are left, and the draw of the others.
SPLITTING = 5
# The rank that is counted with if it is to be found.
USUAL_RANK = 10


def fit_memory(asked: Parameters, shape: tuple[int, int], entries: int, splits: bool = False) -> int:
    """Bytes that a fit allocates beside the observations themselves; `splits` if it holds out a part of them."""
    rank = USUAL_RANK if asked.rank == AUTO else int(asked.rank)
    item = np.dtype(asked.dtype).itemsize
    needed = build_solver(asked).memory(shape, entries, rank, item, bool(asked.biases))
    others = 2 * (asked.n_fits - 1) * sum(shape) * padded_width(rank)
    return needed + (entries * SPLITTING * splits + others) * item


def check_fit_memory(asked: Parameters, observations: Observations, splits: bool) -> None:
    """Refuse a fit that would not fit, rather than be killed in the middle of it.

    Of several candidates the first is the smallest; others are left out where they do not fit.
    """
    m, n = observations.shape
    if asked.automatic:
        asked = next(iter(candidates(asked, observations).values()))
    needed = fit_memory(asked, (m, n), observations.nnz, splits)
    rank = "" if asked.rank == AUTO else f" at rank {asked.rank}"
    check_memory(
        needed,
        f"Fitting {observations.nnz} entries of a {m} x {n} matrix{rank} by {registry.find(asked.method).name!r}",
        "lower the rank or use float32",
    )
