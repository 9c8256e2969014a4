"""From triplets to lines: counting sorts, linear in the number of entries."""

import numpy as np

from lorank.kernels.compiling import kernel


@kernel
def compress(major, minor, values, pointers, out_minor, out_values):
    """Sort triplets stably by their major index; pointers (lines + 1, zeros) become the line starts."""
    for t in range(major.size):
        pointers[major[t] + 1] += 1
    for i in range(pointers.size - 1):
        pointers[i + 1] += pointers[i]
    place = pointers[:-1].copy()
    for t in range(major.size):
        at = place[major[t]]
        place[major[t]] = at + 1
        out_minor[at] = minor[t]
        out_values[at] = values[t]


@kernel
def deal(part, chosen, line, other, values, cuts, starts, out_line, out_other, out_values):
    """Sort the chosen entries stably by their part, in which lines are counted from cuts[part] on; starts (parts + 1,
    zeros) become where each part begins."""
    for t in range(part.size):
        if chosen[t]:
            starts[part[t] + 1] += 1
    for p in range(starts.size - 1):
        starts[p + 1] += starts[p]
    place = starts[:-1].copy()
    for t in range(part.size):
        if chosen[t]:
            at = place[part[t]]
            place[part[t]] = at + 1
            out_line[at] = line[t] - cuts[part[t]]
            out_other[at] = other[t]
            out_values[at] = values[t]


@kernel
def count_known(ids, values, lowest, counts):
    """Add up how many known values each id has; counts[id - lowest] is -1 of an id that has not been seen at all."""
    for t in range(ids.size):
        at = ids[t] - lowest
        if counts[at] < 0:
            counts[at] = 0
        if values[t] == values[t]:
            counts[at] += 1


# Digits of this many bits: so many places to write to at a time fit into the caches.
DIGIT = 11


@kernel
def radix_sort(line, other, values, width):
    """Entries sorted stably by `other`, within 0..width - 1: a counting sort for each digit, from the lowest up.

    What is given is overwritten.
    """
    a, b, c = np.empty_like(line), np.empty_like(other), np.empty_like(values)
    starts = np.empty((1 << DIGIT) + 1, np.int64)
    shift = 0
    while shift == 0 or (width - 1) >> shift > 0:
        starts[:] = 0
        for t in range(other.size):
            starts[((other[t] >> shift) & ((1 << DIGIT) - 1)) + 1] += 1
        for d in range(starts.size - 1):
            starts[d + 1] += starts[d]
        for t in range(other.size):
            digit = (other[t] >> shift) & ((1 << DIGIT) - 1)
            at = starts[digit]
            starts[digit] = at + 1
            a[at] = line[t]
            b[at] = other[t]
            c[at] = values[t]
        line, a = a, line
        other, b = b, other
        values, c = c, values
        shift += DIGIT
    return line, other, values


@kernel
def count_if_sorted(major, minor, pointers):
    """Whether triplets are strictly ascending by (major, minor); if so, pointers (zeros) become the line starts."""
    for t in range(1, major.size):
        if major[t] < major[t - 1] or (major[t] == major[t - 1] and minor[t] <= minor[t - 1]):
            return False
    for t in range(major.size):
        pointers[major[t] + 1] += 1
    for i in range(pointers.size - 1):
        pointers[i + 1] += pointers[i]
    return True


@kernel
def transpose(pointers, indices, values, out_pointers, out_indices, out_values):
    """Lines of the other direction; the indices within each come out ascending."""
    for t in range(indices.size):
        out_pointers[indices[t] + 1] += 1
    for j in range(out_pointers.size - 1):
        out_pointers[j + 1] += out_pointers[j]
    place = out_pointers[:-1].copy()
    for i in range(pointers.size - 1):
        for t in range(pointers[i], pointers[i + 1]):
            at = place[indices[t]]
            place[indices[t]] = at + 1
            out_indices[at] = i
            out_values[at] = values[t]


@kernel
def first_duplicate(pointers, indices):
    """The position of the first entry that repeats its predecessor in a sorted line, or -1."""
    for i in range(pointers.size - 1):
        for t in range(pointers[i] + 1, pointers[i + 1]):
            if indices[t] == indices[t - 1]:
                return np.int64(t)
    return np.int64(-1)


@kernel
def first_wrong_line(pointers, indices, width):
    """The first line whose pointers do not enclose a part of the indices, or whose indices do not ascend within
    0..width - 1; -1 if there is none."""
    lines = pointers.size - 1
    if pointers[0] != 0:
        return np.int64(0)
    for i in range(lines):
        if pointers[i + 1] < pointers[i] or pointers[i + 1] > indices.size:
            return np.int64(i)
        last = np.int64(-1)
        for t in range(pointers[i], pointers[i + 1]):
            if indices[t] <= last or indices[t] >= width:
                return np.int64(i)
            last = np.int64(indices[t])
    if pointers[lines] != indices.size:
        return np.int64(lines)
    return np.int64(-1)
