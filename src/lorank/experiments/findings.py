"""What the records say, beside the paper: who is best, in which order, how fast, and of which rank."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from lorank.experiments.methods import BESIDE, REFERENCE
from lorank.experiments.report_tables import written
from lorank.experiments.settings import Dataset, Suite
from lorank.experiments.statistics import CONFIDENCE, Line, comparable

# Relative difference of an error from the paper's that is worth a sentence.
NOTABLE = 0.05
# The error that a good method may have, over that of least squares which knows the rank.
NEAR_FLOOR = 1.06
# Of the paper.
REPETITIONS = 5
# Of its synthetic data.
TRUE_RANK = 5


def findings(suite: Suite, dataset: Dataset, lines: list[Line]) -> list[str]:
    """Sentences about one table, each counted from the records: nothing is said of a method that has none."""
    if suite.name == "ablation":  # the paper has no numbers there
        return []
    said = floor_check(lines) if suite.name == "synthetic" and dataset.ranks == (TRUE_RANK,) else []
    said += _about_best(lines) + (order_check(lines) if dataset.published is None else [])
    return said + _about_speed(lines) + _about_ranks(lines)


def floor_check(lines: list[Line]) -> list[str]:
    """Whether the nonconvex methods reach what least squares at the true rank would, and agree among themselves."""
    names = ("truncated-l12", "capped-l1", "lsp", "mcp", "nnfn-prox", "nnfn")
    found = {line.label: line for line in lines if line.method in names and line.error is not None}
    floors = [line.floor for line in found.values() if line.floor is not None]
    if not floors:
        return []
    floor = floors[0]
    above = [name for name, line in found.items() if (line.error or 0.0) > NEAR_FLOOR * floor]
    under = [line for name, line in found.items() if name not in above]
    if not under:
        return [f"No nonconvex method is under {NEAR_FLOOR} times {floor:.4f}, what least squares would reach."]
    spread = max(line.error or 0.0 for line in under) - min(line.error or 0.0 for line in under)
    deviation = max((line.error_std or 0.0) for line in under)
    reach = (
        f"All {len(found)} nonconvex methods" if not above else f"Not {', '.join(above)}, but the other nonconvex ones"
    )
    said = f"{reach} are under {NEAR_FLOOR} times {floor:.4f}, the error of least squares at the true rank"
    if not deviation:  # one run only
        return [f"{said}."]
    alike = "within" if spread <= deviation else "not within"
    return [
        f"{said}; they are {alike} one standard deviation of each other "
        f"(spread {spread:.5f}, deviation {deviation:.5f})."
    ]


@dataclass(frozen=True)
class Order:
    """Pairs of methods that the paper's errors tell apart: how many, how many are in the same order here, and which are
    in the opposite one (the paper's better one -> those that are better here)."""

    pairs: int
    same: int
    opposite: dict[str, list[str]]

    @property
    def against(self) -> int:
        return sum(map(len, self.opposite.values()))


def order_of(lines: list[Line]) -> Order:
    """The paper's order of methods beside ours.

    Told apart are pairs of the paper by Welch's test at 95%, from its means and deviations of five repetitions, and
    ours by a paired test at 95%. A line of the paper counts once, by the solver that is ours.
    """
    from scipy.stats import ttest_ind_from_stats

    known = sorted(
        (
            (line.published, line)
            for line in lines
            if line.published and line.error is not None and line.method not in BESIDE
        ),
        key=lambda pair: pair[0].error,
    )
    same, apart, opposite = 0, 0, dict[str, list[str]]()
    for (paper, better), (other, worse) in combinations(known, 2):
        theirs = (paper.error, paper.error_std, REPETITIONS, other.error, other.error_std, REPETITIONS)
        shared = set(better.errors) & set(worse.errors)
        if len(shared) < 2 or ttest_ind_from_stats(*theirs, equal_var=False).pvalue > 1 - CONFIDENCE:
            continue
        apart += 1
        found = comparable({"better": better.errors, "worse": worse.errors})
        if found == {"better"}:
            same += 1
        elif found == {"worse"}:
            opposite.setdefault(better.label, []).append(worse.label)
    return Order(apart, same, opposite)


def order_check(lines: list[Line]) -> list[str]:
    """Whether our errors put methods in the order in which the paper's do."""
    order = order_of(lines)
    if not order.pairs:
        return []
    confirmed = order.same == order.pairs
    verdict = "confirmed" if confirmed else "refuted in part" if order.opposite else "neither confirmed nor refuted"
    turned = "; ".join(f"{better} behind {', '.join(worse)}" for better, worse in order.opposite.items())
    turned = f" ({turned})" if turned else ""
    return [
        f"The paper's order of methods is {verdict}. Of the {order.pairs} pairs that its errors tell apart, "
        f"{order.same} are in the same order here, {order.against} in the opposite one{turned}, "
        f"{order.pairs - order.same - order.against} cannot be told apart."
    ]


def _about_best(lines: list[Line]) -> list[str]:
    """Who has the least error, and how far factored NNFN, the paper's best everywhere, is from it."""
    known = [line for line in lines if line.error is not None]
    if len(known) < 2:
        return []
    best = min(known, key=lambda line: line.error or 0.0)
    alike = [line.label for line in known if line.best_error and line is not best]
    text = f"The least error has {best.label}, {best.error:.4f}"
    text += f"; not different from it: {', '.join(alike)}." if alike else "."
    reference = next((line for line in known if line.method == REFERENCE and not line.best_error), None)
    if reference is not None:
        text += f" Factored NNFN is {(reference.error or 0.0) / (best.error or 1.0) - 1:.1%} above it."
    return [text]


def _about_ranks(lines: list[Line]) -> list[str]:
    """Who leaves a tail of small singular values, and who has exact zeros there."""
    known = [line for line in lines if line.rank is not None and line.numerical_rank is not None]
    tails = [line for line in known if (line.numerical_rank or 0) > (line.rank or 0)]
    if not tails:
        return []
    parts = (f"{line.label} ({line.rank:.1f} above 1%, {line.numerical_rank:.1f} not zero)" for line in tails)
    exact = [line.label for line in known if line not in tails]
    rest = f" Exact zeros have {', '.join(exact)}." if exact else ""
    return [f"A tail of small singular values is left by {', '.join(parts)}.{rest}"]


def limits(suite: Suite, summary: dict[str, list[Line]]) -> list[str]:
    """Searches that the clock ended, and fits that were not converged."""
    labels = {dataset.name: dataset.label for dataset in suite.datasets}
    said = []
    for what, field in (
        ("The clock ended the search", "searches_out_of_time"),
        ("Not converged when its iterations or its time were over was the fit", "limited_fits"),
    ):
        parts = [
            f"{line.label} on {labels[name]} ({getattr(line, field)} of {line.runs} runs)"
            for name, lines in summary.items()
            for line in lines
            if getattr(line, field)
        ]
        said += [f"{what} of {'; '.join(parts)}."] if parts else []
    return said


def _about_speed(lines: list[Line]) -> list[str]:
    reference = next((line for line in lines if line.method == REFERENCE and line.time), None)
    others = [line for line in lines if line.time and line.method != REFERENCE]
    if reference is None or not others:
        return []
    quickest = min(others, key=lambda line: line.time or 0.0)
    if len(reference.seconds) < 2:
        return [f"One run only, in which {_ratio(quickest)} (factored NNFN: 1)."]
    if reference.best_time:
        return [f"Factored NNFN is the fastest, or not different from it (next: {_ratio(quickest)})."]
    return [f"Factored NNFN is not the fastest; {_ratio(quickest)}."]


def _ratio(line: Line) -> str:
    paper = f", {written(line.published_time_ratio)} in the paper" if line.published_time_ratio else ""
    return f"{line.label} takes {written(line.time_ratio or 0.0)} times as long{paper}"
