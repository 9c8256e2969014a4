"""What a run says in ten lines: what of the paper reproduces, what does not, what is better than it. All counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lorank.experiments.findings import NEAR_FLOOR, NOTABLE, order_of
from lorank.experiments.methods import BESIDE, REFERENCE
from lorank.experiments.records import Row
from lorank.experiments.report_tables import written
from lorank.experiments.settings import Suite
from lorank.experiments.statistics import Line

Summaries = Sequence[tuple[Suite, Mapping[str, list[Line]]]]
# What the paper says of speed: the fast line, how it compares, the lines it is compared with, and the least ratio of
# times at which this holds. First of the algorithms as printed, then of the library's solvers.
CLAIMS = (
    (
        "the algorithms as printed",
        (
            ("nnfn-gradient", "about as fast as", ("factored-nuclear-gradient",), 0.9),
            ("nnfn-gradient", "at least ten times as fast as", ("nnfn-prox-plain",), 10.0),
            ("nnfn-prox-plain", "faster than", ("capped-l1-plain", "lsp-plain", "mcp-plain"), 1.0),
        ),
    ),
    (
        "the solvers of this library",
        (
            ("nnfn", "about as fast as", ("factored-nuclear",), 0.9),
            ("nnfn", "at least ten times as fast as", ("nnfn-prox",), 10.0),
            ("nnfn-prox", "faster than", ("capped-l1", "lsp", "mcp"), 1.0),
        ),
    ),
)


def verdict(summaries: Summaries, rows: Sequence[Row]) -> list[str]:
    """At most ten sentences or so about all suites together."""
    said = [_about_run(rows)] if rows else []
    return said + _about_errors(summaries) + _about_order(summaries) + _about_best(summaries) + _about_speed(summaries)


def _about_run(rows: Sequence[Row]) -> str:
    counted = {what: len({row[what] for row in rows}) for what in ("method", "dataset", "seed")}
    plain = sum(row["status"] == "ok" and not row["reason"] for row in rows)
    return (
        f"{len(rows)} cells were run, {counted['method']} lines on {counted['dataset']} data sets with up to "
        f"{counted['seed']} seeds; {plain} are without remark."
    )


def _pairs(summaries: Summaries) -> list[tuple[str, Line]]:
    """Lines that have a number of the paper beside them, in the paper's own tables, with the label of their data."""
    return [
        (dataset.label, line)
        for suite, summary in summaries
        for dataset in suite.datasets
        if dataset.published is None
        for line in summary.get(dataset.name, [])
        if line.error_ratio is not None and line.method not in BESIDE
    ]


def _about_errors(summaries: Summaries) -> list[str]:
    pairs = _pairs(summaries)
    if not pairs:
        return []
    lower = [(label, line) for label, line in pairs if (line.error_ratio or 1) < 1 - NOTABLE]
    higher = [(label, line) for label, line in pairs if (line.error_ratio or 1) > 1 + NOTABLE]
    near = len(pairs) - len(lower) - len(higher)
    said = [
        f"Of the {len(pairs)} errors that the paper prints and that were measured here, {near} reproduce within "
        f"{NOTABLE:.0%}, {len(lower)} are lower by more, {len(higher)} higher by more."
    ]
    for what, found in (("Better than the paper", lower), ("Not as good as the paper", higher)):
        if found:
            by_data: dict[str, list[Line]] = {}
            for label, line in found:
                by_data.setdefault(label, []).append(line)
            parts = (
                f"{label} {_range([x.error_ratio or 1 for x in lines])} ({_who(lines)})"
                for label, lines in by_data.items()
            )
            said.append(f"{what}, error over its error: {'; '.join(parts)}.")
    return said + _about_floors(summaries)


def _about_floors(summaries: Summaries) -> list[str]:
    """Lines of table 4 at the true rank, beside least squares that knows it."""
    known = [
        line.error / line.floor
        for _, summary in summaries
        for lines in summary.values()
        for line in lines
        if line.error is not None and line.floor is not None and line.published is not None
    ]
    if not known:
        return []
    near = sum(ratio <= NEAR_FLOOR for ratio in known)
    return [
        f"At the true rank of synthetic data {near} of {len(known)} lines are within {NEAR_FLOOR - 1:.0%} of least "
        f"squares that knows the rank, the highest at {max(known):.2f} times its error."
    ]


def _about_order(summaries: Summaries) -> list[str]:
    orders = [
        order_of(summary.get(dataset.name, []))
        for suite, summary in summaries
        for dataset in suite.datasets
        if dataset.published is None
    ]
    pairs, same, against = (sum(getattr(order, name) for order in orders) for name in ("pairs", "same", "against"))
    if not pairs:
        return []
    return [
        f"Of the {pairs} pairs of methods that the paper's errors tell apart, {same} are in the same order here, "
        f"{against} in the opposite one, {pairs - same - against} cannot be told apart."
    ]


def _about_best(summaries: Summaries) -> list[str]:
    """The paper's claim: factored NNFN is the best and the fastest everywhere."""
    reference = [line for _, summary in summaries for lines in summary.values() for line in lines]
    reference = [line for line in reference if line.method == REFERENCE]
    said = []
    for what, chosen in (
        ("has the least error, or one not different from it,", [x.best_error for x in reference if len(x.errors) > 1]),
        ("is the fastest, or not different from it,", [x.best_time for x in reference if len(x.seconds) > 1]),
    ):
        if chosen:
            said.append(
                f"{_first(reference[0].label)} {what} in {sum(chosen)} of {len(chosen)} tables (in the paper: in all)."
            )
    return said


def _about_speed(summaries: Summaries) -> list[str]:
    """Whether the paper's claims on speed hold, on the data sets where it has both times."""
    said = []
    tables = [
        {line.method: line for line in summary.get(dataset.name, [])}
        for suite, summary in summaries
        for dataset in suite.datasets
        if dataset.published is None
    ]
    for whose, claims in CLAIMS:
        parts = []
        for fast, how, others, least in claims:
            pairs = [(table[slow], table[fast]) for table in tables for slow in others if {slow, fast} <= table.keys()]
            known = [(a, b) for a, b in pairs if a.time and b.time and a.published and b.published]
            if not known:
                continue
            ours = [(a.time or 0.0) / (b.time or 1.0) for a, b in known]
            theirs = [a.published.seconds / b.published.seconds for a, b in known if a.published and b.published]
            who = ", ".join(dict.fromkeys(_method(a) for a, _ in known))
            holds = sum(ratio >= least for ratio in ours)
            parts.append(
                f"{_method(known[0][1])} {how} {who} in {holds} of {len(ours)} comparisons "
                f"({_range(ours)} times, {_range(theirs)} in the paper)"
            )
        if parts:
            said.append(f"Speed, by {whose}: {'; '.join(parts)}.")
    return said


def _first(text: str) -> str:
    """With a capital letter, as a sentence begins."""
    return text[:1].upper() + text[1:]


def _method(line: Line) -> str:
    """Its method: the label without the words on its algorithm, which the sentence begins with."""
    return line.label.partition(", ")[0]


def _who(lines: Sequence[Line]) -> str:
    """Labels of a few lines, the number of many."""
    return ", ".join(line.label for line in lines) if len(lines) <= 4 else f"{len(lines)} methods"


def _range(values: Sequence[float]) -> str:
    low, high = written(min(values), ".2g"), written(max(values), ".2g")
    return low if low == high else f"{low} to {high}"
