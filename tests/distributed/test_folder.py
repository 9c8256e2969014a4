"""Folders of Parquet files, out of core: what the passes make of them, and the fit beside one in memory."""

from pathlib import Path

import numpy as np
import pytest

import lorank
from lorank import Observations, registry
from lorank.datasets import synthetic
from lorank.distributed import fit, folder_backend, folder_steps, ids, numbering, parts, prepare
from lorank.distributed.engines import LocalEngine
from lorank.distributed.prepare import drawn
from lorank.distributed.row_sample import row_sample
from lorank.errors import InputError
from lorank.losses import SQUARED
from lorank.problems import Problem
from lorank.regularizers import FactoredNNFN
from lorank.solvers import Alternating, Stopping, solve
from lorank.tuning.setting import Setting, with_ridges
from lorank.tuning.trials import Trials

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet")

NAMES = {"row": "user", "col": "item", "value": "rating"}


def write(folder: Path, users, items, ratings, files: int = 3, more=None) -> Path:
    folder.mkdir(exist_ok=True)
    for number in range(files):
        part = slice(number, None, files)
        columns = {"user": users, "item": items, "rating": ratings, **(more or {})}
        table = pa.table({name: column[part] for name, column in columns.items()})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=300, write_page_checksum=True)
    return folder


@pytest.fixture(autouse=True)
def few_parts(monkeypatch):
    """As many as show that there are several; each costs as much as its entries would if they were thousands."""
    monkeypatch.setattr(parts, "PARTS", 5)


@pytest.fixture(scope="module")
def entries():
    data = synthetic(m=120, n=90, rank=2, seed=4).train
    users = 7 * data.rows.astype(np.int64) + 3
    items = np.array([f"é{j:x}" for j in range(90)])[data.cols]
    order = np.random.default_rng(0).permutation(users.size)
    return users[order], items[order], data.values[order]


@pytest.fixture
def folder(tmp_path, entries):
    return write(tmp_path / "data", *entries)


