"""While a command runs: Ctrl-C and how to go on, and bars with the time left."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lorank
from lorank.estimators.progress import FitProgress
from lorank.progress import ProgressBar

EXPLICIT = ["--rank", "2", "--lam", "0.5", "--theta", "1", "--biases", "yes"]
INTERRUPTED = """
import os, signal
from lorank.cli import main
from lorank.{module} import {name} as owner
original, calls = owner.{method}, []
def interrupt(*args, **kwargs):
    calls.append(1)
    if len(calls) == {count}: os.kill(os.getpid(), signal.SIGINT)
    return original(*args, **kwargs)
owner.{method} = interrupt
main()
"""
FIT = ["--rank", "8", "--lam", "0.01", "--theta", "1", "--biases", "no", "--tol", "1e-7"]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ({"module": "solvers.loop", "name": "History", "method": "append", "count": 3}, FIT),
        ({"module": "solvers.loop", "name": "History", "method": "append", "count": 30}, []),  # within a trial
        ({"module": "tuning.trial_log", "name": "TrialLog", "method": "finish", "count": 1}, []),  # after the last
    ],
    ids=["fit", "trial", "settled"],
)
def test_ctrl_c_saves_a_checkpoint_and_the_same_command_goes_on(run, place, words):
    run("sample", "ratings.csv", "--users", 150, "--films", 100, "--ratings", 4_000)
    words = ["fit", "ratings.csv", *words]
    assert run(*words, "-o", "whole.lorank")[0] == 0
    code = INTERRUPTED.format(**place)
    cut = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=120)
    assert cut.returncode == 1, cut.stderr
    assert cut.stdout == ""
    assert "Interrupted; the state is in model.lorank.checkpoint. Give the same command again to go on" in cut.stderr
    assert "Traceback" not in cut.stderr
    assert not Path("model.lorank").exists()
    kept = Path("model.lorank.checkpoint").read_bytes()
    # Another command does not take it, nor harm it.
    code, out, err = run(*words, "--seed", 1)
    assert (code, out) == (1, "")
    assert (
        "Error: The checkpoint model.lorank.checkpoint belongs to another fit, with random_state 0 and not 1; "
        "go on as you began, or remove it or name another to start anew.\n"
    ) in err
    assert "Going on" not in err
    assert Path("model.lorank.checkpoint").read_bytes() == kept
    code, _, err = run(*words)
    assert code == 0, err
    assert err.count("Going on from model.lorank.checkpoint.") == 1
    assert not Path("model.lorank.checkpoint").exists()
    one, other = lorank.load("model.lorank"), lorank.load("whole.lorank")
    assert one.setting == other.setting
    np.testing.assert_array_equal(one.factors.W, other.factors.W)


def test_a_checkpoint_for_other_data_is_refused(run, fails, model):
    words = ["fit", "ratings.csv", *EXPLICIT, "--tol", "0", "--max-seconds", "0.01", "--checkpoint", "long.npz"]
    assert run(*words)[0] == 0
    assert Path("long.npz").exists()
    Path("ratings.csv").write_text(Path("ratings.csv").read_text().replace("user-0001,", "user-0002x,"))
    assert "The checkpoint long.npz belongs to another fit, with other data;" in fails(*words)
    assert run(*words[:-1], "new.npz")[0] == 0
    assert Path("long.npz").exists()


def test_ctrl_c_elsewhere(run, model, monkeypatch):
    from lorank import models

    def interrupt(path):
        raise KeyboardInterrupt

    monkeypatch.setattr(models, "load", interrupt)
    code, _, err = run("inspect", "model.lorank")
    assert (code, err) == (1, "Interrupted.\n")


class Watched(ProgressBar):
    """A bar that keeps every state it had."""

    def __init__(self):
        super().__init__("fitting")
        self.told = []

    def to(self, done, total=None, text=None):
        super().to(done, total, text)
        self.told.append((done, text))


@pytest.mark.parametrize("params", [{"rank": "auto", "lam": "auto", "max_seconds": 60}, {"method": "bpmf", "rank": 2}])
def test_a_fit_is_followed_from_its_first_trial_to_its_last_iteration(params):
    X = np.random.default_rng(0).standard_normal((40, 30))
    model, bar = lorank.MatrixCompletion(**params, random_state=0, max_iter=30), Watched()
    follow = FitProgress(model, bar)
    model.fit(X, callbacks=[follow], on_trial=follow.trial)
    assert all(0 <= done <= 1 for done, _ in bar.told)
    trials = [done for done, text in bar.told if text.startswith("Choosing parameters, trial ")]
    assert trials == sorted(trials)
    assert len(trials) == len(getattr(model, "tuning_", ()))
    # The bar starts again from 0 for the iterations, which have a pace of their own.
    iterations = [done for done, _ in bar.told[len(trials) :]]
    assert iterations[0] == 0
    assert len(iterations) == model.n_iter_ + 1
    assert iterations[-1] == 1
    assert bar.left == 0


def test_a_comparison_tells_how_far_it_is():
    X = np.random.default_rng(0).standard_normal((40, 30))
    told = []
    lorank.compare(X, ["nnfn", "mf"], ranks=(2,), trials=6, on_trial=lambda *count: told.append(count))
    assert told == [(done, 7) for done in range(1, 7)]
