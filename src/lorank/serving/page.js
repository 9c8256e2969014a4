"use strict";
// Every text of the data is put in place as text, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const [rowName, colName, valueName] = data.names;
const columns = new Map(data.columns.map((line, index) => [line.position, {...line, index}]));
const svgNames = "http://www.w3.org/2000/svg";
const svg = (name, attributes, text) => {
  const made = document.createElementNS(svgNames, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
};
const html = (name, attributes = {}, ...parts) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...parts);
  return made;
};
const number = (value, digits = 4) => Math.abs(value) >= 1e4 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential(digits - 3) : String(Number(value.toPrecision(digits)));
// Numbers with as many digits as it takes to tell them apart.
const numbers = (values, digits = 4) => {
  const texts = values.map(value => number(value, digits));
  return new Set(texts).size === new Set(values).size || digits > 8 ? texts : numbers(values, digits + 1);
};
const short = text => text.length > 120 ? text.slice(0, 117) + "…" : text;
const shown = line => short(line.title || line.id);
const column = position => columns.get(position) ?? data.others[position] ?? {id: String(position), title: ""};
for (const [name, text] of [["row-name", rowName], ["col-name", colName]])
  for (const place of document.getElementsByClassName(name)) place.textContent = short(text);

// Look up.
const everything = [
  ...data.rows.map((line, index) => ({kind: "row", index, line, name: rowName})),
  ...data.columns.map((line, index) => ({kind: "col", index, line, name: colName})),
].map(entry => ({...entry, text: `${entry.line.title} ${entry.line.id}`.toLowerCase()}));
const search = document.getElementById("search"), found = document.getElementById("found"), card = document.getElementById("card");
let matches = [], selected = -1;

function look() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  matches = words.length ? everything.filter(entry => words.every(word => entry.text.includes(word))) : [];
  const first = search.value.trim().toLowerCase();
  matches.sort((a, b) => (b.line.id.toLowerCase() === first) - (a.line.id.toLowerCase() === first));
  matches = matches.slice(0, 30);
  selected = matches.length ? 0 : -1;
  listFound();
  if (words.length && !matches.length) found.append(html("li", {role: "option", "aria-disabled": "true"}, "Nothing of that name is on this page."));
}

function listFound() {
  found.replaceChildren(...matches.map((entry, index) => {
    const item = html("li", {role: "option", id: `found-${index}`, "aria-selected": index === selected}, shown(entry.line));
    item.append(" ", html("small", {}, entry.line.title ? `${short(entry.name)} ${short(entry.line.id)}` : short(entry.name)));
    item.addEventListener("click", () => open(entry.kind, entry.index));
    return item;
  }));
  search.setAttribute("aria-expanded", matches.length > 0);
  if (selected >= 0) search.setAttribute("aria-activedescendant", `found-${selected}`);
  else search.removeAttribute("aria-activedescendant");
}

search.addEventListener("input", look);
search.addEventListener("keydown", event => {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    if (!matches.length) return;
    selected = (selected + (event.key === "ArrowDown" ? 1 : matches.length - 1)) % matches.length;
    listFound();
    found.children[selected].scrollIntoView({block: "nearest"});
    event.preventDefault();
  } else if (event.key === "Enter" && selected >= 0) open(matches[selected].kind, matches[selected].index);
  else if (event.key === "Escape") { matches = []; selected = -1; listFound(); }
});

function columnButton(position) {
  const line = column(position), button = html("button", {type: "button"}, html("span", {class: "clip"}, shown(line)));
  if (line.index !== undefined) button.addEventListener("click", () => open("col", line.index));
  else button.disabled = true;
  return button;
}

// A list with a bar for each range, all on one scale.
function listOf(row) {
  const low = Math.min(...row.list.map(item => item.low ?? item.score)), high = Math.max(...row.list.map(item => item.high ?? item.score));
  const place = value => 4 + 292 * (value - low) / (high - low || 1);
  return html("ol", {}, ...row.list.map(item => {
    const line = html("li", {}, columnButton(item.col), " ", html("small", {}, `${valueName} ${number(item.score)}` +
      (item.low === undefined ? "" : `, ${Math.round(100 * data.level)}% between ${number(item.low)} and ${number(item.high)}`)));
    if (item.low !== undefined) {
      const bar = svg("svg", {class: "range", viewBox: "0 0 300 12", "aria-hidden": "true"});
      bar.append(svg("rect", {x: place(item.low), width: Math.max(1, place(item.high) - place(item.low)), y: 3, height: 6, fill: "var(--bar)"}),
        svg("circle", {cx: place(item.score), cy: 6, r: 4, fill: "var(--accent)"}));
      line.append(bar);
    }
    if (item.why.length) {
      const why = html("small", {class: "why"}, "because of ");
      item.why.forEach((position, t) => why.append(t ? ", " : "", shown(column(position))));
      line.append(html("div", {}, why));
    }
    return line;
  }));
}

