"use strict";
// The page: one state (task, attribute, setting), drawn everywhere. Text from the data is set as text, never as markup.

const DATA = unpack(JSON.parse(document.getElementById("data").textContent));

function unpack(data) {
  // The other half of pack.py.
  const word = (index) => data.strings[index];
  for (const view of data.views.flat()) view.points = view.points.map((p) => p && { utility: p[0], leakage: p[1], attacker: word(p[2]), bits: p[3], each: p[4], newSeed: p[5] ?? null });
  data.attackers = data.attackers.map((settings) => settings.map((each) => each.map((a) => ({
    name: word(a[0]), kind: word(a[1]), cotrained: word(a[1]) === "cotrained", chosen: a[2], balanced_accuracy: a[3], auc: a[4] ?? null, bits: a[5] ?? null, brief: a.length < 5 }))));
  data.losses = data.losses.map((runs) => runs.map(([seed, curves]) => ({ seed, curves: curves.map((c) => ({ name: word(c[0]), x: data.rounds[c[1]], y: c[2] })) })));
  data.certificates = data.certificates.map((settings) => settings.map((each) => each.map((c) => ({ quantity: word(c[0]), sign: c[1], bound: c[2], confidence: c[3],
    assumptions: c[4].map((pair) => pair.map(word)), not_covered: c[5].map(word), method: word(c[6]) }))));
  for (const one of data.theory.flat()) if (one) one.settings = one.settings.map((each) => each && Object.fromEntries(data.theorems.map((key, k) => [key, each[k]])));
  return data;
}

const state = { task: 0, attribute: 0, setting: 0, sort: null };
const byId = (id) => document.getElementById(id);
const currentView = () => DATA.views[state.task]?.[state.attribute];
const taskName = () => DATA.tasks[state.task] ?? "no task";
const attributeName = () => DATA.attributes[state.attribute] ?? "no attribute";
const broken = (setting) => DATA.contradictions[state.attribute]?.[setting] || [];
const upwards = (bound) => (Math.ceil(Math.round(bound * 1e7) / 1e4 - 1e-9) / 1000).toFixed(3);

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// Marks ----------------------------------------------------------------------------------------------------------

const corners = (n, r, turn = 0) => Array.from({ length: n }, (_, i) => { const a = turn + (2 * Math.PI * i) / n - Math.PI / 2; return [8 + r * Math.cos(a), 8 + r * Math.sin(a)]; });
const SHAPES = {
  square: () => corners(4, 8.5, Math.PI / 4), diamond: () => corners(4, 8), "diamond-wide": () => [[8, 3], [16, 8], [8, 13], [0, 8]],
  "triangle-up": () => corners(3, 8), "triangle-down": () => corners(3, 8, Math.PI), "triangle-left": () => corners(3, 8, -Math.PI / 2), "triangle-right": () => corners(3, 8, Math.PI / 2),
  pentagon: () => corners(5, 7.5), hexagon: () => corners(6, 7.5), octagon: () => corners(8, 7.5), hourglass: () => [[2, 1], [14, 1], [2, 15], [14, 15]],
  star: () => corners(10, 8).map((p, i) => (i % 2 ? [8 + (p[0] - 8) * 0.42, 8 + (p[1] - 8) * 0.42] : p)),
  cross: () => [[5.5, 1], [10.5, 1], [10.5, 5.5], [15, 5.5], [15, 10.5], [10.5, 10.5], [10.5, 15], [5.5, 15], [5.5, 10.5], [1, 10.5], [1, 5.5], [5.5, 5.5]],
  x: () => [[4.5, 1], [8, 4.5], [11.5, 1], [15, 4.5], [11.5, 8], [15, 11.5], [11.5, 15], [8, 11.5], [4.5, 15], [1, 11.5], [4.5, 8], [1, 4.5]],
};

