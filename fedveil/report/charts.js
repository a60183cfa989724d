"use strict";
// The page's charts. Every string from the data reaches Plotly escaped; every chart has a table beside it.

const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\$/g, "&#36;");
const cut = (text, most = 26) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
const digits = (value, n = 3) => (value === null || value === undefined ? "missing" : value.toFixed(n).replace("-", "−"));
const withInterval = (e) => (e ? `${digits(e[0])} [${digits(e[1])}, ${digits(e[2])}]` : "missing");
const bars = (es, colour) => ({
  type: "data", symmetric: false, array: es.map((e) => e[2] - e[0]), arrayminus: es.map((e) => e[0] - e[1]),
  color: colour, thickness: 1, width: 0,
});

function paper() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue("--" + name).trim();
  const dark = !printing && (document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  return {
    dark, ink: of("ink"), muted: of("muted"), grid: of("grid"), paper: of("paper"), proved: of("proved"), strong: of("strong"),
    link: of("link"), family: getComputedStyle(document.body).fontFamily,
  };
}

let printing = false;
const narrow = () => document.body.clientWidth < 560;
const colourOf = (mark, look) => (look.dark ? mark.dark : mark.light);
const OPTIONS = { displayModeBar: false, responsive: true, scrollZoom: false, showTips: false };

function layoutOf(look, more) {
  const axis = {
    gridcolor: look.grid, zeroline: false, linecolor: look.muted, tickcolor: look.muted, ticks: "outside", ticklen: 4,
    tickfont: { color: look.muted, size: 12 }, automargin: true, fixedrange: true,
  };
  const title = (text) => ({ text, font: { color: look.ink, size: 13 }, standoff: 8 });
  const layout = Object.assign({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { family: look.family, color: look.ink, size: 12 },
    showlegend: false, hovermode: "closest", dragmode: false, margin: { l: 56, r: 12, t: 12, b: 44 },
    hoverlabel: { bgcolor: look.paper, bordercolor: look.muted, font: { color: look.ink, family: look.family, size: 13 }, align: "left" },
  }, more);
  layout.xaxis = Object.assign({}, axis, more.xaxis);
  layout.yaxis = Object.assign({}, axis, more.yaxis);
  if (more.xaxis && more.xaxis.title) layout.xaxis.title = title(more.xaxis.title);
  if (more.yaxis && more.yaxis.title) layout.yaxis.title = title(more.yaxis.title);
  if (printing) layout.width = Math.min(PRINT_WIDTH, layout.width || PRINT_WIDTH);
  return layout;
}
const PRINT_WIDTH = 660;
const MANY = 120; // with more settings than this, error bars are only in the table

function draw(id, traces, layout) {
  const node = document.getElementById(id);
  if (node.dataset.note) { node.replaceChildren(); delete node.dataset.note; }
  return Plotly.react(node, traces, layout, OPTIONS);
}

function note(id, text) {
  const node = document.getElementById(id);
  if (node.data) Plotly.purge(node);
  node.dataset.note = "yes";
  node.style.height = "";
  node.removeAttribute("role");
  node.removeAttribute("aria-label");
  node.replaceChildren(el("p", { class: "empty" }, text));
}

// The frontier ---------------------------------------------------------------------------------------------------

function line(x, y, look, dash) {
  return { type: "line", xref: x === null ? "paper" : "x", yref: y === null ? "paper" : "y",
    x0: x === null ? 0 : x, x1: x === null ? 1 : x, y0: y === null ? 0 : y, y1: y === null ? 1 : y,
    line: { color: look.muted, width: 1.2, dash }, layer: "between" };
}

