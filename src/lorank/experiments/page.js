"use strict";
// Tables: a click on a column sorts by it, a second click turns the order; cells without a number go last.
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, index) => head.firstChild.addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    heads.forEach(other => other.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = row => {
      const cell = row.cells[index];
      return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
    };
    const numeric = [...table.tBodies[0].rows].some(row => key(row) !== null);
    const order = (a, b) => {
      if (!numeric) return a.cells[index].textContent.localeCompare(b.cells[index].textContent) * (up ? 1 : -1);
      const [x, y] = [key(a), key(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      return (x - y) * (up ? 1 : -1);
    };
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort(order));
  }));
}

// A table that is wider than its place says so.
const hints = () => {
  for (const scroll of document.querySelectorAll(".scroll"))
    scroll.previousElementSibling.hidden = scroll.scrollWidth <= scroll.clientWidth;
};
addEventListener("resize", hints);
hints();

// Charts. A method looks the same in each: one of six colours that readers with any colour vision tell apart, and
// one of three kinds of line.
const {charts, labels} = JSON.parse(document.getElementById("data").textContent);
const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "var(--ink)"], DASHES = ["none", "7 3", "2 3"];
const look = label => {
  const index = labels.indexOf(label);
  return {colour: COLOURS[index % COLOURS.length], dash: DASHES[Math.floor(index / COLOURS.length) % DASHES.length]};
};
const WIDTH = 560, HEIGHT = 340, LEFT = 58, RIGHT = 10, TOP = 10, BOTTOM = 42, NEAR = 30;
const hidden = new Set(), figures = [];

