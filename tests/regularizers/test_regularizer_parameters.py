"""Bad parameters are refused in one sentence that names them; good ones make an immutable value."""

import dataclasses
import math

import pytest

from lorank import regularizers
from lorank.errors import InputError
from lorank.regularizers import (
    LSP,
    MCP,
    NNFN,
    CappedL1,
    FactoredGSR,
    FactoredNNFN,
    FactoredNuclear,
    Nuclear,
    SchattenP,
    TruncatedL12,
)

good = [
    Nuclear(lam=1.0),
    NNFN(lam=1.0, theta=0.5),
    TruncatedL12(lam=1.0, t=2),
    CappedL1(lam=1.0, theta=2.0),
    LSP(lam=1.0, theta=2.0),
    MCP(lam=1.0, theta=2.0),
    SchattenP(lam=1.0, p=0.5),
    FactoredNuclear(lam=1.0),
    FactoredNNFN(lam=1.0, theta=0.5),
    FactoredGSR(lam=1.0),
]
bad_values = {
    (NNFN, "theta"): [-0.1, 1.1, math.nan],
    (FactoredNNFN, "theta"): [-0.1, 1.1, math.nan],
    (CappedL1, "theta"): [0.0, -1.0, math.inf, math.nan],
    (LSP, "theta"): [0.0, -1.0, math.inf, math.nan],
    (MCP, "theta"): [0.0, -1.0, math.inf, math.nan],
    (SchattenP, "p"): [0.0, 1.0, -0.5, 2.0, math.nan],
    (TruncatedL12, "t"): [-1, 1.5, math.nan],
}
cases = [(type(r), "lam", v) for r in good for v in (-1.0, math.inf, -math.inf, math.nan)]
cases += [(kind, name, v) for (kind, name), values in bad_values.items() for v in values]


@pytest.mark.parametrize(("kind", "name", "value"), cases)
def test_a_bad_parameter_is_refused_by_name(kind, name, value):
    fine = next(r for r in good if type(r) is kind)
    with pytest.raises(InputError, match=rf"^{name} must be .*{value!r}\.$"):
        dataclasses.replace(fine, **{name: value})


@pytest.mark.parametrize("regularizer", good, ids=repr)
def test_parameters_are_keywords_and_cannot_change(regularizer):
    with pytest.raises(TypeError):
        type(regularizer)(1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        regularizer.lam = 2.0
    assert dataclasses.replace(regularizer, lam=0.0).lam == 0
    assert regularizer == type(regularizer)(**dataclasses.asdict(regularizer))


def test_the_package_exports_what_it_says():
    assert all(hasattr(regularizers, name) for name in regularizers.__all__)