function svg(inner) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  node.setAttribute("viewBox", "0 0 16 16");
  node.setAttribute("class", "mark");
  node.setAttribute("aria-hidden", "true");
  const shape = document.createElementNS("http://www.w3.org/2000/svg", inner.tag);
  for (const [name, value] of Object.entries(inner)) if (name !== "tag") shape.setAttribute(name, value);
  node.append(shape);
  return node;
}
const symbolMark = (mark) => {
  const fill = colourOf(mark, paper());
  const node = mark.symbol === "circle" ? svg({ tag: "circle", cx: 8, cy: 8, r: 6.5, fill }) : svg({ tag: "polygon", points: (SHAPES[mark.symbol] || SHAPES.square)().map((p) => p.join(",")).join(" "), fill });
  node.dataset.light = mark.light; node.dataset.dark = mark.dark;
  return node;
};
const dashMark = (stroke, dash) => svg({ tag: "line", x1: -3, x2: 19, y1: 8, y2: 8, stroke, "stroke-width": 2.5, "stroke-dasharray": { solid: "", dash: "7 4", dot: "2 3", dashdot: "7 3 2 3", longdash: "11 3", longdashdot: "11 3 2 3" }[dash] });
function recolourMarks() {
  const dark = paper().dark;
  for (const node of document.querySelectorAll("svg.mark[data-light]")) node.firstChild.setAttribute("fill", dark ? node.dataset.dark : node.dataset.light);
}

// Tables ---------------------------------------------------------------------------------------------------------

const name = (text) => el("bdi", {}, text);
const interval = (e) => (e ? [digits(e[0]) + " ", el("span", { class: "interval" }, `[${digits(e[1])}, ${digits(e[2])}]`)] : [el("span", { class: "missing" }, "missing")]);
const figureCell = (e) => el("td", { class: "number" }, ...interval(e));

function fill(id, head, rows) {
  byId(id).replaceChildren(
    el("thead", {}, el("tr", {}, ...head.map((h, i) => el("th", { scope: "col", class: i && h.number ? "number" : null }, h.text ?? h)))),
    el("tbody", {}, ...rows.map((cells) => el("tr", {}, ...cells))));
}
const numbered = (text) => ({ text, number: true });

const COLUMNS = [
  { text: "Setting", key: (i) => i },
  { text: "Leakage", number: true, key: (i, v) => v.points[i]?.leakage[0] ?? null },
  { text: "Another seed", number: true, key: (i, v) => v.points[i]?.newSeed?.[2] ?? null },
  { text: "Attacker", key: (i, v) => v.points[i]?.attacker ?? null },
  { text: "Co-trained", number: true, key: (i, v) => v.cotrained[i]?.[0] ?? null },
  { text: "Utility", number: true, key: (i, v) => v.points[i]?.utility[0] ?? null },
  { text: "Certified", key: (i, v) => v.bounds[i] },
  { text: "Front", key: (i, v) => (v.front.includes(i) ? 0 : 1) },
  { text: "Cells", number: true, key: (i, v) => v.points[i]?.each.length ?? 0 },
];
let tableRows = [];

const newSeedCell = (point) => (point?.newSeed ? el("td", { class: "number" }, el("span", { class: "interval" }, `[${digits(point.newSeed[1])}, ${digits(point.newSeed[2])}]`)) : el("td", { class: "number" }, "–"));

function buildTable() {
  const view = currentView(), table = byId("settings");
  table.tHead.replaceChildren(el("tr", {}, ...COLUMNS.map((column, c) => {
    const button = el("button", { type: "button" }, column.text);
    button.addEventListener("click", () => sortBy(c));
    return el("th", { scope: "col", class: column.number ? "number" : null, "aria-sort": "none" }, button);
  })));
  tableRows = DATA.settings.map((setting, i) => {
    const point = view?.points[i], why = view?.missing[i], all = setting.cells.length;
    const pick = el("button", { type: "button", class: "pick" }, symbolMark(DATA.methods[setting.method]), name(setting.label));
    const limit = view?.bounds[i] ?? null;
    const row = el("tr", { "data-setting": i, "aria-current": "false" },
      el("td", {}, pick, ...(why ? [el("div", { class: "missing why" }, why)] : [])),
      figureCell(point?.leakage), newSeedCell(point), el("td", {}, name(point?.attacker ?? "")),
      view?.cotrained[i] ? figureCell(view.cotrained[i]) : el("td", { class: "number" }, "–"),
      figureCell(point?.utility),
      el("td", {}, limit === null ? "–" : el("span", { class: broken(i).length ? "badge contradicted" : "badge" }, `≤ ${upwards(limit)}${broken(i).length ? " contradicted" : ""}`)),
      el("td", {}, view?.front.includes(i) ? "yes" : "–"),
      el("td", { class: "number" }, `${point ? point.each.length : 0} of ${all}`));
    row.addEventListener("click", () => select(i));
    return row;
  });
  table.tBodies[0].replaceChildren(...tableRows);
  if (state.sort) applySort();
}

