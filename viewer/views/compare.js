// Two attentions and their difference: of two traces, or of two heads of one.

import { select } from "../dom.js";
import { largest } from "../data/numbers.js";
import { matrixCsv } from "../show/csv.js";
import { cellNames } from "../show/grid.js";
import { details, figure, quoted } from "../show/labels.js";
import { MatrixPicture } from "../show/matrix.js";
import { aside, named, panels } from "../show/panels.js";
import { axes, blocked, note, shown, titles } from "../show/shown.js";
import { t } from "../shell/language.js";

/** @typedef {import("../show/shown.js").Axis} Axis */
/** @typedef {{rows: Axis, columns: Axis, hidden: string[]}} Axes */
/** @typedef {import("../shell/app.js").Cell} Cell */

/** @type {import("./view.js").View} */
export const compare = {
  name: "compare",
  title: "Compare",
  open: (app, stage) => new Compare(app, stage),
};

/** Jensen-Shannon distance of two rows, 0 to 1. @param {Float32Array} a @param {Float32Array} b */
function distance(a, b) {
  let sum = 0;
  const term = (/** @type {number} */ w, /** @type {number} */ mean) => (w > 0 ? (w * Math.log2(w / mean)) / 2 : 0);
  for (let j = 0; j < a.length; j++) {
    const mean = (a[j] + b[j]) / 2;
    sum += term(a[j], mean) + term(b[j], mean);
  }
  return Math.sqrt(Math.min(1, Math.max(0, sum)));
}

class Compare {
  /** @type {import("../data/attention.js").Layer} */ a;
  /** @type {number[][]} */ distances;
  /** @type {Axes} */ axes;
  /** Those of B, whose tokens may be others. @type {Axes | null} */
  axesOfB = null;
  /** @type {{rows: number, columns: number}} */ size;
  /** @type {number} */ share;
  /** @type {Float32Array} */ first;
  /** @type {Float32Array} */ second;
  /** @type {Float32Array} */ values;

