"""How much memory a fit takes, known before it is begun."""

from __future__ import annotations

from typing import Any

import numpy as np

from lorank.estimators.parameters import Parameters
from lorank.estimators.running import build_solver
from lorank.linalg import padded_width
from lorank.linalg.memory import check_memory
from lorank.observations import Observations
from lorank.solvers import DCA, PALM, Alternating, ProximalGradient, SoftImputeALS
from lorank.solvers.gibbs import BPMF
from lorank.tuning.setting import AUTO

# What each kind of solver holds at once, as measured: padded factors, and arrays of a number for each entry beside the
# entries by columns.
HELD: dict[type, tuple[float, float]] = {
    Alternating: (4.5, 0.0),
    PALM: (8.0, 3.0),
    SoftImputeALS: (6.0, 3.0),
    ProximalGradient: (8.0, 12.0),
    DCA: (9.5, 17.0),
    BPMF: (6.0, 1.0),
}
# Arrays of a number for each entry that a held-out part costs: the entries that are left, and the draw of the others.
SPLITTING = 5
# The rank that is counted with if it is to be found.
USUAL_RANK = 10


def fit_memory(asked: Parameters, shape: tuple[int, int], entries: int, splits: bool = False) -> int:
    """Bytes that a fit allocates beside the observations themselves; `splits` if it holds out a part of them."""
    solver: Any = build_solver(asked)
    rank = USUAL_RANK if asked.rank == AUTO else int(asked.rank)
    item = np.dtype(asked.dtype).itemsize
    index = 4 if max(shape) <= np.iinfo(np.int32).max else 8
    copies, arrays = next((HELD[kind] for kind in type(solver).__mro__ if kind in HELD), HELD[Alternating])
    copies += 2 * (asked.n_fits - 1)
    # By columns an entry is an index and a value, and where it stands by rows.
    each = 2 * index + item + (arrays + SPLITTING * splits) * item
    needed = entries * each + sum(shape) * (8 + copies * padded_width(rank) * item)
    if isinstance(solver, BPMF):
        m, n = shape
        needed += (2 * m + n) * padded_width(solver.kept * (rank + 2 * bool(asked.biases))) * item
    return int(needed)


def check_fit_memory(asked: Parameters, observations: Observations, splits: bool) -> None:
    """Refuse a fit that would not fit, rather than be killed in the middle of it."""
    m, n = observations.shape
    needed = fit_memory(asked, (m, n), observations.nnz, splits)
    rank = "" if asked.rank == AUTO else f" at rank {asked.rank}"
    check_memory(
        needed,
        f"Fitting {observations.nnz} entries of a {m} x {n} matrix{rank} by {asked.method!r}",
        "lower the rank or use float32",
    )
