"""A sea surface under clouds or between swaths: lorank beside DINEOF, low rank and climatology, error and time."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from climate_records import Records, table
from dineof import dineof
from scipy.ndimage import gaussian_filter

from lorank import MatrixCompletion
from lorank.linalg.blas import one_blas_thread
from lorank.spatial import GridCompletion


def sea_surface(
    gaps: str = "clouds", n: int = 200, rows: int = 60, cols: int = 80, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Temperature (n, y, x) every five days as it is, and as a satellite sees it, with land.

    gaps are "clouds", some days hardly anything, or "swaths": oblique stripes that are seen, a third of the sea, and
    elsewhere each time.

    A mean that falls to the north, a season, eight large patterns with slow series, eddies that last two or three
    steps, noise of 0.1.
    """
    rng = np.random.default_rng(seed)
    patterns = np.stack([gaussian_filter(rng.standard_normal((rows, cols)), 10, mode="wrap") for _ in range(8)])
    patterns /= patterns.std(axis=(1, 2), keepdims=True)
    series = gaussian_filter(rng.standard_normal((n, 8)), (3, 0))
    series *= 1.2 * 0.8 ** np.arange(8) / series.std(axis=0)
    season = 4 * np.cos(2 * np.pi * np.arange(n) / 73)[:, None, None] * (1 + 0.3 * patterns[0])
    eddies = gaussian_filter(rng.standard_normal((n, rows, cols)), (2, 3, 3))
    north = 15 - 5 * np.linspace(-1, 1, rows)[:, None]
    truth = north + season + np.einsum("tk,kyx->tyx", series, patterns) + 0.4 * eddies / eddies.std()
    seen = truth + 0.1 * rng.standard_normal(truth.shape)
    if gaps == "clouds":
        clouds = gaussian_filter(rng.standard_normal(truth.shape), (0, 7, 7))
        # About a tenth is seen at least: DINEOF leaves emptier times out.
        seen[clouds / clouds.std() > np.maximum(rng.normal(0.0, 0.8, n), -1.2)[:, None, None]] = np.nan
    else:
        across = np.arange(cols) + 0.3 * np.arange(rows)[:, None]
        seen[(across + rng.uniform(0, 36, n)[:, None, None]) % 36 > 12] = np.nan
    height = gaussian_filter(rng.standard_normal((rows, cols)), 9)
    seen[:, height > np.quantile(height, 0.8)] = np.nan
    return truth, seen


def climatology(seen: np.ndarray) -> np.ndarray:
    """Each cell's mean and yearly wave, by least squares."""
    year = 2 * np.pi * np.arange(len(seen)) / 73
    basis = np.column_stack([np.ones(len(seen)), np.cos(year), np.sin(year)])
    cells = seen.reshape(len(seen), -1)
    known = (~np.isnan(cells)).astype(float)
    products = (basis[:, :, None] * basis[:, None, :]).reshape(len(basis), -1)
    normal = (known.T @ products).reshape(-1, 3, 3) + 1e-6 * np.eye(3)
    right = np.where(known > 0, cells, 0.0).T @ basis
    return (basis @ np.linalg.solve(normal, right[:, :, None])[:, :, 0].T).reshape(seen.shape)


def modes(seen: np.ndarray) -> np.ndarray:
    answer, chosen = dineof(seen)
    print(f"<!-- DINEOF: {chosen} modes -->", flush=True)
    return answer


def plain(seen: np.ndarray) -> np.ndarray:
    """MatrixCompletion of cells by times, tuned."""
    cells = seen.reshape(len(seen), -1)
    sea = ~np.isnan(cells).all(axis=0)
    out = np.full(cells.shape, np.nan)
    out[:, sea] = MatrixCompletion("nnfn", random_state=0).fit(cells[:, sea].T).complete().T
    return out.reshape(seen.shape)


def filled(seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    model = GridCompletion().fit(seen, np.datetime64("2001-01-01") + 5 * np.arange(len(seen)))
    print(f"<!-- {model.parameters_} -->", flush=True)
    return model.complete()


METHODS: dict[str, Callable[[np.ndarray], object]] = {
    "climatology": climatology,
    "DINEOF": modes,
    '`MatrixCompletion("nnfn")`': plain,
    "**`GridCompletion`**": filled,
}


COLUMNS = {"RMSE at gaps": ".3f±", "within": ".1%", "CPU s": ".0f"}


def grids(seeds: int, methods: str, records: Records) -> None:
    """Measure what is not recorded; only methods whose name has `methods` in it are run."""
    for kind in ("clouds", "swaths"):
        for seed in range(seeds):
            truth, seen = sea_surface(kind, seed=seed)
            for name, method in METHODS.items():
                if methods in name and not records.has(kind, name, seed):
                    records.add(kind, name, seed, judged(truth, seen, method, seed))
        sea = ~np.isnan(seen).all(axis=0)
        part = f"{np.isnan(seen[:, sea]).mean():.0%} of the sea missing"
        n, *shape = truth.shape
        print(f"\n## Sea surface, {kind}, {shape[0]} x {shape[1]} cells x {n} times, {part}\n")
        print(table([row for name in METHODS if (row := records.row(kind, name)) is not None], COLUMNS), flush=True)


def judged(
    truth: np.ndarray, seen: np.ndarray, method: Callable[[np.ndarray], object], seed: int
) -> dict[str, float | None]:
    """RMSE at gaps, part of what would be measured there within 1.645 deviations, and CPU seconds."""
    gaps = np.isnan(seen) & ~np.isnan(seen).all(axis=0)
    started = time.process_time()
    with one_blas_thread():
        answer = method(seen)
    spent = time.process_time() - started
    values, *errors = answer if isinstance(answer, tuple) else (answer,)
    miss = (values - truth)[gaps]
    noisy = miss + 0.1 * np.random.default_rng(seed).standard_normal(miss.shape)
    inside = float(np.mean(np.abs(noisy) < 1.645 * errors[0][gaps])) if errors else None
    return dict(zip(COLUMNS, (float(np.sqrt(np.mean(miss**2))), inside, spent)))
