"""The one search: the clock, failures, interruptions, and a log that answers what was tried before."""

import numpy as np
import pytest

from lorank.errors import InputError
from lorank.linalg import Factors
from lorank.solvers import Checkpoint, History, Result, Status
from lorank.tuning.search import Judgement, Search
from lorank.tuning.trial_log import TrialLog
from lorank.tuning.trials import TrialStatus


def fit_of(lam):
    """A fit that can be told from others by its numbers."""
    factors = Factors.of(np.full((2, 1), lam), np.ones((3, 1)))
    return Result(factors, lam, Status.CONVERGED, f"lam {lam:g}", 3, 0.5, History([1], [0.5], [lam], [1], [lam]))


def judge(candidate):
    lam = candidate.parameters["lam"]
    return Judgement(abs(lam - 2), fit_of(lam))


def down(search, lams=(8.0, 4.0, 2.0, 1.0)):
    def strategy():
        start = ()
        for lam in lams:
            start = search.attempt({"lam": lam}, start, search.best).starts

    return strategy


def test_the_least_error_is_chosen_unless_the_strategy_says_otherwise():
    search = Search(judge)
    found = search.run(down(search))
    assert found.parameters == {"lam": 2.0}
    assert found.trials.chosen is found.trials[2]
    assert [trial.sweeps for trial in found.trials] == [3] * 4
    search = Search(judge)
    first = search.attempt({"lam": 8.0})
    search.attempt({"lam": 2.0})
    assert search.run(lambda: first).parameters == {"lam": 8.0}


def test_a_judge_is_given_the_start_and_what_to_beat():
    asked = []

    def curious(candidate):
        asked.append(candidate)
        return judge(candidate)

    search = Search(curious, max_seconds=100.0)
    search.run(down(search))
    assert [candidate.to_beat for candidate in asked] == [np.inf, 6.0, 2.0, 0.0]
    assert asked[0].start == ()
    assert asked[3].start[0].W[0, 0] == 2.0
    assert all(99 < candidate.seconds <= 100 for candidate in asked)


def test_no_time_is_one_trial():
    search = Search(judge, max_seconds=0.0)
    found = search.run(down(search))
    assert found.out_of_time
    assert [trial.lam for trial in found.trials] == [8.0]


def test_failures_are_trials_with_a_reason_where_they_are_forgiven():
    def fails(candidate):
        if candidate.parameters["lam"] > 3:
            raise InputError("too large")
        return judge(candidate)

    search = Search(fails, forgiving=True)
    start = {"lam": 8.0}, {"lam": 2.0}
    found = search.run(lambda: [search.attempt(parameters) for parameters in start][-1])
    assert found.trials[0].status is TrialStatus.FAILED
    assert found.trials[0].reason == "InputError: too large"
    assert found.trials[0].error == np.inf
    strict = Search(fails)
    with pytest.raises(InputError, match="too large"):
        strict.run(down(strict))


def test_an_error_that_is_no_number_never_wins():
    search = Search(lambda candidate: Judgement(np.nan if candidate.parameters["lam"] == 8 else 1.0, fit_of(1.0)))
    assert search.run(down(search)).parameters == {"lam": 4.0}


@pytest.mark.parametrize("last", [1, 2, 3, 4])
def test_an_interrupted_trial_ends_the_search_and_is_done_again(tmp_path, last):
    """Those before it are answered from the checkpoint, with their fits as far as they are needed."""
    judged = []

    def interrupted(candidate):
        judged.append(candidate.parameters["lam"])
        if len(judged) == last:
            return Judgement(0.5, fit_of(0.5), TrialStatus.INTERRUPTED)
        return judge(candidate)

    path = tmp_path / "search"
    search = Search(interrupted, TrialLog(Checkpoint(path, {}, seconds=0.0)))
    found = search.run(down(search))
    assert found.interrupted
    assert len(found.trials) == last
    whole = Search(judge)
    expected = whole.run(down(whole))
    search = Search(interrupted, TrialLog(Checkpoint(path, {}, seconds=0.0)))
    found = search.run(down(search))
    assert not found.interrupted
    assert [trial.error for trial in found.trials] == [trial.error for trial in expected.trials]
    assert len(judged) == 5, "only the trial that was interrupted was done twice"
    # Once more: the outcome is there, and nothing is tried.
    again = Search(None, TrialLog(Checkpoint(path, {}))).run(None)
    for result in (found.result, again.result):
        assert vars(result.history) == vars(expected.result.history)
        assert (result.objective, result.status, result.message) == (2.0, Status.CONVERGED, "lam 2")
        np.testing.assert_array_equal(result.factors.left, expected.result.factors.left)


def test_another_search_is_not_answered_from_the_log(tmp_path):
    path = tmp_path / "search"
    log = TrialLog(Checkpoint(path, {}, seconds=0.0))
    search = Search(judge, log)
    search.attempt({"lam": 8.0})
    search = Search(judge, TrialLog(Checkpoint(path, {})))
    found = search.run(down(search, (7.0, 4.0)))
    assert [trial.lam for trial in found.trials] == [7.0, 4.0]
