"""Features from tables in the shell: fit, predict, evaluate, compare."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

FIT = ["--method", "nnfn", "--rank", "2", "--lam", "1", "--theta", "0.5", "--biases", "yes"]


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Ratings by 60 users, whose taste is their kind and their age; of the last five there are features alone."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    age, kind = rng.uniform(20, 60, 65), rng.choice(["a", "b"], 65)
    taste = np.column_stack([(age - 40) / 10, np.where(kind == "a", 1.0, -1.0)])
    X = taste @ rng.standard_normal((2, 30)) + 3
    write("users.csv", ["age", "user", "kind"], [[f"{age[i]:.3f}", f"u{i:02d}", kind[i]] for i in range(1, 65)])
    seen = np.argwhere(rng.random((60, 30)) < 0.3)
    write("ratings.csv", ["user", "film", "stars"], [[f"u{i:02d}", f"f{j}", X[i, j]] for i, j in seen])
    unseen = [[f"u{i:02d}", f"f{j}", X[i, j]] for i in range(60, 65) for j in range(30)]
    write("test.csv", ["user", "film", "stars"], unseen)
    return X


def write(path, header, lines):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([header, *lines])


@pytest.mark.parametrize("method", [FIT, ["--method", "bpmf", "--rank", "2", "--biases", "yes"]])
def test_users_that_only_features_know_are_predicted(tables, run, method):
    code, out, err = run("fit", "ratings.csv", *method, "--row-features", "users.csv", "--json")
    assert code == 0, err
    assert json.loads(out)["rows"] == 65  # user 0 has no features, five have no ratings
    code, out, err = run("evaluate", "model.lorank", "test.csv", "--json")
    assert code == 0, err
    facts = json.loads(out)
    assert facts["unknown"] == 0
    assert facts["rmse"] < 0.25 * tables.std()
    assert run("predict", "model.lorank", "test.csv", "--unseen", "error")[0] == 0


@pytest.mark.parametrize("method", [FIT, ["--method", "bpmf", "--rank", "2", "--biases", "yes"]])
def test_of_a_folder_too(tables, run, fails, method):
    pacsv, pq = pytest.importorskip("pyarrow.csv"), pytest.importorskip("pyarrow.parquet")
    Path("data").mkdir()
    pq.write_table(pacsv.read_csv("ratings.csv"), "data/0.parquet")
    words = ["fit", "data", "--out-of-core", "-o", "model", *method, "--row-features", "users.csv"]
    code, out, err = run(*words, "--json")
    assert code == 0, err
    assert json.loads(out)["rows"] == 65
    facts = json.loads(run("evaluate", "model", "test.csv", "--json")[1])
    assert facts["unknown"] == 0
    assert facts["rmse"] < 0.25 * tables.std()
    # Ids that the folder has as text are text in the table, though they look like numbers.
    write("others.csv", ["user", "age"], [["7", 1], ["8", 2]])
    assert "No id of the data is among those of the features, which begin with '7'" in fails(
        *words[:-1], "others.csv", "--overwrite"
    )


def test_features_are_compared(tables, run):
    words = ["--methods", "nnfn,nuclear", "--trials", "4", "--ranks", "2", "--biases"]
    code, out, err = run("compare", "ratings.csv", *words, "--row-features", "users.csv", "--json")
    assert code == 0, err
    known = {row["method"]: row for row in json.loads(out)}
    plain = {row["method"]: row for row in json.loads(run("compare", "ratings.csv", *words, "--json")[1])}
    assert known["nnfn"]["error"] < plain["nnfn"]["error"]
    assert "cannot take a Features" in known["nuclear"]["reason"]


def test_what_is_wrong_with_a_table_is_said(tables, fails):
    write("films.csv", ["film", "genre"], [["g1", "x"], ["g2", "y"]])
    assert "No id of the data is among those of the features" in fails(
        "fit", "ratings.csv", *FIT, "--col-features", "films.csv"
    )
    write("films.csv", ["film", "genre"], [["f1", "x"], ["f1", "y"]])
    assert "more than once" in fails("fit", "ratings.csv", *FIT, "--col-features", "films.csv")
    assert "There is no file nowhere.csv" in fails("fit", "ratings.csv", *FIT, "--row-features", "nowhere.csv")
