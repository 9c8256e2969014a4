"""Published numbers, search, statistics and tables."""

import csv
import io
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from lorank.errors import InputError
from lorank.experiments import figures
from lorank.experiments import report_tables as tables
from lorank.experiments.findings import findings, floor_check, limits, order_check
from lorank.experiments.protocol import notes, readings
from lorank.experiments.published import PUBLISHED, TABLE_4, TABLE_5, TABLE_6
from lorank.experiments.records import read
from lorank.experiments.report import write_report
from lorank.experiments.reproduce import expected_seconds
from lorank.experiments.statistics import Line, comparable, summarise
from lorank.experiments.suites import FULL, QUICK, suites
from lorank.experiments.verdict import verdict
from lorank.results_table import Cell, Table

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_published_tables_are_whole():
    assert [len(TABLE_4[name]) for name in TABLE_4] == [10, 10, 10]
    assert [len(TABLE_5[name]) for name in TABLE_5] == [10, 8, 8]
    assert [len(TABLE_6[name]) for name in TABLE_6] == [10, 10, 10, 10]
    assert PUBLISHED["movielens-1m"]["truncated-l12"] == (0.797, 0.001, 6068.4, 172.0)
    assert PUBLISHED["yahoo"]["mcp"] == (0.678, 0.001, 1108.3, 41.4)
    assert PUBLISHED["ushcn-precipitation"]["nnfn"] == (0.806, 0.015, 13.5, 1.9)
    for column in (*TABLE_4.values(), *TABLE_5.values(), *TABLE_6.values()):
        assert min(column.values(), key=lambda row: row.error).error == column["nnfn"].error


def test_every_data_set_of_the_paper_is_an_experiment():
    names = {dataset.name for suite in FULL.values() for dataset in suite.datasets}
    assert set(PUBLISHED) <= names
    for suite in (*FULL.values(), *QUICK.values()):
        keys = [cell.key for cell in suite.cells(5)]
        assert len(keys) == len(set(keys))
    with pytest.raises(InputError, match="no experiment"):
        suites("table-7")


def test_comparable_is_the_paired_test():
    rng = np.random.default_rng(0)
    base = rng.standard_normal(5)
    values = {
        "best": dict(enumerate(base)),
        "shifted": dict(enumerate(base + 0.01 + 0.001 * rng.standard_normal(5))),
        "noisy": dict(enumerate(base + 0.01 + rng.standard_normal(5))),
    }
    if np.mean(list(values["noisy"].values())) < base.mean():
        values["noisy"] = {seed: value + 1.0 for seed, value in values["noisy"].items()}
    expected = {"best"} | {
        name for name in ("shifted", "noisy") if stats.ttest_rel(list(values[name].values()), base).pvalue > 0.05
    }
    assert comparable(values) == expected
    assert "shifted" not in expected  # a small difference that is always there counts
    assert comparable({"a": {0: 1.0}, "b": {0: 2.0}}) == {"a"}
    assert comparable({"a": {0: 1.0, 1: 2.0}, "b": {0: 1.0, 1: 2.0}}) == {"a", "b"}
    assert comparable({}) == set()


def row(method, seed, error, seconds, status="ok", reason=""):
    name = "synthetic-500"
    return {
        "key": f"synthetic/{name}/{method}/{seed}",
        "suite": "synthetic",
        "dataset": name,
        "method": method,
        "seed": seed,
        "status": status,
        "reason": reason,
        "error": error,
        "seconds": seconds,
        "curve": [[0.1, 0.5], [0.3, 0.2], [seconds or 1, error or 1]],
    }


ROWS = [
    *(row("nnfn", seed, 0.0196 + 0.0001 * seed, 0.02) for seed in range(3)),
    *(row("nuclear", seed, 0.0436 + 0.0002 * seed, 1.0) for seed in range(3)),
    row("mcp", 0, None, None, "failed", "it | broke"),
]


