"""The report in a real browser: tables sort, curves switch, nothing overflows a phone."""

import json
import shutil
import subprocess

import pytest
from test_experiments_numbers import ROWS

from lorank.experiments.report import write_report
from lorank.experiments.suites import FULL

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in BROWSERS if (path := shutil.which(name))), None)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=3000",
]

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
seen.figures = document.querySelectorAll(".chart svg").length;
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
    assert "7 cells recorded, 6 of them without remark" in text
    assert "{" not in text


def test_the_report_needs_nothing_from_outside(report):
    text = report.read_text()
    assert "[[" not in text.split("<script")[0]
    for outside in ("src=", 'href="http', "@import", "url("):
        assert outside not in text
    assert {path.suffix for path in (report.parent / "figures").iterdir()} == {".svg", ".png"}


def test_the_same_records_give_the_same_figures(report, tmp_path_factory):
    again = tmp_path_factory.mktemp("again")
    write_report(list(FULL.values()), {row["key"]: row for row in ROWS}, again)
    for figure in (report.parent / "figures").iterdir():
        assert figure.read_bytes() == (again / "figures" / figure.name).read_bytes()


@pytest.mark.parametrize("width", [1280, 500])
def test_tables_sort_and_curves_switch(report, tmp_path, width):
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine (Debian: apt-get install chromium)")
    report.write_text(report.read_text().replace("</body>", PROBE))
    command = [CHROMIUM, *FLAGS, f"--window-size={width},900", f"--user-data-dir={tmp_path / 'profile'}"]
    out = subprocess.run(
        [*command, "--dump-dom", report.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    seen = json.loads(out.stdout.split("<title>")[1].split("</title>")[0])
    assert seen["before"] == "nuclear,MCP,factored NNFN"
    assert seen["up"] == "factored NNFN,nuclear,MCP"  # a line without a number is last, either way
    assert seen["down"] == "nuclear,factored NNFN,MCP"
    assert seen["curves"] == [3, 2, 3]
    # Each switch moves its own axis only, and back.
    assert seen["logx"] == [True, False, "false", True]
    assert seen["logy"] == [False, True, "false", True]
    assert seen["wide"] <= 0
    assert seen["figures"] == 2
