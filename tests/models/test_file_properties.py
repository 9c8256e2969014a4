"""Whatever a model is made of, it comes back from a file and from shards as it was written."""

import tempfile
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import lorank
from lorank import losses
from lorank.linalg import Factors
from lorank.models import Model, Setting
from lorank.models.intervals import Calibration
from lorank.observations import Observations
from lorank.observations.identifiers import Identifiers
from lorank.side_information import GraphLaplacian, KernelPrior
from lorank.solvers import History, Result, Status

FINITE = {"allow_nan": False, "allow_infinity": False}
NUMBER = st.floats(-1e6, 1e6, **FINITE)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
DATE = st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)).map(lambda moment: np.datetime64(moment, "us"))
ONE_TYPE = {
    "integers": (st.integers(-(2**62), 2**62), np.int64),
    "small": (st.integers(0, 255), np.uint8),
    "text": (TEXT, str),
    "dates": (DATE, "datetime64[us]"),
}
MIXED = st.one_of(st.integers(), TEXT, st.floats(**FINITE), st.dates(), st.datetimes())


def exactly(strategy, count):
    """So many distinct ones; 1 and 1.0 are the same id."""
    return st.lists(strategy, min_size=count, max_size=count, unique=True)


@st.composite
def ids(draw, count, kinds):
    kind = draw(st.sampled_from(kinds))
    if kind == "none":
        return None
    if kind == "mixed":
        values = np.empty(count, object)
        values[:] = draw(exactly(MIXED, count))
        return Identifiers(values)
    strategy, dtype = ONE_TYPE[kind]
    return Identifiers(np.array(draw(exactly(strategy, count)), dtype))


@st.composite
def observations(draw, m, n, dtype, row_ids, col_ids):
    seen = draw(hnp.arrays(bool, (m, n)))
    rows, cols = np.nonzero(seen)
    # Stars, which fit into two bytes, or any numbers of the precision.
    element = draw(st.sampled_from([st.sampled_from([0.0, 0.5, 5.0]), st.floats(-1e6, 1e6, width=32), NUMBER]))
    values = np.array([draw(element) for _ in rows], dtype)
    return Observations.from_coo(rows, cols, values, (m, n), row_ids, col_ids)


@st.composite
def models(draw, kinds=("none", *ONE_TYPE, "mixed")):
    m, n, k = draw(st.integers(2, 7)), draw(st.integers(2, 6)), draw(st.integers(1, 3))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    row_ids, col_ids = draw(ids(m, kinds)), draw(ids(n, kinds))

    def array(*shape):
        return draw(hnp.arrays(np.float64, shape, elements=st.floats(-1e3, 1e3))).astype(dtype)

    biased = draw(st.booleans())
    factors = Factors.of(array(m, k), array(n, k), *((array(m), array(n), draw(NUMBER)) if biased else ()))
    calibration = None
    if draw(st.booleans()):
        scale = st.floats(0.125, 8.0, width=32)
        parts = [draw(hnp.arrays(np.float32, size, elements=scale)) for size in (m + 1, n + 1, draw(st.integers(1, 9)))]
        calibration = Calibration(parts[0], parts[1], np.sort(parts[2]).astype(np.float64), draw(st.integers(9, 99)))
    graph = {
        "none": None,
        "graph": GraphLaplacian.from_adjacency(np.eye(m, k=1) + np.eye(m, k=-1), draw(st.floats(0, 9))),
        "kernel": KernelPrior(np.arange(float(m))[:, None], "matern52", draw(st.floats(0.1, 9))),
    }[draw(st.sampled_from(["none", "graph", "kernel"]))]
    loss = draw(st.sampled_from(["squared", "huber", losses.Huber(0.3), losses.Huber(2.5), losses.Logistic()]))
    history = History([1, 2], [0.1, 0.2], [3.0, 2.0], [k, k], [float("nan"), 0.5])
    lam = draw(st.floats(0, 100))
    return Model(
        result=Result(factors, draw(NUMBER), draw(st.sampled_from(list(Status))), draw(TEXT), 2, 0.2, history),
        setting=Setting(lam, k, draw(st.sampled_from([None, 0.5])), biased, ridges=(0.5, lam) if biased else None),
        params={"method": "nnfn", "lam": draw(st.sampled_from([lam, "auto"])), "loss": loss, "row_side": graph},
        row_ids=row_ids,
        col_ids=col_ids,
        observations=draw(st.none() | observations(m, n, dtype, row_ids, col_ids)),
        entries=draw(st.integers(0, 10**12)),
        mean=draw(NUMBER),
        range=draw(st.none() | st.tuples(NUMBER, NUMBER)),
        calibration=calibration,
        columns=draw(st.none() | st.tuples(TEXT, TEXT, TEXT)),
        trials=tuple({"lam": lam, "error": draw(NUMBER), "chosen": True} for _ in range(draw(st.integers(0, 2)))),
    )