def test_lines_hold_means_and_ratios():
    lines = {line.method: line for line in summarise(FULL["synthetic"], ROWS)["synthetic-500"]}
    assert lines["nnfn"].error == pytest.approx(0.0197)
    assert lines["nnfn"].error_std == pytest.approx(0.0001)
    assert lines["nnfn"].best_error
    assert not lines["nuclear"].best_error
    assert lines["nuclear"].time_ratio == pytest.approx(50)
    assert lines["nuclear"].published_time_ratio == pytest.approx(2.1 / 0.04)
    assert lines["nuclear"].error_ratio == pytest.approx(0.0438 / 0.0436)
    assert lines["mcp"].error is None
    assert lines["mcp"].reasons == ("it | broke",)


def test_tables_say_the_same_in_three_formats():
    suite = FULL["synthetic"]
    made = tables.build(suite, summarise(suite, ROWS))
    text = tables.markdown(made)
    assert "**0.0197 ± 0.0001**" in text
    assert "- MCP: it | broke" in text
    widths = {line.replace(r"\|", "").count("|") for line in text.splitlines() if line.startswith("|")}
    assert len(widths) == 1
    tex = tables.latex(made)
    assert r"\textbf{0.0197 $\pm$ 0.0001}" in tex
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") == 1
    (nuclear,) = (line for line in csv.DictReader(io.StringIO(tables.as_csv(made))) if line["method"] == "nuclear")
    assert float(nuclear["test NMSE"]) == pytest.approx(0.0438)
    assert nuclear["paper"] == "0.0436"
    assert nuclear["paper ±"] == "0.0003"
    assert float(nuclear["test NMSE ±"]) == pytest.approx(0.0002)
    assert nuclear["best error"] == "0"


def test_the_published_tables_are_written_from_their_records_byte_for_byte(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "save", lambda chart, folder, labels: None)
    everything = suites("all", quick=False)
    write_report(everything, read(RESULTS / "records.jsonl"), tmp_path)  # those of earlier settings too
    for name in ("tables.md", "tables.tex", "tables.csv"):
        made, published = ((folder / name).read_text().split("## How and on what") for folder in (tmp_path, RESULTS))
        assert made[0] == published[0]


def test_latex_is_escaped():
    rows = [{"method": Cell("a"), "note": Cell("b")}]
    odd = tables.latex([Table(rows, "50% of a_b & c^d #1 {x} ~ $ \\")])
    assert r"50\% of a\_b \& c\textasciicircum{}d \#1 \{x\} \textasciitilde{} \$ \textbackslash{}" in odd


def paper_line(method, errors, published="movielens-1m"):
    return Line("", method, method, dict(enumerate(errors)), published=PUBLISHED[published][method])


def test_the_order_of_methods_is_compared_with_the_papers():
    # The paper: nnfn 0.797, factored-nuclear 0.810, nuclear 0.820, deviations 0.001 to 0.002.
    nnfn, factored, nuclear = [0.78, 0.781, 0.779], [0.79, 0.792, 0.789], [0.785, 0.787, 0.784]
    lines = [paper_line("nnfn", nnfn), paper_line("factored-nuclear", factored), paper_line("nuclear", nuclear)]
    (said,) = order_check(lines)
    assert "refuted in part. Of the 3 pairs" in said
    assert "2 are in the same order here, 1 in the opposite one (factored-nuclear behind nuclear), 0 cannot" in said
    (said,) = order_check(lines[:2])
    assert "is confirmed. Of the 1 pairs" in said
    # The paper has the same error for these two: nothing to confirm.
    assert order_check([lines[0], paper_line("nnfn-prox", factored)]) == []


def said_of(rows, dataset="synthetic-500"):
    """All that is said under a table."""
    suite = FULL["synthetic"]
    summary = summarise(suite, rows)
    (chosen,) = (data for data in suite.datasets if data.name == dataset)
    return [*findings(suite, chosen, summary[dataset]), *limits(suite, summary)]


def test_findings_say_who_is_best():
    assert any(sentence.startswith("The least error has factored NNFN, 0.0197") for sentence in said_of(ROWS))
    assert said_of([row("mcp", 0, None, None, "skipped", "There is no file.")]) == []


