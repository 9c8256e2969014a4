"""Where our numbers differ from the paper's, and why: what the records say, then what is known about the protocol."""

from __future__ import annotations

from itertools import combinations

from lorank.experiments.methods import REFERENCE
from lorank.experiments.report_tables import written
from lorank.experiments.settings import Suite
from lorank.experiments.statistics import CONFIDENCE, Line, comparable

# Relative difference of an error from the paper's that is worth a sentence.
NOTABLE = 0.05
# The error that a good method may have, over that of least squares which knows the rank.
NEAR_FLOOR = 1.06
# Of the paper.
REPETITIONS = 5

KNOWN = {
    "synthetic": (
        "Noise N(0, 0.1) is read as a standard deviation of 0.1, and all of Omega trains, with a second sample of the "
        "same size to validate on: only so can the paper's errors come out. Training on half of Omega cannot get under "
        "0.025.",
        "At the true rank every fit that hardly shrinks is the same, so factored nuclear, factored GSR and the nuclear "
        "norm, tuned as well as NNFN, reach the same error; in the paper they are worse. The regularizers differ where "
        "the rank is larger than the truth: that is the second group of tables.",
        "The rank is given, not searched: 5 for table 4. It bounds the nuclear norm too, which the paper lets grow.",
    ),
    "ablation": (
        "The methods are given the true rank, so that what differs is the data; the paper shows figure 3 without "
        "numbers.",
    ),
    "recommendation": (
        "Errors are in standard deviations of the training ratings (0.797 is about 0.89 stars on MovieLens-1M).",
        "MovieLens-10M and Yahoo are read from the user's folder if they are there. The simulated ones have their "
        "shape, count and skew only: their times and memory mean something, an error on them would not, and none is "
        "shown.",
        "Biases and a tuned theta, which the paper does not try, are a table of their own.",
    ),
    "climate": (
        "The paper does not state the unit of the distance in its graph. Table 6 here takes 1000 km, which smooths far "
        "too much; a second group of tables tunes the unit, and its errors are below the paper's on GAS.",
        "A third group is what does not need the paper: interpolation month by month, and low rank with a kernel prior "
        "in place of the graph.",
        "GAS is the file of anomalies that the literature passes around; z-scores and anomalies of the raw files are "
        "given as tables of their own, for they change the numbers by more than the choice of a method does.",
        "USHCN temperature is the raw version 2.5 from 1919 to 2016 as anomalies; precipitation is the file of 108 "
        "stations, 1915 to 2000. The paper used 1919 to 2019, and does not say which stations.",
    ),
}

ALWAYS = (
    "Times are of this machine and of other code: compare the ratios to factored NNFN, not the seconds. The paper ran "
    "MATLAB with C on an i7 of 3.6 GHz.",
    "The solvers are not the paper's: factored NNFN is fitted by alternating least squares with momentum instead of "
    "gradient descent, and the proximal methods work on low rank plus sparse. Slow rivals are therefore less slow "
    "here.",
    "Every method has the same search with the same number of fits and seconds on the validation entries; every "
    "reported fit begins anew and stops when the objective changes by less than 1e-4 of itself.",
    "MB to fit is what the reported fit took beyond the most that its process still held from the search before it: 0 "
    "where that was enough. Simulated ratings have no search, so that theirs is all.",
    "Curves are of the first seed. BPMF's shows single draws; its last point is their mean, which is the answer.",
)


def findings(suite: Suite, summary: dict[str, list[Line]]) -> list[str]:
    """Sentences about one suite; the first ones are counted from the records."""
    said = _in_short(summary)
    if suite.name != "ablation":  # the paper has no numbers there
        for dataset in suite.datasets:
            lines, title = summary.get(dataset.name, []), f"{dataset.group}, {dataset.label}"
            said += _about_best(title, lines)
            said += order_check(title, lines) if dataset.published is None else []
            said += _about_speed(title, lines) + _about_errors(title, lines)
    return said + _about_missing(suite, summary) + list(KNOWN.get(suite.name, ()))


def floor_check(label: str, lines: list[Line], floor: float) -> str:
    """Whether the nonconvex methods reach what least squares at the true rank would, and agree among themselves."""
    names = ("truncated-l12", "capped-l1", "lsp", "mcp", "nnfn-prox", "nnfn")
    found = {line.label: line for line in lines if line.method in names and line.error is not None}
    if not found:
        return ""
    above = [name for name, line in found.items() if (line.error or 0.0) > NEAR_FLOOR * floor]
    under = [line for name, line in found.items() if name not in above]
    if not under:
        return f"{label}: no nonconvex method is under {NEAR_FLOOR} times {floor:.4f}, what least squares would reach."
    spread = max(line.error or 0.0 for line in under) - min(line.error or 0.0 for line in under)
    deviation = max((line.error_std or 0.0) for line in under)
    reach = (
        f"all {len(found)} nonconvex methods" if not above else f"not {', '.join(above)}, but the other nonconvex ones"
    )
    said = f"{label}: {reach} are under {NEAR_FLOOR} times {floor:.4f}, the error of least squares at the true rank"
    if not deviation:  # one run only
        return f"{said}."
    alike = "within" if spread <= deviation else "not within"
    return (
        f"{said}; they are {alike} one standard deviation of each other "
        f"(spread {spread:.5f}, deviation {deviation:.5f})."
    )


