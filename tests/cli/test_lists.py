"""Lists from the shell: filters, titles."""

import csv
import io
import json


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
