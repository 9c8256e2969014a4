"""Pointwise losses: derivatives by finite differences, the bound on the curvature, and fits that need them."""

import numpy as np
import pytest
from scipy.special import expit

import lorank
from lorank.datasets import synthetic
from lorank.errors import InputError
from lorank.losses import ByColumn, Huber, Logistic, Multinomial, Ordinal, Poisson, Squared, find
from lorank.problems import Problem
from lorank.regularizers import FactoredNNFN, FactoredNuclear

ORDINAL = Ordinal(levels=(1, 2, 4, 5), cuts=(-1.3, 0.2, 0.9), scale=0.8)
POINTWISE = [Squared(), Huber(), Huber(delta=0.3), Logistic(), ORDINAL, Poisson(most=4.0)]
losses = pytest.mark.parametrize("loss", POINTWISE, ids=repr)


def pairs(loss, seed=0):
    rng = np.random.default_rng(seed)
    x = 3 * rng.standard_normal(200)
    if isinstance(loss, Ordinal):
        return x, rng.choice(loss.levels, 200)
    if isinstance(loss, Poisson):
        return x, rng.poisson(3.0, 200).astype(float)
    return x, rng.choice([-1.0, 1.0], 200) if isinstance(loss, Logistic) else rng.standard_normal(200)


@losses
def test_derivative_is_the_slope_of_the_value(loss):
    x, o = pairs(loss)
    width = 1e-6
    each = [
        loss.value(x[i : i + 1] + width, o[i : i + 1]) - loss.value(x[i : i + 1] - width, o[i : i + 1])
        for i in range(200)
    ]
    np.testing.assert_allclose(loss.derivative(x, o), np.array(each) / (2 * width), atol=1e-6)


@losses
def test_curvature_bounds_the_loss_above(loss):
    x0, o = pairs(loss)
    for seed in range(20):
        x = x0 + 10.0 ** np.random.default_rng(seed).uniform(-3, 1) * np.random.default_rng(seed + 50).standard_normal(
            200
        )
        bound = loss.value(x0, o) + loss.derivative(x0, o) @ (x - x0) + loss.curvature / 2 * np.sum((x - x0) ** 2)
        assert loss.value(x, o) <= bound + 1e-9


@losses
@pytest.mark.parametrize("transposed", [False, True])
def test_gradient_by_the_factors(loss, transposed):
    truth = synthetic(m=12, n=9, rank=2, density=0.4, seed=1).train
    seen = truth.with_values(np.sign(truth.values)) if isinstance(loss, Logistic) else truth
    if isinstance(loss, Poisson):
        seen = truth.with_values(np.round(np.abs(truth.values)))
    if isinstance(loss, Ordinal):  # with cuts that follow the factors
        seen, loss = truth.with_values(np.clip(np.round(truth.values), -2, 2)), Ordinal()
    problem = Problem(seen, FactoredNuclear(lam=0.1), 2, (0.2, 0.3), n_jobs=1, pointwise=loss)
    factors = problem.random_start(0)
    view = factors.transposed() if transposed else factors
    slope, value = problem.gradient_left(view, transposed)
    assert value == pytest.approx(problem.loss(factors))
    for i, j in np.ndindex(len(view.left), 3):
        moved = []
        for width in (1e-6, -1e-6):
            left = view.left.copy()
            left[i, j] += width
            turned = type(view)(left, view.right, view.k, view.biased, view.offset)
            moved.append(problem.loss(turned.transposed() if transposed else turned))
        assert slope[i, j] == pytest.approx((moved[0] - moved[1]) / 2e-6, abs=1e-5)


def test_huber_shrugs_off_outliers():
    problem = synthetic(m=200, rank=3, seed=0)
    rng = np.random.default_rng(0)
    values = problem.train.values.copy()
    wrong = rng.random(values.size) < 0.05
    values[wrong] += 20 * rng.standard_normal(wrong.sum())
    seen = problem.train.with_values(values)
    settings = {"rank": 3, "lam": 1.0, "theta": 0.0, "random_state": 0}
    errors = {
        name: problem.nmse(*lorank.MatrixCompletion(loss=loss, **settings).fit(seen).factors_)
        for name, loss in (("squared", "squared"), ("huber", Huber(delta=0.3)))
    }
    assert errors["huber"] < 0.2 * errors["squared"]