function open(kind, index) {
  matches = []; selected = -1; listFound();
  const line = kind === "row" ? data.rows[index] : data.columns[index];
  const heading = html("h3", {tabindex: "-1"}, html("span", {class: "clip"}, shown(line)));
  const facts = html("p", {class: "soft"}, `${short(kind === "row" ? rowName : colName)} ${short(line.id)}, ${line.count} entries`);
  card.replaceChildren(heading, facts);
  if (kind === "row") card.append(line.list.length ? listOf(line) : html("p", {}, "Nothing is left to list."));
  else {
    card.append(html("p", {}, "Most like it:"), html("ol", {class: "likes"}, ...(line.like ?? []).map(([other, cosine]) =>
      html("li", {}, columnButton(data.columns[other].position), " ", html("small", {}, `cosine ${cosine}`)))));
    choose(index);
  }
  heading.focus();
}

// The map.
const map = document.querySelector("#map svg"), told = document.querySelector("#map figcaption");
// One unit of the map is a pixel, so that names can be read on a narrow screen too.
let WIDTH, HEIGHT;
function sizeMap() {
  WIDTH = Math.max(300, map.clientWidth || 900);
  HEIGHT = Math.round(WIDTH < 600 ? 1.1 * WIDTH : 0.58 * WIDTH);
  map.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
}
sizeMap();
const places = data.columns.map(line => line.place), view = {x: 0, y: 0, zoom: 1};
let chosen = -1;
const bounds = [0, 1].map(axis => {
  const values = places.map(place => place[axis]);
  return [Math.min(...values), Math.max(...values)];
});
const screen = place => [0, 1].map(axis => {
  const [low, high] = bounds[axis], size = [WIDTH, HEIGHT][axis];
  const at = size / 2 + (size - 40) * ((place[axis] - (low + high) / 2) / (high - low || 1));
  return (at - size / 2 - view[axis ? "y" : "x"]) * view.zoom + size / 2;
});
const most = Math.max(1, ...data.columns.map(line => line.count));
const dots = data.columns.map((line, index) => {
  const dot = svg("circle", {r: 2 + 6 * Math.sqrt(line.count / most)});
  dot.addEventListener("pointerenter", () => { told.textContent = shown(line); });
  dot.addEventListener("click", () => { if (!moved) open("col", index); });
  return dot;
});
const labels = svg("g", {"pointer-events": "none"});
map.append(...dots, labels);
function drawMap() {
  const inside = [];
  data.columns.forEach((line, index) => {
    const [x, y] = screen(line.place);
    dots[index].setAttribute("cx", x.toFixed(1));
    dots[index].setAttribute("cy", y.toFixed(1));
    if (x > 0 && x < WIDTH && y > 0 && y < HEIGHT) inside.push([line, x, y]);
  });
  // Names of the most observed in view, where they do not overlap; left of the point where there is no room to the right.
  const taken = [];
  labels.replaceChildren();
  for (const [line, x, y] of inside.slice(0, 200)) {
    const name = line.title || line.id, text = name.length > 22 ? name.slice(0, 21) + "…" : name;
    const label = svg("text", {y: y + 4}, text);
    labels.append(label);
    const length = label.getComputedTextLength(), start = x + 9 + length < WIDTH ? x + 9 : x - 9 - length;
    if (start < 0 || taken.some(([a, b, end]) => start < end + 8 && a < start + length + 8 && Math.abs(b - y) < 16)) {
      label.remove();
      continue;
    }
    label.setAttribute("x", start.toFixed(1));
    taken.push([start, y, start + length]);
    if (taken.length >= 40) break;
  }
}
function choose(index) {
  if (chosen >= 0) dots[chosen].classList.remove("chosen");
  chosen = index;
  dots[index].classList.add("chosen");
  map.insertBefore(dots[index], labels);
}
function zoom(factor, at = [WIDTH / 2, HEIGHT / 2]) {
  const next = Math.min(60, Math.max(1, view.zoom * factor));
  view.x += (at[0] - WIDTH / 2) * (1 / view.zoom - 1 / next);
  view.y += (at[1] - HEIGHT / 2) * (1 / view.zoom - 1 / next);
  view.zoom = next;
  drawMap();
}
const pointOf = event => {
  const box = map.getBoundingClientRect();
  return [(event.clientX - box.left) * WIDTH / box.width, (event.clientY - box.top) * HEIGHT / box.height];
};
map.addEventListener("wheel", event => { zoom(Math.exp(-event.deltaY / 300), pointOf(event)); event.preventDefault(); }, {passive: false});
let grip = null, moved = false;
map.addEventListener("pointerdown", event => { grip = pointOf(event); moved = false; });
map.addEventListener("pointermove", event => {
  if (!grip) return;
  const at = pointOf(event), [dx, dy] = [at[0] - grip[0], at[1] - grip[1]];
  if (Math.hypot(dx, dy) < 3 && !moved) return;
  moved = true;
  view.x -= dx / view.zoom; view.y -= dy / view.zoom;
  grip = at;
  drawMap();
});
addEventListener("pointerup", () => { grip = null; });
map.addEventListener("keydown", event => {
  const step = 40 / view.zoom, moves = {ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step]};
  if (moves[event.key]) { view.x += moves[event.key][0]; view.y += moves[event.key][1]; drawMap(); }
  else if (event.key === "+" || event.key === "=") zoom(1.4);
  else if (event.key === "-") zoom(1 / 1.4);
  else return;
  event.preventDefault();
});
if (places.length) drawMap();
addEventListener("resize", () => { sizeMap(); if (places.length) drawMap(); });

