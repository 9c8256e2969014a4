"""NetCDF files that the HDF5 library crashes on, never comes back from or takes all memory for; good ones beside."""

import os
import struct
import sys

import numpy as np
import psutil
import pytest

from lorank import InputError, memory, tables
from lorank.errors import MemoryLimitError
from lorank.spatial import arrays
from lorank.tables import netcdf

h5netcdf = pytest.importorskip("h5netcdf")
h5py = pytest.importorskip("h5py")
pytest.importorskip("xarray")


def write(path, **more):
    """A variable of 3 x 2, and another one that is as `more` says."""
    with h5netcdf.File(path, "w") as file:
        file.dimensions = {"station": 3, "time": 2, "a": 3000, "b": 3000}
        file.create_variable("good", ("station", "time"), "f8", data=np.arange(6.0).reshape(3, 2))
        file.create_variable("odd", **more)
    return path


def test_a_module_in_the_working_folder_is_not_run(tmp_path, monkeypatch):
    path = write(tmp_path / "a.nc", dimensions=("time",), dtype="f8")
    (tmp_path / "xarray.py").write_text("open('run', 'w').close()")
    monkeypatch.chdir(tmp_path)
    assert tables.read(path)[0].nnz == 6
    assert sorted(os.listdir()) == ["a.nc", "xarray.py"]


def test_a_damaged_variable_beside_a_good_one(tmp_path):
    path = write(
        tmp_path / "a.nc", dimensions=("station", "time"), dtype="f8", data=np.full((3, 2), 7.5), fletcher32=True
    )
    content = path.read_bytes()
    path.write_bytes(content.replace(struct.pack("<d", 7.5), struct.pack("<d", 7.25)))
    assert tables.read(path, value="good")[0].nnz == 6
    with pytest.raises(InputError, match=r"a.nc is damaged: 'odd' cannot be read"):
        tables.read(path, value="odd")
    with pytest.raises(InputError, match=r"a.nc is damaged: 'odd' cannot be read"):
        arrays.open_file(path)


def test_many_small_chunks_are_held_against_the_memory_that_is_free(tmp_path, monkeypatch):
    """HDF5 takes 50 GB to read this file of some kilobytes."""
    path = write(tmp_path / "a.nc", dimensions=("a", "b"), dtype="f4", chunks=(1, 1), fillvalue=np.nan)
    assert path.stat().st_size < 20_000
    monkeypatch.setattr(memory, "_left_in_groups", lambda: iter([8 << 30]))
    assert tables.read(path, value="good")[0].nnz == 6
    with pytest.raises(MemoryLimitError, match="would take"):
        tables.read(path, value="odd")
    with pytest.raises(MemoryLimitError, match="would take"):
        arrays.open_file(path)


def test_a_list_that_has_no_end_does_not_take_all_memory(tmp_path):
    """The free list of a heap whose first block names itself as the next."""
    path = tmp_path / "a.nc"
    with h5py.File(path, "w", libver="earliest") as file:
        file.create_dataset("t", data=np.eye(3))
    content = bytearray(path.read_bytes())
    free, segment = struct.unpack_from("<QQ", content, content.index(b"HEAP") + 16)
    struct.pack_into("<Q", content, segment + free, free)
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a.nc is damaged"):
        tables.read(path)


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
def test_a_file_that_hangs_is_given_up(tmp_path, monkeypatch):
    """Its values are in another file, which is a pipe that nobody writes to."""
    path = write(tmp_path / "a.nc", dimensions=("time",), dtype="f8")
    os.mkfifo(tmp_path / "pipe")
    with h5py.File(path, "a") as file:
        del file["odd"]
        odd = file.create_dataset("odd", (2,), "f8", external=[(str(tmp_path / "pipe"), 0, 16)])
        odd.dims[0].attach_scale(file["time"])
    before = set(psutil.Process().children(recursive=True))
    monkeypatch.setattr(netcdf, "PATIENCE", 1.5)
    with pytest.raises(InputError, match=r"a.nc is damaged: it cannot be read as NetCDF within 2 seconds"):
        tables.read(path)
    assert set(psutil.Process().children(recursive=True)) <= before
