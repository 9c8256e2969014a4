"""Text of other habits, Excel and JSON lines: the same table whatever it is written in."""

import json
import subprocess
import sys
import tracemalloc
import zipfile
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest

import lorank
from lorank import InputError
from lorank.tables import Habits, read, translation
from lorank.tables.delimited import sniff
from lorank.tables.translation import translated

LONG = [("ann", "Café, the film", 4.5), ("bob", "Good; bad", 2.0), ("ann", "Good; bad", 1.25)]


def dense(observations):
    return {
        (observations.row_ids.values[i], observations.col_ids.values[j]): value
        for i, j, value in zip(observations.rows, observations.cols, observations.values)
    }


EXPECTED = {(row, col): value for row, col, value in LONG}


def quoted(cells, delimiter=","):
    return delimiter.join(f'"{cell}"' if isinstance(cell, str) else str(cell) for cell in cells)


def test_encodings_and_decimal_commas(tmp_path):
    lines = ["user;film;stars", *(quoted(line, ";").replace(".", ",") for line in LONG)]
    (tmp_path / "t.csv").write_bytes("\r\n".join(lines).encode("latin-1"))
    found, columns = read(tmp_path / "t.csv", habits=Habits(encoding="latin-1", decimal=","))
    assert dense(found) == EXPECTED
    assert columns == ("user", "film", "stars")
    with pytest.raises(InputError, match=r"is not UTF-8 text.*give its encoding"):
        read(tmp_path / "t.csv")
    with pytest.raises(InputError, match="There is no encoding 'klingon'"):
        Habits(encoding="klingon")
    with pytest.raises(InputError, match="decimal is"):
        Habits(decimal="'")


def test_thousands_and_words_for_missing(tmp_path):
    text = "# made by hand\nname;a;b\nx;1.234,5;-999\ny;?;2,5\n# the end\nz;3;4\nu;1;2\n"
    (tmp_path / "t.csv").write_text(text)
    found, _ = read(tmp_path / "t.csv", row="name", habits=Habits(decimal=",", na=("-999", "?"), comment="#"))
    assert dense(found) == {
        ("x", "a"): 1234.5,
        ("y", "b"): 2.5,
        ("z", "a"): 3,
        ("z", "b"): 4,
        ("u", "a"): 1,
        ("u", "b"): 2,
    }


def test_lines_keep_their_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("# one\nuser,film,stars\n# two\na,b,1\na,c\n")
    with pytest.raises(InputError, match=r"Line 5 of .* has 2 columns where 3 are needed"):
        read(tmp_path / "t.csv", habits=Habits(comment="#"))


def test_excel(tmp_path):
    book = tmp_path / "t.xlsx"
    with pd.ExcelWriter(book) as writer:
        pd.DataFrame({"notes": ["none"]}).to_excel(writer, sheet_name="first", index=False)
        pd.DataFrame(LONG, columns=["user", "film", "stars"]).to_excel(writer, sheet_name="second", index=False)
    assert dense(read(book, sheet="second")[0]) == EXPECTED
    with pytest.raises(InputError, match="no sheet 'third'; there are first, second"):
        read(book, sheet="third")
    # A row without a value is a row; empty ones around the table are none of it.
    wide = pd.DataFrame([[np.nan] * 4, [1, 2, 3, 4], [np.nan] * 4, [5, 6, 7, 8], [np.nan] * 4], columns=[*"abcd"])
    wide.to_excel(tmp_path / "wide.xlsx", index=False, startrow=2)
    found = read(tmp_path / "wide.xlsx")[0]
    assert found.shape == (4, 4)
    assert np.unique(found.rows).tolist() == [1, 3]
    (tmp_path / "no.xlsx").write_bytes(b"hello")
    with pytest.raises(InputError, match="is damaged or not an Excel file"):
        read(tmp_path / "no.xlsx")