function sortBy(column) {
  const same = state.sort && state.sort.column === column;
  state.sort = { column, down: same ? !state.sort.down : COLUMNS[column].text === "Utility" };
  applySort();
}

function applySort() {
  const view = currentView(), { column, down } = state.sort;
  const keyed = tableRows.map((row, i) => [view ? COLUMNS[column].key(i, view) : i, i, row]);
  keyed.sort(([a, i], [b, j]) => {
    if (a === null || b === null) return a === b ? i - j : a === null ? 1 : -1; // what is missing stays last
    const order = typeof a === "string" ? a.localeCompare(b) : a - b;
    return (down ? -order : order) || i - j;
  });
  byId("settings").tBodies[0].replaceChildren(...keyed.map((k) => k[2]));
  [...byId("settings").tHead.rows[0].cells].forEach((th, c) => th.setAttribute("aria-sort", c === column ? (down ? "descending" : "ascending") : "none"));
}

// What is about the selected setting -----------------------------------------------------------------------------

const reasonMissing = () => currentView()?.missing[state.setting] || "it is not finished.";
const noMap = () => (DATA.settings[state.setting].cells.some((c) => c.state === "finished")
  ? "No map was made of this setting: there are maps of the front and of one setting of each method. Select one of these."
  : "No map: " + reasonMissing());

const KINDS = { retrained: "retrained", cotrained: "co-trained with the defence", decensoring: "undoes the censoring first; beside the panel",
  "decensoring-control": "control of de-censoring: same size, without that step" };

function aboutSelected() {
  const i = state.setting, setting = DATA.settings[i], view = currentView(), here = () => el("strong", {}, name(setting.label));
  byId("attackers-lead").replaceChildren(here(), ": what each attacker, trained afterwards on what was released, reads about ", name(attributeName()),
    ". A hollow diamond is the adversary trained along with the defence: weak evidence, shown for comparison.",
    (DATA.attackers[state.attribute]?.[i] || []).some((a) => a.kind === "decensoring") ? " A square first undoes the censoring, then reads; the hollow square is its control, a network of the same size without that step." : "");
  fill("attackers-table", ["Attacker", numbered("Balanced accuracy"), numbered("AUC"), numbered("Information (bits)"), "Kind"],
    (DATA.attackers[state.attribute]?.[i] || []).map((a) => [el("th", { scope: "row" }, name(a.name)), figureCell(a.balanced_accuracy), figureCell(a.auc), figureCell(a.bits),
      el("td", {}, `${a.name.endsWith("(fresh people)") ? "learned from fresh people" : KINDS[a.kind]}${a.chosen ? "; the strongest, so it counts" : ""}`)]));
  byId("maps-lead").replaceChildren(here(), ": t-SNE of test people, marked by ", name(attributeName()), ". Clusters of one mark show that the attribute can be read; mixed marks prove nothing, since attackers may read what no map shows.");
  byId("losses-lead").replaceChildren(here(), ": mean losses of the devices, one line per seed.");
  lossesTable(i);
  const groups = DATA.groups[state.task]?.[state.attribute], free = DATA.free?.[state.task]?.[state.attribute] ?? null;
  byId("groups-lead").replaceChildren(here(), ": who pays? Accuracy of ", name(taskName()), " for each value of ", name(attributeName()),
    free !== null && free !== i ? "; thin grey crosses are the release without a defence." : ".");
  fill("groups-table", [attributeName(), numbered("This setting"), numbered("Without a defence")],
    (groups?.values || []).map((value, v) => [el("th", { scope: "row" }, name(value)), figureCell(groups.settings[i]?.[v]), figureCell(free === null ? null : groups.settings[free]?.[v])]));
  mapsTable(i);
  certificates(i, view);
}

function lossesTable(i) {
  const runs = DATA.losses[i] || [], curves = runs.flatMap((run) => run.curves.map((c) => ({ ...c, seed: run.seed })));
  const all = [...new Set(curves.flatMap((c) => c.x))].sort((a, b) => a - b);
  const step = Math.max(1, Math.ceil(all.length / 12)), rounds = all.filter((_, k) => k % step === 0 || k === all.length - 1);
  fill("losses-table", ["Round", ...curves.map((c) => numbered(`${c.name}, seed ${c.seed}`))],
    rounds.map((r) => [el("th", { scope: "row" }, String(r)), ...curves.map((c) => { const y = c.y[c.x.indexOf(r)]; return el("td", { class: "number" }, y === null || y === undefined ? "–" : y.toPrecision(4)); })]));
}

