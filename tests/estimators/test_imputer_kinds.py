"""Tables whose columns are of every kind: what comes back, and how good it is."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.special import ndtri

import lorank
from lorank import InputError, LowRankImputer
from lorank.estimators.codes import Indicators, OrdinalScores, Scores
from lorank.estimators.coding import SCALES, Coding
from lorank.estimators.columns import Column, Layout, describe
from lorank.estimators.filling import Calibration
from lorank.losses import Huber, Logistic, Multinomial, Ordinal, Poisson, Squared

CLASSES = ("ok", "grade", "colour")
# Whole numbers that may be missing; float32 stays as it is.
TYPES = {pa.int8(): pd.Int8Dtype()}


@pytest.fixture(scope="module")
def mixed():
    """A pandas table of all kinds of columns that depend on two causes, with holes, and without."""
    rng = np.random.default_rng(0)
    n = 250
    causes = rng.standard_normal((n, 2))
    whole = pd.DataFrame(
        {
            "real": causes[:, 0] + 0.1 * rng.standard_normal(n),
            "size": np.exp(causes @ [1, 0.5]),
            "count": rng.poisson(3 * np.exp(0.5 * causes[:, 1])),
            "ok": causes @ [1, 1] + 0.3 * rng.standard_normal(n) > 0,
            "grade": pd.Categorical.from_codes(np.digitize(causes[:, 0], [-1, 0, 1]), list("dcba"), ordered=True),
            "colour": np.array(["red", "green", "blue"])[np.argmax(causes @ [[2, -1, -1], [0, 2, -2]], axis=1)],
            "when": pd.date_range("2024-01-01", periods=n),
            "level": np.round(3 * causes[:, 1]).astype(int),
        }
    ).astype({"count": "Int64", "level": "Int64", "ok": "boolean"})
    holes = whole.copy()
    for name in whole.columns:
        if name != "when":
            holes.loc[rng.random(n) < 0.25, name] = None if name not in ("count", "level", "ok") else pd.NA
    return holes, whole


@pytest.fixture(scope="module")
def filled(mixed):
    return lorank.complete(mixed[0])


def test_types_and_what_was_there_stay(mixed, filled):
    holes, _ = mixed
    assert (filled.dtypes == holes.dtypes).all()
    assert not filled.isna().any().any()
    for name in holes.columns:
        there = holes[name].notna()
        assert (filled[name][there] == holes[name][there]).all()


def test_what_is_filled_in_is_near_the_truth(mixed, filled):
    holes, whole = mixed
    for name in holes.columns.drop("when"):
        gaps = holes[name].isna().to_numpy()
        is_, was = filled[name].to_numpy()[gaps], whole[name].to_numpy()[gaps]
        if name in CLASSES:
            assert np.mean(is_ != was) < 0.6 * np.mean(whole[name].mode()[0] != was), name
        else:
            limit = 0.97 if name == "count" else 0.7  # counts are noise for the most part
            assert np.sqrt(np.mean((is_.astype(float) - was) ** 2)) < limit * whole[name].astype(float).std(), name


def test_polars_and_arrow_come_back_as_they_were(mixed):
    holes, _ = mixed
    arrow = pa.Table.from_pandas(holes[:80])
    answer = lorank.complete(arrow, scale="scores", rank=3)
    assert answer.schema.equals(arrow.schema)
    assert not any(column.null_count for column in answer.columns)
    polars = pl.from_arrow(arrow)
    answer = lorank.complete(polars, scale="scores", rank=3, kinds={"when": "id"})
    assert answer.schema == polars.schema
    assert sum(answer.null_count().row(0)) == 0


def test_new_rows_of_all_kinds(mixed):
    holes, _ = mixed
    imputer = LowRankImputer(method="bpmf", rank=3, scale="scores", max_iter=80).fit(holes[:200])
    later = imputer.transform(holes[200:])
    assert (later.dtypes == holes.dtypes).all()
    assert not later.isna().any().any()
    # A row comes out the same whatever the others are.
    pd.testing.assert_frame_equal(imputer.transform(holes[220:221]), later[20:21])
    strange = holes[200:].replace({"colour": {"red": "pink"}})
    with pytest.raises(InputError, match="level 'pink', which it did not have in fit"):
        imputer.transform(strange)


def test_draws_keep_types_and_differ(mixed):
    holes, _ = mixed
    imputer = LowRankImputer(method="bpmf", rank=3, scale="scores", max_iter=80).fit(holes)
    draws = imputer.draws(8)
    assert all((draw.dtypes == holes.dtypes).all() for draw in draws)
    gaps = holes["size"].isna()
    values = np.array([draw["size"][gaps] for draw in draws])
    assert (values.std(axis=0) > 0).all()
    assert (values > 0).all()
    with pytest.raises(InputError, match="draws of the posterior were kept"):
        imputer.draws(10_000)


def test_intervals_cover(mixed):
    holes, whole = mixed
    imputer = LowRankImputer(method="bpmf", rank=3, scale="scores", max_iter=80).fit(holes)
    spread = imputer.spread()
    names = [imputer.layout_.columns[j].name for j in imputer.layout_.used]
    inside = []
    for name in ("real", "size", "count", "level"):
        j, gaps = names.index(name), holes[name].isna().to_numpy()
        was = whole[name].to_numpy(float)[gaps]
        inside += list((spread.lower[gaps, j] <= was) & (was <= spread.upper[gaps, j]))
        assert np.isnan(spread.lower[~gaps, j]).all()
    # Binomial noise of the coverage is 2% here.
    assert 0.84 < np.mean(inside) < 0.97
    chances = spread.probability[:, names.index("colour")]
    right = (imputer.transform(holes)["colour"] == whole["colour"]).to_numpy()
    gaps = holes["colour"].isna().to_numpy()
    assert chances[gaps & right].mean() > chances[gaps & ~right].mean() + 0.03
    assert abs(np.mean(chances[gaps]) - np.mean(right[gaps])) < 0.15


@pytest.mark.parametrize("method", ["nnfn", "factored-nuclear"])
def test_each_column_has_its_loss_under_a_factored_method(mixed, method):
    holes, whole = mixed
    imputer = LowRankImputer(method=method, kinds={"size": "positive", "level": "heavy-tailed"}).fit(holes)
    found = [type(kind) for kind in imputer.model_.model_.loss.kinds]
    assert found == [Squared, Squared, Poisson, Logistic, Ordinal, Multinomial, Multinomial, Multinomial, Huber]
    filled = imputer.transform(holes)
    assert (filled.dtypes == holes.dtypes).all()
    assert not filled.isna().any().any()
    assert (filled["size"] > 0).all()
    assert filled["count"].between(0, holes["count"].max()).all()
    for name in holes.columns.drop("when"):
        gaps = holes[name].isna().to_numpy()
        is_, was = filled[name].to_numpy()[gaps], whole[name].to_numpy()[gaps]
        if name in CLASSES:
            assert np.mean(is_ != was) < 0.6 * np.mean(whole[name].mode()[0] != was), name
        else:
            assert np.sqrt(np.mean((is_.astype(float) - was) ** 2)) < 0.9 * whole[name].astype(float).std(), name
    # A row comes out the same whatever the others are, and the rows of the fit as they were fitted.
    pd.testing.assert_frame_equal(imputer.transform(holes[220:221]), filled[220:221])


def test_numbers_alone_have_the_squared_loss(table):
    holes, _ = table
    one, other = (LowRankImputer(method="nnfn", lam=0.5, rank=3, scale=scale).fit(holes) for scale in SCALES[1::2])
    assert one.model_.model_.loss == other.model_.model_.loss == Squared()
    np.testing.assert_array_equal(one.transform(holes), other.transform(holes))


def test_huber_is_for_numbers_with_outliers():
    rng = np.random.default_rng(0)
    whole = rng.standard_normal((150, 1)) @ rng.standard_normal((1, 6)) + 0.1 * rng.standard_normal((150, 6))
    wild = whole.copy()
    wild[rng.random(whole.shape) < 0.05] += 50
    gaps = rng.random(whole.shape) < 0.2
    holes = np.where(gaps, np.nan, wild)
    errors = {}
    for kind in ("real", "heavy-tailed"):
        imputer = LowRankImputer(method="nnfn", kinds=dict.fromkeys(range(6), kind), rank=1, lam=1.0)
        errors[kind] = np.sqrt(np.mean((imputer.fit_transform(holes) - whole)[gaps] ** 2))
    assert errors["heavy-tailed"] < 0.2 * errors["real"]


@pytest.mark.parametrize("trees", [False, True])
def test_chances_of_classes_are_those_of_being_right(trees):
    rng = np.random.default_rng(0)
    causes = rng.standard_normal((400, 2))
    noise = 0.1 * rng.standard_normal((400, 6))
    scores = causes @ np.array([[2, -1, -1], [0, 2, -2]]) + noise[:, 3:]
    whole = pd.DataFrame(
        {
            "a": causes[:, 0] + noise[:, 0],
            "b": causes @ [1, 0.5] + noise[:, 1],
            "c": causes[:, 1] + noise[:, 2],
            "colour": pd.Categorical(np.array(["red", "green", "blue"])[scores.argmax(axis=1)]),
        }
    )
    holes = whole.mask(rng.random(whole.shape) < 0.3)
    imputer = LowRankImputer(method="bpmf", rank=3, scale="scores", trees=trees).fit(holes)
    gaps = holes["colour"].isna().to_numpy()
    right = (imputer.transform(holes)["colour"] == whole["colour"]).to_numpy()[gaps]
    chances = {}
    for name in ("found", "none"):
        chances[name] = imputer.spread().probability[gaps, 3]
        imputer.calibration_ = Calibration()
    if trees:  # A logistic regression has them as they are.
        assert abs(chances["none"].mean() - right.mean()) < 0.08
    else:  # As the sampler has them they are too cautious, where classes lie well apart.
        assert chances["none"].mean() < right.mean() - 0.1
    assert abs(chances["found"].mean() - right.mean()) < 0.08
    logs = {name: np.log(np.where(right, p, 1 - p)).mean() for name, p in chances.items()}
    assert logs["found"] > logs["none"] - (0.02 if trees else 0)


def test_intervals_are_widened_to_cover_held_out_cells():
    """Outliers that normal noise knows nothing of."""
    rng = np.random.default_rng(0)
    whole = rng.standard_normal((300, 1)) + 0.3 * rng.standard_t(1.5, (300, 5))
    holes = np.where(rng.random(whole.shape) < 0.2, np.nan, whole)
    imputer = LowRankImputer(method="bpmf", rank=1, scale="standard", max_iter=80).fit(holes)
    spread, gaps = imputer.spread(), np.isnan(holes)
    assert imputer.calibration_.widening >= 1
    plain = interval_width(imputer, Calibration())
    assert interval_width(imputer, Calibration(widening=2.0)) == pytest.approx(2 * plain)
    assert 0.85 < np.mean(((spread.lower <= whole) & (whole <= spread.upper))[gaps]) < 0.97


def interval_width(imputer, calibration):
    imputer.calibration_ = calibration
    spread = imputer.spread()
    return np.nanmean(spread.upper - spread.lower)


def test_indicators_are_added(mixed):
    holes, _ = mixed
    imputer = LowRankImputer(rank=2, lam=0.5, add_indicator=True).fit(holes)
    filled = imputer.transform(holes)
    assert list(filled.columns) == list(imputer.get_feature_names_out())
    np.testing.assert_array_equal(filled["missingindicator_ok"], holes["ok"].isna())
    array = np.array([[1.0, np.nan], [2.0, 3.0], [4.0, 5.0]])
    out = LowRankImputer(rank=1, lam=0.1, add_indicator=True).fit_transform(array)
    np.testing.assert_array_equal(out[:, 2], [1, 0, 0])


def test_bounds_hold():
    rng = np.random.default_rng(1)
    cause = rng.standard_normal(200)
    X = np.column_stack([cause, 1 / (1 + np.exp(-3 * cause)), np.exp(2 * cause)])
    holes = np.where(rng.random(X.shape) < 0.4, np.nan, X)
    kinds = {1: ("bounded", 0, 1), 2: "positive"}
    for params in ({"rank": 1, "lam": 0.1}, {"method": "bpmf", "scale": "standard", "rank": 1, "max_iter": 60}):
        filled = LowRankImputer(kinds=kinds, **params).fit_transform(holes)
        assert (filled[:, 1] >= 0).all()
        assert (filled[:, 1] <= 1).all()
        assert (filled[:, 2] > 0).all()


@pytest.mark.parametrize(
    ("cells", "kind", "message"),
    [
        ([0.5, 1.0], "count", "no whole number"),
        ([-1.0, 1.0], "positive", "cannot be of kind 'positive'"),
        ([1.0, 2.0, 3.0], "binary", "3 levels"),
        ([1.0, 2.0], "colourful", "there are real, heavy-tailed, positive"),
        ([0.0, 2.0], ("bounded", 0, 1), "beyond 0 to 1"),
        ([0.0, 2.0], ("bounded", 1, 0), "low < high"),
        (["a", "b"], "real", "holds no numbers"),
        (["a", "b"], ("ordinal", "a", "c"), "has the level 'b', which is not among those"),
    ],
)
def test_wrong_kinds_are_refused(cells, kind, message):
    with pytest.raises(InputError, match=message):
        describe("x", np.array(cells), kind)


def test_kinds_of_no_column_and_ids():
    frame = pd.DataFrame({"id": range(30), "x": np.arange(30) % 7 + 0.5})
    with pytest.raises(InputError, match="kinds names 'y'"):
        LowRankImputer(kinds={"y": "count", "id": "id"}).fit(frame)
    with pytest.warns(UserWarning, match="look like ids: 'id'"):
        Layout.of(frame)
    assert Layout.of(frame, {"id": "id"}).used == [1]


def test_text_that_looks_like_names_stays_and_is_pointed_out():
    names = [f"p{i}" for i in range(30)]
    frame = pd.DataFrame({"x": np.arange(30) % 7 + 0.5, "name": names, "town": ["a", "b", "c"] * 10})
    frame.loc[3, ["x", "name", "town"]] = None
    with pytest.warns(UserWarning, match=r"looks like names, and stays as it is: 'name'\."):
        filled = lorank.complete(frame)
    assert filled["name"].isna().sum() == 1
    assert not filled[["x", "town"]].isna().any().any()
    many = [f"t{i % 51}" for i in range(200)]
    assert describe("t", many).kind == "id"
    assert describe("t", many, "categorical").kind == "categorical"
    # Categories that a type lists are classes, whatever they are; and two different texts are too few to say.
    assert describe("t", names, levels=names).kind == "categorical"
    assert describe("t", ["yes", "no"]).kind == "binary"


def test_narrow_types_decimals_and_columns_of_nothing():
    rng = np.random.default_rng(0)
    x = np.where(rng.random(40) < 0.2, np.nan, rng.standard_normal(40))
    there = [None if value != value else value for value in x.tolist()]
    columns = {
        "f": pa.array(there, pa.float32()),
        "d": pa.array([None if v is None else Decimal(f"{v:.2f}") for v in reversed(there)], pa.decimal128(8, 2)),
        "i": pa.array([None if v is None else int(3 * v) for v in there], pa.int8()),
        "n": pa.nulls(40),
    }
    table = pa.table(columns)
    for frame in (table, pl.from_arrow(table), table.select(["f", "i"]).to_pandas(types_mapper=TYPES.get)):
        filled = lorank.complete(frame, trees=False, scale="standard", max_iter=10)
        if isinstance(filled, pd.DataFrame):
            assert (filled.dtypes == frame.dtypes).all()
            assert not filled.isna().any().any()
        else:
            assert filled.schema == frame.schema
            missing = [
                column.null_count() if isinstance(frame, pl.DataFrame) else column.null_count
                for column in (filled["f"], filled["d"], filled["i"], filled["n"])
            ]
            assert missing == [0, 0, 0, 40]


def test_levels_are_given_in_their_order():
    column = describe("risk", ["low", "high", None, "middle", "low"], ("ordinal", "low", "middle", "high", "highest"))
    assert column.kind == "ordinal"
    assert column.levels.tolist() == ["low", "middle", "high"]
    np.testing.assert_array_equal(column.numbers(["low", "high", None]), [0.0, 2.0, np.nan])


def test_scores_are_normal_quantiles_and_come_back():
    values = np.random.default_rng(0).gamma(1.0, size=99)
    code = Scores.of(Column("x", "real"), values, np.ones(99))
    z = code.encode(values)[:, 0]
    np.testing.assert_allclose(np.sort(z), ndtri((np.arange(99) + 0.5) / 99))
    np.testing.assert_allclose(code.number(z[:, None]), values)
    # The expectation of a function of a normal variable, against a million draws.
    draws = code.number((0.3 + 0.5 * np.random.default_rng(1).standard_normal(1_000_000))[:, None])
    assert code.expected(np.array([[0.3]]), np.array([[0.5]]))[0] == pytest.approx(draws.mean(), rel=0.01)


def test_scores_of_levels_are_conditional_means():
    numbers = np.repeat([0.0, 1.0, 2.0], [30, 50, 20])
    code = OrdinalScores.of(Column("x", "ordinal", np.array(["a", "b", "c"], object)), numbers, np.ones(100))
    z = np.random.default_rng(0).standard_normal(1_000_000)
    level = np.searchsorted(code.cuts, z)
    np.testing.assert_allclose(np.bincount(level) / z.size, [0.3, 0.5, 0.2], atol=0.002)
    np.testing.assert_allclose(code.scores, [z[level == number].mean() for number in range(3)], atol=0.005)
    np.testing.assert_allclose(code.chances(np.array([[0.0]]), np.array([[1.0]]))[0], [0.3, 0.5, 0.2])


def test_indicators_give_shares_back():
    numbers = np.repeat([0.0, 1.0, 2.0], [30, 50, 20])
    code = Indicators.of(Column("x", "categorical", np.array(["a", "b", "c"], object)), numbers, np.ones(100))
    assert code.width == 2  # all but the commonest
    np.testing.assert_array_equal(code.expected(code.encode(numbers), np.zeros((100, 2))), numbers)
    # Where nothing is known, levels come about as often as they were seen.
    chances = code.chances(np.zeros((1000, 2)), np.ones((1000, 2)))
    np.testing.assert_allclose(chances[0], [0.3, 0.5, 0.2], atol=0.06)
    drawn = code.drawn(np.zeros((1000, 2)), np.ones((1000, 2)), np.zeros((1000, 2)), (np.arange(1000) + 0.5) / 1000)
    np.testing.assert_allclose(np.bincount(drawn.astype(int)) / 1000, chances[0], atol=0.002)


def test_one_scale_whatever_the_unit():
    """Fills do not depend on the units of the columns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 2)) @ rng.standard_normal((2, 6)) + 0.1 * rng.standard_normal((80, 6))
    X[rng.random(X.shape) < 0.3] = np.nan
    units = np.array([1e-6, 1e5, 1.0, 3.0, 1e3, 7.0])
    one = LowRankImputer().fit_transform(X)
    other = LowRankImputer().fit_transform(X * units) / units
    np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