def local_fit(entries, *, biases, lam=1.0, validation=0.0, seed=0):
    observations = Observations.from_ids(*entries)
    held = drawn(observations.rows, observations.cols, validation, seed)
    train = observations.subset(~held)
    setting = with_ridges(
        Setting(lam, 2, None, biases), train, SQUARED, FactoredNNFN(lam=lam).spectral().threshold(1.0)
    )
    problem = Problem(train, FactoredNNFN(lam=lam), 2, setting.bias_ridges)
    held_out = observations.subset(held) if validation else None
    return observations, solve(Alternating(), problem, stopping=Stopping(1e-9, 60), validation=held_out, seed=seed)


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("validation", [0.0, 0.2])
def test_out_of_core_equals_in_memory(folder, entries, biases, validation, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    model = fit(
        folder, **NAMES, rank=2, lam=1.0, biases=biases, validation=validation, tol=1e-9, max_iter=60,
        backend="out-of-core", work_folder=work,
    )  # fmt: skip
    observations, local = local_fit(entries, biases=biases, validation=validation)
    assert model.row_ids.values.tolist() == observations.row_ids.values.tolist()
    assert model.col_ids.values.tolist() == observations.col_ids.values.tolist()
    assert model.result.n_iter == local.n_iter
    np.testing.assert_allclose(model.result.history.validation, local.history.validation, rtol=1e-10)
    np.testing.assert_allclose(model.result.factors.dense(), local.factors.dense(), atol=1e-10)
    assert list(work.iterdir()) == []


@pytest.mark.parametrize(
    ("method", "theta"),
    [("nnfn", None), ("nnfn", 0.3), ("factored-nuclear", None), ("mf", None), (FactoredNNFN(theta=0.3), None)],
    ids=str,
)
def test_every_method_that_can_equals_its_local_fit(folder, entries, method, theta):
    params = {"rank": 2, "lam": 1.5, "theta": theta, "tol": 1e-9, "max_iter": 40}
    far = fit(folder, **NAMES, method=method, **params, backend="out-of-core")
    regularizer = registry.find(method).build_regularizer(lam=1.5, theta=theta)
    problem = Problem(Observations.from_ids(*entries), regularizer, 2)
    local = solve(Alternating(), problem, stopping=Stopping(1e-9, 40), seed=0)
    np.testing.assert_allclose(far.result.factors.dense(), local.factors.dense(), atol=1e-10)


def test_every_other_method_says_that_it_needs_one_machine(folder):
    able = {"nnfn", "factored-nuclear", "mf", "bpmf"}
    for method in set(registry.CATALOGUE) - able:
        with pytest.raises(InputError, match=f"{method}.*one machine"):
            fit(folder, **NAMES, method=method, backend="out-of-core")


def test_early_stopping_keeps_the_best_sweep(folder, entries):
    model = fit(folder, **NAMES, rank=8, lam=0.01, validation=0.3, tol=0.0, backend="out-of-core")
    errors = model.result.history.validation
    assert model.result.n_iter == 5 + 1 + int(np.argmin(errors))
    observations = Observations.from_ids(*entries)
    held = drawn(observations.rows, observations.cols, 0.3, 0)
    rows, cols = model.row_ids.values[observations.rows[held]], model.col_ids.values[observations.cols[held]]
    residual = model.predict(rows, cols) - observations.values[held]
    assert np.sqrt(np.mean(residual**2)) == pytest.approx(min(errors), rel=1e-9)


def test_a_path_of_weights_keeps_the_best(folder):
    params = {**NAMES, "rank": 2, "validation": 0.2, "backend": "out-of-core"}
    model = fit(folder, **params, lam=[100.0, 0.5, 5.0])
    assert model.setting.lam in (0.5, 5.0)
    automatic = fit(folder, **params, lam="auto")
    assert min(automatic.result.history.validation) < 1.1 * min(model.result.history.validation)
    with pytest.raises(InputError, match="several lam"):
        fit(folder, **NAMES, lam=[1.0, 2.0], validation=0.0, backend="out-of-core")
    with pytest.raises(InputError, match="several, or 'auto'"):
        fit(folder, **NAMES, lam="best", backend="out-of-core")


def test_what_is_not_given_is_chosen_on_a_sample_and_then_on_all(folder, entries, monkeypatch, tmp_path):
    """Of 120 rows about a half is enough to tell that the rank is 2; all of them tell the weight."""
    monkeypatch.setattr(folder_steps, "SAMPLE", entries[0].size // 2)
    params = {**NAMES, "validation": 0.1, "backend": "out-of-core"}
    model = fit(folder, **params, method="nnfn")
    trials = Trials.from_rows(model.trials)
    assert model.setting.rank == 2
    assert trials.chosen.candidate == "NNFN, all rows"
    assert {trial.candidate for trial in trials} == {"NNFN", "NNFN, all rows"}
    sampled = [trial for trial in trials if trial.candidate == "NNFN"]
    assert any(trial.biases is False for trial in sampled)
    assert model.setting.theta in {trial.theta for trial in sampled}
    assert trials.chosen.error == min(model.result.history.validation)
    # As good as the best of a grid of weights at the rank that is true.
    by_hand = fit(folder, **params, rank=2, lam=[1.0, 0.3, 0.1, 0.03])
    assert trials.chosen.error < 1.02 * min(by_hand.result.history.validation)

    def interrupt(done, expected):
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(folder, **params, method="nnfn", checkpoint=tmp_path / "c", on_trial=interrupt)
    assert [path.name for path in tmp_path.glob("c*")] == ["c.sample"]
    again = fit(folder, **params, method="nnfn", workers=3, checkpoint=tmp_path / "c")
    assert not list(tmp_path.glob("c*"))
    np.testing.assert_array_equal(again.result.factors.left, model.result.factors.left)
    assert [trial.error for trial in Trials.from_rows(again.trials)] == [trial.error for trial in trials]


@pytest.mark.parametrize("biases", [False, True])
def test_what_was_held_out_to_choose_by_is_fitted_in_the_end(folder, entries, biases, tmp_path):
    """The last fit is the minimum on all entries, with the ridges of all of them; intervals come from before."""
    chosen = {"rank": 2, "theta": 0.5, "biases": biases, "tol": 1e-11}
    params = {**NAMES, **chosen, "lam": [20.0, 10.0], "backend": "out-of-core"}
    model = fit(folder, **params, output=tmp_path / "model")
    observations = Observations.from_ids(*entries)
    assert model.entries == observations.nnz
    assert len(model.trials) == 2
    setting = Setting(model.setting.lam, 2, 0.5, biases)
    regularizer = FactoredNNFN(lam=setting.lam, theta=0.5)
    setting = with_ridges(setting, observations, SQUARED, regularizer.spectral().threshold(1.0))
    problem = Problem(observations, regularizer, 2, setting.bias_ridges)
    local = solve(Alternating(), problem, stopping=Stopping(1e-11, 500), seed=0)
    np.testing.assert_allclose(model.loaded().factors.dense(), local.factors.dense(), atol=1e-4)
    # Those that were held out are fitted better than before, by about as much as the others.
    held = drawn(observations.rows, observations.cols, 0.1, 0)
    before = fit(folder, **params, validation=0.1, output=tmp_path / "before")
    at = (observations.row_ids.values[observations.rows[held]], observations.col_ids.values[observations.cols[held]])
    errors = [np.sqrt(np.mean((one.predict(*at) - observations.values[held]) ** 2)) for one in (model, before)]
    assert errors[0] < errors[1] == pytest.approx(before.held_out_error()[1], rel=1e-9)
    for name in ("row_scale", "col_scale", "ratios"):
        scales = [np.asarray(getattr(one.calibration, name)) for one in (model, before)]
        np.testing.assert_array_equal(*scales)


@pytest.mark.parametrize("method", ["nnfn", "bpmf"])
def test_a_column_of_weights_counts_as_in_memory(entries, tmp_path, method):
    users, items, _ = entries
    weights = np.random.default_rng(1).integers(0, 4, users.size) / 3
    write(tmp_path / "data", *entries, more={"weight": weights})
    params = {"method": method, "rank": 2, "lam": 1.0, "tol": 1e-9, "max_iter": 8, "backend": "out-of-core"}
    model = fit(tmp_path / "data", **NAMES, weight="weight", **params, output=tmp_path / "model")
    observations = Observations.from_ids(*entries, weights=weights)
    seen = lorank.load(tmp_path / "model").loaded().observations
    np.testing.assert_allclose(seen.by_row.weights, observations.by_row.weights, rtol=1e-7)
    if method == "nnfn":
        problem = Problem(observations, FactoredNNFN(lam=1.0), 2)
        local = solve(Alternating(), problem, stopping=Stopping(1e-9, 8), seed=0)
        np.testing.assert_allclose(model.loaded().result.factors.dense(), local.factors.dense(), atol=1e-10)
    plain = fit(tmp_path / "data", **NAMES, **params)
    assert abs(model.predict(users, items) - plain.predict(users, items)).max() > 1e-3
    write(tmp_path / "wrong", *entries, more={"weight": -weights})
    with pytest.raises(InputError, match="'weight' that is missing or negative"):
        fit(tmp_path / "wrong", **NAMES, weight="weight", **params)


def test_what_is_given_is_not_searched(folder):
    model = fit(folder, **NAMES, method="nnfn", rank=3, biases=False, theta=0.4, backend="out-of-core")
    assert {(t.rank, t.biases, t.theta) for t in Trials.from_rows(model.trials)} == {(3, False, 0.4)}
    model = fit(folder, **NAMES, lam=1.0, max_iter=3, backend="out-of-core")
    assert (model.setting.rank, model.setting.biases, model.setting.theta, model.trials) == (10, False, None, ())


def test_offsets_alone_where_there_is_nothing_else(tmp_path):
    rng = np.random.default_rng(0)
    cells = rng.choice(100 * 80, 2500, replace=False)
    rows, cols = np.divmod(cells, 80)
    values = rng.normal(size=100)[rows] + rng.normal(size=80)[cols] + rng.normal(size=2500)
    model = fit(write(tmp_path / "data", rows, cols, values), **NAMES, backend="out-of-core")
    assert model.setting.rank == 0
    assert not model.factors.W.any()
    assert model.factors.row_bias.any()


def test_the_sample_is_of_whole_lines_and_no_larger_than_asked(data, tmp_path):
    seen = data.train if data.train.shape[0] >= data.train.shape[1] else data.train.transposed()
    sides = {"rows": parts.parts_of(seen.by_row), "cols": parts.parts_of(seen.by_col)}
    for observed in (seen, seen.transposed()):
        named = sides if observed is seen else {"rows": sides["cols"], "cols": sides["rows"]}
        engine = LocalEngine(named, 1)
        found, rows, cols = row_sample(engine, observed.shape, observed.nnz, 900, 5)
        assert 500 < found.nnz <= 900
        whole, *_ = row_sample(engine, observed.shape, observed.nnz, observed.nnz, 5)
        np.testing.assert_array_equal(whole.values, observed.values)
        there = observed.to_sparse()[rows[found.rows], cols[found.cols]]
        np.testing.assert_array_equal(np.asarray(there).ravel(), found.values)
        # Every line is one of the data, with all of its entries.
        own = found if observed is seen else found.transposed()
        known = {tuple(line) for line in np.split(seen.values, seen.by_row.pointers[1:-1])}
        assert {tuple(line) for line in np.split(own.values, own.by_row.pointers[1:-1])} <= known


def test_killed_and_resumed_ends_the_same(folder, tmp_path):
    params = {**NAMES, "rank": 2, "lam": 1.0, "tol": 1e-9, "max_iter": 60, "backend": "out-of-core"}
    whole = fit(folder, **params)
    fit(folder, **params, checkpoint=tmp_path / "c", callbacks=[lambda progress: progress.iteration == 3])
    resumed = fit(folder, **params, checkpoint=tmp_path / "c")
    np.testing.assert_array_equal(resumed.result.factors.left, whole.result.factors.left)
    assert resumed.result.history.objective == whole.result.history.objective
    assert not list(tmp_path.glob("c*"))


@pytest.mark.parametrize(
    ("lam", "validation", "every"), [([8.0, 4.0, 2.0, 1.0], 0.2, 7), ([4.0, 1.0], None, 7), ("auto", None, 19)]
)
def test_a_path_that_is_cut_off_goes_on_where_it_was(folder, tmp_path, lam, validation, every):
    """Also in the last fit, of all entries, where a tenth was held out only to choose by."""
    params = {**NAMES, "rank": 3, "lam": lam, "biases": False, "theta": 1.0, "validation": validation, "tol": 1e-6}
    params["backend"] = "out-of-core"
    sweeps = []
    whole = fit(folder, **params, callbacks=[lambda progress: sweeps.append(progress.iteration)])
    seen = []

    def cut(progress):
        seen.append(progress.iteration)
        return len(seen) % every == 0  # in the middle of a fit, or at its end

    for _ in range(len(sweeps)):
        model = fit(folder, **params, checkpoint=tmp_path / "c", callbacks=[cut])
        if not list(tmp_path.glob("c*")):
            break
    assert len(seen) > 2 * every
    assert len(seen) <= len(sweeps) + len(sweeps) // every + 1
    assert model.setting.lam == whole.setting.lam
    np.testing.assert_array_equal(model.result.factors.left, whole.result.factors.left)


def test_missing_values_and_what_is_wrong(folder, entries, tmp_path):
    users, items, ratings = entries
    gaps = np.concatenate([ratings, [np.nan]])
    own = write(tmp_path / "gaps", np.append(users, 5000), np.append(items, "z"), gaps)
    model = fit(own, **NAMES, rank=2, lam=1.0, max_iter=60, backend="out-of-core")
    assert 5000 in model.row_ids.values
    assert "z" in model.col_ids.values
    twice = write(tmp_path / "twice", np.append(users, users[0]), np.append(items, items[0]), np.append(ratings, 1.0))
    with pytest.raises(InputError, match=rf"\({users[0]}, {items[0]}\) is given more than once"):
        fit(twice, **NAMES, backend="out-of-core")
    with pytest.raises(InputError, match="no column 'stars'"):
        fit(folder, row="user", col="item", value="stars", backend="out-of-core")
    with pytest.raises(InputError, match=r"nuclear.*one machine"):
        fit(folder, **NAMES, method="nuclear", backend="out-of-core")
    whole = (folder / "1.parquet").read_bytes()
    (folder / "1.parquet").write_bytes(whole[: len(whole) // 2] + bytes(200) + whole[len(whole) // 2 + 200 :])
    with pytest.raises(InputError, match=r"1\.parquet is damaged"):
        fit(folder, **NAMES, backend="out-of-core")
    (folder / "1.parquet").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"1\.parquet is damaged"):
        fit(folder, **NAMES, backend="out-of-core")
    with pytest.raises(InputError, match="no folder"):
        fit(tmp_path / "nowhere", **NAMES)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"memory_budget": -1.0}, "memory_budget is a number of bytes"),
        ({"memory_budget": 0}, "memory_budget is a number of bytes"),
        ({"memory_budget": np.nan}, "memory_budget is a number of bytes"),
        ({"memory_budget": "1 GB"}, "memory_budget is a number of bytes"),
        ({"workers": "2"}, "workers and threads are whole numbers"),
        ({"threads": 1.5}, "workers and threads are whole numbers"),
        ({"workers": 0}, "At least one worker"),
        ({"seed": -1}, "seed is a whole number of at least 0"),
        ({"seed": 0.5}, "seed is a whole number of at least 0"),
        ({"work_folder": "/proc"}, "No folder can be made in /proc"),
        ({"checkpoint": "/proc/fit"}, "The checkpoint /proc/fit cannot be written"),
    ],
)
def test_numbers_and_places_that_cannot_be_are_one_sentence(folder, wrong, expected):
    if any("/proc" in str(value) for value in wrong.values()) and not Path("/proc").is_dir():
        pytest.skip("there is no /proc, where nobody may write")
    with pytest.raises(InputError, match=expected):
        fit(folder, **NAMES, rank=2, lam=1.0, max_iter=2, backend="out-of-core", **wrong)


