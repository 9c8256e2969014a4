"""What can be asked of a served model: a JSON object in, a JSON object out. Nothing here knows HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lorank.errors import InputError
from lorank.models import Model
from lorank.models.recommending import Ranking
from lorank.observations import Observations
from lorank.observations.identifiers import Identifiers, text_array
from lorank.tables.names import as_model_spells
from lorank.types import Array

Json = dict[str, Any]


@dataclass(frozen=True)
class Limits:
    """What one request may ask for.

    Attributes
    ----------
    body : int
        Bytes of a request.
    batch : int
        Rows, columns or pairs in one request.
    length : int
        Length of a list.
    items : int
        Items of all lists in one request.
    seconds : float
        After which a request is given up.
    """

    body: int = 1 << 20
    batch: int = 10_000
    length: int = 1000
    items: int = 100_000
    seconds: float = 30.0


class Fields:
    """The fields of a request, taken out one by one and checked; what is left in the end is refused."""

    def __init__(self, given: Any, limits: Limits) -> None:
        if not isinstance(given, dict):
            raise InputError("The body must be a JSON object.")
        self._left, self._limits = dict(given), limits

    def ids(self, name: str, optional: bool = False) -> list[Any] | None:
        """A list of ids: text or whole numbers; one of them may stand alone."""
        if name not in self._left and optional:
            return None
        given = self._left.pop(name, None)
        given = given if isinstance(given, list) else [given]
        if not given or not all(isinstance(part, (str, int)) and not isinstance(part, bool) for part in given):
            raise InputError(f"{name} must be a list of ids: text or whole numbers.")
        if len(given) > self._limits.batch:
            raise InputError(f"{name} has {len(given)} ids; at most {self._limits.batch} go into one request.")
        if any(isinstance(part, int) and not -(2**63) <= part < 2**63 for part in given):
            raise InputError(f"{name} has a number that is no id: it is too large.")
        return given

    def one_id(self, name: str) -> Any:
        """One id, which stands alone."""
        if isinstance(self._left.get(name), list):
            raise InputError(f"{name} must be one id: text or a whole number.")
        return (self.ids(name) or [None])[0]

    def number(self, name: str, low: float, high: float, default: float | None, whole: bool = False) -> Any:
        """A number between low and high."""
        if name not in self._left:
            return default
        given = self._left.pop(name)
        right = isinstance(given, int if whole else (int, float)) and not isinstance(given, bool)
        if not right or not low <= given <= high:
            kind = "a whole number" if whole else "a number"
            raise InputError(f"{name} must be {kind} from {low:g} to {high:g}.")
        return given

    def flag(self, name: str) -> bool:
        """True or false; false if it is not there."""
        given = self._left.pop(name, False)
        if not isinstance(given, bool):
            raise InputError(f"{name} must be true or false.")
        return given

    def length(self, lists: int = 1, longest: int = 1) -> int:
        """n, the length of so many lists, each of which has at most `longest` items anyway."""
        n: int = self.number("n", 1, self._limits.length, 10, whole=True)
        if lists * min(n, longest) > self._limits.items:
            raise InputError(f"{lists} lists of {n} have more than {self._limits.items} items; ask for fewer at once.")
        return n

    def take(self, name: str) -> Any:
        """A field as it is."""
        return self._left.pop(name, None)

    def end(self) -> None:
        """Refuse what is left."""
        if self._left:
            raise InputError(f"There is no field {next(iter(self._left))!r} here; see /openapi.json.")


def predict(model: Model, given: Any, limits: Limits) -> Json:
    """Values at (row, col) pairs, with the ends of an interval if one is asked for.

    Ids that the model does not know are predicted from offsets, and named in `unknown`.
    """
    fields = Fields(given, limits)
    rows, cols = fields.ids("rows"), fields.ids("cols")
    interval = fields.number("interval", 0.01, 0.999, None)
    fields.end()
    names = [_spelled(part, ids) for part, ids in ((rows, model.row_ids), (cols, model.col_ids))]
    known = [model.find(part, axis, refuse=False) >= 0 for axis, part in enumerate(names)]
    found = np.atleast_2d(model.predict(*names, interval=interval, unseen="bias"))
    answers = []
    many = found.shape[1]
    for t in range(many):
        i, j = min(t, len(names[0]) - 1), min(t, len(names[1]) - 1)
        answer = {"row": _plain(names[0][i]), "col": _plain(names[1][j]), "value": float(found[0, t])}
        if interval is not None:
            answer |= {"lower": float(found[1, t]), "upper": float(found[2, t])}
        unknown = [side for side, is_known, at in zip(("row", "col"), known, (i, j)) if not is_known[at]]
        answers.append(answer | ({"unknown": unknown} if unknown else {}))
    return {"predictions": answers}


def recommend(model: Model, given: Any, limits: Limits) -> Json:
    """The best columns of each row."""
    fields = Fields(given, limits)
    rows = _spelled(fields.ids("rows"), model.row_ids)
    n = fields.length(len(rows), model.shape[1])
    options = _filters(model, fields)
    fields.end()
    # A row that is asked for twice is looked up once.
    ranking = model.recommend(_once(rows), n, **options)
    # Rows come in the order in which they were asked for, each with as many columns as are left.
    items = _items(ranking)
    found = ranking.rows
    cuts = (np.flatnonzero(found[1:] != found[:-1]) + 1).tolist()
    runs = {_plain(found[lo]): items[lo:hi] for lo, hi in zip([0, *cuts], [*cuts, len(items)]) if hi}
    names = [_plain(row) for row in rows]
    return {"lists": [{"row": name, "items": runs.get(name, [])} for name in names]}


def similar(model: Model, given: Any, limits: Limits) -> Json:
    """The columns most like each column (rows like each row); with `but_not`, like all of them and unlike those."""
    fields = Fields(given, limits)
    rows, cols = fields.ids("rows", optional=True), fields.ids("cols", optional=True)
    but_not = fields.ids("but_not", optional=True)
    n = fields.length(len(rows or cols or ()), max(model.shape))
    fields.end()
    if (rows is None) == (cols is None):
        raise InputError("Give either rows or cols.")
    side, axis, ids = ("row", 0, model.row_ids) if cols is None else ("col", 1, model.col_ids)
    names = _spelled(rows if cols is None else cols, ids)
    lists = []
    for asked in [names.tolist()] if but_not else [[name] for name in names.tolist()]:
        unwanted = None if but_not is None else _spelled(but_not, ids).tolist()
        found, cosine = model.similar(**{side: asked}, n=n, but_not=unwanted)
        titles = model.titles(model.find(found, axis), axis) if found.size else {}
        items = [
            {side: _plain(name), "cosine": float(value), **{key: str(text[t]) for key, text in titles.items()}}
            for t, (name, value) in enumerate(zip(found, cosine))
        ]
        lists.append({side: asked[0] if len(asked) == 1 else asked, "items": items})
    return {"lists": lists}


def fold_in(model: Model, given: Any, limits: Limits) -> Json:
    """The best columns for somebody who was not in the data, from entries {col, value} of theirs.

    To a model of clicks any value says the same, and may be left out.
    """
    fields = Fields(given, limits)
    entries, n = fields.take("entries"), fields.length()
    options = _filters(model, fields)
    fields.end()
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise InputError('entries must be a list of objects: {"col": an id, "value": a number}.')
    if len(entries) > limits.batch:
        raise InputError(f"There are {len(entries)} entries; at most {limits.batch} go into one request.")
    own = [Fields(entry, limits) for entry in entries]
    cols = [entry.one_id("col") for entry in own]
    clicks = model.setting.grades is not None and model.setting.grades[2] == 0
    values = [entry.number("value", -1e12, 1e12, 1.0 if clicks else None) for entry in own]
    for entry in own:
        entry.end()
    if None in values:
        raise InputError("Each of the entries needs a value.")
    positions = model.find(_spelled(cols, model.col_ids), 1)
    m, columns = 1, model.shape[1]
    new = Observations.from_coo(
        np.zeros(len(cols), np.int64), positions, values, (m, columns), Identifiers(np.array(["new"])), model.col_ids
    )
    ranking = model.fold_in(new).recommend(None, n, **options)
    return {"items": _items(ranking)}


QUESTIONS: Mapping[str, Callable[[Model, Any, Limits], Json]] = {
    "predict": predict,
    "recommend": recommend,
    "similar": similar,
    "fold-in": fold_in,
}


def _filters(model: Model, fields: Fields) -> dict[str, Any]:
    """What may be said about which columns are listed; unknown ids are refused where they are allowed."""
    allow, deny = (fields.ids(name, optional=True) for name in ("allow", "deny"))
    return {
        "allow": None if allow is None else _spelled(allow, model.col_ids),
        "deny": None if deny is None else _spelled(deny, model.col_ids),
        "min_count": fields.number("min_count", 0, 10**9, 0, whole=True),
        "diversity": fields.number("diversity", 0, 0.99, 0.0),
        "seen": fields.flag("seen"),
    }


def _items(ranking: Ranking) -> list[Json]:
    names, values = ranking.cols.tolist(), ranking.scores.tolist()
    if not ranking.titles:
        return [{"col": _plain(name), "score": value} for name, value in zip(names, values)]
    texts = [[str(text) for text in column] for column in ranking.titles.values()]
    return [
        {"col": _plain(name), "score": value, **dict(zip(ranking.titles, row))}
        for name, value, *row in zip(names, values, *texts)
    ]


def _spelled(names: Any, ids: Identifiers | None) -> Array:
    """Ids from JSON in the type of the model's own."""
    if all(isinstance(name, int) for name in names):
        return as_model_spells(np.array(names, np.int64), ids)
    if all(isinstance(name, str) for name in names):
        return as_model_spells(text_array(names), ids)
    mixed = np.empty(len(names), object)
    mixed[:] = names
    return as_model_spells(mixed, ids)


def _once(names: Array) -> Array:
    """Each of the names once, in their order."""
    first = {name: position for position, name in reversed(list(enumerate(names.tolist())))}
    return names[sorted(first.values())]


def _plain(name: Any) -> Any:
    """An id as JSON knows it."""
    name = name.item() if isinstance(name, np.generic) else name
    return name if isinstance(name, (str, int, float)) else str(name)
