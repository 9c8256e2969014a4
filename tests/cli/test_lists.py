"""Lists from the shell: filters, titles."""

import csv
import io
import json

import numpy as np
import pytest

import lorank
from lorank.cli.app import app


def listed(run, *words):
    code, out, err = run("recommend", "model.lorank", "--row", "user-0042", *words)
    assert code == 0, err
    return list(csv.DictReader(io.StringIO(out)))


def test_columns_are_denied_allowed_and_titled(run, model, tmp_path):
    plain = [line["film"] for line in listed(run, "-n", "30")]
    (tmp_path / "deny.csv").write_text(f"user,film\nuser-0042,{plain[0]}\nuser-0001,{plain[1]}\n")
    (tmp_path / "allow.csv").write_text("film\n" + "\n".join(plain[5:8]) + "\n")
    titles = "\n".join(f'{film},"The {film}, again",<b>' for film in plain)
    (tmp_path / "films.csv").write_text(f"film,title,score\n{titles}\n")
    assert [line["film"] for line in listed(run, "-n", "3", "--deny", "deny.csv")] == plain[1:4]
    assert [line["film"] for line in listed(run, "-n", "3", "--deny", plain[0], "--deny", plain[2])] == [
        plain[1],
        *plain[3:5],
    ]
    assert [line["film"] for line in listed(run, "--allow", "allow.csv", "--allow", plain[0])] == [
        plain[0],
        *plain[5:8],
    ]
    first = listed(run, "-n", "2", "--titles", "films.csv")[0]
    assert first["title"] == f"The {plain[0]}, again"
    assert first["score (title)"] == "<b>"  # the score itself is not lost
    assert float(first["score"]) > 0
    diverse = listed(run, "-n", "5", "--diversity", "0.9")
    assert [line["film"] for line in diverse] != plain[:5]
    _, out, _ = run("recommend", "model.lorank", "--row", "user-0042", "-n", "1", "--titles", "films.csv", "--json")
    assert json.loads(out)[0]["title"] == first["title"]


def test_what_filters_refuse(run, fails, model, tmp_path):
    (tmp_path / "three.csv").write_text("a,b,c\n1,2,3\n")
    (tmp_path / "two.csv").write_text("user,film\nuser-0042,film-001\n")
    words = ("recommend", "model.lorank", "--row", "user-0042")
    assert "should have one column" in fails(*words, "--allow", "three.csv")
    assert "cannot go together" in fails(*words, "--deny", "two.csv", "--deny", "film-002")
    assert "Unknown column 'film-999'" in fails(*words, "--allow", "film-999")