// Charts.
function chart(title, xlabel, curves, logy) {
  const width = 340, height = 210, left = 62, bottom = 34, all = curves.flatMap(curve => curve.points).filter(p => p[1] !== null && (!logy || p[1] > 0));
  if (!all.length) return;
  const y = value => logy ? Math.log10(value) : value;
  const [x0, x1] = [Math.min(...all.map(p => p[0])), Math.max(...all.map(p => p[0]))];
  let [y0, y1] = [Math.min(...all.map(p => y(p[1]))), Math.max(...all.map(p => y(p[1])))];
  if (y0 === y1) { y0 -= 0.5; y1 += 0.5; }
  const px = value => left + (width - left - 8) * (value - x0) / (x1 - x0 || 1), py = value => 8 + (height - bottom - 8) * (y1 - y(value)) / (y1 - y0);
  const picture = svg("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title});
  const ticks = numbers([0, 1, 2, 3, 4].map(t => y0 + (y1 - y0) * t / 4).map(level => logy ? 10 ** level : level));
  for (let t = 0; t <= 4; t++) {
    const at = 8 + (height - bottom - 8) * (1 - t / 4);
    picture.append(svg("line", {class: "grid", x1: left, x2: width - 8, y1: at, y2: at}),
      svg("text", {x: left - 5, y: at + 4, "text-anchor": "end"}, ticks[t]));
  }
  for (const at of [x0, x1]) picture.append(svg("text", {x: px(at), y: height - bottom + 15, "text-anchor": at === x0 ? "start" : "end"}, number(at)));
  picture.append(svg("text", {x: (left + width) / 2, y: height - 4, "text-anchor": "middle"}, xlabel));
  curves.forEach((curve, index) => {
    const points = curve.points.filter(p => p[1] !== null && (!logy || p[1] > 0)), colour = ["var(--accent)", "#D55E00"][index];
    picture.append(svg("polyline", {fill: "none", stroke: colour, "stroke-width": 2, "stroke-dasharray": index ? "6 3" : "none",
      points: points.map(p => `${px(p[0]).toFixed(1)},${py(p[1]).toFixed(1)}`).join(" ")}));
    for (const p of points.length <= 60 ? points : []) {
      const dot = svg("circle", {cx: px(p[0]), cy: py(p[1]), r: 3, fill: colour});
      dot.append(svg("title", {}, `${number(p[0])}: ${number(p[1])}`));
      picture.append(dot);
    }
  });
  const names = curves.length > 1 ? ` (${curves.map((curve, index) => `${curve.name} ${["—", "- -"][index]}`).join(", ")})` : "";
  document.getElementById("charts").append(html("figure", {class: "chart"}, html("figcaption", {}, title + names), picture));
}
chart("Singular values", "direction", [{points: data.spectrum.map((value, t) => [t + 1, value])}], true);
chart("Objective", "iteration", [{points: data.history.iteration.map((t, i) => [t, data.history.objective[i]])}], true);
chart("Held-out error", "iteration", [{points: data.history.iteration.map((t, i) => [t, data.history.validation[i]])}], false);
chart(`Error by how often seen: half-width of ${Math.round(100 * data.level)}% intervals`, "entries", data.widths.map(own => ({name: own.side, points: own.points})), false);
chart("Calibration: share of held-out errors within a range", "share if errors were normal", data.calibration.map((points, t) => ({name: ["found", "normal"][t], points})), false);

// Trials.
if (data.trials.length) {
  const names = Object.keys(data.trials[0]), trials = document.getElementById("trials");
  trials.hidden = false;
  trials.querySelector(".scroll").append(html("table", {},
    html("thead", {}, html("tr", {}, ...names.map(name => html("th", {scope: "col"}, name)))),
    html("tbody", {}, ...data.trials.map(trial => html("tr", trial.chosen === "True" ? {class: "chosen"} : {}, ...names.map(name => html("td", {}, short(trial[name] ?? ""))))))));
}
const asked = new URLSearchParams(location.hash.slice(1)).get("q");
if (asked) { search.value = asked; look(); }