function neighbours(places, codes) {
  // The share of people whose nearest neighbour on the map has the same value.
  let same = 0, counted = 0;
  for (let a = 0; a < places[0].length; a++) {
    if (codes[a] < 0) continue;
    let best = -1, near = Infinity;
    for (let b = 0; b < places[0].length; b++) {
      if (a === b || codes[b] < 0) continue;
      const d = (places[0][a] - places[0][b]) ** 2 + (places[1][a] - places[1][b]) ** 2;
      if (d < near) { near = d; best = b; }
    }
    if (best >= 0) { counted++; if (codes[a] === codes[best]) same++; }
  }
  return counted ? same / counted : null;
}

function mapsTable(i) {
  const map = DATA.maps.released[i], raw = DATA.maps.raw[map ? map.seed : DATA.maps.first], codes = (raw || map || {}).codes?.[state.attribute];
  if (!codes) return fill("maps-table", ["No map"], []);
  const values = DATA.maps.values[state.attribute], counts = values.map((_, v) => codes.filter((c) => c === v).length), n = counts.reduce((a, b) => a + b, 0);
  const mixed = n > 1 ? counts.reduce((sum, c) => sum + c * (c - 1), 0) / (n * (n - 1)) : null;
  const share = (value) => el("td", { class: "number" }, value === null ? "missing" : digits(value, 2));
  fill("maps-table", ["", numbered("Figure")], [
    ...values.map((value, v) => [el("th", { scope: "row" }, "People: ", name(value)), el("td", { class: "number" }, String(counts[v]))]),
    [el("th", { scope: "row" }, "Nearest neighbour has the same value, raw inputs"), share(raw ? neighbours(raw.places, codes) : null)],
    [el("th", { scope: "row" }, "Nearest neighbour has the same value, released"), share(map ? neighbours(map.places, codes) : null)],
    [el("th", { scope: "row" }, "The same, if values were mixed at random"), share(mixed)],
  ]);
}

const contradiction = ([quantity, bound, attacker, seed, read]) => el("p", { class: "contradiction", role: "alert" }, el("strong", {}, "CONTRADICTED "), "by ", name(attacker), `, seed ${seed}, who reads ${quantity} ${withInterval(read)}: the lower end exceeds the bound. The certificate, one of its assumptions, or the run is wrong.`);

function certificates(i, view) {
  const stated = DATA.certificates[state.attribute]?.[i] || [], setting = DATA.settings[i], point = view?.points[i];
  const left = el("div", {}, el("h3", {}, "Proved about ", name(setting.label)));
  for (const c of stated) {
    const facts = el("dl", {});
    for (const [key, value] of c.assumptions) facts.append(el("dt", {}, name(key)), el("dd", {}, name(value)));
    left.append(el("div", { class: "certificate" },
      el("p", { class: "bound" }, `CERTIFIED ${c.quantity} ${c.sign} ${c.bound}`, c.confidence === null ? "" : ` with confidence ${c.confidence}`),
      ...broken(i).filter((b) => b[0] === c.quantity && c.sign === "≤").map(contradiction),
      el("details", {}, el("summary", {}, "What it assumes, and what it does not cover"), facts, el("p", {}, "Does not cover: ", c.not_covered.join("; ") || "nothing named", "."),
        el("p", {}, c.method))));
  }
  if (!stated.length) left.append(el("p", { class: "empty" }, "Nothing is proved about this setting."));
  if (setting.spent) left.append(el("div", { class: "estimate spent" }, el("p", { class: "bound" }, `Spent on updates: ${setting.spent}`),
    el("p", {}, "Differential privacy of the updates of the device that sent most often. It covers updates, not the representations or outputs that are released afterwards.")));
  const right = el("div", {}, el("h3", {}, "Estimated"), el("div", { class: "estimate" },
    el("p", { class: "bound" }, `balanced accuracy ${withInterval(point?.leakage)}`),
    el("p", {}, "Estimate, against the attackers tried", point ? ` (strongest: ${point.attacker})` : "", ". It does not bound any other attacker."),
    point ? el("p", { class: "new-seed" }, point.newSeed ? `Another seed's release would be read at ${withInterval(point.newSeed)} (95% prediction over seeds).`
      : `What another seed's release would reveal is not predicted: that takes three seeds, and this setting has figures of ${point.each.length}.`) : null,
    point?.bits ? el("p", {}, `Information read: ${withInterval(point.bits)} bits.`) : null));
  byId("proved").replaceChildren(left, right);
  const certified = DATA.settings.map((_, s) => s).filter((s) => view && view.bounds[s] !== null);
  if (!certified.length) return byId("certified-all").replaceChildren();
  const rows = certified.map((s) => el("tr", { "data-setting": s, "aria-current": String(s === i) }, el("th", { scope: "row" }, name(DATA.settings[s].label)),
    el("td", {}, el("span", { class: broken(s).length ? "badge contradicted" : "badge" }, `CERTIFIED ≤ ${upwards(view.bounds[s])}${broken(s).length ? ", CONTRADICTED" : ""}`)), figureCell(view.points[s]?.leakage), figureCell(view.points[s]?.utility)));
  byId("certified-all").replaceChildren(el("details", { class: "behind", open: certified.length <= 12 }, el("summary", {}, "All certified settings"),
    el("div", { class: "scroll", role: "region", "aria-label": "All certified settings", tabindex: "0" }, el("table", {},
      el("thead", {}, el("tr", {}, ...["Setting", "No attacker can exceed", "Attackers tried read", "Utility"].map((h, c) => el("th", { scope: "col", class: c > 1 ? "number" : null }, h)))), el("tbody", {}, ...rows)))));
}

