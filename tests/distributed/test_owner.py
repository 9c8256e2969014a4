"""Parts and the shards of factors that belong to them: the same numbers and bits as in memory, and nothing is lost."""

import gc
import subprocess
import sys
import weakref
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from lorank import Observations, kernels, registry
from lorank.distributed import parts
from lorank.distributed.cluster import KEPT, PAIRS
from lorank.distributed.drag import Drag
from lorank.distributed.engines import Engine, LocalEngine, check_values, largest_value
from lorank.distributed.factor_shards import FactorShards, gather, read_shard, shard_file
from lorank.distributed.owner import Owner, joined, total
from lorank.distributed.path import ABOVE
from lorank.distributed.problem import COLS, ROWS, Elsewhere, FolderProblem
from lorank.distributed.travel import Peers, Travel
from lorank.errors import InputError
from lorank.files import writing
from lorank.linalg import Factors, padded_width
from lorank.problems import Problem
from lorank.problems.factored import LARGE_RANK
from lorank.problems.offsets import empirical_bayes_offsets
from lorank.regularizers import FactoredNNFN
from lorank.solvers import Alternating, History, Result, Status, Stopping, solve
from lorank.tuning.path import WarmPath
from lorank.tuning.search import Judgement, Search
from lorank.tuning.setting import AUTO, Space
from lorank.tuning.trial_log import Fitted
from lorank.tuning.trials import Trial


def blocks(seed=0, groups=6, size=30):
    """Groups of rows that each know mostly columns of their own: parts mention less than half of the other side."""
    rng = np.random.default_rng(seed)
    count = groups * size
    group = rng.integers(groups, size=12 * count)
    rows, cols = (group * size + rng.integers(size, size=group.size) for _ in range(2))
    cells = np.unique(rows * count + cols)
    rows, cols = np.divmod(cells, count)
    return Observations.from_coo(
        rows.astype(np.int32), cols.astype(np.int32), rng.normal(2, 1, cells.size), (count,) * 2
    )


@pytest.fixture
def data(monkeypatch):
    monkeypatch.setattr(parts, "PARTS", 11)
    return blocks()


def in_files(data, folder):
    """The parts of both sides as files, as the preparation of a folder writes them."""
    sides = {}
    for side, lines, width in ((ROWS, data.by_row, data.shape[1]), (COLS, data.by_col, data.shape[0])):
        sides[side] = [
            replace(part, source=parts.PartFile.write(folder / f"{side}-{part.number}.part", part.source, width))
            for part in parts.parts_of(lines)
        ]
    return sides


def problem_of(data, sides, ridges=None, **engine):
    shape = Elsewhere(data.shape, data.dtype)
    return FolderProblem(shape, FactoredNNFN(lam=2.0), 3, ridges, engine=LocalEngine(sides, 1, **engine))


def test_parts_list_what_they_mention(data, tmp_path):
    sides = in_files(data, tmp_path)
    listed = 0
    for side, lines in ((ROWS, data.by_row), (COLS, data.by_col)):
        for part, whole in zip(sides[side], parts.parts_of(lines)):
            local, needed = part.lines_and_needed()
            found, expected = part.complete_lines(), whole.source
            for name in ("pointers", "indices", "values"):
                np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
            if needed is not None:
                listed += 1
                np.testing.assert_array_equal(needed, np.unique(expected.indices))
                assert local.indices.max() < needed.size <= data.shape[0] / 2
    assert listed > 4


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 21])
def test_sums_do_not_depend_on_who_owns_what(count):
    rng = np.random.default_rng(count)
    numbers = rng.normal(size=(count, 3)) * 10.0 ** rng.integers(-8, 8, (count, 1))
    alone = total({(0, at): numbers[at] for at in range(count)})
    np.testing.assert_allclose(alone, numbers.sum(axis=0), rtol=1e-12, atol=1e-7)
    for _ in range(20):
        ends = np.unique(np.concatenate([[0, count], rng.integers(0, count + 1, 3)]))
        nodes = {}
        for lo, hi in pairwise(ends):
            nodes |= joined({(0, at): numbers[at] for at in range(lo, hi)})
        np.testing.assert_array_equal(total(nodes), alone)


