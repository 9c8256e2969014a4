"""The decorator of every kernel, and the sentence a user reads while kernels are being compiled."""

import sys

import numba
from numba.core import event

# Sums may be reordered and fused, but NaN and infinity keep their meaning: a diverged fit must be seen.
FASTMATH = {"contract", "reassoc", "nsz", "arcp", "afn"}


def kernel(function):
    """Compile on first use, keep the machine code on disk, and let other threads run meanwhile."""
    return numba.njit(nogil=True, cache=True, fastmath=FASTMATH)(function)


def inlined(function):
    """A piece of several kernels that is put into each of them: a call in the innermost loop would show."""
    return numba.njit(inline="always", fastmath=FASTMATH)(function)


class _Notice(event.Listener):
    """Says once per process that kernels are being compiled; a kernel read from the cache says nothing."""

    said = False

    def on_start(self, event):
        function = getattr(event.data.get("dispatcher"), "py_func", None)
        if not _Notice.said and getattr(function, "__module__", "").startswith("lorank."):
            _Notice.said = True
            print("lorank: compiling kernels for this machine (once; some seconds)", file=sys.stderr, flush=True)

    def on_end(self, event):
        pass


event.register("numba:compile", _Notice())
