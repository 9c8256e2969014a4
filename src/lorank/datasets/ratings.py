"""Public rating data in the formats they are published in: users are rows, items are columns.

None of it comes with lorank; a loader reads the files that are in your data folder (see
`lorank.datasets.location`). MovieLens may be downloaded from its own site but not passed on; Yahoo! Music has
to be asked for.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from lorank.datasets.location import Folder, Source, find
from lorank.errors import InputError
from lorank.files import open_input
from lorank.observations import Observations
from lorank.tables.delimited import DelimitedFile, sniff
from lorank.types import Array

# float32 holds every half star and every score of 0..100 exactly.
RATING = np.float32
# Ids that are numbered at a time.
BLOCK = 1 << 22

MOVIELENS_100K = Source(
    "MovieLens-100K",
    ("ml-100k/u.data", "ml-100k.zip", "u.data"),
    "https://grouplens.org/datasets/movielens/100k/",
    "https://files.grouplens.org/datasets/movielens/ml-100k.zip",
    "md5:0e33842e24a9c977be4e0107933c0723",
)
MOVIELENS_1M = Source(
    "MovieLens-1M",
    ("movielens1m.mat", "ml-1m/ratings.dat", "ml-1m.zip", "ratings.dat"),
    "https://grouplens.org/datasets/movielens/1m/",
    "https://files.grouplens.org/datasets/movielens/ml-1m.zip",
    "md5:c4d9eecfca2ab87c1945afe126590906",
)
MOVIELENS_10M = Source(
    "MovieLens-10M",
    ("ml-10M100K/ratings.dat", "ml-10m.zip", "ratings.dat"),
    "https://grouplens.org/datasets/movielens/10m/",
    "https://files.grouplens.org/datasets/movielens/ml-10m.zip",
    "md5:ce571fd55effeba0271552578f2648bd",
)
MOVIETWEETINGS = Source(
    "MovieTweetings",
    ("MovieTweetings-100K/ratings.dat", "MovieTweetings*.zip", "ratings.dat"),
    "https://github.com/sidooms/MovieTweetings",
    "https://raw.githubusercontent.com/sidooms/MovieTweetings/4d8280a3f1ea83e3e23f13d1710d19f43564274f"
    "/snapshots/100K/ratings.dat",
    "sha256:c0dd868c2632d10002ebc928ddc5345f33adeaa59eca52c2941c26a2c5e36fd6",
)
YAHOO_MUSIC = Source(
    "Yahoo! Music (KDD Cup 2011)",
    ("trainIdx2.txt", "*/trainIdx2.txt", "trainIdx1.txt", "*/trainIdx1.txt"),
    "https://webscope.sandbox.yahoo.com (data set C15)",
)


def movielens_100k(
    folder: Folder | None = None, *, dtype: npt.DTypeLike = np.float64, fetch: bool = False
) -> Observations:
    """MovieLens-100K: 943 users x 1,682 movies, 100,000 ratings 1..5, from `u.data` or `ml-100k.zip`.

    Parameters
    ----------
    folder : where the file is; see `lorank.datasets.location`.
    dtype : float32 or float64.
    fetch : download the archive from grouplens.org if it is not there (needs `lorank[data]`).

    References
    ----------
    F. M. Harper and J. A. Konstan, "The MovieLens Datasets: History and Context", ACM TiiS 5(4), 2015.
    """
    path = find(MOVIELENS_100K, folder, fetch)
    return _observations(*_read_lines(path, "\t", "u.data"), dtype)


def movielens_1m(
    folder: Folder | None = None, *, dtype: npt.DTypeLike = np.float64, fetch: bool = False
) -> Observations:
    """MovieLens-1M, ratings 1..5, from whichever file is there, the first of:

    - `movielens1m.mat`, the matrix the paper used (`data`): 6,040 x 3,449, 999,714 ratings. Its rows are the
      users 1..6040; which movies its columns are it does not say, so columns go by position.
    - `ratings.dat` (`user::movie::rating::time`), alone or in `ml-1m.zip`: 6,040 x 3,706, 1,000,209 ratings.

    Parameters and source as for `movielens_100k`.
    """
    path = find(MOVIELENS_1M, folder, fetch)
    if path.suffix == ".mat":
        from scipy.io import loadmat

        matrix = loadmat(path)["data"].tocoo()
        users = np.arange(1, matrix.shape[0] + 1)
        return Observations.from_coo(
            matrix.row, matrix.col, matrix.data.astype(dtype), shape=matrix.shape, row_ids=users
        )
    return _observations(*_read_lines(path, "::", "ratings.dat"), dtype)


def movielens_10m(
    folder: Folder | None = None, *, dtype: npt.DTypeLike = np.float64, fetch: bool = False
) -> Observations:
    """MovieLens-10M: 69,878 users x 10,677 movies, 10,000,054 ratings in half stars.

    From `ratings.dat` (`user::movie::rating::time`), alone or in `ml-10m.zip`. Parameters and source as for
    `movielens_100k`.
    """
    return _observations(*_read_lines(find(MOVIELENS_10M, folder, fetch), "::", "ratings.dat"), dtype)


def movietweetings(
    folder: Folder | None = None, *, dtype: npt.DTypeLike = np.float64, fetch: bool = False
) -> Observations:
    """MovieTweetings, ratings 0..10 out of tweets; the 100K snapshot is 16,554 x 10,506.

    From `ratings.dat` (`user::movie::rating::time`), alone or in a zip. Movies are called by their IMDb id, a
    text of at least seven digits such as "0133093". Parameters as for `movielens_100k`; `fetch` downloads the
    100K snapshot from GitHub.

    References
    ----------
    S. Dooms, T. De Pessemier and L. Martens, "MovieTweetings: a Movie Rating Dataset Collected From Twitter",
    CrowdRec at RecSys 2013.
    """
    path = find(MOVIETWEETINGS, folder, fetch)
    return _observations(*_read_lines(path, "::", "ratings.dat"), dtype, imdb=True)


def yahoo_music(folder: Folder | None = None, *, dtype: npt.DTypeLike = np.float64) -> Observations:
    """Yahoo! Music, scores 0..100, from the text files of the KDD Cup 2011.

    Track 2 (`trainIdx2.txt`) is the paper's, 249,012 x 296,111, and is taken if both are there. Track 1
    is `trainIdx1.txt` and, if it is beside it, `validationIdx1.txt`. The contest's test files hold no scores.
    A file has, for each user, a line `user|count` and then `count` lines `item<tab>score...`.

    Parameters
    ----------
    folder : where the files are, or the folder above; see `lorank.datasets.location`.
    dtype : float32 or float64; float32 halves the memory of the values and holds them exactly.

    References
    ----------
    G. Dror, N. Koenigstein, Y. Koren and M. Weimer, "The Yahoo! Music Dataset and KDD-Cup'11", JMLR W&CP 18,
    2012.
    """
    paths = [find(YAHOO_MUSIC, folder)]
    validation = paths[0].with_name("validationIdx1.txt")
    if paths[0].name == "trainIdx1.txt" and validation.exists():
        paths.append(validation)
    parts = [_read_grouped(path) for path in paths]
    rows, cols, values = parts[0] if len(parts) == 1 else (np.concatenate(column) for column in zip(*parts))
    del parts
    return _observations(rows, cols, values, dtype)


def standardise(train: Observations, *others: Observations) -> tuple[tuple[Observations, ...], tuple[float, float]]:
    """Ratings in units of the training part: (value - mean) / deviation, both over the entries of `train`.

    The paper's RMSE is in these units. The deviation is that of the entries themselves, with ddof = 0.

    Returns
    -------
    (train, *others) standardised, and (mean, deviation).

    Examples
    --------
    >>> (train, test), (mean, deviation) = standardise(train, test)  # doctest: +SKIP
    """
    values = train.values.astype(np.float64)
    mean, deviation = float(values.mean()), float(values.std())
    if not deviation > 0:
        raise InputError(f"All training values are {mean}: there is no deviation to standardise by.")
    parts = (train, *others)
    scaled = (((part.values - mean) / deviation).astype(part.dtype) for part in parts)
    return tuple(part.with_values(values) for part, values in zip(parts, scaled)), (mean, deviation)


def _read_lines(path: Path, delimiter: str, member: str) -> tuple[Array, Array, Array]:
    """User ids, item ids and ratings of lines `user, item, rating, ...`; in a zip, of the file `member`."""
    table = sniff(path, delimiter, header=False, member=member)
    columns: tuple[list[Array], list[Array], list[Array]] = ([], [], [])
    for batch in table.batches({0: np.int32, 1: np.int32, 2: RATING}):
        for pieces, column in zip(columns, batch.columns):
            pieces.append(column.to_numpy(zero_copy_only=False))
    # Joining one column at a time, and letting go of its pieces, holds one column twice instead of all three.
    rows, cols, values = (_joined(pieces) for pieces in columns)
    return rows, cols, values


def _read_grouped(path: Path) -> tuple[Array, Array, Array]:
    """User ids, item ids and scores of a KDD Cup file, in which `user|count` announces a user's ratings."""
    table = DelimitedFile(path, "\t", tuple(str(i + 1) for i in range(_grouped_width(path))))
    users: list[int] = []
    counts: list[int] = []
    starts: list[int] = []  # how many ratings come before each user's

    def announces(line: str, number: int) -> bool:
        user, _, count = line.strip().partition("|")
        if not (user.isdigit() and count.isdigit()):
            return False
        starts.append(number - 1 - len(users))
        users.append(int(user))
        counts.append(int(count))
        return True

    items: list[Array] = []
    scores: list[Array] = []
    for batch in table.batches({0: np.int32, 1: RATING}, odd_row=announces):
        items.append(batch.column(0).to_numpy())
        scores.append(batch.column(1).to_numpy(zero_copy_only=False))
    seen = sum(part.size for part in items)
    if not users or starts[0] > 0:
        raise InputError(f"{path} does not begin with a line 'user|count'; it is no ratings file of the KDD Cup 2011.")
    count, found = np.array(counts), np.diff(starts, append=seen)
    if (wrong := found != count).any():
        which = int(np.argmax(wrong))
        raise InputError(
            f"{path} announces {count[which]} ratings of user {users[which]} and has {found[which]}; "
            "get the file again."
        )
    return np.repeat(np.array(users, np.int32), count), _joined(items), _joined(scores)


