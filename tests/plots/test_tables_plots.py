"""Pictures of tables with missing cells show what they were given."""

import numpy as np

from lorank import plots


def test_a_map_names_columns_and_shares():
    missing = np.zeros((2500, 3), bool)
    missing[:500, 1] = True
    figure, [panel] = plots.figure(1)
    plots.draw_missing(panel, missing, ["a", "b", "c"])
    assert [label.get_text() for label in panel.get_xticklabels()] == ["a (0%)", "b (20%)", "c (0%)"]
    shown = panel.images[0].get_array()
    assert len(shown) <= 1000
    assert shown[:160, 1].min() == 1
    assert shown[170:, 1].max() == 0
    figure.canvas.draw()
    # Rows are numbered as those of the table, though each line of the picture is several of them.
    rows = [int(label.get_text()) for label in panel.get_yticklabels()]
    assert np.diff(rows).min() > 100
    assert 2000 <= max(rows) <= 3000


def test_few_cells_have_few_bars():
    figure, panels = plots.figure(2)
    rng = np.random.default_rng(0)
    there = rng.standard_normal(5000)
    for panel, count in zip(panels, (50, 5000)):
        plots.draw_filled(panel, there, rng.standard_normal(count))
    few, many = (len(panel.patches[0].get_xy()) for panel in panels)
    assert few < 0.6 * many
    figure.canvas.draw()


def test_distributions_are_shares():
    figure, [panel] = plots.figure(1)
    plots.draw_filled(panel, [0.0, 1.0, 2.0, 3.0], [1.0, 1.0], "x")
    heights = [patch.get_xy()[:, 1].max() for patch in panel.patches]
    assert max(heights) == 1.0
    assert panel.get_xlabel() == "x"
    figure.canvas.draw()


def test_coverage_is_drawn_where_it_was_measured():
    figure, [panel] = plots.figure(1)
    plots.draw_coverage(panel, [0.5, 0.9], [0.45, 0.92], 100)
    np.testing.assert_array_equal(panel.lines[1].get_ydata(), [0.45, 0.92])
    figure.canvas.draw()
