"""Parameters with a few values each, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lorank.tuning.search import Found, Search, error_of
from lorank.tuning.trial_log import Fitted

ROUNDS = 2


def coordinate_search(
    error: Callable[[Mapping[str, Any]], float],
    values: Mapping[str, Sequence[Any]],
    given: Mapping[str, Any],
    rounds: int = ROUNDS,
) -> Found:
    """The best parameters, where each in turn takes the value with the least error while the others stay.

    Parameters
    ----------
    error : function of the parameters
    values : mapping
        What is tried of each parameter, the first one first.
    given : mapping
        Parameters that are not None stay as they are. At least one must be None.
    rounds : int
        The search ends after so many rounds through all parameters, or when one changes nothing.
    """
    free = [name for name in values if given.get(name) is None]

    search = Search(error_of(lambda parameters, seconds: error(parameters)))

    def strategy() -> Fitted:
        best = {name: options[0] if name in free else given[name] for name, options in values.items()}
        tried: dict[tuple[Any, ...], Fitted] = {}

        def attempt(parameters: dict[str, Any]) -> Fitted:
            key = tuple(parameters.values())
            if key not in tried:
                tried[key] = search.attempt(parameters)
            return tried[key]

        for _ in range(rounds):
            before = dict(best)
            for name in free:
                best[name] = min(values[name], key=lambda value: attempt({**best, name: value}).error)
            if best == before:
                break
        return attempt(best)

    return search.run(strategy)
