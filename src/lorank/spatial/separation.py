"""Values of places and times, separated into level and season, scale, and a field of anomalies.

    x_it = b_t^T c_i + level_t + row_scale_i col_scale_t z_it

Anomalies of neighbouring places are alike, so those around a place say how warm its few months were: level and season
are fitted to what the anomalies of the others leave of the values, and weigh by how well these are known. That changes
the anomalies, so it is done twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lorank.errors import InputError
from lorank.kernels import Workers
from lorank.spatial.climatology import Basis, Climatology, fit_climatology
from lorank.spatial.drift import DriftKriging, Places, Variogram
from lorank.spatial.neighbours import FieldKernel, choose_kernel, krige_nearest
from lorank.spatial.normalisation import NAMES, Normalisation
from lorank.types import Array

# Normalisation: (it has a season, a trend, and divides by each place's deviation); others know no level of a place.
PARTS = {
    "anomalies": (True, False, True),
    "departures": (True, False, False),
    "anomalies-trend": (True, True, True),
    "zscore-rows": (False, False, True),
    "centred-rows": (False, False, False),
    "roots": (True, False, True),
}
PASSES = 2
# Values whose third standardised moment is beyond this may be better off as square roots.
SKEWED = 0.8
# Neighbouring months are alike: so many of them say as much of a variance as one that is independent.
MONTHS_PER_DEGREE = 3.0


@dataclass(frozen=True)
class Chosen:
    """What one separation estimated and another may use: variograms by order, that of the scales, the kernel."""

    variograms: dict[int, Variogram]
    scale: Variogram | None
    kernel: FieldKernel


@dataclass(frozen=True)
class Separation:
    """One way to separate values; z (m, n) is what is left, NaN where missing.

    `climatology` is None without levels of places, `scales` without deviations of them.
    """

    name: str
    places: Places
    normalisation: Normalisation
    climatology: Climatology | None
    scales: DriftKriging | None
    kernel: FieldKernel
    z: Array
    workers: Workers | None = None

    @cached_property
    def field(self) -> tuple[Array, Array]:
        """z (m, n) as the other places have it, by kriging: mean and variance."""
        return _from_others(self.z, self.places, self.kernel, np.arange(len(self.z)), self.workers)

    @property
    def chosen(self) -> Chosen:
        variograms = {} if self.climatology is None else self.climatology.variograms
        return Chosen(variograms, None if self.scales is None else self.scales.variogram, self.kernel)

    @property
    def scale(self) -> Array:
        """row_scale_i col_scale_t (m, n)."""
        return np.outer(self.normalisation.row_scale, self.normalisation.col_scale)

    def variances(self, rows: Array | None = None) -> tuple[Array, Array]:
        """Of level and season, and of the anomaly as kriging has it, in the unit of the data, of all places (m, n) or
        some (r, n)."""
        if rows is None:
            rows, variance = np.arange(len(self.z)), self.field[1]
        else:
            variance = _from_others(self.z, self.places, self.kernel, rows, self.workers)[1]
        level = np.zeros(variance.shape) if self.climatology is None else self.climatology.variance(rows)
        return level, self.scale[rows] ** 2 * (variance + self.kernel.nugget) * self.kernel.variance

    def from_others(self, values: Array) -> tuple[Array, Array, Array]:
        """Errors of all values predicted without their own place, and the two variances of each (c,)."""
        seen = ~np.isnan(values)
        known, (level, anomaly) = self.normalisation, self.variances()
        if self.climatology is not None:
            known = replace(known, coefficients=self.climatology.map_mean)
            level = self.climatology.map_variance @ (self.climatology.basis.values**2).T
        miss = known.undo(self.field[0]) - values
        return miss[seen], level[seen], anomaly[seen]

    def kriging_variance_at(self, places: Places, workers: Workers | None = None) -> Array:
        """Variance (o, n) of the anomaly at other places, noise included, in normalised units."""
        measured = np.flatnonzero(~np.isnan(self.z).all(axis=1))
        x, known = self.kernel.scaled(places), self.kernel.scaled(self.places[measured])
        variance = krige_nearest(self.z[measured], known, x, self.kernel, workers=workers)[1]
        return (variance + self.kernel.nugget) * self.kernel.variance

    def at(self, places: Places) -> tuple[Normalisation, Array]:
        """The normalisation of other places, and the variance (o, n) of their level and season."""
        n = self.z.shape[1]
        if self.climatology is None:
            plain = np.zeros((len(places), 0)), np.ones(len(places))
            return self.normalisation.with_rows(*plain), np.zeros((len(places), n))
        coefficients, variance = self.climatology.at(places)
        scale = np.full(len(places), self.normalisation.row_scale[0])
        if self.scales is not None:
            scale = np.exp(self.scales.at(places)[0][:, 0] / 2)
        spread = variance @ (self.climatology.basis.values**2).T
        return self.normalisation.with_rows(coefficients, scale), spread


def are_amounts(values: Array) -> bool:
    """Whether values, NaN missing, are amounts such as precipitation: skewed, and none of them negative."""
    known = values[~np.isnan(values)]
    third = np.mean((known - known.mean()) ** 3) / max(float(known.std()), 1e-300) ** 3
    return bool(known.min() >= 0 and third > SKEWED)


def inward(values: Array, name: str) -> Array:
    """Values as they are separated: their square roots for "roots"."""
    if name != "roots":
        return values
    if np.nanmin(values) < 0:
        raise InputError("The normalisation 'roots' takes square roots, and there are negative values; take another.")
    return np.sqrt(values)


def outward(y: Array, variance: Array, name: str) -> Array:
    """Expected values where y is predicted with this variance: E y^2 is more than the square of E y."""
    return np.maximum(y, 0.0) ** 2 + variance if name == "roots" else y


class Separator:
    """Separates values (m, n), NaN missing, by normalisations of any name.

    Level and season are the same for normalisations that differ in what they divide by only, and are found once.
    """

    def __init__(
        self,
        values: Array,
        time: npt.ArrayLike | None,
        places: Places,
        kernel: str,
        unit: float,
        workers: Workers | None = None,
    ) -> None:
        self.values, self.time, self.places, self.kernel, self.unit = values, time, places, kernel, unit
        self.workers = workers
        self._measured = np.flatnonzero(~np.isnan(values).all(axis=1))
        self._found: dict[tuple[bool, bool, bool], Climatology] = {}

    def separate(self, name: str, chosen: Chosen | None = None) -> Separation:
        """By the normalisation of this name, with what another separation has chosen, if it is given."""
        if name not in (*NAMES, *PARTS):
            raise InputError(
                f"Unknown normalisation {name!r}; there are auto, {', '.join(dict.fromkeys((*NAMES, *PARTS)))}."
            )
        values = inward(self.values, name)
        if name not in PARTS:
            plain = Normalisation.fit(values, name, self.time)
            z = plain.apply(values)
            field = self._choose_kernel(z) if chosen is None else chosen.kernel
            return Separation(name, self.places, plain, None, None, field, z, self.workers)
        season, trend, scaled = PARTS[name]
        key = name == "roots", season, trend
        if key not in self._found:
            self._found[key] = self._level_and_season(values, season, trend, chosen)
        climatology = self._found[key]
        known, scales = _normalised(values, climatology), None
        if scaled:
            variogram = None if chosen is None else chosen.scale
            known, scales = _with_scales(known, values, self.places, self._measured, climatology.basis, variogram)
        z = known.apply(values)
        field = self._choose_kernel(z) if chosen is None else chosen.kernel
        return Separation(name, self.places, known, climatology, scales, field, z, self.workers)

    def _level_and_season(self, values: Array, season: bool, trend: bool, chosen: Chosen | None) -> Climatology:
        """Those of all places; anomalies of neighbours are taken away first, from the second pass on."""
        basis = Basis.of(self.time, values.shape[1], season, trend)
        seen, rows = ~np.isnan(values), self._measured
        precision = seen / max(float(np.nanvar(values - _least_squares(values, basis))), 1e-300)
        anomalies = np.zeros(values.shape)
        variograms = None if chosen is None else chosen.variograms
        field: FieldKernel | None = None if chosen is None else chosen.kernel
        for _ in range(PASSES):
            climatology = fit_climatology(values - anomalies, precision, basis, self.places, variograms)
            # The second pass has little news of the variograms.
            variograms = climatology.variograms
            known = _normalised(values, climatology)
            z = known.apply(values)
            field = field or self._choose_kernel(z)
            mean, variance = _from_others(z, self.places, field, rows, self.workers)
            scale = np.outer(known.row_scale[rows], known.col_scale)
            anomalies[rows] = scale * mean
            precision[rows] = seen[rows] / np.maximum(scale**2 * field.variance * (variance + field.nugget), 1e-300)
        # Levels have no weather in them by now, so that variograms are found anew.
        variograms = None if chosen is None else chosen.variograms
        return fit_climatology(values - anomalies, precision, basis, self.places, variograms)

    def _choose_kernel(self, z: Array) -> FieldKernel:
        return choose_kernel(z, self.places, self.kernel, self.unit, self.workers)


def _from_others(
    z: Array, places: Places, field: FieldKernel, rows: Array, workers: Workers | None = None
) -> tuple[Array, Array]:
    """z (m, n) at some of the places as the others have it, kriged: mean and variance (r, n)."""
    measured = np.flatnonzero(~np.isnan(z).all(axis=1))
    own = np.full(len(z), -1)
    own[measured] = np.arange(measured.size)
    x = field.scaled(places)
    return krige_nearest(z[measured], x[measured], x[rows], field, own[rows], workers)


def _least_squares(values: Array, basis: Basis) -> Array:
    """The mean of the places' values at each time on the basis (n,): a first idea of the season."""
    seen = ~np.isnan(values)
    count = seen.sum(axis=0)
    mean = np.where(seen, values, 0.0).sum(axis=0) / np.maximum(count, 1)
    root = np.sqrt(count)[:, None]
    coefficients = np.linalg.lstsq(root * basis.values, root[:, 0] * mean, rcond=None)[0]
    return np.asarray(basis.values @ coefficients)


