"""Who rated what in shards: the directions of memory, and the sampler that takes them as features."""

from dataclasses import replace

import numpy as np
import pytest
from test_folder_sampler import NAMES, assert_same_draws, problem_of

import lorank
from lorank import InputError, Observations
from lorank.distributed import directions, fit, parts
from lorank.distributed.directions import room_for, who_rated_what
from lorank.distributed.kept_draws import gathered
from lorank.distributed.parts import HELD_OUT
from lorank.distributed.sampling import ShardBPMF
from lorank.problems import Problem
from lorank.side_information import Features
from lorank.solvers.gibbs import BPMF


@pytest.fixture(autouse=True)
def few_parts(monkeypatch):
    monkeypatch.setattr(parts, "PARTS", 7)


@pytest.fixture(scope="module")
def ratings():
    """Rows rate columns that they like, so that who rated what says something; row 5 and column 7 have no entry."""
    rng = np.random.default_rng(0)
    W, H = rng.standard_normal((300, 2)), rng.standard_normal((200, 2))
    X = W @ H.T
    seen = rng.random(X.shape) < 0.12 / (1 + np.exp(-3 * X))
    seen[5], seen[:, 7] = False, False
    rows, cols = np.nonzero(seen)
    values = X[seen] + 0.7 * rng.standard_normal(rows.size)
    return Observations.from_coo(rows, cols, values, X.shape).split(0.2, 0)


def test_directions_are_those_of_memory(ratings):
    train, test = ratings
    engine = problem_of(train, 2, None, test).engine
    for found, features in zip(who_rated_what(engine, train.shape), Features.implicit(train, counts=True)):
        exact = features.directions()  # all of them, by an eigendecomposition
        strong = exact.squares > 2
        U = gathered(engine, found.U)[:, : found.squares.size]
        assert found.known == len(U) - exact.unknown.size
        assert not U[exact.unknown].any()
        np.testing.assert_allclose(found.squares[: strong.sum()], exact.squares[strong], rtol=1e-4)
        np.testing.assert_allclose(U.T @ U, np.eye(U.shape[1]), atol=1e-4)
        # The strongest directions of memory lie within those in shards.
        np.testing.assert_allclose(np.linalg.norm(U.T @ exact.U[:, strong], axis=0), 1, atol=1e-3)
        np.testing.assert_allclose(found.ones, U.sum(axis=0), atol=1e-4)


def test_it_samples_the_posterior_of_memory(ratings):
    train, test = ratings
    rows, cols = Features.implicit(train, counts=True)
    far, near = (
        problem_of(train, 3, (1.0, 1.0), test),
        Problem(train, None, 3, (1.0, 1.0), row_side=rows, col_side=cols),
    )
    plain, far = far, replace(far, known=who_rated_what(far.engine, train.shape))
    found = []
    for sampler, problem, held_out in (
        (ShardBPMF(), far, HELD_OUT),
        (BPMF(), near, test),
        (ShardBPMF(), plain, HELD_OUT),
    ):
        chain, weights = sampler.init(problem, None, 0), []
        for sweep in range(400):
            chain = sampler.step(problem, chain)
            chain, error = sampler.validated(problem, chain, held_out)
            if sweep >= 130:
                weights.append(np.log([chain.cols.hyper.lb, chain.rows.hyper.lb, chain.precision]))
        found.append((error, np.mean(weights, axis=0)))
    (error, weights), (expected, expected_weights), (without, _) = found
    assert error == pytest.approx(expected, rel=0.02)
    assert error < 0.96 * without
    np.testing.assert_allclose(weights, expected_weights, atol=0.4)


@pytest.fixture
def files(ratings, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (tmp_path / "ratings").mkdir()
    train = ratings[0]
    for number in range(2):
        part = slice(number, None, 2)
        table = {"u": train.rows[part], "i": train.cols[part], "v": train.values[part]}
        pq.write_table(pa.table(table), tmp_path / "ratings" / f"{number}.parquet")
    return tmp_path / "ratings"


IMPLICIT = {**NAMES, "method": "bpmf", "features": "implicit", "rank": 3, "biases": True, "max_iter": 22}


@pytest.mark.parametrize("dies", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_same_bits_on_ray_though_a_worker_dies(files, tmp_path, session, dies):
    work = tmp_path / "work"
    work.mkdir()
    alone = fit(files, **IMPLICIT, backend="out-of-core", validation=0.1, output=tmp_path / "model")

    def kill(progress):
        if dies and progress.iteration == 12:
            import os

            import ray

            engine = progress.factors.left.engine
            os.kill(ray.get(engine._actors[1].process.remote()), 9)

    far = fit(files, **IMPLICIT, validation=0.1, work_folder=work, callbacks=[kill])
    assert_same_draws(far, alone.loaded())
    saved = lorank.load(tmp_path / "model")
    assert saved.params["features"] == "implicit"
    new = Observations.from_coo([0, 0], [1, 2], [0.5, 1.0], (1, len(far.col_ids)), None, far.col_ids)
    assert np.isfinite(saved.fold_in(new).predict([0], [3])).all()


def test_cut_off_and_resumed_it_ends_the_same(files, tmp_path):
    params = {**IMPLICIT, "backend": "out-of-core"}
    whole = fit(files, **params)
    fit(files, **params, checkpoint=tmp_path / "c", callbacks=[lambda progress: progress.iteration == 15])
    assert_same_draws(fit(files, **params, checkpoint=tmp_path / "c"), whole)


def test_the_sample_says_whether_they_help(files):
    params = {**NAMES, "backend": "out-of-core", "max_iter": 25}
    kinds = {trial["candidate"] for trial in fit(files, **params).trials}
    assert {"NNFN", "sampler", "sampler + who rated what"} <= kinds
    assert "NNFN + who rated what" not in kinds
    model = fit(files, **params, method="bpmf")
    errors = {trial["candidate"]: trial["error"] for trial in model.trials}
    assert errors["sampler + who rated what"] < errors["sampler"]
    assert model.params["features"] == "implicit"


def test_without_room_they_are_left_out_or_refused(files, monkeypatch):
    assert room_for((10**6, 10**5)) == 244
    assert room_for((10**8, 10**7)) == 0
    monkeypatch.setattr(directions, "BUDGET", 1000)
    model = fit(files, **NAMES, backend="out-of-core", max_iter=25)
    assert "sampler" in {trial["candidate"] for trial in model.trials}
    assert model.params["features"] is None
    with pytest.raises(
        InputError, match="Who rated what has no room for 299 x 199 rows and columns; fit with features"
    ):
        fit(files, **IMPLICIT, backend="out-of-core")


def test_they_are_for_the_sampler_alone(files):
    with pytest.raises(InputError, match="who rated what goes with method 'bpmf' or 'auto', not with 'nnfn'"):
        fit(files, **NAMES, method="nnfn", rank=2, lam=1.0, features="implicit")


def test_of_a_few_lines_too(tmp_path):
    """Of which there are far fewer directions than the subspace is wide."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows, cols = np.divmod(np.arange(30)[np.arange(30) % 4 > 0], 5)
    pq.write_table(pa.table({"u": rows, "i": cols, "v": rows + 1.0 * cols}), tmp_path / "0.parquet")
    model = fit(tmp_path, **{**IMPLICIT, "rank": 1}, backend="out-of-core")
    assert np.isfinite(model.predict(rows, cols)).all()
