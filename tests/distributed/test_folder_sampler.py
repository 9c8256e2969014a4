"""The sampler on an engine: the chain of memory with its lines in shards, and the model that comes of its draws."""

from dataclasses import replace

import numpy as np
import pytest

import lorank
from lorank import InputError, MatrixCompletion, Observations
from lorank.distributed import fit, parts
from lorank.distributed.engines import LocalEngine
from lorank.distributed.kept_draws import gathered
from lorank.distributed.parts import COLS, HELD_OUT, ROWS, Part, parts_of
from lorank.distributed.problem import Elsewhere, FolderProblem
from lorank.distributed.sampling import ShardBPMF
from lorank.observations import Lines
from lorank.problems import Problem
from lorank.solvers.gibbs import BPMF

NAMES = {"row": "u", "col": "i", "value": "v"}
SHORT = {**NAMES, "method": "bpmf", "rank": 4, "biases": True, "max_iter": 40, "backend": "out-of-core"}


@pytest.fixture(autouse=True)
def few_parts(monkeypatch):
    monkeypatch.setattr(parts, "PARTS", 7)


def problem_of(seen, rank, ridges, held_out=None, threads=1):
    sides = {ROWS: parts_of(seen.by_row), COLS: parts_of(seen.by_col)}
    if held_out is not None:
        lines, sides[HELD_OUT] = held_out.by_row, []
        for part in sides[ROWS]:
            own = slice(int(lines.pointers[part.lo]), int(lines.pointers[part.hi]))
            pointers = lines.pointers[part.lo : part.hi + 1] - lines.pointers[part.lo]
            source = Lines(pointers, lines.indices[own], lines.values[own])
            sides[HELD_OUT].append(Part(part.number, part.lo, part.hi, own.stop - own.start, source))
    nothing = Elsewhere(seen.shape, seen.dtype, seen.nnz)
    return FolderProblem(nothing, None, rank, ridges, engine=LocalEngine(sides, threads))


def draws(posterior):
    return [
        posterior.mean.left,
        posterior.mean.right,
        posterior.deviations,
        posterior.noise.left,
        posterior.noise.right,
    ]


def assert_same_draws(one, other):
    for here, there in zip(draws(one.posterior), draws(other.posterior)):
        np.testing.assert_array_equal(here, there)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_with_a_known_noise_it_is_the_chain_of_memory(data, dtype):
    seen = data.train.astype(dtype)
    far, near = problem_of(seen, 4, None), Problem(seen, None, 4)
    samplers = ShardBPMF(noise=0.1), BPMF(noise=0.1)
    chains = [sampler.init(problem, None, 3) for sampler, problem in zip(samplers, (far, near))]
    np.testing.assert_array_equal(chains[0].probes.rows, chains[1].probes.rows)
    np.testing.assert_array_equal(chains[0].probes.cols, chains[1].probes.cols)
    for sweep in range(1, 31):
        chains = [sampler.step(*both) for sampler, both in zip(samplers, zip((far, near), chains))]
        left = gathered(far.engine, chains[0].factors.left)
        if sweep <= 8:  # while hyperparameters are held nothing is summed, and nothing rounded
            np.testing.assert_array_equal(left, chains[1].factors.left)
        np.testing.assert_allclose(left, chains[1].factors.left, atol=1e-9 if dtype == np.float64 else 1e-2)
        assert chains[0].objective == pytest.approx(chains[1].objective, rel=1e-9 if dtype == np.float64 else 1e-3)
    np.testing.assert_allclose(chains[0].probes.sums, chains[1].probes.sums, atol=1e-7 if dtype == np.float64 else 0.1)


def test_where_weights_are_drawn_it_samples_the_same_posterior(data):
    rng = np.random.default_rng(0)
    held = rng.random(data.train.nnz) < 0.1
    train, test = data.train.subset(~held), data.train.subset(held)
    # Noise that differs by row: the weights have something to say.
    values = train.values + rng.gamma(0.5, 0.3, train.shape[0])[train.rows] * rng.standard_normal(train.nnz)
    train = train.with_values(values)
    far, near = problem_of(train, 5, (1.0, 1.0), test), Problem(train, None, 5, (1.0, 1.0))
    found = []
    for sampler, problem, held_out in ((ShardBPMF(), far, HELD_OUT), (BPMF(), near, test)):
        chain = sampler.init(problem, None, 0)
        precisions = []
        for sweep in range(150):
            chain = sampler.step(problem, chain)
            chain, error = sampler.validated(problem, chain, held_out)
            if sweep >= 50:
                precisions.append([np.log(chain.precision), chain.rows.nu, chain.objective])
        weights = chain.rows.weights if problem is near else gathered(far.engine, chain.rows.weights)[:, 0]
        found.append((error, np.mean(precisions, axis=0), np.log(weights)))
    (error, means, weights), (expected, means_there, weights_there) = found
    assert error == pytest.approx(expected, rel=0.02)
    np.testing.assert_allclose(means, means_there, rtol=0.15)
    assert np.corrcoef(weights, weights_there)[0, 1] > 0.9


