"""The largest numbers of each line of a block, in one pass."""

from lorank.kernels.compiling import kernel


@kernel
def keep_best(tile, first, scores, places, lo, hi):
    """Let the numbers of tile[lo:hi], whose columns begin at `first`, into the best of each line so far.

    scores (lines, n), descending, begins with -inf; places (lines, n) holds the columns. Of equal ones the earlier
    stays in front. Made for short lists: a number that is better than the last one moves the others by one.
    """
    n = scores.shape[1]
    for i in range(lo, hi):
        least = scores[i, n - 1]
        for j in range(tile.shape[1]):
            x = tile[i, j]
            if x > least:
                at = n - 1
                while at > 0 and scores[i, at - 1] < x:
                    scores[i, at] = scores[i, at - 1]
                    places[i, at] = places[i, at - 1]
                    at -= 1
                scores[i, at] = x
                places[i, at] = first + j
                least = scores[i, n - 1]
