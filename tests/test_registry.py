"""The catalogue: every method by name, its table, and the parameters it refuses."""

import numpy as np
import pytest

import lorank
from lorank.errors import InputError
from lorank.registry import CATALOGUE, find

every = pytest.mark.parametrize("name", list(CATALOGUE))


def test_the_table_has_a_row_for_each_method():
    table = lorank.methods()
    assert table["name"] == list(CATALOGUE)
    rows = {row["name"]: row for row in table}
    # Table 1 of the paper: only factored NNFN has all four.
    letters = ("scalable", "adaptive", "statistical", "convergence")
    assert [name for name, row in rows.items() if all(row[letter] for letter in letters)] == ["nnfn"]
    assert not rows["nuclear"]["adaptive"]
    assert not rows["mcp"]["scalable"]
    text = str(table)
    assert len(text.splitlines()) == len(table) + 1
    assert "softimpute" in text
    frame = table.to_frame()
    assert list(frame.columns) == table.columns


@every
def test_every_method_fits_by_its_name(name, small_problem):
    method = find(name)
    if not method.solvers:
        pytest.skip("it has no solver")
    parameters = method.at(1.0, method.shapes[0])
    model = lorank.MatrixCompletion(name, rank=3, **parameters, random_state=0).fit(small_problem.train)
    shrinks_all_alike = name in ("nuclear", "factored-nuclear", "grals")
    assert small_problem.nmse(*model.factors_) < (0.2 if shrinks_all_alike else 0.06)


@every
def test_a_strength_is_the_threshold_of_the_proximal_step(name):
    """What makes one path of strengths fair to all methods."""
    method = find(name)
    for shape in method.shapes:
        for strength in (0.3, 7.0):
            parameters = method.at(strength, shape)
            if not method.weighted or "t" in parameters:
                continue
            regularizer = method.build_regularizer(**parameters)
            spectral = regularizer.spectral() if hasattr(regularizer, "spectral") else regularizer
            assert spectral.threshold(1.0) == pytest.approx(strength, rel=1e-9)


def test_parameters_that_a_method_does_not_have_are_named(small_problem):
    def fit(method, **parameters):
        return lorank.MatrixCompletion(method, rank=3, **parameters).fit(small_problem.train)

    with pytest.raises(InputError, match="Method 'nuclear' has no parameter theta; it has lam"):
        fit("nuclear", theta=0.5)
    with pytest.raises(InputError, match="Method 'mcp' has no parameter p; it has lam and theta"):
        fit("mcp", p=0.5)
    with pytest.raises(InputError, match="Method 'nnfn' has no parameter t"):
        fit("nnfn", t=1)
    with pytest.raises(InputError, match="p must be strictly between 0 and 1"):
        fit("schatten-p", p=1.0)
    with pytest.raises(InputError, match="p must be 1/2 or 2/3"):
        fit("fgsr", p=0.9)
    with pytest.raises(InputError, match="t must be less than the rank"):
        fit("truncated-l12", t=3)
    with pytest.raises(InputError, match="Unknown solver 'dca' for method 'mcp'; there are auto, proximal"):
        fit("mcp", solver="dca")
    with pytest.raises(InputError, match="Unknown method 'svd'"):
        fit("svd")


def test_defaults_are_the_methods_own():
    assert find("nnfn").build_regularizer(2.0).theta == 1.0
    assert find("capped-l1").build_regularizer(2.0, theta=None).theta == 4.0
    assert find("schatten-p").build_regularizer(2.0).p == 0.5
    assert np.isclose(find("fgsr").build_regularizer(2.0, p=2 / 3).spectral().p, 2 / 3)
