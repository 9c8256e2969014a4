"""lam, rank, theta and biases chosen on a held-out part of the data, by one warm-started path.

A grid costs the product of its sides. A path costs a few fits, because:

- Above lam_max, the largest singular value of what was observed, the nuclear norm's solution is zero. From there lam
  goes down until the held-out error rises, each trial starting from the last one, at a small rank, where a sweep costs
  a fraction. The rank is then doubled while it pays.
- Noise spreads over more directions at a higher rank: the best lam grows about as the square root of the rank, so that
  the next rank's search starts next to its end. Where the singular values then have a gap, the rank below it is tried.
- A trial ends when sweeps hardly change the held-out error any more, and before that if it cannot catch up with the
  best (`lorank.tuning.held_out`).

Offsets alone, rank 0, come first: whatever is chosen is better than they are by more than noise, or it is they; where
no weight and rank is better, nothing else is tried. A larger rank must pay for what it costs.

The ridge of features, parameters of the method (theta), then lam between the steps, then biases are chosen at the rank
that was found.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy.sparse.linalg import svds

from lorank.linalg import Factors, narrowed
from lorank.observations import Observations
from lorank.side_information.features import RIDGE
from lorank.tuning.held_out import FLAT, STANDARD_ERRORS, paired
from lorank.tuning.search import Search
from lorank.tuning.setting import Space
from lorank.tuning.trial_log import Fitted

# A singular value so many times the next one marks a gap; below this part of the largest they are what a fit that has
# not quite converged leaves, and gaps between them are rounding.
GAP, NULL = 3.0, 1e-4
# The rank at which the path begins; it is doubled from there, or halved.
FIRST_RANK = 4
# lam goes down the path by COARSE, at most to this part of its top; at a rank that is new, by FINE; at last, by SMALL.
COARSE, FINE, SMALL, LOWEST = 4.0, 2.0, 2.0**0.5, 1e-7
# What makes a model larger must lower the error by this part: factors beside offsets, and a rank up to PAYS_AT; beyond,
# by as many times more as the rank is larger.
PAYS, PAYS_AT = 1e-3, 16
# A kind that is so far behind a simpler one at the same rank does not catch up at a larger one.
BEHIND = 0.05
# An error below this part of the first one's is as good as none.
NOTHING = 1e-4
# Two weights closer than by this factor are one.
NEAR = 1.05


def lam_max(observations: Observations, centred: bool) -> float:
    """The largest singular value of the observed matrix (missing entries 0), less its mean with biases.

    No lam above it leaves anything of the nuclear norm's solution.
    """
    values = observations.values.astype(np.float64)
    matrix = observations.with_values(values - values.mean() if centred else values).to_sparse()
    if not matrix.data.any():
        return 1.0
    if min(matrix.shape) < 3:
        return float(np.linalg.norm(matrix.toarray(), 2))
    first = np.random.default_rng(0).standard_normal(min(matrix.shape))
    return float(svds(matrix, k=1, tol=1e-2, v0=first, return_singular_vectors=False)[0])


class WarmPath:
    """The strategy: lam down at a small rank, then the rank, other parameters, lam between the steps, and biases."""

    def __init__(self, space: Space, train: Observations, search: Search) -> None:
        self.space, self.train, self.search = space, train, search
        self.fixed = space.lam is not None
        self.most = min(train.shape)
        first = min(FIRST_RANK, self.most)
        self.first_rank = first if space.rank is None else max(space.rank // 2, min(space.rank, FIRST_RANK))
        search.log.expect(
            {
                "offsets": int(space.offsets),
                "walk": 1 if self.fixed else 6,
                "rank": 7 if space.rank is None else 2 * (self.first_rank != space.rank),
                "features": 2 * space.features,
                "parameters": sum(len(values) - 1 for values in space.searched.values()),
                "lam": 0 if self.fixed else 3,
                "biases": int(space.biases is None),
            }
        )

    def run(self) -> Fitted:
        """All stages; the best fit."""
        space, begin = self.space, self.search.log.begin
        biases = space.biases is not False
        top = space.lam if space.lam is not None else lam_max(self.train, biases)
        given = {**space.given, "lam": top, "rank": self.first_rank, "theta": space.theta, "biases": biases}
        begin("offsets")
        offsets = self.search.attempt({**given, "rank": 0}) if space.offsets else None
        begin("walk")
        if space.features:
            given["feature_ridge"] = RIDGE
        best = self.walk({**given, **{name: values[0] for name, values in space.searched.items()}})
        best = self.less_noise(best, offsets)
        begin("rank")
        if space.rank is None:
            for factor in (2.0, 0.5):
                better = self.climb(best, factor)
                if better is not best:
                    best = better
                    break
            # A search that is resumed looks at its spectrum again: as long as it is referred to, it is saved.
            self.widest = best
            best = self.below_gap(best)
        elif self.first_rank != space.rank:
            best = self.around(self.at_rank(best, space.rank))
        best = self.less_noise(best, offsets)
        # What no weight and rank improves, nothing else will.
        if offsets is not None and not _beats(best, offsets):
            return offsets
        begin("features")
        if space.features:
            best = self.features(best)
        begin("parameters")
        for name, values in space.searched.items():
            best = self.best_of(best, [{**best.parameters, name: value} for value in values])
        begin("lam")
        if not self.fixed:
            best = self.between(best)
        begin("biases")
        if space.biases is None:
            plain = self.search.attempt({**best.parameters, "biases": False}, best.starts, best)
            best = best if _beats(best, plain) else plain  # of two that are as good, the smaller one
        return best if offsets is None or self.beyond_noise(best, offsets) else offsets

    def run_from(self, known: Fitted, brief: bool = False) -> Fitted:
        """The same from the best fit of a simpler kind: its theta and biases, its rank or more, lam near its.

        Offsets alone say nothing of lam and theta: then lam goes down from its top, at the first theta that is tried.
        If `brief`, lam alone: enough to compare kinds on a part of the data.
        """
        begin, given = self.search.log.begin, {**known.parameters, **self.space.given}
        begin("walk")
        if self.space.features:
            given.setdefault("feature_ridge", RIDGE)
        if known.parameters["rank"]:
            best = self.around({**given, "rank": max(known.parameters["rank"], self.first_rank)})
        else:
            searched = {name: values[0] for name, values in self.space.searched.items()}
            best = self.walk({**given, "rank": self.first_rank, "theta": self.space.theta, **searched})
        if brief or best.error > (1 + BEHIND) * known.error:
            return best
        begin("rank")
        if self.space.rank is None:
            best = self.climb(best, 2.0)
        begin("features")
        return self.features(best) if self.space.features else best

    def run_on_more(
        self, known: Fitted, ratio: float, doublings: int | None = None, above: tuple[float, ...] = ()
    ) -> Fitted:
        """From the best fit of the same kind to some of the data, whose noise had a norm `ratio` times smaller.

        Its lam is known but for that. More data may bear a larger rank: it is doubled while that pays, so often at most
        (None for as often as it does). `above` are multiples of lam that are fitted first, each from the last: from a
        random start a small weight may lead nowhere.
        """
        begin, given = self.search.log.begin, {**known.parameters, **self.space.given}
        given["lam"] *= 1.0 if self.fixed else ratio
        begin("rank")
        last: Fitted | None = None  # as long as it is referred to, it is saved
        for factor in above if given["rank"] and not self.fixed else ():
            more = {**given, "lam": factor * given["lam"]}
            last = self.search.attempt(more, () if last is None else last.starts)
        best = self.search.attempt(given, () if last is None else last.starts)
        if best.parameters["rank"] == 0:
            return best
        largest = self.most if doublings is None else min(self.most, given["rank"] << doublings)
        while self.space.rank is None and 2 * best.parameters["rank"] <= largest:
            wider = self.at_rank(best, 2 * best.parameters["rank"])
            fit = self.search.attempt(wider, (), best)
            if not self.pays(fit, best) and not self.fixed:
                fit = self.search.attempt({**wider, "lam": wider["lam"] / FINE}, fit.starts, best)
            if not self.pays(fit, best):
                break
            best = fit
        last = fit = best  # the others' factors take memory
        begin("lam")
        if not self.fixed:
            best = self.beside(best)
        begin("features")
        return self.features(best) if self.space.features else best

    def at_rank(self, best: Fitted, rank: int) -> dict[str, Any]:
        """What to try first at another rank."""
        lam = best.parameters["lam"] * (1.0 if self.fixed else math.sqrt(rank / best.parameters["rank"]))
        return {**best.parameters, "rank": rank, "lam": lam}

    def walk(self, parameters: Mapping[str, Any]) -> Fitted:
        """Down from this lam until the error rises or stays; the best fit."""
        best = fit = first = self.search.attempt(parameters)
        steps = 0
        while not self.fixed and fit.parameters["lam"] > LOWEST * parameters["lam"]:
            # Hardly anything is left to explain.
            if fit.error < NOTHING * first.error:
                break
            lam = fit.parameters["lam"] / COARSE
            fit = self.search.attempt({**fit.parameters, "lam": lam}, fit.starts, best)
            # Near the top everything is shrunk to nothing: the first steps need not be better.
            steps += 1
            if not _beats(fit, best) and steps > 1:
                break
            best = fit
        return min(best, fit, key=lambda fit: fit.error)

    def climb(self, best: Fitted, factor: float) -> Fitted:
        """Multiply the rank by this factor as long as it pays; of two ranks that are as good, the smaller one.

        A sweep at rank k costs about k^2: the larger a rank, the more it has to gain.
        """
        while 1 <= (rank := int(best.parameters["rank"] * factor)) <= self.most:
            fit = self.around(self.at_rank(best, rank), best)
            if self.pays(best, fit) if factor < 1 else not self.pays(fit, best):
                break
            best = fit
        return best

    def pays(self, fit: Fitted, other: Fitted) -> bool:
        """Whether a fit is so much better than one of a smaller rank that this is worth its cost."""
        return _beats(fit, other, PAYS * max(1.0, fit.parameters["rank"] / PAYS_AT))

    def beyond_noise(self, fit: Fitted, offsets: Fitted) -> bool:
        """Whether a fit is better than offsets alone by more than its cost and by more than noise."""
        if fit.losses is None or offsets.losses is None:  # one has failed
            return _beats(fit, offsets, PAYS)
        gain, error = paired(fit.losses, offsets.losses)
        return _beats(fit, offsets, PAYS) and gain > STANDARD_ERRORS * error

    def around(
        self, parameters: Mapping[str, Any], rival: Fitted | None = None, start: tuple[Factors, ...] = ()
    ) -> Fitted:
        """These parameters, then lam down, and, unless that helped or they have lost, up, while it helps."""
        first = self.search.attempt(parameters, start, rival)
        return first if self.fixed else self.beside(first, rival)

    def beside(self, first: Fitted, rival: Fitted | None = None) -> Fitted:
        """lam down, and, unless that helped or the rival has won, up, while it helps."""
        best = first
        for factor in (1 / FINE, FINE):
            fit = best
            if factor > 1 and rival is not None and _beats(rival, best, PAYS):
                break
            while best.parameters["lam"] > LOWEST * first.parameters["lam"]:
                lam = fit.parameters["lam"] * factor
                fit = self.search.attempt({**fit.parameters, "lam": lam}, fit.starts, best)
                if not _beats(fit, best):
                    break
                best = fit
            if best is not first:
                break
        return best

    def below_gap(self, best: Fitted) -> Fitted:
        """The rank below the widest gap between singular values, if it does as well."""
        sigma = best.factors.singular_values()
        ratios = sigma[:-1] / np.maximum(sigma[1:], NULL * sigma[0] + 1e-300)
        if not ratios.size or ratios.max() < GAP:
            return best
        rank = int(np.argmax(ratios)) + 1
        fit = self.around(self.at_rank(best, rank), best, tuple(narrowed(part, rank) for part in best.starts))
        # Of two that are as good, the smaller one.
        return best if _beats(best, fit) else fit

    def less_noise(self, best: Fitted, offsets: Fitted | None) -> Fitted:
        """The ridges of biases by the noise that this fit leaves, where that is far less than offsets alone leave.

        A ridge is the variance of the noise by that of the offsets. By offsets alone all that is of low rank is noise,
        and ridges that are too large would leave the offsets to the factors.
        """
        if offsets is None or not best.parameters["biases"] or not offsets.error > 0:
            return best
        noise = (best.error / offsets.error) ** 2
        if not noise < 0.5 * best.parameters.get("noise", 1.0):
            return best
        return self.best_of(best, [{**best.parameters, "noise": noise}])

    def features(self, best: Fitted) -> Fitted:
        """The ridge of the features up, or else down, while that helps."""
        first = best
        for factor in (COARSE, 1 / COARSE):
            while RIDGE / COARSE**4 < best.parameters["feature_ridge"] < RIDGE * COARSE**4:
                ridge = best.parameters["feature_ridge"] * factor
                better = self.best_of(best, [{**best.parameters, "feature_ridge": ridge}])
                if better is best:
                    break
                best = better
            if best is not first:
                break
        return best

    def between(self, best: Fitted) -> Fitted:
        """lam by small steps down, or else up, while that helps; then the vertex of the parabola through the nearest.

        The parabola is that of the error over log lam. The error rises much faster below the best lam than above: of
        trials that are far apart the vertex would be too high.
        """
        first = best
        known = {math.log(best.parameters["lam"]): best.error}
        for factor in (1 / SMALL, SMALL):
            while best.parameters["lam"] > LOWEST * first.parameters["lam"]:
                beside = {**best.parameters, "lam": best.parameters["lam"] * factor}
                fit = self.search.attempt(beside, best.starts, best)
                known[math.log(beside["lam"])] = fit.error
                if not _beats(fit, best):
                    break
                best = fit
            if best is not first:
                break
        middle = math.log(best.parameters["lam"])
        lower, upper = [x for x in known if x < middle], [x for x in known if x > middle]
        if not lower or not upper:
            return best
        x = np.array([max(lower), middle, min(upper)])
        errors = np.array([known[at] for at in x])
        if not np.isfinite(errors).all():
            return best
        curve = np.polyfit(x - middle, errors, 2)
        if curve[0] <= 0:
            return best
        vertex = np.clip(middle - curve[1] / (2 * curve[0]), x[0], x[2])
        if np.abs(vertex - x).min() < math.log(NEAR):
            return best
        return self.best_of(best, [{**best.parameters, "lam": float(np.exp(vertex))}])

    def best_of(self, best: Fitted, others: Iterable[Mapping[str, Any]]) -> Fitted:
        """The best of a fit and other parameters, each from that fit's factors."""
        first = best
        for parameters in others:
            if parameters != first.parameters:
                fit = self.search.attempt(parameters, first.starts, best)
                best = fit if _beats(fit, best) else best
        return best


def _beats(fit: Fitted, other: Fitted, by: float = FLAT) -> bool:
    return fit.error < (1 - by) * other.error
