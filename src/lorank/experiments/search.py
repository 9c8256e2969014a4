"""The one search that every method goes through, with as many fits and seconds as any other.

Half of the fits lie on a logarithmic path of strengths, for each rank and each value of the method's second parameter;
the rest walk around the best of them in ever smaller steps. A strength is the size of a singular value that a proximal
step sets to zero, so that it means the same to every method.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import svds
from sklearn.exceptions import ConvergenceWarning

from lorank.catalogue import Method
from lorank.experiments.settings import Budget

# Strengths run from half of the data's largest singular value down by this factor.
RANGE = 1000.0


@dataclass(frozen=True)
class Point:
    """What is searched."""

    strength: float
    shape: Any
    rank: int
    graph_weight: float | None = None

    def parameters(self, method: Method) -> dict[str, Any]:
        """As MatrixCompletion takes them."""
        graph = {} if self.graph_weight is None else {"graph_weight": self.graph_weight}
        return {"rank": self.rank, **method.at(self.strength, self.shape), **graph}


@dataclass(frozen=True)
class Found:
    """The best point, its validation error, and what the search took."""

    parameters: dict[str, Any]
    validation: float
    trials: int
    seconds: float
    out_of_time: bool


def strongest(matrix: Any) -> float:
    """Largest singular value of the observed entries, with 0 elsewhere."""
    coo = sp.coo_array((matrix.values.astype(np.float64), (matrix.rows, matrix.cols)), shape=matrix.shape)
    return float(svds(coo.tocsr(), k=1, return_singular_vectors=False, rng=np.random.default_rng(0))[0])


def search(
    error: Callable[[Mapping[str, Any], float], float],
    method: Method,
    shapes: tuple[Any, ...] | None,
    ranks: tuple[int, ...],
    top: float,
    graph_weights: tuple[float, ...],
    budget: Budget,
) -> Found:
    """Parameters with the least validation error.

    Parameters
    ----------
    error : (parameters, seconds left) -> validation error of one fit.
    top : the strongest strength.
    """
    started = time.perf_counter()
    tried: dict[Point, float] = {}
    out_of_time = False
    for point in _walk(method, shapes, ranks, top, graph_weights, budget.trials, tried):
        left = budget.search_seconds - (time.perf_counter() - started)
        if tried and left <= 0:
            out_of_time = True
            break
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            value = error(point.parameters(method), max(left, 0.1))
        tried[point] = value if np.isfinite(value) else np.inf
    best = min(tried, key=lambda point: tried[point])
    seconds = time.perf_counter() - started
    return Found(best.parameters(method), tried[best], len(tried), seconds, out_of_time)


def _walk(
    method: Method,
    shapes: tuple[Any, ...] | None,
    ranks: tuple[int, ...],
    top: float,
    graph_weights: tuple[float, ...],
    trials: int,
    tried: dict[Point, float],
) -> Iterator[Point]:
    """Points in the order in which they are tried; `tried` is filled by whoever asks for them."""
    combinations = list(product(shapes or method.shapes, ranks))
    graphs: tuple[float | None, ...] = graph_weights or (None,)
    length = max(3, trials // 2 // len(combinations)) if method.weighted else 1
    # From strong to weak: strong weights make quick fits, and a search may run out of time. The ends are of little use.
    places = list(product(np.linspace(0.1, 0.9, length), combinations))
    for step, (exponent, (shape, rank)) in enumerate(places[:trials]):
        yield Point(top * RANGE ** -float(exponent), shape, rank, graphs[step % len(graphs)])
    if not method.weighted and graphs == (None,):
        return
    ratio = RANGE ** (0.4 / (length - 1)) if method.weighted else 1.0
    graph_ratio = 10.0**0.5
    while len(tried) < trials and max(ratio, graph_ratio) > 1.02:
        best = min(tried, key=lambda point: tried[point])
        around = [replace(best, strength=best.strength * factor) for factor in (1 / ratio, ratio)]
        if best.graph_weight is not None:
            around += [replace(best, graph_weight=best.graph_weight * g) for g in (graph_ratio, 1 / graph_ratio)]
        for point in around:
            if len(tried) < trials and point not in tried:
                yield point
        if min(tried, key=lambda point: tried[point]) == best:
            ratio, graph_ratio = ratio**0.5, graph_ratio**0.5
