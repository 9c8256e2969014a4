"""Counter-based random numbers."""

import numpy as np

from lorank.kernels.counters import normals, philox


def test_philox_gives_the_published_words():
    zero = np.uint64(0)
    assert [int(w) for w in philox(zero, zero, zero, zero, zero)] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    ones = np.uint64(0xFFFFFFFF)
    words = philox(ones, ones, ones, ones, np.uint64(0xFFFFFFFFFFFFFFFF))
    assert [int(w) for w in words] == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


def test_normals_are_normal_and_differ_by_name():
    z = np.empty((40000, 18))
    for line in range(len(z)):
        normals(np.uint64(1), 5, line, 6, z[line, :9])
        normals(np.uint64(1), 6, line, 6, z[line, 9:])
    z = z[:, [0, 1, 2, 3, 4, 5, 9, 10, 11, 12, 13, 14]]
    assert np.abs(z.mean(axis=0)).max() < 0.025
    assert np.abs((z**4).mean(axis=0) - 3).max() < 0.2
    assert np.abs(np.corrcoef(z.T) - np.eye(12)).max() < 0.025