@pytest.mark.parametrize("solver", ["alternating", "gradient", "alternating-gradient"])
def test_logistic_learns_probabilities(solver):
    rng = np.random.default_rng(0)
    score = rng.standard_normal((120, 2)) @ rng.standard_normal((2, 90)) * 1.5
    labels = (rng.random(score.shape) < expit(score)).astype(float)
    hidden = rng.random(score.shape) < 0.3
    seen = np.where(hidden, np.nan, labels)
    model = lorank.MatrixCompletion(
        rank=2, lam=2.0, theta=0.0, loss="logistic", solver=solver, random_state=0, max_iter=300
    ).fit(seen)
    probability = expit(model.predict(*np.nonzero(hidden)))
    # Better than the share of each class (0.25), and not far from the truth's own score.
    assert np.mean((probability - labels[hidden]) ** 2) < 1.15 * np.mean((expit(score[hidden]) - labels[hidden]) ** 2)
    assert np.all(np.diff(model.history_["objective"]) <= 0)
    # Classes 0 and 1 are the classes -1 and 1.
    same = lorank.MatrixCompletion(**model.get_params()).fit(2 * seen - 1)
    np.testing.assert_array_equal(same.factors_[0], model.factors_[0])


def test_what_losses_refuse(small_problem):
    fit = lorank.MatrixCompletion
    with pytest.raises(InputError, match="two classes"):
        fit(loss="logistic").fit(small_problem.train)
    with pytest.raises(InputError, match="-1, 0 and 1 together"):
        fit(rank=1, loss="logistic").fit(np.array([[1.0, 0.0], [-1.0, np.nan]]))
    with pytest.raises(InputError, match="Unknown loss 'hinge'; there are squared, huber, logistic"):
        find("hinge")
    with pytest.raises(InputError, match="delta"):
        Huber(delta=0.0)
    with pytest.raises(InputError, match="squared loss"):
        fit("mcp", rank=3, loss="huber").fit(small_problem.train)


def test_an_early_stop_watches_the_loss_itself(small_problem):
    seen = small_problem.train.with_values(np.sign(small_problem.train.values))
    held = small_problem.validation.with_values(np.sign(small_problem.validation.values))
    problem = Problem(seen, FactoredNNFN(lam=1.0), 3, pointwise=Logistic())
    factors = problem.random_start(0)
    x = factors.predict(held.rows, held.cols)
    assert problem.error(factors, held) == pytest.approx(np.mean(np.log1p(np.exp(-x * held.values))))


def test_poisson_is_half_the_deviance_and_goes_on_as_a_line():
    x, o = np.log(np.array([0.5, 2.0, 7.0])), np.array([0.0, 3.0, 7.0])
    deviance = 2 * np.array([0.5, 3 * np.log(3 / 2) - 1, 0.0])
    np.testing.assert_allclose(2 * Poisson(most=10.0).losses(x, o), deviance, atol=1e-12)
    loss, mu = Poisson(most=4.0), np.array([0.1, 3.9, 4.0, 4.1, 50.0])
    np.testing.assert_allclose(loss.expected(loss.score(mu)), mu)
    np.testing.assert_allclose(loss.losses(loss.score(mu), mu), 0, atol=1e-12)
    with pytest.raises(InputError, match="counts, which are not negative"):
        loss.prepare(np.array([1.0, -1.0]))


KINDS = (
    Squared(),
    Huber(delta=0.5),
    Logistic(),
    ORDINAL,
    Poisson(most=5.0),
    *3 * (Multinomial(0),),
    *2 * (Multinomial(1),),
)


