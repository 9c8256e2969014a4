"""The page of a model in a real browser: typing, clicking, keys, and ids that would do harm if they could."""

import json
from dataclasses import replace

import numpy as np
import pytest
from browser import title_of

import lorank
from lorank.serving.page import model_page

HOSTILE = [
    "<script>window.harmed = 1</script>",
    "</script><img src=x onerror='window.harmed = 1'>",
    '"><svg onload=window.harmed=1>',
    "\u202eright to left\u202c",
    "x" * 10_000,
    "[[DATA]] {{constructor}} ${1}",
    "<!-- <script> '\"&amp;",
]

# Before anything of the page: what goes wrong, and what is asked of the network.
WATCH = """<head><script>
window.problems = [];
addEventListener("error", event => problems.push(String(event.message || event.target.src)), true);
addEventListener("securitypolicyviolation", event => problems.push(event.violatedDirective));
console.error = (...words) => problems.push(words.join(" "));
</script>"""
PROBE = """<script>
setTimeout(() => {
  const seen = {}, search = document.getElementById("search"), card = document.getElementById("card");
  const type = text => { search.value = text; search.dispatchEvent(new Event("input")); };
  const press = (target, name) => target.dispatchEvent(new KeyboardEvent("keydown", {key: name, bubbles: true}));
  type("row 3"); seen.found = document.querySelectorAll("#found li").length;
  press(search, "Enter");
  seen.card = card.querySelector("h3").textContent;
  seen.list = card.querySelectorAll("ol > li").length;
  seen.bars = card.querySelectorAll("svg.range").length;
  seen.why = card.querySelectorAll(".why").length;
  seen.focus = document.activeElement.tagName;
  card.querySelector("ol button").click();
  seen.likes = card.querySelectorAll(".likes li").length;
  seen.chosen = document.querySelectorAll("#map circle.chosen").length;
  for (const text of HOSTILE) {
    type(text.slice(0, 40));
    for (const name of ["ArrowDown", "ArrowUp", "Enter"]) press(search, name);
  }
  seen.hostile = card.querySelector("h3").textContent;
  type("no such thing"); seen.none = document.querySelector("#found li").textContent;
  press(search, "Escape"); seen.escaped = document.querySelectorAll("#found li").length;
  const map = document.querySelector("#map svg"), first = () => map.querySelector("circle").getAttribute("cx");
  const before = first();
  press(map, "+"); press(map, "ArrowLeft"); seen.moved = first() !== before;
  map.dispatchEvent(new WheelEvent("wheel", {deltaY: 300, clientX: 200, clientY: 700, cancelable: true}));
  seen.charts = [...document.querySelectorAll(".chart figcaption")].map(caption => caption.textContent.split(" (")[0]);
  seen.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  seen.harmed = window.harmed || 0;
  seen.problems = window.problems;
  seen.requests = performance.getEntriesByType("resource").map(entry => entry.name);
  seen.dark = getComputedStyle(document.body).backgroundColor;
  document.title = JSON.stringify(seen);
}, 500);
</script></body>"""


@pytest.fixture(scope="module")
def page():
    rng = np.random.default_rng(0)
    X = 3 + rng.standard_normal((30, 2)) @ rng.standard_normal((2, 20))
    X[rng.random(X.shape) < 0.4] = np.nan
    cols = [*HOSTILE, *(f"col {j}" for j in range(20 - len(HOSTILE)))]
    data = lorank.Observations.from_dense(X, [HOSTILE[0], *(f"row {i}" for i in range(1, 30))], cols)
    wanted = lorank.MatrixCompletion("nnfn", rank=2, lam=0.5, biases=True, random_state=0)
    model = wanted.fit(data, validation=0.2).model_
    return model_page(model.with_titles({"id": cols[:2], "title": HOSTILE[1:3]}))


