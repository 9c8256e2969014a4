"""A model in a folder of shards: the arrays that are read piece by piece, what is refused, and folders of format 1."""

import json
from pathlib import Path

import numpy as np
import pytest

import lorank
from lorank import InputError, MatrixCompletion, Observations
from lorank.models import shard_files, shards
from lorank.models.sharded import ShardedArray

# Written by lorank 0.1.0 in format 1.
FOLDER = Path(__file__).parent / "files" / "format1-shards"


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setitem(shards.write.__kwdefaults__, "shard", 7)


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 20))
    rows, cols = np.nonzero(rng.random(X.shape) < 0.6)
    names = np.array([f"r{i}" for i in rng.permutation(30)])  # which do not ascend
    observations = Observations.from_coo(rows, cols, np.round(X[rows, cols], 1), X.shape, names, None)
    return MatrixCompletion(rank=2, lam=0.1, biases=True, random_state=0).fit(observations, validation=0.2)


@pytest.mark.parametrize("ends", [[0, 10], [0, 3, 3, 8, 10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]])
def test_an_index_reads_what_numpy_would(ends):
    whole = np.random.default_rng(0).standard_normal((10, 3))
    array = ShardedArray(np.array(ends), lambda number: whole[ends[number] : ends[number + 1]])
    assert (array.shape, len(array), array.size, array.dtype) == ((10, 3), 10, 30, whole.dtype)
    for key in (
        slice(None),
        slice(2, 9),
        slice(3, 3),
        slice(10, 20),
        slice(-4, None),
        np.array([9, 0, 0, 3]),
        np.empty(0, np.int64),
        5,
        (slice(1, 8), slice(None, 2)),
        (slice(None), 1),
    ):
        np.testing.assert_array_equal(array[key], whole[key])
    np.testing.assert_array_equal(np.asarray(array), whole)


def test_a_model_in_memory_goes_into_shards_and_back(fitted, tmp_path, small):
    """Ids that do not ascend, positions, intervals, and shards of shards."""
    fitted.save(tmp_path / "model", shards=True)
    model = lorank.load(tmp_path / "model")
    rows, cols = (index.ravel() for index in np.indices((30, 20)))
    names = fitted.observations_.row_ids.values[rows]
    np.testing.assert_array_equal(model.predict(names, cols), fitted.predict(names, cols))
    for mine, theirs in zip(model.predict(names, cols, interval=0.9), fitted.predict(names, cols, interval=0.9)):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-7)
    unseen = {"interval": 0.8, "clip": True, "unseen": "bias"}
    for mine, theirs in zip(model.predict("new", [3, 99], **unseen), fitted.predict("new", [3, 99], **unseen)):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-7)
    assert model.recommend(n=3).rows.tolist() == fitted.recommend(n=3).rows.tolist()
    assert (model.columns, model.setting, model.mean) == (None, fitted.setting_, fitted.mean_)
    assert "fitted rank 2" in repr(model)
    model.save(tmp_path / "copy", shards=True)
    for file in (tmp_path / "model").iterdir():
        assert (tmp_path / "copy" / file.name).read_bytes() == file.read_bytes()
    again = MatrixCompletion.from_model(lorank.load(tmp_path / "copy"))
    np.testing.assert_array_equal(again.factors_[0], fitted.factors_[0])
    np.testing.assert_array_equal(again.observations_.values, fitted.observations_.values)
    chosen = {"method": "nnfn", "loss": "squared", "features": None}
    assert again.get_params() == {**fitted.get_params(), **chosen}
    # Values are exact in the type that they are kept in.
    assert np.load(tmp_path / "model" / "seen-values-0.npy").dtype == np.float64
    assert json.loads((tmp_path / "model" / "manifest.json").read_text())["format"] == "lorank shards 3"


