"""With NUMBA_BOUNDSCHECK=1 every index of a kernel is checked, that of vectors too: `make bounds` runs all tests so."""

import os
import subprocess
import sys

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
