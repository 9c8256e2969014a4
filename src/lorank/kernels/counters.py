"""Random numbers that are a function of where they are used: Philox 4x32-10.

A number is named by (seed, stream, line, position): whoever computes line i gets the same bits, so nothing depends on
threads or on the order of lines, and no array of noise is kept.

References
----------
Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

import numpy as np

from lorank.kernels.compiling import kernel
from lorank.kernels.normal import normal_quantile

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_UNIT = 2.0**-32


@kernel
def philox(c0, c1, c2, c3, key):
    """Four words of 32 bits (in uint64) from a counter of four and a key of 64 bits."""
    k0, k1 = key & _LOW, key >> _HALF
    for _ in range(10):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (p1 >> _HALF) ^ c1 ^ k0, p1 & _LOW, (p0 >> _HALF) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return c0, c1, c2, c3


@kernel
def uniforms(key, stream, line, position):
    """Four numbers in (0, 1)."""
    at = np.uint64(line)
    a, b, c, d = philox(at & _LOW, at >> _HALF, np.uint64(position), np.uint64(stream), key)
    return (a + 0.5) * _UNIT, (b + 0.5) * _UNIT, (c + 0.5) * _UNIT, (d + 0.5) * _UNIT


@kernel
def normals(key, stream, line, count, out):
    """out[:count] = standard normal numbers, by quantiles; out has room for the next multiple of four."""
    for at in range(0, count, 4):
        u0, u1, u2, u3 = uniforms(key, stream, line, at // 4)
        out[at] = normal_quantile(u0)
        out[at + 1] = normal_quantile(u1)
        out[at + 2] = normal_quantile(u2)
        out[at + 3] = normal_quantile(u3)