def test_nothing_is_said_of_a_method_that_was_not_run():
    """Run with one method: no sentence, note or verdict may name another."""
    suite, rows = FULL["synthetic"], [made for made in ROWS if made["method"] == "nuclear"]
    summary = summarise(suite, rows)
    said = [*said_of(rows), *readings(suite, summary), *notes({suite.name: summary})]
    said += verdict([(suite, summary)], rows)
    others = {entry.label for entry in suite.entries.values()} - {"nuclear"}
    assert not [sentence for sentence in said for label in others if re.search(rf"\b{label}\b", sentence)]


def test_the_verdict_is_counted():
    suite = FULL["synthetic"]
    said = verdict([(suite, summarise(suite, ROWS))], ROWS)
    assert said[0] == "7 cells were run, 3 lines on 1 data sets with up to 3 seeds; 6 are without remark."
    assert said[1].startswith(
        "Of the 2 errors that the paper prints and that were measured here, 2 reproduce within 5%"
    )
    assert "Factored NNFN is the fastest, or not different from it, in 1 of 1 tables (in the paper: in all)." in said
    worse = [row("nnfn", seed, 0.03, 0.02) for seed in range(2)]
    assert any(
        "Not as good as the paper" in text and "m = 500 1.5" in text
        for text in verdict([(suite, summarise(suite, worse))], worse)
    )


def test_the_claims_on_speed_are_counted_for_printed_algorithms_and_ours():
    suite = FULL["synthetic"]
    rows = [*ROWS, row("nnfn-gradient", 0, 0.02, 0.1), row("nnfn-prox-plain", 0, 0.02, 2.0)]
    rows += [row("lsp-plain", 0, 0.02, 1.0), row("mcp-plain", 0, 0.02, 4.0)]
    (said,) = (text for text in verdict([(suite, summarise(suite, rows))], rows) if text.startswith("Speed"))
    assert said == (
        "Speed, by the algorithms as printed: factored NNFN at least ten times as fast as NNFN in 1 of 1 comparisons "
        "(20 times, 52 in the paper); NNFN faster than LSP, MCP in 1 of 2 comparisons (0.5 to 2 times, 0.33 to 0.38 in "
        "the paper)."
    )


def test_printed_algorithms_stand_beside_the_papers_numbers_and_count_once():
    suite = FULL["synthetic"]
    rows = [*ROWS, *(row("nnfn-gradient", seed, 0.0197, 0.08) for seed in range(3))]
    lines = {line.method: line for line in summarise(suite, rows)["synthetic-500"]}
    assert lines["nnfn-gradient"].published == PUBLISHED["synthetic-500"]["nnfn"]
    said = verdict([(suite, summarise(suite, rows))], rows)
    assert said[1].startswith("Of the 2 errors")


def test_both_ranks_are_told():
    rows = [
        row("nnfn", 0, 0.02, 0.1) | {"rank": 5, "numerical_rank": 20},
        row("lsp", 0, 0.02, 0.1) | {"rank": 5, "numerical_rank": 5},
    ]
    said = said_of(rows)
    assert any("left by factored NNFN (5.0 above 1%, 20.0 not zero). Exact zeros have LSP." in text for text in said)


def test_searches_and_fits_that_were_cut_off_are_counted():
    rows = [row("mcp", seed, 0.02, 0.1) | {"trials": 6, "allowed_trials": 12, "out_of_time": True} for seed in range(2)]
    rows.append(row("mcp", 2, 0.02, 0.1) | {"solver_status": "MAX_ITER"})
    said = said_of(rows)
    assert "The clock ended the search of MCP on m = 500 (2 of 3 runs)." in said
    assert any("was the fit of MCP on m = 500 (1 of 3 runs)." in text for text in said)


def only_row(suite, rows, dataset=None):
    made = {table.name: table for table in tables.build(suite, summarise(suite, rows))}
    (shown,) = made[f"{suite.name}-{dataset or 'synthetic-500'}"].rows
    return {column: cell.text for column, cell in shown.items()}


