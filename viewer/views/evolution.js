// Statistics of heads over the checkpoints of a run, and what the chosen head looked at by each.

import { el, select, write } from "../dom.js";
import { array } from "../data/islands.js";
import { matrixCsv } from "../show/csv.js";
import { figure } from "../show/labels.js";
import { MatrixPicture } from "../show/matrix.js";
import { aside, named, panels } from "../show/panels.js";
import { titles } from "../show/shown.js";
import { t } from "../shell/language.js";
import { MEANINGS, STATISTICS } from "../shell/statistics.js";


/** @type {import("./view.js").View} */
export const evolution = {
  name: "evolution",
  title: "Evolution",
  shows: (attention) => !attention.name.startsWith("search."),
  open: (app, stage) => new Evolution(app, stage),
};

class Evolution {
  /** @type {ArrayLike<number>} */ figures;
  /** @type {{rows: number, columns: number}} */ size;
  /** @type {Float32Array} */ values;

  hint = t("Point at a head's value at a step; click to see what it looked at then.");

  /**
   * @param {import("../shell/app.js").App} app
   * @param {HTMLElement} stage
   */
  constructor(app, stage) {
    this.app = app;
    /** @type {number[]} */
    this.steps = app.extras.evolution?.steps ?? [];
    const last = this.steps.length - 1;
    const slider = el("input", { type: "range", min: 0, max: last, step: 1, value: this.step, "aria-label": t("checkpoint"), oninput: () => app.state.set({ "evolution.step": slider.value }) });
    slider.disabled = last < 1;
    this.slider = slider;
    this.number = el("b", {});
    this.controls = [
      "attention", select(t("Statistic"), Object.entries(STATISTICS).map(([name, text]) => [name, t(text)]), this.statistic, (value) => app.state.set({ "evolution.statistic": value })),
      el("label", { class: "field layer", title: t("checkpoint (b n)") }, el("span", {}, t("Step")), this.number, slider), "table",
    ];
    this.panels = panels(stage, 2);
    this.drawing = new MatrixPicture(app, this.panels[0].place, { label: t("statistics by checkpoint"), tip: ({ row, column }) => [this.#value(row, column), this.#name(row), t("step {step}", { step: this.steps[column] })], press: ({ row, column }) => this.enter(row, column) });
    this.matrix = new MatrixPicture(aside(app), this.panels[1].place, { label: t("weights at the step") });
    this.picture = this.drawing.picture;
  }

  keys = [["b n", "checkpoint before, checkpoint after"]];

  get statistic() { return this.app.state.get("evolution.statistic") || "entropy"; }

  /** Which checkpoint is looked at; by default the last. */
  get step() {
    const chosen = this.app.state.get("evolution.step"), last = Math.max(0, this.steps.length - 1);
    return chosen === "" ? last : Math.min(last, Number(chosen) || 0);
  }

  get attention() { return this.app.attention; }

  /** @param {KeyboardEvent} event */
  key(event) {
    const by = event.key === "n" ? 1 : event.key === "b" ? -1 : 0;
    if (by) this.app.state.set({ "evolution.step": Math.max(0, Math.min(this.steps.length - 1, this.step + by)) });
    return by !== 0;
  }

  async prepare() {
    const { app, attention } = this, handle = app.extras.evolution?.statistics[attention.name]?.[this.statistic];
    /** @type {ArrayLike<number>} (steps, N, H) */
    this.figures = handle ? await array(handle) : [];
    this.then = app.traces[this.step]?.attentions.get(attention.name);
    this.loaded = this.then?.hasWeights ? await this.then.load(app.layer) : null;
  }

  draw() {
    const { app, attention, steps } = this, heads = attention.numLayers * attention.numHeads;
    this.size = { rows: this.figures.length ? heads : 0, columns: steps.length };
    this.values = Float32Array.from({ length: heads * steps.length }, (_, at) => this.figures[(at % steps.length) * heads + Math.floor(at / steps.length)] ?? 0);
    const most = this.values.reduce((a, b) => Math.max(a, b), 0), least = this.values.reduce((a, b) => Math.min(a, b), most);
    this.slider.value = String(this.step);
    write(this.number, String(steps[this.step] ?? ""));
    const name = t(STATISTICS[this.statistic]);
    this.ends = /** @type {[string, string]} */ ([figure(least, 3), figure(most, 3)]);
    this.panels[0].title(t("{statistic}: a row for each head, a column for each checkpoint", { statistic: name[0].toUpperCase() + name.slice(1) }));
    this.panels[0].note(this.size.rows ? "" : t("the page has no statistics of checkpoints"));
    if (this.size.rows) this.drawing.show({
      rows: Array.from({ length: heads }, (_, row) => named(this.#name(row))), columns: steps.map((step) => named(String(step))), numbers: false, tallest: 640, meaning: name, ends: this.ends, titles: { rows: t("head"), columns: t("step") },
      values: this.values.map((value) => (most > least ? (value - least) / (most - least) : 0)), zoom: Math.min(28, Math.max(12, Math.floor(560 / heads))),
      over: (ctx, box) => {
        const [x, y, cell] = box(app.layer * attention.numHeads + app.head, this.step);
        ctx.strokeStyle = app.colours.mark;
        ctx.lineWidth = 2;
        ctx.strokeRect(x + 1, y + 1, cell - 2, cell - 2);
        ctx.lineWidth = 1;
      },
    });
    this.panels[1].root.hidden = !this.loaded;
    if (!this.loaded || !this.then) return;
    this.panels[1].title(t("Layer {layer}, head {head} at step {step}", { layer: app.layer, head: app.head, step: steps[this.step] }));
    this.matrix.show({ rows: this.then.rows, columns: this.then.columns, values: this.loaded.weights(app.head), tallest: 720, titles: titles(this.then) });
  }

  /** @param {number} row */
  #name(row) { return t("layer {layer} head {head}", { layer: Math.floor(row / this.attention.numHeads), head: row % this.attention.numHeads }); }

  /** @param {number} row @param {number} column */
  #value(row, column) { return figure(this.values[row * this.size.columns + column], 4); }

  /** @param {number} row @param {number} column */
  enter(row, column) {
    this.app.state.set({ layer: Math.floor(row / this.attention.numHeads), head: row % this.attention.numHeads, "evolution.step": column });
  }

  mark() { this.drawing.mark(); }

  /** @param {number} row @param {number} column */
  reveal(row, column) { this.drawing.reveal(row, column); }

  /** @param {number} row @param {number} column @returns {import("../shell/readout.js").Reading} */
  read(row, column) {
    const name = this.#name(row), step = t("step {step}", { step: this.steps[column] }), statistic = t(this.statistic), value = this.#value(row, column);
    return { names: [name, step], figures: [[statistic, value]], text: `${name}, ${step}, ${statistic} ${value}` };
  }

  label() { return t("{statistic} of {rows} heads at {columns} checkpoints", { statistic: t(this.statistic), ...this.size }); }

  cells() {
    return {
      row: (/** @type {number} */ row) => this.#name(row), column: (/** @type {number} */ column) => t("step {step}", { step: this.steps[column] }),
      cell: (/** @type {number} */ row, /** @type {number} */ column) => this.#value(row, column),
    };
  }

  legend() { return this.size.rows ? [...this.drawing.legend(), ...(this.loaded ? this.matrix.legend() : [])] : []; }

  get pictures() { return [{ picture: this.drawing.picture, title: this.panels[0].named }, ...(this.loaded ? [{ picture: this.matrix.picture, title: this.panels[1].named }] : [])]; }

  note() { return [t(MEANINGS[this.statistic]), t("Values of one text, the same at each checkpoint; Enter or a click opens a head at a step.")].join(" "); }

  table() {
    const rows = Array.from({ length: this.size.rows }, (_, row) => [this.#name(row), ...this.steps.map((_, column) => this.#value(row, column))]);
    return { caption: t(STATISTICS[this.statistic]), columns: [t("head"), ...this.steps.map(String)], rows };
  }

  /** @param {number} [row] */
  csv(row) {
    const rows = Array.from({ length: this.size.rows }, (_, i) => this.#name(i));
    return matrixCsv({ rows, columns: this.steps.map(String), values: this.values, corner: this.statistic }, row);
  }

  close() {
    this.drawing.close();
    this.matrix.close();
  }
}
