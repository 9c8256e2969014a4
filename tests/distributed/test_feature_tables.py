"""Tables of features of a folder: the arithmetic of memory, the same bits on Ray, and models that know them."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from test_folder_sampler import NAMES, assert_same_draws, problem_of

import lorank
from lorank import InputError, MatrixCompletion, Observations, registry
from lorank.distributed import directions, fit, parts
from lorank.distributed.directions import who_rated_what
from lorank.distributed.feature_tables import SideFeatures, Tables
from lorank.distributed.featured import FeaturedFolderProblem, FolderData
from lorank.distributed.kept_draws import gathered
from lorank.distributed.sampling import ShardBPMF
from lorank.problems import Problem
from lorank.side_information import Features, GraphLaplacian
from lorank.solvers import Alternating, Stopping, solve
from lorank.solvers.gibbs import BPMF

pd = pytest.importorskip("pandas")
M, N, NEW = 205, 60, 5


@pytest.fixture(autouse=True)
def few_parts(monkeypatch):
    monkeypatch.setattr(parts, "PARTS", 7)


@pytest.fixture(scope="module")
def world():
    """Tastes by age and kind; the last five users have no entry, and the table has its lines in another order."""
    rng = np.random.default_rng(0)
    age, kind = rng.uniform(20, 60, M), rng.choice(["a", "b"], M)
    taste = np.column_stack([(age - 40) / 10, np.where(kind == "a", 1.0, -1.0)])
    X = taste @ rng.standard_normal((2, N)) + 3 + 0.3 * rng.standard_normal((M, N))
    names = np.array([f"user-{number:03}" for number in range(M)])
    users = pd.DataFrame({"age": age, "kind": kind}, index=names).sample(frac=1, random_state=0)
    rows, cols = np.nonzero(rng.random((M - NEW, N)) < 0.12)
    return names, users, X, Observations.from_ids(names[rows], cols, X[rows, cols])


@pytest.fixture
def files(world, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (tmp_path / "ratings").mkdir()
    seen = world[3]
    for number in range(2):
        part = slice(number, None, 2)
        table = {"u": world[0][seen.rows[part]], "i": seen.cols[part], "v": seen.values[part]}
        pq.write_table(pa.table(table), tmp_path / "ratings" / f"{number}.parquet")
    return tmp_path / "ratings"


@pytest.fixture(scope="module")
def featured():
    """A matrix without ids, features of all rows but two, which are at the mean, and of all columns; ten rows have no
    entry."""
    rng = np.random.default_rng(1)
    F, G = rng.standard_normal((90, 5)), rng.standard_normal((70, 3))
    X = (F[:, :2] + 0.5 * rng.standard_normal((90, 2))) @ rng.standard_normal((2, 70)) + 1
    rows, cols = np.nonzero((rng.random(X.shape) < 0.2) & (np.arange(90) % 9 > 0)[:, None])
    known = np.setdiff1d(np.arange(90), [3, 50])
    seen = Observations.from_coo(rows, cols, X[rows, cols], X.shape)
    return seen, SideFeatures(Features(F[known]), known, 90), SideFeatures(Features(G), np.arange(70), 70)


def spread(side):
    """The features of a side as memory has them."""
    matrix = np.zeros((side.lines, side.features.matrix.shape[1]))
    matrix[side.positions] = side.features.matrix
    return Features(matrix)


@pytest.mark.parametrize(("rank", "biased"), [(3, False), (3, True), (36, False)])
@pytest.mark.parametrize("method", ["nnfn", "factored-nuclear"])
def test_point_estimates_have_the_arithmetic_of_memory(featured, rank, biased, method):
    seen, rows, cols = featured
    ridges = (2.0, 3.0) if biased else None
    regularizer = registry.find(method).build_regularizer(1.5)
    plain = problem_of(seen, rank, ridges)
    known = rows.directions(plain.engine, "rows"), cols.directions(plain.engine, "cols")
    far = FeaturedFolderProblem(
        plain.observations, regularizer, rank, ridges, engine=plain.engine, known=known, feature_ridge=0.7
    )
    sides = [spread(side).with_ridge(0.7) for side in (rows, cols)]
    near = Problem(seen, regularizer, rank, ridges, row_side=sides[0], col_side=sides[1])
    with pytest.warns(ConvergenceWarning):
        found, expected = (solve(Alternating(), one, stopping=Stopping(1e-12, 15), seed=3) for one in (far, near))
    np.testing.assert_allclose(found.history.objective, expected.history.objective, rtol=1e-6)
    products = [gathered(far.engine, own)[:, :rank] for own in (found.factors.left, found.factors.right)]
    np.testing.assert_allclose(products[0] @ products[1].T, expected.factors.W @ expected.factors.H.T, atol=5e-3)
    # Without the features it would be another one.
    without = Problem(seen, regularizer, rank, ridges)
    with pytest.warns(ConvergenceWarning):
        other = solve(Alternating(), without, stopping=Stopping(1e-12, 15), seed=3)
    assert abs(other.objective / expected.objective - 1) > 0.01


@pytest.mark.parametrize(("rank", "improved"), [(3, False), (34, True)])
def test_half_steps_with_a_pull_are_those_of_memory(featured, rank, improved):
    seen, rows, cols = featured
    ridges, plain = None if improved else (2.0, 3.0), problem_of(seen, rank, None)
    known = rows.directions(plain.engine, "rows"), cols.directions(plain.engine, "cols")
    about = {"engine": plain.engine, "known": known, "feature_ridge": 0.7}
    far = FeaturedFolderProblem(plain.observations, None, rank, ridges, **about)
    sides = [spread(side).with_ridge(0.7) for side in (rows, cols)]
    near = Problem(seen, None, rank, ridges, row_side=sides[0], col_side=sides[1])
    rng = np.random.default_rng(0)
    ridge, pull = (np.cov(rng.standard_normal((rank, 3 * rank))) for _ in range(2))
    for transposed in (False, True):
        solved = []
        for problem in (far, near):
            factors = problem.random_start(4)
            factors = factors.transposed() if transposed else factors
            step = problem.improved_regressions if improved else problem.ridge_regressions
            solved.append(step(factors, ridge, pull, transposed=transposed))
        (left, loss), (expected, expected_loss) = solved
        np.testing.assert_allclose(gathered(far.engine, left), expected, atol=1e-5)
        assert loss == pytest.approx(expected_loss, rel=1e-6)


def test_with_a_known_noise_it_is_the_chain_of_memory(featured):
    seen, rows, cols = featured
    plain = problem_of(seen, 3, (1.0, 1.0))
    far = replace(plain, known=(rows.directions(plain.engine, "rows"), cols.directions(plain.engine, "cols")))
    # Directions have a sign: those of memory are to be the same.
    near = Problem(seen, None, 3, (1.0, 1.0), row_side=spread(rows), col_side=spread(cols))
    for side, own in ((near.row_side, far.known[0]), (near.col_side, far.known[1])):
        U = gathered(plain.engine, own.U)[:, : own.squares.size]
        np.testing.assert_allclose(np.abs(U.T @ side.directions().U), np.eye(own.squares.size), atol=1e-5)
        side._found[:] = [replace(side.directions(), U=np.ascontiguousarray(U))]
    samplers = ShardBPMF(noise=0.3), BPMF(noise=0.3)
    chains = [sampler.init(problem, None, 3) for sampler, problem in zip(samplers, (far, near))]
    for _ in range(20):
        chains = [sampler.step(*both) for sampler, both in zip(samplers, zip((far, near), chains))]
    assert chains[1].rows.hyper.coefficients is not None
    np.testing.assert_allclose(
        gathered(far.engine, chains[0].factors.left), chains[1].factors.left, atol=1e-3, rtol=1e-3
    )


def test_beside_who_rated_what_directions_are_those_of_memory(featured):
    seen, rows, _ = featured
    engine = problem_of(seen, 2, None).engine
    found, plain = who_rated_what(engine, seen.shape, (rows.directions(engine, "rows"), None))
    implicit = Features.implicit(seen, counts=True)
    for own, features in ((found, spread(rows).beside(implicit[0])), (plain, implicit[1])):
        exact = features.directions()
        strong = exact.squares > 2
        U = gathered(engine, own.U)[:, : own.squares.size]
        np.testing.assert_allclose(own.squares[: strong.sum()], exact.squares[strong], rtol=1e-4)
        np.testing.assert_allclose(np.linalg.norm(U.T @ exact.U[:, strong], axis=0), 1, atol=1e-3)
        assert own.mean_square == pytest.approx(exact.mean_square, rel=0.02)


@pytest.mark.parametrize("side", [0, 1])
def test_new_lines_have_coordinates_by_what_they_rated(featured, side, monkeypatch):
    seen, rows, _ = featured
    plain = problem_of(seen, 2, None)
    data = FolderData(plain, (rows, None))
    known = data.known("implicit")
    found = data.maps(replace(plain, known=known), None)[side]
    implicit = Features.implicit(seen, counts=True)[side]
    F = (spread(rows).beside(implicit) if side == 0 else implicit).matrix.toarray()
    U = gathered(plain.engine, known[side].U)[:, : known[side].squares.size]
    np.testing.assert_allclose(found.lift, F.T @ U / known[side].squares, atol=1e-4, rtol=1e-3)
    assert [one.kind for one in found.encodings] == ["implicit", "counts"]
    monkeypatch.setattr(directions, "LIFT", 1000)
    assert data.maps(replace(plain, known=known), None)[side] is None


def test_both_kinds_together_fold_in_as_in_memory(world, files, tmp_path):
    names, users, X, seen = world
    params = {**DRAWN, "max_iter": 200, "features": "implicit"}
    model = fit(files, **NAMES, **params, row_side=users, backend="out-of-core", output=tmp_path / "model")
    near = MatrixCompletion(**params, row_side=users, random_state=0).fit(seen).model_
    saved, later = lorank.load(tmp_path / "model"), users.loc[names[M - NEW :]].set_axis(list("abcde"))
    chosen = np.random.default_rng(0).random((NEW, N)) < 0.1
    rows, cols = np.nonzero(chosen)
    few = Observations.from_ids(np.array(list("abcde"))[rows], cols, X[M - NEW + rows, cols])
    assert saved.features[0].explicit == model.features[0].explicit != ()
    here, there = (
        one.fold_in(few, features=later).predict(np.repeat(list("abcde"), N), np.tile(np.arange(N), NEW))
        for one in (saved, near)
    )
    assert np.sqrt(np.mean((here - there) ** 2)) < 0.15 * there.std()
    assert np.sqrt(np.mean((here - X[M - NEW :].ravel()) ** 2)) < 0.3 * X[M - NEW :].std()


POINT = {"method": "factored-nuclear", "rank": 3, "lam": 1.0, "tol": 1e-9}
DRAWN = {"method": "bpmf", "rank": 4, "biases": True, "max_iter": 24}


def test_a_fit_of_a_folder_is_that_of_memory(world, files, tmp_path):
    names, users, X, seen = world
    model = fit(files, **NAMES, **POINT, row_side=users, backend="out-of-core", output=tmp_path / "model")
    near = MatrixCompletion(**POINT, row_side=users, features=None, random_state=0).fit(seen).model_
    rows, cols = np.repeat(names, N), np.tile(np.arange(N), M)
    assert model.shape == (M, N)
    # The problem is convex, but for its rank: any start ends there.
    np.testing.assert_allclose(model.predict(rows, cols), near.predict(rows, cols), atol=2e-3)
    new = slice((M - NEW) * N, None)
    error = np.sqrt(np.mean((model.predict(rows[new], cols[new]) - X[M - NEW :].ravel()) ** 2))
    assert error < 0.3 * X[M - NEW :].std()
    later = pd.DataFrame({"age": [25.0, 58.0], "kind": ["a", "b"]}, index=["Ann", "Bob"])
    few = Observations.from_ids(np.array(["Ann", "Ann"]), np.array([1, 5]), np.array([3.0, 4.0]))
    saved = lorank.load(tmp_path / "model")
    for given in (None, few):
        folded = [one.fold_in(given, features=later) for one in (saved, near)]
        for name in later.index:
            here, there = (one.predict(name, np.arange(N)) for one in folded)
            np.testing.assert_allclose(here, there, atol=5e-3)
    with pytest.raises(InputError, match="The row_side that this model was fitted with, 3 features of 205 lines"):
        MatrixCompletion.from_model(saved).partial_fit(few)


def test_draws_of_a_folder_say_what_those_of_memory_say(world, files, tmp_path):
    names, users, X, seen = world
    params = {**DRAWN, "max_iter": 200}
    model = fit(files, **NAMES, **params, row_side=users, backend="out-of-core", output=tmp_path / "model")
    near = MatrixCompletion(**params, row_side=users, features=None, random_state=0).fit(seen).model_
    rows, cols = np.repeat(names[M - NEW :], N), np.tile(np.arange(N), NEW)
    errors = [np.sqrt(np.mean((one.predict(rows, cols) - X[M - NEW :].ravel()) ** 2)) for one in (model, near)]
    assert errors[0] == pytest.approx(errors[1], rel=0.15)
    assert errors[0] < 0.3 * X[M - NEW :].std()
    saved, later = lorank.load(tmp_path / "model"), users.iloc[:8].set_axis(list("abcdefgh"))
    at = np.repeat(list(later.index), N), np.tile(np.arange(N), 8)
    folded = [one.fold_in(features=later) for one in (saved, near)]
    here, there = (one.predict(*at) for one in folded)
    assert np.sqrt(np.mean((here - there) ** 2)) < 0.1 * there.std()
    widths = [one.predict_std(*at).mean() for one in folded]
    assert widths[0] == pytest.approx(widths[1], rel=0.15)
    saved.loaded().save(tmp_path / "one.lorank")
    again = lorank.load(tmp_path / "one.lorank").fold_in(features=later)
    np.testing.assert_allclose(again.predict(*at), here, rtol=1e-4)


@pytest.mark.parametrize(
    ("params", "workers"),
    [(POINT, 3), (DRAWN, 2), pytest.param({**DRAWN, "features": "implicit"}, 2, marks=pytest.mark.slow)],
    ids=["point", "drawn", "with who rated what"],
)
def test_the_same_bits_on_ray_and_after_a_cut(world, files, tmp_path, session, params, workers):
    given = {**NAMES, **params, "row_side": world[1], "validation": 0.1}
    alone = fit(files, **given, backend="out-of-core")
    assert_same(fit(files, **given, workers=workers), alone)
    local = {**given, "backend": "out-of-core", "checkpoint": tmp_path / "c"}
    fit(files, **local, callbacks=[lambda progress: progress.iteration == 7])
    with pytest.raises(InputError, match="belongs to another fit"):
        fit(files, **{**local, "row_side": world[1].assign(age=1.0)})
    assert_same(fit(files, **local), alone)


def assert_same(one, other):
    if one.posterior is not None:
        assert_same_draws(one, other)
        for mine, theirs in zip(one.posterior.priors, other.posterior.priors):
            for here, there in zip(mine.arrays, theirs.arrays):
                np.testing.assert_array_equal(here, there)
    np.testing.assert_array_equal(one.factors.left, other.factors.left)
    np.testing.assert_array_equal(one.factors.right, other.factors.right)


def test_the_search_knows_the_sample_of_the_table(world, files):
    names, users, X, _ = world
    films = pd.DataFrame({"flag": np.arange(N) % 2}, index=pd.Index(np.arange(N), name="i"))
    model = fit(files, **NAMES, method="nnfn", row_side=users, col_side=films, backend="out-of-core")
    assert model.setting.feature_ridge is not None
    rows, cols = np.repeat(names[M - NEW :], N), np.tile(np.arange(N), NEW)
    assert np.sqrt(np.mean((model.predict(rows, cols) - X[M - NEW :].ravel()) ** 2)) < 0.4 * X[M - NEW :].std()
    kinds = {trial["candidate"] for trial in fit(files, **NAMES, row_side=users, backend="out-of-core").trials}
    assert {"NNFN", "sampler", "sampler + who rated what"} <= kinds


def test_lines_of_a_sample_have_their_own_features():
    side = SideFeatures(Features(np.arange(6.0).reshape(3, 2)), np.array([1, 4, 7]), 9)
    np.testing.assert_array_equal(side.at(np.array([7, 0, 1, 8])).matrix, [[4, 5], [0, 0], [0, 1], [0, 0]])


def test_several_tables_of_different_lines_stand_side_by_side():
    one = pd.DataFrame({"age": [1.0, 3.0]}, index=["a", "b"])
    other = pd.DataFrame({"kind": ["x", "y", "x"]}, index=["c", "b", "d"])
    side = Tables.of([one, other], "rows").joined([np.array([0, 1]), np.array([2, 1, 5])], 6)
    np.testing.assert_array_equal(side.positions, [0, 1, 2, 5])
    matrix = side.features.matrix.toarray() if hasattr(side.features.matrix, "toarray") else side.features.matrix
    np.testing.assert_allclose(matrix, [[-1, 0, 0], [1, 0, 1], [0, 1, 0], [0, 1, 0]])


def test_wrong_tables_are_refused(world, files):
    users = world[1]
    local = {**NAMES, **POINT, "backend": "out-of-core"}
    for given, what in (
        (users.reset_index(drop=True), "such as a DataFrame with ids as its index; got a table without ids"),
        (np.zeros((M, 2)), "got ndarray"),
        (users.set_axis(range(7, 7 + M)), "The features of rows have ids of type int64, and the folder's are"),
        (
            users.set_axis([f"x{name}" for name in users.index]),
            r"No id of the data is among .* the data's begin with 'u",
        ),
        (pd.concat([users, users]), "An id comes twice"),
    ):
        with pytest.raises(InputError, match=what):
            fit(files, **local, row_side=given)
    with pytest.raises(InputError, match=r"Features of the rows of a folder are a table .* got GraphLaplacian"):
        fit(files, **local, row_side=GraphLaplacian.from_adjacency(np.ones((3, 3)) - np.eye(3)))
