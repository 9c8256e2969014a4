"""The kernels work whatever becomes of the folder in which their machine code is kept."""

import ctypes
import os
import signal
import subprocess
import sys

import pytest

from lorank import kernels
from lorank.kernels.compiling import _CacheFile, undisturbed

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
        for damage in (lambda content: content[: len(content) // 2], lambda content: content[:-200] + bytes(200)):
            path.write_bytes(damage(path.read_bytes()))
            err = run(tmp_path)
            assert "Traceback" not in err
            assert "compiling kernels" in err
    assert run(tmp_path) == "", "what was damaged has been written anew"


@pytest.mark.parametrize(
    "silence", ["from lorank import progress; progress.quiet = True", "import sys; sys.stderr = None"]
)
def test_nothing_is_said_to_who_asked_for_silence_or_into_the_output(tmp_path, silence):
    assert run(tmp_path, silence + PROGRAM) == ""


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("NUMBA_NUM_THREADS=0", "unset NUMBA_NUM_THREADS, or set it to 1 or more."),
        ("NUMBA_NUM_THREADS=-1", "unset NUMBA_NUM_THREADS, or set it to 1 or more."),
        ("NUMBA_DISABLE_JIT=1", "The kernels run compiled only; unset NUMBA_DISABLE_JIT."),
    ],
)
def test_settings_of_numba_that_cannot_be(tmp_path, setting, sentence):
    (tmp_path / "t.csv").write_text("a,x,1\nb,y,2\n")
    name, value = setting.split("=")
    command = [sys.executable, "-m", "lorank", "fit", "t.csv"]
    done = subprocess.run(
        command, env={**os.environ, name: value}, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: ")
    assert done.stderr.endswith(f"{sentence}\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_until_a_kernel_is_compiled_or_read(number):
    """LLVM calls back: an interrupt there was printed and lost, and the kernel with it."""
    done = []

    def handler(*_):
        raise KeyboardInterrupt(len(done))

    def callback():
        os.kill(os.getpid(), number)
        done.append(1)

    before = signal.signal(number, handler)
    try:
        inside = undisturbed(lambda: ctypes.CFUNCTYPE(None)(callback)())
        with pytest.raises(KeyboardInterrupt, match="1"):
            undisturbed(inside)()  # kernels compile the kernels that they call
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)
    assert kernels.first_wrong_line.compile.__wrapped__


@pytest.mark.parametrize(("source", "key"), [((2, 2.0), "f(x)"), ((1, 1.0), "f(x, y)")])
def test_code_of_another_source_or_signature_is_not_run(tmp_path, monkeypatch, source, key):
    """The disk is full when the index is written and the code is not: older code lies in its place."""
    _CacheFile(str(tmp_path), "f", (1, 1.0)).save("f(x)", "old code")
    assert _CacheFile(str(tmp_path), "f", (1, 1.0)).load("f(x)") == "old code"
    file = _CacheFile(str(tmp_path), "f", source)
    if key != "f(x)":
        next(tmp_path.glob("*.nbi")).unlink()
    with monkeypatch.context() as full:
        full.setattr(_CacheFile, "_save_data", _full)
        with pytest.raises(OSError, match="full"):
            file.save(key, "new code")
    with pytest.raises(ValueError, match="another version"):
        file.load(key)
    file.save(key, "new code")
    assert file.load(key) == "new code"


def _full(*_):
    raise OSError("full")
