// Word alignment: source by target words, the links that a head makes, and what they score against gold.

import { button, el, select } from "../dom.js";
import { agreement, linked, soft, units } from "../data/links.js";
import { copy } from "../shell/dialogs.js";
import { aligning } from "../shell/opening.js";
import { matrixCsv } from "../show/csv.js";
import { details, quoted } from "../show/labels.js";
import { MatrixPicture } from "../show/matrix.js";
import { t } from "../shell/language.js";

/** @typedef {import("../data/attention.js").Layer} Layer */

const BY = { head: "one head", layer: "mean of the layer", all: "mean of all" };
const METHODS = { argmax: "most weight", mutual: "most from both sides", threshold: "threshold" };

/** @type {import("./view.js").View} */
export const alignment = {
  name: "alignment",
  title: "Alignment",
  shows: (attention) => attention.name === "cross" && attention.hasWeights,
  variant: (app) => [app.state.get("alignment.by"), app.state.get("alignment.method")].join(),
  open: (app, stage) => new Alignment(app, stage),
};

class Alignment {
  /** @type {Layer[]} */ layers;
  /** @type {import("../data/links.js").Unit[]} */ targets;
  /** @type {import("../data/links.js").Unit[]} */ sources;
  /** @type {{rows: number, columns: number}} */ size;
  /** @type {Float32Array} */ values;
  /** @type {Uint8Array} */ links;
  /** @type {string} */ pharaoh;

  /**
   * @param {import("../shell/app.js").App} app
   * @param {HTMLElement} stage
   */
  constructor(app, stage) {
    this.app = app;
    const { state } = app, own = (/** @type {string} */ key) => state.get("alignment." + key);
    const choose = (/** @type {string} */ label, /** @type {string} */ key, /** @type {Record<string, string>} */ choices) =>
      select(t(label), Object.entries(choices).map(([value, text]) => [value, t(text)]), key === "level" ? this.level : key === "row" ? this.row : own(key), (value) => state.set({ ["alignment." + key]: value }));
    this.by = own("by") || "head";
    const slider = el("input", { type: "range", min: 0.02, max: 1, step: 0.02, value: this.how.threshold, "aria-label": t("threshold"), oninput: () => state.set({ "alignment.threshold": slider.value }) });
    this.controls = [
      "trace", choose("By", "by", BY), ...(this.by === "all" ? [] : ["layer"]), ...(this.by === "head" ? ["head"] : []),
      choose("Links", "method", METHODS), ...(this.how.method === "threshold" ? [slider] : []),
      choose("Row that", "row", { writes: "writes the word", reads: "reads the word" }), choose("Align", "level", { words: "words", tokens: "tokens" }),
      "table", button(t("Copy links"), () => copy(app, this.pharaoh, t("the links")), { title: t("source-target, counted from 0 (k)") }),
    ];
    this.drawing = new MatrixPicture(app, stage, { label: t("word alignment"), tip: ({ row, column }) => [this.#state(row, column), t("source {source}", { source: details(this.sources[column].token) }), t("target {target}", { target: details(this.targets[row].token) })] });
    this.picture = this.drawing.picture;
  }

  keys = [["k", t("copy the links")]];

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.key === "k") copy(this.app, this.pharaoh, t("the links"));
    return event.key === "k";
  }

  get attention() { return this.app.attention; }

  /** What is aligned; by default tokens where a side is a single word, to which all would be aligned. */
  get level() {
    const { app, attention } = this, single = [attention.rows, attention.columns].some((side) => units(side, false).length < 2);
    return app.state.get("alignment.level") || (single && !app.extrasOf("alignment", "gold") ? "tokens" : "words");
  }

  /** Whose weights a word has; by default as the head was found by that aligns. */
  get row() { return this.app.state.get("alignment.row") || (aligning(this.app.trace.model)?.reads ? "reads" : "writes"); }

  /** @returns {import("../data/links.js").How} */
  get how() {
    const own = (/** @type {string} */ key) => this.app.state.get("alignment." + key);
    return { method: own("method") || "argmax", threshold: Number(own("threshold")) || 0.2, reads: this.row === "reads", tokens: this.level === "tokens" };
  }

  async prepare() {
    const { attention } = this;
    if (this.layers) return;
    /** @type {Layer[]} */
    const layers = [];
    for (let n = 0; n < attention.numLayers; n++) layers.push(await attention.load(n));
    this.layers = layers;
  }

  draw() {
    const { app, attention, how } = this;
    this.targets = units(attention.rows, how.tokens);
    this.sources = units(attention.columns, how.tokens);
    this.size = { rows: this.targets.length, columns: this.sources.length };
    this.gold = this.#gold();
    this.values = this.#soft(this.by === "all" ? null : app.layer, this.by === "head" ? app.head : null);
    this.links = linked(this.values, this.size.columns, how);
    const cells = Array.from(this.links.keys());
    this.pharaoh = cells.filter((at) => this.links[at]).map((at) => `${this.sources[at % this.size.columns].number}-${this.targets[Math.floor(at / this.size.columns)].number}`).join(" ");
    this.drawing.show({
      rows: this.targets.map((unit) => unit.token), columns: this.sources.map((unit) => unit.token), values: this.values,
      scale: app.state.get("scale"), zoom: app.state.number("zoom"), numbers: false, titles: { rows: t("written"), columns: t("read") }, over: (ctx, box) => this.#marks(ctx, box),
    });
  }

  /** The gold links as cells: 2 sure, 1 possible; null without gold, or where tokens are aligned. */
  #gold() {
    const given = this.app.extrasOf("alignment", "gold");
    if (!given || this.how.tokens) return null;
    const out = new Uint8Array(this.size.rows * this.size.columns);
    const mark = (/** @type {number[][]} */ links, /** @type {number} */ kind) => {
      for (const [source, target] of links) {
        const i = this.targets.findIndex((unit) => unit.number === target), j = this.sources.findIndex((unit) => unit.number === source);
        if (i >= 0 && j >= 0) out[i * this.size.columns + j] = kind;
      }
    };
    mark(given.possible, 1);
    mark(given.sure, 2);
    return out;
  }

