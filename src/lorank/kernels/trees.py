"""Extremely randomised trees on a part of the rows each: splits at random places, of which the best is taken.

A tree is a line of each of four arrays: at node t, `feature` (-1 at a leaf), `threshold`, `below` (the first of its two
children, which lie side by side) and `value`, the mean of each output over the node's rows.

References
----------
Geurts, Ernst, Wehenkel, "Extremely randomized trees", Machine Learning 2006.
"""

import numpy as np

from lorank.kernels.compiling import kernel
from lorank.kernels.counters import philox, uniforms

_HALF = np.uint64(32)


@kernel
def _shuffled(key, tree, rows, count):
    """The numbers below `rows`, of which the first `count` are any of them, each set as likely as any other."""
    order = np.arange(rows)
    for t in range(count):
        a, _, _, _ = philox(np.uint64(t), np.uint64(0), np.uint64(tree), np.uint64(1), key)
        other = t + np.int64((a * np.uint64(rows - t)) >> _HALF)
        order[t], order[other] = order[other], order[t]
    return order


@kernel
def _split(inputs, own, order, lo, hi, key, tree, node, leaf, whole, values):
    """The best of one random split for each input, as (input, threshold); input -1 if none leaves `leaf` rows on both
    sides.

    own (outputs, hi - lo) are the outputs of the node's rows, whole (outputs,) their sums. The best split has the
    largest sum over outputs of (sum of the left)^2 / rows + (sum of the right)^2 / rows.
    """
    count, width = hi - lo, whole.size
    best, found, where = 0.0, -1, 0.0
    parts = (0.0, 0.0, 0.0, 0.0)
    for j in range(inputs.shape[0]):
        if j % 4 == 0:  # they come in fours
            parts = uniforms(key, 2 + tree, node, j // 4)
        low = high = inputs[j, order[lo]]
        for t in range(count):
            value = inputs[j, order[lo + t]]
            values[t] = value
            low, high = min(low, value), max(high, value)
        if not high > low:
            continue
        threshold = low + parts[j % 4] * (high - low)
        rows, left = 0, 0.0
        for t in range(count):
            # Read in any case, so that there is no branch.
            below, own_value = values[t] <= threshold, own[0, t]
            rows += below
            left += own_value if below else 0.0
        if rows < leaf or count - rows < leaf:
            continue
        gain = left**2 / rows + (whole[0] - left) ** 2 / (count - rows)
        for w in range(1, width):
            left = 0.0
            for t in range(count):
                own_value = own[w, t]
                left += own_value if values[t] <= threshold else 0.0
            gain += left**2 / rows + (whole[w] - left) ** 2 / (count - rows)
        if found < 0 or gain > best:
            best, found, where = gain, j, threshold
    return found, where


@kernel
def grow_trees(inputs, outputs, rows, leaf, key, feature, threshold, below, value, said, lo, hi):
    """Grow trees lo to hi, each on `rows` of all rows, from inputs (d, all rows) and outputs (w, all rows).

    said (trees, w, all rows) is what each tree says of the other rows; it is left alone elsewhere.
    """
    width, every = outputs.shape
    own, values, whole = np.empty((width, rows)), np.empty(rows), np.empty(width)
    stack = np.zeros((2 * rows + 2, 3), np.int64)
    for tree in range(lo, hi):
        order = _shuffled(key, tree, every, rows)
        used, depth = 1, 1
        stack[0, 0], stack[0, 1], stack[0, 2] = 0, 0, rows
        while depth > 0:
            depth -= 1
            node, first, last = stack[depth, 0], stack[depth, 1], stack[depth, 2]
            for w in range(width):
                total = 0.0
                for t in range(first, last):
                    own[w, t - first] = outputs[w, order[t]]
                    total += own[w, t - first]
                whole[w] = total
                value[tree, node, w] = total / (last - first)
            feature[tree, node] = -1
            if last - first < 2 * leaf:
                continue
            j, place = _split(inputs, own, order, first, last, key, tree, node, leaf, whole, values)
            if j < 0:
                continue
            middle = first
            for t in range(first, last):
                if inputs[j, order[t]] <= place:
                    order[t], order[middle] = order[middle], order[t]
                    middle += 1
            feature[tree, node], threshold[tree, node], below[tree, node] = j, place, used
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = used, first, middle
            stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2] = used + 1, middle, last
            used, depth = used + 2, depth + 2
        for t in range(rows, every):
            i = order[t]
            node = _leaf_of(inputs, i, feature[tree], threshold[tree], below[tree])
            for w in range(width):
                said[tree, w, i] = value[tree, node, w]


@kernel
def _leaf_of(inputs, i, feature, threshold, below):
    node = 0
    while feature[node] >= 0:
        node = below[node] + (0 if inputs[feature[node], i] <= threshold[node] else 1)
    return node


@kernel
def ask_trees(inputs, feature, threshold, below, value, out, lo, hi):
    """out (rows, w): the mean over trees of what they say of each row of inputs (d, rows)."""
    trees, width = feature.shape[0], value.shape[2]
    for i in range(lo, hi):
        for w in range(width):
            out[i, w] = 0
        for tree in range(trees):
            node = _leaf_of(inputs, i, feature[tree], threshold[tree], below[tree])
            for w in range(width):
                out[i, w] += value[tree, node, w] / trees
