"""What the regressions of a factor's lines are pulled toward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lorank.distributed.factor_shards import FactorShards
from lorank.types import Array


@dataclass(frozen=True)
class Drag:
    """The right sides' w_i pull + u_i E, with w_i the lines as they were and u_i along the directions of features.

    Where features expect line i at m_i = u_i C, it is m_i ridge + (w_i - m_i) pull (`FactoredProblem.line_terms`), so
    that E = C (ridge - pull).

    Parameters
    ----------
    own, pull : FactorShards and (k, k), optional
    U, E : FactorShards and (r, p), optional
    """

    own: FactorShards | None = None
    pull: Array | None = None
    U: FactorShards | None = None
    E: Array | None = None

    def of(self, owner: Any, number: int, k: int, dtype: Any) -> Array:
        """Of the lines of a part (lines, k or p); empty where there is neither."""
        drag: Array = np.zeros((0, 0), dtype)
        if self.own is not None and self.pull is not None:
            drag = np.ascontiguousarray(owner.shard(self.own, number)[:, :k]) @ self.pull
        if self.U is None or self.E is None:
            return drag
        expected: Array = owner.shard(self.U, number)[:, : len(self.E)].astype(dtype) @ self.E.astype(dtype)
        if drag.size:
            expected[:, :k] += drag
        return expected
