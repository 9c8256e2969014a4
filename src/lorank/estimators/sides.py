"""Side information as users give it, bound to the lines of the data, and what a model keeps of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from lorank import registry
from lorank.errors import InputError
from lorank.estimators.parameters import Parameters
from lorank.observations import Observations
from lorank.observations.identifiers import Identifiers
from lorank.problems import Problem
from lorank.side_information import Features, GraphLaplacian
from lorank.side_information.base import several
from lorank.side_information.features import features_of
from lorank.side_information.new_lines import FeatureMap, ids_of, with_rows
from lorank.solvers import Result


def bind_sides(asked: Parameters, observations: Observations) -> tuple[Parameters, Observations]:
    """The parameters with side information in the order of the data's lines, and the data with lines more, without
    entries, for ids that only features know."""
    sides = []
    for name in ("row_side", "col_side"):
        given = several(getattr(asked, name))
        if name == "col_side":
            observations = observations.transposed() if given else observations
        observations = with_rows(observations, [ids_of(part) for part in given if not hasattr(part, "scaled")])
        sides.append(combined([side_of(part, observations.row_ids) for part in given]))
        if name == "col_side":
            observations = observations.transposed() if given else observations
    return replace(asked, row_side=sides[0], col_side=sides[1]), observations


def combined(parts: Sequence[Any]) -> Any:
    """Several kinds of side information as one: features side by side, the sum of graphs, features beside a graph."""
    features = [part for part in parts if isinstance(part, Features)]
    graphs = [part for part in parts if isinstance(part, GraphLaplacian)]
    if len(features) + len(graphs) < len(parts) > 1:
        other = next(part for part in parts if part not in features and part not in graphs)
        raise InputError(f"A {type(other).__name__} goes with no other side information on the same side; give one.")
    whole: list[Any] = [reduce(Features.beside, features)] if features else []
    whole += [reduce(GraphLaplacian.plus, graphs)] if graphs else []
    whole = whole or list(parts)
    return None if not whole else whole[0] if len(whole) == 1 else tuple(whole)


def weighted_graphs(asked: Parameters, weight: float) -> Parameters:
    """The parameters with this weight of graphs; without graphs if it is 0."""
    if weight > 0:
        return replace(asked, graph_weight=weight)
    sides = [
        combined([part for part in several(side) if not isinstance(part, GraphLaplacian)])
        for side in (asked.row_side, asked.col_side)
    ]
    return replace(asked, graph_weight=1.0, row_side=sides[0], col_side=sides[1])


def sides_of(asked: Parameters, observations: Observations) -> tuple[Any, Any]:
    """What is known of the rows and of the columns: a graph or prior, or features, also those of who rated what."""
    draws = not asked.any_method and registry.find(asked.method).samples
    implicit = Features.implicit(observations, draws) if asked.features == "implicit" else (None, None)
    sides, weight = [], 1.0 if isinstance(asked.graph_weight, str) else asked.graph_weight
    for given, own, ids in zip(
        (asked.row_side, asked.col_side), implicit, (observations.row_ids, observations.col_ids)
    ):
        parts = [side_of(part, ids).scaled(weight) for part in several(given)]
        sides.append(combined([*parts, *([] if own is None else [own])]))
    return sides[0], sides[1]


def side_of(side: Any, ids: Identifiers | None = None) -> Any:
    """Side information as solvers know it; arrays and DataFrames are features."""
    return side if hasattr(side, "scaled") else Features.of(side, ids)


def feature_maps(problem: Problem, result: Result) -> tuple[FeatureMap | None, FeatureMap | None]:
    """What the fitted model keeps of features of rows and of columns."""
    maps: list[FeatureMap | None] = []
    for side, transposed in ((problem.row_side, False), (problem.col_side, True)):
        features = features_of(side)
        factors = result.factors.transposed() if transposed else result.factors
        if features is None or not features.encodings:
            maps.append(None)
        elif result.posterior is not None:
            maps.append(FeatureMap.of_posterior(features))
        else:
            prior = problem.features(transposed)
            assert prior is not None
            gram, own = problem.prior_gram(factors, transposed), factors.left[:, : factors.k + factors.biased]
            maps.append(FeatureMap.of_point(features, prior, own, gram))
    return maps[0], maps[1]
