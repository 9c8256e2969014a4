"""What is drawn is what was given: the numbers are read back from the artists."""

import numpy as np
import pytest

import lorank
from lorank import plots
from lorank.regularizers import NNFN, Nuclear

pytest.importorskip("matplotlib")


@pytest.fixture
def panel():
    return plots.figure(1)[1][0]


def labels(panel):
    return [text.get_text() for text in panel.get_legend().get_texts()]


def lines(panel):
    return {line.get_label(): np.array(line.get_xydata()) for line in panel.get_lines()}


def test_a_figure_has_its_panels_side_by_side():
    drawn, panels = plots.figure(3, width=2, height=4)
    assert len(panels) == 3
    assert drawn.get_size_inches().tolist() == [6, 4]


def test_error_against_time(panel):
    curves = {"a": ([0.1, 1.0, 10.0], [3.0, 2.0, 1.0]), "b": ([0.2, 2.0], [5.0, 0.5])}
    plots.draw_error_against_time(panel, curves, "NMSE", floor=0.25)
    drawn = lines(panel)
    for name, curve in curves.items():
        np.testing.assert_array_equal(drawn[name], np.column_stack(curve))
    assert drawn["least squares at the true rank"][:, 1].tolist() == [0.25, 0.25]
    assert labels(panel) == ["a", "b", "least squares at the true rank"]
    assert (panel.get_xscale(), panel.get_yscale()) == ("log", "log")
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("seconds", "NMSE")
    low, high = panel.get_xlim()
    assert low <= 0.1
    assert high > 10, "there is room for the legend"


def test_curves_differ_in_colour_or_style(panel):
    plots.draw_error_against_time(panel, {str(i): ([1, 2], [i + 1, i + 2]) for i in range(6)}, "error")
    assert len({(line.get_color(), line.get_linestyle()) for line in panel.get_lines()}) == 6
    assert "least squares at the true rank" not in labels(panel)


def test_spectra(panel):
    truth = np.array([9.0, 4.0])
    found = {"a": np.array([8.0, 3.0, 1e-9]), "b": np.array([7.0, 2.0, 1.0])}
    plots.draw_spectra(panel, truth, found)
    drawn = lines(panel)
    np.testing.assert_array_equal(drawn["truth"], [[1, 9], [2, 4]])
    np.testing.assert_array_equal(drawn["a"][:, 1], [8, 3])  # what is zero but for rounding is left out
    np.testing.assert_array_equal(drawn["b"][:, 1], [7, 2, 1])
    # Each method's points are beside the index, so that none hides another's.
    np.testing.assert_array_equal(np.round(drawn["a"][:, 0]), [1, 2])
    assert not set(drawn["a"][:, 0]) & set(drawn["b"][:, 0])
    assert panel.get_yscale() == "log"


def test_shrinkage(panel):
    plots.draw_shrinkage(panel, {"nuclear": Nuclear(lam=5.0), "NNFN": NNFN(lam=5.0, theta=1.0)}, largest=12.0)
    drawn = lines(panel)
    sigma, shrunk = drawn["nuclear"].T
    np.testing.assert_allclose(shrunk, np.maximum(sigma - 5, 0))
    assert sigma.size > 100
    few, shrunk = drawn["NNFN"].T
    np.testing.assert_allclose(shrunk, NNFN(lam=5.0, theta=1.0).prox(few, 1.0))
    assert few.max() == 12
    assert few.size == 7, "its map depends on the whole spectrum, which is marked"
    np.testing.assert_array_equal(*drawn["no shrinkage"].T)


def test_every_example_of_shrinkage_is_zero_up_to_the_same_value(panel):
    examples = plots.shrinkage_examples(zero_below=4.0)
    assert set(examples) == {"nuclear", "capped-l1", "LSP", "MCP", "NNFN"}
    for regularizer in examples.values():
        assert regularizer.threshold(1.0) == pytest.approx(4.0, rel=1e-6)
    plots.draw_shrinkage(panel, examples)
    assert labels(panel) == ["no shrinkage", *examples]


def test_convergence(panel):
    history = {
        "iteration": np.array([1, 2, 3]),
        "objective": np.array([4.0, 2.0, 1.0]),
        "validation": np.array([0.9, 0.8, np.nan]),
    }
    plots.draw_convergence(panel, history)
    (line,) = panel.get_lines()
    np.testing.assert_allclose(line.get_xydata(), [[1, 3], [2, 1]])  # the lowest has no place on a logarithm
    beside = [axes for axes in panel.figure.axes if axes is not panel]
    np.testing.assert_array_equal(beside[0].get_lines()[0].get_ydata(), history["validation"])


def test_residuals(panel):
    residuals = np.append(np.linspace(-1, 1, 10_001), [500.0, -500.0])
    plots.draw_residuals(panel, residuals)
    bars = panel.patches
    assert len(bars) == 60
    assert sum(bar.get_height() for bar in bars) >= 0.99 * residuals.size
    assert bars[-1].get_x() < 1.1, "the tails are cut"
    assert panel.get_title() == f"training RMSE {np.sqrt(np.mean(residuals**2)):.4g}"


def test_a_model_in_panels():
    X = np.random.default_rng(0).standard_normal((20, 3)) @ np.ones((3, 15))
    X[::3, ::2] = np.nan
    model = lorank.MatrixCompletion(rank=2, lam=0.1, random_state=0).fit(X)
    drawn = plots.draw_model(model)
    convergence, spectrum, residuals = drawn.axes
    assert convergence.get_xlabel() == "iteration"
    np.testing.assert_allclose([bar.get_height() for bar in spectrum.patches], model.singular_values_)
    assert residuals.get_title().startswith("training RMSE")
