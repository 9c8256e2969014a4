"""Matrix Market files beside SciPy's reader, and what SciPy's reader crashes on or reads wrongly."""

import gzip
import io

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from lorank import InputError, tables

BANNER = "%%MatrixMarket matrix coordinate real general\n% a comment\n"


def read(tmp_path, text):
    path = tmp_path / "a.mtx"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return tables.read(path)[0]


@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric"])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("field", ["real", "integer", "pattern"])
def test_the_same_as_scipy(tmp_path, symmetry, dense, field):
    if dense and field == "pattern":
        pytest.skip("there is no such file")
    rng = np.random.default_rng(0)
    whole = np.round(rng.normal(size=(6, 6)) * 10) + (0 if field != "real" else 0.25)
    if not dense:
        whole = np.where(rng.random(whole.shape) < 0.4, whole, 0)
    if symmetry != "general":
        whole = np.tril(whole, -1) + (np.tril(whole, -1).T if symmetry == "symmetric" else -np.tril(whole, -1).T)
    matrix = whole if dense else sp.coo_array(whole)
    if field == "pattern":
        matrix.data[:] = 1
        symmetry = "general" if symmetry == "skew-symmetric" else symmetry
        matrix = sp.coo_array(abs(matrix.toarray()))
    written = io.BytesIO()
    scipy.io.mmwrite(written, matrix, field=field, symmetry=symmetry, precision=17)
    written.seek(0)
    expected = scipy.io.mmread(written)
    expected = expected if dense else expected.toarray()
    found = read(tmp_path, written.getvalue())
    np.testing.assert_array_equal(found.to_sparse().toarray(), expected)
    (tmp_path / "a.mtx.gz").write_bytes(gzip.compress(written.getvalue()))
    assert tables.read(tmp_path / "a.mtx.gz")[0].nnz == found.nnz


def test_zeros_that_are_stored_are_observed(tmp_path):
    found = read(tmp_path, BANNER + "2 3 2\n1 1 0\n\n% between\n2 3 4e0\n")
    assert (found.nnz, found.shape, found.values.tolist()) == (2, (2, 3), [0, 4])


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("2 2 2\n1 1 1\n2 2 1.", None),
        ("2 2 2\n1 1 1234567890123456789012\n2 2 1", None),
        ("2 2 2\n1 1 1,5\n2 2 1", "Line 4 .* '1 1 1,5'"),
        ("2 2 2\n1 1 1\n2 2 1e", "Line 5"),
        ("2 2 2\n1 1 1\n2 2 0x12", "Line 5"),
        ("2 2 2\n1 1 1\n2 2", "Line 5"),
        ("2 2 2\n1 1 1\n2.0 2 1", "Line 5"),
        ("2 2 2\n1 1 1", "cut off: it says that it has 2 entries, and has 1"),
        ("2 2 1\n1 1 1\n2 2 1", "goes on at line 5"),
        ("2 2 2\n1 1 1\n3 2 1", "index 2 is outside"),
        ("2 2 2\n1 1 1\n0 2 1", "index -1 is outside"),
        ("2 2 2\n1 1 1\n1 1 2", "more than once"),
        ("2 2 2\n1 1 1\n2 2 inf", "infinity"),
        ("2 2 9\n1 1 1\n", "9 entries of 2 x 2"),
        ("2 2\n", "3 sizes are needed"),
        ("2 2 -2\n", "3 sizes are needed"),
        ("99999999999999 99999999999999 2\n1 1 1\n2 2 2\n", "GiB"),
        ("2 2 2\n1 1 1\n2 2 1\x00", "Line 5"),
        ("2 2 2\n1 1 1\n2 2 é", "damaged or not a Matrix Market"),
    ],
)
def test_what_is_damaged_is_named_and_nothing_crashes(tmp_path, body, complaint):
    if complaint is None:
        assert read(tmp_path, BANNER + body).nnz == 2
        return
    with pytest.raises((InputError, MemoryError), match=complaint):
        read(tmp_path, BANNER + body)


@pytest.mark.parametrize(
    "banner",
    ["", "%%MatrixMarket matrix coordinate complex general\n", "%%MatrixMarket matrix\n", "\x00\xff"],
)
def test_another_banner_is_refused(tmp_path, banner):
    with pytest.raises(InputError):
        read(tmp_path, banner + "1 1 1\n1 1 1\n")
