"""The one search that methods are compared by: as many fits and seconds for each as for any other.

Close to half of the fits lie on a logarithmic path of strengths, at the highest rank, for each value of the method's
second parameter; it goes on beyond an end that is plainly the best. The best of each is tried at the other ranks. The
rest of the fits walk around the best in ever smaller steps: once around that of each pair of rank and second parameter,
since the path is too coarse to tell between them, then of the two best pairs, and at last of one. A strength is the
size of a singular value that a proximal step sets to zero, so that it means the same to every method. Every fit starts
anew, and so costs what it would alone.

With a graph its weight and the strength are searched together, for what matters most is their ratio: a coarse grid over
six decades of each, in which the second parameters take turns, and then steps around the best, in either, in both at
once, and to the other ranks and second parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
# Decades of strengths on a grid, and its points along each side: the fewer if there are few trials.
GRID_DECADES = 6.0
GRID_SIDE, FEW, SMALL_SIDE = 4, 24, 3
# Steps around the best of a grid become no smaller than by this factor: weights of graphs hardly matter beyond it.
GRID_FINEST = 1.25
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
    graph_range: tuple[float, float] | None = None,
) -> Found:
    """Parameters with the least validation error; raises what the last trial raised if none could be done.

    Parameters
    ----------
    error : (parameters, seconds left) -> validation error of one fit.
    top : the strongest strength.
    trials, seconds : the most fits, and the time after which no other is begun.
    shapes : values of the method's second parameter; those that the catalogue lists by default.
    graph_range : the least and the greatest weight of a graph on the coarse grid; None without a graph.
    """
    tried: dict[Point, float] = {}
    search = Search(error_of(error), max_seconds=seconds, forgiving=True)
    given = shapes or method.shapes

    def strategy() -> None:
        points = (
            _along_path(method, given, ranks, top, trials, tried)
            if graph_range is None
            else _on_grid(method, given, ranks, top, graph_range, trials, tried)
        )
        for point in points:
            tried[point] = search.attempt(point.parameters(method)).error
            if len(tried) == trials:
                return

    return search.run(strategy)


def decades_to_edge(found: Found) -> dict[str, float]:
    """How far lam and the graph's weight are from the nearest end of what was tried with the same other parameters."""
    searched = ("lam", "graph_weight")
    free = (*searched, "rank")
    best = found.parameters

    def fixed(parameters: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in parameters.items() if name not in free}

    alike = [trial.parameters for trial in found.trials if fixed(trial.parameters) == fixed(best)]
    return {
        name: float(min(abs(np.log10(end([other[name] for other in alike]) / best[name])) for end in (min, max)))
        for name in searched
        if name in best
    }


def _on_grid(
    method: Method,
    shapes: Sequence[Any],
    ranks: Sequence[int],
    top: float,
    graph_range: tuple[float, float],
    trials: int,
    tried: Mapping[Point, float],
) -> Iterator[Point]:
    """Points of the search with a graph, in their order; `tried` is filled by whoever asks for them."""
    side = GRID_SIDE if trials >= FEW else SMALL_SIDE
    places = (np.arange(side) + 0.5) / side
    low, high = graph_range
    # From strong to weak, which is from quick fits to slow ones.
    strengths = top * 10.0 ** (-GRID_DECADES * places) if method.tunes else (top,)
    for i, strength in enumerate(strengths):
        for j, place in enumerate(places):
            shape = shapes[(i + j) * max(1, len(shapes) // side) % len(shapes)]
            yield Point(float(strength), shape, max(ranks), float(low * (high / low) ** place))
    steps = {
        "strength": 10.0 ** (GRID_DECADES / side / 2) if method.tunes else 1.0,
        "graph_weight": (high / low) ** (1 / side / 2),
    }

    def best_so_far() -> Point:
        """Beyond the grid only what is plainly better: where both weights vanish the error is often flat."""
        inside = [p for p in tried if low <= (p.graph_weight or 0) <= high and p.strength >= top / 10**GRID_DECADES]
        best, within = (min(some, key=lambda point: tried[point]) for some in (tried, inside))
        return best if tried[best] < PLAINLY * tried[within] else within

    while max(steps.values()) > GRID_FINEST:
        yield from _new(_others(best_so_far(), shapes, ranks), tried)
        best = best_so_far()
        yield from _new([*_around(best, steps), *_along_both(best, steps)], tried)
        if best_so_far() == best:
            steps = {name: step**0.5 for name, step in steps.items()}


def _new(points: Iterable[Point], tried: Mapping[Point, float]) -> Iterator[Point]:
    return (point for point in points if point not in tried)


def _others(best: Point, shapes: Sequence[Any], ranks: Sequence[int]) -> Iterator[Point]:
    """The same at other ranks, and with second parameters that differ in one of their parts."""
    for rank in ranks:
        yield replace(best, rank=rank)
    for shape in shapes:
        parts = zip(shape, best.shape) if isinstance(shape, tuple) else [(shape, best.shape)]
        if sum(one != other for one, other in parts) == 1:
            yield replace(best, shape=shape)


def _along_both(best: Point, steps: Mapping[str, float]) -> Iterator[Point]:
    """A step in which strength and weight keep their ratio, down and up: a valley of the error often runs so."""
    if best.graph_weight is not None and min(steps.values()) > 1:
        for sign in (-1, 1):
            yield replace(best, **{name: getattr(best, name) * step**sign for name, step in steps.items()})


def _along_path(
    method: Method,
    shapes: Sequence[Any],
    ranks: Sequence[int],
    top: float,
    trials: int,
    tried: Mapping[Point, float],
) -> Iterator[Point]:
    """Points of the search without a graph, in their order; `tried` is filled by whoever asks for them."""
    # Each pair with another rank takes three fits: one, and a step down and up.
    paired = len(shapes) * (len(ranks) - 1)
    length = max(3, (trials - 3 * paired) // 2 // len(shapes)) if method.tunes else 1
    # From strong to weak: strong weights make quick fits, and a search may run out of time.
    places = list(product(np.linspace(0.1, 0.9, length), shapes))
    for exponent, shape in places[:trials]:
        yield Point(top * RANGE ** -float(exponent), shape, max(ranks))
    stride = RANGE ** (0.8 / (length - 1)) if length > 1 else 1.0
    for shape in shapes if length > 1 else ():
        for factor in (stride, 1 / stride):
            while len(tried) < trials and (end := _end(tried, shape, factor)) is not None:
                yield replace(end, strength=end.strength * factor)
    others = [(best, rank) for best in _best_of_each_family(tried) for rank in ranks if rank != best.rank]
    for best, rank in others[: trials - len(tried)]:
        # Noise spreads over more directions at a higher rank, and the best strength grows about as its root.
        yield replace(best, rank=rank, strength=best.strength * (rank / best.rank) ** 0.5)
    ratios = dict.fromkeys(product(shapes, ranks), stride**0.5)
    contenders = len(ratios)
    while len(tried) < trials:
        ranked = _best_of_each_family(tried)[:contenders]
        contenders = 2 if len(tried) < DECIDED * trials else 1
        coarse = [best for best in ranked if ratios[best.family] > FINEST]
        if not coarse:
            return
        for best in coarse:
            for point in _around(best, {"strength": ratios[best.family]}):
                if len(tried) < trials and point not in tried:
                    yield point
            if min((p for p in tried if p.family == best.family), key=lambda p: tried[p]) == best:
                ratios[best.family] **= 0.5


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
