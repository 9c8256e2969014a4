"""Model files come back as they were, and a bad one is refused in a sentence."""

import errno
import json
import os
import pickle
from dataclasses import FrozenInstanceError, dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import safetensors.numpy
import scipy.sparse as sp

import lorank
from lorank import InputError
from lorank.files import sha256_of_arrays
from lorank.losses import Huber
from lorank.models import model_file as models
from lorank.registry import CATALOGUE, find
from lorank.regularizers import SchattenP
from lorank.side_information import GraphLaplacian, KernelPrior

# Models that were written by lorank 0.1.0 in format 1.
FILES = Path(__file__).parent / "files"


@pytest.fixture(scope="module")
def fitted():
    """A model with text and integer ids, biases, and a search behind it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 40)) + rng.standard_normal(40)
    rows, cols = np.nonzero(rng.random(X.shape) < 0.5)
    names = np.array([f"Ä{i:03}" for i in range(60)])
    observations = lorank.Observations.from_ids(names[rows], cols * 10, np.round(X[rows, cols], 3))
    model = lorank.MatrixCompletion("nnfn", biases=True, random_state=0).fit(observations)
    return model._keep(replace(model.model_, columns=("user", "item", "rating")))


def test_everything_comes_back(fitted, tmp_path):
    lorank.save(fitted, tmp_path / "a.lorank")
    loaded = lorank.load(tmp_path / "a.lorank")
    rows, cols = np.array(["Ä001", "Ä059"]), np.array([0, 390])
    np.testing.assert_array_equal(loaded.predict(rows, cols), fitted.predict(rows, cols))
    for mine, theirs in zip(loaded.predict(rows, cols, interval=0.9), fitted.predict(rows, cols, interval=0.9)):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)
    assert loaded.setting == fitted.setting_
    assert loaded.columns == ("user", "item", "rating")
    assert (loaded.mean, loaded.range, loaded.entries) == (fitted.mean_, fitted.range_, fitted.observations_.nnz)
    assert (loaded.result.status, loaded.result.message) == (fitted.result_.status, fitted.result_.message)
    np.testing.assert_array_equal(loaded.complete(), fitted.complete())
    np.testing.assert_array_equal(loaded.observations.by_row.pointers, fitted.observations_.by_row.pointers)
    again = lorank.MatrixCompletion.from_model(loaded)
    chosen = {"method": "nnfn", "loss": "squared", "features": None}
    assert again.get_params() == {**fitted.get_params(), **chosen}
    assert list(again.tuning_) == list(fitted.tuning_)
    for name, column in fitted.history_.items():
        np.testing.assert_array_equal(again.history_[name], column)
    new = loaded.fold_in((np.array(["new", "new"]), np.array([0, 10]), np.array([1.0, 2.0])))
    assert new.predict("new", 20).shape == (1,)


@pytest.mark.parametrize(
    "ids",
    [
        np.array([7, -(2**40)]),
        np.array([1, 2], np.int32),
        np.array(["007", "7"]),
        np.array(["", "ünïcode\n"]),
        np.array(["2020-01-01", "1960-05-31T12:00"], "datetime64[us]"),
        np.array([datetime(2020, 1, 1, 12), datetime(1990, 1, 1)], object),
        np.array([date(2020, 1, 1), "x"], object),
        np.array([1, "1"], object),
        np.array([0.1, 2], object),
    ],
)
def test_ids_come_back_as_they_were(ids, tmp_path):
    X = lorank.Observations.from_coo([0, 1, 1], [0, 0, 1], [1.0, 2.0, 3.0], row_ids=ids)
    model = lorank.MatrixCompletion(rank=1, lam=0.1, random_state=0).fit(X)
    lorank.save(model, tmp_path / "a.lorank")
    loaded = lorank.load(tmp_path / "a.lorank")
    assert loaded.row_ids.values.dtype == ids.dtype
    assert loaded.row_ids.values.tolist() == ids.tolist()
    assert list(map(type, loaded.row_ids.values.tolist())) == list(map(type, ids.tolist()))
    assert loaded.col_ids is None


def test_ids_that_cannot_be_saved(tmp_path):
    ids = np.empty(2, object)
    ids[:] = [(1, 2), (3, 4)]
    X = lorank.Observations.from_coo([0, 1, 1], [0, 0, 1], [1.0, 2.0, 3.0], row_ids=ids)
    with pytest.raises(InputError, match="Ids of type tuple cannot be saved"):
        lorank.save(lorank.MatrixCompletion(rank=1, lam=0.1).fit(X), tmp_path / "a.lorank")


def test_objects_among_the_parameters(tmp_path):
    """A loss comes back with its parameters; a solver and a random generator belong to the fit, not to the model."""
    X = np.random.default_rng(0).standard_normal((12, 10))
    params = {"solver": lorank.solvers.Alternating(), "loss": Huber(delta=0.3), "rank": np.int64(2)}
    model = lorank.MatrixCompletion(**params, lam=0.1, random_state=np.random.RandomState(0)).fit(X, validation=0.2)
    lorank.save(model, tmp_path / "a.lorank")
    loaded = lorank.load(tmp_path / "a.lorank")
    assert loaded.loss == Huber(delta=0.3)
    assert loaded.predict(0, [1, 2], interval=0.5)[0].shape == (2,)
    again = lorank.MatrixCompletion.from_model(loaded)
    assert (again.solver, again.loss, again.rank, again.random_state) == ("auto", Huber(delta=0.3), 2, None)
    np.testing.assert_array_equal(again.partial_fit(X).factors_[0], model.partial_fit(X).factors_[0])


@pytest.mark.parametrize("kind", ["dense", "sparse", "kernel"])
def test_what_is_known_of_rows_comes_back(tmp_path, kind):
    chain = np.eye(12, k=1) + np.eye(12, k=-1)
    side = {
        "dense": lambda: GraphLaplacian.from_adjacency(chain, 3.0),
        "sparse": lambda: GraphLaplacian.from_adjacency(sp.csr_array(chain), 3.0),
        "kernel": lambda: KernelPrior(np.arange(12.0)[:, None], "matern32", 2.0, 0.1, 1.5),
    }[kind]()
    X = np.random.default_rng(0).standard_normal((12, 10))
    X[::3, ::2] = np.nan
    model = lorank.MatrixCompletion(rank=2, lam=0.1, row_side=side, graph_weight=2.0, random_state=0).fit(X)
    lorank.save(model, tmp_path / "a.lorank")
    again = lorank.MatrixCompletion.from_model(lorank.load(tmp_path / "a.lorank"))
    X[0, 0] = 5.0
    np.testing.assert_array_equal(again.partial_fit(X).factors_[0], model.partial_fit(X).factors_[0])
    new = model.fold_in(X[:3])  # the graph is not that of new rows
    lorank.save(new, tmp_path / "b.lorank")
    np.testing.assert_array_equal(lorank.load(tmp_path / "b.lorank").complete(), new.complete())


class Absolute(Huber):
    """A loss that no file knows."""


def test_what_a_file_cannot_hold_must_be_given_again(tmp_path):
    X = np.random.default_rng(0).standard_normal((12, 10))
    model = lorank.MatrixCompletion(rank=2, lam=0.1, loss=Absolute(0.5), random_state=0).fit(X)
    lorank.save(model, tmp_path / "a.lorank")
    loaded = lorank.load(tmp_path / "a.lorank")
    np.testing.assert_array_equal(loaded.complete(), model.complete())
    for ask in (
        lambda: loaded.fold_in(X[:2]),
        lambda: loaded.score(X),
        lambda: lorank.MatrixCompletion.from_model(loaded).partial_fit(X),
    ):
        with pytest.raises(InputError, match=r"loss .* Absolute\(delta=0.5\), is not in its file; give it"):
            ask()
    again = lorank.MatrixCompletion.from_model(loaded, loss=Absolute(0.5))
    np.testing.assert_array_equal(again.partial_fit(X).factors_[0], model.partial_fit(X).factors_[0])
    again.save(tmp_path / "b.lorank")
    with pytest.raises(InputError, match="is not in its file"):
        lorank.load(tmp_path / "b.lorank").score(X)


def test_a_model_says_what_an_estimator_would_do(fitted, tmp_path):
    model = fitted.model_
    for name in ("partial_fit", "rank_", "set_params"):
        with pytest.raises(AttributeError, match=rf"MatrixCompletion\.from_model\(model\)\.{name}"):
            getattr(model, name)
    with pytest.raises(AttributeError, match="no attribute 'recomend'"):
        model.recomend()
    with pytest.raises(FrozenInstanceError):
        model.mean = 0.0
    assert pickle.loads(pickle.dumps(model)).predict("Ä001", 0) == model.predict("Ä001", 0)
    assert "held-out error" in repr(model)
    lorank.save(fitted, tmp_path / "a.lorank", data=False)
    with pytest.raises(InputError, match="saved without its data, so that more cannot be added"):
        lorank.MatrixCompletion.from_model(lorank.load(tmp_path / "a.lorank")).partial_fit(fitted.observations_)


def test_size_without_data_is_that_of_the_factors(tmp_path):
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((3000, 900)) < 0.02)
    X = lorank.Observations.from_ids(rows * 3, cols + 1, rng.integers(1, 6, rows.size).astype(float))
    model = lorank.MatrixCompletion(rank=10, lam=1.0, biases=True, max_iter=3, tol=1.0, random_state=0)
    model.fit(X, validation=0.1)
    lorank.save(model, tmp_path / "a.lorank", data=False)
    factors = sum(factor.nbytes for factor in (*model.factors_, model.row_bias_, model.col_bias_))
    assert (tmp_path / "a.lorank").stat().st_size < 1.2 * factors
    loaded = lorank.load(tmp_path / "a.lorank")
    np.testing.assert_array_equal(loaded.predict(3, [1, 2]), model.predict(3, [1, 2]))
    assert loaded.mean == model.mean_
    with pytest.raises(InputError, match="saved without its data"):
        lorank.recommend(loaded, [3])
    lorank.save(model, tmp_path / "b.lorank")
    data = (tmp_path / "b.lorank").stat().st_size - (tmp_path / "a.lorank").stat().st_size
    assert data < 4.2 * model.observations_.nnz + 4096 + 3000  # two bytes for the column, two for the value


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_posterior_keeps_its_error_bars(biases, dtype, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 30)) + 1
    X[rng.random(X.shape) < 0.5] = np.nan
    model = lorank.MatrixCompletion("bpmf", rank=2, biases=biases, max_iter=60, dtype=dtype, random_state=0).fit(X)
    lorank.save(model, tmp_path / "a.lorank")
    loaded = lorank.load(tmp_path / "a.lorank")
    rows, cols = np.nonzero(np.isnan(X))
    np.testing.assert_array_equal(loaded.predict(rows, cols), model.predict(rows, cols))
    for noise in (False, True):
        expected = model.predict_std(rows, cols, noise=noise)
        np.testing.assert_allclose(loaded.predict_std(rows, cols, noise=noise), expected, rtol=1e-5)
    for mine, theirs in zip(loaded.predict(rows, cols, interval=0.9), model.predict(rows, cols, interval=0.9)):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)
    np.testing.assert_array_equal(loaded.result.summary.W, model.factors_[0])
    np.testing.assert_array_equal(loaded.singular_values, model.singular_values_)
    assert loaded.describe()["rank_found"] == model.rank_
    # Forty draws after the burn-in: nothing is kept of the room for more.
    draws = 40 * (2 + 2 * biases)
    kept = 4 * ((2 * 40 + 30) * draws + (40 + 30) * 40)
    assert (tmp_path / "a.lorank").stat().st_size < kept + 20_000
    np.testing.assert_array_equal(loaded.observations.values, model.observations_.values)


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays, about: about["posterior"].update(width=100),
        lambda arrays, about: about["posterior"].update(draws=0),
        lambda arrays, about: arrays.update({"noise.W": -arrays["noise.W"]}),
        lambda arrays, about: arrays.update({"noise.H": arrays["noise.H"][:, :-1].copy()}),
        lambda arrays, about: arrays.update({"levels": np.arange(3.0)}),
        lambda arrays, about: arrays.update({"levels": np.arange(3.0), "cuts": np.zeros((1, 3))}),
        lambda arrays, about: arrays.update({"deviations": arrays["deviations"][:, :-1].copy()}),
        lambda arrays, about: arrays.update({"summary.W": arrays["summary.W"][:-1].copy()}),
        lambda arrays, about: arrays.update({"summary.H": arrays["summary.H"] * np.nan}),
        lambda arrays, about: arrays.pop("deviations"),
        lambda arrays, about: arrays.update(
            {
                "levels": np.arange(2.0),
                "cuts": np.zeros((about["posterior"]["draws"], 1)),
                "noise.W": 0 * arrays["noise.W"],
            }
        ),
    ],
)
def test_a_hostile_posterior_is_refused(change, tmp_path):
    X = np.random.default_rng(0).standard_normal((12, 10))
    path = tmp_path / "a.lorank"
    lorank.save(lorank.MatrixCompletion("bpmf", rank=2, max_iter=10, random_state=0).fit(X), path)
    rewritten(path, change)
    with pytest.raises(InputError, match="not a model that can be used"):
        lorank.load(path)


def test_a_cut_or_changed_file_is_refused(fitted, tmp_path):
    path = tmp_path / "a.lorank"
    lorank.save(fitted, path)
    whole = path.read_bytes()
    for length in (0, 5, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match="damaged or cut off"):
            lorank.load(path)
    rng = np.random.default_rng(0)
    for position in rng.integers(8, len(whole), 60).tolist():
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x55]) + whole[position + 1 :])
        with pytest.raises(InputError):
            lorank.load(path)


def rewritten(path, change):
    """The same file with other arrays or another description, and a checksum that is right: a hostile one."""
    arrays, about = models._read(path)
    change(arrays, about)
    text = json.dumps(about)
    header = {"format": "lorank 2", "checksum": sha256_of_arrays(arrays, text), "model": text}
    path.write_bytes(safetensors.numpy.save(arrays, metadata=header))


def _set(where, name, value):
    def change(arrays, about):
        target = arrays if where == "arrays" else about
        target[name] = value(target[name]) if callable(value) else value

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("arrays", "seen.cols", lambda cols: cols + np.uint8(200)),
        _set("arrays", "seen.cols", lambda cols: cols[::-1].copy()),
        _set("arrays", "seen.counts", lambda counts: counts + np.uint8(1)),
        _set("arrays", "seen.values", lambda values: values * np.nan),
        _set("arrays", "H", lambda H: H[:, :-1].copy()),
        _set("arrays", "W", lambda W: W * np.inf),
        _set("arrays", "row_bias", lambda bias: bias[:-1].copy()),
        _set("arrays", "row_ids.ends", lambda ends: ends[::-1].copy()),
        _set("arrays", "calibration.row_scale", lambda scale: scale[:-1].copy()),
        _set("about", "ids", {"row": "O", "col": "<i8"}),
        _set("about", "params", {"__class__": "os.system"}),
        _set("about", "params", [1]),
        _set("about", "params", lambda params: {**params, "loss": {}}),
        _set("about", "params", lambda params: {**params, "loss": "none"}),
        _set("about", "params", lambda params: {**params, "n_jobs": "all"}),
        _set("about", "setting", {"lam": 1}),
        _set("about", "result", {}),
        _set("about", "history", {"evil": []}),
        _set("about", "objects", {"loss": {"name": "huber", "delta": -1.0}}),
        _set("about", "objects", {"loss": {"name": "huber", "evil": 1.0}}),
        _set("about", "objects", {"row_side": {"kind": "graph", "weight": 1.0}}),
        _set("about", "objects", {"evil": {"kind": "graph", "weight": 1.0}}),
        _set("about", "trials", [1]),
        _set("about", "range", [1.0]),
        _set("about", "setting", lambda setting: {**setting, "grades": [1.0]}),
        _set("about", "setting", lambda setting: {**setting, "ridges": []}),
    ],
)
def test_a_hostile_file_is_refused(fitted, tmp_path, change):
    path = tmp_path / "a.lorank"
    lorank.save(fitted, path)
    rewritten(path, change)
    with np.errstate(invalid="ignore"), pytest.raises(InputError, match="not a model that can be used"):
        lorank.load(path)


def test_other_files_are_refused(fitted, tmp_path):
    path = tmp_path / "a.lorank"
    with pytest.raises(InputError, match="There is no file"):
        lorank.load(path)
    path.write_bytes(pickle.dumps({"os": "system"}))
    with pytest.raises(InputError, match="not a lorank model"):
        lorank.load(path)
    path.write_bytes(safetensors.numpy.save({"W": np.ones(3)}))
    with pytest.raises(InputError, match="safetensors file, but not a lorank model"):
        lorank.load(path)
    path.write_bytes(safetensors.numpy.save({"W": np.ones(3)}, metadata={"format": "lorank 3"}))
    with pytest.raises(InputError, match="'3' and this lorank reads up to 2: upgrade"):
        lorank.load(path)
    deep = {"format": "lorank 1", "model": "[" * 100_000, "checksum": sha256_of_arrays({}, "[" * 100_000)}
    path.write_bytes(safetensors.numpy.save({}, metadata=deep))
    with pytest.raises(InputError, match="its description cannot be read"):
        lorank.load(path)


@pytest.mark.parametrize("place", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_model(fitted, tmp_path, monkeypatch, place):
    path = tmp_path / "a.lorank"
    lorank.save(fitted, path)
    before = path.read_bytes()

    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, place, full)
    with pytest.raises(InputError, match=r"No space left on device.*as it was"):
        lorank.save(fitted, path, data=False)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.lorank"]


def test_files_of_format_1_are_read():
    expected = np.load(FILES / "format1-predictions.npz")
    auto = lorank.load(FILES / "format1-auto.lorank")
    names = np.array([f"Ä{i:02}" for i in range(12)])
    rows, cols = np.repeat(names, 9), np.tile(np.arange(9) * 10, 12)
    np.testing.assert_array_equal(auto.predict(rows, cols), expected["auto"])
    assert (auto.columns, auto.setting.rank) == (("user", "item", "rating"), 2)
    assert auto.predict("nobody", 0, unseen="bias").shape == auto.predict("Ä01", 0, interval=0.5)[1].shape == (1,)
    again = lorank.MatrixCompletion.from_model(auto)
    assert again.get_params()["lam"] == "auto"
    assert again.tuning_.chosen.rank == 2
    assert again.partial_fit(auto.observations).n_iter_ > 0
    sampled = lorank.load(FILES / "format1-bpmf.lorank")
    assert sampled.observations is None
    np.testing.assert_array_equal(sampled.complete()[0, 0], sampled.predict(0, 0)[0])
    assert np.isfinite(sampled.predict_std(0, [0, 1])).all()
    schatten = lorank.load(FILES / "format1-schatten.lorank")
    np.testing.assert_array_equal(schatten.factors.dense(), expected["schatten"])
    assert schatten.regularizer().p == 2 / 3


@dataclass(frozen=True, kw_only=True)
class Own(SchattenP):
    weights: tuple[float, ...] = ()
    name: ClassVar[str] = "own"


def test_methods_come_back_with_their_parameters(table, tmp_path):
    path = tmp_path / "a.lorank"

    def back(method, **params):
        lorank.save(
            lorank.MatrixCompletion(method, rank=2, random_state=0, **{"lam": 1.0, **params}).fit(table[0]), path
        )
        return lorank.load(path)

    assert back("schatten-p").params["method"] == "schatten-p"
    assert back(SchattenP(p=0.7), lam=2.0).regularizer() == SchattenP(lam=2.0, p=0.7)
    searched = back(find("schatten-p").having(p="auto"), lam="auto")
    assert dict(searched.setting.parameters)["p"] in (1 / 2, 2 / 3)
    assert {trial["p"] for trial in searched.trials} == {1 / 2, 2 / 3}
    assert searched.fold_in(table[0][:3]).factors.shape == (3, searched.shape[1])


def test_a_regularizer_of_ones_own_must_be_registered_to_fit_on(table, tmp_path, monkeypatch):
    model = lorank.MatrixCompletion(Own(p=0.7, weights=(1.0, 2.0)), rank=2, lam=1.0, random_state=0).fit(table[0])
    lorank.save(model, tmp_path / "a.lorank")
    loaded = lorank.load(tmp_path / "a.lorank")
    np.testing.assert_array_equal(loaded.predict([0, 1], [2, 3]), model.predict([0, 1], [2, 3]))
    assert loaded.complete().shape == table[0].shape
    for extend in (lorank.MatrixCompletion.from_model(loaded).partial_fit, loaded.fold_in):
        with pytest.raises(InputError, match=r"Method 'own' is not registered.*call lorank.register"):
            extend(table[0])
    lorank.save(loaded, tmp_path / "b.lorank")
    monkeypatch.setitem(CATALOGUE, "own", None)
    lorank.register(Own)
    again = lorank.load(tmp_path / "b.lorank")
    for late in (loaded, again):
        np.testing.assert_array_equal(late.fold_in(table[0]).factors.W, model.fold_in(table[0]).factors_[0])


def test_a_parameter_that_a_file_cannot_hold_is_asked_for(table, tmp_path, monkeypatch):
    monkeypatch.setitem(CATALOGUE, "own", None)
    lorank.register(Own)
    method = Own(p=0.7, weights=np.ones(3))
    lorank.save(lorank.MatrixCompletion(method, rank=2, lam=1.0, random_state=0).fit(table[0]), tmp_path / "a.lorank")
    loaded = lorank.load(tmp_path / "a.lorank")
    with pytest.raises(InputError, match="Method 'own' needs a value of weights"):
        loaded.fold_in(table[0])
    again = lorank.MatrixCompletion.from_model(loaded).set_params(method=method)
    assert again.partial_fit(table[0]).setting_ == loaded.setting