def test_a_damaged_block_is_named(tmp_path):
    lines = synthetic(m=40, rank=1, seed=0).train.by_row
    file = parts.PartFile.write(tmp_path / "rows-0.part", lines)
    for given, expected in zip(vars(file.read()).values(), vars(lines).values()):
        np.testing.assert_array_equal(given, expected)
    content = (tmp_path / "rows-0.part").read_bytes()
    damages = [content[:-1] + bytes([content[-1] ^ 1]), content[:-8], content + b"x", content[8:] + content[:8]]
    for at in range(0, len(content), 101):
        damages.append(content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :])
    for damage in damages:
        (tmp_path / "rows-0.part").write_bytes(damage)
        with pytest.raises(InputError, match=r"rows-0\.part is damaged"):
            file.read()


@pytest.mark.parametrize("when", [1, 4])
@pytest.mark.parametrize("side", ["rows", "cols", "held-out"])
def test_a_block_that_is_damaged_in_any_sweep_is_rebuilt(folder, tmp_path, when, side):
    work = tmp_path / "work"
    work.mkdir()
    same = {**NAMES, "backend": "out-of-core", "work_folder": work, "rank": 2, "lam": 10.0, "tol": 0, "max_iter": 6}
    whole, damaged = fit(folder, **same, validation=0.2), []

    def damage(progress):
        if progress.iteration == when:
            (block,) = work.glob(f"lorank-blocks-*/{side}-0.part")
            damaged.append(block)
            with open(block, "rb+") as file:  # in place: the inode that is mapped
                file.write(bytes(8))
                file.write(b"damage")

    model = fit(folder, **same, validation=0.2, callbacks=[damage])
    assert damaged
    np.testing.assert_array_equal(model.factors.left, whole.factors.left)
    assert model.result.history.objective == whole.result.history.objective