@pytest.mark.parametrize(("decimal", "missing"), [(".", "-999.0"), (",", "-999,00"), (".", "-999")])
def test_a_number_that_stands_for_missing_may_be_written_as_a_float(tmp_path, decimal, missing):
    (tmp_path / "t.txt").write_text(f"a;b\n1;{missing}\n2;3\n")
    with translated(tmp_path / "t.txt", Habits(decimal=decimal, na=("-999",)), ";") as copy:
        assert copy.read_text() == "a;b\n1;\n2;3\n"


def test_json_lines(tmp_path):
    records = [dict(zip(("user", "film", "stars"), line)) for line in LONG]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, records)))
    assert dense(read(tmp_path / "t.jsonl")[0]) == EXPECTED
    (tmp_path / "t.json").write_text(json.dumps(records, indent=1))
    assert dense(read(tmp_path / "t.json")[0]) == EXPECTED


# Characters that Python's `splitlines` takes for the end of a line, and no format does.
NO_LINE_ENDS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


@pytest.mark.parametrize("name", ["t.jsonl", "t.json", "t.csv", "t.txt"])
def test_only_a_line_end_ends_a_line(tmp_path, name):
    lines = [("ann", f"one{mark}two", float(number)) for number, mark in enumerate(NO_LINE_ENDS, start=1)]
    records = [dict(zip(("user", "film", "stars"), line)) for line in lines]
    text = {
        "t.jsonl": "\r\n".join(json.dumps(record, ensure_ascii=False) for record in records),
        "t.json": json.dumps(records, ensure_ascii=False),
    }.get(name, "user,film,stars\n" + "".join(f"{row},{col},{value}\n" for row, col, value in lines))
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    found, _ = read(tmp_path / name, habits=Habits(na=("-",)) if name == "t.txt" else Habits())
    assert dense(found) == {(row, col): value for row, col, value in lines}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", json.dumps({"a": {"b": list(range(20_000))}}), "is no table"),
        ("a.json", '{"a": ' + 100_000 * "[" + 100_000 * "]" + "}", "is no table"),
        ("a.jsonl", '{"a": [1, 2]}\n', "'a' holds more than one value"),
        ("a.csv", json.dumps({"a": list(range(20_000))}), "looks like JSON"),
        ("a.csv", "<!DOCTYPE html><html><body>404</body></html>", "a web page or XML"),
        ("a.csv", b"\x00\x01\x02" * 100, "not a table of text"),
    ],
)
def test_what_is_no_table_gets_one_short_sentence(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=message) as error:
        read(path)
    assert len(str(error.value)) < 300


def test_names_choose_the_delimiter(tmp_path):
    text = 'user,film,stars\nuser-0491,"Good, the Bad ""x"" film-042",2.5\nuser-0492,"A b c d",1.5\n'
    (tmp_path / "t.csv").write_text(text)
    found, _ = read(tmp_path / "t.csv", "user", "film", "stars")
    assert dense(found)["user-0491", 'Good, the Bad "x" film-042'] == 2.5
    # Without a name an even table is better than a wider one.
    (tmp_path / "u.csv").write_text('film,title\nfilm-000,"The long story of film number 0"\n')
    assert sniff(tmp_path / "u.csv").columns == ("film", "title")
    (tmp_path / "v.csv").write_text("a;b\n1,5;2,5\n3,5;4,5\n")
    assert sniff(tmp_path / "v.csv").delimiter == ";"
    # The named columns exist under one delimiter alone.
    (tmp_path / "w.csv").write_text("x y|z\n1 2 3|4\n1 2 3|4\n")
    assert sniff(tmp_path / "w.csv", names=("x y", "z")).delimiter == "|"


def test_null_ids_are_refused():
    table = pd.DataFrame({"user": ["a", None], "film": ["x", "y"], "stars": [1.0, 2.0]})
    with pytest.raises(InputError, match="'user' has no id in line 1"):
        lorank.Observations.from_table(table, "user", "film", "stars")


