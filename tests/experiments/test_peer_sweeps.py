"""The sweep of a library in benchmarks/peers.py goes on beyond an end that gains."""

import sys
from math import log
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from peers import grid, tune


class Library:
    """Errors and costs as functions of the settings, in place of fits; best at lam 30, better with ever more sweeps."""

    def __init__(self):
        self.tried = []

    def run(self, library, settings, data, threads, tuning=False, repeats=1):
        self.tried += settings
        answers = [
            {
                "setting": setting,
                "error": 1.0 + 0.1 * abs(log(setting["lam"] / 30)) + 0.02 / setting["sweeps"] ** 2,
                "cpu": setting["sweeps"],
            }
            for setting in settings
        ]
        return answers, None


def test_a_sweep_goes_on_until_its_best_is_inside_or_gains_no_more():
    library = Library()
    found = tune(library, "peer", grid(lam=[1.0, 2.0], sweeps=[5, 10], biases=[True]), None)
    assert found["best"]["lam"] == pytest.approx(32.0)
    assert found["searched"]["lam"][0] < found["best"]["lam"] < found["searched"]["lam"][1]
    assert found["searched"]["sweeps"][1] <= 20  # the gain is small from the beginning
    assert found["setting"]["sweeps"] == 5  # the fastest within 0.3% of the best
    assert found["settings"] == len(library.tried)
    assert all(setting["biases"] for setting in library.tried)


def test_a_sweep_that_does_not_run_says_why():
    class Broken:
        def run(self, *args, **named):
            return [], "no such library"

    assert tune(Broken(), "peer", grid(lam=[1.0]), None) == {"failed": "no such library"}