@pytest.mark.parametrize("changed", [True, False])
def test_damage_is_named_where_the_source_is_not_what_it_was(folder, tmp_path, changed):
    work = tmp_path / "work"
    work.mkdir()

    def damage(progress):
        if progress.iteration == 2:
            (block,) = work.glob("lorank-blocks-*/cols-0.part")
            content = bytearray(block.read_bytes())
            content[-2] ^= 64
            with open(block, "rb+") as file:  # in place: the inode that is mapped
                file.write(content)
            source = folder / "1.parquet"
            if changed:
                pq.write_table(pq.read_table(source).slice(0, 1), source)
            else:
                source.unlink()

    expected = r"cols-0\.part is damaged, and its Parquet files have changed" if changed else r"1\.parquet is gone"
    with pytest.raises(InputError, match=expected):
        fit(folder, **NAMES, backend="out-of-core", work_folder=work, rank=2, tol=0, callbacks=[damage])


@pytest.mark.parametrize("damage", ["cut", "position", "gone"])
def test_a_damaged_batch_is_named(folder, damage, monkeypatch):
    real = folder_backend._in_turn

    def damaging(function, jobs):
        if function.__name__ == "assemble":
            path = Path(prepare._spilled(jobs[0][2], "rows", jobs[0][3])[0])
            content = path.read_bytes() if path.exists() else b""
            if damage == "gone":
                path.unlink(missing_ok=True)
            elif damage == "cut":
                path.write_bytes(content[:-20])
            elif content:
                path.write_bytes(content[:-12] + b"\xff" * 4 + content[-8:])
        return real(function, jobs)

    monkeypatch.setattr(folder_backend, "_in_turn", damaging)
    with pytest.raises(InputError, match=r"spilled batch .* is (damaged|gone)"):
        fit(folder, **NAMES, backend="out-of-core", rank=2)


