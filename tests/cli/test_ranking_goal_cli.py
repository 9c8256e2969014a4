"""Clicks and weights from tables, by the shell."""

import csv
import json

import numpy as np
import pytest

import lorank
from lorank.models.ranking_metrics import ALL_METRICS


@pytest.fixture
def clicks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    likes = 0.04 + 0.4 * (rng.integers(3, size=80)[:, None] == np.arange(30) % 3)
    rows, cols = np.nonzero(rng.random(likes.shape) < likes)
    lines = [f"u{i},f{j}" for i, j in zip(rows, cols)]
    (tmp_path / "clicks.csv").write_text("user,film\n" + "\n".join([*lines, lines[0]]) + "\n")
    ones = "\n".join(f"{line},1" for line in lines)
    (tmp_path / "ones.csv").write_text(f"user,film,seen\n{ones}\n")
    return rows.size


def test_two_columns_are_clicks(run, clicks):
    code, out, err = run("fit", "clicks.csv", "-o", "m.lorank", "--json")
    assert code == 0
    assert "--goal ranking" in err
    assert "for the most popular columns" in err
    facts = json.loads(out)
    assert facts["entries"] == clicks
    assert 0 < facts["held_out_ndcg@10"] < 1
    model = lorank.load("m.lorank")
    assert sorted(set(model.observations.values)) == [1, 2]  # one pair was there twice
    assert run("recommend", "m.lorank", "--row", "u1", "-n", "3")[0] == 0


def test_a_constant_value_is_clicks_too(run, clicks):
    code, out, err = run("fit", "ones.csv", "-o", "m.lorank", "--rank", "6", "--json")
    assert code == 0
    assert "goal='ranking'" in err
    assert "held_out_ndcg@10" in json.loads(out)