function settingHover(index) {
  const view = currentView(), point = view.points[index], setting = DATA.settings[index];
  const lines = [`<b>${plain(setting.label)}</b>`,
    `leakage ${withInterval(point.leakage)}, read by ${plain(point.attacker)}`, `utility ${withInterval(point.utility)}`,
    `${point.each.length} ${point.each.length === 1 ? "cell" : "cells"}: seed ${point.each.map((e) => e[0]).join(", ")}`];
  if (view.cotrained[index]) lines.push(`co-trained adversary: ${withInterval(view.cotrained[index])}`);
  if (view.bounds[index] !== null) lines.push(`CERTIFIED ≤ ${upwards(view.bounds[index])}${broken(index).length ? ", CONTRADICTED" : ""}`);
  if (view.missing[index]) lines.push(`missing: ${plain(cut(view.missing[index], 60))}`);
  return lines.join("<br>");
}

function drawFrontier() {
  const view = currentView(), look = paper();
  const drawn = DATA.settings.map((s, i) => i).filter((i) => view && view.points[i]);
  if (!drawn.length) return note("frontier", "No setting has figures for this task and attribute yet.");
  document.getElementById("frontier").style.height = "";
  const traces = [], many = drawn.length > MANY;
  // The front was chosen on validation; points that are dominated on the test are not part of the stairs.
  let top = -Infinity;
  const stairs = view.front.map((i) => view.points[i]).filter((p) => p.utility[0] > top && ((top = p.utility[0]), true));
  const reach = Math.max(...drawn.map((i) => view.points[i].leakage[2]), ...view.bounds.filter((b) => b !== null));
  const front = { x: [...stairs.map((p) => p.leakage[0]), reach], y: [...stairs.map((p) => p.utility[0]), stairs.length ? stairs[stairs.length - 1].utility[0] : null],
    mode: "lines", line: { shape: "hv", color: look.strong, width: 1.6 }, opacity: 0.75, hoverinfo: "skip", name: "front" };
  if (!many) traces.push(front);
  DATA.methods.forEach((mark, m) => {
    const mine = drawn.filter((i) => DATA.settings[i].method === m).sort((a, b) => (DATA.settings[a].strength ?? 0) - (DATA.settings[b].strength ?? 0));
    if (!mine.length) return;
    const points = mine.map((i) => view.points[i]), colour = colourOf(mark, look);
    traces.push({ x: points.map((p) => p.leakage[0]), y: points.map((p) => p.utility[0]), customdata: mine, mode: "lines+markers",
      ...(many ? {} : { error_x: bars(points.map((p) => p.leakage), colour), error_y: bars(points.map((p) => p.utility), colour) }),
      line: { color: colour, width: 1, dash: "dot" }, opacity: many ? 0.8 : 1,
      marker: { color: colour, symbol: mark.symbol, size: many ? 7 : 11, opacity: 1, line: { width: 1, color: look.paper } },
      hoverinfo: "text", hovertext: mine.map(settingHover), name: plain(mark.name) });
  });
  const proved = drawn.filter((i) => view.bounds[i] !== null);
  const apart = { x: [], y: [] };
  proved.forEach((i) => {
    const p = view.points[i];
    apart.x.push(p.leakage[0], view.bounds[i], null);
    apart.y.push(p.utility[0], p.utility[0], null);
  });
  if (!many) traces.push({ ...apart, mode: "lines", line: { color: look.proved, width: 1, dash: "dot" }, hoverinfo: "skip", opacity: 0.7 });
  traces.push({ x: proved.map((i) => view.bounds[i]), y: proved.map((i) => view.points[i].utility[0]), customdata: proved, mode: "markers",
    marker: { symbol: "line-ns-open", size: many ? 12 : 20, color: look.proved, line: { width: many ? 2 : 4, color: look.proved } }, hoverinfo: "text",
    hovertext: proved.map(settingHover), name: "certified" });
  if (many) traces.push(front);
  traces.push({ x: [], y: [], mode: "markers", marker: { symbol: "circle-open", size: 6, color: look.strong, line: { width: 1.2 } }, hoverinfo: "skip", name: "seeds" });
  traces.push({ x: [], y: [], mode: "markers", marker: { symbol: "circle-open", size: 24, color: look.link, line: { width: 2.5 } }, hoverinfo: "skip", name: "selected" });
  const shapes = [line(view.chance, null, look, "dash"), line(null, view.utility_prior, look, "dash")];
  const label = (text, more) => Object.assign({ text, showarrow: false, font: { size: 12, color: look.muted }, borderpad: 1 }, more);
  const notes = [
    label(`guessing ${digits(view.chance, 2)}`, { x: view.chance, y: 1, yref: "paper", yanchor: "bottom", xanchor: "left", xshift: -4 }),
    label(narrow() ? `guessing ${digits(view.utility_prior, 2)}` : `guessing the task ${digits(view.utility_prior, 2)}`,
      { x: 0.5, xref: "paper", y: view.utility_prior, xanchor: "center", yanchor: "top" }),
  ];
  if (view.floor) {
    shapes.push(line(view.floor[0], null, look, "dot"));
    notes.push(label(`floor: the task's label alone ${digits(view.floor[0], 2)}`, { x: view.floor[0], y: 1, yref: "paper", yanchor: "bottom", xanchor: "left", xshift: -4, yshift: 16 }));
  }
  const low = Math.min(view.chance, ...drawn.map((i) => view.points[i].leakage[1])), room = Math.max(reach - low, 0.02) * 0.05;
  const us = drawn.flatMap((i) => view.points[i].utility).concat(view.utility_prior);
  const tall = Math.max(Math.max(...us) - Math.min(...us), 0.02) * 0.07;
  const done = draw("frontier", traces, layoutOf(look, {
    margin: { l: 60, r: 14, t: view.floor ? 42 : 26, b: 50 }, shapes, annotations: notes, height: printing ? 430 : undefined,
    xaxis: { title: narrow() ? "leakage (balanced accuracy) → worse" : `leakage: balanced accuracy of reading ${plain(cut(attributeName(), 30))} → worse`, showgrid: false, range: [low - room, reach + room], nticks: narrow() ? 5 : 9 },
    yaxis: { title: `utility: accuracy of ${plain(cut(taskName(), 24))} → better`, range: [Math.min(...us) - tall, Math.max(...us) + tall] },
  }));
  const node = document.getElementById("frontier");
  if (!node.dataset.wired) {
    node.dataset.wired = "yes";
    node.on("plotly_click", (event) => {
      const hit = event.points.find((p) => p.customdata !== undefined);
      if (hit) select(hit.customdata);
    });
  }
  markSelected();
  return done;
}

