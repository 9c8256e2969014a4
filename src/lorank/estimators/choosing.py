"""Choosing whatever is "auto": which kinds of models are candidates for what is asked, and the search among them.

From the simplest to the most costly, where the method is to be chosen:

- NNFN with its weight, rank, theta and biases on a path (`lorank.tuning.path`);
- for an effort above "fast", the sampler, which draws its weights; then the same with who rated what as features;
- for the effort "best", the same for values on a scale, if there are few of them, and at a higher rank.

With graphs, their weight and whether biases are fitted first are chosen too, unless given: one after the other, from
the best so far.

A method that is given is the only candidate. What cannot be done is no candidate: a loss or side information that a
method or the backend does not take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from lorank import losses, registry
from lorank.errors import InputError
from lorank.estimators import running
from lorank.estimators.parameters import DEFAULT_METHOD, SQUARED, Parameters
from lorank.estimators.sides import sides_of, weighted_graphs
from lorank.linalg.blas import one_blas_thread
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.side_information import Features, GraphLaplacian, KernelPrior
from lorank.side_information.base import several
from lorank.solvers import Checkpoint
from lorank.tuning import choice, path
from lorank.tuning.held_out import HeldOutJudge, Part
from lorank.tuning.search import Found, Search
from lorank.tuning.setting import AUTO, Setting, Space, noise_norm, prepared
from lorank.tuning.trial_log import Fitted, OnTrial, TrialLog
from lorank.tuning.trials import CANDIDATE

SAMPLER = "bpmf"
IMPLICIT, ORDINAL = "implicit", "ordinal"
ALL_ROWS = ", all rows"
# The rank of a sampler, which shrinks directions that are not needed: this, or the point estimate's if that is larger.
SAMPLER_RANK = 20
# Of fewer entries than this half of it is as good, and takes half of the time.
LITTLE = 10_000
# How many times that is tried too for the effort "best".
HIGHER = 2
# Weights of graphs, where they are searched.
GRAPH_WEIGHTS = (0.0, 0.1, 0.01, 1.0)
# Values are on a scale if there are at most so many of them.
LEVELS = 20


def tune(
    asked: Parameters,
    parts: tuple[Part, ...],
    seed: int,
    checkpoint: Checkpoint | None = None,
    on_trial: OnTrial | None = None,
    runs: Callable[[Parameters], bool] = lambda option: True,
) -> tuple[Parameters, Found]:
    """Choose whatever is "auto", by parts of the data to learn from and to judge by.

    The parameters of the kind that was chosen, and what was found. `runs` says which kinds can be fitted to all of it.
    """
    parts = choice.in_single_precision(parts)
    options = {name: option for name, option in candidates(asked, parts[0][0]).items() if runs(option)}
    seconds = math.inf if asked.max_seconds is None else asked.max_seconds / 2
    with one_blas_thread():
        # Several kinds are compared on some rows of large data; what is tuned is then tuned on all of them.
        some = choice.thinned(parts, seed) if len(options) > 1 else parts
        kinds: list[choice.Kind] = []
        ratio = 1.0 if some is parts else noise_norm(parts[0][0]) / noise_norm(some[0][0])
        for name, option in options.items():
            kind = _kind(name, option, some, seed, not kinds, brief=some is not parts)
            whole = f"{name}{ALL_ROWS}"
            if some is not parts and kind.tuned:
                kind = replace(kind, whole=_kind(whole, option, parts, seed, first=False, ratio=ratio))
            kinds.append(replace(kind, aspects=_aspects(asked, option)))
        found = choice.choose(kinds, TrialLog(checkpoint, on_trial), seconds)
    return options[found.parameters[CANDIDATE].removesuffix(ALL_ROWS)], found


def candidates(asked: Parameters, train: Observations) -> dict[str, Parameters]:
    """The kinds of models that may be chosen, by their names in plain words, with method, loss and features given."""
    features = [None, IMPLICIT] if asked.features == AUTO else [asked.features]
    # Values on a scale of few levels.
    levels = asked.effort == "best" and np.unique(train.values[:10_000]).size <= LEVELS
    scales = [asked.loss] if asked.loss != AUTO else [SQUARED, ORDINAL] if levels else [SQUARED]
    methods = [asked.method]
    if asked.any_method:
        # The sampler knows nothing of what was not observed; a theta is NNFN's.
        able = not asked.unobserved_weight and not asked.frequency_power and asked.theta in (None, AUTO)
        methods = [DEFAULT_METHOD, SAMPLER] if able and asked.effort != "fast" else [DEFAULT_METHOD]
    found: dict[str, Parameters] = {}
    refused: InputError | None = None
    for method in methods:
        for loss in scales:
            for feature in features:
                if loss == ORDINAL and asked.loss == AUTO and method != SAMPLER:
                    continue
                for weight in _graph_weights(asked, method):
                    option = replace(asked, method=method, loss=loss, features=feature)
                    option = option if weight is None else weighted_graphs(option, weight)
                    try:
                        solver = running.build_solver(option)
                        solver.check_loss(losses.find(loss))
                        sides_of(option, train)
                    except InputError as error:
                        refused = refused or error
                        continue
                    name = _name(option) + (f" + graph, weight {weight:g}" if weight else "")
                    found |= _with_level(name, option)
    if not found:
        raise refused or InputError("Nothing can be fitted with these parameters.")
    return found


def _with_level(name: str, option: Parameters) -> dict[str, Parameters]:
    """The option; where graphs or kernels tie lines, without biases, and with those that are fitted first."""
    known = [*several(option.row_side), *several(option.col_side)]
    if option.biases != AUTO or not any(isinstance(one, (GraphLaplacian, KernelPrior)) for one in known):
        return {name: option}
    # The sampler draws no biases beside graphs and kernels.
    sampler = registry.find(option.method).samples
    found = {name: replace(option, biases=False)}
    return found if sampler else found | {f"{name}, level first": replace(option, biases=True)}


def _graph_weights(asked: Parameters, method: Any) -> Sequence[float | None]:
    """Weights of graphs that are tried, 0 first: a graph may say nothing. None leaves what is given."""
    if asked.graph_weight != AUTO or not _has_graph(asked):
        return [None]
    # Draws with a graph are costly.
    return GRAPH_WEIGHTS[:2] if method == SAMPLER else GRAPH_WEIGHTS


def _aspects(asked: Parameters, option: Parameters) -> tuple[object, ...]:
    """What is chosen one after the other where a graph's weight is searched; the sampler has no biases beside one."""
    if not _has_graph(asked) or asked.graph_weight != AUTO:
        return ()
    if not _has_graph(option):
        return (option.features, None)
    weighed = (option.features, option.graph_weight)
    return weighed if registry.find(option.method).samples else (*weighed, option.biases)