def same_ids(one, other):
    if one is None:
        assert other is None
        return
    mine, theirs = one.values[:], other.values[:]
    assert mine.dtype.kind == theirs.dtype.kind
    assert list(map(type, mine.tolist())) == list(map(type, theirs.tolist()))
    assert mine.tolist() == theirs.tolist()
    np.testing.assert_array_equal(other.find(mine), np.arange(len(mine)))


def same_arrays(one, other):
    np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def same(one, other):
    """Field by field."""
    for part in ("W", "H", "row_bias", "col_bias"):
        same_arrays(getattr(one.factors, part), getattr(other.factors, part))
        assert getattr(one.factors, part).dtype == getattr(other.factors, part).dtype
    assert (one.factors.biased, one.factors.offset) == (other.factors.biased, other.factors.offset)
    for name in ("objective", "status", "message", "n_iter", "seconds"):
        assert getattr(one.result, name) == getattr(other.result, name)
    assert str(one.result.history) == str(other.result.history)
    for name in ("setting", "entries", "mean", "columns", "lost"):
        assert getattr(one, name) == getattr(other, name)
    assert [dict(trial) for trial in one.trials] == [dict(trial) for trial in other.trials]
    for axis in ("row_ids", "col_ids"):
        same_ids(getattr(one, axis), getattr(other, axis))
    assert (one.observations is None) == (other.observations is None)
    if one.observations is not None:
        for part in ("pointers", "indices", "values"):
            same_arrays(getattr(one.observations.by_row, part), getattr(other.observations.by_row, part))
    assert (one.calibration is None) == (other.calibration is None)
    if one.calibration is not None:
        for part in ("row_scale", "col_scale", "ratios", "count"):
            same_arrays(getattr(one.calibration, part), getattr(other.calibration, part))
    assert one.loss == other.loss
    before, after = (model.params.get("row_side") for model in (one, other))
    assert type(before) is type(after)
    if isinstance(before, GraphLaplacian):
        same_arrays(before.matrix, after.matrix)
        assert before.weight == after.weight
    elif before is not None:
        same_arrays(before.points, after.points)
        assert (before.kernel, before.length) == (after.kernel, after.length)
    assert one.params["lam"] == other.params["lam"]


@settings(max_examples=60, deadline=None)
@given(models(), st.booleans())
def test_a_file_gives_back_what_was_written(model, data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.lorank"
        model.save(path, data=data)
        loaded = lorank.load(path)
        same(model if data else replace(model, observations=None), loaded)
        assert loaded.range == model.range
        again = Path(folder) / "b.lorank"
        loaded.save(again)
        same(loaded, lorank.load(again))


@settings(max_examples=60, deadline=None)
@given(models(kinds=("none", *ONE_TYPE)), st.integers(1, 8))
def test_shards_give_back_what_was_written(model, shard):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        lorank.models.shards.write(model, path, shard=shard)
        loaded = lorank.load(path)
        same(model, loaded)
        same(model, loaded.loaded())
        m, n = model.shape
        rows, cols = (index.ravel() for index in np.indices((m, n)))
        same_arrays(loaded.factors.predict(rows, cols), model.factors.predict(rows, cols))


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 3), st.booleans(), st.sampled_from(["float32", "float64"]), st.integers(2, 30), st.booleans())
def test_posterior_draws_come_back(rank, biases, dtype, sweeps, data):
    X = np.random.default_rng(sweeps).standard_normal((6, 5))
    X[0, 1] = np.nan
    fitted = lorank.MatrixCompletion("bpmf", rank=rank, biases=biases, dtype=dtype, max_iter=sweeps, random_state=0)
    model = fitted.fit(X).model_
    rows, cols = (index.ravel() for index in np.indices((6, 5)))
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "a.lorank", data=data)
        loaded = lorank.load(Path(folder) / "a.lorank")
    same_arrays(loaded.predict(rows, cols), model.predict(rows, cols))
    same_arrays(loaded.result.summary.W, model.result.summary.W)
    np.testing.assert_allclose(loaded.predict_std(rows, cols), model.predict_std(rows, cols), rtol=1e-4, atol=1e-7)
    assert loaded.posterior.draws == model.posterior.draws
    same_arrays(loaded.posterior.noise.W, model.posterior.noise.W[:, : model.posterior.draws])


@cache
def small_file():
    model = lorank.MatrixCompletion(rank=1, lam=0.1, random_state=0).fit(np.array([[1.0, np.nan], [2.0, 3.0]])).model_
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "a.lorank")
        return model, (Path(folder) / "a.lorank").read_bytes()


@settings(max_examples=150, deadline=None)
@given(st.floats(0, 1, exclude_max=True), st.none() | st.integers(1, 255))
def test_any_damage_is_an_input_error(where, change):
    """One byte changed anywhere, or the end cut off: never another exception, never another model."""
    model, content = small_file()
    damaged = bytearray(content)
    position = int(where * len(damaged))
    if change is None:
        damaged = damaged[:position]
    else:
        damaged[position] ^= change
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.lorank"
        path.write_bytes(damaged)
        with suppress(lorank.InputError):  # white space in the header may change
            same(model, lorank.load(path))