def test_weights_are_a_column(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    rows, cols = np.nonzero(rng.random((12, 10)) < 0.7)
    values, weights = rng.standard_normal(rows.size), rng.integers(1, 5, rows.size)
    table = "\n".join(f"{i},{j},{v:.3f},{w}" for i, j, v, w in zip(rows, cols, values, weights))
    (tmp_path / "t.csv").write_text(f"r,c,v,w\n{table}\n")
    assert run("fit", "t.csv", "--weight", "w", "--rank", "2", "--lam", "1", "--biases", "no", "--theta", "1")[0] == 0
    kept = lorank.load("model.lorank").observations
    order = {(str(i), str(j)): w for i, j, w in zip(rows, cols, weights)}
    names = zip(kept.row_ids.values[kept.rows].astype(str), kept.col_ids.values[kept.cols].astype(str))
    assert [order[pair] for pair in names] == kept.weights.tolist()
    code, _, err = run("fit", "t.csv", "--weight", "x")
    assert code
    assert "x" in err


def test_the_last_entries_choose_where_a_column_has_times(run, clicks, tmp_path):
    lines = (tmp_path / "clicks.csv").read_text().split()[1:]
    rng = np.random.default_rng(0)
    hours = [int(hour) for hour in rng.permutation(len(lines))]
    chosen = {}
    for name, shown in (("numbers", str), ("dates", lambda t: str(np.datetime64("2026-03-01T00:00:00") + 3600 * t))):
        table = "\n".join(f"{line},{shown(hour)}" for line, hour in zip(lines, hours))
        (tmp_path / f"{name}.csv").write_text(f"user,film,at\n{table}\n")
        code, out, err = run(
            "fit", f"{name}.csv", "--time", "at", "--rank", "5", "--lam", "1", "-o", "m.lorank", "--json"
        )
        assert code == 0, err
        chosen[name] = json.loads(out)["held_out_ndcg@10"]
    assert chosen["numbers"] == chosen["dates"]
    plain = run("fit", "clicks.csv", "--rank", "5", "--lam", "1", "-o", "m.lorank", "--json")
    assert json.loads(plain[1])["held_out_ndcg@10"] != chosen["numbers"]
    (tmp_path / "bad.csv").write_text("user,film,at\na,x,soon\nb,y,later\n")
    code, _, err = run("fit", "bad.csv", "--time", "at")
    assert code
    assert "such as" in err


def test_lists_are_compared(run, clicks):
    code, out, err = run("compare", "clicks.csv", "--json")
    assert code == 0, err
    assert "--goal ranking" in err
    rows = {row["method"]: row for row in json.loads(out)}
    assert set(rows) == {"nnfn", "most popular", "item-item", "ease"}
    assert rows["nnfn"]["ndcg@10"] > rows["most popular"]["ndcg@10"]
    assert run("compare", "clicks.csv", "--goal", "lists")[0]


def test_lists_of_the_methods_that_are_named_are_compared_by_what_came_last(run, clicks, tmp_path):
    code, out, err = run("compare", "clicks.csv", "--methods", "most popular,item-item", "--json")
    assert code == 0, err
    plain = {row["method"]: row["ndcg@10"] for row in json.loads(out)}
    assert set(plain) == {"most popular", "item-item"}
    lines = (tmp_path / "clicks.csv").read_text().split()[1:]
    hours = np.random.default_rng(0).permutation(len(lines))
    table = "\n".join(f"{line},{hour}" for line, hour in zip(lines, hours))
    (tmp_path / "timed.csv").write_text(f"user,film,at\n{table}\n")
    code, out, err = run("compare", "timed.csv", "--time", "at", "--methods", "most popular", "--json")
    assert code == 0, err
    assert json.loads(out)[0]["ndcg@10"] != plain["most popular"]
    code, _, err = run("compare", "clicks.csv", "--goal", "values", "--methods", "ease")
    assert code
    assert "makes lists" in err


def test_a_model_of_clicks_answers_every_command(run, clicks, tmp_path):
    code, _, err = run("fit", "clicks.csv", "--rank", "6", "--lam", "1", "-o", "m.lorank")
    assert code == 0
    assert not any(line.startswith("candidate ") for line in err.splitlines())  # a table of one line without a name
    assert "Chosen among" in err
    (tmp_path / "new.csv").write_text("user,film\nana,f1\nana,f4\nben,f2\n")
    code, out, err = run("fold-in", "m.lorank", "new.csv", "-n", "2", "--json")
    assert code == 0, err
    assert [line["user"] for line in json.loads(out)] == ["ana", "ana", "ben", "ben"]
    code, out, err = run("update", "m.lorank", "new.csv", "-o", "newer.lorank", "--json")
    assert code == 0, err
    assert json.loads(out)["new_rows"] == 2
    code, out, err = run("evaluate", "m.lorank", "clicks.csv", "--json")
    assert code == 0, err
    assert "rmse" not in json.loads(out)
    code, out, err = run("predict", "m.lorank", "new.csv")
    assert code == 0, err
    assert [line.split(",")[2] for line in out.splitlines()[1:]] == ["0.0"] * 3  # nothing is known of these people
    assert "not preferred" in err
    assert "{" not in run("inspect", "m.lorank")[1]


def test_clicks_that_came_once_are_relevant_too(run, clicks, tmp_path):
    assert run("fit", "clicks.csv", "--rank", "6", "--lam", "1", "-o", "m.lorank")[0] == 0
    model = lorank.load("m.lorank")
    assert model.mean > 1  # one pair was there twice
    unseen = np.argwhere(model.observations.to_sparse().toarray() == 0)[:40]
    lines = "\n".join(f"{model.row_ids.values[i]},{model.col_ids.values[j]}" for i, j in unseen)
    (tmp_path / "test.csv").write_text(f"user,film\n{lines}\n")
    code, out, err = run("evaluate", "m.lorank", "test.csv", "--metrics", "all", "--json")
    assert code == 0, err
    facts = json.loads(out)
    assert "relevant_from" not in facts  # all of them are
    found = {name for name in facts if name.endswith("@10") and not name.startswith("most")}
    assert found == {f"{name}@10" for name in ALL_METRICS}
    code, _, err = run("evaluate", "m.lorank", "test.csv", "--metrics", "ndgc")
    assert code == 1
    assert "Unknown metric 'ndgc'; there are ndcg" in err


def test_a_table_is_split_by_what_came_last(run, clicks, tmp_path):
    table = [("ana", "a", 3, 10), ("ana", "b", 4, 30), ("ana", "c", 5, 20), ("ben", "a", 1, 40), ("ben", "b", 2, 5)]
    lines = "\n".join(",".join(map(str, line)) for line in table)
    (tmp_path / "timed.csv").write_text(f"user,film,stars,at\n{lines}\n")
    named = ("--row", "user", "--col", "film", "--value", "stars")

    def parts(*words):
        code, _, err = run("split", "timed.csv", *named, *words)
        assert code == 0, err
        texts = ((tmp_path / name).read_text() for name in ("train.csv", "test.csv"))
        both = [list(csv.reader(text.splitlines()))[1:] for text in texts]
        return [{(user, film, float(stars), float(at)) for user, film, stars, at in part} for part in both]

    everything = {tuple(map(str, line[:2])) + line[2:] for line in table}
    train, test = parts("--time", "at", "--last", "1")
    assert test == {("ana", "b", 4, 30), ("ben", "a", 1, 40)}
    assert train == everything - test
    train, test = parts("--time", "at", "--by-time", "--fraction", "0.4")
    assert test == {("ana", "b", 4, 30), ("ben", "a", 1, 40)}
    assert run("split", "timed.csv", *named, "--last", "1")[0] == 2  # there is no telling without times
    assert "must be three files" in run("split", "test.csv")[2]  # it would be written over
    before = (tmp_path / "clicks.csv").read_text().split()[1:]
    assert run("split", "clicks.csv")[0] == 0
    after = [line for name in ("train.csv", "test.csv") for line in (tmp_path / name).read_text().split()[1:]]
    assert sorted(after) == sorted(before)  # the pair that was there twice, too
    assert run("fit", "train.csv", "--rank", "6", "--lam", "1", "-o", "m.lorank")[0] == 0
    assert run("evaluate", "m.lorank", "test.csv")[0] == 0


def test_times_are_not_taken_for_values(run, tmp_path):
    (tmp_path / "timed.csv").write_text("user,film,timestamp\n" + "".join(f"u{i},f{i % 7},{i}\n" for i in range(60)))
    code, _, err = run("fit", "timed.csv")
    assert code
    assert "--time" in err
    assert "--value" in err