def order_check(label: str, lines: list[Line]) -> list[str]:
    """Whether our errors put methods in the order in which the paper's do.

    Of all pairs that the paper tells apart (Welch's test at 95%, from its means and deviations of five repetitions),
    those in the same order here, in the opposite one, and those that a paired test at 95% does not tell apart.
    """
    from scipy.stats import ttest_ind_from_stats

    known = sorted(
        ((line.published, line) for line in lines if line.published is not None and line.error is not None),
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
    if not apart:
        return []
    verdict = "confirmed" if same == apart else "refuted in part" if opposite else "neither confirmed nor refuted"
    turned = "; ".join(f"{better} behind {', '.join(worse)}" for better, worse in opposite.items())
    turned = f" ({turned})" if turned else ""
    against = sum(map(len, opposite.values()))
    return [
        f"{label}: the paper's order of methods is {verdict}. Of the {apart} pairs that its errors tell apart, {same} "
        f"are in the same order here, {against} in the opposite one{turned}, {apart - same - against} cannot be told "
        "apart."
    ]


def _in_short(summary: dict[str, list[Line]]) -> list[str]:
    """The paper's claim, counted: factored NNFN is the best and the fastest everywhere."""
    references = [line for lines in summary.values() for line in lines if line.method == REFERENCE]
    errors = [line.best_error for line in references if len(line.errors) > 1]
    times = [line.best_time for line in references if len(line.seconds) > 1]
    if not times:
        return []
    least = f"has the least error, or one not different from it, in {sum(errors)} of {len(errors)} tables, and " * bool(
        errors
    )
    return [f"Factored NNFN {least}is the fastest, or not different from it, in {sum(times)} of {len(times)}."]


def _about_best(label: str, lines: list[Line]) -> list[str]:
    """Who has the least error, and how far factored NNFN, the paper's best everywhere, is from it."""
    known = [line for line in lines if line.error is not None]
    if len(known) < 2:
        return []
    best = min(known, key=lambda line: line.error or 0.0)
    alike = [line.label for line in known if line.best_error and line is not best]
    text = f"{label}: the least error has {best.label}, {best.error:.4f}"
    text += f"; not different from it: {', '.join(alike)}." if alike else "."
    reference = next((line for line in known if line.method == REFERENCE and not line.best_error), None)
    if reference is not None:
        text += f" Factored NNFN is {(reference.error or 0.0) / (best.error or 1.0) - 1:.1%} above it."
    return [text]


def _about_missing(suite: Suite, summary: dict[str, list[Line]]) -> list[str]:
    """Lines without a result, by reason."""
    labels = {dataset.name: dataset.label for dataset in suite.datasets}
    reasons: dict[str, list[str]] = {}
    for name, lines in summary.items():
        missing: dict[str, list[str]] = {}
        for line in lines:
            if line.error is None and line.time is None and line.reasons:
                missing.setdefault(line.reasons[0], []).append(line.label)
        for reason, methods in missing.items():
            who = "all methods" if len(methods) == len(lines) else ", ".join(methods)
            reasons.setdefault(reason, []).append(f"{who} on {labels[name]}")
    return [f"Not run: {'; '.join(what)}. {reason}" for reason, what in reasons.items()]


def _about_speed(label: str, lines: list[Line]) -> list[str]:
    reference = next((line for line in lines if line.method == REFERENCE and line.time), None)
    others = [line for line in lines if line.time and line.method != REFERENCE]
    if reference is None or not others:
        return []
    quickest = min(others, key=lambda line: line.time or 0.0)
    if len(reference.seconds) < 2:
        return [f"{label}: one run only, in which {_ratio(quickest)} (factored NNFN: 1)."]
    if reference.best_time:
        return [f"{label}: factored NNFN is the fastest, or not different from it (next: {_ratio(quickest)})."]
    return [f"{label}: factored NNFN is not the fastest; {_ratio(quickest)}."]


def _ratio(line: Line) -> str:
    paper = f", {written(line.published_time_ratio)} in the paper" if line.published_time_ratio else ""
    return f"{line.label} takes {written(line.time_ratio or 0.0)} times as long{paper}"


def _about_errors(label: str, lines: list[Line]) -> list[str]:
    far = [line for line in lines if line.error_ratio and abs(line.error_ratio - 1) > NOTABLE]
    if not far:
        return []
    parts = (f"{line.label} {line.error:.4f} (paper {line.published.error:g})" for line in far if line.published)
    return [f"{label}: more than {NOTABLE:.0%} from the paper's error are {', '.join(parts)}."]
