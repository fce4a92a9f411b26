// A matrix with named rows and columns: cells, hatching, numbers where there is room, a crosshair, what is pointed at.

import { t } from "../shell/language.js";
import { frame, paintAxes } from "./axis.js";
import { hatching, heatmap, SCALES } from "./heatmap.js";
import { Picture } from "./picture.js";

/** @typedef {import("../shell/app.js").Cell} Cell */
/** @typedef {import("./picture.js").Window} Window */

/**
 * @typedef {Object} Matrix
 * @property {import("../data/trace.js").Token[]} rows
 * @property {import("../data/trace.js").Token[]} columns
 * @property {ArrayLike<number>} values row after row
 * @property {number[][]} [ramp] 256 colours; by default those of weights
 * @property {string} [scale] a name in SCALES
 * @property {((row: number, column: number) => boolean) | null} [masked]
 * @property {number} [zoom] a cell's size in pixels; 0: what fits
 * @property {number} [tallest] the most height in pixels before it scrolls
 * @property {boolean} [numbers] whether large cells hold their number; true by default
 * @property {import("./axis.js").Titles} [titles] what rows and columns are
 * @property {string} [meaning] what the colours mean; by default the weight
 * @property {[string, string]} [ends] what the first and the last colour are; by default 0 and 1
 * @property {(ctx: CanvasRenderingContext2D, box: (row: number, column: number) => [number, number, number]) => void} [over] paints over the cells; box gives x, y and size of one
 */

export class MatrixPicture {
  /** @type {import("./axis.js").Frame} */ frame;
  /** @type {HTMLCanvasElement} */ image;

  /** @type {Matrix | null} */
  #shown = null;

  /**
   * @param {import("../shell/app.js").App} app
   * @param {HTMLElement} stage
   * @param {{label: string, tip?: (cell: Cell) => string[], press?: (cell: Cell) => void}} options
   */
  constructor(app, stage, options) {
    this.app = app;
    this.options = options;
    this.picture = new Picture(stage, {
      paint: (ctx, seen) => this.#paint(ctx, seen),
      mark: (ctx, seen) => this.#marks(ctx, seen),
      point: (x, y, event) => this.#point(x, y, event),
      press: (x, y) => this.#press(this.#at(x, y)),
      resize: () => this.#measure(),
    }, options.label);
  }

  /**
   * Shows a matrix in place of the one before.
   * @param {Matrix} matrix
   */
  show(matrix) {
    this.#shown = matrix;
    this.image = heatmap(matrix.values, matrix.rows.length, matrix.columns.length, matrix.ramp ?? this.app.colours.sequential, matrix.scale);
    this.#measure();
    this.picture.paint();
  }

  /** What its colours and patterns mean. @returns {import("./legend.js").Sign[]} */
  legend() {
    const shown = this.#shown;
    if (!shown) return [];
    const { colours } = this.app, of = SCALES[shown.scale ?? "linear"] ?? SCALES.linear, ramp = shown.ramp ?? colours.sequential;
    // The scale is drawn evenly in what it shows, so that a root or a logarithm is seen as one.
    const steps = Array.from({ length: 64 }, (_, at) => ramp[Math.round(255 * Math.min(1, Math.max(0, of(at / 63, 1))))]);
    const named = t(shown.scale === "row" ? "weight, as a share of the row's largest" : shown.meaning ?? "attention weight");
    return [{ ramp: shown.ramp ?? steps, ends: shown.ends ?? ["0", "1"], text: named }, ...(shown.masked ? [{ hatched: true, text: t("masked: may not be looked at") }] : [])];
  }

  /** A cell's size in pixels. */
  get cell() { return this.frame?.cell ?? 0; }

  /** Paints pin and cursor anew. */
  mark() { this.picture.mark(); }

  /** @param {number} row @param {number} column */
  reveal(row, column) {
    const { cell, left, top } = this.frame;
    this.picture.reveal(left + column * cell, top + row * cell, cell, cell, left, top);
  }

  close() {
    this.picture.close();
    this.app.tip.hide();
  }

