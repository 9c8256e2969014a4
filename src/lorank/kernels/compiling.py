"""The decorator of every kernel, the cache of machine code, and what a user reads while kernels are being compiled."""

import functools
import pickle
import signal
import threading
import zlib
from contextlib import suppress

from lorank import progress
from lorank.errors import InputError, one_line

try:
    import numba
except ValueError as error:
    raise InputError(
        f"numba cannot be loaded ({one_line(error)}); unset NUMBA_NUM_THREADS, or set it to 1 or more."
    ) from None
from numba.core import config, event
from numba.core.caching import FunctionCache, IndexDataCacheFile

if config.DISABLE_JIT:  # vector instructions, which the kernels use, are no Python
    raise InputError("The kernels run compiled only; unset NUMBA_DISABLE_JIT.")

# Sums may be reordered and fused, but NaN and infinity keep their meaning: a diverged fit must be seen.
FASTMATH = {"contract", "reassoc", "nsz", "arcp", "afn"}


def kernel(function):
    """Compile on first use, keep the machine code on disk, and let other threads run meanwhile.

    The cache is a help and no more: where it cannot be written or read, the kernel is compiled in memory.
    """
    dispatcher = numba.njit(nogil=True, fastmath=FASTMATH)(function)
    try:
        dispatcher._cache = _Cache(function)
    except Exception as error:  # no folder that can be written to, for one
        _Notice.without_cache = str(error)
    dispatcher.compile = undisturbed(dispatcher.compile)
    return dispatcher


def undisturbed(compile):
    """The same function, during which signals wait: LLVM calls back, and an interrupt within that is lost."""

    @functools.wraps(compile)
    def waiting(*args, **kwargs):
        if threading.current_thread() is not threading.main_thread():  # which no signal disturbs
            return compile(*args, **kwargs)
        came = []
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, *progress.ENDS)}
        try:
            for number, handler in before.items():
                if callable(handler):
                    signal.signal(number, lambda *about: came.append(about))
            return compile(*args, **kwargs)
        finally:
            for number, handler in before.items():
                if callable(handler):
                    signal.signal(number, handler)
            for about in came[:1]:
                before[about[0]](*about)

    return waiting


def inlined(function):
    """A piece of several kernels that is put into each of them: a call in the innermost loop would show."""
    return numba.njit(inline="always", fastmath=FASTMATH)(function)


class _CacheFile(IndexDataCacheFile):
    """Machine code with a checksum, and with what it was compiled from: wrong code would not raise an error, but run.

    The index is written before the code. If the disk is full in between, it names a file with the code of an older
    source or of another signature, if there is one.
    """

    def save(self, key, data):
        super().save(key, (self._source_stamp, key, data))

    def load(self, key):
        found = super().load(key)
        if found is None:
            return None
        *compiled_from, data = found
        if compiled_from != [self._source_stamp, key]:
            raise ValueError("it has the code of another version")
        return data

    def _save_data(self, name, data):
        content = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(zlib.crc32(content).to_bytes(4, "little") + content)

    def _load_data(self, name):
        with open(self._data_path(name), "rb") as file:
            content = file.read()
        if zlib.crc32(content[4:]) != int.from_bytes(content[:4], "little"):
            raise ValueError(f"{name} is damaged")
        return pickle.loads(content[4:])


class _Cache(FunctionCache):
    """numba's cache, none of whose errors end a program: a disk may be full, read-only or damaged."""

    def __init__(self, function):
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _CacheFile(self._cache_path, f"{self._impl.filename_base}-keyed", stamp)

    def load_overload(self, sig, target_context):
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:
            _Notice.without_cache = str(error)
            with suppress(Exception):  # begin anew: code is not added to an index that cannot be read
                self._cache_file.flush()
            return None

    def save_overload(self, sig, data):
        try:
            super().save_overload(sig, data)
        except Exception as error:
            _Notice.without_cache = str(error)
            _Notice.say_why()


class _Notice(event.Listener):
    """Says once per process that kernels are being compiled; a kernel read from the cache says nothing."""

    said = said_why = False
    # Why the cache cannot be used, if it cannot.
    without_cache = ""

    def on_start(self, event):
        function = getattr(event.data.get("dispatcher"), "py_func", None)
        if not getattr(function, "__module__", "").startswith("lorank."):
            return
        if not _Notice.said:
            _Notice.said = True
            progress.notice("compiling kernels for this machine (once; some seconds)")
        _Notice.say_why()

    def on_end(self, event):
        pass

    @classmethod
    def say_why(cls):
        """Say once per process that compiled kernels are not kept."""
        if cls.without_cache and not cls.said_why:
            cls.said_why = True
            reason = " ".join(cls.without_cache.split())[:200]
            progress.notice(f"compiled kernels cannot be kept, so they are compiled anew ({reason})")


event.register("numba:compile", _Notice())
