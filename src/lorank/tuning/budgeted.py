"""The one search that methods are compared by: as many fits and seconds for each as for any other.

Close to half of the fits lie on a logarithmic path of strengths, at the highest rank, for each value of the method's
second parameter; it goes on beyond an end that is plainly the best. The best of each is tried at the other ranks. The
rest of the fits walk around the best in ever smaller steps: once around that of each pair of rank and second parameter,
since the path is too coarse to tell between them, then of the two best pairs, and at last of one. A strength is the
size of a singular value that a proximal step sets to zero, so that it means the same to every method. Every fit starts
anew, and so costs what it would alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from lorank.registry import Method
from lorank.tuning.search import Found, Search, error_of

# Strengths run from the top down by this factor.
RANGE = 1000.0
# A path goes on if its end is better than all else by this factor.
PLAINLY = 0.999
# Steps around the best become no smaller than by this factor.
FINEST = 1.02
# The part of the trials after which only one pair of rank and second parameter is refined.
DECIDED = 0.75


@dataclass(frozen=True)
class Point:
    """A place in the space of this search: a strength, the method's second parameter, a rank and a graph's weight."""

    strength: float
    shape: Any
    rank: int
    graph_weight: float | None = None

    @property
    def family(self) -> tuple[Any, int]:
        """What is chosen among a few, and not refined."""
        return self.shape, self.rank

    def parameters(self, method: Method) -> dict[str, Any]:
        """As MatrixCompletion takes them."""
        graph = {} if self.graph_weight is None else {"graph_weight": self.graph_weight}
        return {"rank": self.rank, **method.at(self.strength, self.shape), **graph}


def budgeted_search(
    error: Callable[[Mapping[str, Any], float], float],
    method: Method,
    ranks: Sequence[int],
    top: float,
    trials: int,
    seconds: float,
    shapes: Sequence[Any] | None = None,
    graph_weights: Sequence[float] = (),
) -> Found:
    """Parameters with the least validation error; raises what the last trial raised if none could be done.

    Parameters
    ----------
    error : (parameters, seconds left) -> validation error of one fit.
    top : the strongest strength.
    trials, seconds : the most fits, and the time after which no other is begun.
    shapes : values of the method's second parameter; those that the catalogue lists by default.
    graph_weights : where the search for a graph's weight starts; empty without a graph.
    """
    tried: dict[Point, float] = {}
    search = Search(error_of(error), max_seconds=seconds, forgiving=True)

    def strategy() -> None:
        for point in points(
            method, shapes or method.shapes, ranks, top, tuple(graph_weights) or (None,), trials, tried
        ):
            tried[point] = search.attempt(point.parameters(method)).error

    return search.run(strategy)


def points(
    method: Method,
    shapes: Sequence[Any],
    ranks: Sequence[int],
    top: float,
    graphs: Sequence[float | None],
    trials: int,
    tried: dict[Point, float],
) -> Iterator[Point]:
    """Points in the order in which they are tried; `tried` is filled by whoever asks for them."""
    # Each pair with another rank takes three fits: one, and a step down and up.
    paired = len(shapes) * (len(ranks) - 1)
    length = max(3, (trials - 3 * paired) // 2 // len(shapes)) if method.tunes else 1
    # From strong to weak: strong weights make quick fits, and a search may run out of time.
    places = list(product(enumerate(np.linspace(0.1, 0.9, length)), enumerate(shapes)))
    for (step, exponent), (turn, shape) in places[:trials]:
        # Every second parameter meets every weight of the graph.
        yield Point(top * RANGE ** -float(exponent), shape, max(ranks), graphs[(step + turn) % len(graphs)])
    stride = RANGE ** (0.8 / (length - 1)) if length > 1 else 1.0
    for shape in shapes if length > 1 else ():
        for factor in (stride, 1 / stride):
            while len(tried) < trials and (end := _end(tried, shape, factor)) is not None:
                yield replace(end, strength=end.strength * factor)
    others = [(best, rank) for best in _best_of_each_family(tried) for rank in ranks if rank != best.rank]
    for best, rank in others[: trials - len(tried)]:
        # Noise spreads over more directions at a higher rank, and the best strength grows about as its root.
        yield replace(best, rank=rank, strength=best.strength * (rank / best.rank) ** 0.5)
    first = {
        "strength": stride**0.5,
        "graph_weight": 10.0**0.5 if graphs[0] is not None else 1.0,
    }
    ratios = dict.fromkeys(product(shapes, ranks), first)
    contenders = len(ratios)
    while len(tried) < trials:
        ranked = _best_of_each_family(tried)[:contenders]
        contenders = 2 if len(tried) < DECIDED * trials else 1
        coarse = [best for best in ranked if max(ratios[best.family].values()) > FINEST]
        if not coarse:
            return
        for best in coarse:
            for point in _around(best, ratios[best.family]):
                if len(tried) < trials and point not in tried:
                    yield point
            if min((p for p in tried if p.family == best.family), key=lambda p: tried[p]) == best:
                ratios[best.family] = {name: ratio**0.5 for name, ratio in ratios[best.family].items()}


def _end(tried: Mapping[Point, float], shape: Any, factor: float) -> Point | None:
    """The last point of a path in the direction of a factor, if it is plainly the best of the path."""
    path = sorted((p for p in tried if p.shape == shape), key=lambda p: p.strength if factor < 1 else -p.strength)
    if len(path) < 2 or not tried[path[0]] < PLAINLY * min(tried[point] for point in path[1:]):
        return None
    return path[0]


def _best_of_each_family(tried: Mapping[Point, float]) -> list[Point]:
    best: dict[tuple[Any, int], Point] = {}
    for point in sorted(tried, key=lambda point: tried[point]):
        best.setdefault(point.family, point)
    return list(best.values())


def _around(best: Point, ratios: Mapping[str, float]) -> Iterator[Point]:
    """One step down and up in all that is refined."""
    for name, ratio in ratios.items():
        if ratio > 1:
            for factor in (1 / ratio, ratio):
                yield replace(best, **{name: getattr(best, name) * factor})
