"""What is hidden is like what is missing."""

import numpy as np
import pytest

from lorank.datasets import mountain_stations
from lorank.spatial import SpatialCompletion, trial
from lorank.spatial.held_out import HeldOut, hold_out


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


def test_a_place_with_few_hidden_values_counts_little():
    gaps = np.zeros((5, 100), bool)
    gaps[:3, :50] = True
    assert HeldOut(np.zeros_like(gaps), gaps, 0.5).places_with_gaps == pytest.approx(3)
    gaps[3, 0] = True
    assert 3 < HeldOut(np.zeros_like(gaps), gaps, 0.5).places_with_gaps < 3.1


def test_errors_of_gaps_are_those_of_many_places(monkeypatch):
    """Few places have gaps in one trial: others follow, each with gaps of its own, until there are enough."""
    data = mountain_stations("temperature", 60, 48, seed=3)
    values = data.values.copy()
    values[::3, 10:40] = np.nan
    seen = []

    def recorded(values, seed):
        held = hold_out(values, seed)
        seen.append(held.gaps)
        return held

    monkeypatch.setattr(trial, "hold_out", recorded)
    given = {"normalisation": "departures", "rank": 2, "lam": 1.0, "nugget": 0.1, "length": 0.2, "theta": 1.0}
    model = SpatialCompletion(**given, residual_length=0.2, residual_nugget=0.5, n_jobs=1)
    model.fit(values, data.latitude, data.longitude, data.time)
    assert len(seen) == 2
    assert not np.array_equal(*seen)
    assert model._errors[1].ratios.size == sum(g.sum() for g in [*seen, model._trial.held.gaps])
    seen.clear()
    monkeypatch.setattr(trial, "GAP_PLACES", 1)
    model.fit(values, data.latitude, data.longitude, data.time)
    assert not seen