def test_ids_are_counted_and_looked_up(tmp_path):
    """Dense integers in arrays, scattered ones and text by hash tables, in any order of batches."""
    rng = np.random.default_rng(0)
    largest, smallest = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    batches = {
        "dense": [rng.integers(-9, 9, 60), rng.integers(1000, 1020, 50), rng.integers(-500, 30, 70)],
        "first": [np.arange(smallest, smallest + 40), np.arange(smallest, smallest + 60)],
        "scattered": [rng.integers(0, 9, 60), rng.integers(smallest, largest, 50), np.arange(9), np.array([largest])],
        "text": [np.array(["b", "a", "b"]), np.array(["c"])],
    }
    for kind, found in batches.items():
        tally, counts = ids.Tally(), {}
        for batch in found:
            values = np.where(rng.random(batch.size) < 0.3, np.nan, 1.0)
            tally.add(pa.array(batch), values)
            for one, value in zip(batch.tolist(), values):
                counts[one] = counts.get(one, 0) + int(value == value)
        table = tally.table()
        assert dict(zip(table["id"].to_pylist(), table["count"].to_pylist())) == counts, kind
        ids.write_table(table, ids.id_file(tmp_path, "rows", 0))
        made = numbering.number_ids(tmp_path, "rows", [ids.id_file(tmp_path, "rows", 0)], folder_backend._in_turn)
        assert [made.id_of(number) for number in range(made.lines)] == sorted(counts)
        cuts = np.array([0, 3, len(counts)])
        where = ids.Positions(ids.id_file(tmp_path, "rows", 0), cuts)
        positions, part = where.of(pa.array(found[-1]), "a file")
        assert [sorted(counts)[at] for at in positions] == found[-1].tolist()
        np.testing.assert_array_equal(part, positions >= 3)
        for other in (["z"],) if kind == "text" else ([9999999], [smallest], [500]):
            if other[0] not in counts:
                with pytest.raises(InputError, match="a file was changed while it was read"):
                    where.of(pa.array(other), "a file")


def test_a_file_that_changes_between_the_passes_is_named(folder, entries, monkeypatch):
    real = folder_backend._in_turn

    def changing(function, jobs):
        if function.__name__ == "spill":
            write(folder, entries[0] + 1, *entries[1:])
        return real(function, jobs)

    monkeypatch.setattr(folder_backend, "_in_turn", changing)
    with pytest.raises(InputError, match=r"0\.parquet was changed while it was read"):
        fit(folder, **NAMES, backend="out-of-core", rank=2)


@pytest.mark.parametrize(("value", "dtype"), [(1e160, "float64"), (1e39, "float32"), (1e-160, "float64")])
def test_values_that_cannot_be_computed_with_are_refused(tmp_path, value, dtype):
    import pyarrow as pa
    import pyarrow.parquet as pq

    values = np.append(np.zeros(5), value)
    pq.write_table(pa.table({"u": [0, 0, 1, 1, 2, 2], "i": [0, 1, 0, 1, 0, 1], "v": values}), tmp_path / "0.parquet")
    with pytest.raises(InputError, match=r"^The largest value of the folder.* is too (large|small): squares and their"):
        fit(tmp_path, row="u", col="i", value="v", rank=1, lam=1.0, dtype=dtype, backend="out-of-core")
