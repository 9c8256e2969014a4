"""`lorank sample`: a table of simulated ratings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lorank.cli.options import SeedOption
from lorank.cli.terminal import say

# Bytes that a rating takes in memory until it is written, and the name of a user or a film, as measured.
PER_RATING, PER_NAME = 300, 150


def sample(
    output: Annotated[Path, typer.Argument(help="Table to write: csv, tsv or parquet.")],
    test: Annotated[
        Path | None, typer.Option(help="Another table, for a tenth of the ratings, to test a model on.")
    ] = None,
    users: Annotated[int, typer.Option(min=2, help="Number of users.")] = 1000,
    films: Annotated[int, typer.Option(min=2, help="Number of films.")] = 300,
    ratings: Annotated[int, typer.Option(min=10, help="Number of ratings.")] = 40_000,
    seed: SeedOption = 0,
) -> None:
    """Write a table of simulated ratings to try the other commands on.

    A rating is the sum of a mean, an effect of the user, one of the film, an interaction of rank 4 and noise, in half
    stars from 0.5 to 5.

    Example: lorank sample ratings.csv --test test.csv
    """
    import numpy as np

    from lorank.errors import InputError
    from lorank.memory import check_memory
    from lorank.tables import write

    if ratings > users * films:
        raise InputError(f"{users} users and {films} films have {users * films} pairs; ask for fewer ratings.")
    # NumPy shuffles all pairs where more than a fiftieth of them is drawn, and needs room for the drawn ones elsewhere.
    pairs = 8 * users * films if 50 * ratings > users * films else 0
    needed = pairs + PER_RATING * ratings + PER_NAME * (users + films)
    check_memory(needed, f"{ratings} ratings of {films} films by {users} users", "ask for fewer")
    rng = np.random.default_rng(seed)
    user, film = np.divmod(rng.choice(users * films, ratings, replace=False), films)
    taste = (0.5 * rng.standard_normal((users, 4)))[user] * rng.standard_normal((films, 4))[film]
    stars = 3.4 + 0.4 * rng.standard_normal(users)[user] + 0.5 * rng.standard_normal(films)[film] + taste.sum(axis=1)
    stars = np.clip(np.round(2 * (stars + 0.4 * rng.standard_normal(ratings))) / 2, 0.5, 5)
    columns = {
        "user": np.array([f"user-{i:04}" for i in range(users)])[user],
        "film": np.array([f"film-{j:03}" for j in range(films)])[film],
        "stars": stars,
    }
    held_out = rng.random(ratings) < 0.1 if test is not None else np.zeros(ratings, bool)
    for path, chosen in ((output, ~held_out), (test, held_out)):
        if path is not None:
            write(path, {name: column[chosen] for name, column in columns.items()})
            say(f"{chosen.sum()} ratings in {path}.")
