"""`lorank complete` fills a table of any kinds of columns as `lorank.complete` does, whatever file it is in."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lorank

pytestmark = pytest.mark.filterwarnings("always:Text with many different values")


@pytest.fixture(scope="module")
def holes():
    rng = np.random.default_rng(0)
    n = 120
    cause = rng.standard_normal(n)
    table = pd.DataFrame(
        {
            "sex": np.where(cause + 0.5 * rng.standard_normal(n) > 0, "m", "f"),
            "size": np.exp(cause + 0.2 * rng.standard_normal(n)),
            "visits": rng.poisson(2 * np.exp(0.5 * cause)),
            "town": np.array(["red, dark", "grün", "blue"])[np.digitize(cause, [-0.5, 0.5])],
            "name": [f"p{i}" for i in range(n)],
        }
    ).astype({"visits": "Int64"})
    return table.mask(rng.random(table.shape) < 0.2)


@pytest.fixture(scope="module")
def filled(holes):
    return lorank.complete(holes)


def same(one, other):
    assert (one.isna() == other.isna()).all().all()
    assert not other.drop(columns="name").isna().any().any()
    for name in ("sex", "visits", "town", "name"):
        assert one[name].fillna("").astype(str).tolist() == other[name].fillna("").astype(str).tolist(), name
    np.testing.assert_allclose(one["size"], other["size"], rtol=1e-5)


@pytest.mark.parametrize("library", ["arrow", "polars", "transform"])
def test_libraries(holes, filled, library):
    arrow = pa.Table.from_pandas(holes, preserve_index=False)
    if library == "arrow":
        other = lorank.complete(arrow).to_pandas()
    elif library == "polars":
        import polars as pl

        other = pd.DataFrame(lorank.complete(pl.from_arrow(arrow)).to_dict(as_series=False))
    else:
        other = lorank.LowRankImputer().fit_transform(holes)
    same(filled, other)


def as_foreign(holes):
    holes.to_csv("t.txt", index=False, sep=";", decimal=",", na_rep="?", encoding="latin-1")
    return ["--decimal", ",", "--na", "?,-999", "--encoding", "latin-1"]


def as_json(holes):
    # As objects, since pandas 2 writes the whole numbers of a column with missing ones as 1.0.
    holes.astype({"visits": object}).to_json("t.jsonl", orient="records", lines=True, double_precision=15)


FILES = {
    "t.csv": lambda holes: holes.to_csv("t.csv", index=False),
    "t.parquet": lambda holes: holes.to_parquet("t.parquet", index=False),
    "t.jsonl": as_json,
    "t.xlsx": lambda holes: holes.to_excel("t.xlsx", index=False),
    "t.txt": as_foreign,
}


@pytest.mark.parametrize("name", FILES)
def test_files(run, holes, filled, name):
    more = FILES[name](holes) or []
    output = "f.parquet" if name.endswith("parquet") else "f.csv"
    code, _, err = run("complete", name, "-o", output, *more)
    assert code == 0, err
    assert "looks like names, and stays as it is: 'name'" in err
    foreign = {"sep": ";", "decimal": ",", "na_values": "?", "encoding": "latin-1"} if more else {}
    same(filled, pd.read_parquet(output) if output != "f.csv" else pd.read_csv(output, **foreign))


def test_standard_input_to_parquet_with_an_index(holes, filled, tmp_path):
    text = holes.to_csv()  # the column of the index has no name
    shell = [sys.executable, "-c", "from lorank.cli import main; main()", "complete", "-", "-o", "f.parquet", "--json"]
    done = subprocess.run(shell, input=text.encode(), capture_output=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    out, found = done.stdout.decode(), pd.read_parquet(tmp_path / "f.parquet")
    assert found[""].tolist() == list(range(120))
    same(filled, found.drop(columns=""))
    assert f'"cells": {4 * 120}, "filled": {int(holes.drop(columns="name").isna().sum().sum())}' in out


def test_kinds_are_given(run, fails, holes):
    holes.to_csv("t.csv", index=False)
    kinds = ["--kind", "size=positive", "--kind", "town=ordinal:blue:grün:red, dark", "--kind", "visits=bounded:0:99"]
    code, _, err = run("complete", "t.csv", "-o", "f.csv", "--row", "name", *kinds)
    assert code == 0, err
    assert "names" not in err
    given = {"size": "positive", "town": ("ordinal", "blue", "grün", "red, dark"), "visits": ("bounded", 0, 99)}
    same(lorank.complete(holes, kinds={"name": "id", **given}), pd.read_csv("f.csv"))
    assert "no column 'sze'; did you mean 'size'?" in fails("complete", "t.csv", "-o", "g.csv", "--kind", "sze=id")
    assert "which is not among those" in fails("complete", "t.csv", "-o", "g.csv", "--kind", "town=ordinal:blue:red")
    code, _, err = run("complete", "t.csv", "-o", "g.csv", "--kind", "size")
    assert code == 2
    assert "such as income=positive" in err


def test_parquet_keeps_its_types_and_its_index(run):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(60)
    frame = pd.DataFrame({"x": x, "n": pd.array(np.round(3 * x), "Int64"), "f": x.astype(np.float32)})
    frame["c"] = pd.Categorical(np.where(x > 0, "yes", "no"))
    frame = frame.mask(rng.random(frame.shape) < 0.2).astype({"f": "float32"})
    frame.index = rng.permutation(1000)[:60]
    frame.to_parquet("t.parquet")
    code, _, err = run("complete", "t.parquet", "-o", "f.parquet")
    assert code == 0, err
    found = pd.read_parquet("f.parquet")
    assert found["__index_level_0__"].tolist() == frame.index.tolist()
    whole = lorank.complete(frame)
    for name in frame.columns:
        assert found[name].dtype == frame[name].dtype or name == "n"
        assert found[name].tolist() == whole[name].tolist()


def test_a_refusal_says_which_option_reads_such_a_file(tmp_path, fails):
    (tmp_path / "unknown.csv").write_text("a,b\n1,2\n?,3\n4,5\n6,7\n")
    said = fails("complete", "unknown.csv", "-o", "o.csv")
    assert said.endswith("'?' in column 'a', which is not a number; if it stands for a missing cell, say so by --na.")
    (tmp_path / "comment.csv").write_text("# made by a machine\na,b\n1,2\n,3\n")
    assert fails("complete", "comment.csv", "-o", "o.csv").endswith("1 is needed; leave comments out by --comment '#'.")