def test_what_shards_cannot_hold(tmp_path):
    X = np.random.default_rng(0).standard_normal((12, 10))
    sampled = MatrixCompletion("bpmf", rank=2, max_iter=10, loss="ordinal", random_state=0).fit(np.round(X))
    with pytest.raises(InputError, match="sampled with levels is saved as one file"):
        sampled.save(tmp_path / "model", shards=True)
    mixed = Observations.from_dense(X, row_ids=[*range(11), "x"])
    with pytest.raises(InputError, match="Ids of type object cannot be kept in shards"):
        MatrixCompletion(rank=2, lam=0.1).fit(mixed).save(tmp_path / "model", shards=True)
    assert not list(tmp_path.iterdir())


def questions(folder, fitted):
    """Whatever reads a model: every file of the folder is among what they read."""
    model = lorank.load(folder)
    names = fitted.observations_.row_ids.values
    model.predict(np.repeat(names, 20), np.tile(np.arange(20), 30), interval=0.9)
    model.recommend(n=3)
    model.similar(row=names[0])
    model.complete()
    return model


def rewritten(folder, **changes):
    """The manifest with changes, as if it had been written so."""
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").unlink()
    shard_files.write_manifest(folder, {name: manifest[name] for name in manifest if name != "checksum"} | changes)


