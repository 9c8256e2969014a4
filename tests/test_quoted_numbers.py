"""Numbers that the pages quote are those of the files they come from.

A section that quotes a measurement links to its file, for the reader's sake: one of `docs/benchmarks`, or
`docs/results`. Every number with a decimal point, a percent sign or a unit must then be in that file, to the digits
that are quoted. In a large file a wrong number is found by chance; a comment therefore says which of its rows are
meant, for what follows it in the section: `<!-- docs/results/tables.csv: Table 4; MovieLens-1M -->` are those in which
one of these words stands. Settings stand in `code` or in a formula and are not looked at; where a section speaks of the
paper, its numbers are known too.
"""

import csv
import json
import re
from pathlib import Path

import pytest

from lorank.experiments.published import PUBLISHED

ROOT = Path(__file__).parents[1]
# What the measurements themselves wrote is not looked at.
WRITTEN = ("benchmarks", "results")
DOCS = sorted(path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md"))
PAGES = ["README.md", *(str(path) for path in DOCS if path.parts[1] not in WRITTEN)]
NUMBER = re.compile(
    r"(?<![\w.])(?<!Python )(\d+\.\d+|\d[\d,]*)(?: ?(%|times|s|ms|MB|GB|seconds)(?![a-z]))?(?![\w.]*\d)"
)
ROWS_OF = re.compile(r"<!-- (docs/\S+): (.*?) -->")
# What a number of a file may be multiplied by to be in the unit that it is quoted in.
UNITS = {"%": (1, 100), "ms": (1, 1e3), "MB": (1, 1e-6), "GB": (1, 1 / 1024, 1e-9)}
# Columns of results that are not quoted: with them almost every number would be found.
UNQUOTED = re.compile(r"±$|MB|rank|edge|fits|ours|paper|best")


def parts(text):
    """Title and text of each section, or of the part of it that begins with a comment on rows."""
    for section in re.split(r"^(?=#)", re.sub(r"```.*?```", "", text, flags=re.S), flags=re.M):
        title = section.partition("\n")[0].strip("# ")
        yield from ((title, part) for part in re.split(r"(?=<!-- docs/)", section))


def sources(part, page):
    """The files that a part names, each with the words by which its rows are chosen."""
    named = ROWS_OF.match(part)
    if named:
        yield ROOT / named[1], tuple(named[2].split("; "))
        return
    for link in re.findall(r"\]\(([^)#]+)", part):
        target = (page.parent / link).resolve()
        if target.parent == ROOT / "docs/benchmarks":
            yield from ((path, ()) for end in (".json", ".csv") if (path := target.with_suffix(end)).exists())
        elif ROOT / "docs/results" in (target, target.parent):
            yield ROOT / "docs/results/tables.csv", ()


def quoted(part):
    """Each measured number as it is written, and the factors of its unit."""
    plain = re.sub(r"`[^`]*`|\$[^$]*\$|\]\([^)]*\)|<!--.*?-->", "", part, flags=re.S)
    for number, unit in NUMBER.findall(plain):
        if "." in number or unit:
            yield number.replace(",", ""), UNITS.get(unit, (1,))


def numbers_in(path, words=()):
    """All numbers of a file, or of those of its rows in which one of the words stands."""
    table = path.suffix == ".csv"
    rows = [dict(row) for row in csv.DictReader(path.read_text().splitlines())] if table else flat(path)
    for row in rows:
        text = " ".join(value for value in row.values() if isinstance(value, str))
        if not words or any(word in text for word in words):
            shown = (value for name, value in row.items() if not (table and UNQUOTED.search(name)))
            yield from (float(value) for value in shown if is_number(value))


def flat(path):
    """The records of a JSON file: each object with its own values, and those of lists and objects in it by position."""

    def values(value, name=""):
        if isinstance(value, dict | list):
            for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
                yield from values(inner, f"{name} {key}")
        else:
            yield name, value

    content = json.loads(path.read_text())
    return [dict(values(record)) for record in (content if isinstance(content, list) else content.values())]


def is_number(value):
    return not isinstance(value, bool) and re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", str(value)) is not None


def is_among(number, factors, known):
    allowed = 0.5000001 * 10.0 ** -len(number.partition(".")[2])
    return any(abs(value * factor - float(number)) <= allowed for value in known for factor in factors)


def strangers(page):
    """What a page quotes that is in none of the files it names there."""
    printed = [number for column in PUBLISHED.values() for row in column.values() for number in row]
    for title, part in parts(page.read_text(encoding="utf-8")):
        known = [number for path, words in set(sources(part, page)) for number in numbers_in(path, words)]
        known += printed if "paper" in part else []
        wrong = [number for number, factors in quoted(part) if not is_among(number, factors, known)]
        if wrong:
            yield f"{title}: {', '.join(wrong)}"


@pytest.mark.parametrize("page", PAGES)
def test_quoted_numbers_are_in_the_files_that_the_page_names(page):
    assert list(strangers(ROOT / page)) == []


def test_a_number_that_no_file_has_is_found(tmp_path):
    rows = json.loads((ROOT / "docs/benchmarks/peers.json").read_text())
    error = next(row["error"] for row in rows if row["data"] == "movielens-1m" and row["library"] == "lorank")
    page = tmp_path / "page.md"
    text = "# Peers\n\n<!-- docs/benchmarks/peers.json: {} -->\n\n`lam=0.123` in 12 rows: {:.4f}\n"
    page.write_text(text.format("movielens-1m", error))
    assert list(strangers(page)) == []
    page.write_text(text.format("movielens-1m", error + 0.0003))
    assert list(strangers(page)) == [f"Peers: {error + 0.0003:.4f}"]
    page.write_text(text.format("synthetic-500", error))
    assert list(strangers(page)) == [f"Peers: {error:.4f}"]


def test_what_counts_as_a_measurement():
    found = [number for number, _ in quoted("`lam=0.5`, Python 3.11, 12 rows, 24 scarce, 3 times, 0.77, 4% of 1,200 s")]
    assert found == ["3", "0.77", "4", "1200"]
