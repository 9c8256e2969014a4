"""Free memory is the least that the machine, a container or a batch job leaves."""

from types import SimpleNamespace

import psutil
import pytest

from lorank import memory
from lorank.errors import MemoryLimitError

MIB = 2**20


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A made-up machine with 1000 MiB to spare: files by name, and the groups of this process."""

    def system(own, files, available=1000):
        (tmp_path / "own").write_text(own)
        for name, text in files.items():
            path = tmp_path / "groups" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
        machine = SimpleNamespace(available=available * MIB)
        monkeypatch.setattr(memory.psutil, "virtual_memory", lambda: machine)
        monkeypatch.setattr(memory, "OWN_GROUPS", tmp_path / "own")
        monkeypatch.setattr(memory, "GROUPS", tmp_path / "groups")
        return memory.free_memory() / MIB

    return system


def test_without_limits(system):
    assert system("0::/\n", {}) == 1000
    unlimited = {"memory.max": "max", "memory.current": 5, "memory.stat": "anon 1"}
    assert system("0::/\n", unlimited) == 1000


def test_a_group_of_version_2(system):
    files = {
        "job/step/memory.max": "max",
        "job/step/memory.current": 10 * MIB,
        "job/memory.max": 300 * MIB,
        "job/memory.current": 250 * MIB,
        "job/memory.stat": f"anon {200 * MIB}\ninactive_file {40 * MIB}",
    }
    assert system("0::/job/step\n", files) == 90  # a group around it has the limit; cached files can go
    assert system("0::/job/step\n", files, available=70) == 70


def test_a_group_of_version_1(system):
    files = {
        "memory/box/memory.limit_in_bytes": 200 * MIB,
        "memory/box/memory.usage_in_bytes": 50 * MIB,
        "memory/box/memory.stat": f"inactive_file 7\ntotal_inactive_file {10 * MIB}",
        "memory/memory.limit_in_bytes": 9223372036854771712,
        "memory/memory.usage_in_bytes": 500 * MIB,
    }
    assert system("5:cpu,cpuacct:/x\n4:memory:/box\n0::/\n", files) == 160


def test_within_a_container_only_the_root_is_there(system):
    files = {"memory.max": 100 * MIB, "memory.current": 130 * MIB}
    assert system("0::/docker/0123\n", files) == 0


def test_where_there_are_no_groups_the_machine_decides(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "OWN_GROUPS", tmp_path / "none")
    assert 0 < memory.free_memory() <= psutil.virtual_memory().total


def test_the_refusal(system):
    system("0::/\n", {"memory.max": 512 * MIB, "memory.current": 0})
    memory.check_memory(512 * MIB, "What fits")
    with pytest.raises(
        MemoryLimitError, match=r"^A large thing would take 2\.0 GiB and 0\.5 GiB are free; be modest\.$"
    ):
        memory.check_memory(2048 * MIB, "A large thing", "be modest")
