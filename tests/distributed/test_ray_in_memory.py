"""The same fit on Ray actors: the same bits as on this machine, whoever dies on the way."""

import os
import signal

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from lorank import MatrixCompletion
from lorank.distributed import over_ray
from lorank.distributed.problem import ROWS, BlockProblem
from lorank.errors import InputError
from lorank.estimators.choosing import candidates
from lorank.problems import Problem
from lorank.regularizers import FactoredNNFN
from lorank.side_information import GraphLaplacian
from lorank.solvers import Alternating, Stopping, solve

pytestmark = pytest.mark.usefixtures("session")

REGULARIZER = FactoredNNFN(lam=2.0, theta=0.9)
STOPPING = Stopping(tol=1e-8, max_iter=12)


def fitted(problem, validation=None):
    return solve(Alternating(), problem, stopping=STOPPING, validation=validation, seed=5)


def same(one, other):
    a, b = one.factors, other.factors
    np.testing.assert_array_equal(a.left, b.left)
    np.testing.assert_array_equal(a.right, b.right)
    assert a.offset == b.offset
    assert one.history.objective == other.history.objective


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_same_bits_as_the_local_fit(data, workers):
    problem = over_ray(data.train, REGULARIZER, 4, None, workers)
    for ridges in (None, (3.0, 2.0)):
        local = Problem(data.train, REGULARIZER, 4, ridges)
        far = BlockProblem(data.train, REGULARIZER, 4, ridges, engine=problem.engine)
        same(fitted(far, data.validation), fitted(local, data.validation))
        start, ridge, pull = local.random_start(0), np.eye(4), 0.1 * np.ones((4, 4))
        for transposed in (False, True):
            factors = start.transposed() if transposed else start
            expected, given = (p.ridge_regressions(factors, ridge, pull, transposed) for p in (local, far))
            np.testing.assert_array_equal(given[0], expected[0])
            assert given[1] == expected[1]
    shares = [sum(part.entries for part in run) for run in problem.engine._runs[ROWS]]
    assert sum(shares) == data.train.nnz
    assert max(shares) / min(shares) < 1.3
    problem.engine.close()


def test_features_go_with_it(data):
    fit = {"rank": 3, "lam": 2.0, "biases": True, "features": "implicit", "max_iter": 8, "tol": 0, "random_state": 0}
    with pytest.warns(ConvergenceWarning):
        local, far = (MatrixCompletion(**fit, backend=where).fit(data.train) for where in ("local", "ray"))
    same(far.result_, local.result_)


@pytest.mark.parametrize(("workers", "features"), [(3, None), (2, "implicit")])
def test_the_sampler_draws_the_same_bits(data, workers, features):
    fit = {"method": "bpmf", "rank": 3, "features": features, "biases": True, "max_iter": 30, "random_state": 0}
    local, far = (
        MatrixCompletion(**fit, backend=where, n_workers=workers).fit(data.train, validation=data.validation)
        for where in ("local", "ray")
    )
    same(far.result_, local.result_)
    assert far.history_["validation"][-1] == local.history_["validation"][-1]
    np.testing.assert_array_equal(*(one.model_.interval([0, 1, 2], [3, 4, 5]) for one in (far, local)))


def test_workers_killed_again_and_again(data):
    local = fitted(Problem(data.train, REGULARIZER, 4))
    problem = over_ray(data.train, REGULARIZER, 4, None, 2)
    import ray

    kills = []

    def kill(progress):
        if progress.iteration in (1, 2, 4):
            victim = problem.engine._actors[progress.iteration % 2]
            pid = ray.get(victim.process.remote())
            kills.append(pid)
            os.kill(pid, signal.SIGKILL)

    result = solve(Alternating(), problem, stopping=STOPPING, callbacks=[kill], seed=5)
    assert len(kills) == 3
    assert problem.engine.deaths >= 3
    same(result, local)
    problem.engine.close()


def test_a_worker_that_ray_ends_for_lack_of_memory_is_started_again(data, monkeypatch):
    """Ray ends the largest worker when memory runs short, and reports it by an error of its own."""
    import ray
    from ray.exceptions import OutOfMemoryError

    problem = over_ray(data.train, REGULARIZER, 4, workers=2)
    get, ended = ray.get, []

    def short_of_memory(what):
        if not ended:
            ended.append(what)
            raise OutOfMemoryError("1 worker(s) were killed due to the node running low on memory.")
        return get(what)

    monkeypatch.setattr(ray, "get", short_of_memory)
    result = fitted(problem, data.validation)
    assert problem.engine.deaths == 1
    problem.engine.close()
    same(result, fitted(Problem(data.train, REGULARIZER, 4), data.validation))


def test_estimator_gives_the_same_model(data):
    params = {"rank": 4, "lam": 2.0, "biases": True, "random_state": 0, "tol": 1e-6}
    local = MatrixCompletion(**params).fit(data.train, validation=0.1)
    far = MatrixCompletion(**params, backend="ray", n_workers=2, n_jobs=1).fit(data.train, validation=0.1)
    same(far.result_, local.result_)


def test_what_runs_on_one_machine_only_says_so(data):
    with pytest.raises(InputError, match=r"SoftImputeALS.*one machine"):
        MatrixCompletion("nuclear", backend="ray").fit(data.train)
    with pytest.raises(InputError, match=r"GradientDescent.*one machine"):
        MatrixCompletion(solver="gradient", backend="ray").fit(data.train)
    with pytest.raises(InputError, match="losses other than the squared one run on one machine only"):
        MatrixCompletion("bpmf", loss="ordinal", backend="ray").fit(data.train)
    graph = GraphLaplacian.from_adjacency(np.ones((data.train.shape[0],) * 2))
    with pytest.raises(InputError, match="Graphs, kernel priors and losses"):
        MatrixCompletion("bpmf", row_side=graph, backend="ray").fit(data.train)
    with pytest.raises(InputError, match="unobserved_weight and frequency_power run on one machine only"):
        MatrixCompletion(unobserved_weight=0.1, backend="ray").fit(data.train)
    with pytest.raises(InputError, match="goal='ranking', unobserved_weight"):
        MatrixCompletion(goal="ranking", backend="ray").fit(data.train)
    with pytest.raises(InputError, match="Unknown backend 'dask'; there are local, ray"):
        MatrixCompletion(backend="dask").fit(data.train)


def test_the_same_kinds_are_candidates_as_in_memory(data):
    for effort in ("fast", "balanced"):
        kinds = [
            list(candidates(MatrixCompletion(effort=effort, backend=where)._asked(), data.train))
            for where in ("local", "ray")
        ]
        assert kinds[0] == kinds[1]
    levels = data.train.with_values(np.round(np.clip(data.train.values, -3, 3)))
    losses = [
        {kind.loss for kind in candidates(MatrixCompletion(effort="best", backend=where)._asked(), levels).values()}
        for where in ("local", "ray")
    ]
    assert losses == [{"squared", "ordinal"}, {"squared"}]


def test_a_cluster_that_is_too_small_is_refused_with_the_estimate(data):
    with pytest.raises(InputError, match="64 CPUs"):
        over_ray(data.train, REGULARIZER, 4, workers=64)
    with pytest.raises(InputError, match="GiB over all workers"):
        over_ray(data.train, REGULARIZER, 10**9)


def test_workers_are_as_nice_as_who_asks(session):
    """By Ray's own default they are at 15, and beside anything else that computes hardly get a core."""
    import ray

    niceness = ray.remote(lambda: os.nice(0))
    assert ray.get(niceness.remote()) == os.nice(0)
