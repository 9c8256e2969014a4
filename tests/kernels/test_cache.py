"""The kernels work whatever becomes of the folder in which their machine code is kept."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import numpy as np
from lorank.observations import checks
from lorank import kernels
print(kernels.first_wrong_line(np.array([0, 1, 2]), np.array([0, 5], np.int32), 3))
"""
SENTENCE = "lorank: compiled kernels cannot be kept, so they are compiled anew"


def run(folder, program=PROGRAM):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    return done.stderr


def test_no_folder_that_can_be_written(tmp_path):
    """As in a container whose home and packages are read-only; root writes everywhere, so numba is told so."""
    err = run(tmp_path, program="from numba.core.caching import CacheImpl; CacheImpl._locator_classes = []" + PROGRAM)
    assert err.count(SENTENCE) == 1
    assert "Traceback" not in err


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit of the size of files")
def test_a_full_disk(tmp_path):
    err = run(tmp_path, "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))" + PROGRAM)
    assert err.count(SENTENCE) == 1


def test_a_damaged_cache(tmp_path):
    assert "compiling kernels" in run(tmp_path)
    assert run(tmp_path) == ""
    files = sorted(tmp_path.rglob("*first_wrong_line*"))
    assert {path.suffix for path in files} == {".nbi", ".nbc"}
    for path in files:
        content = path.read_bytes()
        for damage in (content[: len(content) // 2], content[:-200] + bytes(200)):
            path.write_bytes(damage)
            err = run(tmp_path)
            assert "Traceback" not in err
            assert "compiling kernels" in err
            for one in files:
                one.unlink(missing_ok=True)
            run(tmp_path)
