"""What several tests share."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from lorank.datasets import synthetic
from lorank.registry import CATALOGUE


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Real data, if it is on this machine: LORANK_DATA, or shared/data beside the repository."""
    folder = Path(os.environ.get("LORANK_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real data is not here: {folder} (set LORANK_DATA)")
    return folder


@pytest.fixture(scope="session")
def small_problem():
    """The paper's synthetic problem, 150 x 150, rank 3."""
    return synthetic(m=150, rank=3, seed=3)


@pytest.fixture
def table():
    """A 60 x 20 table of rank 3 with a third of its cells missing, and the whole one."""
    rng = np.random.default_rng(0)
    whole = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 20))
    return np.where(rng.random(whole.shape) < 0.3, np.nan, whole), whole


@pytest.fixture
def registry():
    """The registry as it was, after the test."""
    before = dict(CATALOGUE)
    yield CATALOGUE
    CATALOGUE.clear()
    CATALOGUE.update(before)


@pytest.fixture
def hangups_end():
    """SIGHUP ends child processes, as by default: under `nohup`, and on some CI machines, they would ignore it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
