"""Files are written whole or not at all, and read whatever compresses them."""

import bz2
import gc
import gzip
import hashlib
import lzma
import os
import stat
import sys
import zipfile
import zlib

import numpy as np
import pytest

from lorank.errors import InputError
from lorank.files import (
    cache_folder,
    crc32,
    kind_of,
    open_input,
    replacing,
    replacing_folder,
    sha256,
    write_bytes,
    write_npz,
)
from lorank.files import writing as files


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_arrays_on_a_full_disk_are_one_error_and_leave_nothing(tmp_path, monkeypatch):
    """NumPy 1.26 leaves its archive open then, and that complains when it goes."""
    import resource

    unraised = []
    monkeypatch.setattr(sys, "unraisablehook", unraised.append)
    arrays = {"a": np.arange(100_000), "b": np.array(["x", "y"])}
    write_npz(tmp_path / "a.npz", arrays)
    with np.load(tmp_path / "a.npz") as back:
        assert {name: back[name].tolist() for name in back} == {name: part.tolist() for name, part in arrays.items()}
    before = (tmp_path / "a.npz").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for room in (0, 10, 5000, 800_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
        try:
            with pytest.raises(InputError, match=r"cannot be written .* as it was"):
                write_npz(tmp_path / "a.npz", arrays)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    gc.collect()
    assert not unraised
    assert names(tmp_path) == ["a.npz"]
    assert (tmp_path / "a.npz").read_bytes() == before


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_when_the_block_ends(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with replacing(target) as beside:
        beside.write_text("new")
        assert target.read_text() == "old"
        assert beside.parent == tmp_path
    assert target.read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_in_the_block_keeps_the_old_file(tmp_path, error):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(error), replacing(target) as beside:  # noqa: PT012
        beside.write_text("half")
        raise error
    assert target.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_full_disk_is_one_sentence_with_its_cause(tmp_path):
    target = tmp_path / "a.txt"
    message = r"a\.txt cannot be written \(No space left on device\)"
    with pytest.raises(InputError, match=message) as caught, replacing(target):
        raise OSError(28, "No space left on device")
    assert isinstance(caught.value.__cause__, OSError)
    assert names(tmp_path) == []
    with pytest.raises(InputError, match="No such file"), replacing(tmp_path / "nowhere" / "a.txt"):
        pass


def test_two_writers_do_not_share_a_name(tmp_path):
    with replacing(tmp_path / "a") as one, replacing(tmp_path / "a") as other:
        assert one != other
        one.write_text("1")
        other.write_text("2")
    assert (tmp_path / "a").read_text() == "1"  # the outer one ends last
    assert names(tmp_path) == ["a"]


def test_a_link_that_lies_in_wait_is_not_written_through(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    monkeypatch.setattr(files.secrets, "token_hex", lambda size: "foreseen")
    (tmp_path / ".a.foreseen.part").symlink_to(victim)
    with pytest.raises(InputError, match="File exists"), replacing(tmp_path / "a") as beside:
        beside.write_text("overwritten")
    assert victim.read_text() == "mine"


def test_of_a_link_the_file_behind_it_is_replaced(tmp_path):
    store = tmp_path / "store"
    store.mkdir()
    (store / "real").write_text("old")
    (tmp_path / "link").symlink_to(store / "real")
    with replacing(tmp_path / "link") as beside:
        assert beside.parent == store, "beside the file itself, so that renaming stays on one disk"
        beside.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (store / "real").read_text() == "new"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o444])
def test_permissions_of_the_old_file_are_kept(tmp_path, mode):
    target = tmp_path / "a"
    target.write_text("old")
    target.chmod(mode)
    with replacing(target) as beside:
        assert stat.S_IMODE(beside.stat().st_mode) & 0o077 & ~mode == 0, "nobody may read meanwhile who may not later"
        beside.write_text("new")
    assert stat.S_IMODE(target.stat().st_mode) == mode


def test_a_new_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "plain").write_text("")
    with replacing(tmp_path / "a") as beside:
        beside.write_text("new")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_content_is_on_disk_before_it_is_renamed(tmp_path, monkeypatch):
    steps = []
    monkeypatch.setattr(files.os, "fsync", lambda number: steps.append("fsync"))
    rename = os.replace
    monkeypatch.setattr(files.os, "replace", lambda *paths: (steps.append("replace"), rename(*paths)))
    write_bytes(tmp_path / "a", b"1")
    assert steps == ["fsync", "replace"]
    with replacing(tmp_path / "b", sync=False) as beside:
        beside.write_text("2")
    assert steps == ["fsync", "replace", "replace"]


