"""Ids, observations, side information and posterior draws as few plain arrays, and back, every part of it checked."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import numpy as np
import scipy.sparse as sp

from lorank.errors import InputError
from lorank.linalg import Factors, pad
from lorank.observations import Lines, Observations
from lorank.observations.checks import check_lines, index_type
from lorank.observations.sparse import check_sparse
from lorank.side_information import Features, GraphLaplacian, KernelPrior
from lorank.side_information.encoding import Encoding
from lorank.side_information.new_lines import FeatureMap
from lorank.solvers import Posterior
from lorank.solvers.prior_draws import PriorDraws
from lorank.types import Array

Side = Features | GraphLaplacian | KernelPrior
# The arrays of a sparse matrix, in the order in which scipy takes them.
SPARSE = ("data", "indices", "indptr")
# How an id of a Python type is written as text, and read again.
_TAGS: dict[str, tuple[type, Any, Any]] = {
    "s": (str, str, str),
    "i": (int, str, int),
    "f": (float, float.hex, float.fromhex),
    "t": (datetime, datetime.isoformat, datetime.fromisoformat),
    "d": (date, date.isoformat, date.fromisoformat),
}


def pack_ids(values: Array, name: str, arrays: dict[str, Array]) -> str:
    """Put ids into `arrays` under `name`; the answer tells `unpack_ids` how they are kept.

    Integers and dates are integers, text is its UTF-8 bytes in a row and where each ends, anything else is text
    with a letter that tells its type.
    """
    kind = values.dtype.kind
    if kind in "iu":
        arrays[name] = _small(values)
        return values.dtype.str
    if kind == "M":
        arrays[name] = values.view(np.int64)
        return values.dtype.str
    pack_text([str(value) for value in values] if kind == "U" else [_tagged(value) for value in values], name, arrays)
    return "text" if kind == "U" else "tagged"


def pack_text(texts: list[str], name: str, arrays: dict[str, Array]) -> None:
    """Put texts into `arrays`: their UTF-8 bytes in a row, and where each ends."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    arrays[name] = np.frombuffer(b"".join(encoded), np.uint8)
    arrays[f"{name}.ends"] = _small(np.cumsum([len(text) for text in encoded], dtype=np.int64))


def unpack_ids(kind: str, name: str, arrays: dict[str, Array], size: int) -> Array:
    """The ids that `pack_ids` put away."""
    if kind in ("text", "tagged"):
        texts = unpack_text(name, arrays, size)
        if kind == "text":
            ids = texts.astype(str)
        else:
            ids = np.empty(len(texts), object)
            ids[:] = [_TAGS[text[0]][2](text[1:]) for text in texts]
    else:
        dtype = np.dtype(str(kind))
        if dtype.kind not in "iuM":
            raise ValueError(f"its ids are of the type {dtype}")
        stored = arrays[name]
        ids = stored.view(dtype) if dtype.kind == "M" else stored.astype(dtype)
    if ids.shape != (size,):
        raise ValueError(f"it has {ids.size} ids for {size} rows or columns")
    return ids


def unpack_text(name: str, arrays: dict[str, Array], size: int) -> Array:
    """The texts that `pack_text` put away, as objects: one long text does not make all of them long."""
    ends = arrays[f"{name}.ends"].astype(np.int64)
    starts = np.concatenate([[0], ends[:-1]])
    data = arrays[name].tobytes()
    if ends.shape != (size,) or (size and ends[-1] != len(data)) or (ends < starts).any():
        raise ValueError("its ids or titles are damaged")
    texts = np.empty(size, object)
    texts[:] = [data[lo:hi].decode("utf-8", "surrogatepass") for lo, hi in zip(starts, ends)]
    return texts