  /**
   * @param {import("../shell/app.js").App} app
   * @param {HTMLElement} stage
   */
  constructor(app, stage) {
    this.app = app;
    const { state, attention } = app, { numLayers, numHeads } = attention;
    const set = (/** @type {string} */ key) => (/** @type {string} */ value) => state.set({ ["compare." + key]: value });
    const range = (/** @type {number} */ count) => [["", t("as A")], ...Array.from({ length: count }, (_, i) => [String(i), String(i)])];
    const traces = app.traces.map((_, i) => [String(i), `${i + 1} · ${app.nameOf(i)}`]);
    this.controls = [
      "trace", "attention", "layer", "head", "scale",
      ...(traces.length > 1 ? [select(t("B: trace"), /** @type {any} */ (traces), String(this.other), set("trace"))] : []),
      select(t("B: layer"), /** @type {any} */ (range(numLayers)), state.get("compare.layer"), set("layer")),
      select(t("B: head"), /** @type {any} */ (range(numHeads)), String(state.get("compare.head") || this.fallback), set("head")),
      "hide", "words", "table",
    ];
    this.panels = panels(stage, 4);
    this.aside = aside(app);
    this.drawings = ["A", "B", t("A minus B")].map((label, i) => new MatrixPicture(app, this.panels[i].place, { label, tip: (cell) => this.#tip(cell, i === 1) }));
    this.map = new MatrixPicture(this.aside, this.panels[3].place, {
      label: t("distance of each head"), tip: ({ row, column }) => [t("layer {layer}, head {head}", { layer: row, head: column }), t("distance {distance}", { distance: figure(this.distances[row][column], 3) })],
      press: ({ row, column }) => app.state.set({ layer: row, head: column, "compare.layer": "", "compare.head": "" }),
    });
    this.picture = this.drawings[2].picture;
  }

  /** The trace that B is of; by default the first, or the last where A is of the first. */
  get other() {
    const { app } = this, chosen = app.state.get("compare.trace"), here = app.traces.indexOf(app.trace);
    return chosen === "" ? (here === 0 ? app.traces.length - 1 : 0) : Math.min(Number(chosen) || 0, app.traces.length - 1);
  }

  /** The head of B where none is chosen: A's, but of the same trace the one after it. */
  get fallback() {
    const { app } = this, same = app.traces[this.other] === app.trace;
    return same && app.attention.numHeads > 1 ? String((app.head + 1) % app.attention.numHeads) : "";
  }

  get attention() { return this.app.attention; }

  /** Layer and head of B. */
  get place() {
    const { app } = this, own = (/** @type {string} */ key) => app.state.get("compare." + key);
    const layer = own("layer") === "" ? app.layer : Number(own("layer")), head = own("head") || this.fallback;
    return { layer, head: head === "" ? app.head : Number(head) };
  }

  async prepare() {
    const { app, attention } = this, b = app.traces[this.other].attentions.get(attention.name);
    this.b = b && this.place.layer < b.numLayers && this.place.head < b.numHeads ? b : null;
    this.a = await attention.load(app.layer);
    this.ofB = this.b && (await this.b.load(this.place.layer));
  }

  draw() {
    const { app, attention, place } = this, options = app.options, scale = app.state.get("scale"), zoom = app.state.number("zoom");
    this.axes = axes(attention, options);
    const { rows, columns } = this.axes;
    this.size = { rows: rows.tokens.length, columns: columns.tokens.length };
    const a = shown(this.a.weights(app.head), attention, this.axes, options);
    this.share = a.share;
    this.first = a.values;
    const own = this.b ? axes(this.b, options) : null;
    this.axesOfB = own;
    this.fits = Boolean(own && own.rows.tokens.length === this.size.rows && own.columns.tokens.length === this.size.columns);
    this.second = own ? shown(/** @type {import("../data/attention.js").Layer} */ (this.ofB).weights(place.head), /** @type {import("../data/attention.js").Attention} */ (this.b), own, options).values : new Float32Array(0);
    this.values = this.fits ? this.first.map((value, i) => value - this.second[i]) : new Float32Array(0);
    // Where B has other numbers of tokens its cells are not A's, which cursor and pin mean.
    this.drawings[1].app = this.fits ? app : this.aside;
    const masked = blocked(this.a, this.axes);
    const paint = (/** @type {number} */ i, /** @type {any} */ matrix) => {
      this.panels[i].root.hidden = !matrix;
      if (matrix) this.drawings[i].show({ zoom, tallest: 560, ...matrix });
    };
    paint(0, { titles: titles(attention), rows: rows.tokens, columns: columns.tokens, values: this.first, scale, masked });
    paint(1, own && { titles: titles(attention), rows: own.rows.tokens, columns: own.columns.tokens, values: this.second, scale, masked: blocked(/** @type {import("../data/attention.js").Layer} */ (this.ofB), own) });
    // A difference of 0 has the middle colour: from -1..1 to 0..1.
    paint(2, this.fits && { titles: titles(attention), meaning: "A − B", ends: ["−1", "1"], rows: rows.tokens, columns: columns.tokens, values: this.values.map((value) => (value + 1) / 2), ramp: app.colours.diverging, masked });
    const name = (/** @type {number} */ trace, /** @type {number} */ layer, /** @type {number} */ head) => `${app.traces.length < 2 ? "" : app.extras.names ? `${app.nameOf(trace)}, ` : t("trace {trace}", { trace: trace + 1 }) + ", "}${t("layer {layer}, head {head}", { layer, head })}`;
    this.panels[0].title(`A: ${name(app.traces.indexOf(app.trace), app.layer, app.head)}`);
    this.panels[1].title(`B: ${name(this.other, place.layer, place.head)}`);
    this.panels[2].title("A − B");
    this.panels[2].note(t("blue: more weight in A, brown: more in B; the full colour is 1"));
    this.#map();
  }

  /** The distances of all heads, where Python has computed them. */
  #map() {
    const { app } = this, places = [app.trace, app.traces[this.other]].map((trace) => app.recorded.indexOf(trace)).sort((a, b) => a - b);
    this.distances = places[0] === 0 && places[1] > 0 ? app.extras.compare?.distances[places[1] - 1]?.[this.attention.name] : null;
    this.panels[3].root.hidden = !this.distances;
    if (!this.distances) return;
    this.panels[3].title(t("Distance of each head"));
    this.panels[3].note(t("Jensen-Shannon distance, mean over the rows: 0 equal, 1 nothing in common; click a head to see it"));
    this.map.show({
      rows: this.distances.map((_, n) => named(t("layer {layer}", { layer: n }))), columns: this.distances[0].map((_, h) => named(String(h))), values: this.distances.flat(),
      over: (ctx, box) => {
        const [x, y, cell] = box(app.layer, app.head);
        ctx.strokeStyle = app.colours.accent;
        ctx.lineWidth = 2;
        ctx.strokeRect(x + 1, y + 1, cell - 2, cell - 2);
        ctx.lineWidth = 1;
      },
    });
  }

  /** What is said of a cell of a panel. @param {Cell} cell @param {boolean} ofB */
  #tip({ row, column }, ofB) {
    const { rows, columns } = /** @type {Axes} */ (ofB ? this.axesOfB : this.axes);
    const figures = ofB && !this.fits ? [`B ${figure(this.second[row * columns.tokens.length + column])}`] : this.#figures(row, column);
    return [figures.join(" · "), t("query {query}", { query: details(rows.tokens[row]) }), t("key {key}", { key: details(columns.tokens[column]) })];
  }

  /** @param {number} row @param {number} column */
  #figures(row, column) {
    const at = row * this.size.columns + column;
    const parts = [`A ${figure(this.first[at])}`];
    if (this.fits) parts.push(`B ${figure(this.second[at])}`, `A − B ${figure(this.values[at])}`);
    return parts;
  }

