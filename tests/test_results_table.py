"""A table says the same as text, Markdown, LaTeX and HTML."""

import numpy as np
import pytest

from lorank.results_table import Cell, Table

ROWS = [
    {"method": "a|b", "error": 0.123456, "trials": 7, "done": True, "parameters": {"lam": 0.5, "rank": 3}},
    {"method": "<c & d>", "error": None, "trials": 12, "done": False, "parameters": None},
]


def test_text_lines_up():
    assert str(Table(ROWS, "Errors")).splitlines() == [
        "Errors",
        "method    error  trials  done  parameters",
        "a|b      0.1235       7  yes   lam=0.5, rank=3",
        "<c & d>              12  no",
    ]
    assert str(Table([])) == ""


def test_markdown():
    assert Table(ROWS).without("done").to_markdown().splitlines() == [
        "| method | error | trials | parameters |",
        "|---|---:|---:|---|",
        r"| a\|b | 0.1235 | 7 | lam=0.5, rank=3 |",
        "| &lt;c &amp; d> |  | 12 |  |",
    ]


def test_latex():
    tex = Table([{"x_1": Cell("2 ± 1", 2.0, best=True)}], "50%").to_latex()
    assert tex.splitlines() == [
        r"\begin{table}[htb]",
        r"\centering",
        r"\caption{50\%}",
        r"\begin{tabular}{r}",
        r"\toprule",
        r"x\_1 \\",
        r"\midrule",
        r"\textbf{2 $\pm$ 1} \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


def test_html_is_escaped():
    html = Table(ROWS, "a < b")._repr_html_()
    assert "&lt;c &amp; d&gt;" in html
    assert "<caption>a &lt; b</caption>" in html
    assert "<c" not in html.replace("<caption", "")
    assert '<td style="text-align: right">0.1235</td>' in html
    assert "<b>2</b>" in Table([{"x": Cell("2", 2.0, best=True)}])._repr_html_()


def test_columns():
    table = Table([{"a": "", "b": None, "c": Cell("1.0", 1.0)}, {"a": "", "b": "", "c": Cell("?")}])
    assert table.columns == ["a", "b", "c"]
    assert len(table) == 2
    assert [row["b"] for row in table] == [None, ""]
    assert table.without_empty_columns().columns == ["a", "c"], "the first names the rows"
    assert Table([{"n": np.int64(3), "x": np.float32(0.5)}])["x"] == [np.float32(0.5)]


def test_frame():
    pytest.importorskip("pandas")
    frame = Table([{"a": Cell("1 ± 0", 1.0), "b": "x"}, {"a": None, "b": Cell("y")}]).to_frame()
    assert frame["a"].tolist()[0] == 1.0
    assert np.isnan(frame["a"].tolist()[1])
    assert frame["b"].tolist() == ["x", "y"]