def _normalised(values: Array, climatology: Climatology) -> Normalisation:
    """Level and season taken away, and one deviation of all that is left."""
    m, n = values.shape
    plain = Normalisation(
        climatology.basis.values, climatology.coefficients, np.ones(m), np.zeros(n), np.ones(n), np.ones(m, bool)
    )
    deviation = float(np.sqrt(np.nanmean(plain.apply(values) ** 2)))
    largest = float(np.nanmax(np.abs(values)))
    return replace(plain, row_scale=np.full(m, deviation if deviation > 1e-12 * largest else 1.0))


def _with_scales(
    known: Normalisation, values: Array, places: Places, measured: Array, basis: Basis, variogram: Variogram | None
) -> tuple[Normalisation, DriftKriging]:
    """A deviation of each place and of each time of the year instead of one.

    The logarithm of a place's variance is estimated from its k months with a variance of 2 / k, and from the map, as
    the level is.
    """
    squares = known.apply(values) ** 2
    counts = (~np.isnan(squares)).sum(axis=1)[measured]
    col_scale = np.ones(values.shape[1])
    for _ in range(2):
        relative = np.nansum(squares[measured] / col_scale**2, axis=1) / counts
        floor = 1e-6 * max(float(np.mean(relative)), 1e-300)
        relative = np.maximum(relative, floor)
        by_time = (
            np.nanmean(squares[measured] / relative[:, None], axis=0) if measured.size else np.ones(len(col_scale))
        )
        for phase in np.unique(basis.phase):
            these = by_time[basis.phase == phase]
            these = these[~np.isnan(these)]
            col_scale[basis.phase == phase] = np.sqrt(max(float(these.mean()), 1e-3)) if these.size else 1.0
    y = np.log(relative)[:, None]
    noise = (2 * MONTHS_PER_DEGREE / counts)[:, None]
    fitted = DriftKriging.fit(places[measured], y, noise, variogram)
    logs = fitted.at(places)[0][:, 0]
    mean, variance = fitted.from_others() if len(fitted.places) == measured.size else fitted.at(places[measured])
    share = variance / (variance + noise)
    logs[measured] = (mean + share * (y - mean))[:, 0]
    unit = known.row_scale[0]
    fitted = replace(fitted, y=y + 2 * np.log(unit))
    return replace(known, row_scale=unit * np.exp(logs / 2), col_scale=col_scale), fitted
