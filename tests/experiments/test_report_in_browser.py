"""The report in a real browser: tables sort, curves switch, nothing overflows a phone."""

import re

import pytest
from browser import title_of
from test_experiments_numbers import ROWS

from lorank.experiments.report import write_report
from lorank.experiments.suites import FULL

# Runs in the page after its own script; what it finds out becomes the title.
PROBE = """
<script>
{
const seen = {};
const table = document.querySelector("table");
const column = [...table.tHead.rows[0].cells].findIndex(cell => cell.textContent === "test NMSE");
const order = () => [...table.tBodies[0].rows].map(row => row.cells[0].textContent).join();
seen.before = order();
table.tHead.rows[0].cells[column].firstChild.click();
seen.up = order();
table.tHead.rows[0].cells[column].firstChild.click();
seen.down = order();
const figure = document.querySelector("[data-chart=synthetic-synthetic-500]");
const count = () => figure.querySelectorAll("polyline").length;
const path = () => figure.querySelector("polyline").getAttribute("points");
seen.curves = [count()];
const key = figure.querySelector(".keys button");
key.click(); seen.curves.push(count());
key.click(); seen.curves.push(count());
// The list of all methods switches every chart, and the buttons at them.
const everywhere = document.querySelector("#methods button[data-method=nuclear]");
everywhere.click();
seen.switched = [count(), key.getAttribute("aria-pressed")];
everywhere.click();
const svg = figure.querySelector("svg"), value = figure.querySelector(".value");
const press = name => svg.dispatchEvent(new KeyboardEvent("keydown", {key: name, bubbles: true, cancelable: true}));
svg.focus();
press("ArrowRight"); seen.read = [value.textContent];
press("ArrowRight"); seen.read.push(value.textContent);
press("ArrowDown"); seen.read.push(value.textContent);
svg.blur(); seen.read.push(value.textContent);
const box = svg.getBoundingClientRect(), dot = svg.querySelector("circle").getBoundingClientRect();
svg.dispatchEvent(new PointerEvent("pointermove", {clientX: dot.x + 3, clientY: dot.y + 3}));
seen.hover = value.textContent;
seen.looks = [...new Set([...document.querySelectorAll("#methods button line")].map(
  line => line.getAttribute("stroke") + line.getAttribute("stroke-dasharray")))].length;
seen.methods = document.querySelectorAll("#methods button").length;
seen.sticky = getComputedStyle(document.querySelector("aside")).position;
seen.open = document.getElementById("contents").open;
const scroll = document.querySelector(".scroll");
const hint = getComputedStyle(document.querySelector(".hint")).display;
seen.scrolls = scroll.scrollWidth > scroll.clientWidth;
seen.hint = [hint, scroll.tabIndex];
seen.dark = getComputedStyle(document.body).backgroundColor;
const points = () => path().split(" ").map(point => point.split(",").map(Number));
const [logx, logy] = figure.querySelectorAll(".axis");
const moved = button => {
  const before = points();
  button.click();
  const after = points(), pressed = button.getAttribute("aria-pressed");
  button.click();
  const changed = axis => before.some((point, i) => Math.abs(point[axis] - after[i][axis]) > 1);
  return [changed(0), changed(1), pressed, String(points()) === String(before)];
};
seen.logx = moved(logx);
seen.logy = moved(logy);
seen.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
seen.figures = document.querySelectorAll(".chart > svg").length;
document.body.style.width = "400px";
seen.phone = document.body.scrollWidth;
document.title = JSON.stringify(seen);
}
</script>
</body>
"""


@pytest.fixture
def report(tmp_path):
    written = write_report(list(FULL.values()), {row["key"]: row for row in ROWS}, tmp_path)
    assert all(path.exists() for path in written)
    return tmp_path / "report.html"


def test_a_readme_says_what_is_there(report):
    text = (report.parent / "README.md").read_text()
    assert "lorank reproduce all" in text
    assert "7 cells were run, 3 lines on 1 data sets with up to 3 seeds; 6 are without remark" in text
    assert "{" not in text


def test_the_report_needs_nothing_from_outside(report):
    text = report.read_text()
    assert "[[" not in text.split("<script")[0]
    for outside in ('src="http', 'href="http', "@import", "url("):
        assert outside not in text
    # Without a script the charts are the pictures beside the page, and all tables are there.
    pictures = re.findall(r'<noscript><img src="(figures/[^"]+)" alt="[^"]+"></noscript>', text)
    assert len(pictures) == text.count("src=") == 2
    assert all((report.parent / picture).exists() for picture in pictures)
    assert {path.suffix for path in (report.parent / "figures").iterdir()} == {".svg", ".png"}


def test_the_same_records_give_the_same_figures(report, tmp_path_factory):
    again = tmp_path_factory.mktemp("again")
    write_report(list(FULL.values()), {row["key"]: row for row in ROWS}, again)
    for figure in (report.parent / "figures").iterdir():
        assert figure.read_bytes() == (again / "figures" / figure.name).read_bytes()


# 500 is the narrowest window that Chromium opens without a screen; the probe makes the page 400 wide in it.
@pytest.mark.parametrize(("width", "dark"), [(1400, False), (500, True)])
def test_tables_sort_and_curves_switch(report, tmp_path, width, dark):
    report.write_text(report.read_text().replace("</body>", PROBE))
    seen = title_of(report, width, dark)
    assert seen["before"] == "nuclear,MCP,factored NNFN"
    assert seen["up"] == "factored NNFN,nuclear,MCP"  # a line without a number is last, either way
    assert seen["down"] == "nuclear,factored NNFN,MCP"
    assert seen["curves"] == [3, 2, 3]
    # Each switch moves its own axis only, and back.
    assert seen["logx"] == [True, False, "false", True]
    assert seen["logy"] == [False, True, "false", True]
    assert seen["wide"] <= 0
    assert width > 500 or seen["phone"] <= 400
    assert seen["figures"] == 2
    assert seen["switched"] == [2, "false"]
    assert seen["read"] == [
        "nuclear: test NMSE 0.50000 at seconds of training 0.1",
        "nuclear: test NMSE 0.20000 at seconds of training 0.3",
        "MCP: test NMSE 0.20000 at seconds of training 0.3",
        "",
    ]
    assert seen["hover"].startswith("nuclear: test NMSE 0.50000")
    assert seen["looks"] == seen["methods"] == 7  # none looks like another
    assert seen["sticky"] == "sticky"
    assert seen["open"] is (width == 1400)
    assert seen["hint"] == ["block" if seen["scrolls"] else "none", 0]
    assert seen["scrolls"] or width > 500
    assert seen["dark"] == ("rgb(20, 24, 30)" if dark else "rgb(255, 255, 255)")