def test_weak_columns_are_filled_with_means():
    X = np.random.default_rng(0).standard_normal((200, 3))
    X[::4, 1] = np.nan
    imputer = LowRankImputer().fit(X)
    filled = imputer.transform(X)
    assert np.abs(filled[::4, 1] - np.nanmean(X[:, 1])).max() < 0.3
    assert all(error > 0.9 for error in imputer.errors_.values())


def test_coding_widths():
    columns = [Column("a", "real"), Column("b", "categorical", np.array(list("xyz"), object))]
    cells = np.array([[1.0, 0.0], [2.0, 1.0], [np.nan, 2.0], [4.0, np.nan]])
    coding = Coding(columns, cells, "standard")
    codes = coding.encode(cells)
    assert codes.shape == (4, 3)
    np.testing.assert_array_equal(np.isnan(codes), [[0, 0, 0], [0, 0, 0], [1, 0, 0], [0, 1, 1]])


def test_covariance_between_columns_is_shrunk_down_to_means():
    rng = np.random.default_rng(2)
    whole = rng.standard_normal((60, 1)) @ np.ones((1, 5)) + 0.3 * rng.standard_normal((60, 5))
    holes = np.where(rng.random(whole.shape) < 0.3, np.nan, whole)
    imputer = LowRankImputer(trees=False).fit(holes)
    _, S = replace(imputer.filling_, shrinkage=0.0).columns(imputer.model_)
    _, half = replace(imputer.filling_, shrinkage=0.5).columns(imputer.model_)
    np.testing.assert_allclose(half, np.where(np.eye(5), S, S / 2))
    # Without covariance a row says nothing of its own gaps.
    imputer.filling_ = replace(imputer.filling_, shrinkage=1.0)
    filled = imputer.transform(holes)
    assert all(np.ptp(filled[np.isnan(holes[:, j]), j]) < 1e-9 for j in range(5))


