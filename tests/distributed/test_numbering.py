"""The ids of a folder, sorted, numbered and cut into parts by tasks that each see a range of them."""

import numpy as np
import pytest

from lorank.distributed import numbering, parts
from lorank.errors import InputError

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")


def in_turn(function, jobs):
    return [function(*job) for job in jobs]


@pytest.mark.parametrize("kind", ["int", "text", "date"])
@pytest.mark.parametrize("size", [7, 50, 10_000])
def test_numbers_are_places_in_ascending_order(tmp_path, monkeypatch, kind, size):
    monkeypatch.setattr(numbering, "RANGE", size)
    monkeypatch.setattr(numbering, "SAMPLE", 16)
    monkeypatch.setattr(parts, "PARTS", 9)
    rng = np.random.default_rng(size)
    paths, given = [], []
    for file in range(3):
        ids = rng.choice(400, 150, replace=False) * 3 - 300
        counts = rng.integers(0, 50, ids.size)
        table = {"int": ids, "text": [f"ü{i}" for i in ids], "date": ids.astype("datetime64[D]").astype("M8[us]")}[kind]
        table = pa.array(table, pa.large_string()) if kind == "text" else pa.array(table)
        paths.append(f"{tmp_path}/{file}.feather")
        numbering.write_table(pa.table({"id": table, "count": counts}), paths[-1])
        given.append((table.to_pylist(), counts))
    made = numbering.number_ids(tmp_path, "rows", paths, in_turn)
    names = [name for ids, _ in given for name in ids]
    counts = {}
    for ids, own in given:
        for name, count in zip(ids, own.tolist()):
            counts[name] = counts.get(name, 0) + count
    expected = sorted(set(names))
    assert [made.id_of(number) for number in range(0, made.lines, 37)] == expected[::37]
    assert made.lines == len(expected)
    assert made.entries == sum(counts.values())
    np.testing.assert_array_equal(made.cuts, parts.cut(np.array([counts[name] for name in expected])))
    assert (len(made.ranges) > 1) == (size < 450)
    place = {name: number for number, name in enumerate(expected)}
    for path, (ids, _) in zip(paths, given):
        table = numbering.read_table(path)
        assert sorted(table["id"].to_pylist()) == sorted(ids)
        assert [place[name] for name in table["id"].to_pylist()] == table["position"].to_pylist()
    ends = made.cuts.tolist()
    files = [f"{tmp_path}/part-{number}.npy" for number in range(len(ends) - 1)]
    for path, lo, hi in zip(files, ends, ends[1:]):
        numbering.write_part_ids(path, made, lo, hi)
    assert numbering.read_ids(files).values.tolist() == expected


def test_ids_of_two_types_are_refused(tmp_path):
    paths = [f"{tmp_path}/{number}.feather" for number in range(2)]
    for path, ids in zip(paths, (pa.array([1, 2]), pa.array(["a", "b"], pa.large_string()))):
        numbering.write_table(pa.table({"id": ids, "count": [1, 1]}), path)
    with pytest.raises(InputError, match="ids of different types in different files: int64 and large_string"):
        numbering.number_ids(tmp_path, "rows", paths, in_turn)