function element(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// A map from [low, high] to pixels, and its ticks.
function scale(values, log, from, to) {
  let low = Math.min(...values), high = Math.max(...values);
  if (log) { low = Math.log10(low); high = Math.log10(high); }
  const room = (high - low || 1) * 0.04;
  low -= room; high += room;
  const place = value => from + (to - from) * ((log ? Math.log10(value) : value) - low) / (high - low);
  const ticks = [];
  if (log) {
    const decades = high - low;
    const steps = decades > 3.5 ? [1] : decades > 0.9 ? [1, 2, 5] : [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9];
    for (let power = Math.floor(low); power <= high; power++)
      for (const step of steps) ticks.push(step * 10 ** power);
  }
  const inside = ticks.filter(tick => Math.log10(tick) >= low && Math.log10(tick) <= high);
  if (inside.length > 2) return {place, ticks: inside};
  // Too narrow for whole steps of a logarithm, or not logarithmic: even steps.
  const [a, b] = log ? [10 ** low, 10 ** high] : [low, high];
  const raw = (b - a) / 5, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find(factor => factor * power >= raw);
  const even = [];
  for (let tick = Math.ceil(a / step) * step; tick <= b; tick += step) even.push(tick);
  return {place, ticks: even};
}

const shown = value => value === 0 || Math.abs(value) < 1e-12 ? "0" :
  Math.abs(value) >= 1e4 || Math.abs(value) < 1e-3 ? value.toExponential(1) : String(Number(value.toPrecision(4)));

// Draws a chart anew; its points on the screen, curve by curve, stay in `state.points`.
function draw(state) {
  const {svg, chart, axes} = state;
  svg.replaceChildren();
  state.points = [];
  const alive = chart.curves.filter(curve => !hidden.has(curve.label));
  const usable = curve => curve.x.map((x, i) => [x, curve.y[i]])
    .filter(([x, y]) => (!axes.x || x > 0) && (!axes.y || y > 0));
  const points = alive.map(usable), all = points.flat();
  if (!all.length) { svg.append(element("text", {x: LEFT, y: 40}, "No curve is shown.")); return; }
  const levels = all.map(p => p[1]).concat(chart.floor === null ? [] : [chart.floor]);
  const x = scale(all.map(p => p[0]), axes.x, LEFT, WIDTH - RIGHT), y = scale(levels, axes.y, HEIGHT - BOTTOM, TOP);
  for (const tick of x.ticks) {
    svg.append(element("line", {class: "grid", x1: x.place(tick), x2: x.place(tick), y1: TOP, y2: HEIGHT - BOTTOM}));
    svg.append(element("text", {x: x.place(tick), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle"}, shown(tick)));
  }
  for (const tick of y.ticks) {
    svg.append(element("line", {class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y.place(tick), y2: y.place(tick)}));
    svg.append(element("text", {x: LEFT - 6, y: y.place(tick) + 4, "text-anchor": "end"}, shown(tick)));
  }
  svg.append(element("text", {x: (LEFT + WIDTH) / 2, y: HEIGHT - 6, "text-anchor": "middle"}, chart.xlabel));
  svg.append(element("text", {x: 14, y: HEIGHT / 2, "text-anchor": "middle",
    transform: `rotate(-90 14 ${HEIGHT / 2})`}, chart.ylabel));
  if (chart.floor !== null) {
    const level = y.place(chart.floor);
    svg.append(element("line", {class: "floor", x1: LEFT, x2: WIDTH - RIGHT, y1: level, y2: level}));
  }
  alive.forEach((curve, i) => {
    const {colour, dash} = look(curve.label);
    const placed = points[i].map(p => ({label: curve.label, value: p, at: [x.place(p[0]), y.place(p[1])]}));
    if (!placed.length) return;
    state.points.push(placed);
    const path = placed.map(p => p.at.map(c => c.toFixed(1)).join()).join(" ");
    svg.append(element("polyline", {points: path, fill: "none", stroke: colour, "stroke-width": 1.8, "stroke-dasharray": dash}));
    if (curve.marked) for (const p of placed) svg.append(element("circle", {cx: p.at[0], cy: p.at[1], r: 2.4, fill: colour}));
  });
  state.cursor = element("circle", {class: "cursor", r: 6, visibility: "hidden"});
  svg.append(state.cursor);
}

// Says what a point is, for the mouse and the keyboard.
function point(state, which) {
  if (!which) { state.cursor?.setAttribute("visibility", "hidden"); state.value.textContent = ""; return; }
  const [curve, index] = which, p = state.points[curve][index];
  state.chosen = which;
  state.cursor.setAttribute("cx", p.at[0]);
  state.cursor.setAttribute("cy", p.at[1]);
  state.cursor.setAttribute("visibility", "visible");
  state.value.textContent = `${p.label}: ${state.chart.ylabel} ${p.value[1].toPrecision(5)} at ${state.chart.xlabel} ${shown(p.value[0])}`;
}

function nearest(state, event) {
  const box = state.svg.getBoundingClientRect();
  const at = [(event.clientX - box.left) * WIDTH / box.width, (event.clientY - box.top) * HEIGHT / box.height];
  let best = null, least = NEAR;
  state.points.forEach((curve, i) => curve.forEach((p, j) => {
    const distance = Math.hypot(p.at[0] - at[0], p.at[1] - at[1]);
    if (distance < least) { least = distance; best = [i, j]; }
  }));
  return best;
}

// Left and right go along a curve, up and down to another one.
function move(state, key) {
  if (!state.points.length) return false;
  let [curve, index] = state.chosen ?? [0, -1];
  curve = Math.min(curve, state.points.length - 1);
  if (key === "ArrowRight") index++;
  else if (key === "ArrowLeft") index--;
  else if (key === "ArrowDown") curve = (curve + 1) % state.points.length;
  else if (key === "ArrowUp") curve = (curve + state.points.length - 1) % state.points.length;
  else return false;
  point(state, [curve, Math.max(0, Math.min(index, state.points[curve].length - 1))]);
  return true;
}

function key(label, pressed, change) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(label);
  button.setAttribute("aria-pressed", pressed);
  button.addEventListener("click", () => change(button.getAttribute("aria-pressed") !== "true", button));
  return button;
}

// A method's button is in the list of all and at each of its charts; they switch together.
function methodKey(label) {
  const button = key(label, true, on => {
    on ? hidden.delete(label) : hidden.add(label);
    for (const other of document.querySelectorAll(".keys button"))
      if (other.dataset.method === label) other.setAttribute("aria-pressed", on);
    for (const state of figures) if (state.chart.curves.some(curve => curve.label === label)) { draw(state); point(state, null); }
  });
  button.dataset.method = label;
  const {colour, dash} = look(label), sample = element("svg", {viewBox: "0 0 26 10", "aria-hidden": "true"});
  sample.append(element("line", {x1: 0, x2: 26, y1: 5, y2: 5, stroke: colour, "stroke-width": 3, "stroke-dasharray": dash}));
  button.prepend(sample);
  return button;
}

for (const figure of document.querySelectorAll(".chart")) {
  const chart = charts[figure.dataset.chart], axes = {x: chart.logx, y: chart.logy};
  const svg = element("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "application", tabindex: 0,
    "aria-label": `${chart.title}. Arrow keys read out the values.`});
  const value = document.createElement("div"), keys = document.createElement("div");
  value.className = "value";
  value.setAttribute("role", "status");
  keys.className = "keys";
  const state = {chart, axes, svg, value, points: [], chosen: null};
  keys.append(...chart.curves.map(curve => methodKey(curve.label)));
  for (const axis of ["x", "y"]) {
    const button = key(`log ${axis}`, axes[axis], (on, self) => { self.setAttribute("aria-pressed", on); axes[axis] = on; draw(state); });
    button.classList.add("axis");
    keys.append(button);
  }
  svg.addEventListener("pointermove", event => point(state, nearest(state, event)));
  svg.addEventListener("pointerleave", () => point(state, null));
  svg.addEventListener("keydown", event => { if (move(state, event.key)) event.preventDefault(); });
  svg.addEventListener("blur", () => point(state, null));
  figure.append(svg, value, keys);
  figures.push(state);
  draw(state);
}

// Contents: open where there is room for them, with the section in view marked.
const contents = document.getElementById("contents"), wide = matchMedia("(min-width: 75rem)");
const fit = () => { contents.open = wide.matches; };
wide.addEventListener("change", fit);
fit();
contents.addEventListener("click", event => { if (event.target.closest("a") && !wide.matches) contents.open = false; });
const links = new Map([...contents.querySelectorAll("a")].map(link => [link.hash.slice(1), link]));
const inView = new IntersectionObserver(entries => {
  for (const entry of entries) if (entry.isIntersecting) {
    for (const link of links.values()) link.removeAttribute("aria-current");
    links.get(entry.target.id)?.setAttribute("aria-current", "true");
  }
}, {rootMargin: "0px 0px -70% 0px"});
for (const id of links.keys()) { const target = document.getElementById(id); if (target) inView.observe(target); }
const methods = document.getElementById("methods");
if (labels.length) { methods.hidden = false; methods.querySelector(".keys").append(...labels.map(methodKey)); }