function markSelected() {
  const node = document.getElementById("frontier"), view = currentView();
  if (!node.data || node.dataset.note) return;
  const point = view.points[state.setting], last = node.data.length - 1;
  Plotly.restyle(node, {
    x: [point && point.each.length > 1 ? point.each.map((e) => e[1]) : [], point ? [point.leakage[0]] : []],
    y: [point && point.each.length > 1 ? point.each.map((e) => e[2]) : [], point ? [point.utility[0]] : []],
  }, [last - 1, last]);
}

// Attackers, groups ----------------------------------------------------------------------------------------------

function dots(id, names, series, look, more) {
  // Rows of dots with error bars; each item of `series` is {figures, mark…}, with a figure or null for each name.
  const node = document.getElementById(id);
  const wide = narrow() ? 15 : 30;
  const rows = names.map((_, i) => names.length - 1 - i);
  const spread = series.length > 1 ? 0.16 : 0;
  const traces = series.map((one, s) => {
    const at = rows.map((_, i) => i).filter((i) => one.figures[i]);
    const es = at.map((i) => one.figures[i]);
    return { x: es.map((e) => e[0]), y: at.map((i) => rows[i] + spread * (series.length - 1) / 2 - spread * s), mode: "markers",
      error_x: Object.assign(bars(es, one.colour), { thickness: 1.5 }), hoverinfo: "text",
      hovertext: at.map((i) => `<b>${plain(names[i])}</b><br>${plain(one.name)}: ${withInterval(es[at.indexOf(i)])}`),
      marker: { color: one.colours ? at.map((i) => one.colours[i]) : one.colour, symbol: one.symbols ? at.map((i) => one.symbols[i]) : one.symbol, size: 11, line: { width: 1.6, color: one.colour } } };
  });
  const height = Math.max(150, 92 + names.length * (series.length > 1 ? 40 : 34));
  node.style.height = height + "px";
  node.setAttribute("role", "img");
  return draw(id, traces, layoutOf(look, Object.assign({ height, margin: { l: 40, r: 16, t: 30, b: 46 } }, more, {
    yaxis: { tickvals: rows, ticktext: names.map((n) => plain(cut(n, wide))), range: [-0.7, names.length - 0.3], showgrid: true, ticks: "", tickfont: { color: look.ink, size: 12.5 } },
  })));
}

