"""What every solver asks of a problem: what was observed, and the parts of the objective that need no regularizer.

    F = sum over observed (i, j) of loss(X_ij, O_ij) + regularizer(X)

and with biases 1/2 (ra ||a||^2 + rb ||b||^2 + r0 (offset - mean)^2) more, with ridges ra of the rows and rb of the
columns that have no unit (`lorank.problems.offsets`). The offset needs a ridge too: without one, NNFN at theta 1 could
hide additive biases in one huge direction, which costs it nothing, and run away to infinity.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from lorank import kernels
from lorank.errors import InputError
from lorank.linalg import Factors, gram, pad
from lorank.linalg.blas import one_blas_thread
from lorank.losses import SQUARED, Loss
from lorank.observations import Lines, Observations
from lorank.problems.offsets import empirical_bayes_offsets
from lorank.problems.unobserved import Unobserved, frequency_shares
from lorank.regularizers import Factored, SpectralValue
from lorank.side_information import Features, GraphLaplacian, KernelPrior
from lorank.side_information.base import Added, Whitened, several
from lorank.side_information.features import Directions, FeaturePrior, features_of
from lorank.types import Array

P = TypeVar("P", bound="BaseProblem")
Regularizer = SpectralValue | Factored
Known = Features | GraphLaplacian | KernelPrior
Side = Known | tuple[Known, ...] | None

# Names the random numbers of starts among those of the same seed.
START_STREAM = 1


@dataclass(frozen=True)
class BaseProblem:
    """Observations with a loss, biases and side information, and the regularizer that goes with them.

    Its fields are described at `Problem`. All arithmetic on observed entries goes through the kernels, on as many
    threads as the problem is given.
    """

    observations: Observations
    regularizer: Regularizer | None
    rank: int
    bias_ridges: tuple[float, float] | None = None
    n_jobs: int | None = None
    pointwise: Loss = SQUARED
    row_side: Side = None
    col_side: Side = None
    unobserved: Unobserved | None = None
    frequency_power: float = 0.0
    workers: kernels.Workers = field(init=False, repr=False, compare=False)
    # Factors, and the loss that was learnt there.
    _learnt: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for side, size, what in zip((self.row_side, self.col_side), self.observations.shape, ("rows", "columns")):
            features = features_of(side)
            if features is not None and features.size != size:
                raise InputError(f"There are features of {features.size} {what}, and the data has {size}.")
        if self.coupled and not self.squared:
            raise InputError("A graph or a kernel prior goes with the squared loss only; leave one of the two out.")
        if self.unobserved is not None:
            self.unobserved.check(self.observations)
            if self.coupled or not self.squared:
                raise InputError(
                    "unobserved_weight is for the squared loss, without graphs or kernel priors; leave one of them out."
                )
        if self.frequency_power and (self.row_side is not None or self.col_side is not None):
            raise InputError("frequency_power does not go with features, graphs or kernel priors; leave one out.")
        object.__setattr__(self, "workers", kernels.Workers(self.n_jobs))

    def with_regularizer(self: P, regularizer: Regularizer) -> P:
        """The same problem under another regularizer, on the same threads."""
        other = replace(self, regularizer=regularizer)
        object.__setattr__(other, "workers", self.workers)
        # Side information is bound once.
        vars(other).update({name: vars(self)[name] for name in ("_terms", "_priors") if name in vars(self)})
        return other

    @contextmanager
    def running(self) -> Iterator[None]:
        """The context that a solver runs in: BLAS on one thread, and the kernels' threads ended at the end.

        The threads belong to the kernels, and a result must not depend on how many there are.
        """
        with one_blas_thread():
            try:
                yield
            finally:
                self.workers.close()

    # The observed entries.

    @cached_property
    def mean(self) -> float:
        """Mean of the observed values, weighted where there are weights; of all, if what was not observed counts."""
        seen = self.observations
        if self.unobserved is None:
            return seen.mean
        weight, rest = float(self.counts(False).sum()), seen.shape[0] * seen.shape[1] - seen.nnz
        total = weight * seen.mean + rest * self.unobserved.weight * self.unobserved.value
        return total / (weight + rest * self.unobserved.weight)

    @cached_property
    def density(self) -> float:
        """The part of the entries that were observed."""
        m, n = self.observations.shape
        return float(self.counts(False).sum()) / (m * n)

    def spread(self, offset: float) -> float:
        """Mean distance of the observed values from an offset."""
        values, weights = self.observations.values, self.observations.weights
        distances = np.abs(values - values.dtype.type(offset))
        if weights is None:
            return float(np.mean(distances, dtype=np.float64))
        return float(np.average(distances.astype(np.float64), weights=weights))

    def lines(self, transposed: bool) -> Lines:
        """The rows, or the columns when transposed."""
        return self.observations.by_col if transposed else self.observations.by_row

    def counts(self, transposed: bool) -> Array:
        """Entries in each row, or in each column; what they weigh together, where there are weights."""
        return self.lines(transposed).totals()

    def fractions(self, transposed: bool) -> Array:
        """How much of each row (column when transposed) was observed."""
        return self.counts(transposed) / self.observations.shape[not transposed]

    def shares(self, transposed: bool) -> Array | None:
        """How much of the regularizer each row (column when transposed) bears, or None if all bear the same."""
        return self._shares[transposed]

    @cached_property
    def _shares(self) -> tuple[Array | None, Array | None]:
        if not self.frequency_power:
            return None, None
        m, n = self.observations.shape
        args = self.frequency_power, self.unobserved
        return frequency_shares(self.lines(False), n, *args), frequency_shares(self.lines(True), m, *args)

    def random_start(self, seed: int | None) -> Factors:
        """Factors of independent normal entries, in half the scale of the data; zero where nothing was observed."""
        # A stream of its own: data drawn with the same seed must not come out as the start.
        rng = np.random.default_rng(None if seed is None else [START_STREAM, seed])
        offset = self.mean if self.biased else 0.0
        scale = 0.5 * np.sqrt((self.spread(offset) or 1.0) / np.sqrt(self.rank))
        left, right = (
            pad((scale * rng.standard_normal((size, self.rank))).astype(self.observations.dtype))
            for size in self.observations.shape
        )
        for side, transposed in ((left, False), (right, True)):
            # Nothing is known of a line without observations: it is zero, and stays so.
            side[self.counts(transposed) == 0] = 0
        return Factors(left, right, self.rank, self.biased, offset)

    def offsets_alone(self) -> Factors:
        """A start that has no factors but zero ones, which stay zero, and the offsets of empirical Bayes."""
        offsets, dtype = empirical_bayes_offsets(self.observations, workers=self.workers), self.observations.dtype
        left, right = (pad(np.zeros((own.size, self.rank), dtype), own.astype(dtype)) for own in (offsets.a, offsets.b))
        return Factors(left, right, self.rank, True, offsets.mu)

    @cached_property
    def levels(self) -> tuple[Array, Array]:
        """The distinct values, ascending, and which of them each entry has (row-major, uint8)."""
        values, level = np.unique(self.observations.values, return_inverse=True)
        return values.astype(np.float64), level.astype(np.uint8)

    # The loss.

    @property
    def squared(self) -> bool:
        """Whether the loss is the squared one, which needs no working values."""
        return self.pointwise == SQUARED

    @cached_property
    def curvature(self) -> float:
        """A bound on the second derivative of an entry's loss, its weight included."""
        weights = self.observations.weights
        return self.pointwise.curvature * (1.0 if weights is None else float(weights.max(initial=0.0)))

    def loss(self, factors: Factors) -> float:
        """The weighted sum of the losses over the observed entries; 1/2 that of squared residuals by default."""
        seen = self.observations
        x = factors.predict(seen.rows, seen.cols, self.workers)
        if self.unobserved is None:
            return self.loss_at(factors).at(seen.rows, seen.cols).value(x, seen.values, *_given(seen.weights))
        lines = self.unobserved.beyond(seen.by_row)
        grams = self.gram(factors.left, factors.k), self.gram(factors.right, factors.k)
        beyond = self.pointwise.value(x, lines.values, lines.weights)
        return beyond + self.unobserved.all_entries(factors, *grams) - self.unobserved.constant(seen)

    def loss_at(self, factors: Factors) -> Loss:
        """The loss with what it learns from the data where entries are predicted by these factors: cuts of a scale.

        Those that fit best belong to the loss: F is its least value over them, a function of the factors alone.
        """
        loss = self.pointwise
        if not loss.learns:
            return loss
        seen, at = self.observations, (factors.left, factors.right, factors.offset)
        # Asked again at the same point, by the next half-step.
        if not (self._learnt and all(old is new for old, new in zip(self._learnt, at))):
            x = factors.predict(seen.rows, seen.cols, self.workers)
            self._learnt[:] = [*at, loss.at(seen.rows, seen.cols).learnt(x, seen.values, seen.weights, self.workers)]
        learnt: Loss = self._learnt[-1]
        return learnt

    def error(self, factors: Factors, held_out: Observations) -> float:
        """The error on other observations: root mean square, or what the loss says instead."""
        x = factors.predict(held_out.rows, held_out.cols, self.workers)
        loss = self.loss_at(factors).at(held_out.rows, held_out.cols)
        return loss.error(loss.predicted(x), held_out.values, *_given(held_out.weights))

    # Biases.

    @property
    def biased(self) -> bool:
        return self.bias_ridges is not None

    def bias_ridge(self, transposed: bool) -> float:
        """The ridge of the row biases (column biases when transposed); 0 without biases."""
        return 0.0 if self.bias_ridges is None else self.bias_ridges[transposed]

    @property
    def offset_ridge(self) -> float:
        """The ridge of the offset: the smaller one of the biases'."""
        return 0.0 if self.bias_ridges is None else min(self.bias_ridges)

    def bias_penalty(self, factors: Factors) -> float:
        """What the biases and the offset of factors pay; 0 without them."""
        return self.ridge_of(factors.row_bias, factors.col_bias, factors.offset) if self.biased else 0.0

    def ridge_of(self, rows: Array, cols: Array, offset: float) -> float:
        """1/2 (ra ||a||^2 + rb ||b||^2 + r0 (offset - mean)^2) of these biases and offset."""
        both = sum(self.bias_ridge(side) * self.own_square(b, side) for b, side in ((rows, False), (cols, True)))
        return 0.5 * (both + self.offset_ridge * (offset - self.mean) ** 2)

    def own_square(self, bias: Array, transposed: bool) -> float:
        """||a||^2 of the biases of rows (columns when transposed); a^T C^-1 a by features."""
        squares, features = float(np.sum(bias.astype(np.float64) ** 2)), self.features(transposed)
        return squares if features is None else squares - float(features.explained(bias[:, None])[0, 0])

    def bias_shifts(self, rows: Array, cols: Array, offset: float) -> tuple[float, float, float]:
        """Constants to take off both biases, and the offset then: a_i + b_j + offset stays, the ridge is smallest.

        The minimum of ra sum (a_i - s)^2 + rb sum (b_j - t)^2 + r0 (offset + s + t - mean)^2 over s and t has, with
        T = offset + s + t - mean, s = mean(a) - r0 T / (ra m) and t = mean(b) - r0 T / (rb n).
        """
        (m, middle_row), (n, middle_col) = self._middle(rows, False), self._middle(cols, True)
        m, n = (size * self.bias_ridge(transposed) / self.offset_ridge for size, transposed in ((m, False), (n, True)))
        T = (offset - self.mean + middle_row + middle_col) / (1 + 1 / m + 1 / n)
        return middle_row - T / m, middle_col - T / n, self.mean + T

    def _middle(self, bias: Array, transposed: bool) -> tuple[float, float]:
        """How many biases there are, and their mean; with features as `FeaturePrior.middle` has them."""
        features = self.features(transposed)
        return (len(bias), float(bias.mean(dtype=np.float64))) if features is None else features.middle(bias)

    # Side information.

    @property
    def coupled(self) -> bool:
        """Whether lines depend on each other, through a graph or a kernel."""
        return any(_other(side) is not None for side in (self.row_side, self.col_side))

    @property
    def featured(self) -> bool:
        """Whether there are features of rows or of columns."""
        return any(features_of(side) is not None for side in (self.row_side, self.col_side))

    @cached_property
    def _terms(self) -> tuple[Any, Any]:
        sides = _other(self.row_side), _other(self.col_side)
        rows, cols = (None if side is None else side.bind(self.fractions(i == 1)) for i, side in enumerate(sides))
        return rows, cols

    def directions(self, transposed: bool) -> Directions | None:
        """Those of the features of the rows (columns when transposed), if there are any."""
        features = features_of(self.col_side if transposed else self.row_side)
        return None if features is None else features.directions(self.workers)

    def features(self, transposed: bool) -> FeaturePrior | None:
        """Where features expect the rows (columns when transposed), if there are any."""
        return self._priors[transposed]

    @cached_property
    def _priors(self) -> tuple[FeaturePrior | None, FeaturePrior | None]:
        rows, cols = (
            None if features is None else features.prior(self.observations.dtype, self.workers)
            for features in (features_of(self.row_side), features_of(self.col_side))
        )
        return rows, cols

    def deviations(self, W: Array, transposed: bool) -> Array:
        """W (lines, p) less what features expect; W itself without features."""
        features = self.features(transposed)
        return W if features is None else W - features.expected(W)

    def added(self, transposed: bool) -> Added | None:
        """The term that the rows (columns when transposed) add to the objective, if there is one."""
        term = self._terms[transposed]
        return term if hasattr(term, "energy") else None

    def whitened(self, transposed: bool) -> Whitened | None:
        """The prior under which the left (right when transposed) factor is whitened, if there is one."""
        term = self._terms[transposed]
        return term if hasattr(term, "latent") else None

    def graph_penalty(self, factors: Factors) -> float:
        """gamma/2 tr(X^T L X) of the rows' graph, plus that of the columns'."""
        total = 0.0
        for side, transposed in ((factors, False), (factors.transposed(), True)):
            term = self.added(transposed)
            if term is not None:
                total += term.energy(side.W, self.gram(side.right, side.k))
        return total

    def gram(self, padded: Array, k: int) -> Array:
        """F^T F (k x k, float64) of a padded factor; the same bits for any number of threads."""
        return gram(padded, k, self.workers)


def _other(side: Side) -> GraphLaplacian | KernelPrior | None:
    """The graph or kernel prior among it."""
    return next((part for part in several(side) if not isinstance(part, Features)), None)


def _given(weights: Array | None) -> tuple[Array, ...]:
    """Weights as an argument where there are any: a loss of one's own need not know them otherwise."""
    return () if weights is None else (weights,)