def _has_graph(asked: Parameters) -> bool:
    return any(isinstance(part, GraphLaplacian) for side in (asked.row_side, asked.col_side) for part in several(side))


def _name(option: Parameters) -> str:
    """What a kind of model is, in plain words."""
    method = registry.find(option.method)
    parts = ["sampler" if method.samples else "NNFN" if method.name == DEFAULT_METHOD else str(method)]
    parts += ["who rated what"] if option.features == IMPLICIT else []
    parts += ["levels"] if isinstance(losses.find(option.loss), losses.Ordinal) else []
    return " + ".join(parts)


def _kind(
    name: str,
    option: Parameters,
    parts: tuple[Part, ...],
    seed: int,
    first: bool,
    brief: bool = False,
    ratio: float | None = None,
) -> choice.Kind:
    """A candidate as the search takes it; offsets alone are tried with the first one.

    With a ratio of noises, its search goes on from one on some of the rows.
    """
    method, solver, loss = registry.find(option.method), running.build_solver(option), losses.find(option.loss)
    parts = tuple((train, prepared(held_out, loss)) for train, held_out in parts)
    parts = parts if first else choice.enough(parts)
    train = parts[0][0]
    known = [one for side in sides_of(option, train) for one in several(side)]
    # What does not depend on the setting is found once for each part.
    found: dict[int, tuple[Any, Any]] = {}

    def build(observations: Observations, setting: Setting) -> Problem:
        if id(observations) not in found:
            ridges = running.for_data(option, observations, Setting(1.0, 1, None, option.biases is not False)).ridges
            found[id(observations)] = sides_of(option, observations), ridges
        sides, ridges = found[id(observations)]
        return running.build_problem(option, observations, replace(setting, ridges=ridges), sides)

    if method.samples:
        judge = choice.SamplerJudge(build, solver, parts, seed)
        given = {CANDIDATE: name, "lam": None, "theta": None, "biases": option.biases is not False}
        return choice.Kind(name, judge, partial(_sample, option, train, given), 1 + (option.effort == "best"))
    space = Space.of(method, option.lam, option.rank, option.theta, option.biases)
    ridge = any(isinstance(one, Features) and one.ridge is None for one in known)
    offsets = space.offsets and first and "multipliers" in solver.requires
    space = replace(space, features=ridge, offsets=offsets, given={CANDIDATE: name})
    # A path is referred to until the search is over: see `WarmPath.widest`.
    paths: list[path.WarmPath] = []

    def walk(search: Search, best: Fitted | None) -> Fitted:
        paths.append(path.WarmPath(space, train, search))
        if ratio is not None and best is not None:
            return paths[-1].run_on_more(best, ratio, 1 if option.effort == "fast" else None)
        # Without biases, a fit that has them is no place to begin: another lam and rank suit it.
        unlike = best is not None and space.biases is not None and best.parameters["biases"] != space.biases
        return paths[-1].run() if best is None or unlike else paths[-1].run_from(best, brief)

    return choice.Kind(name, HeldOutJudge(build, solver, parts, seed), walk, 17 if first else 6, tuned=True)


def _sample(
    option: Parameters, train: Observations, given: Mapping[str, Any], search: Search, best: Fitted | None
) -> Fitted:
    """A short chain at the usual rank; for the effort "best" also at a higher one."""
    if option.rank != AUTO:
        return search.attempt({**given, "rank": min(int(option.rank), *train.shape)})
    first = SAMPLER_RANK if train.nnz >= LITTLE else SAMPLER_RANK // 2
    usual = max(first, 0 if best is None else best.parameters["rank"])
    ranks = [usual, HIGHER * usual] if option.effort == "best" else [usual]
    tried = [
        search.attempt({**given, "rank": rank}) for rank in dict.fromkeys(min(rank, *train.shape) for rank in ranks)
    ]
    return min(tried, key=lambda fitted: fitted.error)