def test_complete_keeps_commas_comments_and_encoding(tmp_path):
    rng = np.random.default_rng(0)
    whole = rng.standard_normal((40, 1)) @ rng.standard_normal((1, 4)) + 3
    cells = [[f"{value:.3f}".replace(".", ",") for value in line] for line in whole]
    cells[3][1] = "-999"
    lines = ["# Café", "a;b;c;d", *(";".join(line) for line in cells)]
    (tmp_path / "t.csv").write_bytes("\n".join(lines).encode("latin-1"))
    words = ["complete", "t.csv", "-o", "f.csv", "--decimal", ",", "--na", "-999", "--comment", "#"]
    code = "from lorank.cli import main; main()"
    command = [sys.executable, "-c", code, *words, "--encoding", "latin-1", "--rank", "1", "--lam", "0.1"]
    subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
    filled = (tmp_path / "f.csv").read_bytes().decode("latin-1").split("\n")
    assert [a for a, b in zip(filled, lines) if a != b] == [filled[5]]
    value = float(filled[5].split(";")[1].replace(",", "."))
    assert abs(value - whole[3, 1]) < 0.2


def test_without_typer_the_command_says_what_to_install():
    code = "import sys; sys.modules['typer'] = None; from lorank.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.strip() == "The command line needs typer: pip install 'lorank[cli]'."


def test_an_error_names_the_file_that_was_given(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"a": "x", "b": 1, "c": 2}\n{"a": "", "b": 1, "c": 3}\n')
    with pytest.raises(InputError) as refused:
        read(tmp_path / "t.jsonl")
    assert str(tmp_path / "t.jsonl") in str(refused.value)
    assert ".csv" not in str(refused.value)


def test_a_sheet_of_empty_cells_is_refused(tmp_path):
    """A cell in the last column of each row: 16,384 cells to hold for each that is in the file."""
    from openpyxl import Workbook

    book = Workbook(write_only=True)
    sheet = book.create_sheet("t")
    for _ in range(200):
        sheet.append([None] * 16383 + [1])
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(InputError, match="little in it but empty cells"):
        read(tmp_path / "t.xlsx")


