"""Counting sorts beside numpy's."""

import numpy as np
import pytest

from lorank import kernels


@pytest.mark.parametrize("width", [1, 2, 2048, 2049, 10**6, 2**31 - 1, 2**40])
def test_radix_sort_is_a_stable_sort(width):
    rng = np.random.default_rng(width)
    for size in (0, 1, 5, 3000):
        keys = rng.integers(width, size=size)
        keys[: size // 3] = width - 1
        order = np.argsort(keys, kind="stable")
        for kind in (np.int32, np.int64) if width < 2**31 else (np.int64,):
            line, values = np.arange(size, dtype=kind), rng.random(size)
            found = kernels.radix_sort(line.copy(), keys.astype(kind), values.copy(), width)
            for given, expected in zip(found, (line, keys, values)):
                np.testing.assert_array_equal(given, expected[order])


def test_deal_sorts_chosen_entries_by_part():
    rng = np.random.default_rng(0)
    part, chosen = rng.integers(5, size=200).astype(np.int32), rng.random(200) < 0.7
    line, other, values = np.arange(200), rng.permutation(200), rng.random(200)
    count = np.count_nonzero(chosen)
    out = np.empty(count, [("line", np.int32), ("other", np.int32), ("value", np.float32)])
    starts = np.zeros(6, np.int64)
    cuts = np.array([0, -3, 5, 7, 100])
    kernels.deal(part, chosen, line, other, values, cuts, starts, out["line"], out["other"], out["value"])
    order = np.flatnonzero(chosen)[np.argsort(part[chosen], kind="stable")]
    for name, given in (("line", line - cuts[part]), ("other", other), ("value", values.astype(np.float32))):
        np.testing.assert_array_equal(out[name], given[order])
    np.testing.assert_array_equal(starts, np.searchsorted(part[order], np.arange(6)))