function vertical(value, text, look, colour, width, dash, shift) {
  return {
    shape: { type: "line", x0: value, x1: value, y0: 0, y1: 1, yref: "paper", line: { color: colour, width, dash }, layer: "between" },
    note: { x: value, y: 1, yref: "paper", yanchor: "bottom", xanchor: shift || "center", text, showarrow: false, font: { size: 12, color: colour } },
  };
}

function drawAttackers() {
  const attackers = DATA.attackers[state.attribute]?.[state.setting] || [], view = currentView(), look = paper();
  if (!attackers.length) return note("attackers", "This setting has no attackers' figures: " + reasonMissing());
  const names = attackers.map((a) => (a.cotrained ? (/co-?trained/i.test(a.name) ? a.name : `${a.name} (co-trained)`) : a.name));
  const mark = DATA.methods[DATA.settings[state.setting].method], colour = colourOf(mark, look);
  const lines = [];
  if (view && view.chance !== undefined) lines.push(vertical(view.chance, `guessing ${digits(view.chance, 2)}`, look, look.muted, 1.2, "dash", "left"));
  const limit = view ? view.bounds[state.setting] : null;
  if (limit !== null) lines.push(vertical(limit, `CERTIFIED ≤ ${upwards(limit)}`, look, look.proved, 4, "solid", "right"));
  const es = attackers.map((a) => a.balanced_accuracy).filter(Boolean);
  const low = Math.min(...es.map((e) => e[1]), view?.chance ?? 1), high = Math.max(...es.map((e) => e[2]), limit ?? 0, low + 0.05);
  document.getElementById("attackers").setAttribute("aria-label", "Balanced accuracy of each attacker: " + attackers.map((a, i) => `${names[i]} ${digits(a.balanced_accuracy && a.balanced_accuracy[0])}`).join(", "));
  return dots("attackers", names, [{
    name: "balanced accuracy", figures: attackers.map((a) => a.balanced_accuracy), colour,
    colours: attackers.map((a) => (a.cotrained || a.kind === "decensoring-control" ? look.paper : colour)),
    symbols: attackers.map((a) => (a.cotrained ? "diamond" : a.kind.startsWith("decensoring") ? "square" : "circle")),
  }], look, { shapes: lines.map((l) => l.shape), annotations: lines.map((l) => l.note),
    xaxis: { title: "balanced accuracy → reads more", showgrid: false, range: [low - 0.02, high + 0.02], nticks: narrow() ? 5 : 9 } });
}

function drawGroups() {
  const groups = DATA.groups[state.task]?.[state.attribute], look = paper(), free = DATA.free?.[state.task]?.[state.attribute];
  const mine = groups && groups.settings[state.setting];
  if (!mine || !mine.some(Boolean)) return note("groups", "This setting has no utility by group: " + reasonMissing());
  const mark = DATA.methods[DATA.settings[state.setting].method], series = [];
  if (free !== null && free !== undefined && free !== state.setting && groups.settings[free])
    series.push({ name: DATA.settings[free].label, figures: groups.settings[free], colour: look.muted, symbol: "x-thin-open" });
  series.push({ name: DATA.settings[state.setting].label, figures: mine, colour: colourOf(mark, look), symbol: mark.symbol });
  document.getElementById("groups").setAttribute("aria-label", "Accuracy by group: " + groups.values.map((v, i) => `${v} ${withInterval(mine[i])}`).join(", "));
  return dots("groups", groups.values, series, look, { margin: { l: 40, r: 16, t: 12, b: 46 }, xaxis: { title: `accuracy of ${plain(cut(taskName(), 30))}`, nticks: narrow() ? 5 : 9 } });
}

