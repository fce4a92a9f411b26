// What flows through all layers, and how much of it is moved, beside the weights of one head.

import { rollout } from "../analysis/rollout.js";
import { array } from "../data/islands.js";
import { largest } from "../data/numbers.js";
import { csv } from "../show/csv.js";
import { cellNames } from "../show/grid.js";
import { details, figure, quoted } from "../show/labels.js";
import { MatrixPicture } from "../show/matrix.js";
import { panels } from "../show/panels.js";
import { axes, blocked, note, shown, titles } from "../show/shown.js";
import { ko } from "../shell/ko/flow.js";
import { t } from "../shell/language.js";

const KINDS = /** @type {const} */ (["raw", "rollout", "norm"]);
const NOTES = { raw: "", rollout: "Each row's colours end at its largest value.", norm: "Rows scaled to one." };
const COLUMNS = { raw: "weight", rollout: "rollout", norm: "norm_weighted" };
const NAMES = { raw: "Weights", rollout: "Rollout", norm: "Norm-weighted" };

/** @type {import("./view.js").View} */
export const flow = {
  name: "flow",
  title: "Flow",
  korean: ko,
  shows: (attention) => attention.hasWeights && !attention.name.startsWith("search."),
  open: (app, stage) => new Flow(app, stage),
};

class Flow {
  /** @type {import("../data/attention.js").Layer} */ layer;
  /** @type {{rows: import("../show/shown.js").Axis, columns: import("../show/shown.js").Axis, hidden: string[]}} */ axes;
  /** @type {{rows: number, columns: number}} */ size;
  /** @type {Record<string, Float32Array | null>} */ shown;
  /** @type {number} */ share;
  /** @type {Float32Array} */ values;

  /**
   * @param {import("../shell/app.js").App} app
   * @param {HTMLElement} stage
   */
  constructor(app, stage) {
    this.app = app;
    this.controls = ["trace", "attention", "layer", "head", "scale", "hide", "words", "table"];
    this.panels = panels(stage, 3);
    const tip = (/** @type {import("../shell/app.js").Cell} */ { row, column }) => [this.#figures(row, column).map((pair) => pair.join(" ")).join(" · "), t("query {query}", { query: details(this.axes.rows.tokens[row]) }), t("key {key}", { key: details(this.axes.columns.tokens[column]) })];
    this.drawings = KINDS.map((kind, i) => new MatrixPicture(app, this.panels[i].place, { label: t(NAMES[kind]), tip }));
  }

  get attention() { return this.app.attention; }

  async prepare() {
    const { app } = this, given = app.extrasOf("flow")?.[this.attention.name];
    this.layer = await this.attention.load(app.layer);
    this.given = given;
    this.coded = given && (await array(given.rollout));
    this.computed = given ? null : (await rollout(app.trace))[this.attention.name];
    this.norms = given?.norms && (await array(given.norms));
  }

  draw() {
    const { app, attention } = this, options = app.options, weights = this.layer.weights(app.head);
    this.axes = axes(attention, options);
    this.blocked = blocked(this.layer, this.axes);
    const { rows, columns } = this.axes;
    this.size = { rows: rows.tokens.length, columns: columns.tokens.length };
    const whole = { raw: weights, rollout: this.#rollout(), norm: this.#norm(weights) };
    /** @type {Record<string, Float32Array | null>} */
    this.shown = {};
    KINDS.forEach((kind, i) => {
      const values = whole[kind] && shown(whole[kind], attention, this.axes, options);
      this.shown[kind] = values && values.values;
      if (kind === "raw") this.share = values?.share ?? 0;
      const { formulas = {}, limits = {} } = app.extras.flow ?? {};
      this.panels[i].title(`${t(NAMES[kind])}, ${kind === "rollout" ? t("up to layer {layer}", { layer: app.layer }) : t("layer {layer}, head {head}", { layer: app.layer, head: app.head })}`);
      this.panels[i].note([!values && t("not in this page"), formulas[kind], limits[kind] && t(limits[kind]), NOTES[kind] && t(NOTES[kind])].filter(Boolean).join(" — "));
      this.drawings[i].picture.root.hidden = !values;
      // A layer's rollout may be too large for the page; what it has of no layer has no panel.
      this.panels[i].root.hidden = !values && !(kind === "rollout" && this.given);
      if (values) this.drawings[i].show({ titles: titles(attention), meaning: kind === "raw" ? undefined : t(NAMES[kind]), rows: rows.tokens, columns: columns.tokens, values: values.values, scale: kind === "rollout" ? "row" : app.state.get("scale"), zoom: app.state.number("zoom"), tallest: 560, masked: kind === "raw" ? this.blocked : null });
    });
    this.values = /** @type {Float32Array} */ (this.shown.rollout ?? this.shown.raw);
  }

  /** The rollout up to the layer, (L, M); null where the page has that of other layers alone. */
  #rollout() {
    if (this.computed) return this.computed[this.app.layer];
    const { given, coded } = this, n = this.app.layer - (given?.first ?? 0);
    if (!given || n < 0) return null;
    const cells = given.rollout.shape[1] * given.rollout.shape[2];
    return Float32Array.from(coded.subarray(n * cells, (n + 1) * cells), (u) => (u / 255) ** 2);
  }

  /** The weights times the length of what each value adds, rows scaled to one. @param {Float32Array} weights */
  #norm(weights) {
    if (!this.norms) return null;
    const M = this.attention.columns.length, start = (this.app.layer * this.attention.numHeads + this.app.head) * M;
    const out = weights.map((weight, at) => weight * this.norms[start + (at % M)]);
    for (let i = 0; i < out.length; i += M) {
      let sum = 0;
      for (let j = i; j < i + M; j++) sum += out[j];
      if (sum > 0) for (let j = i; j < i + M; j++) out[j] /= sum;
    }
    return out;
  }