@pytest.mark.parametrize("biases", [False, True])
def test_a_fit_on_shards_is_the_fit_in_memory(data, tmp_path, biases):
    ridges = empirical_bayes_offsets(data).ridges if biases else None
    far = problem_of(data, in_files(data, tmp_path), ridges)
    near = Problem(data, FactoredNNFN(lam=2.0), 3, ridges)
    if biases:
        np.testing.assert_allclose(far.offsets().ridges, ridges, rtol=1e-9)
    start, expected = far.random_start(3), near.random_start(3)
    for side, other in ((start.left, expected.left), (start.right, expected.right)):
        np.testing.assert_array_equal(whole(far, side), other)
        np.testing.assert_allclose(far.gram(side, 3), near.gram(other, 3), rtol=1e-12)
    assert far.objective(start) == pytest.approx(near.objective(expected), rel=1e-12)
    stopping = Stopping(tol=1e-9, max_iter=12)
    with pytest.warns(match="limit of 12"):
        results = [solve(Alternating(), problem, stopping=stopping, seed=3) for problem in (far, near)]
    np.testing.assert_allclose(results[0].history.objective, results[1].history.objective, rtol=1e-10)
    np.testing.assert_allclose(whole(far, results[0].factors.left), results[1].factors.left, atol=1e-8)
    # What nobody refers to is let go of: the start, and the two factors of the result.
    far.engine.owner.forget(far.engine._take_forgotten())
    assert {name for name, _ in far.engine.owner._shards} == {
        factor.name for factor in (start.left, start.right, results[0].factors.left, results[0].factors.right)
    }


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_large_ranks_take_the_steps_of_memory(data, tmp_path, dtype):
    """From rank 32 on, conjugate gradients from the line as it is; a pull comes with a cautious step."""
    data = data.astype(dtype)
    nothing = Elsewhere(data.shape, data.dtype)
    engine = LocalEngine(in_files(data, tmp_path), 1)
    far = FolderProblem(nothing, FactoredNNFN(lam=2.0), 33, None, engine=engine)
    near = Problem(data, FactoredNNFN(lam=2.0), 33)
    assert far.improves(33)
    assert not far.improves(31)
    start, expected = far.random_start(3), near.random_start(3)
    root = np.random.default_rng(0).normal(size=(33, 33))
    ridge, pull = np.eye(33) + 0.1 * root @ root.T, 0.5 * np.eye(33)
    for own_pull in (None, pull):
        left, loss = far.improved_regressions(start, ridge, own_pull)
        there, loss_there = near.improved_regressions(expected, ridge, own_pull)
        np.testing.assert_allclose(whole(far, left), there, atol=1e-12 if dtype == np.float64 else 1e-5)
        assert loss == pytest.approx(loss_there, rel=1e-6)


def test_offsets_alone_are_those_in_memory(data, tmp_path):
    far, near = problem_of(data, in_files(data, tmp_path), (1.0, 1.0)), Problem(data, None, 3, (1.0, 1.0))
    found, expected = far.offsets_alone(), near.offsets_alone()
    assert found.offset == pytest.approx(expected.offset, rel=1e-9)
    for side, other, lines in ((found.left, expected.left, data.by_row), (found.right, expected.right, data.by_col)):
        seen = lines.totals() > 0
        np.testing.assert_allclose(whole(far, side)[seen], other[seen], atol=1e-9)


def whole(problem, factor):
    owner = problem.engine.owner
    return np.concatenate([owner.shard(factor, number) for number in sorted(owner.sides[factor.side])])


def test_the_budget_changes_no_bit(data, tmp_path):
    sides = in_files(data, tmp_path)
    line = padded_width(3) * 8
    fits = []
    for budget in (np.inf, 150 * line, 1):
        problem = problem_of(data, sides, budget=budget)
        with pytest.warns(match="limit of 4"):
            result = solve(Alternating(), problem, stopping=Stopping(0.0, 4), seed=0)
        fits.append((whole(problem, result.factors.left), result.history.objective))
        groups = problem.engine.owner.groups(ROWS, data.shape[1], line)
        assert [part.number for group in groups for part in group.parts] == list(range(len(sides[ROWS])))
        counts = [len(group.parts) for group in groups]
        assert {np.inf: max(counts) == len(sides[ROWS]), 1: max(counts) == 1}.get(budget, len(counts) > 1)
    for left, objective in fits[1:]:
        np.testing.assert_array_equal(left, fits[0][0])
        assert objective == fits[0][1]