def mixed_entries(m=14, seed=0):
    """Values of a column of each kind, with holes: of a class all of its columns are missing."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((m, len(KINDS)))
    values[:, 2] = np.where(values[:, 2] > 0, 1, -1)
    values[:, 3] = rng.choice(ORDINAL.levels, m)
    values[:, 4] = rng.poisson(3.0, m)
    values[:, 5:8] = np.eye(3)[rng.integers(3, size=m)]
    values[:, 8:] = np.eye(2)[rng.integers(2, size=m)]
    gone = rng.random((m, 7)) < 0.3
    return np.where(gone[:, [0, 1, 2, 3, 4, 5, 5, 5, 6, 6]], np.nan, values)


def test_a_loss_by_column_against_finite_differences():
    values = mixed_entries()
    rows, cols = np.nonzero(~np.isnan(values))
    whole = ByColumn(KINDS, tuple(np.linspace(-0.5, 0.5, len(KINDS))))
    loss, o = whole.at(rows, cols), values[rows, cols]
    x = np.random.default_rng(1).standard_normal(o.size)
    slopes = []
    for i in range(x.size):
        width = 1e-6 * (np.arange(x.size) == i)
        slopes.append((loss.value(x + width, o) - loss.value(x - width, o)) / 2e-6)
    np.testing.assert_allclose(loss.derivative(x, o), slopes, atol=1e-6)
    # Of each column it is the column's own loss, by its curvature.
    first = cols == 2
    alone = Logistic().value(x[first] + whole.offsets[2], o[first]) / 0.25
    assert loss.losses(x, o)[first].sum() == pytest.approx(alone)
    # Probabilities of classes: softmax by hand.
    row = rows[cols == 5][0]
    shifted = (x + np.array(whole.offsets)[cols])[(rows == row) & (cols >= 5) & (cols <= 7)]
    p = np.exp(shifted) / np.exp(shifted).sum()
    mine = loss.losses(x, o)[(rows == row) & (cols >= 5) & (cols <= 7)].sum()
    assert mine == pytest.approx(-2 * np.log(p[values[row, 5:8] == 1][0]))
    for seed in range(20):
        rng = np.random.default_rng(seed)
        y = x + 10.0 ** rng.uniform(-2, 1) * rng.standard_normal(x.size)
        bound = loss.value(x, o) + loss.derivative(x, o) @ (y - x) + np.sum((y - x) ** 2) / 2
        assert loss.value(y, o) <= bound + 1e-9


@pytest.mark.parametrize("transposed", [False, True])
def test_gradient_of_a_loss_by_column(transposed):
    seen = lorank.Observations.from_dense(mixed_entries())
    loss = ByColumn((*KINDS[:3], Ordinal(), *KINDS[4:]), (0.1,) * len(KINDS))  # with cuts that follow the factors
    problem = Problem(seen, FactoredNuclear(lam=0.1), 2, n_jobs=1, pointwise=loss)
    factors = problem.random_start(0)
    view = factors.transposed() if transposed else factors
    slope, _ = problem.gradient_left(view, transposed)
    for i, j in np.ndindex(len(view.left), 2):
        moved = []
        for width in (1e-6, -1e-6):
            left = view.left.copy()
            left[i, j] += width
            turned = type(view)(left, view.right, view.k, view.biased, view.offset)
            moved.append(problem.loss(turned.transposed() if transposed else turned))
        assert slope[i, j] == pytest.approx((moved[0] - moved[1]) / 2e-6, abs=1e-5)


@pytest.mark.parametrize("loss", [Squared(), Huber(delta=0.3), Logistic(), Ordinal(), Poisson(most=4.0)], ids=repr)
def test_one_kind_in_all_columns_is_that_loss(loss):
    seen = synthetic(m=40, n=30, rank=2, density=0.5, seed=1).train
    if isinstance(loss, Logistic):
        seen = seen.with_values(np.sign(seen.values))
    elif isinstance(loss, Poisson):
        seen = seen.with_values(np.round(np.abs(seen.values)))
    elif isinstance(loss, Ordinal):  # columns have cuts of their own: with one column they are those of all
        seen = lorank.Observations.from_dense(np.round(np.random.default_rng(0).standard_normal((60, 1))))
    n = seen.shape[1]
    given = lorank.Observations.from_coo(
        seen.rows, seen.cols, seen.values, seen.shape, weights=np.full(seen.nnz, loss.curvature)
    )
    params = {"rank": min(n, 2), "lam": 1.0, "theta": 0.5, "random_state": 0, "tol": 1e-10, "max_iter": 1000}
    one = lorank.MatrixCompletion("nnfn", loss=loss, **params).fit(seen)
    many = lorank.MatrixCompletion("nnfn", loss=ByColumn((loss,) * n, (0.0,) * n), **params).fit(given)
    assert many.history_["objective"][-1] == pytest.approx(one.history_["objective"][-1], rel=1e-6)
    np.testing.assert_allclose(many.result_.factors.dense(), one.result_.factors.dense(), atol=1e-3)
    assert np.all(np.diff(many.history_["objective"]) <= 1e-12)
