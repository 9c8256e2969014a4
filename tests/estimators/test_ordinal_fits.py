"""Values on a scale by the factored methods: cuts against a generic optimiser, levels, probabilities, files."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import ndtr

import lorank
from lorank import InputError, MatrixCompletion
from lorank.losses import Ordinal

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
CUTS = np.array([-1.5, -0.2, 0.6, 2.0])


def scale(m=150, n=80, seed=0, share=0.4):
    """Probabilities of five levels at every entry, all levels, and those that were seen."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((m, 2)) @ rng.standard_normal((2, n)) + rng.standard_normal((m, 1))
    chances = np.diff(ndtr(np.concatenate([[-np.inf], CUTS, [np.inf]]) - x[..., None]), axis=-1)
    levels = 1.0 + (x[..., None] + rng.standard_normal((m, n, 1)) > CUTS).sum(axis=-1)
    return chances, levels, np.where(rng.random((m, n)) < share, levels, np.nan)


FIT = {"rank": 2, "lam": 3.0, "theta": 0.0, "biases": True, "loss": "ordinal", "random_state": 0}


@pytest.mark.parametrize("weighted", [False, True])
def test_cuts_are_those_of_a_generic_optimiser(weighted):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(900)
    o = np.array([1.0, 2.0, 5.0])[(x[:, None] + rng.standard_normal((900, 1)) > [-0.5, 0.9]).sum(axis=1)]
    weights = rng.uniform(0.1, 3.0, 900) if weighted else None
    found = Ordinal().learnt(x, o, weights)
    assert found.levels == (1.0, 2.0, 5.0)

    def value(cuts):
        return Ordinal(found.levels, tuple(np.sort(cuts)), found.scale).value(x, o, weights)

    best = minimize(value, [-1.0, 1.0], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10})
    np.testing.assert_allclose(found.cuts, best.x, atol=1e-5)
    assert value(np.array(found.cuts)) <= best.fun + 1e-8


@pytest.mark.parametrize("solver", ["alternating", "gradient"])
def test_probabilities_are_near_the_truth_and_the_objective_falls(solver):
    chances, levels, seen = scale()
    model = MatrixCompletion(**FIT, solver=solver, max_iter=300).fit(seen)
    assert np.all(np.diff(model.history_["objective"]) <= 1e-9 * np.abs(model.history_["objective"][:-1]))
    rows, cols = np.nonzero(np.isnan(seen))
    given = model.predict_proba(rows, cols)
    np.testing.assert_allclose(given.sum(axis=1), 1)
    index = levels[rows, cols].astype(int) - 1
    score, truth = (-np.log(p[np.arange(index.size), index]).mean() for p in (given, chances[rows, cols]))
    shares = np.bincount(index) / index.size
    nothing = -np.log(shares[index]).mean()
    assert score - truth < 0.2 * (nothing - truth)
    # Levels that are given a probability of p come up about p of the times.
    for low in (0.1, 0.3, 0.5, 0.7):
        chosen = (given >= low) & (given < low + 0.2)
        assert np.mean((np.arange(5) == index[:, None])[chosen]) == pytest.approx(given[chosen].mean(), abs=0.06)
    np.testing.assert_allclose(model.predict(rows, cols), given @ np.arange(1, 6), atol=1e-9)
    lower, upper = model.model_.interval(rows, cols, 0.8)
    assert np.mean((lower <= levels[rows, cols]) & (levels[rows, cols] <= upper)) > 0.78


def test_only_the_order_of_the_levels_counts():
    _, levels, seen = scale(60, 40)
    fit = {**FIT, "tol": 1e-9, "max_iter": 1000}
    one = MatrixCompletion(**fit).fit(seen)
    other = MatrixCompletion(**{**fit, "lam": 300.0}).fit(100 * seen + 7)  # lam has the data's unit
    probabilities = [model.predict_proba(*np.nonzero(levels)) for model in (one, other)]
    np.testing.assert_allclose(*probabilities, atol=1e-3)


def test_it_is_searched_saved_and_folded_in(tmp_path):
    _, levels, seen = scale()
    model = MatrixCompletion(rank=2, lam="auto", theta=0.0, biases=True, loss="ordinal", random_state=0).fit(seen)
    squared = MatrixCompletion(rank=2, lam="auto", theta=0.0, biases=True, random_state=0).fit(seen)
    held = np.where(np.isnan(seen), levels, np.nan)
    assert -model.score(held) < 1.01 * -squared.score(held)
    for shards in (False, True):
        model.save(tmp_path / f"levels{shards}", shards=shards)
        loaded = lorank.load(tmp_path / f"levels{shards}")
        np.testing.assert_array_equal(loaded.levels, [1, 2, 3, 4, 5])
        np.testing.assert_allclose(loaded.predict_proba([0, 5], [1, 2]), model.predict_proba([0, 5], [1, 2]))
    folded = loaded.fold_in(seen[:6])
    np.testing.assert_allclose(folded.predictor.dense(), model.model_.predictor.dense()[:6], atol=0.05)
    with pytest.raises(InputError, match="7 is no level of the scale, which has 1, 2, 3, 4, 5"):
        loaded.fold_in(np.full((1, 80), 7.0))
    more = MatrixCompletion.from_model(lorank.load(tmp_path / "levelsFalse")).partial_fit(
        np.where(np.arange(150)[:, None] < 3, held, np.nan)
    )
    assert more.model_.params["loss"].cuts != model.model_.params["loss"].cuts


def test_few_levels_and_too_many():
    two = np.where(np.arange(40).reshape(8, 5) % 3 == 0, 1.0, 0.0)
    assert MatrixCompletion(rank=1, lam=1.0, loss="ordinal").fit(two).predict_proba([0], [0]).shape == (1, 2)
    constant = MatrixCompletion(rank=1, lam=1.0, loss="ordinal").fit(np.full((4, 3), 2.0))
    np.testing.assert_allclose(constant.predict([0, 1], [0, 2]), 2.0)
    searched = {"rank": "auto", "lam": "auto", "theta": "auto", "biases": "auto", "random_state": 0}
    for side in (None, np.arange(6.0).reshape(3, 2)):
        tiny = MatrixCompletion("nnfn", **searched, loss="ordinal", row_side=side).fit(np.full((3, 2), 3.0))
        np.testing.assert_allclose(tiny.complete(), 3.0)
    with pytest.raises(InputError, match="at most 50 levels"):
        MatrixCompletion(rank=1, lam=1.0, loss="ordinal").fit(np.random.default_rng(0).standard_normal((20, 20)))
