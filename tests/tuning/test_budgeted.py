"""The search that methods are compared by, on errors that are known functions of the parameters."""

import numpy as np
import pytest

from lorank import registry
from lorank.errors import InputError
from lorank.tuning.budgeted import budgeted_search


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


def test_the_graphs_weight_is_refined_too():
    method = registry.find("factored-nuclear")

    def error(parameters, seconds):
        return abs(np.log(parameters["lam"] / 2.0)) + abs(np.log(parameters["graph_weight"] / 4.0))

    found = budgeted_search(error, method, (5,), 40.0, 30, 100.0, graph_weights=(0.1, 1.0, 10.0))
    assert found.error < 0.3


def test_every_second_parameter_meets_every_graph_weight():
    met = set()

    def error(parameters, seconds):
        met.add((parameters["theta"], parameters["graph_weight"]))
        return 1.0

    thetas, weights = (1.0, 0.75, 0.5), (0.1, 1.0, 10.0)
    budgeted_search(error, registry.find("nnfn"), (5,), 40.0, 18, 100.0, thetas, weights)
    assert {(theta, weight) for theta in thetas for weight in weights} <= met


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