def changed(book, part, change):
    """The Excel file with one of its parts changed, under another name."""
    with (
        zipfile.ZipFile(book) as old,
        zipfile.ZipFile(book.with_name("changed.xlsx"), "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, change(content) if name == part else content)
    return book.with_name("changed.xlsx")


def test_what_an_excel_file_says_of_the_size_of_a_sheet_is_not_believed(tmp_path):
    """Cells beyond it were lost; a row with a large number was waited for without end."""
    from openpyxl import Workbook

    book = Workbook()
    for row in (["user", "item", "value"], ["a", "b", 1], ["c"], ["a", "d", 2]):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")

    def sheet(old, new):
        return changed(tmp_path / "t.xlsx", "xl/worksheets/sheet1.xml", lambda text: text.replace(old, new))

    with translated(sheet(b'<dimension ref="A1:C4"', b'<dimension ref="A1:B2"'), Habits()) as text:
        assert text.read_text().splitlines() == ["user,item,value", "a,b,1", "c,,", "a,d,2"]
    with pytest.raises(InputError, match="little in it but empty cells"):
        read(sheet(b'<row r="4"', b'<row r="9999999999"'))


def test_an_excel_file_with_odd_styles_is_refused_and_nothing_printed(tmp_path, capsys, monkeypatch):
    from openpyxl import Workbook, load_workbook

    book = Workbook()
    for line in (["user", "item", "value"], ["ann", "a", 1]):
        book.active.append(line)
    book.save(tmp_path / "t.xlsx")

    def restyled(change):
        return changed(tmp_path / "t.xlsx", "xl/styles.xml", change)

    odd = restyled(lambda text: text.replace(b'xfId="0"', b'xfId="9"'))
    try:
        load_workbook(odd, read_only=True)
    except Exception:
        assert capsys.readouterr().out != ""
        with pytest.raises(InputError, match="is damaged or not an Excel file"):
            read(odd)
    else:  # openpyxl 3.1.0 takes it
        assert dense(read(odd)[0]) == {("ann", "a"): 1.0}
    assert capsys.readouterr().out == ""
    # Some kilobytes that unpack to 18 MB; of so many styles openpyxl would make 600 MB.
    bomb = restyled(lambda text: text.replace(b"<fonts ", b"<fonts " + b" " * 18_000_000))
    monkeypatch.setattr("lorank.memory.free_memory", lambda: 500 << 20)
    with pytest.raises(MemoryError, match="are free"):
        read(bomb)


@pytest.mark.parametrize(
    "piece",
    [b"<row/>", b"<row></row>", b"<a>", b"<a/>", b'<c r="A1"/>', b'<row a="" />', b"<si><t>a</t></si>"],
    ids=lambda piece: piece.decode(),
)
def test_what_a_small_excel_file_unpacks_to_is_known_before_it_is_read(tmp_path, monkeypatch, piece):
    """270 kB of nested elements took more than 2.5 GB. What each takes is measured here."""
    from openpyxl import Workbook

    book = Workbook()
    book.active.append(["user", "item", "value"])
    book.save(tmp_path / "t.xlsx")
    bomb = changed(
        tmp_path / "t.xlsx",
        "xl/worksheets/sheet1.xml",
        lambda text: text[: text.index(b"<sheetData>")] + b"<sheetData>" + 100_000 * piece,
    )
    tracemalloc.start()
    try:
        with monkeypatch.context() as unchecked, suppress(InputError):
            unchecked.setattr(translation, "_check_parts", lambda path: None)
            read(bomb)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    monkeypatch.setattr("lorank.memory.free_memory", lambda: taken)
    with pytest.raises(MemoryError, match="are free"):
        read(bomb)


@pytest.mark.parametrize("code", ["utf-8", "utf-16", "utf-16-le", "utf-16-be"])
def test_entities_of_xml_are_refused(tmp_path, code):
    from openpyxl import Workbook

    Workbook().save(tmp_path / "t.xlsx")
    bomb = '<!DOCTYPE a [<!ENTITY a "aaaa">]><worksheet>&a;</worksheet>'.encode(code)
    with pytest.raises(InputError, match="in UTF-16 or has entities"):
        read(changed(tmp_path / "t.xlsx", "xl/worksheets/sheet1.xml", lambda text: bomb))


def test_line_ends_inside_ids_stay_inside(tmp_path):
    ids = ["a\rb", "a\nb", "c\r\n", "\r", " d"]
    records = [{"user": name, "item": "x", "value": 1.0 + at} for at, name in enumerate(ids)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, records)))
    assert sorted(read(tmp_path / "t.jsonl")[0].row_ids.values.tolist()) == sorted(ids)
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, records * 2)))
    with pytest.raises(InputError, match="more than once") as refused:
        read(tmp_path / "t.jsonl")
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["t.jsonl", "t.csv"])
def test_what_does_not_fit_into_memory_is_refused_before_it_is_held(tmp_path, name, monkeypatch):
    (tmp_path / name).write_text('{"a": 1, "b": 2, "c": 3}\n' * 1000)
    monkeypatch.setattr("lorank.memory.free_memory", lambda: 100_000)
    with pytest.raises(MemoryError, match="are free"):
        read(tmp_path / name, habits=Habits(na=("missing",)))


def test_objects_that_have_a_name_each_are_no_table(tmp_path):
    """60,000 of them, 700 kB, would be 3.6 billion cells."""
    (tmp_path / "t.jsonl").write_text("".join(f'{{"k{i}": 1}}\n' for i in range(20_000)))
    with pytest.raises(InputError, match="its 20000 objects have 20000 different names"):
        read(tmp_path / "t.jsonl")


@pytest.mark.parametrize("line", ['{"a":1}', '{"a":[[],[],[],[],[]]}', '{"a":1,"b":2}'])
def test_short_objects_take_many_times_their_text(tmp_path, line, monkeypatch):
    (tmp_path / "t.jsonl").write_text(20_000 * f"{line}\n")
    monkeypatch.setattr("lorank.memory.free_memory", lambda: 30 * 20_000 * len(line))
    with pytest.raises(MemoryError, match="with its cells would take"):
        read(tmp_path / "t.jsonl")