  #measure() {
    const shown = this.#shown;
    if (!shown) return;
    this.frame = frame(this.picture.base.getContext("2d"), this.app.colours.font, shown.rows, shown.columns, this.picture.room, shown.zoom ?? 0, shown.titles);
    const { cell, left, top, overhang } = this.frame;
    this.picture.size(left + cell * shown.columns.length + overhang, top + cell * shown.rows.length + 2, shown.tallest);
  }

  /** @param {CanvasRenderingContext2D} ctx @param {Window} seen */
  #clip(ctx, seen) {
    const { left, top } = this.frame;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, seen.width - left, seen.height - top);
    ctx.clip();
  }

  /** @param {CanvasRenderingContext2D} ctx @param {Window} seen */
  #paint(ctx, seen) {
    const shown = this.#shown;
    if (!shown) return;
    const { cell, left, top } = this.frame, width = shown.columns.length * cell, height = shown.rows.length * cell;
    this.#clip(ctx, seen);
    ctx.imageSmoothingEnabled = false;
    ctx.drawImage(this.image, left - seen.x, top - seen.y, width, height);
    if (shown.masked) this.#hatch(ctx, seen, shown.masked);
    if (cell >= 34 && shown.numbers !== false && !shown.ramp) this.#numbers(ctx, seen);
    shown.over?.(ctx, (row, column) => [left + column * cell - seen.x, top + row * cell - seen.y, cell]);
    ctx.strokeStyle = this.app.colours.line;
    ctx.strokeRect(left - seen.x + 0.5, top - seen.y + 0.5, width - 1, height - 1);
    ctx.restore();
    paintAxes(ctx, this.frame, seen, this.app.colours);
  }

  /** @param {CanvasRenderingContext2D} ctx @param {Window} seen @param {(row: number, column: number) => boolean} masked */
  #hatch(ctx, seen, masked) {
    const { cell, left, top, rows, columns } = this.frame;
    ctx.beginPath();
    for (let i = 0; i < rows.length; i++) {
      const y = top + i * cell - seen.y;
      if (y + cell < top || y > seen.height) continue;
      for (let j = 0; j < columns.length; j++) {
        const from = j;
        while (j < columns.length && masked(i, j)) j++;
        if (j > from) ctx.rect(left + from * cell - seen.x, y, (j - from) * cell, cell);
      }
    }
    ctx.fillStyle = this.app.colours.paper;
    ctx.fill();
    ctx.fillStyle = hatching(ctx, this.app.colours.line, this.picture.scale ?? 1);
    ctx.fill();
  }

  /** @param {CanvasRenderingContext2D} ctx @param {Window} seen */
  #numbers(ctx, seen) {
    const { values, columns, rows, scale = "linear", masked } = /** @type {Matrix} */ (this.#shown), { cell, left, top } = this.frame;
    ctx.font = `11px ${this.app.colours.font}`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    for (let i = 0; i < rows.length; i++) {
      const row = Array.from({ length: columns.length }, (_, j) => values[i * columns.length + j]), most = Math.max(...row);
      row.forEach((value, j) => {
        if (value < 0.005 || masked?.(i, j)) return;
        ctx.fillStyle = this.app.colours.inkOn(SCALES[scale](value, most));
        ctx.fillText(value.toFixed(2).replace(/^0/, ""), left + (j + 0.5) * cell - seen.x, top + (i + 0.5) * cell - seen.y);
      });
    }
  }

  /** @param {CanvasRenderingContext2D} ctx @param {Window} seen */
  #marks(ctx, seen) {
    const { pin, cursor, colours } = this.app;
    if (!this.#shown) return;
    if (pin) this.#cross(ctx, seen, pin, colours.mark);
    if (cursor) this.#cross(ctx, seen, cursor, colours.accent);
  }

  /** @param {CanvasRenderingContext2D} ctx @param {Window} seen @param {Cell} at @param {string} ink */
  #cross(ctx, seen, at, ink) {
    const { cell, left, top, rows, columns } = this.frame;
    if (at.row >= rows.length || at.column >= columns.length) return;
    const x = left + at.column * cell - seen.x, y = top + at.row * cell - seen.y;
    this.#clip(ctx, seen);
    ctx.strokeStyle = ink;
    ctx.globalAlpha = 0.55;
    ctx.strokeRect(left - seen.x + 0.5, y + 0.5, columns.length * cell - 1, cell - 1);
    ctx.strokeRect(x + 0.5, top - seen.y + 0.5, cell - 1, rows.length * cell - 1);
    ctx.globalAlpha = 1;
    ctx.lineWidth = 2;
    ctx.strokeRect(x, y, cell, cell);
    ctx.restore();
    paintAxes(ctx, this.frame, seen, this.app.colours, at, ink);
  }

  /** @param {number} x @param {number} y @returns {Cell | null} */
  #at(x, y) {
    if (!this.#shown) return null;
    const { cell, left, top, rows, columns } = this.frame, seen = this.picture.seen;
    const row = Math.floor((y - top + seen.y) / cell), column = Math.floor((x - left + seen.x) / cell);
    return x >= left && y >= top && row < rows.length && column < columns.length ? { row, column } : null;
  }

  /** @param {number} x @param {number} y @param {PointerEvent | null} event */
  #point(x, y, event) {
    const cell = event && this.#at(x, y), tip = cell && this.options.tip?.(cell);
    this.app.hover(cell);
    if (tip) this.app.tip.show(event, tip);
    else this.app.tip.hide();
  }

  /** @param {Cell | null} cell */
  #press(cell) {
    if (!cell) return;
    this.app.grid.go(cell.row, cell.column, true);
    if (this.options.press) this.options.press(cell);
    else this.app.setPin(cell);
  }
}
