"""The search that methods are compared by, on errors that are known functions of the parameters."""

import numpy as np
import pytest

from lorank import registry
from lorank.errors import InputError
from lorank.tuning.budgeted import budgeted_search, decades_to_edge


@pytest.mark.parametrize("name", ["nnfn", "factored-nuclear", "mcp", "fgsr"])
@pytest.mark.parametrize("trials", [6, 12])
def test_every_method_has_as_many_trials_and_comes_near_the_best(name, trials):
    method = registry.find(name)
    best = method.at(1.7, method.shapes[0])
    tried = []

    def error(parameters, seconds):
        tried.append(parameters)
        return abs(np.log(parameters["lam"] / best["lam"]))

    found = budgeted_search(error, method, (5,), 40.0, trials, 100.0, method.shapes[:1])
    assert len(tried) == len(found.trials) == trials
    assert found.error == min(error(parameters, 0) for parameters in list(tried))
    # In strengths a factor of 2.2 at six trials, of 1.3 at twelve; lam may be a power of the strength up to 2.
    assert found.error < 2 * np.log(2.2 if trials == 6 else 1.3)


def test_a_narrow_optimum_of_the_other_family_is_found():
    """Theta 1 is better on the coarse path, theta 0.5 at its own best strength, which lies between two of the path."""
    method = registry.find("nnfn")

    def error(parameters, seconds):
        away = abs(np.log(parameters["lam"] / 3.3))
        return 0.75 + 0.1 * away if parameters["theta"] == 0.5 else 0.8 + 0.01 * away

    coarse = budgeted_search(error, method, (10,), 40.0, 6, 100.0)
    assert coarse.parameters["theta"] == 1.0
    found = budgeted_search(error, method, (10,), 40.0, 24, 100.0)
    assert found.parameters["theta"] == 0.5
    assert found.parameters["lam"] == pytest.approx(3.3, rel=0.1)


def valley(parameters, seconds):
    """Least at lam 0.002 and weight 0.0004; nearly flat along the line on which their ratio is the same."""
    lam, weight = np.log10(parameters["lam"] / 2e-3), np.log10(parameters["graph_weight"] / 4e-4)
    return 1.0 + (lam - weight) ** 2 + 0.01 * (lam + weight) ** 2


def test_the_graphs_weight_and_lam_are_searched_together():
    """From the best of the coarse grid a search of one after the other does not come along the valley."""
    method = registry.find("factored-nuclear")
    found = budgeted_search(valley, method, (5,), 40.0, 48, 100.0, graph_range=(1e-6, 1.0))
    assert len(found.trials) <= 48
    assert found.error < 1.002
    edges = decades_to_edge(found)
    lams = [trial.parameters["lam"] for trial in found.trials]
    expected = min(np.log10(found.parameters["lam"] / min(lams)), np.log10(max(lams) / found.parameters["lam"]))
    assert edges["lam"] == pytest.approx(expected)
    assert min(edges.values()) > 0.5


def test_a_best_point_at_the_edge_is_followed_and_reported():
    """The error falls with the weight without end: so does the search, and it says that it ended at an edge."""
    method = registry.find("factored-nuclear")
    found = budgeted_search(
        lambda parameters, seconds: np.log10(parameters["graph_weight"]),
        method,
        (5,),
        40.0,
        40,
        100.0,
        graph_range=(1e-6, 1.0),
    )
    assert found.parameters["graph_weight"] < 1e-7
    assert decades_to_edge(found)["graph_weight"] == 0.0


def test_second_parameters_ranks_and_weights_are_all_searched_with_a_graph():
    method = registry.find("nnfn")
    sides = [(theta, turn) for theta in (1.0, 0.75, 0.5) for turn in range(4)]

    class Sided(type(method)):
        def at(self, strength, shape=()):
            return {**super().at(strength, shape[0]), "side": shape[1]}

    def error(parameters, seconds):
        wrong = (parameters["theta"] != 0.75) + (parameters["side"] != 2) + (parameters["rank"] != 5)
        return valley(parameters, seconds) + 0.5 * wrong

    found = budgeted_search(error, Sided(**vars(method)), (5, 10), 40.0, 48, 100.0, sides, (1e-6, 1.0))
    assert (found.parameters["theta"], found.parameters["side"], found.parameters["rank"]) == (0.75, 2, 5)
    assert found.error < 1.05


def test_a_method_without_lam_searches_the_weight_alone():
    def error(parameters, seconds):
        return 1.0 + abs(np.log10(parameters["graph_weight"] / 3e-3))

    found = budgeted_search(error, registry.find("bpmf"), (5,), 40.0, 40, 100.0, graph_range=(1e-6, 1.0))
    assert found.parameters["graph_weight"] == pytest.approx(3e-3, rel=0.25)
    assert set(decades_to_edge(found)) == {"graph_weight"}
    assert len(found.trials) < 20  # as fine as it may be before all fits are used


def test_trials_that_fail_spoil_the_search_only_together():
    method = registry.find("nnfn")

    def error(parameters, seconds):
        if parameters["theta"] == 1.0:
            raise InputError("theta is not to my taste")
        return parameters["lam"]

    assert budgeted_search(error, method, (5,), 40.0, 12, 100.0).parameters["theta"] == 0.5
    with pytest.raises(InputError, match="taste"):
        budgeted_search(error, method, (5,), 40.0, 12, 100.0, shapes=(1.0,))
    with pytest.raises(ArithmeticError, match="finite"):
        budgeted_search(lambda parameters, seconds: np.nan, method, (5,), 40.0, 3, 100.0)


def test_without_time_there_is_one_trial():
    found = budgeted_search(lambda parameters, seconds: 1.0, registry.find("nnfn"), (5,), 40.0, 12, 0.0)
    assert (len(found.trials), found.out_of_time) == (1, True)