def test_a_file_that_nobody_needs_becomes_the_new_one(tmp_path):
    spare = tmp_path / "spare"
    spare.write_text("long and old")
    number = spare.stat().st_ino
    with replacing(tmp_path / "a", over=spare) as beside, open(beside, "r+") as file:
        assert not spare.exists()
        file.write("new")
        file.truncate()
    assert (tmp_path / "a").stat().st_ino == number
    assert (tmp_path / "a").read_text() == "new"
    with replacing(tmp_path / "b", over=spare) as beside:  # it is gone: as without one
        beside.write_text("new")
    assert names(tmp_path) == ["a", "b"]


def test_a_folder_is_replaced_whole(tmp_path):
    target = tmp_path / "model"
    for content in ("old", "new"):
        with replacing_folder(target, lambda folder: None) as beside:
            (beside / content).write_text(content)
    assert names(target) == ["new"]
    assert names(tmp_path) == ["model"]
    with pytest.raises(RuntimeError), replacing_folder(target, lambda folder: None) as beside:  # noqa: PT012
        (beside / "half").write_text("")
        raise RuntimeError
    assert names(target) == ["new"]
    assert names(tmp_path) == ["model"]


def test_a_folder_that_cannot_be_replaced_comes_back(tmp_path, monkeypatch):
    target = tmp_path / "model"
    target.mkdir()
    (target / "old").write_text("")
    rename = os.replace

    def refuse(source, to):
        if str(source).endswith(".part") and to == target and not (source / "old").exists():
            raise OSError(5, "Input/output error")
        rename(source, to)

    monkeypatch.setattr(files.os, "replace", refuse)
    with pytest.raises(InputError, match="Input/output error"), replacing_folder(target, lambda folder: None) as beside:
        (beside / "new").write_text("")
    assert names(target) == ["old"]
    assert names(tmp_path) == ["model"]


@pytest.mark.parametrize(
    ("suffix", "unpack"), [("", bytes), (".gz", gzip.decompress), (".xz", lzma.decompress), (".bz2", bz2.decompress)]
)
def test_what_is_compressed_is_opened(tmp_path, suffix, unpack):
    path = tmp_path / f"a.csv{suffix}"
    write_bytes(path, b"1,2\n")
    assert unpack(path.read_bytes()) == b"1,2\n"
    read = []
    with open_input(path, read.append) as file:
        assert file.read() == b"1,2\n"
    assert sum(read) == path.stat().st_size
    assert kind_of(path) == ".csv"


def test_a_member_of_a_zip(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("inner/u.data", "1\t2\n")
        archive.writestr("README", "no data")
    with open_input(path, member="u.data") as file:
        assert file.read() == b"1\t2\n"
    with pytest.raises(InputError, match="no file called other"), open_input(path, member="other"):
        pass
    with pytest.raises(InputError, match="holds 2 files"), open_input(path):
        pass


def test_checksums():
    array = np.arange(5.0)
    assert crc32(b"ab", array) == zlib.crc32(b"ab" + array.tobytes())
    assert sha256(b"ab", array) == hashlib.sha256(b"ab" + array.tobytes()).hexdigest()


def test_the_cache_is_the_users(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "lorank"
