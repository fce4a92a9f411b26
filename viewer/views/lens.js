// What each layer would write: the word that the model would choose if it stopped there, stage by stage.

import { explained } from "../data/explained.js";
import { span, text } from "../show/axis.js";
import { csv } from "../show/csv.js";
import { bare, figure, label, quoted } from "../show/labels.js";
import { nameStage } from "../show/names.js";
import { Picture } from "../show/picture.js";
import { ko } from "../shell/ko/texts.js";
import { t } from "../shell/language.js";
import { named } from "../show/panels.js";
import { percent } from "../writing/words.js";

/** @typedef {import("../analysis/lens.js").LensCell} LensCell */
/** @typedef {import("../show/picture.js").Window} Window */

const HEIGHT = 28;
const WIDTH = 92;
const TOP = 34;

/** @type {import("./view.js").View} */
export const lens = {
  name: "lens",
  title: "Lens",
  shows: () => true,
  open: (app, stage) => new Lens(app, stage),
  korean: ko,
};

class Lens {
  /** @type {{rows: {tokens: import("../data/trace.js").Token[]}, columns: {tokens: import("../data/trace.js").Token[]}}} */ axes;
  /** @type {number[]} */ values;

  /** @type {import("../analysis/lens.js").Lens} */
  #lens = { sequence: "out", stages: [], cells: [] };
  /** @type {import("../data/trace.js").Token[]} */
  tokens = [];
  /** @type {string[]} */
  stages = [];
  left = 0;
  width = WIDTH;

  /**
   * @param {import("../shell/app.js").App} app
   * @param {HTMLElement} stage
   */
  constructor(app, stage) {
    this.app = app;
    this.hint = t("A column is a word that was written, a row a place in the model. Point at a cell for the five likeliest words.");
    this.controls = ["trace", "table"];
    this.size = { rows: 0, columns: 0 };
    this.picture = new Picture(stage, {
      paint: (ctx, seen) => this.#paint(ctx, seen),
      mark: (ctx, seen) => this.#marks(ctx, seen),
      point: (x, y, event) => this.#point(x, y, event),
      press: (x, y) => { const cell = this.#at(x, y); if (cell) app.setPin(cell); },
      resize: () => this.size.rows && this.#measure(),
    }, t("what each layer would write"));
  }

  async prepare() {
    this.#lens = this.app.extrasOf("lens") ?? await explained(this.app, "lens");
  }

  draw() {
    const { stages, cells, sequence } = this.#lens;
    const written = this.app.trace.sequences[sequence] ?? [];
    this.tokens = cells[0].map((cell, row) => written[row] ?? named(cells[cells.length - 1][row].top[0].text));
    this.stages = stages.map(nameStage);
    this.size = { rows: stages.length, columns: this.tokens.length };
    this.axes = { rows: { tokens: this.stages.map(named) }, columns: { tokens: this.tokens } };
    this.values = cells.flat().map((cell) => cell.top[0].probability);
    this.#measure();
    this.picture.paint();
  }

  #measure() {
    const ctx = /** @type {CanvasRenderingContext2D} */ (this.picture.base.getContext("2d")), { stages } = this;
    ctx.font = `13px ${this.app.colours.font}`;
    this.left = Math.ceil(Math.min(0.42 * this.picture.room, stages.reduce((most, name) => Math.max(most, ctx.measureText(name).width), 60))) + 14;
    this.width = Math.max(WIDTH, Math.min(150, Math.floor((this.picture.room - this.left - 4) / this.size.columns)));
    this.picture.size(this.left + this.width * this.size.columns + 2, TOP + this.size.rows * HEIGHT + 2);
  }

  /** @param {number} stage @param {number} row */
  #cell(stage, row) { return this.#lens.cells[stage][row]; }