class AsOnRay(LocalEngine):
    """Shards are made when they are asked for, and not at once."""

    new = Engine.new


@pytest.mark.parametrize(("rank", "most"), [(6, PAIRS[False]), (LARGE_RANK, PAIRS[True])])
def test_the_memory_estimate_counts_the_pairs_of_factors_that_are_held(data, monkeypatch, rank, most):
    engine = AsOnRay({ROWS: parts.parts_of(data.by_row), COLS: parts.parts_of(data.by_col)}, 1)
    held = []

    def counted(method, owner, *args):
        answer = method(owner, *args)
        held.append(sum(shard.nbytes for shard in owner._shards.values()))
        return answer

    for name in ("keep", "shard"):
        monkeypatch.setattr(engine.owner, name, partial(counted, getattr(Owner, name), engine.owner))
    problem = FolderProblem(Elsewhere(data.shape, data.dtype), FactoredNNFN(lam=2.0), rank, engine=engine)
    with pytest.warns(ConvergenceWarning):
        solve(Alternating(), problem, stopping=Stopping(tol=0, max_iter=12), seed=0)
    pair = sum(data.shape) * padded_width(rank) * data.dtype.itemsize
    assert most - 2.5 < max(held) / pair <= most


def test_the_memory_estimate_counts_the_factors_that_a_search_on_all_entries_keeps(data):
    fits, kept = [], []

    def judge(candidate):
        kept.append(sum(fit() is not None for fit in fits))
        rank, lam = candidate.parameters["rank"], candidate.parameters["lam"]
        factors = Factors.of(np.zeros((3, rank)), np.zeros((2, rank)))
        fits.append(weakref.ref(factors))
        error = 1 + 0.1 * np.log(lam / np.sqrt(rank) / 30) ** 2 - 0.0003 * np.log2(rank)
        return Judgement(error, Result(factors, 0.0, Status.CONVERGED, "", 1, 0.0, History()))

    begin = Fitted(Trial({"rank": 1, "lam": 1.0, "theta": 1.0, "biases": True}, 1.0))
    space = Space.of(registry.find("nnfn"), AUTO, AUTO, AUTO, AUTO)
    search = Search(judge)
    search.run(lambda: WarmPath(space, data, search).run_on_more(begin, 1.0, None, ABOVE))
    assert len(kept) > 8
    assert max(kept) == KEPT


def test_an_owner_that_takes_the_place_of_another_has_its_shards(data, tmp_path):
    """From the files of the last half-step, and from recipes for all that was made of them."""
    sides, folder = in_files(data, tmp_path), tmp_path / "factors"
    folder.mkdir()

    def owner():
        return Owner(sides, kernels.Workers(1), folder=str(folder))

    first = owner()
    new = {
        (side, name): FactorShards(name + side, side, data.shape[0], 3, padded_width(3), "<f8")
        for side in (ROWS, COLS)
        for name in ("start", "solved")
    }
    states = [np.random.PCG64(number).state for number in range(20)]
    for side in (ROWS, COLS):
        first.sums(side, "start", new[side, "start"], states, 1.0)
    solved, other = new[ROWS, "solved"], new[COLS, "start"]
    first.sums(ROWS, "solve", solved, other, True, 0.5, np.eye(4), Drag())
    centred = replace(solved, name="centred", recipe=("shifted", solved, 0.25))
    moved = replace(solved, name="moved", recipe=("moved", centred, new[ROWS, "start"], 0.5))
    turned = replace(solved, name="turned", recipe=("turned", moved, np.diag([1.0, 2.0, 3.0])))
    second = owner()
    for factor in (turned, moved, centred, solved):
        for number in first.sides[ROWS]:
            np.testing.assert_array_equal(second.shard(factor, number), first.shard(factor, number))
    start, end = first.shard(new[ROWS, "start"], 0), first.shard(solved, 0).copy()
    end[:, 3] -= 0.25
    np.testing.assert_allclose(first.shard(turned, 0)[:, :3], ((1.5 * end - 0.5 * start)[:, :3]) * [1, 2, 3])
    path = shard_file(folder, solved.name, 1)
    content = bytearray(path.read_bytes())
    content[5] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"{path.name} of the factors is damaged"):
        owner().shard(solved, 1)
    first.forget([(solved.name, ROWS)])
    assert not list(folder.glob("solved*"))
    with pytest.raises(InputError, match="is gone"):
        owner().shard(moved, 0)


