"""The memory that is foretold is the memory that is taken."""

import tracemalloc
import warnings

import numpy as np
import pytest

from lorank import MatrixCompletion, Observations, memory
from lorank.errors import MemoryLimitError
from lorank.estimators.memory import fit_memory
from lorank.estimators.parameters import Parameters

AUTO = {"method": "nnfn", "features": None, **dict.fromkeys(("lam", "rank", "theta", "biases"), "auto")}


def entries(m, n, count, dtype):
    cells = np.unique(np.random.default_rng(0).integers(0, m * n, count))
    values = np.random.default_rng(1).standard_normal(cells.size)
    return Observations.from_coo(cells // n, cells % n, values, (m, n)).astype(dtype)


# Factors that outweigh the entries, and the other way round.
WIDE, DENSE = (20_000, 8_000, 60_000, 16), (1000, 800, 400_000, 4)


@pytest.mark.parametrize(
    ("params", "validation", "sizes"),
    [
        ({"method": "nnfn"}, None, (WIDE, DENSE)),
        ({"method": "nnfn", "biases": True, "dtype": "float32"}, None, (WIDE, DENSE)),
        ({"method": "nnfn"}, 0.1, (WIDE, DENSE)),
        ({"method": "nnfn", "n_fits": 3}, None, (WIDE,)),
        ({"method": "nnfn", **AUTO}, None, (DENSE,)),  # what factors take depends on the rank that is found
        ({"method": "nnfn-prox"}, None, (WIDE, DENSE)),
        ({"method": "lsp", "dtype": "float32"}, None, (WIDE, DENSE)),
        ({"method": "nuclear"}, None, (WIDE, DENSE)),
        ({"method": "fgsr"}, None, (WIDE, DENSE)),
        ({"method": "truncated-l12"}, None, (DENSE,)),
        ({"method": "bpmf"}, None, (WIDE, DENSE)),
    ],
)
def test_within_a_factor_of_one_and_a_half(params, validation, sizes):
    for size in sizes:
        ratio = foretold_over_taken(params, validation, *size)
        assert 1 / 1.5 < ratio < 1.5, (params, size)


def asked(model):
    return Parameters(**model.get_params(deep=False)).for_shape((10_000, 10_000))


def foretold_over_taken(params, validation, m, n, count, rank):
    X = entries(m, n, count, params.get("dtype", "float64"))
    model = MatrixCompletion(**{"lam": 1.0, "rank": rank, **params}, max_iter=6, tol=0, random_state=0)
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, validation=validation)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    foretold = fit_memory(asked(model), X.shape, X.nnz, validation is not None or model.lam == "auto")
    return foretold / taken


def test_refused_before_it_begins(monkeypatch):
    X = entries(1000, 800, 10_000, "float64")
    needed = fit_memory(asked(MatrixCompletion(rank=100, lam=10.0)), X.shape, X.nnz)
    monkeypatch.setattr(memory, "free_memory", lambda: needed - 1)
    with pytest.raises(MemoryLimitError, match=r"matrix at rank 100 by 'nnfn' would take .* lower the rank"):
        MatrixCompletion(rank=100, lam=10.0).fit(X)
    MatrixCompletion(rank=20, lam=1.0).fit(X)