  /** @param {number} row */
  #distance(row) {
    const { columns } = this.size, part = (/** @type {Float32Array} */ values) => values.subarray(row * columns, (row + 1) * columns);
    return distance(part(this.first), part(this.second));
  }

  mark() { for (const drawing of this.drawings) drawing.mark(); }

  /** @param {number} row @param {number} column */
  reveal(row, column) { for (const [i, drawing] of this.drawings.entries()) if (!this.panels[i].root.hidden) drawing.reveal(row, column); }

  /** @param {number} row @param {number} column @returns {import("../shell/readout.js").Reading} */
  read(row, column) {
    const query = quoted(this.axes.rows.tokens[row]), key = quoted(this.axes.columns.tokens[column]), parts = this.#figures(row, column);
    const figures = parts.map((part) => /** @type {[string, string]} */ ([part.slice(0, part.lastIndexOf(" ")), part.slice(part.lastIndexOf(" ") + 1)]));
    if (this.fits) figures.push([t("distance of the rows"), figure(this.#distance(row), 3)]);
    return { names: [query, key], figures, text: t("query {query}, key {key}, {figures}", { query, key, figures: figures.map((pair) => pair.join(" ")).join(", ") }) };
  }

  get pictures() { return this.drawings.flatMap((drawing, i) => (this.panels[i].root.hidden ? [] : [{ picture: drawing.picture, title: this.panels[i].named }])); }

  legend() { return [...this.drawings[0].legend(), ...(this.fits ? this.drawings[2].legend().slice(0, 1) : [])]; }

  label() { return t("difference of two heads: {rows} queries by {columns} keys", this.size); }

  cells() {
    return {
      ...cellNames(this.axes.rows.tokens, this.axes.columns.tokens),
      cell: (/** @type {number} */ row, /** @type {number} */ column) => this.#figures(row, column).join(", "),
    };
  }

  note() {
    let mean = 0;
    if (this.fits) for (let i = 0; i < this.size.rows; i++) mean += this.#distance(i) / this.size.rows;
    const said = this.fits ? t("Jensen-Shannon distance of these two: {distance}, mean over the rows", { distance: figure(mean, 3) })
      : this.b ? t("the two have other numbers of tokens: there is no difference to show") : t("B has no such attention, layer or head");
    return [said, note(this.attention, this.axes.hidden, this.share, this.app.options)].filter(Boolean).join("; ");
  }

  table() {
    const { columns } = this.size, sizes = this.values.map(Math.abs);
    const rows = largest(sizes, 50).map((at) => [quoted(this.axes.rows.tokens[Math.floor(at / columns)]), quoted(this.axes.columns.tokens[at % columns]), figure(this.first[at]), figure(this.second[at]), figure(this.values[at])]);
    return { caption: t("The largest differences"), columns: [t("query"), t("key"), "A", "B", "A − B"], rows };
  }

  /** @param {number} [row] */
  csv(row) {
    const [rows, columns] = [this.axes.rows, this.axes.columns].map((axis) => axis.tokens.map((token) => token.text));
    return matrixCsv({ rows: this.fits ? rows : [], columns, values: this.values, corner: "A − B" }, this.fits ? row : undefined);
  }

  close() {
    for (const drawing of [...this.drawings, this.map]) drawing.close();
  }
}