def test_of_many_rows_a_sample_is_fitted_and_all_are_filled(monkeypatch):
    monkeypatch.setattr("lorank.estimators.filling.FITTED_ROWS", 150)
    monkeypatch.setattr("lorank.estimators.filling.ROWS_FOR_EACH", 1)
    rng = np.random.default_rng(3)
    whole = rng.standard_normal((600, 2)) @ rng.standard_normal((2, 6)) + 0.2 * rng.standard_normal((600, 6))
    holes = np.where(rng.random(whole.shape) < 0.2, np.nan, whole)
    imputer = LowRankImputer().fit(holes)
    assert len(imputer.model_.result_.factors.left) == 150
    gaps = np.isnan(holes)
    assert np.sqrt(np.mean((imputer.transform(holes) - whole)[gaps] ** 2)) < 0.4 * whole.std()
    assert imputer.spread().lower.shape == whole.shape


def test_scores_of_many_values_are_known_at_some_of_them():
    values = np.random.default_rng(4).exponential(size=20_000)
    code = Scores.of(Column("x", "real"), values, np.ones(values.size))
    assert code.values.size <= 4000
    codes = code.encode(values)
    assert np.abs(np.sort(codes[:, 0]) - ndtri((np.arange(values.size) + 0.5) / values.size)).max() < 0.01
    np.testing.assert_allclose(code.number(codes), values, atol=1e-9)
