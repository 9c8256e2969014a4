"""The steps of a fit of a folder, from its blocks to the model.

1. `_begin`: whatever is "auto" is searched on a sample of the rows, in memory.
2. `_choose`: all entries but those that are held out are fitted, and lam and the rank tuned on them.
3. `_refit`: entries that were held out only to choose by go back among the others, and all of them are fitted.

Each step has its own files in a checkpoint, so that a fit that was cut off goes on in the step that it was in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from lorank import registry
from lorank.distributed.actors import RayEngine
from lorank.distributed.calibrating import Scales, calibrate
from lorank.distributed.cluster import KEPT
from lorank.distributed.directions import directions_bytes, room_for
from lorank.distributed.engines import Engine, check_values
from lorank.distributed.exporting import placed
from lorank.distributed.feature_tables import SideFeatures
from lorank.distributed.featured import FolderData
from lorank.distributed.folder_backend import FolderBackend
from lorank.distributed.parts import COLS, HELD_OUT, ROWS
from lorank.distributed.path import (
    SAMPLE,
    FolderMethod,
    Strategy,
    downward,
    files_of,
    fit_path,
    from_sample,
    sample_file,
    search_in_actor,
    search_sample,
)
from lorank.distributed.prepare import Prepared
from lorank.distributed.problem import Elsewhere, FolderProblem
from lorank.distributed.row_sample import row_sample
from lorank.distributed.sampling import ShardBPMF
from lorank.distributed.travel import sweep_seconds
from lorank.estimators.choosing import ALL_ROWS
from lorank.estimators.parameters import Parameters
from lorank.linalg import Factors
from lorank.linalg.factors import padded_width
from lorank.models import Model
from lorank.problems.offsets import Offsets
from lorank.solvers import Alternating, Callback, Checkpoint, Result, Solver, Status, Stopping, solve
from lorank.solvers.checkpoint import remove_checkpoint
from lorank.tuning.held_out import setting_of
from lorank.tuning.search import Found
from lorank.tuning.setting import AUTO, Setting
from lorank.tuning.trial_log import OnTrial
from lorank.tuning.trials import CANDIDATE, Trials

# After these a fit can go on; without held-out entries only a callback stops one early.
CUT_OFF = (Status.INTERRUPTED, Status.TIME_LIMIT, Status.EARLY_STOPPED)


@dataclass(frozen=True)
class _Begin:
    """What a fit of all entries begins with, and the trials on a sample that say so.

    setting : what is fitted; None where lam and the rank are still to be tuned, as the strategy says.
    near : what offsets vary by in the sample, if one was searched.
    """

    asked: Parameters
    rank: int
    strategy: Strategy
    setting: Setting | None
    trials: Trials
    near: Offsets | None = None

    @property
    def method(self) -> registry.Method:
        return registry.find(self.asked.method)

    @property
    def solver(self) -> Solver:
        return ShardBPMF() if self.method.samples else Alternating()

    def stopping(self, spent: float) -> Stopping:
        """When to end, after so many seconds."""
        return Stopping(self.asked.tol, self.asked.max_iter, self.asked.within(spent).max_seconds)


@dataclass(frozen=True)
class _Chosen:
    """What was chosen: a setting, factors to go on from, and what intervals are made of, where there are any."""

    setting: Setting
    trials: Trials
    factors: Factors | None = None
    scales: Scales | None = None

    def set_aside(self, folder: Path) -> dict[str, Any]:
        """Have its shards written to a folder; what `taken_up` finds them by."""
        shards: dict[str, Any] = {} if self.scales is None else dict(self.scales.sides)
        if self.factors is not None:
            shards |= {"left": self.factors.left, "right": self.factors.right}
        return {name: one.save_shards(folder) for name, one in shards.items()}

    def taken_up(self, engine: Engine, folder: Path, saved: Mapping[str, Any]) -> _Chosen:
        """The same with its shards at another engine of the same parts."""
        there: dict[str, Any] = {name: engine.load_shards(folder, one) for name, one in saved.items()}
        factors, scales = self.factors, self.scales
        if factors is not None:
            factors = replace(factors, left=there["left"], right=there["right"])
        if scales is not None:
            scales = replace(scales, sides={side: there[side] for side in scales.sides})
        return replace(self, factors=factors, scales=scales)


@dataclass(frozen=True, kw_only=True)
class FolderFit:
    """A fit of entries that are in blocks.

    Parameters
    ----------
    asked : method, rank, theta, biases, limits
    weights : lam where it is given, the largest first
    searched : whether anything is searched on a sample
    held_out : part of the entries that is held out
    refits : whether it is fitted with the others in the end
    entries : lines of the files
    backend : where all of it happens
    checkpoint, about : path, and what a checkpoint must be of
    params, columns : what the model says that it was fitted with, and names of the columns
    tables, lost : features of rows and of columns, and what the model says of those, which it does not hold
    """

    asked: Parameters
    weights: Sequence[float]
    searched: bool
    held_out: float
    refits: bool
    entries: int
    seed: int
    backend: FolderBackend
    checkpoint: str | Path | None
    about: Mapping[str, Any]
    output: str | Path | None
    params: Mapping[str, Any]
    columns: tuple[str, str, str]
    callbacks: Sequence[Callback] = ()
    report: Callable[[str], Any] | None = None
    on_trial: OnTrial | None = None
    tables: tuple[SideFeatures | None, SideFeatures | None] = (None, None)
    lost: Mapping[str, str] = field(default_factory=dict)

    def run(self, prepared: Prepared) -> Model:
        """The model, saved if it is to be."""
        aside = self.backend.folder / "aside"
        with self.backend.engine(prepared) as engine:
            data, saved = self._data(prepared, engine), self._checkpoint(engine)
            check_values(engine, np.dtype(self.backend.dtype))
            begin = self._begin(data, saved)
            data = data.near(begin.near)
            if self.refits and begin.setting is not None and begin.method.samples:
                # It was chosen on the sample, and chooses nothing on all entries.
                chosen = _Chosen(begin.setting, begin.trials)
            else:
                self._plan(engine, begin.rank)
                chosen, found = self._choose(data, begin, saved)
                if not self.refits or found.interrupted or found.result.status is Status.DIVERGED:
                    return self._model(prepared, data, begin, chosen, found.result)
            kept, near = chosen.set_aside(aside), begin.near and data.plain.offset_variances
        prepared = prepared.with_held_out(self.backend.run)
        with self.backend.engine(prepared) as engine:
            data, chosen = self._data(prepared, engine).near(near), chosen.taken_up(engine, aside, kept)
            self._plan(engine, max(chosen.setting.rank, 1))
            chosen, result = self._refit(data, begin, chosen, self._checkpoint(engine, step="all entries"))
            return self._model(prepared, data, begin, chosen, result)

    def _data(self, prepared: Prepared, engine: Engine) -> FolderData:
        """The entries in an engine, and what is known of their lines."""
        nothing: Any = Elsewhere(prepared.shape, np.dtype(self.backend.dtype), sum(engine.entries[ROWS]))
        return FolderData(FolderProblem(nothing, None, 1, engine=engine), self.tables)

    def _checkpoint(self, engine: Engine, **more: Any) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        return Checkpoint(Path(self.checkpoint), {**self.about, **more}, seconds=5.0, load_shards=engine.load_shards)

    def _begin(self, data: FolderData, saved: Checkpoint | None) -> _Begin:
        """What is given, or was found on a sample."""
        plain, known = data.plain, sum(table.bytes for table in self.tables if table is not None)
        shape: tuple[int, int] = plain.observations.shape
        asked, trials, named = self.asked, Trials([]), {}
        if asked.features == AUTO and not room_for(shape):
            asked = replace(asked, features=None)
        if self.searched:
            sample, *at = row_sample(plain.engine, shape, plain.total, SAMPLE, self.seed)
            rows, cols = (table and table.at(own) for table, own in zip(self.tables, at))
            asked = replace(asked, row_side=rows, col_side=cols)
            own = None if saved is None else replace(saved, path=sample_file(saved.path), load_shards=None)
            search = search_in_actor if self.backend.on_ray else search_sample
            asked, found, noise, near = search(asked, sample, self.seed, own, self.on_trial)
            asked = replace(asked, row_side=None, col_side=None)  # what the sample's lines have
            trials, rank = found.trials, max(found.parameters["rank"], 1)
            tuned = not registry.find(asked.method).samples
            self.backend.check_factors(shape, self.entries, rank, known, kept=KEPT if tuned else 0)
            if tuned:
                some = sample.nnz < plain.total
                most = self.backend.largest_rank(shape, self.entries, rank, KEPT) if some else None
                strategy = from_sample(asked, found, plain.noise_norm / noise, plain.observations, most)
                return _Begin(asked, rank, strategy, None, trials, near)
            setting = setting_of(found.parameters)
            named = {CANDIDATE: f"{found.parameters[CANDIDATE]}{ALL_ROWS}"}
        else:
            setting = asked.setting
        method = registry.find(asked.method)
        drawn = ShardBPMF().kept_bytes(shape, setting.rank, setting.biases) if method.samples else 0
        drawn += known + (directions_bytes(shape) if asked.features else 0)
        self.backend.check_factors(shape, self.entries, setting.rank, drawn)
        weights = self.weights if self.weights and method.tunes else [None]
        return _Begin(asked, setting.rank, downward(weights, setting, named), setting, trials)

    def _plan(self, engine: Engine, rank: int) -> None:
        """Decide what travels between workers, and report it."""
        if isinstance(engine, RayEngine):
            itemsize = np.dtype(self.backend.dtype).itemsize
            plan = engine.prepare(padded_width(rank) * itemsize)
            if self.report is not None:
                m, n = (engine.spans(side)[-1][1] for side in (ROWS, COLS))
                seconds = sweep_seconds(self.entries, (m, n), rank, itemsize)
                self.report(plan.describe(seconds, self.backend.workers * self.backend.threads))

    def _choose(self, data: FolderData, begin: _Begin, saved: Checkpoint | None) -> tuple[_Chosen, Found]:
        """Fit all but the held-out entries, once or with each of several settings, and keep the best."""
        fitting = self._fitting(data, begin)
        found = fit_path(
            begin.solver,
            fitting.problem,
            begin.strategy,
            begin.stopping(begin.trials.seconds),
            HELD_OUT if self.held_out else None,
            self.callbacks,
            saved,
            self.seed,
            last=not self.refits,
        )
        trials, result = begin.trials, found.result
        if self.held_out and (self.searched or len(self.weights) > 1):
            trials = Trials([*(replace(trial, chosen=False) for trial in trials), *found.trials])
        measured = bool(self.held_out) and _whole(result) and result.posterior is None
        scales = calibrate(data.plain, result.factors, self.seed) if measured else None
        return _Chosen(fitting.complete(setting_of(found.parameters)), trials, result.factors, scales), found

    def _refit(
        self, data: FolderData, begin: _Begin, chosen: _Chosen, saved: Checkpoint | None
    ) -> tuple[_Chosen, Result]:
        """Fit all entries with what was chosen, from where it stands."""
        fitting = self._fitting(data, begin)
        problem = fitting.problem(chosen.setting)
        result = solve(
            begin.solver,
            problem,
            start=problem.offsets_alone() if chosen.setting.rank == 0 else chosen.factors,
            stopping=begin.stopping(chosen.trials.seconds),
            callbacks=self.callbacks,
            checkpoint=saved,
            seed=self.seed,
        )
        if self.checkpoint is not None and result.status not in CUT_OFF:
            for path in files_of(self.checkpoint):
                remove_checkpoint(path)
        return replace(chosen, setting=fitting.complete(chosen.setting)), result

    def _fitting(self, data: FolderData, begin: _Begin) -> FolderMethod:
        return FolderMethod(begin.method, data.plain, self.searched, data.known(begin.asked.features))

    def _model(self, prepared: Prepared, data: FolderData, begin: _Begin, chosen: _Chosen, result: Result) -> Model:
        """The model of a fit, in its place."""
        lam, plain = {"lam": chosen.setting.lam} if self.weights else {}, data.plain
        if any(self.tables) or begin.asked.features:
            result = replace(result, features=data.maps(self._fitting(data, begin).problem(chosen.setting), result))
        model = Model(
            result=result,
            setting=chosen.setting,
            params={**self.params, "method": begin.method, "features": begin.asked.features, **lam},
            entries=sum(part.entries for part in prepared.sides[ROWS]),
            mean=plain.mean,
            columns=self.columns,
            sigma=plain.singular_values(result.summary),
            trials=tuple(chosen.trials.rows()),
            lost=self.lost,
        )
        output = self.output if _whole(result) else None
        return placed(plain.engine, model, prepared, chosen.scales, self.backend.folder, output)


def _whole(result: Result) -> bool:
    """Whether a fit came to an end that its model can be saved of."""
    return result.status not in (Status.INTERRUPTED, Status.DIVERGED)
