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

// Charts.
const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#8C564B", "#BCBD22", "#17BECF"];
const WIDTH = 560, HEIGHT = 340, LEFT = 58, RIGHT = 10, TOP = 10, BOTTOM = 42;

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
  Math.abs(value) >= 1e4 || Math.abs(value) < 1e-3 ? value.toExponential(0) : String(Number(value.toPrecision(4)));

function draw(figure, chart, hidden, axes) {
  const svg = figure.querySelector("svg");
  svg.replaceChildren();
  const alive = chart.curves.map((curve, index) => ({...curve, index})).filter(curve => !hidden.has(curve.index));
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
    const colour = COLOURS[curve.index % COLOURS.length];
    const path = points[i].map(p => `${x.place(p[0]).toFixed(1)},${y.place(p[1]).toFixed(1)}`).join(" ");
    const line = element("polyline", {points: path, fill: "none", stroke: colour, "stroke-width": 1.8,
      "stroke-dasharray": curve.index < COLOURS.length ? "none" : "6 3"});
    line.append(element("title", {}, curve.label));
    svg.append(line);
    if (curve.marked) for (const p of points[i]) {
      const dot = element("circle", {cx: x.place(p[0]), cy: y.place(p[1]), r: 2.6, fill: colour});
      dot.append(element("title", {}, `${curve.label}: ${shown(p[0])}, ${p[1].toPrecision(5)}`));
      svg.append(dot);
    }
  });
}

function key(label, pressed, change) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(label);
  button.setAttribute("aria-pressed", pressed);
  button.addEventListener("click", () => {
    const now = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", now);
    change(now);
  });
  return button;
}

const charts = JSON.parse(document.getElementById("data").textContent);
for (const figure of document.querySelectorAll(".chart")) {
  const chart = charts[figure.dataset.chart], hidden = new Set(), axes = {x: chart.logx, y: chart.logy};
  const redraw = () => draw(figure, chart, hidden, axes);
  const caption = document.createElement("figcaption");
  caption.textContent = chart.title;
  const keys = document.createElement("div");
  keys.className = "keys";
  chart.curves.forEach((curve, index) => {
    const button = key(curve.label, true, on => { on ? hidden.delete(index) : hidden.add(index); redraw(); });
    const colour = document.createElement("i");
    colour.style.background = COLOURS[index % COLOURS.length];
    button.prepend(colour);
    keys.append(button);
  });
  for (const axis of ["x", "y"]) {
    const button = key(`log ${axis}`, axes[axis], on => { axes[axis] = on; redraw(); });
    button.classList.add("axis");
    keys.append(button);
  }
  figure.append(caption, element("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": chart.title}), keys);
  redraw();
}