  /** What a head gives, the mean of a layer's, or of all. @param {number | null} layer @param {number | null} head */
  #soft(layer, head) {
    const { attention } = this, heads = Array.from({ length: attention.numHeads }, (_, h) => h);
    const from = layer === null ? this.layers : [this.layers[layer]], of = head === null ? heads : [head];
    const out = new Float32Array(this.size.rows * this.size.columns);
    for (const one of from) for (const h of of) {
      const values = soft(one.weights(h), this.targets, this.sources, attention.rows.length, this.how.reads);
      for (let i = 0; i < out.length; i++) out[i] += values[i] / (from.length * of.length);
    }
    return out;
  }

  /**
   * Gold as outlines, full where sure and dashed where possible; links as dots.
   * @param {CanvasRenderingContext2D} ctx
   * @param {(row: number, column: number) => [number, number, number]} box
   */
  #marks(ctx, box) {
    const { columns } = this.size, { colours } = this.app;
    for (let at = 0; at < this.links.length; at++) {
      const kind = this.gold?.[at];
      if (!this.links[at] && !kind) continue;
      const [x, y, cell] = box(Math.floor(at / columns), at % columns);
      if (kind) {
        const line = Math.max(1, cell / 16);
        for (const [ink, width] of /** @type {[string, number][]} */ ([[colours.paper, 2.4 * line], [colours.ink, line]])) {
          ctx.strokeStyle = ink;
          ctx.lineWidth = width;
          ctx.setLineDash(kind === 2 || width > line ? [] : [cell / 6, cell / 8]);
          ctx.strokeRect(x + cell * 0.12, y + cell * 0.12, cell * 0.76, cell * 0.76);
        }
      }
      if (!this.links[at]) continue;
      ctx.beginPath();
      ctx.arc(x + cell / 2, y + cell / 2, Math.max(1.5, cell * 0.18), 0, 7);
      ctx.fillStyle = colours.mark;
      ctx.fill();
      ctx.setLineDash([]);
      ctx.lineWidth = Math.max(1, cell / 18);
      ctx.strokeStyle = colours.paper;
      ctx.stroke();
    }
    ctx.setLineDash([]);
    ctx.lineWidth = 1;
  }

  /** @param {number} row @param {number} column */
  #state(row, column) {
    const at = row * this.size.columns + column, kind = this.gold?.[at];
    return [this.attention.figure(this.values[at]), t(this.links[at] ? "linked" : "not linked"), this.gold && t(["not in gold", "possible", "sure"][kind ?? 0])].filter(Boolean).join(" · ");
  }

  mark() { this.drawing.mark(); }

  /** @param {number} row @param {number} column */
  reveal(row, column) { this.drawing.reveal(row, column); }

  get axes() { return { rows: { tokens: this.targets.map((unit) => unit.token), places: this.targets.map((unit) => unit.places) }, columns: { tokens: this.sources.map((unit) => unit.token), places: this.sources.map((unit) => unit.places) } }; }

  /** @param {number} row */
  best(row) { return Math.max(0, this.sources.findIndex((_, j) => this.links[row * this.size.columns + j])); }

  /** @param {number} row @param {number} column @returns {import("../shell/readout.js").Reading} */
  read(row, column) {
    const source = quoted(this.sources[column].token), target = quoted(this.targets[row].token), state = this.#state(row, column);
    const [weight, ...rest] = state.split(" · ");
    return { names: [source, target], figures: [[t("weight"), weight], ["", rest.join(" · ")]], text: t("source {source}, target {target}, weight {weight}", { source, target, weight: state.replaceAll(" · ", ", ") }) };
  }

  label() {
    const of = this.by === "all" ? t("mean of all") : this.by === "layer" ? `${t("layer {layer}", { layer: this.app.layer })}, ${t("mean")}` : t("layer {layer}, head {head}", { layer: this.app.layer, head: this.app.head });
    return t(this.how.tokens ? "alignment of {rows} target and {columns} source tokens" : "alignment of {rows} target and {columns} source words", this.size) + ", " + of;
  }

  /** @returns {import("../show/legend.js").Sign[]} */
  legend() {
    const { mark, ink } = this.app.colours;
    return [...this.drawing.legend(), { mark: "●", colour: mark, text: t("link") }, ...(this.gold ? [{ mark: "□", colour: ink, text: t("gold: sure, dashed: possible") }] : [])];
  }

  cells() {
    return {
      row: (/** @type {number} */ row) => t("target {target}", { target: quoted(this.targets[row].token) }),
      column: (/** @type {number} */ column) => t("source {source}", { source: quoted(this.sources[column].token) }),
      cell: (/** @type {number} */ row, /** @type {number} */ column) => this.#state(row, column),
    };
  }

  note() {
    const scored = this.gold && agreement(this.links, this.gold);
    return [
      scored && t("AER {aer} · F1 {f1} · precision {precision} · recall {recall}, of this sentence alone; AER = 1 − (|A∩S| + |A∩P|) / (|A| + |S|)", { aer: scored.aer.toFixed(3), f1: scored.f1.toFixed(3), precision: scored.precision.toFixed(3), recall: scored.recall.toFixed(3) }),
      t("source-target:") + " " + this.pharaoh,
    ].filter(Boolean).join(" — ");
  }

  /** What each head's links come to, the best first. */
  table() {
    const { attention, how, gold } = this, rows = [];
    for (let n = 0; n < attention.numLayers; n++) {
      for (let h = -1; h < attention.numHeads; h++) {
        const values = this.#soft(n, h < 0 ? null : h), links = linked(values, this.size.columns, how);
        const both = linked(values, this.size.columns, { ...how, method: "mutual" }).reduce((sum, one) => sum + one, 0);
        const found = agreement(links, gold ?? links), name = [String(n), h < 0 ? t("mean") : String(h)];
        rows.push({ order: gold ? found.aer : -both, row: [...name, ...(gold ? [found.aer, found.f1, found.precision, found.recall].map((value) => value.toFixed(3)) : [String(both)]), String(found.links)] });
      }
    }
    rows.sort((a, b) => a.order - b.order);
    return {
      caption: gold ? t("Each head against gold") : t("Each head: links that are the same from source to target"),
      columns: [t("layer"), t("head"), ...(gold ? ["AER", "F1", t("precision"), t("recall")] : [t("same from both sides")]), t("links")], rows: rows.map((one) => one.row),
    };
  }

  /** @param {number} [row] */
  csv(row) {
    const [rows, columns] = [this.targets, this.sources].map((side) => side.map((unit) => unit.token.text));
    return matrixCsv({ rows, columns, values: this.values }, row);
  }

  close() { this.drawing.close(); }
}
