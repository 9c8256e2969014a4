"""What is hidden is like what is missing."""

import numpy as np

from lorank.spatial.held_out import hold_out


def test_both_kinds_are_hidden_and_count_as_they_are_missing():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((100, 60))
    values[:20] = np.nan  # never measured: 1200
    values[20:40, 30:] = np.nan  # gaps: 600, the second half of the months
    held = hold_out(values, 0)
    assert held.share == 1200 / 1800
    assert not (held.whole & held.gaps).any()
    assert not np.isnan(values[held.whole | held.gaps]).any()
    whole = held.whole.any(axis=1)
    assert np.isnan(held.hide(values)[whole]).all()
    gaps = held.gaps.any(axis=1)
    assert held.gaps[gaps][:, 30:].all(), "gaps are those that other places have"
    assert not held.gaps[gaps][:, :30].any()
    squares = np.where(held.whole, 4.0, np.where(held.gaps, 1.0, np.nan))
    assert held.error(squares, held.whole, held.gaps) == np.sqrt(2 / 3 * 4 + 1 / 3 * 1)


def test_without_gaps_only_whole_places_count():
    values = np.random.default_rng(0).standard_normal((30, 20))
    held = hold_out(values, 0)
    assert held.share == 1.0
    assert held.whole.any()
    assert held.gaps.any(), "errors of gaps are estimated, too"
    assert hold_out(values[:4], 0) is None