def _tagged(value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    for tag, (kind, write, _) in _TAGS.items():
        if isinstance(value, kind) and not isinstance(value, bool):
            return f"{tag}{write(value)}"
    raise InputError(f"Ids of type {type(value).__name__} cannot be saved; use integers, text or dates.")


def pack_observations(observations: Observations, arrays: dict[str, Array]) -> None:
    """Put entries into `arrays`, each in the smallest type that holds it exactly."""
    arrays["seen.counts"] = _small(np.diff(observations.by_row.pointers))
    arrays["seen.cols"] = _small(observations.cols)
    arrays["seen.values"] = observations.values.astype(exact_type(observations.values))
    if observations.weights is not None:
        arrays["seen.weights"] = observations.weights.astype(exact_type(observations.weights))


def exact_type(values: Array) -> np.dtype[Any]:
    """The smallest type that holds these numbers exactly: ratings in half stars are exact in two bytes."""
    with np.errstate(over="ignore"):
        exact = (short for short in (np.float16, np.float32) if np.array_equal(values.astype(short), values))
        return np.dtype(next(exact, values.dtype))


def unpack_observations(arrays: dict[str, Array], shape: tuple[int, int], dtype: np.dtype[Any]) -> Lines:
    """The entries that `pack_observations` put away."""
    counts, cols, values = (arrays[f"seen.{part}"] for part in ("counts", "cols", "values"))
    if counts.shape != (shape[0],) or counts.dtype.kind not in "iu":
        raise ValueError("its entries do not go with its factors")
    pointers = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    return checked_lines(pointers, cols, values, shape, dtype, arrays.get("seen.weights"))


def checked_lines(
    pointers: Array,
    cols: Array,
    values: Array,
    shape: tuple[int, int],
    dtype: np.dtype[Any],
    weights: Array | None = None,
) -> Lines:
    """Rows with their entries, checked: compiled code trusts every index it is given."""
    if pointers.shape != (shape[0] + 1,) or cols.dtype.kind not in "iu":
        raise ValueError("its entries do not go with its factors")
    cols, values = cols.astype(index_type(shape)), values.astype(dtype)
    check_lines(pointers, cols, values, shape)
    if not np.isfinite(values).all():
        raise ValueError("its entries are not finite")
    if weights is not None:
        weights = weights.astype(dtype)
        if weights.shape != values.shape or not (np.isfinite(weights).all() and (weights > 0).all()):
            raise ValueError("the weights of its entries are damaged")
    return Lines(pointers, cols, values, weights)


def pack_side(side: Any, name: str, arrays: dict[str, Array]) -> dict[str, Any] | None:
    """Put features, a graph or kernel prior, or several, into `arrays`; None if one is of a kind that cannot be."""
    if isinstance(side, (list, tuple)):
        parts = [pack_side(part, f"{name}.{number}", arrays) for number, part in enumerate(side)]
        return None if any(part is None for part in parts) else {"kind": "several", "parts": parts}
    if type(side) is KernelPrior:
        arrays[f"{name}.points"] = np.asarray(side.points)
        plain = {"length": float(side.length), "nugget": float(side.nugget), "weight": float(side.weight)}
        return {"kind": "kernel", "kernel": side.kernel, **plain}
    if type(side) is Features or type(side) is np.ndarray or sp.issparse(side):
        matrix = Features.of(side).matrix
        if sp.issparse(matrix):
            arrays |= {f"{name}.{part}": getattr(matrix, part) for part in SPARSE}
        else:
            arrays[f"{name}.matrix"] = matrix
        return {
            "kind": "features",
            "columns": int(matrix.shape[1]),
            "ridge": side.ridge if isinstance(side, Features) else None,
            "encodings": [encoding.plain() for encoding in Features.of(side).encodings],
        }
    if type(side) is not GraphLaplacian:
        return None
    if side.sparse:
        arrays |= {f"{name}.{part}": getattr(side.matrix, part) for part in SPARSE}
    else:
        arrays[f"{name}.matrix"] = side.matrix
    return {"kind": "graph", "weight": float(side.weight)}


def unpack_side(about: dict[str, Any], name: str, arrays: dict[str, Array], size: int) -> Any:
    """The features, graph or kernel prior, or the tuple of several, that `pack_side` put away."""
    if about["kind"] == "several":
        parts = enumerate(about["parts"])
        return tuple(unpack_side(part, f"{name}.{number}", arrays, size) for number, part in parts)
    given = dict(about)
    side: Side
    kind = given.pop("kind")
    if kind == "features":
        matrix = _unpack_matrix(name, arrays, (size, int(given["columns"])))
        ridge = None if given.get("ridge") is None else float(given["ridge"])
        side = Features(matrix, ridge, tuple(map(Encoding.from_plain, given.get("encodings", ()))))
    elif kind == "kernel":
        side = KernelPrior(arrays[f"{name}.points"].astype(np.float64), **given)
    elif f"{name}.matrix" in arrays:
        side = GraphLaplacian(arrays[f"{name}.matrix"], float(given["weight"]))
    else:
        side = GraphLaplacian(_unpack_matrix(name, arrays, (size, size)), float(given["weight"]))
    if side.size != size:
        raise ValueError(f"its graph has {side.size} nodes for {size} rows or columns")
    return side


def _unpack_matrix(name: str, arrays: dict[str, Array], shape: tuple[int, int]) -> Any:
    """A dense or a sparse matrix of this shape."""
    if f"{name}.matrix" in arrays:
        matrix = arrays[f"{name}.matrix"]
        if matrix.shape != shape:
            raise ValueError(f"{name} has the shape {matrix.shape}, not {shape}")
        return matrix
    sparse = sp.csr_array(tuple(arrays[f"{name}.{part}"] for part in SPARSE), shape=shape)
    check_sparse(sparse)
    return sparse


def pack_features(known: FeatureMap, name: str, arrays: dict[str, Array]) -> dict[str, Any]:
    """Put into `arrays` what is kept of features to say where new lines are expected."""
    arrays[f"{name}.lift"] = known.lift
    if known.gram is not None:
        arrays[f"{name}.gram"] = known.gram
    return {"encodings": [encoding.plain() for encoding in known.encodings]}


def unpack_features(about: dict[str, Any], name: str, arrays: dict[str, Array]) -> FeatureMap:
    """What `pack_features` put away, checked."""
    encodings = tuple(map(Encoding.from_plain, about["encodings"]))
    lift, gram = arrays[f"{name}.lift"], arrays.get(f"{name}.gram")
    width = sum(encoding.width for encoding in encodings)
    if lift.ndim != 2 or len(lift) != width or not np.isfinite(lift).all():
        raise ValueError("what it keeps of features does not go together")
    if gram is not None and (gram.ndim != 2 or gram.shape[0] != gram.shape[1] or not np.isfinite(gram).all()):
        raise ValueError("what it keeps of features does not go together")
    return FeatureMap(encodings, lift, gram)


def pack_posterior(posterior: Posterior, arrays: dict[str, Array]) -> dict[str, Any]:
    """Put into `arrays` what error bars need beside the mean, whose factors are there as "W" and "H"."""
    summary = posterior.summary
    # Seven digits are plenty for a standard deviation.
    arrays["deviations"] = posterior.deviations[:, : posterior.draws * posterior.width].astype(np.float32)
    arrays |= {"summary.W": summary.W, "summary.H": summary.H}
    arrays |= {f"noise.{side}": getattr(posterior.noise, side)[:, : posterior.draws] for side in ("W", "H")}
    if posterior.cuts is not None and posterior.levels is not None:
        arrays |= {"cuts": posterior.cuts, "levels": posterior.levels}
    if summary.biased:
        arrays |= {"summary.row_bias": summary.row_bias, "summary.col_bias": summary.col_bias}
    pack_priors(posterior, arrays)
    return {
        "width": int(posterior.width),
        "draws": int(posterior.draws),
        "noise_variance": float(posterior.noise_variance),
        "offset": float(summary.offset),
    }


def unpack_posterior(about: dict[str, Any], arrays: dict[str, Array], mean: Factors) -> Posterior:
    """The posterior that `pack_posterior` put away, checked: compiled code trusts its shapes."""
    width, draws = int(about["width"]), int(about["draws"])
    deviations = arrays["deviations"].astype(mean.dtype)
    if min(width, draws) < 1 or deviations.shape != mean.W.shape or mean.k != width * draws:
        raise ValueError("its posterior does not go with its factors")
    parts = [arrays.get(f"summary.{part}") for part in ("W", "H", "row_bias", "col_bias")]
    W, H = (part if part is not None and part.ndim == 2 else np.empty((0, 0)) for part in parts[:2])
    biases = [None if part is None else part.shape for part in parts[2:]]
    if (
        (len(W), len(H)) != mean.shape
        or W.shape[1] != H.shape[1]
        or biases not in ([None] * 2, [W.shape[:1], H.shape[:1]])
    ):
        raise ValueError("its posterior does not go with its factors")
    summary = Factors.of(W, H, parts[2], parts[3], float(about["offset"]))
    noise = _unpack_noise(about, arrays, mean.shape, draws)
    if not (summary.is_finite() and np.isfinite(deviations).all()):
        raise ValueError("its posterior is not finite")
    cuts, levels = arrays.get("cuts"), arrays.get("levels")
    if (cuts is None) != (levels is None):
        raise ValueError("its levels and their cuts do not go together")
    if cuts is not None and levels is not None:
        cuts, levels = cuts.astype(np.float64), levels.astype(np.float64)
        known = levels.ndim == 1 and cuts.shape == (draws, levels.size - 1) and levels.size > 0
        if not known or not (np.isfinite(cuts).all() and np.isfinite(levels).all()):
            raise ValueError("its levels and their cuts do not go together")
        if not all((side > 0).all() for side in (noise.W, noise.H)):
            raise ValueError("its levels have no noise, by which cuts are divided")
    priors = unpack_priors(arrays, draws, W.shape[1] + (parts[2] is not None))
    return Posterior(mean, summary, pad(deviations), width, draws, noise, cuts, levels, priors)


def pack_priors(posterior: Posterior, arrays: dict[str, Array]) -> None:
    """Put the priors of lines in each draw into `arrays`, of sides that have features."""
    for side, prior in zip(("row", "col"), posterior.priors or ()):
        if prior.known:
            arrays |= {f"{side}_prior.{part}": array for part, array in vars(prior).items()}


def unpack_priors(arrays: dict[str, Array], draws: int, p: int) -> tuple[PriorDraws, PriorDraws]:
    """The priors that `pack_priors` put away, p being the rank and one more with biases."""
    return _unpack_prior("row", arrays, draws, p), _unpack_prior("col", arrays, draws, p)


def _unpack_prior(side: str, arrays: dict[str, Array], draws: int, p: int) -> PriorDraws:
    """The prior of a side's lines in each draw, empty where it has no features."""
    parts = [arrays.get(f"{side}_prior.{part}") for part in ("mu", "Lambda", "coefficients")]
    if any(part is None for part in parts):
        return PriorDraws.empty(0, p, 0)
    mu, Lambda, coefficients = found = tuple(np.asarray(part) for part in parts)
    shapes = mu.shape == (draws, p) and Lambda.shape == (draws, p, p) and coefficients.ndim == 3
    if not shapes or coefficients.shape[::2] != (draws, p) or not all(np.isfinite(part).all() for part in found):
        raise ValueError("its prior does not go with its draws")
    return PriorDraws(mu, Lambda, coefficients)


def _unpack_noise(about: dict[str, Any], arrays: dict[str, Array], shape: tuple[int, int], draws: int) -> Factors:
    """Variances of the noise; files that were written before have one number for all entries."""
    if "noise.W" in arrays:
        rows, cols = (arrays[f"noise.{side}"].astype(np.float32) for side in ("W", "H"))
    else:
        rows = np.full((shape[0], draws), float(about["noise_variance"]) / draws, np.float32)
        cols = np.ones((shape[1], draws), np.float32)
    if (rows.shape, cols.shape) != ((shape[0], draws), (shape[1], draws)):
        raise ValueError("its noise does not go with its factors")
    if not all(np.isfinite(side).all() and (side >= 0).all() for side in (rows, cols)):
        raise ValueError("its noise is not finite")
    return Factors.of(rows, cols)


def _small(numbers: Array) -> Array:
    """Integers in the smallest type that holds them all."""
    if not numbers.size:
        return numbers.astype(np.int32)
    low, high = int(numbers.min()), int(numbers.max())
    fits = (t for t in (np.uint8, np.uint16, np.int32) if np.iinfo(t).min <= low and high <= np.iinfo(t).max)
    return numbers.astype(next(fits, numbers.dtype))
