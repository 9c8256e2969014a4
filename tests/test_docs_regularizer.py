"""The page "Add your own regularizer" runs, is short, and what it adds is right."""

import re
from pathlib import Path

import numpy as np
import pytest

from lorank.registry import find

PAGE = Path(__file__).parents[1] / "docs" / "how_to" / "add_a_regularizer.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture(params=["ElasticNet", "FactoredLSP"])
def example(request, capsys):
    block = next(block for block in BLOCKS if f"class {request.param}" in block)
    names = {}
    exec(compile(block, str(PAGE), "exec"), names)
    return request.param, block, names, capsys.readouterr().out


def test_it_runs_and_finds_the_matrix(example):
    name, block, _, printed = example
    assert printed.startswith("Converged")
    assert float(printed.split()[-1]) < (0.3 if name == "ElasticNet" else 0.05)
    own = block[block.index("@dataclass") : block.index("data = ")]
    assert len([line for line in own.splitlines() if line.strip()]) < 25


def test_what_is_added_is_right(example):
    name, _, names, _ = example
    if name == "ElasticNet":
        regularizer = names["ElasticNet"](lam=0.7, ridge=0.5)
        grid = np.linspace(0, 6, 60001)
        for z in (0.3, 1.0, 5.0):
            for step in (0.5, 1.0, 3.0):
                cost = 0.5 * (grid - z) ** 2 + step * regularizer.penalty(grid)
                assert regularizer.prox(np.array([z]), step)[0] == pytest.approx(grid[cost.argmin()], abs=2e-4)
        return
    regularizer = names["FactoredLSP"](lam=0.7, theta=2.0)
    rng = np.random.default_rng(0)
    W, H = rng.standard_normal((6, 3)), rng.standard_normal((5, 3))
    slope = W @ regularizer.multipliers(W.T @ W, H.T @ H)[0]
    for index in np.ndindex(W.shape):
        shift = np.zeros_like(W)
        shift[index] = 1e-6
        ends = [regularizer.value((W + way * shift).T @ (W + way * shift), H.T @ H) for way in (1, -1)]
        assert slope[index] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-6)
    U, V = np.linalg.qr(W)[0], np.linalg.qr(H)[0]
    sigma = np.array([3.0, 2.0, 0.5])
    root = np.sqrt(sigma)
    value = regularizer.value((U * root).T @ (U * root), (V * root).T @ (V * root))
    assert value == pytest.approx(regularizer.spectral().value(sigma))


def test_the_whole_page_runs_in_order(registry, capsys):
    names = {}
    for block in BLOCKS:
        exec(compile(block, str(PAGE), "exec"), names)
    out = capsys.readouterr().out
    net, error = names["ElasticNet"], names["data"].nmse
    assert error(*names["model"].factors_) < 0.1
    assert error(*names["tuned"].factors_) < 0.1
    assert error(*names["chosen"].factors_) < 0.1
    assert names["named"].method == "elastic-net"
    assert find("elastic-net").regularizer is net
    assert find("elastic-net").build_regularizer(2.0) == net(lam=2.0, ridge=0.1)
    assert set(names["chosen"].tuning_.columns()["ridge"]) == {1e-3, 1e-2}
    for row in ("ElasticNet(ridge=0.001) ", "ElasticNet  ", "factored-lsp"):
        assert row in out
    assert find("factored-lsp").at(3.0, 10.0) == {"lam": pytest.approx(90.0), "theta": 30.0}
    assert find("factored-lsp").build_regularizer(4.0).theta == 20.0