def test_new_people_get_lists(run, fails, model, tmp_path):
    (tmp_path / "new.csv").write_text("user,film,stars\nana,film-001,5\nana,film-002,1\nben,film-001,2\n")
    code, out, err = run("fold-in", "model.lorank", "new.csv", "-n", "2", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert [line["user"] for line in found] == ["ana", "ana", "ben", "ben"]
    assert not {"film-001", "film-002"} & {line["film"] for line in found if line["user"] == "ana"}
    (tmp_path / "odd.csv").write_text("user,film,stars\nana,film-999,5\nana,film-001,4\n")
    assert "Unknown column 'film-999'" in fails("fold-in", "model.lorank", "odd.csv")


def test_a_model_takes_in_new_entries_rows_and_columns(run, model, tmp_path):
    (tmp_path / "today.csv").write_text("user,film,stars\nana,film-001,5\nana,brand new,4\nuser-0042,brand new,5\n")
    before = (tmp_path / "model.lorank").read_bytes()
    code, out, err = run("update", "model.lorank", "today.csv", "-o", "newer.lorank", "--json")
    assert code == 0, err
    facts = json.loads(out)
    assert (facts["new_rows"], facts["new_columns"]) == (1, 1)
    assert (tmp_path / "model.lorank").read_bytes() == before
    code, out, _ = run("recommend", "newer.lorank", "--row", "ana", "-n", "3", "--json")
    assert code == 0
    assert "brand new" not in out
    assert run("update", "newer.lorank", "today.csv")[0] == 0  # in place; the same entries again


def test_vectors_rank_as_predictions_do(run, fails, model, tmp_path):
    loaded = lorank.load(tmp_path / "model.lorank")
    for name in ("films.parquet", "films.npz", "films.usearch"):
        if name.endswith("usearch"):
            pytest.importorskip("usearch")
        assert run("export", "model.lorank", "-o", name)[0] == 0
    assert run("export", "model.lorank", "-o", "users.npz", "--rows")[0] == 0
    films, users = np.load(tmp_path / "films.npz"), np.load(tmp_path / "users.npz")
    scores = users["vectors"] @ films["vectors"].T
    best = loaded.recommend(["user-0042"], 5, seen=True).cols.tolist()
    at = users["ids"].tolist().index("user-0042")
    assert films["ids"][np.argsort(-scores[at])[:5]].tolist() == best
    if (tmp_path / "films.usearch").exists():
        from usearch.index import Index

        index, ids = Index.restore(str(tmp_path / "films.usearch")), np.load(tmp_path / "films.ids.npz")["ids"]
        assert ids[index.search(users["vectors"][at], 5).keys].tolist() == best
    assert "should end in" in fails("export", "model.lorank", "-o", "films.xyz")


def test_versions(run):
    code, out, _ = run("version", "--json")
    assert code == 0
    assert {"lorank", "numpy", "python"} <= set(json.loads(out))


def test_a_page_of_a_model(run, model, tmp_path):
    assert run("report", "model.lorank", "-o", "page.html")[0] == 0
    assert "user-0042" in (tmp_path / "page.html").read_text()
    assert run("report", "model.lorank", "-o", "page.txt")[0] == 2


def test_unknown_ids_are_counted_and_flagged(run, model, tmp_path):
    (tmp_path / "pairs.csv").write_text("user,film\nuser-0042,film-001\nnobody,film-001\nnobody,nothing\n")
    code, out, err = run("predict", "model.lorank", "pairs.csv", "--flag-unknown")
    assert code == 0
    assert "2 of 3 pairs have an id that the model was not fitted on" in err
    assert [line["unknown"] for line in csv.DictReader(io.StringIO(out))] == ["", "row", "row and column"]
    (tmp_path / "known.csv").write_text("user,film\nuser-0042,film-001\n")
    code, out, err = run("predict", "model.lorank", "known.csv")
    assert "not fitted on" not in err
    assert "unknown" not in out


def test_quiet_prints_answers_and_errors_only(run, model, tmp_path):
    (tmp_path / "pairs.csv").write_text("a,b\nnobody,film-001\n")
    code, out, err = run("--quiet", "predict", "model.lorank", "pairs.csv")
    assert (code, err) == (0, "")
    assert "prediction" in out
    code, out, err = run("-q", "recommend", "model.lorank", "--row", "nobody")
    assert (code, out) == (1, "")
    assert err.startswith("Error: Unknown row 'nobody'")
    assert run("predict", "model.lorank", "pairs.csv")[2] != ""  # the next command speaks again


def test_every_command_has_an_example(run):
    for command in app.registered_commands:
        assert "Example: lorank" in command.callback.__doc__


def test_what_was_tried_is_a_table_on_lines_of_its_own(run, model):
    code, _, err = run("fit", "ratings.csv", "-o", "tuned.lorank", "--effort", "fast", "--max-seconds", "5")
    assert code == 0, err
    assert "\\n" not in err
    assert any(line.startswith("offsets alone") for line in err.splitlines())


def test_how_much_is_said_may_be_asked_after_the_command(run, model, tmp_path):
    (tmp_path / "pairs.csv").write_text("a,b\nnobody,film-001\n")
    code, out, err = run("predict", "model.lorank", "pairs.csv", "-q")
    assert (code, err) == (0, "")
    assert "prediction" in out
    assert run("predict", "--quiet", "model.lorank", "pairs.csv")[2] == ""
    assert run("predict", "model.lorank", "pairs.csv", "-v")[0] == 0
    assert run("predict", "model.lorank", "pairs.csv")[2] != ""


def test_what_is_like_several_and_not_like_others(run, fails, model, tmp_path):
    loaded = lorank.load("model.lorank")
    names, _ = loaded.similar(col=["film-001", "film-007"], but_not=["film-031"], n=4)
    words = ("similar", "model.lorank", "--col", "film-001", "--col", "film-007", "--but-not", "film-031", "-n", "4")
    (tmp_path / "films.csv").write_text("id,title\n" + "\n".join(f"{name},The {name}" for name in names) + "\n")
    code, out, err = run(*words, "--titles", "films.csv", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert [line["film"] for line in found] == names.tolist()
    assert [line["title"] for line in found] == [f"The {name}" for name in names]
    code, out, err = run("similar", "model.lorank", "--row", "user-0001", "--row", "user-0042", "-n", "2", "--json")
    names, _ = loaded.similar(row=["user-0001", "user-0042"], n=2)
    assert [line["user"] for line in json.loads(out)] == names.tolist()


def test_a_deny_list_that_is_not_there_is_not_taken_for_an_id(fails, model):
    words = ("recommend", "model.lorank", "--row", "user-0042")
    assert "There is no file watched.csv, and no column of that name." in fails(*words, "--deny", "watched.csv")
    assert "There is no file offer.parquet" in fails(*words, "--allow", "offer.parquet")


def test_titles_are_kept_in_the_file(run, model, tmp_path):
    films = "\n".join(f"film-{number:03},Film {number}" for number in range(1, 41))
    (tmp_path / "films.csv").write_text(f"id,title\n{films}\n")
    words = ("--rank", "2", "--lam", "0.5", "--theta", "1", "--titles", "films.csv", "-o", "titled.lorank")
    assert run("fit", "ratings.csv", *words)[0] == 0
    found = json.loads(run("recommend", "titled.lorank", "--row", "user-0042", "-n", "2", "--json")[1])
    assert [line["title"] for line in found] == [f"Film {int(line['film'][5:])}" for line in found]
    assert run("fit", "ratings.csv", *words[:-3], "none.csv", "-o", "other.lorank")[0] == 1