def test_the_file_of_a_shard_that_is_needed_no_more_is_written_over(data, tmp_path):
    """Of the last one of a part: the disk keeps no others. A wider one leaves nothing behind a narrower one."""
    sides = in_files(data, tmp_path)
    owner, part = Owner(sides, kernels.Workers(1), folder=str(tmp_path)), sides[ROWS][0]
    factors = [FactorShards(name, ROWS, data.shape[0], k, k, "<f8") for name, k in (("a", 5), ("b", 4), ("c", 3))]
    shards = [np.random.default_rng(0).normal(size=(part.hi - part.lo, factor.k)) for factor in factors]
    for factor, shard in zip(factors[:2], shards):
        owner.keep(factor, part.number, shard)
    number = shard_file(tmp_path, "b", part.number).stat().st_ino
    owner.forget([("a", ROWS), ("b", ROWS), ("never made", ROWS)])
    assert [path.stat().st_ino for path in tmp_path.glob("*.shard")] == [number]
    owner.keep(factors[2], part.number, shards[2])
    (path,) = tmp_path.glob("*.shard")
    assert path.stat().st_ino == number
    np.testing.assert_array_equal(read_shard(path, len(shards[2]), 3, "<f8"), shards[2])


@pytest.mark.parametrize("budget", [np.inf, 1])
def test_lines_of_a_worker_on_the_same_node_are_read_from_its_files(data, tmp_path, budget):
    """All of them, and those that a part needs; nobody is asked but for what takes arithmetic on whole lines."""
    sides, folder = in_files(data, tmp_path), tmp_path / "factors"
    folder.mkdir()
    own = [{ROWS: sides[ROWS][at], COLS: sides[COLS][at]} for at in (slice(4), slice(4, None))]
    owners = [Owner(each, kernels.Workers(1), folder=str(folder), budget=budget) for each in own]
    solved, old = (FactorShards(name, COLS, data.shape[1], 3, padded_width(3), "<f8") for name in ("solved", "old"))
    rng = np.random.default_rng(0)
    for factor in (solved, old):
        for owner in owners:
            for number, part in owner.sides[COLS].items():
                owner.keep(factor, number, rng.normal(size=(part.hi - part.lo, factor.width)))
    centred = replace(solved, name="centred", recipe=("shifted", solved, 0.25))
    moved = replace(solved, name="moved", recipe=("moved", centred, old, 0.5))
    turned = replace(solved, name="turned", recipe=("turned", moved, np.eye(3)))
    parts_of = {COLS: [(of[COLS][0].number, [of[COLS][0].lo, *(part.hi for part in of[COLS])]) for of in own]}
    together, apart, unknown = (Peers([None] * 2, nodes, parts_of) for nodes in (["a", "a"], ["a", "b"], [None] * 2))
    line = moved.width * moved.dtype.itemsize
    for number, owner in enumerate(owners):
        travel = Travel(owner, number)
        for factor in (solved, moved):
            travel.follow(together, [None, None])
            assert together.all_read(factor, number)
            expected = np.concatenate([each.shard(factor, at) for each in owners for at in each.sides[COLS]])
            for group in owner.groups(ROWS, data.shape[1], line):
                positions = np.arange(data.shape[1]) if group.positions is None else group.positions
                out = np.zeros((positions.size, factor.width))
                travel.fetch(factor, group.positions, out)
                np.testing.assert_array_equal(out, expected[positions])
                assert budget > 1 or group.positions is not None
        for factor, peers in ((turned, together), (solved, apart), (solved, unknown)):
            assert not peers.all_read(factor, number)
            travel.follow(peers, [None, None])
            with pytest.raises(AttributeError, match="lines_of"):  # the peer that would be asked is None here
                travel.fetch(factor, None, np.zeros((data.shape[1], factor.width)))
    travel.follow(together, [None, None])
    shard_file(folder, "solved", 0).write_bytes(b"half")
    with pytest.raises(InputError, match=r"solved-0\.shard of the factors is damaged; fit again"):
        travel.fetch(solved, None, np.zeros((data.shape[1], solved.width)))
    with pytest.raises(InputError, match=r"solved-0\.shard of the factors is damaged; fit again"):
        travel.fetch(solved, np.arange(1), np.zeros((1, solved.width)))
    shard_file(folder, "solved", 0).unlink()
    for positions in (None, np.arange(3)):
        with pytest.raises(InputError, match=r"solved-0\.shard of the factors is gone; fit again"):
            travel.fetch(moved, positions, np.zeros((data.shape[1] if positions is None else 3, solved.width)))


