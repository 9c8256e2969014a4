"""What is tried on all entries of a folder after a search on a sample of its rows."""

import numpy as np
import pytest

from lorank.distributed import fit, folder_steps
from lorank.distributed.owner import Owner
from lorank.distributed.path import from_sample
from lorank.estimators import MatrixCompletion
from lorank.estimators.parameters import Parameters
from lorank.observations import Observations
from lorank.tuning.search import Found, Search
from lorank.tuning.trial_log import Fitted
from lorank.tuning.trials import CANDIDATE, Trial, Trials


class Enough(Exception):
    """The first trial is all that a test wants to see."""


def test_what_a_sampler_found_is_nothing_to_begin_another_method_with():
    """Offsets alone were chosen, and of what has a rank the sampler, which has no lam, was a little better."""
    common = {"theta": 0.5, "biases": True}
    tried = [
        Trial({CANDIDATE: "NNFN", "lam": 9.0, "rank": 0, **common}, 1.0),
        Trial({CANDIDATE: "NNFN", "lam": 3.0, "rank": 4, **common}, 1.02),
        Trial({CANDIDATE: "NNFN, all rows", "lam": 3.0, "rank": 8, **common}, 1.01),
        Trial({CANDIDATE: "sampler", "lam": None, "rank": 20, "theta": None, "biases": True}, 0.9999),
    ]
    asked = Parameters(**MatrixCompletion(method="nnfn").get_params(deep=False))
    strategy = from_sample(
        asked, Found(Fitted(tried[0]), Trials(tried), 1.0), 2.0, Observations.from_dense(np.eye(99)), 4
    )
    seen = []

    def judge(candidate):
        seen.append(dict(candidate.parameters))
        raise Enough

    search = Search(judge)
    with pytest.raises(Enough):
        search.run(lambda: strategy(search))
    (first,) = seen
    assert (first[CANDIDATE], first["rank"], first["lam"]) == ("NNFN, all rows", 8, 16 * 2 * 3.0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_offsets_of_all_entries_begin_near_those_of_the_sample(tmp_path, monkeypatch):
    """Where rows differ by nothing but noise their variances take many rounds of two passes, which are made once."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    rows, cols = np.divmod(rng.choice(6000 * 500, 24_000, replace=False), 500)
    pq.write_table(pa.table({"u": rows, "i": cols, "v": rng.normal(size=rows.size)}), tmp_path / "0.parquet")
    monkeypatch.setattr(folder_steps, "SAMPLE", 12_000)
    whole = Owner.offsets
    passes = []
    monkeypatch.setattr(Owner, "offsets", lambda *args: passes.append(args[1]) or whole(*args))
    names = {"row": "u", "col": "i", "value": "v"}
    model = fit(tmp_path, **names, method="nnfn", max_iter=3, backend="out-of-core")
    assert model.setting.rank == 0
    assert len(passes) < 60  # 264 where all begin at the same variances
