"""A checksum at the speed of memory, so that blocks on disk can be looked at whenever they are read."""

import numpy as np

from lorank.kernels.compiling import kernel

# Odd, so that multiplying loses nothing; its bits are those of the golden ratio.
FACTOR = np.uint64(0x9E3779B97F4A7C15)
HALF = np.uint64(32)


@kernel
def _mixed(words):
    """Four sums side by side: x -> (x ^ word) * FACTOR, and its upper half mixed into the lower."""
    a, b, c, d = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    last = words.size // 4 * 4
    for t in range(0, last, 4):
        a = (a ^ words[t]) * FACTOR
        b = (b ^ words[t + 1]) * FACTOR
        c = (c ^ words[t + 2]) * FACTOR
        d = (d ^ words[t + 3]) * FACTOR
        a ^= a >> HALF
        b ^= b >> HALF
        c ^= c >> HALF
        d ^= d >> HALF
    for t in range(last, words.size):
        a = (a ^ words[t]) * FACTOR
        a ^= a >> HALF
    return (((a * FACTOR) ^ b) * FACTOR ^ c) * FACTOR ^ d


def checksum(content: np.ndarray) -> int:
    """64 bits that tell one array of bytes from another: they find damage, not forgery."""
    whole = content.size // 8 * 8
    rest = int.from_bytes(content[whole:].tobytes(), "little")
    return int(_mixed(content[:whole].view(np.uint64))) ^ (rest << 1 | 1)
