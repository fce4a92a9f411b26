// One head, or several mixed, as a matrix: rows are queries, columns are keys.

import { button, el, select } from "../dom.js";
import { entropy, largest, rank } from "../data/numbers.js";
import { matrixCsv } from "../show/csv.js";
import { cellNames } from "../show/grid.js";
import { details, quoted } from "../show/labels.js";
import { MatrixPicture } from "../show/matrix.js";
import { axes, blocked, note, shown, titles } from "../show/shown.js";
import { t } from "../shell/language.js";

/** @type {Record<string, string>} */
const MIXES = { "": "one head", mean: "mean of heads", max: "largest of heads" };
const ZOOMS = [2, 4, 9, 14, 20, 30, 44];

/** @type {import("./view.js").View} */
export const matrix = {
  name: "matrix",
  title: "Matrix",
  variant: (app) => app.state.get("mix"),
  open: (app, stage) => new Matrix(app, stage),
};

class Matrix {
  /** @type {import("../data/attention.js").Layer} */ layer;
  /** @type {{rows: import("../show/shown.js").Axis, columns: import("../show/shown.js").Axis, hidden: string[]}} */ axes;
  /** @type {Float32Array} */ values;
  /** @type {((row: number, column: number) => boolean) | null} */
  blocked = null;
  blockedFor = "";
  /** @type {number} */ share;
  /** @type {{rows: number, columns: number}} */ size;

  /**
   * @param {import("../shell/app.js").App} app
   * @param {HTMLElement} stage
   */
  constructor(app, stage) {
    this.app = app;
    this.mix = app.state.get("mix");
    const zoom = el("div", { class: "segments", role: "group", "aria-label": t("zoom") },
      button("−", () => this.#zoom(-1), { "aria-label": t("smaller") }), button("+", () => this.#zoom(1), { "aria-label": t("larger") }));
    const show = select(t("Show"), Object.entries(MIXES).map(([mix, name]) => [mix, t(name)]), this.mix, (mix) => app.state.set({ mix }));
    this.controls = ["trace", "attention", "layer", this.mix ? "heads" : "head", show, "scale", "pair", "hide", "words", zoom, "table"];
    this.drawing = new MatrixPicture(app, stage, { label: t("attention weights"), tip: ({ row, column }) => this.#tip(row, column) });
    this.picture = this.drawing.picture;
  }

  get attention() { return this.app.attention; }

  async prepare() {
    this.layer = await this.attention.load(this.app.layer);
  }

  draw() {
    const { app } = this, options = app.options;
    this.axes = axes(this.attention, options);
    const { rows, columns } = this.axes, { values, share } = shown(this.#mixed(), this.attention, this.axes, options);
    this.values = values;
    this.share = share;
    this.size = { rows: rows.tokens.length, columns: columns.tokens.length };
    const key = JSON.stringify(options);
    if (this.blockedFor !== key) this.blocked = blocked(this.layer, this.axes);
    this.blockedFor = key;
    this.drawing.show({
      rows: rows.tokens, columns: columns.tokens, values, scale: app.state.get("scale"), zoom: app.state.number("zoom"),
      masked: this.blocked, titles: titles(this.attention),
    });
  }

  /** The weights of the head, or of the heads together. */
  #mixed() {
    if (!this.mix) return this.layer.weights(this.app.head);
    const heads = this.app.heads, out = new Float32Array(this.attention.rows.length * this.attention.columns.length);
    for (const head of heads) {
      const weights = this.layer.weights(head);
      if (this.mix === "mean") for (let i = 0; i < out.length; i++) out[i] += weights[i] / heads.length;
      else for (let i = 0; i < out.length; i++) if (weights[i] > out[i]) out[i] = weights[i];
    }
    return out;
  }

  /** @param {number} by */
  #zoom(by) {
    const now = this.drawing.cell;
    const next = by > 0 ? ZOOMS.find((one) => one > now) : ZOOMS.findLast((one) => one < now);
    if (next) this.app.state.set({ zoom: next });
  }

  /** @param {number} row @param {number} column */
  #tip(row, column) {
    const { rows, columns } = this.axes;
    return [this.#figure(row, column), t("query {query}", { query: details(rows.tokens[row]) }), t("key {key}", { key: details(columns.tokens[column]) })];
  }

  /** @param {number} row @param {number} column */
  #figure(row, column) {
    return this.blocked?.(row, column) ? t("masked") : this.attention.figure(this.values[row * this.size.columns + column]);
  }

  /** @param {number} row */
  #row(row) { return this.values.subarray(row * this.size.columns, (row + 1) * this.size.columns); }

  mark() { this.drawing.mark(); }

  /** @param {number} row @param {number} column */
  reveal(row, column) { this.drawing.reveal(row, column); }

  /** @param {number} row the column that it looks at most */
  best(row) { return largest(this.#row(row), 1)[0]; }

  /** @param {number} row @param {number} column @returns {import("../shell/readout.js").Reading} */
  read(row, column) {
    const values = this.#row(row), query = quoted(this.axes.rows.tokens[row]), key = quoted(this.axes.columns.tokens[column]);
    const weight = this.#figure(row, column), place = t("{rank} of {all}", { rank: rank(values, column), all: values.length }), spread = t("{entropy} nats", { entropy: entropy(values).toFixed(2) });
    if (this.blocked?.(row, column)) return { names: [query, key], figures: [[t("weight"), weight]], text: t("query {query}, key {key}, masked", { query, key }) };
    return {
      names: [query, key],
      figures: [[t("weight"), weight], [t("rank"), place], [t("row entropy"), spread]],
      text: t("query {query}, key {key}, weight {weight}, rank {place}, row entropy {spread}", { query, key, weight, place, spread }),
    };
  }

  label() {
    const { app } = this, heads = this.mix ? `${t(MIXES[this.mix])} ${app.heads.join(", ")}` : t("head {head}", { head: app.head });
    return t("{attention}, layer {layer}, {heads}: {rows} queries by {columns} keys", { attention: this.attention.name, layer: app.layer, heads, ...this.size });
  }

  cells() {
    const { rows, columns } = this.axes;
    return {
      ...cellNames(rows.tokens, columns.tokens),
      cell: (/** @type {number} */ row, /** @type {number} */ column) => this.#figure(row, column),
    };
  }

  legend() { return this.drawing.legend(); }

  /** @param {number} column the row that looks at it most */
  bestRow(column) { return largest(Float32Array.from({ length: this.size.rows }, (_, row) => this.values[row * this.size.columns + column]), 1)[0]; }

  note() { return note(this.attention, this.axes.hidden, this.share, this.app.options); }

  table() {
    const row = this.app.cell?.row, { columns } = this.size;
    const name = (/** @type {number} */ at) => [quoted(this.axes.rows.tokens[Math.floor(at / columns)]), quoted(this.axes.columns.tokens[at % columns])];
    const from = row === undefined ? 0 : row * columns, among = row === undefined ? this.values : this.#row(row);
    const rows = largest(among, 50).map((at) => [...name(from + at), this.attention.figure(among[at])]);
    return { caption: row === undefined ? t("The largest weights") : t("What {query} attends to", { query: name(from)[0] }), columns: [t("query"), t("key"), t("weight")], rows };
  }

  /** @param {number} [row] one row alone */
  csv(row) {
    const { rows, columns } = this.axes;
    return matrixCsv({ rows: rows.tokens.map((token) => token.text), columns: columns.tokens.map((token) => token.text), values: this.values }, row);
  }

  close() { this.drawing.close(); }
}