def test_kept_draws_are_spread_evenly_and_forgotten_ones_are_gone(data):
    problem = problem_of(data.train, 3, None)
    sampler = replace(ShardBPMF(noise=0.1), burn_in=2, kept=4)
    chain = sampler.init(problem, None, 0)
    for _ in range(2 + 9):
        chain = sampler.step(problem, chain)
    assert (chain.draws.count, chain.draws.every, chain.draws.offered) == (3, 4, 9)
    posterior = sampler.posterior(problem, chain)
    last = posterior.deviations.name
    problem.engine.owner.forget(problem.engine._take_forgotten())
    names = {name for name, _ in problem.engine.owner._shards}
    # Of the chain: factors, means, weights, three draws of both sides; of the posterior: nothing twice.
    assert last in names
    assert len(names) == 2 + 1 + 2 + 6 + 7


def test_a_folder_is_sampled_as_memory_samples_it(folder, data, tmp_path):
    expected = MatrixCompletion("bpmf", rank=4, biases=True, max_iter=120, random_state=0).fit(data.train)
    model = fit(folder, **{**SHORT, "max_iter": 120}, output=tmp_path / "model")
    near = fit(folder, **{**SHORT, "max_iter": 120}, workers=3)
    assert model.posterior is not None
    assert model.sharded
    assert_same_draws(model.loaded(), near)
    rows, cols = data.validation.rows, data.validation.cols
    truth = (data.W[rows] * data.H[cols]).sum(axis=1)
    errors = [np.sqrt(np.mean((one.predict(rows, cols) - truth) ** 2)) for one in (model, expected)]
    assert errors[0] == pytest.approx(errors[1], rel=0.05)
    low, high = model.interval(rows, cols, 0.9)
    np.testing.assert_allclose(np.stack(near.interval(rows, cols, 0.9)), [low, high], rtol=1e-5)
    widths = [one.predict_std(rows, cols, noise=True).mean() for one in (model, expected)]
    assert widths[0] == pytest.approx(widths[1], rel=0.05)
    saved = lorank.load(tmp_path / "model")
    assert (saved.entries, saved.posterior.draws) == (data.train.nnz, near.posterior.draws)
    assert not set(saved.recommend([0], 200).cols) & set(data.train.cols[data.train.rows == 0])
    lists = [one.recommend(np.unique(rows)[:5], 3, seen=True) for one in (saved, near)]
    np.testing.assert_array_equal(lists[0].cols, lists[1].cols)
    new = Observations.from_coo([0, 0], [1, 2], [0.5, 1.0], (1, 220), None, near.col_ids)
    folded = [one.fold_in(new) for one in (model, near)]
    np.testing.assert_allclose(folded[0].predict([0], [3]), folded[1].predict([0], [3]), rtol=1e-5)
    near.save(tmp_path / "again", shards=True)
    again = lorank.load(tmp_path / "again")
    np.testing.assert_array_equal(again.predict_std(rows, cols), near.predict_std(rows, cols))
    assert again.describe()["rank_found"] == model.describe()["rank_found"]


def test_cut_off_and_resumed_it_ends_the_same(folder, tmp_path):
    whole = fit(folder, **SHORT, validation=0.1)
    for sweep in (9, 30):  # in the burn-in, and with draws that are kept
        fit(
            folder,
            **SHORT,
            validation=0.1,
            checkpoint=tmp_path / "c",
            callbacks=[lambda p, at=sweep: p.iteration == at],
        )
    resumed = fit(folder, **SHORT, validation=0.1, checkpoint=tmp_path / "c")
    assert_same_draws(resumed, whole)
    np.testing.assert_array_equal(resumed.result.history.validation, whole.result.history.validation)
    assert not list(tmp_path.glob("c*"))


def test_workers_that_die_change_nothing(folder, tmp_path, session):
    work = tmp_path / "work"
    work.mkdir()
    expected = fit(folder, **{**SHORT, "max_iter": 26}, validation=0.1)

    def kill(progress):
        if progress.iteration == 23:
            import os

            import ray

            engine = progress.factors.left.engine
            os.kill(ray.get(engine._actors[1].process.remote()), 9)

    on_ray = {**SHORT, "max_iter": 26, "backend": "ray", "work_folder": work, "validation": 0.1}
    for workers, callbacks in ((2, [kill]), (3, [])):
        assert_same_draws(fit(folder, **on_ray, workers=workers, callbacks=callbacks), expected)


def test_the_sample_says_whether_to_sample(folder, tmp_path):
    model = fit(folder, **NAMES, backend="out-of-core", checkpoint=tmp_path / "c")
    kinds = {trial["candidate"] for trial in model.trials}
    assert {"NNFN", "sampler"} <= kinds
    assert model.method in ("nnfn", "bpmf")
    assert (model.posterior is not None) == (model.method == "bpmf")
    assert not list(tmp_path.glob("c*"))


def test_what_is_not_for_folders_is_refused(folder):
    with pytest.raises(InputError, match="'nuclear' runs on one machine only; folders take nnfn"):
        fit(folder, **NAMES, method="nuclear")
