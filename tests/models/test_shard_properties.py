"""What is written is what is read, for whatever ids, values and shards: folders of shards, checkpoints, blocks."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as of_arrays

import lorank
from lorank import MatrixCompletion, Observations
from lorank.distributed.parts import PartFile
from lorank.models import shards
from lorank.observations import Lines
from lorank.solvers.checkpoint import Checkpoint

QUICK = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
letters = st.characters(blacklist_categories=["Cs"], blacklist_characters="\0")
ids = st.one_of(
    st.lists(st.text(letters, min_size=1, max_size=6), min_size=2, max_size=9, unique=True),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=9, unique=True),
)


@st.composite
def observed(draw):
    rows, cols = draw(ids), draw(ids)
    finite = st.floats(-100, 100, width=32)
    cells = draw(of_arrays.arrays(np.float64, (len(rows), len(cols)), elements=finite))
    seen = draw(of_arrays.arrays(bool, cells.shape))
    seen[0] = seen[:, 0] = True
    cells[0, 0] = 1.0
    return Observations.from_dense(np.where(seen, cells, np.nan), rows, cols)


@QUICK
@given(observed(), st.integers(1, 5))
def test_shards(observations, size):
    fitted = MatrixCompletion(rank=1, lam=1.0, max_iter=2, tol=1.0, random_state=0).fit(observations)
    with tempfile.TemporaryDirectory() as folder:
        shards.write(fitted.model_, Path(folder) / "model", shard=size)
        model = lorank.load(Path(folder) / "model")
        rows, cols = (index.ravel() for index in np.indices(observations.shape))
        names = observations.row_ids.values[rows], observations.col_ids.values[cols]
        np.testing.assert_array_equal(model.predict(*names), fitted.predict(*names))
        again = model.loaded()
        for side in ("row_ids", "col_ids"):
            assert getattr(again, side).values.tolist() == getattr(observations, side).values.tolist()
        np.testing.assert_array_equal(again.observations.values, observations.values)
        np.testing.assert_array_equal(again.observations.cols, observations.cols)
        np.testing.assert_array_equal(again.observations.by_row.pointers, observations.by_row.pointers)


@QUICK
@given(observed())
def test_blocks(observations):
    with tempfile.TemporaryDirectory() as folder:
        part = PartFile.write(Path(folder) / "part", observations.by_row)
        read: Lines = part.read()
        for mine, theirs in zip(read.arrays, observations.by_row.arrays):
            np.testing.assert_array_equal(mine, theirs)
        del read


@dataclass(frozen=True)
class State:
    factor: np.ndarray
    objective: float
    rank: int


numbers = of_arrays.arrays(st.sampled_from([np.float32, np.float64]), of_arrays.array_shapes(max_dims=2, max_side=4))


@QUICK
@given(numbers, st.floats(allow_nan=False), st.integers(0, 9), st.dictionaries(st.text(), st.text()))
def test_checkpoints(factor, objective, rank, about):
    with tempfile.TemporaryDirectory() as folder:
        state = State(factor, objective, rank)
        Checkpoint(Path(folder) / "c", about).save(state, state, {"iteration": 3})
        found, best, progress = Checkpoint(Path(folder) / "c", about).load(state)
        assert best is found
        assert progress == {"iteration": 3}
        np.testing.assert_array_equal(found.factor, factor)
        assert (found.factor.dtype, found.objective, found.rank) == (factor.dtype, objective, rank)
