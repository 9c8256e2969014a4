"""The floor: the kernels beside the same passes in straightforward C, compiled on the spot.

    python benchmarks/floor.py [--entries 1000000]

C gets every help that a plain loop can have: gcc -O3 -march=native -ffast-math, the rank a constant of the compiler,
unpadded factors, and for the gradients one fused pass that needs each residual once. Single thread; the smallest
CPU time of several alternating repeats; prints lorank / C, to stay under 1.5. Skipped without gcc.
"""

import argparse
import ctypes
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from lorank.linalg import Factors
from lorank.observations import Observations
from lorank.problems import Problem
from lorank.regularizers import FactoredNuclear

SOURCE = r"""
#include <math.h>
#include <string.h>

/* Residuals and both gradients in one pass; returns half the sum of squares. */
double gradients(long m, long n, const long *pointers, const int *indices, const REAL *values,
                 const REAL *W, const REAL *H, REAL *GW, REAL *GH) {
    double squares = 0;
    memset(GH, 0, n * K * sizeof(REAL));
    for (long i = 0; i < m; i++) {
        const REAL *w = W + i * K;
        REAL g[K] = {0};
        for (long t = pointers[i]; t < pointers[i + 1]; t++) {
            const REAL *h = H + (long)indices[t] * K;
            REAL *gh = GH + (long)indices[t] * K;
            REAL r = -values[t];
            for (int a = 0; a < K; a++) r += w[a] * h[a];
            for (int a = 0; a < K; a++) g[a] += r * h[a];
            for (int a = 0; a < K; a++) gh[a] += r * w[a];
            squares += (double)r * r;
        }
        memcpy(GW + i * K, g, sizeof g);
    }
    return squares / 2;
}

/* Normal equations of every row, and their solution by Cholesky. */
void solve(long m, const long *pointers, const int *indices, const REAL *values, const REAL *H, REAL lam, REAL *W) {
    for (long i = 0; i < m; i++) {
        REAL A[K][K] = {{0}}, b[K] = {0};
        for (long t = pointers[i]; t < pointers[i + 1]; t++) {
            const REAL *h = H + (long)indices[t] * K;
            for (int a = 0; a < K; a++)
                for (int c = 0; c <= a; c++) A[a][c] += h[a] * h[c];
            for (int a = 0; a < K; a++) b[a] += values[t] * h[a];
        }
        for (int a = 0; a < K; a++) A[a][a] += lam;
        for (int a = 0; a < K; a++)
            for (int c = 0; c <= a; c++) {
                REAL x = A[a][c];
                for (int t = 0; t < c; t++) x -= A[a][t] * A[c][t];
                A[a][c] = a == c ? (REAL)sqrt(x) : x / A[c][c];
            }
        for (int a = 0; a < K; a++) {
            for (int c = 0; c < a; c++) b[a] -= A[a][c] * b[c];
            b[a] /= A[a][a];
        }
        for (int a = K - 1; a >= 0; a--) {
            for (int c = a + 1; c < K; c++) b[a] -= A[c][a] * b[c];
            b[a] /= A[a][a];
        }
        memcpy(W + i * K, b, sizeof b);
    }
}
"""


def compiled(folder, k, real):
    library = Path(folder) / f"floor_{k}_{real}.so"
    source = Path(folder) / "floor.c"
    source.write_text(SOURCE)
    command = ["gcc", "-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", f"-DK={k}", f"-DREAL={real}"]
    subprocess.run([*command, str(source), "-o", str(library), "-lm"], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.gradients.restype = ctypes.c_double
    return loaded


def pointer(array):
    return ctypes.c_void_p(array.ctypes.data)


def alternate(mine, theirs, repeats):
    """Least CPU seconds of each, taken in turns."""
    best = [np.inf, np.inf]
    for _ in range(repeats):
        for which, function in enumerate((mine, theirs)):
            started = time.process_time()
            function()
            best[which] = min(best[which], time.process_time() - started)
    return best


def compare(k, dtype, entries, folder, repeats):
    real = {"float64": "double", "float32": "float"}[dtype]
    c = compiled(folder, k, real)
    rng = np.random.default_rng(0)
    m, n = entries // 100, 4000
    cells = np.unique(rng.integers(m * n, size=entries))
    seen = Observations.from_coo(cells // n, cells % n, rng.standard_normal(cells.size).astype(dtype), (m, n))
    W, H = (rng.standard_normal((size, k)).astype(dtype) for size in (m, n))
    factors = Factors.of(W, H)
    problem = Problem(seen, FactoredNuclear(lam=1.0), k, n_jobs=1)
    pointers, indices, values = seen.by_row.pointers, seen.by_row.indices, seen.values
    lines = (pointer(pointers), pointer(indices), pointer(values))
    GW, GH, solution = np.empty_like(W), np.empty_like(H), np.empty_like(W)
    lam = {"float64": ctypes.c_double, "float32": ctypes.c_float}[dtype](1.0)
    size = ctypes.c_long(m)

    def c_gradients():
        c.gradients(size, ctypes.c_long(n), *lines, pointer(W), pointer(H), pointer(GW), pointer(GH))

    def c_solve():
        c.solve(size, *lines, pointer(H), lam, pointer(solution))

    def gradients():
        return problem.gradients(factors)

    def solve():
        return problem.ridge_regressions(factors, np.eye(k))[0]

    # The same numbers come out, or the comparison means nothing.
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype == "float32" else {"rtol": 1e-7, "atol": 1e-7}
    c_gradients(), c_solve()
    left, right = gradients()
    np.testing.assert_allclose(left[:, :k], GW, **tolerance)
    np.testing.assert_allclose(right[:, :k], GH, **tolerance)
    np.testing.assert_allclose(solve()[:, :k], solution, **tolerance)
    rows = []
    for name, mine, theirs in (("gradients", gradients, c_gradients), ("normal equations", solve, c_solve)):
        ours, floor = alternate(mine, theirs, repeats)
        rows.append({"pass": name, "k": k, "dtype": dtype, "lorank_ns": ours, "c_ns": floor, "ratio": ours / floor})
        for key in ("lorank_ns", "c_ns"):
            rows[-1][key] *= 1e9 / seen.nnz
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "benchmarks" / "floor.json")
    arguments = parser.parse_args()
    if shutil.which("gcc") is None:
        print("The floor needs gcc, which is not here: skipped.")
        return
    rows = []
    print(f"{'pass':18s} {'k':>3s} {'dtype':8s} {'lorank':>8s} {'C':>8s}  ns per entry; ratio")
    with tempfile.TemporaryDirectory() as folder:
        for k in (10, 20, 50):
            for dtype in ("float64", "float32"):
                for row in compare(k, dtype, arguments.entries, folder, arguments.repeats):
                    rows.append(row)
                    print(
                        f"{row['pass']:18s} {k:3d} {dtype:8s} {row['lorank_ns']:8.2f} {row['c_ns']:8.2f}"
                        f"  {row['ratio']:.2f}",
                        flush=True,
                    )
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