// Losses, maps ---------------------------------------------------------------------------------------------------

const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];

function drawLosses() {
  const runs = DATA.losses[state.setting], look = paper(), legend = document.getElementById("losses-legend");
  legend.replaceChildren();
  if (!runs || !runs.some((run) => run.curves.length)) return note("losses", "No losses are recorded for this setting: it was not trained, or is not finished.");
  const names = [...new Set(runs.flatMap((run) => run.curves.map((c) => c.name)))];
  const palette = DATA.palette.map((pair) => (look.dark ? pair[1] : pair[0]));
  const traces = runs.flatMap((run) => run.curves.map((c) => {
    const n = names.indexOf(c.name);
    return { x: c.x, y: c.y, mode: c.x.length > 1 ? "lines" : "markers", line: { color: palette[n % palette.length], width: 1.8, dash: DASHES[n % DASHES.length] }, hoverinfo: "text",
      hovertext: c.x.map((x, i) => `${plain(c.name)}, seed ${run.seed}<br>round ${x}: ${c.y[i] === null ? "missing" : c.y[i].toPrecision(4)}`) };
  }));
  names.forEach((name, n) => legend.append(el("li", {}, dashMark(palette[n % palette.length], DASHES[n % DASHES.length]), el("bdi", {}, name))));
  const node = document.getElementById("losses");
  node.style.height = "20rem";
  node.setAttribute("role", "img");
  node.setAttribute("aria-label", `Losses by round: ${names.join(", ")}, ${runs.length} seeds. The table below has them.`);
  return draw("losses", traces, layoutOf(look, { height: 320, xaxis: { title: "round", rangemode: "tozero" }, yaxis: { title: "loss" } }));
}

function drawMaps() {
  const map = DATA.maps.released[state.setting], look = paper(), legend = document.getElementById("maps-legend");
  legend.replaceChildren();
  const seed = map ? map.seed : DATA.maps.first, raw = DATA.maps.raw[seed], codes = (raw || map || {}).codes;
  const values = codes ? DATA.maps.values[state.attribute] : [];
  const marks = values.map((_, v) => DATA.value_marks[v % DATA.value_marks.length]);
  const one = (id, places, what) => {
    if (!places) return note(id, what === "r" ? noMap() : "The raw inputs of these people are not stored.");
    const node = document.getElementById(id), held = codes[state.attribute] || [];
    node.style.height = "19rem";
    node.setAttribute("role", "img");
    node.setAttribute("aria-label", `Map of ${places[0].length} people by ${what}, marked by ${attributeName()}; the table below shows how often neighbours share a value.`);
    const traces = values.map((value, v) => {
      const who = places[0].map((_, i) => i).filter((i) => held[i] === v);
      return { x: who.map((i) => places[0][i]), y: who.map((i) => places[1][i]), mode: "markers", hoverinfo: "text", hovertext: who.map(() => plain(value)),
        marker: { color: colourOf(marks[v], look), symbol: marks[v].symbol, size: 6, opacity: 0.8 } };
    });
    const hidden = { visible: false, range: [-40, 1040] };
    return draw(id, traces, layoutOf(look, { height: 304, width: printing ? PRINT_WIDTH / 2 - 12 : undefined, margin: { l: 4, r: 4, t: 4, b: 4 }, xaxis: hidden, yaxis: { ...hidden } }));
  };
  one("map-raw", raw && raw.places, "x");
  one("map-released", map && map.places, "r");
  if (raw || map) values.forEach((value, v) => legend.append(el("li", {}, symbolMark(marks[v]), el("bdi", {}, value))));
}