def test_the_page_needs_nothing_from_outside(page):
    assert "[[STYLE]]" not in page
    for outside in ("http://", "https://", "@import", "url("):
        assert outside not in page.replace("http://www.w3.org/2000/svg", "")
    assert page.count("<script") == 2  # its data and its code; no id became a third


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (500, True)])
def test_a_person_looks_around(page, tmp_path, width, dark):
    probe = PROBE.replace("HOSTILE", json.dumps(HOSTILE).replace("<", "\\u003c"))
    path = tmp_path / "model.html"
    head, rest = page.split("<head>", 1)
    path.write_text(head + WATCH + "".join(rest.rsplit("</body>", 1)[0]) + probe)
    seen = title_of(path, width, dark)
    assert seen["found"] >= 1
    assert seen["card"] == "row 3"
    assert seen["list"] == seen["bars"] > 0
    assert seen["why"] > 0
    assert seen["focus"] == "H3"
    assert seen["likes"] == 8
    assert seen["chosen"] == 1
    assert seen["none"] == "Nothing of that name is on this page."
    assert seen["escaped"] == 0
    assert seen["moved"]
    assert seen["charts"][:2] == ["Singular values", "Objective"]
    assert any(title.startswith("Error by how often seen") for title in seen["charts"])
    assert any(title.startswith("Calibration") for title in seen["charts"])
    assert seen["wide"] <= 0
    assert seen["harmed"] == 0
    assert seen["problems"] == []
    assert seen["requests"] == []
    assert seen["dark"] == ("rgb(20, 24, 30)" if dark else "rgb(255, 255, 255)")


LOOK = """<script>
setTimeout(() => {
  const search = document.getElementById("search"), map = document.querySelector("#map svg").getBoundingClientRect();
  search.value = "u1"; search.dispatchEvent(new Event("input"));
  search.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true}));
  const names = [...document.querySelectorAll("#map text")].map(text => text.getBoundingClientRect());
  const ticks = [...document.querySelectorAll(".chart svg")].map(chart =>
    [...chart.querySelectorAll("text[text-anchor=end]")].slice(0, 5).map(text => text.textContent));
  document.title = JSON.stringify({
    list: document.querySelector("#card ol").textContent, facts: document.querySelector("dl").textContent,
    trials: document.querySelector("#trials thead").textContent, names: names.length,
    outside: names.filter(box => box.left < map.left || box.right > map.right + 1).length,
    height: Math.min(...names.map(box => box.height)), same: ticks.filter(own => new Set(own).size < own.length),
  });
}, 500);
</script></body>"""


@pytest.mark.parametrize("width", [1200, 500])
def test_the_page_of_clicks_can_be_read(tmp_path, width):
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((40, 30)) < 0.3)
    data = lorank.Observations.from_coo(
        rows,
        cols,
        np.ones(rows.size),
        (40, 30),
        [f"u{i}" for i in range(40)],
        [f"a film called {j}" for j in range(30)],
    )
    model = lorank.MatrixCompletion(goal="ranking", rank=3, random_state=0, tol=1e-9).fit(data).model_
    path = tmp_path / "clicks.html"
    path.write_text(model_page(replace(model, columns=("user", "film"))).replace("</body>", LOOK))
    seen = title_of(path, width)
    assert "preference" in seen["list"]
    assert "undefined" not in seen["list"]
    assert "{" not in seen["facts"]
    assert "1 - ndcg@10" in seen["trials"]
    assert seen["names"] > 3
    assert seen["outside"] == 0
    assert seen["height"] > 9  # pixels
    assert seen["same"] == []


def test_normal_errors_lie_on_the_diagonal():
    from lorank.models.intervals import Calibration
    from lorank.serving.content import content

    rng = np.random.default_rng(0)
    data = lorank.Observations.from_dense(rng.standard_normal((20, 15)))
    model = lorank.MatrixCompletion("nnfn", rank=2, lam=1.0, random_state=0).fit(data).model_
    assert content(model)["calibration"] == []
    ratios = np.sort(np.abs(rng.standard_normal(1000)))
    scales = np.ones(21), np.ones(16)
    found, normal = content(replace(model, calibration=Calibration(*scales, ratios, 1000)))["calibration"]
    assert normal[0] == [0.05, 0.05]
    assert max(abs(y - x) for x, y in found) < 0.05
