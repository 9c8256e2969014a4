"""A fit that tunes itself, cut off anywhere, goes on from its checkpoint and ends as if it had not been."""

import numpy as np
import pytest

from lorank import InputError, MatrixCompletion
from lorank.datasets import synthetic
from lorank.observations import Lines, Observations
from lorank.solvers import Checkpoint, alternating
from lorank.tuning.trial_log import TrialLog

AUTO = {"method": "nnfn", "features": None, **dict.fromkeys(("lam", "rank", "theta", "biases"), "auto")}


@pytest.fixture(scope="module")
def train():
    return synthetic(m=100, rank=3, seed=1).train


@pytest.fixture(scope="module")
def whole(train):
    return MatrixCompletion(**AUTO, random_state=0).fit(train)


def counted_sweeps(monkeypatch):
    """Counts sweeps, and interrupts at the one that is asked for."""
    sweep = alternating.Alternating._sweep

    class Sweeps:
        done, last = 0, None

    def counted(*args, **kwargs):
        Sweeps.done += 1
        if Sweeps.done == Sweeps.last:
            raise KeyboardInterrupt
        return sweep(*args, **kwargs)

    monkeypatch.setattr(alternating.Alternating, "_sweep", counted)
    return Sweeps


@pytest.fixture
def sweeps(monkeypatch):
    return counted_sweeps(monkeypatch)


@pytest.fixture(scope="module")
def total(train):
    """Sweeps of the whole fit."""
    with pytest.MonkeyPatch.context() as patch:
        sweeps = counted_sweeps(patch)
        MatrixCompletion(**AUTO, random_state=0).fit(train)
        return sweeps.done


def same(model, whole):
    assert model.setting_ == whole.setting_
    assert [trial.error for trial in model.tuning_] == [trial.error for trial in whole.tuning_]
    np.testing.assert_array_equal(model.factors_[0], whole.factors_[0])
    np.testing.assert_array_equal(model.predict(0, [1, 2], interval=0.9), whole.predict(0, [1, 2], interval=0.9))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.4, 0.7, 1.0])
def test_cut_off_anywhere(train, whole, total, sweeps, tmp_path, share):
    path = tmp_path / "fit.npz"
    sweeps.last = max(1, int(share * (total - 1)))
    cut = MatrixCompletion(**AUTO, random_state=0).fit(train, checkpoint=path)
    assert np.isfinite(cut.complete()).all()
    assert path.exists()
    assert sweeps.done == sweeps.last
    model = MatrixCompletion(**AUTO, random_state=0).fit(train, checkpoint=path)
    same(model, whole)
    assert not path.exists()
    # What was done before the interrupt was not done again, but for the trial that it fell into.
    assert sweeps.done <= total + 4 * 41


def test_cut_off_between_trials_and_twice(train, whole, tmp_path):
    path = tmp_path / "fit.npz"
    for last in (4, 9):

        def interrupt(done, expected, last=last):
            assert expected >= done
            if done == last:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            MatrixCompletion(**AUTO, random_state=0).fit(train, checkpoint=path, on_trial=interrupt)
        assert path.exists()
    same(MatrixCompletion(**AUTO, random_state=0).fit(train, checkpoint=path), whole)


def test_cut_off_after_the_search(train, whole, tmp_path, monkeypatch):
    """Every trial is then answered from the checkpoint, those too whose factors are gone."""
    path = tmp_path / "fit.npz"

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(TrialLog, "finish", interrupt)
    with pytest.raises(KeyboardInterrupt):
        MatrixCompletion(**AUTO, random_state=0).fit(train, checkpoint=path)
    monkeypatch.undo()
    same(MatrixCompletion(**AUTO, random_state=0).fit(train, checkpoint=path), whole)


def test_killed_without_a_word(train, whole, tmp_path, monkeypatch):
    """What was saved from time to time is enough."""
    path = tmp_path / "fit.npz"
    monkeypatch.setattr(Checkpoint, "due", True)

    def die(done, expected):
        if done == 7:
            raise SystemExit

    with pytest.raises(SystemExit):
        MatrixCompletion(**AUTO, random_state=0).fit(train, checkpoint=path, on_trial=die)
    done = []
    model = MatrixCompletion(**AUTO, random_state=0)
    model.fit(train, checkpoint=path, on_trial=lambda *count: done.append(count))
    same(model, whole)
    assert [count for count, _ in done] == list(range(1, len(whole.tuning_) + 1))


def test_float32_and_a_search_cut_by_time(train, tmp_path):
    path = tmp_path / "fit.npz"
    params = {**AUTO, "random_state": 0, "dtype": "float32"}
    with pytest.warns(match="limit"):
        first = MatrixCompletion(**params, max_seconds=1e-6, tol=0).fit(train, checkpoint=path)
    # With more time the fit goes on; the search is over.
    second = MatrixCompletion(**params, tol=1e-3).fit(train, checkpoint=path)
    assert second.setting_ == first.setting_
    assert len(second.tuning_) == len(first.tuning_) == 1
    assert second.n_iter_ > first.n_iter_


def moved_down(observations, by):
    """The same columns and values in rows further down, of a matrix with a row more."""
    (m, n), lines = observations.shape, observations.by_row
    pointers = np.concatenate([np.zeros(by, np.int64), lines.pointers, np.full(1 - by, lines.pointers[-1])])
    return Observations((m + 1, n), Lines(pointers, lines.indices, lines.values))


def test_a_checkpoint_of_another_fit_is_refused_and_stays(train, sweeps, tmp_path):
    path, moved = tmp_path / "fit.npz", moved_down(train, 1)
    train = moved_down(train, 0)
    sweeps.last = 40
    # Row 1 begins to the right of where row 0 ends, so that its first entry may be the last of row 0.
    train = train.subset(~((train.rows == 0) & (train.cols >= 50)) & ~((train.rows == 1) & (train.cols < 50)))
    MatrixCompletion(**AUTO, random_state=0).fit(train, checkpoint=path)
    before = path.read_bytes()
    for params, data, words in (
        ({"rank": 4}, train, "with rank auto and not 4"),
        ({"random_state": 1}, train, "with random_state 0 and not 1"),
        ({}, train.with_values(train.values[::-1].copy()), "with other data"),
        ({}, moved, "with other data"),
    ):
        with pytest.raises(InputError, match=f"belongs to another fit, {words}; go on as you began, or remove it"):
            MatrixCompletion(**{**AUTO, "random_state": 0, **params}).fit(data, checkpoint=path)
        assert path.read_bytes() == before
    with pytest.raises(InputError, match="with another validation set"):
        MatrixCompletion(**AUTO, random_state=0).fit(train, validation=train, checkpoint=path)