def _grouped_width(path: Path) -> int:
    """Columns of a line that is a rating: 2, or 4 with date and time."""
    with open_input(path) as file:
        return next((line.count(b"\t") + 1 for line in file if b"\t" in line), 2)


def _joined(pieces: list[Array]) -> Array:
    """The pieces in one array; the list is emptied, so that only the array stays in memory."""
    array = np.concatenate(pieces) if pieces else np.empty(0, np.int32)
    pieces.clear()
    return array


def _observations(rows: Array, cols: Array, values: Array, dtype: npt.DTypeLike, imdb: bool = False) -> Observations:
    """Observations of ids, which are overwritten by positions: at this size a second copy matters."""
    if not values.size:
        raise InputError("The ratings file is empty; get it again.")
    row_ids, col_ids = _number(rows), _number(cols)
    if imdb:
        col_ids = np.char.zfill(col_ids.astype(str), 7)
    return Observations.from_coo(
        rows, cols, values.astype(dtype, copy=False), (row_ids.size, col_ids.size), row_ids, col_ids
    )


def _number(ids: Array) -> Array:
    """The distinct ids, ascending; `ids` itself becomes their positions, block by block."""
    # Sorting beats np.unique, which hashes, by twenty times here.
    ordered = np.sort(ids)
    distinct: Array = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    del ordered
    for start in range(0, ids.size, BLOCK):
        block = ids[start : start + BLOCK]
        block[:] = np.searchsorted(distinct, block)
    return distinct