def test_files_are_looked_for_only_where_a_factor_can_have_some(data, tmp_path, monkeypatch):
    """On shared storage each look takes a message there and back."""
    sides = in_files(data, tmp_path)
    owner = Owner(sides, kernels.Workers(1), folder=str(tmp_path))
    engine = LocalEngine(sides)
    made = engine.factor(COLS, data.shape[1], 3, float)
    moved = Engine.new(engine, made, ("moved", made, made, 0.5))
    assert engine._take_forgotten() == []
    looked, names = [], [made.name, moved.name]
    del made, moved
    gc.collect()
    monkeypatch.setattr(Path, "replace", lambda path, target: looked.append(path.name))
    owner.forget(engine._take_forgotten())
    assert sorted(looked) == sorted(f"{names[0]}-{part.number}.shard" for part in sides[COLS])


@pytest.mark.parametrize("positions", [None, [], [3], [4, 6], [3, 5, 6, 7, 8, 11, 12], [11, 12]])
def test_lines_are_gathered_from_shards_and_no_shard_is_made_for_nothing(positions):
    ends, whole, asked = [3, 5, 8, 8, 13], np.arange(26.0).reshape(13, 2), []

    def shard(place):
        asked.append(place)
        return whole[ends[place] : ends[place + 1]]

    wanted = np.arange(3, 13) if positions is None else np.array(positions, np.int32)
    out = np.zeros((wanted.size, 2))
    gather(ends, shard, None if positions is None else wanted, out)
    np.testing.assert_array_equal(out, whole[wanted])
    assert asked == [place for place, (lo, hi) in enumerate(pairwise(ends)) if ((wanted >= lo) & (wanted < hi)).any()]


def test_shards_of_a_checkpoint_are_forced_to_the_disk(tmp_path, monkeypatch):
    data, forced = Observations.from_dense(np.arange(12.0).reshape(4, 3)), []
    engine = LocalEngine({ROWS: parts.parts_of(data.by_row), COLS: parts.parts_of(data.by_col)})
    problem = FolderProblem(Elsewhere(data.shape, data.dtype), FactoredNNFN(lam=1.0), 2, engine=engine)
    monkeypatch.setattr(writing, "_force_to_disk", forced.append)
    problem.random_start(0).left.save_shards(tmp_path)
    assert len(forced) == len(list(tmp_path.glob("*.shard"))) > 0


def test_modules_that_workers_load_do_without_scikit_learn():
    """It brings pandas and scipy.stats along: 60 MB and seconds for every worker."""
    names = [
        "actors",
        "calibrating",
        "directions",
        "engines",
        "exporting",
        "kept_draws",
        "prepare",
        "problem",
        "row_sample",
        "sampling",
    ]
    code = f"import sys; from lorank.distributed import {', '.join(names)}; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "False\n"
    assert {largest_value.__module__, check_values.__module__} == {"lorank.distributed.engines"}
