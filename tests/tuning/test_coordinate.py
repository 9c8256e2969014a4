"""Parameters one after the other."""

from lorank.tuning.coordinate import coordinate_search


def test_search_takes_the_best_of_each_in_turn():
    def error(s):
        return 3 * (s["a"] - 3) ** 2 + (s["b"] - s["a"]) ** 2 + s["c"]

    found = coordinate_search(error, {"a": (1, 2, 3), "b": (1, 2, 3), "c": (5, 7)}, {"a": None, "c": 7})
    assert found.parameters == {"a": 3, "b": 3, "c": 7}
    assert found.error == found.trials.chosen.error == 7
    assert all(trial.c == 7 for trial in found.trials)
    tried = [(trial.a, trial.b) for trial in found.trials]
    assert len(tried) == len(set(tried))
