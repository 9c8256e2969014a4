"""compare: one split, the same search for all, and rows for those that fail."""

import numpy as np
import pytest

import lorank
from lorank.errors import InputError
from lorank.problems.offsets import empirical_bayes_offsets
from lorank.regularizers import SchattenP


def test_a_tidy_table_best_first(small_problem, tmp_path):
    table = lorank.compare(
        small_problem.train, ["nuclear", "nnfn", "mcp", "fgsr"], ranks=(3,), trials=6, budget=30.0, seed=0
    )
    assert set(table["method"]) == {"nuclear", "nnfn", "mcp", "fgsr"}
    assert table["error"] == sorted(table["error"])
    assert all(0.1 < error < 0.2 for error in table["error"])
    assert table["trials"] == [6] * 4
    assert all(row["parameters"]["rank"] == 3 and row["seconds"] < row["search"] for row in table)
    assert table["reason"] == [""] * 4
    table.plot(tmp_path / "errors.png")
    assert (tmp_path / "errors.png").stat().st_size > 5000
    assert "nuclear" in str(table)
    again = lorank.compare(small_problem.train, ["nnfn"], ranks=(3,), trials=6, seed=0)
    assert again["error"] == [row["error"] for row in table if row["method"] == "nnfn"]


def test_what_fails_or_is_late_is_a_row_with_the_reason(small_problem):
    # t = 3 of truncated l1-2's search is not less than the rank; a budget of next to nothing leaves no time for any.
    table = lorank.compare(small_problem.train, ["truncated-l12", "nnfn"], ranks=(1,), trials=4, seed=0)
    rows = {row["method"]: row for row in table}
    assert rows["truncated-l12"]["reason"].startswith("failed: t must be less than the rank")
    assert rows["truncated-l12"]["error"] is None
    assert rows["nnfn"]["reason"] == ""
    late = lorank.compare(small_problem.train, ["nnfn"], budget=1e-9)
    assert late["reason"] == ["out of time after 1 of 32 trials"]


def test_what_is_chosen_by_itself_is_a_row_of_its_own(small_problem):
    table = lorank.compare(small_problem.train, ["auto", "offsets"], seed=0)
    assert table["method"] == ["auto", "offsets"]
    assert table["trials"][0] > 1
    rest, tested = small_problem.train.split(0.2, 0)
    train, checked = rest.split(0.25, 0)
    alone = lorank.MatrixCompletion(random_state=0, max_seconds=60.0).fit(train, validation=checked)
    assert table["parameters"][0]["method"] == alone.model_.method
    assert table["error"][0] == -alone.score(tested)


def test_offsets_alone_are_a_row_of_their_own(small_problem):
    """Rank 5 and no offsets: everything is better than they are, and their error is that of the values themselves."""
    table = lorank.compare(small_problem.train, ["offsets", "nnfn"], ranks=(5,), trials=6, seed=0)
    assert table["method"] == ["nnfn", "offsets"]
    row = table.rows[1]
    assert (row["rank"], row["trials"], row["parameters"], row["reason"]) == (0, 1, {}, "")
    rest, tested = small_problem.train.split(0.2, 0)
    found = empirical_bayes_offsets(rest.split(0.25, 0)[0]).predict(tested.rows, tested.cols)
    assert row["error"] == pytest.approx(((found - tested.values) ** 2).mean() ** 0.5)


def test_what_compare_refuses(small_problem):
    for wrong in ({"trials": 0}, {"budget": 0}, {"validation": 0.6, "test": 0.5}, {"ranks": (1000,)}):
        with pytest.raises(InputError):
            lorank.compare(small_problem.train, ["nnfn"], **wrong)
    with pytest.raises(InputError, match="Unknown method"):
        lorank.compare(small_problem.train, ["svd"])


def test_regularizers_are_compared_as_they_are_and_classes_searched(small_problem):
    methods = [SchattenP(p=0.7), SchattenP, "mcp"]
    table = lorank.compare(small_problem.train, methods, ranks=(3,), trials=6, seed=0)
    rows = {row["method"]: row for row in table}
    assert set(rows) == {"schatten-p(p=0.7)", "schatten-p", "mcp"}
    assert set(rows["schatten-p(p=0.7)"]["parameters"]) == {"rank", "lam"}
    assert rows["schatten-p"]["parameters"]["p"] in (1 / 2, 2 / 3)
    assert all(row["error"] < 1 for row in table)


def test_a_method_that_fits_noise_says_so():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((60, 40)) < 0.15, rng.standard_normal((60, 40)), np.nan)
    table = lorank.compare(X, ["mf"], ranks=(10,), trials=2, seed=0)
    assert "no better than the mean of all training values" in table["reason"][0]