// Theory ---------------------------------------------------------------------------------------------------------

const unknown = (value) => value === null || value === undefined;
const plainCell = (value) => el("td", { class: "number" }, unknown(value) ? "–" : digits(value));
const atLeastCell = (value) => (!unknown(value) && value <= 0 ? el("td", { class: "number" }, `${digits(value)} `, el("span", { class: "interval" }, "says nothing")) : plainCell(value));
const constantCell = (t, value) => el("td", { class: "number" }, unknown(t.radius) ? el("span", { class: "missing" }, "not measured") : unknown(value) ? "∞" : value.toPrecision(4));
const certifiedCell = (sign, value) => el("td", { class: "number" }, unknown(value) ? "–" : sign === "≥" && value <= 0 ? el("span", { class: "interval" }, "nothing")
  : el("span", { class: "badge" }, `${sign} ${sign === "≤" ? upwards(value) : (Math.floor(value * 1000 + 1e-6) / 1000).toFixed(3)}`));

function theoremTable(title, lead, head, theory, cells) {
  const rows = theory.settings.map((t, s) => t && el("tr", { "data-setting": s, "aria-current": "false" }, el("th", { scope: "row" }, name(DATA.settings[s].label)), ...cells(t))).filter(Boolean);
  return el("div", { class: "theorem" }, el("h3", {}, title), el("p", { class: "lead" }, ...lead),
    el("details", { class: "behind", open: rows.length <= 24 }, el("summary", {}, "Every setting"),
      el("div", { class: "scroll", role: "region", "aria-label": title, tabindex: "0" }, el("table", {},
        el("thead", {}, el("tr", {}, ...head.map((h, c) => el("th", { scope: "col", class: c ? "number" : null }, h)))), el("tbody", {}, ...rows)))));
}