  /** @param {CanvasRenderingContext2D} ctx @param {Window} seen */
  #paint(ctx, seen) {
    if (!this.size.rows) return;
    const { colours } = this.app, { left, width } = this;
    ctx.textBaseline = "middle";
    const columns = span(seen.x, seen.width - left, width, this.size.columns), rows = span(seen.y, seen.height - TOP, HEIGHT, this.size.rows);
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, TOP, seen.width, seen.height);
    ctx.clip();
    for (const i of rows) for (const j of columns) this.#box(ctx, i, j, left + j * width - seen.x, TOP + i * HEIGHT - seen.y);
    ctx.restore();
    ctx.fillStyle = colours.ink;
    for (const i of rows) {
      ctx.font = `13px ${colours.font}`;
      ctx.fillStyle = this.#last(i) ? colours.ink : colours.faint;
      const y = TOP + (i + 0.5) * HEIGHT - seen.y;
      if (y > TOP) text(ctx, this.stages[i], left - 10, y, "right", left - 12);
    }
    ctx.fillStyle = colours.ink;
    ctx.font = `600 13px ${colours.font}`;
    for (const j of columns) {
      const x = left + (j + 0.5) * width - seen.x;
      if (x > left) text(ctx, label(this.tokens[j]), x, TOP / 2 - 2, "center", width - 6);
    }
  }

  /** Whether a stage is the last of its layer. @param {number} stage */
  #last(stage) { return stage + 1 === this.size.rows || /feed_forward/.test(this.#lens.stages[stage]); }

  /** @param {CanvasRenderingContext2D} ctx @param {number} i @param {number} j @param {number} x @param {number} y */
  #box(ctx, i, j, x, y) {
    const { colours } = this.app, cell = this.#cell(i, j), best = cell.top[0];
    ctx.fillStyle = colours.of(best.probability);
    ctx.fillRect(x + 1, y + 1, this.width - 2, HEIGHT - 2);
    ctx.fillStyle = colours.inkOn(best.probability);
    ctx.font = `${cell.rank === 0 ? 600 : 400} 13px ${colours.font}`;
    text(ctx, bare(best.text), x + this.width / 2, y + HEIGHT / 2 + 0.5, "center", this.width - 12);
    if (cell.rank > 0) return;
    // The word that was written in the end is the first here: a line says so, not the colour alone.
    ctx.fillRect(x + 8, y + HEIGHT - 5, this.width - 16, 1.5);
  }

  /** @param {CanvasRenderingContext2D} ctx @param {Window} seen */
  #marks(ctx, seen) {
    const { cursor, pin, colours } = this.app;
    ctx.beginPath();
    ctx.rect(this.left - 1, TOP - 1, seen.width, seen.height);
    ctx.clip();
    for (const [cell, ink] of /** @type {const} */ ([[pin, colours.mark], [cursor, colours.accent]])) {
      if (!cell) continue;
      ctx.strokeStyle = ink;
      ctx.lineWidth = 2;
      ctx.strokeRect(this.left + cell.column * this.width - seen.x + 1, TOP + cell.row * HEIGHT - seen.y + 1, this.width - 2, HEIGHT - 2);
    }
  }

  /** @param {number} x @param {number} y */
  #at(x, y) {
    const seen = this.picture.seen, row = Math.floor((y - TOP + seen.y) / HEIGHT), column = Math.floor((x - this.left + seen.x) / this.width);
    return x >= this.left && y >= TOP && row < this.size.rows && column < this.size.columns ? { row, column } : null;
  }

  /** @param {number} x @param {number} y @param {PointerEvent | null} event */
  #point(x, y, event) {
    const cell = event && this.size.rows ? this.#at(x, y) : null;
    this.app.hover(cell);
    if (!cell || !event) return this.app.tip.hide();
    this.app.tip.show(event, [this.stages[cell.row], ...this.#cell(cell.row, cell.column).top.map((one) => `${percent(one.probability)}  ${bare(one.text)}`)]);
  }

  mark() { this.picture.mark(); }

  /** @param {number} row @param {number} column */
  reveal(row, column) {
    this.picture.reveal(this.left + column * this.width, TOP + row * HEIGHT, this.width, HEIGHT, this.left, TOP);
  }

  /** @param {number} row @param {number} column @returns {import("../shell/readout.js").Reading} */
  read(row, column) {
    const cell = this.#cell(row, column), written = quoted(this.tokens[column]);
    const names = [this.stages[row], t("the place of {word}", { word: written })];
    /** @type {[string, string][]} */
    const figures = [[t("likeliest"), `${bare(cell.top[0].text)} ${percent(cell.top[0].probability)}`], [t("the word that was written"), percent(cell.chosen)],
      [t("more probable than it"), cell.rank === 0 ? t("none") : String(cell.rank)]];
    return { names, figures, text: `${names.join(", ")}: ${cell.top.map((one) => `${bare(one.text)} ${percent(one.probability)}`).join(", ")}` };
  }

  label() { return t("what each layer would write: {stages} stages by {words} words", { stages: this.size.rows, words: this.size.columns }); }

  cells() {
    return {
      row: (/** @type {number} */ row) => this.stages[row],
      column: (/** @type {number} */ column) => quoted(this.tokens[column]),
      cell: (/** @type {number} */ row, /** @type {number} */ column) => { const best = this.#cell(row, column).top[0]; return `${bare(best.text)} ${percent(best.probability)}`; },
    };
  }

  note() {
    return t("Each stage goes through the final norm and the output projection, as the last one does (the logit lens). Underlined: the word that was written is the likeliest already. Layers are not trained to be read so; what an early one shows is what the projection makes of it.");
  }

  table() {
    const column = this.app.cell?.column ?? 0;
    return {
      caption: t("What each layer would write in place of {word}", { word: quoted(this.tokens[column]) }),
      columns: [t("stage"), t("likeliest"), t("probability"), t("the word that was written"), t("others")],
      rows: this.stages.map((name, row) => {
        const cell = this.#cell(row, column);
        return [name, bare(cell.top[0].text), figure(cell.top[0].probability), figure(cell.chosen), cell.top.slice(1).map((one) => `${bare(one.text)} ${percent(one.probability)}`).join(", ")];
      }),
    };
  }

  /** @param {number} [stage] one stage alone */
  csv(stage) {
    const lines = this.#lens.cells.map((cells, i) => [this.stages[i], ...cells.flatMap((cell) => [cell.top[0].text, cell.top[0].probability, cell.chosen])]);
    const head = ["", ...this.tokens.flatMap((token) => [token.text, "probability", "written"])];
    return csv([head, ...(stage === undefined ? lines : [lines[stage]])]);
  }

  close() {
    this.picture.close();
    this.app.tip.hide();
  }
}
