"""goal="ranking": lists that people act on, from clicks, counts or ratings.

What was not seen counts a little as not wanted (`lorank.problems.unobserved`), values become preferences between 0 and
1 (`lorank.models.preferences`), and whatever is not given is chosen by the lists that come out of it
(`lorank.tuning.ranking`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lorank import losses, progress, registry
from lorank.errors import InputError
from lorank.estimators import running
from lorank.estimators.parameters import DEFAULT_MAX_ITER, DEFAULT_METHOD, DEFAULT_TOL, Parameters
from lorank.linalg import Factors
from lorank.linalg.blas import one_blas_thread
from lorank.losses import SQUARED
from lorank.models.list_metrics import METRICS, find_metric
from lorank.models.preferences import is_constant
from lorank.models.ranking_metrics import hits, most_popular, relevant_part
from lorank.models.setting import Setting
from lorank.observations import Observations, observe
from lorank.observations.splits import hold_out_of_rows
from lorank.problems import Problem
from lorank.solvers import Callback, Result
from lorank.tuning.ranking import (
    RankingSpace,
    judged_rows,
    lists_of,
    long_enough,
    scores_of,
    setting_of_ranking,
    tune_ranking,
)
from lorank.tuning.setting import AUTO
from lorank.tuning.trial_log import OnTrial
from lorank.tuning.trials import Trials

# The part of each row's entries by which lists are judged.
HELD_OUT = 0.2
GOALS = (AUTO, "values", "ranking")
# What a matrix must have for a constant value to be taken for clicks.
LEAST_ENTRIES, LEAST_SIDE = 50, 5
# Lists of a model of values are judged where there are so many columns, by lists of this length and this many scores.
LEAST_COLUMNS, LISTED, MOST_SCORES = 50, 10, 1 << 21


def applies(asked: Parameters, observations: Observations) -> bool:
    """Whether lists are the goal: if that is asked for, or if all values are the same, which is said then.

    A table of which more than half is observed is no record of clicks: equal values are completed as they are.
    """
    if asked.goal not in GOALS:
        raise InputError(f"goal must be 'auto', 'values' or 'ranking'; got {asked.goal!r}.")
    if asked.goal != AUTO:
        return bool(asked.goal == "ranking")
    m, n = observations.shape
    few = observations.nnz < LEAST_ENTRIES or min(m, n) < LEAST_SIDE or 2 * observations.nnz > m * n
    if few or not is_constant(observations) or AUTO not in (asked.lam, asked.rank):
        return False
    if not asked.any_method and registry.find(asked.method).samples:  # it knows nothing of what was not observed
        return False
    progress.notice(
        "all values are the same, so who has what is learnt: goal='ranking' (goal='values' fits the values)"
    )
    return True


def fit(
    asked: Parameters,
    observations: Observations,
    validation: Any,
    seed: int,
    callbacks: Sequence[Callback] = (),
    on_trial: OnTrial | None = None,
    times: Any = None,
) -> tuple[Parameters, Observations, Setting, Result, None, Trials, dict[str, float]]:
    """Choose what is not given, and fit; what `MatrixCompletion` keeps."""
    metric, k = parse_metric(asked.metric)
    if asked.loss != AUTO and losses.find(asked.loss) != SQUARED:
        raise InputError(f"goal='ranking' goes with the squared loss; got loss={asked.loss!r}.")
    method = DEFAULT_METHOD if isinstance(asked.method, str) and asked.method == AUTO else asked.method
    features = None if asked.features == AUTO else asked.features
    asked = replace(asked, method=method, features=features, loss="squared", goal="ranking")
    everything = observations
    if validation is None or isinstance(validation, float):
        when = None if times is None else observe(times)
        train, held_out = hold_out_of_rows(observations, validation or HELD_OUT, seed, when)
        observations = train if isinstance(validation, float) else observations
    else:
        train, held_out = observations, observe(validation).aligned_to(observations).astype(observations.dtype)
    solver = running.build_solver(asked)

    def problem(entries: Observations, setting: Setting) -> Problem:
        return running.build_problem(asked, entries, running.for_data(asked, entries, setting))

    seconds = None if asked.max_seconds is None else asked.max_seconds / 2
    with one_blas_thread():
        found = tune_ranking(_space(asked), problem, solver, train, held_out, seed, k, metric, seconds, on_trial)
    setting = running.for_data(asked, observations, setting_of_ranking(found.parameters, everything))
    # What was judged is what is fitted, unless somebody says how far to go.
    ends = [long_enough] if (asked.tol, asked.max_iter) == (DEFAULT_TOL, DEFAULT_MAX_ITER) else []
    fits = [
        running.solve(asked, observations, setting, None, None, [*callbacks, *ends], seed=seed + more)
        for more in range(asked.n_fits)
    ]
    result = running.averaged(fits)
    lists = {f"{metric}@{k}": 1 - found.error, "most popular": most_popular_score(train, held_out, seed, k, metric)}
    return asked, observations, setting, result, None, found.trials, lists


def lists_of_values(factors: Factors, train: Observations, held_out: Observations, seed: int) -> dict[str, float]:
    """How good lists of the highest predictions are beside the most popular columns, for a model of values.

    By NDCG@10 on some rows; nothing of a matrix that is too small for lists, or if nothing held out is relevant.
    """
    wanted = relevant_part(held_out, train)
    n = train.shape[1]
    if n < LEAST_COLUMNS or not wanted.nnz:
        return {}
    rows = judged_rows(wanted, seed, max(1, MOST_SCORES // n))
    counts = np.diff(wanted.by_row.pointers)[rows]
    both = lists_of(scores_of(factors), train, rows, LISTED), most_popular(train, rows, LISTED)
    own, popular = (float(METRICS["ndcg"](hits(lists, wanted, rows), counts).mean()) for lists in both)
    return {f"ndcg@{LISTED}": own, "most popular": popular}


def parse_metric(text: str) -> tuple[str, int]:
    """Name and length of lists of a measure such as "ndcg@10"."""
    name, at, length = text.partition("@")
    if not at or not length.isdigit() or int(length) < 1:
        raise InputError(f"metric is a measure and a length of lists, such as 'ndcg@10'; got {text!r}.")
    return find_metric(name), int(length)


def most_popular_score(train: Observations, held_out: Observations, seed: int, k: int, metric: str) -> float:
    """The measure of lists that have the columns with the most entries that the row has not seen."""
    wanted = relevant_part(held_out, train)
    rows = judged_rows(wanted, seed)
    lists = most_popular(train, rows, k)
    return float(METRICS[metric](hits(lists, wanted, rows), np.diff(wanted.by_row.pointers)[rows]).mean())


def _space(asked: Parameters) -> RankingSpace:
    """What is given, and what is to be chosen."""
    method = registry.find(asked.method)

    def given(value: Any) -> Any:
        return None if value is None or value == AUTO else value

    rank, power = given(asked.rank), asked.frequency_power
    if power is None and any(side is not None for side in (asked.row_side, asked.col_side, asked.features)):
        power = 0.0  # it does not go with side information
    return RankingSpace(
        lam=given(asked.lam),
        rank=None if rank is None else int(rank),
        theta=given(asked.theta),
        has_theta="theta" in method.parameters,
        unobserved_weight=given(asked.unobserved_weight),
        unobserved_value=float(asked.unobserved_value),
        frequency_power=power,
        biases=asked.biases is True,
        effort=asked.effort,
    )