function buildTheory() {
  const theory = DATA.theory[state.task]?.[state.attribute], node = byId("theory");
  if (!theory) return node.replaceChildren(el("p", { class: "empty" }, "These cells have no figures for the theorems: they were computed by an earlier version."));
  const one = theory.gap === null
    ? el("div", { class: "theorem" }, el("h3", {}, "Theorem 1: hiding costs accuracy"), el("p", { class: "lead" }, "It applies to a task and an attribute with two values each; here one of them has more, so it says nothing."))
    : theoremTable("Theorem 1: hiding costs accuracy", [
      "The two values of ", name(attributeName()), ` differ by Δ = ${digits(theory.gap)} in how often `, name(taskName()), " has its second value. Hiding the attribute therefore causes errors in the task: the error among people with one value plus the error among people with the other is at least Δ minus the best attacker's advantage (0: guessing, 1: certainty). ",
      "Corrected: this limit, for every classifier. Printed: Δ − 2R·C·advantage, with R a bound on the release's norm and C the classifier's Lipschitz constant. Both are measured on what the test people released: R is the largest norm, and 1/C the smallest distance between two releases that the task's head answers differently, which is the constant of a classifier that answers yes or no. 2R·C is then at least 1, so the printed limit is never the stronger of the two. ",
      theory.settings.some((t) => t && unknown(t.radius)) ? "Where they are missing, an earlier version computed the cells and did not measure them; the printed limit is then not shown. " : "",
      "A better attacker has a larger advantage and lowers both limits. Certified: the corrected form with a certificate's bound on every attacker's advantage, for the Δ of these test people."],
    ["Setting", "Advantage, measured", "Error summed, measured", "Corrected: at least about", "R, measured", "C, measured", "Printed: at least about", "Certified"], theory,
    (t) => [figureCell(t.advantage), plainCell(t.error), atLeastCell(t.error_corrected), constantCell(t, t.radius), constantCell(t, t.lipschitz), unknown(t.radius) ? constantCell(t, null) : unknown(t.error_printed) ? el("td", { class: "number" }, el("span", { class: "interval" }, "says nothing")) : atLeastCell(t.error_printed), certifiedCell("≥", t.error_certified)]);
  const two = theoremTable("Theorem 2: not knowing limits guessing", [
    "H(u|r) is how uncertain ", name(attributeName()), ` remains, in bits, once a release r is seen; before that it is ${digits(theory.entropy)}. The more uncertainty remains, the less often any attacker can be right. `,
    "The attackers' own uncertainty is used in its place, and is never below the true one: a better attacker may be less uncertain, and exceed the limit. Corrected: Fano's inequality, solved exactly. ",
    theory.values === 2 ? "Printed: 1 − H/(2 log₂(6/H)), which holds for two values, and is loose." : "The printed form holds for two values only, and is left out here."],
  ["Setting", "H(u|r), at most about", "Accuracy, measured", "Corrected: at most about", "Printed: at most about", "Certified"], theory,
  (t) => [plainCell(t.equivocation), figureCell(t.accuracy), plainCell(t.accuracy_corrected), plainCell(t.accuracy_printed), certifiedCell("≤", t.accuracy_certified)]);
  node.replaceChildren(one, two);
}

// The state, drawn everywhere ------------------------------------------------------------------------------------

function showSelected() {
  const i = state.setting, point = currentView()?.points[i], limit = currentView()?.bounds[i] ?? null;
  byId("setting").value = String(i);
  byId("selected-figures").textContent = point
    ? `leakage ${digits(point.leakage[0])} · utility ${digits(point.utility[0])}` + (limit === null ? "" : ` · CERTIFIED ≤ ${upwards(limit)}${broken(i).length ? ", CONTRADICTED" : ""}`) : "figures missing";
  for (const row of document.querySelectorAll("tr[aria-current]")) row.setAttribute("aria-current", String(Number(row.dataset.setting) === i));
}

function drawSelected() { drawAttackers(); drawMaps(); drawLosses(); drawGroups(); }

function select(setting) {
  state.setting = setting;
  aboutSelected();
  showSelected();
  markSelected();
  drawSelected();
}

function frontierWords() {
  const view = currentView();
  byId("frontier-lead").replaceChildren("Each mark is a setting. Further left is more private, further up is more useful; the best settings are at the upper left.");
  const lost = view ? DATA.settings.filter((_, i) => !view.points[i]).map((s) => s.label) : [];
  const drop = view && view.baseline && DATA.methods.some((m) => m.name === view.baseline);
  byId("frontier-caption").replaceChildren(
    (view && view.points.filter(Boolean).length > MANY ? "With this many settings, the 95% intervals are only in the table" : "Bars are 95% intervals") + "; leakage is an estimate against the attackers tried. The stairs are the front: the settings that no other beats in both on validation, at their test figures. ",
    view && view.prior ? `The most frequent value of ${attributeName()} is held by ${digits(view.prior, 2)} of people; always guessing it has balanced accuracy ${digits(view.chance, 2)}. ` : "",
    drop ? `The baseline to beat is ${view.baseline}. ` : "Dropping columns, the baseline, is missing here. ",
    lost.length ? el("span", { class: "missing" }, `Missing, and so not drawn: ${lost.slice(0, 6).join("; ")}${lost.length > 6 ? ` and ${lost.length - 6} more` : ""}.`) : "");
  const look = paper(), legend = byId("frontier-legend");
  legend.replaceChildren(...DATA.methods.map((mark) => el("li", {}, symbolMark(mark), name(mark.name))));
  if (!view) return;
  legend.append(el("li", {}, dashMark(look.strong, "solid"), "front"));
  if (view.bounds.some((b) => b !== null)) legend.append(el("li", {}, svg({ tag: "rect", x: 6, y: -1, width: 4.5, height: 18, fill: look.proved }), "certified: no attacker reads more"));
}