  /** @param {number} row @param {number} column @returns {[string, string][]} */
  #figures(row, column) {
    const at = row * this.size.columns + column;
    return KINDS.flatMap((kind) => (this.shown[kind] ? [/** @type {[string, string]} */ ([t(NAMES[kind]).toLowerCase(), kind === "raw" ? this.attention.figure(this.shown[kind][at]) : figure(this.shown[kind][at], kind === "rollout" ? 2 : 3)])] : []));
  }

  mark() { for (const drawing of this.drawings) drawing.mark(); }

  /** @param {number} row @param {number} column */
  reveal(row, column) { KINDS.forEach((kind, i) => this.shown[kind] && this.drawings[i].reveal(row, column)); }

  /** @param {number} row */
  best(row) { return largest(this.values.subarray(row * this.size.columns, (row + 1) * this.size.columns), 1)[0]; }

  /** @param {number} row @param {number} column @returns {import("../shell/readout.js").Reading} */
  read(row, column) {
    const query = quoted(this.axes.rows.tokens[row]), key = quoted(this.axes.columns.tokens[column]), figures = this.#figures(row, column);
    return { names: [query, key], figures, text: t("query {query}, key {key}, {figures}", { query, key, figures: figures.map((pair) => pair.join(" ")).join(", ") }) };
  }

  get picture() { return this.drawings[this.shown?.rollout ? 1 : 0].picture; }

  get pictures() { return this.drawings.flatMap((drawing, i) => (this.shown[KINDS[i]] ? [{ picture: drawing.picture, title: this.panels[i].named }] : [])); }

  /** A scale for each panel whose colours mean something else. @returns {import("../show/legend.js").Sign[]} */
  legend() {
    const signs = this.drawings.flatMap((drawing, i) => (this.shown[KINDS[i]] ? drawing.legend().map((sign) => ({ ...sign, text: sign.ramp ? `${t(NAMES[KINDS[i]])}: ${KINDS[i] === "rollout" ? t("a share of the row's largest") : t("of one")}` : sign.text })) : []));
    return signs;
  }

  label() { return t("flow through {attention}: {rows} queries by {columns} keys", { attention: this.attention.name, ...this.size }); }

  cells() {
    return {
      ...cellNames(this.axes.rows.tokens, this.axes.columns.tokens),
      cell: (/** @type {number} */ row, /** @type {number} */ column) => this.#figures(row, column).map((pair) => pair.join(" ")).join(", "),
    };
  }

  note() {
    const both = this.attention.name === "cross" || (this.attention.name === "decoder.self" && this.app.trace.attentions.has("cross"));
    const said = this.app.firstOf(["what_if"]) ? t("Attention is not by itself an explanation: what a head is worth shows when it is switched off, in “{view}”.", { view: t("What if") })
      : this.app.extras.flow?.note && t(this.app.extras.flow.note);
    return [said, both && t("A decoder's rollout has two parts, over the target read so far and over the source: together their rows sum to one."),
      this.shown.rollout && this.given && t("Rollouts are within 0.004."), note(this.attention, this.axes.hidden, this.share, this.app.options)].filter(Boolean).join(" ");
  }

  table() {
    const { columns } = this.size, rows = largest(this.values, 50).map((at) => {
      const row = Math.floor(at / columns);
      return [quoted(this.axes.rows.tokens[row]), quoted(this.axes.columns.tokens[at % columns]), ...this.#figures(row, at % columns).map((pair) => pair[1])];
    });
    return { caption: t("The largest flows"), columns: [t("query"), t("key"), ...KINDS.filter((kind) => this.shown[kind]).map((kind) => t(NAMES[kind]))], rows };
  }

  /** A line for each cell, with the number of each panel. @param {number} [row] */
  csv(row) {
    const kinds = KINDS.filter((kind) => this.shown[kind]), { rows: L, columns: M } = this.size, [rows, columns] = [this.axes.rows, this.axes.columns].map((axis) => axis.tokens.map((token) => token.text));
    const wanted = row === undefined ? Array.from({ length: L }, (_, i) => i) : [row];
    return csv([["query", "key", ...kinds.map((kind) => COLUMNS[kind])], ...wanted.flatMap((i) => Array.from({ length: M }, (_, j) => [rows[i] ?? "", columns[j], ...kinds.map((kind) => this.shown[kind]?.[i * M + j] ?? null)]))]);
  }

  close() { for (const drawing of this.drawings) drawing.close(); }
}
