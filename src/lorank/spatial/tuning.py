"""Search over a few parameters, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

ROUNDS = 2


def search(
    error: Callable[[dict[str, Any]], float], candidates: Mapping[str, tuple[Any, ...]], given: Mapping[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The best setting found, and all that were tried with their errors.

    From the first candidate of each parameter, each in turn takes the value with the least error while the others stay,
    for at most two rounds. Parameters that are given (not None) stay as they are.
    """
    free = [name for name in candidates if given.get(name) is None]
    best = {name: given[name] if name not in free else options[0] for name, options in candidates.items()}
    known: dict[tuple[Any, ...], float] = {}

    def errors(setting: dict[str, Any]) -> float:
        key = tuple(setting.values())
        if key not in known:
            known[key] = error(setting)
        return known[key]

    for _ in range(ROUNDS):
        before = dict(best)
        for name in free:
            best[name] = min(candidates[name], key=lambda value: errors({**best, name: value}))
        if best == before:
            break
    trials = [{**dict(zip(candidates, key)), "error": value} for key, value in known.items()]
    return best, trials