def of_format_2(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["files"], manifest["checksum"]
    (folder / "manifest.json").write_text(json.dumps({**manifest, "format": "lorank shards 2"}))


@pytest.mark.parametrize("older", [False, True])
def test_every_file_that_is_cut_changed_or_gone_is_named(fitted, tmp_path, small, older):
    folder = tmp_path / "model"
    fitted.save(folder, shards=True)
    if older:
        of_format_2(folder)
    questions(folder, fitted)
    for path in sorted(folder.glob("*.npy")):
        content = path.read_bytes()
        damages = [content[: len(content) // 2], content[:-3], b"", None]
        # Without checksums one bit may make another good number of a number.
        damages += [] if older else [content[:-1] + bytes([content[-1] ^ 1]), content + b"x"]
        for damage in damages:
            path.unlink()
            if damage is not None:
                path.write_bytes(damage)
            with pytest.raises(InputError, match=rf"{path.name} is {'gone' if damage is None else 'damaged'}"):
                questions(folder, fitted)
            path.write_bytes(content)
    questions(folder, fitted)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("row-0", lambda array: np.full_like(array, np.nan)),
        ("col-0", lambda array: array.astype(np.float32)),
        ("col-0", lambda array: array.astype(array.dtype.newbyteorder())),
        ("row-1", lambda array: array[:, :-1]),
        ("row-places-0", lambda array: array + 1000),
        ("row-sorted-0", lambda array: array[:-1]),
        ("seen-0", lambda array: array + 20),
        ("seen-0", lambda array: array - 1),
        ("seen-0", lambda array: array.astype(float)),
        ("seen-ends-0", lambda array: array[::-1].copy()),
        ("seen-ends-0", lambda array: array * 2),
        ("seen-values-1", lambda array: np.where(array == array[0], np.inf, array)),
    ],
)
def test_arrays_that_would_lead_astray_are_refused(fitted, tmp_path, small, name, change):
    """Whoever makes such a folder can make its checksums too."""
    folder = tmp_path / "model"
    fitted.save(folder, shards=True)
    np.save(folder / f"{name}.npy", change(np.load(folder / f"{name}.npy")))
    rewritten(folder)
    with pytest.raises(InputError, match=rf"{name.rsplit('-', 1)[0]}-\d+\.npy is damaged"):
        questions(folder, fitted)


def test_a_damaged_manifest(fitted, tmp_path, small):
    folder = tmp_path / "model"
    fitted.save(folder, shards=True)
    whole = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(whole.replace('"entries": ', '"entries": 1'))
    with pytest.raises(InputError, match="checksum is wrong"):
        lorank.load(folder)
    (folder / "manifest.json").write_text(whole)
    for damage in (
        {"setting": {}},
        {"row": 3},
        {"row": {"lines": 30, "shard": 0, "ids": True}},
        {"row": {"lines": 2**53, "shard": 1, "ids": True}},
        {"calibration": 3, "arrays": []},
        {"objects": {"loss": {"name": "x"}}},
        {"seen": [1]},
        {"sigma": 1.5},
    ):
        (folder / "manifest.json").write_text(whole)
        rewritten(folder, **damage)
        with pytest.raises(InputError, match="is not a model that can be used"):
            lorank.load(folder)
    for text, said in (('{"format": "lorank shards 9"}', "shards 9"), ("{", "damaged"), ("[]", "damaged")):
        (folder / "manifest.json").write_text(text)
        with pytest.raises(InputError, match=said):
            lorank.load(folder)


def test_a_file_that_changes_later_is_noticed(fitted, tmp_path, small):
    folder = tmp_path / "model"
    fitted.save(folder, shards=True)
    model = questions(folder, fitted)
    np.save(folder / "row-1.npy", np.load(folder / "row-1.npy") + 1)
    with pytest.raises(InputError, match=r"row-1\.npy is damaged"):
        model.predict(fitted.observations_.row_ids.values, np.zeros(30, int))


@pytest.mark.parametrize("older", [False, True])
def test_only_a_folder_of_ours_is_replaced(fitted, tmp_path, small, older):
    folder = tmp_path / "model"
    fitted.save(folder, shards=True)
    if older:
        of_format_2(folder)
    fitted.save(folder, shards=True)
    if older:
        of_format_2(folder)
    questions(folder, fitted)
    for name in ("notes.txt", "sub", "link.npy"):
        path = folder / name
        if name == "sub":
            path.mkdir()
        elif name == "link.npy":
            path.symlink_to(tmp_path)
        else:
            path.write_text("mine")
        with pytest.raises(InputError, match=f"also {name}"):
            fitted.save(folder, shards=True)
        path.rmdir() if name == "sub" else path.unlink()
    (tmp_path / "elsewhere").mkdir()
    fitted.save(tmp_path / "elsewhere", shards=True)  # an empty folder may be


@pytest.mark.parametrize(
    "text", ['{"name": "a web app", "icons": []}', "not json", '{"format": "lorank shards 2"}', "[]"]
)
def test_a_foreign_folder_with_a_manifest_stays(fitted, tmp_path, text):
    folder = tmp_path / "webapp"
    folder.mkdir()
    (folder / "manifest.json").write_text(text)
    (folder / "index.html").write_text("years of work")
    with pytest.raises(InputError, match="not a lorank model"):
        fitted.save(folder, shards=True)
    assert sorted(path.name for path in folder.iterdir()) == ["index.html", "manifest.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["webapp"]


def test_folders_of_format_1_are_read(tmp_path):
    model = lorank.load(FOLDER)
    names = np.array([f"Ä{i:02}" for i in range(12)])
    predicted = model.predict(np.repeat(names, 9), np.tile(np.arange(9) * 10, 12))
    np.testing.assert_array_equal(predicted, np.load(FOLDER.parent / "format1-shards-predictions.npz")["predicted"])
    assert model.columns == ("user", "item", "rating")
    assert model.describe()["entries"] == model.observations.nnz
    known = lorank.load(FOLDER.parent / "format1-auto.lorank")  # of the same table, less a held-out tenth
    assert known.observations.nnz <= model.observations.nnz
    assert model.recommend("Ä01", n=9).cols.size == 9 - np.diff(model.observations.by_row.pointers[:])[1]
    assert model.similar(row="Ä01", n=2)[0].size == 2
    assert model.fold_in((["new"], [0], [1.0])).shape == (1, 9)
    with pytest.raises(InputError, match="range of the data is not known"):
        model.predict("Ä01", 0, clip=True)
    with pytest.raises(InputError, match="save it with data=False"):
        model.save(tmp_path / "a.lorank")
    model.save(tmp_path / "a.lorank", data=False)
    np.testing.assert_array_equal(lorank.load(tmp_path / "a.lorank").factors.W, model.factors.W)
    with pytest.raises(InputError, match="saved without its data"):
        MatrixCompletion.from_model(model).partial_fit(np.ones((12, 9)))
