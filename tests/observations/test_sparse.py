"""Sparse matrices whose attributes were set after SciPy had looked at them."""

import numpy as np
import pytest
import scipy.sparse as sp

from lorank import InputError, Observations
from lorank.observations import observe
from lorank.side_information import Features, GraphLaplacian


def of(kind, **changes):
    """A symmetric matrix of 3 x 3 in this format, and what is set on it then."""
    matrix = kind(np.array([[1.0, 2.0, 0.0], [2.0, 0.0, 3.0], [0.0, 3.0, 4.0]]))
    for name, value in changes.items():
        setattr(matrix, name, value)
    return matrix


def lists(rows, data):
    matrix = of(sp.lil_array)
    for own, given in ((matrix.rows, rows), (matrix.data, data)):
        own[1] = given
    return matrix


def key(name, value=1.0):
    matrix = of(sp.dok_array)
    matrix._dict[name] = value
    return matrix


DAMAGED = {
    "rows beyond the matrix": lambda: of(sp.coo_array, row=np.array([0, 0, 1, 1, 2, 1 << 28])),
    "columns before it": lambda: of(sp.coo_array, col=np.array([0, 1, 0, 2, 1, -9])),
    "fewer values than positions": lambda: of(sp.coo_array, data=np.ones(2)),
    "an offset beyond any index": lambda: of(sp.dia_array, offsets=np.array([0, 1, 1 << 40])),
    "more offsets than diagonals": lambda: of(sp.dia_array, offsets=np.array([-1, 0, 1, 2])),
    "a diagonal twice": lambda: of(sp.dia_array, offsets=np.array([0, 1, 1])),
    "fewer values than columns in a list": lambda: lists([0, 2], [1.0]),
    "more values than columns in a list": lambda: lists([0], [1.0] * 1000),
    "a list beyond the matrix": lambda: lists([0, 99], [1.0, 1.0]),
    "a list of text": lambda: lists(["0"], [1.0]),
    "a key beyond the matrix": lambda: key((9, 9)),
    "half a key": lambda: key((0.5, 1)),
    "a key of text": lambda: key(("a", 1)),
    "fewer values than indices": lambda: of(sp.csr_array, data=np.ones(2)),
    "unsigned pointers that go back": lambda: of(sp.csc_array, indptr=np.array([0, 5, 3, 6], np.uint32)),
    "blocks without a size": lambda: of(sp.bsr_array, data=np.ones((6, 0, 0))),
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("taking", [observe, Features.of, GraphLaplacian])
def test_what_leads_outside_of_a_sparse_matrix_is_refused_in_every_format(damage, taking):
    """In SciPy each of these reads or writes memory that is not the matrix's, or raises an error of its own."""
    with pytest.raises(InputError, match="sparse matrix is damaged"):
        taking(damage())


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        (lambda: of(sp.dia_array, data=np.full((3, 3), "a")), "holds <U1"),
        (lambda: of(sp.csr_array, data=np.zeros(6, object)), "holds object"),
        (lambda: lists([0], ["a"]), "SciPy cannot read this sparse matrix"),
        (lambda: key((0, 1), "a"), "SciPy cannot read this sparse matrix"),
    ],
)
def test_what_scipy_cannot_read_is_one_sentence(odd, said):
    with pytest.raises(InputError, match=said):
        observe(odd())


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo", "dia", "lil", "dok"])
@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.longdouble, bool])
def test_good_ones_of_any_format_and_type_are_read(kind, dtype):
    matrix = of(sp.coo_array).astype(dtype).asformat(kind)
    found = Observations.from_sparse(matrix)
    np.testing.assert_array_equal(found.to_sparse().toarray(), matrix.toarray())
    assert Features.of(matrix).matrix.shape == (3, 3)