def test_a_table_says_how_many_fits_were_used_and_how_near_an_edge_the_best_was():
    rows = [
        row("mcp", seed, 0.02, 0.1)
        | {"trials": 10 + 2 * seed, "allowed_trials": 12, "edges": {"lam": 1.5 - seed, "graph_weight": 2.0 + seed}}
        for seed in range(2)
    ]
    shown = only_row(FULL["synthetic"], rows)
    assert shown["fits"] == "11 of 12"
    assert shown["decades to edge"] == "lam 0.5, graph 2.0"


def test_errors_after_another_normalisation_are_a_column_beside():
    def measured(dataset, error):
        key = {"key": f"climate/{dataset}/nnfn/0", "suite": "climate", "dataset": dataset}
        return row("nnfn", 0, error, 0.1) | key

    rows = [measured("gas-co2", 0.65), measured("gas-co2-zscore", 0.13), measured("gas-co2-anomaly", 0.49)]
    shown = only_row(FULL["climate"], rows, "gas-co2")
    assert shown["test RMSE"] == "0.6500"
    assert shown["RMSE, zero mean and unit variance"] == "0.1300"
    assert shown["RMSE, anomalies"] == "0.4900"
    assert "0.13" in tables.as_csv(tables.build(FULL["climate"], summarise(FULL["climate"], rows)))


def test_a_reason_is_given_once():
    suite = FULL["synthetic"]
    rows = [row(name, seed, None, None, "skipped", "No file.") for name in ("mcp", "lsp") for seed in range(3)]
    text = tables.markdown(tables.build(suite, summarise(suite, rows)))
    assert text.count("No file.") == 1
    assert "- All methods: No file." in text
    text = tables.markdown(tables.build(suite, summarise(suite, [*rows, row("nnfn", 0, 0.02, 0.1)])))
    assert "- LSP, MCP: No file." in text


def test_every_method_of_the_paper_has_a_cell_in_each_of_its_tables():
    by_data = {
        dataset.name: {entry.name for entry in entries}
        for suite in FULL.values()
        for datasets, entries in suite.blocks
        for dataset in datasets
    }
    for name, published in PUBLISHED.items():
        assert set(published) <= by_data[name]
    for name in ("ml10m-simulated", "yahoo-simulated"):
        assert set(PUBLISHED["movielens-1m"]) == by_data[name]
    for name in TABLE_6:
        assert set(TABLE_6[name]) == by_data[f"{name}-unit"]
    assert all(dataset.ranks == (5, 10, 20) for dataset in FULL["recommendation"].datasets[:4])


def test_time_left_is_weighed_by_what_cells_took_before():
    first, second = suites("synthetic")[0].cells(1, ["nnfn", "nuclear"])[:2]
    other = FULL["ablation"].cells(1)[0]
    rows = [
        {"dataset": first.dataset.name, "method": first.entry.name, "status": "ok", "wall": wall} for wall in (2.0, 4.0)
    ]
    expected = expected_seconds([first, second, other], [*rows, {**rows[0], "method": "mcp", "wall": 9.0}])
    assert expected == {first.key: 3.0, second.key: 5.0, other.key: 5.0}


def test_floor_check_says_who_reaches_least_squares_and_whether_they_agree():
    def said(floor, *errors):
        names = ("mcp", "lsp", "nnfn")
        lines = [Line("d", name, name, errors=dict(enumerate(e)), floor=floor) for name, e in zip(names, errors)]
        return floor_check(lines)[0]

    near = said(0.0205, (0.020, 0.022), (0.020, 0.0221), (0.020, 0.022))
    assert "All 3 nonconvex methods are under" in near
    assert "are within one standard deviation" in near
    apart = said(0.020, (0.020, 0.0201), (0.021, 0.0211), (0.030, 0.031))
    assert "Not nnfn, but the other" in apart
    assert "not within one standard deviation" in apart
    assert "deviation" not in said(0.02, (0.02,), (0.02,), (0.02,))
    assert "No nonconvex method" in said(0.02, (0.03,), (0.03,), (0.03,))


@pytest.mark.parametrize(("value", "text"), [(6068.4, "6070"), (17_350.0, "17400"), (0.01234, "0.0123"), (1.0, "1")])
def test_large_numbers_are_written_without_a_power_of_ten(value, text):
    assert tables.written(value) == text
