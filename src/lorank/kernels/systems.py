"""Many small linear systems: Grams of gathered features, and Cholesky on LANES systems at once."""

from lorank.kernels.compiling import kernel
from lorank.kernels.simd import LANES, add, fma, inverse_root, load, multiply, splat, store, subtract_product


@kernel
def _add_tile(block, n, a, c, gram):
    """gram[a : a + 4, c : c + LANES] += of block[:n].T @ block[:n]."""
    q = block.shape[1]
    zero = splat(block.dtype.type(0))
    s0, s1, s2, s3 = zero, zero, zero, zero
    for t in range(n):
        y = load(block, t * q + c)
        s0 = fma(block[t, a], y, s0)
        s1 = fma(block[t, a + 1], y, s1)
        s2 = fma(block[t, a + 2], y, s2)
        s3 = fma(block[t, a + 3], y, s3)
    store(gram, a * q + c, add(load(gram, a * q + c), s0))
    store(gram, (a + 1) * q + c, add(load(gram, (a + 1) * q + c), s1))
    store(gram, (a + 2) * q + c, add(load(gram, (a + 2) * q + c), s2))
    store(gram, (a + 3) * q + c, add(load(gram, (a + 3) * q + c), s3))


@kernel
def _add_tall_tile(block, n, a, c, gram):
    """The same for gram[a : a + 8]: eight sums that do not wait for each other keep the adders busy."""
    q = block.shape[1]
    zero = splat(block.dtype.type(0))
    s0, s1, s2, s3, s4, s5, s6, s7 = zero, zero, zero, zero, zero, zero, zero, zero
    for t in range(n):
        y = load(block, t * q + c)
        s0 = fma(block[t, a], y, s0)
        s1 = fma(block[t, a + 1], y, s1)
        s2 = fma(block[t, a + 2], y, s2)
        s3 = fma(block[t, a + 3], y, s3)
        s4 = fma(block[t, a + 4], y, s4)
        s5 = fma(block[t, a + 5], y, s5)
        s6 = fma(block[t, a + 6], y, s6)
        s7 = fma(block[t, a + 7], y, s7)
    store(gram, a * q + c, add(load(gram, a * q + c), s0))
    store(gram, (a + 1) * q + c, add(load(gram, (a + 1) * q + c), s1))
    store(gram, (a + 2) * q + c, add(load(gram, (a + 2) * q + c), s2))
    store(gram, (a + 3) * q + c, add(load(gram, (a + 3) * q + c), s3))
    store(gram, (a + 4) * q + c, add(load(gram, (a + 4) * q + c), s4))
    store(gram, (a + 5) * q + c, add(load(gram, (a + 5) * q + c), s5))
    store(gram, (a + 6) * q + c, add(load(gram, (a + 6) * q + c), s6))
    store(gram, (a + 7) * q + c, add(load(gram, (a + 7) * q + c), s7))


@kernel
def add_gram(block, n, width, gram):
    """gram += block[:n].T @ block[:n] for its lower tiles of 8 (or 4) x LANES, each held in registers."""
    for a in range(0, width, 8):
        for c in range(0, a + 8, LANES):
            if a + 4 < width:
                _add_tall_tile(block, n, a, c, gram)
            else:
                _add_tile(block, n, a, c, gram)


@kernel
def factorize(system, p):
    """Cholesky on LANES systems at once, in place: system[(a * p + c) * LANES + lane] becomes L, with 1 / L_aa.

    Column by column, four rows at a time: each waits for its own products only.
    """
    for j in range(p):
        x = load(system, (j * p + j) * LANES)
        for t in range(j):
            y = load(system, (j * p + t) * LANES)
            x = subtract_product(x, y, y)
        # The diagonal keeps 1 / L_jj: dividing is the slowest thing here.
        inverse = inverse_root(x)
        store(system, (j * p + j) * LANES, inverse)
        i = j + 1
        while i + 4 <= p:
            at0, at1, at2, at3 = i * p * LANES, (i + 1) * p * LANES, (i + 2) * p * LANES, (i + 3) * p * LANES
            x0 = load(system, at0 + j * LANES)
            x1 = load(system, at1 + j * LANES)
            x2 = load(system, at2 + j * LANES)
            x3 = load(system, at3 + j * LANES)
            for t in range(0, j * LANES, LANES):
                y = load(system, j * p * LANES + t)
                x0 = subtract_product(x0, load(system, at0 + t), y)
                x1 = subtract_product(x1, load(system, at1 + t), y)
                x2 = subtract_product(x2, load(system, at2 + t), y)
                x3 = subtract_product(x3, load(system, at3 + t), y)
            store(system, at0 + j * LANES, multiply(x0, inverse))
            store(system, at1 + j * LANES, multiply(x1, inverse))
            store(system, at2 + j * LANES, multiply(x2, inverse))
            store(system, at3 + j * LANES, multiply(x3, inverse))
            i += 4
        for rest in range(i, p):
            x = load(system, (rest * p + j) * LANES)
            for t in range(j):
                x = subtract_product(x, load(system, (rest * p + t) * LANES), load(system, (j * p + t) * LANES))
            store(system, (rest * p + j) * LANES, multiply(x, inverse))


@kernel
def solve_lower(system, right, p):
    """right[a * LANES + lane] becomes L^-1 right."""
    for j in range(p):
        x = load(right, j * LANES)
        for i in range(j):
            x = subtract_product(x, load(system, (j * p + i) * LANES), load(right, i * LANES))
        store(right, j * LANES, multiply(x, load(system, (j * p + j) * LANES)))


@kernel
def solve_upper(system, right, p):
    """right becomes L^-T right."""
    for j in range(p - 1, -1, -1):
        x = load(right, j * LANES)
        for i in range(j + 1, p):
            x = subtract_product(x, load(system, (i * p + j) * LANES), load(right, i * LANES))
        store(right, j * LANES, multiply(x, load(system, (j * p + j) * LANES)))
