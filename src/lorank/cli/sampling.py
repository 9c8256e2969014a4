"""`lorank sample`: a table to try the other commands on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lorank.cli.terminal import SeedOption, say


def sample(
    output: Annotated[Path, typer.Argument(help="csv, tsv or parquet.")],
    test: Annotated[Path | None, typer.Option(help="Put a tenth of the ratings here, to judge a model by.")] = None,
    users: Annotated[int, typer.Option(min=2, help="How many users.")] = 1000,
    films: Annotated[int, typer.Option(min=2, help="How many films.")] = 300,
    ratings: Annotated[int, typer.Option(min=10, help="How many ratings.")] = 40_000,
    seed: SeedOption = 0,
) -> None:
    """Make up a table of ratings to try the other commands on.

    A rating is an average, a user's mood, a film's fame and four tastes, with noise, in half stars from 0.5 to 5.
    """
    import numpy as np

    from lorank.errors import InputError
    from lorank.tables import reading as tables

    if ratings > users * films:
        raise InputError(f"{users} users and {films} films have {users * films} pairs; ask for fewer ratings.")
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
            tables.write(path, {name: column[chosen] for name, column in columns.items()})
            say(f"{chosen.sum()} ratings in {path}.")
