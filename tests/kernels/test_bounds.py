"""With NUMBA_BOUNDSCHECK=1 every index of a kernel is checked, that of vectors too: `make bounds` runs all tests so."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import numpy as np
from lorank.kernels import LANES
from lorank.kernels.compiling import kernel
from lorank.kernels.simd import load, total

@kernel
def add(array, at):
    return total(load(array, at))

array = np.ones(2 * LANES)
print(add(array, LANES))
for at in (LANES + 1, -1):
    try:
        add(array, at)
    except IndexError as error:
        print(error)
"""


def test_vectors_outside_of_their_array(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py"], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "8.0\n" + 2 * "A vector lies outside of its array.\n", done.stderr


FITS = """
import numpy as np
import lorank
rng = np.random.default_rng(0)
X = np.where(rng.random((30, 20)) < 0.6, rng.normal(size=(30, 20)), np.nan)
for rank in (1, 6, 7):  # with its bias and value a line fills a vector, or just does not
    model = lorank.MatrixCompletion("nnfn", rank=rank, lam=0.1, biases=True, max_iter=3, random_state=0).fit(X)
    model.recommend(n=3)
print("inside")
"""


def test_a_fit_stays_inside_of_its_arrays():
    """The solver and kernels that most fits use; `make bounds` has the others. Machine code is kept with its own."""
    folder = Path(__file__).parents[2] / "build" / "bounds"
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FITS], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "inside\n", done.stderr