function answer() {
  const words = DATA.words[state.task]?.[state.attribute];
  if (words) byId("words").replaceChildren(...words.flatMap(([about, text]) => [el("span", { class: "about-" + about }, ...text.split(/(\[[−.\d]+, [−.\d]+\])/).map((part, k) => (k % 2 ? el("span", { class: "interval" }, part) : part))), " "]));
}

function everything() {
  answer(); frontierWords(); buildTable(); buildTheory(); drawFrontier(); aboutSelected(); showSelected(); drawSelected();
}

function repaint() { recolourMarks(); frontierWords(); drawFrontier(); drawSelected(); }

function options(id, names) {
  byId(id).replaceChildren(...names.map((text, i) => el("option", { value: i }, text)));
}

function run() {
  const facts = DATA.run, list = byId("facts");
  byId("command").textContent = facts.command || "(not recorded)";
  const add = (term, text) => text && list.append(el("dt", {}, term), el("dd", {}, name(text)));
  add("Cells", `${DATA.finished} of ${DATA.planned} finished`);
  add("Seeds", facts.seeds.join(", "));
  add("fedveil", facts.version);
  add("Revision", facts.revision);
  add("Versions", Object.entries(facts.versions).map(([what, v]) => `${what} ${v}`).join(", "));
  add("Threads", facts.threads.join(", "));
  add("This page", `built by fedveil ${DATA.made_by}; loads nothing from elsewhere`);
  fill("cells", ["Cell", "Setting", "Seed", "State"], DATA.settings.flatMap((s) => s.cells.map((c) => [el("td", {}, name(c.id)), el("td", {}, name(s.label)), el("td", {}, String(c.seed)),
    el("td", { class: c.state === "finished" ? null : "missing" }, c.state + (c.why ? ": " + c.why : ""))])));
  byId("study-text").textContent = JSON.stringify(facts.study, null, 2);
}

const THEMES = ["auto", "light", "dark"];
function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = theme;
  byId("theme").textContent = "Theme: " + theme;
  byId("theme").setAttribute("aria-label", `Colour theme: ${theme}. Change it.`);
}

function start() {
  options("task", DATA.tasks);
  options("attribute", DATA.attributes);
  options("setting", DATA.settings.map((s) => s.label));
  for (const id of ["task", "attribute"]) {
    byId(id).disabled = byId(id).options.length < 2;
    byId(id).addEventListener("change", () => { state[id] = Number(byId(id).value); everything(); });
  }
  byId("setting").addEventListener("change", () => select(Number(byId("setting").value)));
  let theme = "auto";
  try { theme = THEMES.includes(localStorage.getItem("fedveil-theme")) ? localStorage.getItem("fedveil-theme") : "auto"; } catch { /* no storage for files here */ }
  setTheme(theme);
  byId("theme").addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    try { localStorage.setItem("fedveil-theme", theme); } catch { /* not kept, then */ }
    setTheme(theme);
    repaint();
  });
  byId("frontier-keys").addEventListener("keydown", (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key], view = currentView();
    if (!move || !view) return;
    event.preventDefault();
    const order = DATA.settings.map((_, i) => i).filter((i) => view.points[i]).sort((a, b) => view.points[a].leakage[0] - view.points[b].leakage[0] || a - b);
    if (!order.length) return;
    const at = order.indexOf(state.setting);
    select(order[at < 0 ? 0 : Math.min(order.length - 1, Math.max(0, at + move))]);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  let opened = [];
  const paperOut = (out) => {
    if (printing === out) return;
    printing = out;
    if (out) { opened = [...document.querySelectorAll("details.behind:not([open]), .certificate details:not([open])")]; opened.forEach((d) => { d.open = true; }); }
    else opened.forEach((d) => { d.open = false; });
    repaint();
  };
  matchMedia("print").addEventListener("change", (event) => paperOut(event.matches));
  addEventListener("beforeprint", () => paperOut(true));
  addEventListener("afterprint", () => paperOut(false));
  state.setting = DATA.start;
  run();
  if (DATA.settings.length) everything(); else answer();
  document.documentElement.dataset.ready = "yes";
}

start();
