// How one score comes about: a query and every key, element by element, their products, the score, its share.

import { select } from "../dom.js";
import { largest, softmax } from "../data/numbers.js";
import { span, text } from "../show/axis.js";
import { csv } from "../show/csv.js";
import { cellNames } from "../show/grid.js";
import { figure, label, quoted } from "../show/labels.js";
import { Picture } from "../show/picture.js";
import { t } from "../shell/language.js";

/** @typedef {import("../show/picture.js").Window} Window */

const STEP = 24;
const TOP = 72;
const TOPMOST = 8;

/** @type {import("./view.js").View} */
export const neuron = {
  name: "neuron",
  title: "Neuron",
  shows: (attention) => attention.hasVectors,
  open: (app, stage) => new Neuron(app, stage),
};

class Neuron {
  /** @type {import("../data/attention.js").Layer} */ layer;
  /** @type {{rows: {tokens: import("../data/trace.js").Token[]}, columns: {tokens: import("../data/trace.js").Token[]}}} */ axes;
  /** @type {{rows: number, columns: number}} */ size;
  /** @type {Float32Array} */ q;
  /** @type {Float32Array} */ k;
  /** @type {{q: number, k: number}} */ most;
  /** @type {Float32Array} */ products;
  /** @type {Float32Array} */ scores;
  /** @type {Float32Array} */ weights;
  /** @type {number} */ mostProduct;
  /** @type {number[]} */ order;
  /** @type {{rows: string[], columns: string[]}} */ names;
  /** @type {{left: number, key: number, k: number, product: number, score: number, bias: number, whole: number, weight: number}} */ x;
  // Lengths in pixels.
  unit = 0; strip = 0;

  hint = t("Point at a token at the left to choose the query, at a line to see how its score comes about.");
  /** The row of the query. */
  #query = 0;

  /**
   * @param {import("../shell/app.js").App} app
   * @param {HTMLElement} stage
   */
  constructor(app, stage) {
    this.app = app;
    const dimensions = select(t("Dimensions"), [["", t("in order")], ["size", t("by contribution")]], app.state.get("dimensions"), (dimensions) => app.state.set({ dimensions }));
    const rotary = select(t("Vectors"), [["", t("as multiplied")], ["before", t("before rotary positions")]], app.state.get("rotary"), (rotary) => app.state.set({ rotary }));
    this.controls = ["trace", "attention", "layer", "head", dimensions, ...(app.attention.rotaryBase ? [rotary] : []), "table"];
    this.picture = new Picture(stage, {
      paint: (ctx, seen) => this.#paint(ctx, seen),
      mark: (ctx, seen) => this.#marks(ctx, seen),
      point: (x, y, event) => this.#point(x, y, event),
      press: (x, y) => this.#press(x, y),
      resize: () => this.layer && this.#measure(),
    }, t("queries and keys"));
  }

  get attention() { return this.app.attention; }

  async prepare() {
    this.layer = await this.attention.load(this.app.layer);
  }

  draw() {
    const { attention, app } = this, { rows, columns } = attention;
    this.axes = { rows: { tokens: rows }, columns: { tokens: columns } };
    this.size = { rows: rows.length, columns: columns.length };
    this.before = Boolean(attention.rotaryBase) && app.state.get("rotary") === "before";
    const turned = (/** @type {Float32Array} */ vectors) => (this.before ? unturned(vectors, attention.width, /** @type {number} */ (attention.rotaryBase)) : vectors);
    // What the model multiplied: a trace of one without 1 / √K has √K times its queries.
    const scaled = attention.divided ? 1 : attention.width ** -0.5;
    this.q = turned(this.layer.q(app.head)).map((value) => value * scaled);
    this.k = turned(this.layer.k(app.head));
    this.bias = this.layer.biasOf(app.head);
    this.most = { q: most(this.q), k: most(this.k) };
    this.#query = Math.min(app.pin?.row ?? this.#query, rows.length - 1);
    this.#follow();
    this.#measure();
    this.picture.paint();
  }

  /** What hangs on the query. */
  #follow() {
    const { width, columns } = this.attention, i = this.#query, q = this.q.subarray(i * width, (i + 1) * width);
    this.products = new Float32Array(this.k.length);
    for (let at = 0; at < this.k.length; at++) this.products[at] = q[at % width] * this.k[at] * this.#root;
    this.scores = this.layer.scores(this.app.head, i, i + 1);
    this.weights = softmax(this.scores.slice(), columns.length);
    this.mostProduct = most(this.products);
    this.order = this.#order();
  }

  /** Dimensions as they stand side by side: the largest products first, of the pinned key or of all. */
  #order() {
    const { width } = this.attention, pin = this.app.pin;
    const all = Array.from({ length: width }, (_, d) => d);
    if (this.app.state.get("dimensions") !== "size") return all;
    const sizes = new Float32Array(width);
    this.products.forEach((value, at) => { if (!pin || Math.floor(at / width) === pin.column) sizes[at % width] += Math.abs(value); });
    return largest(sizes, width);
  }

  #measure() {
    const ctx = this.picture.base.getContext("2d"), { app } = this, room = this.picture.room, { rows, columns, width } = this.attention;
    ctx.font = `13px ${app.colours.font}`;
    const names = { rows: rows.map((token) => label(token)), columns: columns.map((token) => label(token)) };
    const widest = (/** @type {string[]} */ list) => Math.min(140, list.reduce((largest, name) => Math.max(largest, ctx.measureText(name).width), 30));
    this.names = names;
    const left = Math.ceil(widest(names.rows)) + 22, keys = Math.ceil(widest(names.columns)) + 16, numbers = this.bias ? 340 : 210;
    this.unit = Math.max(1.5, Math.min(Math.max(9, 120 / width), Math.floor((2 * (room - left - keys - numbers - 56)) / (2 * width)) / 2));
    const strip = width * this.unit, k = left + keys + 12;
    this.x = { left, key: left + keys, k, product: k + strip + 20, score: k + 2 * strip + 90, bias: k + 2 * strip + 152, whole: k + 2 * strip + 220, weight: k + 2 * strip + (this.bias ? 236 : 106) };
    this.strip = strip;
    this.picture.size(this.x.weight + 104, TOP + Math.max(rows.length, columns.length) * STEP + 4);
  }

  /** @param {CanvasRenderingContext2D} ctx @param {Window} seen */
  #paint(ctx, seen) {
    if (!this.names) return;
    const { colours } = this.app, { x } = this;
    ctx.translate(-seen.x, 0);
    ctx.textBaseline = "middle";
    ctx.font = `13px ${colours.font}`;
    for (const j of span(seen.y, seen.height - TOP, STEP, this.names.columns.length)) this.#line(ctx, j, TOP + (j + 0.5) * STEP - seen.y);
    for (const i of span(seen.y, seen.height - TOP, STEP, this.names.rows.length)) {
      const y = TOP + (i + 0.5) * STEP - seen.y;
      if (i === this.#query) {
        ctx.fillStyle = colours.of(0.12);
        ctx.fillRect(0, y - STEP / 2 + 1, x.left - 8, STEP - 2);
      }
      ctx.font = `${i === this.#query ? 600 : 400} 13px ${colours.font}`;
      ctx.fillStyle = i === this.#query ? colours.ink : colours.faint;
      text(ctx, this.names.rows[i], x.left - 14, y, "right", 140);
    }
    this.#head(ctx);
  }

  /** One key. @param {CanvasRenderingContext2D} ctx @param {number} j @param {number} y */
  #line(ctx, j, y) {
    const { colours } = this.app, { x, attention } = this, { width } = attention, masked = !this.layer.allowed(this.#query, j);
    ctx.fillStyle = masked ? colours.faint : colours.ink;
    ctx.font = `13px ${colours.font}`;
    text(ctx, this.names.columns[j], x.key, y, "right", 140);
    this.#cells(ctx, this.k.subarray(j * width, (j + 1) * width), this.most.k, x.k, y, masked ? 0.25 : 1);
    this.#cells(ctx, this.products.subarray(j * width, (j + 1) * width), this.mostProduct, x.product, y, masked ? 0.25 : 1);
    ctx.fillStyle = masked ? colours.faint : colours.ink;
    ctx.font = `12px ${colours.font}`;
    const bias = this.#biasOf(j);
    text(ctx, masked ? t("masked") : figure(this.scores[j] - bias, 2), x.score, y, "right", 60);
    if (this.bias && !masked) {
      text(ctx, (bias < 0 ? "− " : "+ ") + figure(Math.abs(bias), 2), x.bias, y, "right", 60);
      text(ctx, "= " + figure(this.scores[j], 2), x.whole, y, "right", 66);
    }
    if (masked) return;
    ctx.fillStyle = colours.of(0.08);
    ctx.fillRect(x.weight, y - 6, 50, 12);
    ctx.fillStyle = colours.accent;
    ctx.fillRect(x.weight, y - 6, 50 * this.weights[j], 12);
    ctx.fillStyle = colours.ink;
    text(ctx, figure(this.weights[j], 3), x.weight + 58, y, "left", 50);
  }

  /** What the query's score of a key has added to it. @param {number} j */
  #biasOf(j) { return this.bias?.[this.#query * this.size.columns + j] ?? 0; }

  /** The 1 / √K of the model's score; a model without it has it in its queries, which a trace takes apart again. */
  get #root() { return this.attention.divided ? this.attention.width ** -0.5 : 1; }

  /** A vector as a row of coloured cells. @param {CanvasRenderingContext2D} ctx @param {Float32Array} values @param {number} most @param {number} x @param {number} y @param {number} alpha */
  #cells(ctx, values, most, x, y, alpha) {
    ctx.globalAlpha = alpha;
    this.order.forEach((d, place) => {
      ctx.fillStyle = this.app.colours.signed(most ? values[d] / most : 0);
      ctx.fillRect(x + place * this.unit, y - 9, this.unit + 0.3, 18);
    });
    ctx.globalAlpha = 1;
  }

  /** What stands still above: the query and the columns' names. @param {CanvasRenderingContext2D} ctx */
  #head(ctx) {
    const { colours } = this.app, { x, attention } = this, { width, numHeads, numKvHeads } = attention, i = this.#query;
    ctx.fillStyle = colours.paper;
    ctx.fillRect(0, 0, this.picture.width, TOP - 2);
    ctx.fillStyle = colours.line;
    ctx.fillRect(0, TOP - 3, this.picture.width, 1);
    const { head } = this.app, shared = numKvHeads < numHeads ? " " + t("of key head {head}", { head: this.layer.kvHead(head) }) : "";
    ctx.fillStyle = colours.faint;
    ctx.font = `12px ${colours.font}`;
    text(ctx, t("query"), x.left - 14, 58, "right", 100);
    text(ctx, t("key"), x.key, 58, "right", 100);
    text(ctx, "k" + shared, x.k, 58, "left", this.strip);
    if (this.before) text(ctx, t("q × k before rotary positions"), x.product, 58, "left", this.strip);
    else if (!this.attention.divided) text(ctx, "q × k", x.product, 58, "left", this.strip);
    else root(ctx, "q × k / ", String(width), x.product, 58);
    text(ctx, t("sum"), x.score, 58, "right", 60);
    if (this.bias) {
      text(ctx, t("+ bias"), x.bias, 58, "right", 60);
      text(ctx, t("= score"), x.whole, 58, "right", 66);
    }
    text(ctx, "softmax", x.weight, 58, "left", 70);
    text(ctx, "q", x.k - 10, 27, "right", 20);
    ctx.fillStyle = colours.ink;
    ctx.font = `600 13px ${colours.font}`;
    text(ctx, this.names.rows[i], x.k - 26, 27, "right", x.k - 26);
    this.#cells(ctx, this.q.subarray(i * width, (i + 1) * width), this.most.q, x.k, 27, 1);
    this.#cells(ctx, this.q.subarray(i * width, (i + 1) * width), this.most.q, x.product, 27, 1);
  }

  /** @param {CanvasRenderingContext2D} ctx @param {Window} seen */
  #marks(ctx, seen) {
    if (!this.names) return;
    const { colours, cursor, pin } = this.app;
    ctx.beginPath();
    ctx.rect(0, TOP - 2, seen.width, seen.height);
    ctx.clip();
    for (const [cell, ink] of /** @type {const} */ ([[pin, colours.mark], [cursor, colours.accent]])) {
      if (!cell || cell.column >= this.size.columns) continue;
      ctx.strokeStyle = ink;
      ctx.strokeRect(this.x.left - 2.5 - seen.x, TOP + cell.column * STEP - seen.y + 0.5, this.picture.width - this.x.left, STEP - 1);
    }
  }

  /** Chooses another query, if it is another. @param {number} row */
  #choose(row) {
    if (row === this.#query) return;
    this.#query = row;
    this.#follow();
    this.picture.paint();
  }

  /** @param {number} x @param {number} y */
  #at(x, y) {
    const seen = this.picture.seen, place = Math.floor((y - TOP + seen.y) / STEP);
    if (y < TOP || place < 0) return null;
    if (x + seen.x < this.x.left - 4) return place < this.size.rows ? { row: place, column: this.app.pin?.column ?? -1 } : null;
    return place < this.size.columns ? { row: this.#query, column: place } : null;
  }

  /** @param {number} x @param {number} y @param {PointerEvent | null} event */
  #point(x, y, event) {
    const cell = event && this.names ? this.#at(x, y) : null;
    if (cell) {
      this.#choose(cell.row);
      if (cell.column < 0) cell.column = this.best();
    }
    this.app.hover(cell);
    const dimension = cell && this.#dimension(x + this.picture.seen.x);
    if (dimension === null || dimension === undefined || !cell || !event) return this.app.tip.hide();
    const { width } = this.attention, q = this.q[cell.row * width + dimension], k = this.k[cell.column * width + dimension];
    this.app.tip.show(event, [t("dimension {dimension}", { dimension }), `q ${figure(q, 3)} × k ${figure(k, 3)}${this.attention.divided ? ` / ${figure(Math.sqrt(width), 2)}` : ""} = ${figure(this.products[cell.column * width + dimension], 3)}`]);
  }

  /** @param {number} x */
  #dimension(x) {
    const start = [this.x.k, this.x.product].find((from) => x >= from && x < from + this.strip);
    return start === undefined ? null : this.order[Math.floor((x - start) / this.unit)] ?? null;
  }

  /** @param {number} x @param {number} y */
  #press(x, y) {
    const cell = this.#at(x, y);
    if (!cell) return;
    this.#choose(cell.row);
    this.app.setPin({ row: cell.row, column: cell.column < 0 ? this.best() : cell.column });
    if (this.app.state.get("dimensions") === "size") this.draw();
  }

  mark() {
    const { cursor, pin } = this.app;
    if (!cursor && pin) this.#choose(pin.row);
    this.picture.mark();
  }

  /** @param {number} row @param {number} column */
  reveal(row, column) {
    this.#choose(row);
    this.picture.reveal(this.picture.seen.x, TOP + column * STEP, 1, STEP, 0, TOP);
  }

  /** @param {number} [row] the column that it looks at most */
  best(row = this.#query) { this.#choose(row); return largest(this.weights, 1)[0]; }

  /** @param {number} row @param {number} column @returns {import("../shell/readout.js").Reading} */
  read(row, column) {
    this.#choose(row);
    const { width, columns, rows } = this.attention, query = quoted(rows[row]), key = quoted(columns[column]);
    const names = [query, key], score = this.scores[column];
    if (score === -Infinity) return { names, figures: [[t("score"), t("masked")]], text: t("query {query}, key {key}, masked", { query, key }) };
    const products = this.products.subarray(column * width, (column + 1) * width), sum = products.reduce((a, b) => a + b, 0);
    const first = largest(products.map(Math.abs), TOPMOST).reduce((a, d) => a + products[d], 0), count = Math.min(TOPMOST, width);
    const bias = this.bias?.[row * columns.length + column];
    /** @type {[string, string][]} */
    const figures = [[t("score"), figure(score, 3)], [t("weight"), figure(this.weights[column])]];
    if (bias !== undefined) figures.splice(1, 0, [t("of which bias"), figure(bias, 3)]);
    figures.push([t("top {count} of {width} dimensions", { count, width }), t("{part} of {whole}", { part: figure(first, 2), whole: figure(sum, 2) }) + (first / sum > 0 && first / sum <= 1 ? ` (${Math.round((100 * first) / sum)} %)` : "")]);
    return { names, figures, text: t("query {query}, key {key}, {figures}", { query, key, figures: figures.map((pair) => pair.join(" ")).join(", ") }) };
  }

  label() {
    return t("{attention}, layer {layer}, head {head}: queries and keys of {width} dimensions", { attention: this.attention.name, layer: this.app.layer, head: this.app.head, width: this.attention.width });
  }

  legend() {
    const { diverging } = this.app.colours, ends = (/** @type {number} */ most) => ["−" + figure(most, 2), figure(most, 2)];
    return [{ ramp: diverging, ends: ends(this.most.q), text: "q" }, { ramp: diverging, ends: ends(this.most.k), text: "k" }, { ramp: diverging, ends: ends(this.mostProduct), text: t("product") }];
  }

  cells() {
    const { rows, columns } = this.attention;
    return {
      ...cellNames(rows, columns),
      cell: (/** @type {number} */ row, /** @type {number} */ column) => figure(this.layer.scores(this.app.head, row, row + 1)[column], 3),
    };
  }

  note() { return this.before ? t("Before rotary positions turn them, products do not add up to the score, which is taken after.") : ""; }

  table() {
    const { columns, rows, width } = this.attention, order = largest(this.weights, 50), i = this.#query;
    return {
      caption: t("How {query} scores the keys", { query: quoted(rows[i]) }), columns: [t("key"), t("score"), ...(this.bias ? [t("of which bias")] : []), t("weight"), t("largest products, by dimension")],
      rows: order.map((j) => {
        const products = this.products.subarray(j * width, (j + 1) * width);
        const first = largest(products.map(Math.abs), 4).map((d) => `${d}: ${figure(products[d], 2)}`).join(", ");
        return [quoted(columns[j]), figure(this.scores[j], 3), ...(this.bias ? [figure(this.bias[i * columns.length + j], 3)] : []), figure(this.weights[j]), first];
      }),
    };
  }

  /** Products of a query with each key. @param {number} [row] */
  csv(row = this.#query) {
    this.#choose(row);
    const { columns, width } = this.attention, dimensions = Array.from({ length: width }, (_, d) => String(d));
    return csv([["key", "score", "weight", ...dimensions], ...columns.map((token, j) => [token.text, this.scores[j], this.weights[j], ...this.products.subarray(j * width, (j + 1) * width)])]);
  }

  /** The weights of the query, for tests. */
  get values() { return this.weights; }

  close() {
    this.picture.close();
    this.app.tip.hide();
  }
}

/** @param {Float32Array} values the largest size among them */
const most = (values) => values.reduce((largest, one) => Math.max(largest, Math.abs(one)), 0);

/**
 * A root with its bar over the number, which a font's own sign leaves a gap before.
 * @param {CanvasRenderingContext2D} ctx
 * @param {string} before
 * @param {string} number
 * @param {number} x
 * @param {number} y the middle
 */
function root(ctx, before, number, x, y) {
  text(ctx, before, x, y, "left", 200);
  const from = x + ctx.measureText(before).width, width = ctx.measureText(number).width;
  ctx.strokeStyle = /** @type {string} */ (ctx.fillStyle);
  ctx.lineWidth = 1;
  ctx.beginPath();
  for (const [dx, dy] of [[0, 1], [2, 0], [5, 5.5], [8, -7.5], [10 + width, -7.5]]) ctx.lineTo(from + dx, y + dy);
  ctx.stroke();
  text(ctx, number, from + 9, y, "left", 60);
}

/**
 * Vectors before rotary positions turned them: the first half of the coordinates turns with the second.
 * @param {Float32Array} vectors (places, K)
 * @param {number} width K
 * @param {number} base
 */
function unturned(vectors, width, base) {
  const out = new Float32Array(vectors.length), half = width / 2;
  for (let at = 0; at < vectors.length; at++) {
    const d = at % width, place = (at - d) / width, angle = place * base ** (-(d % half) / half);
    const other = d < half ? vectors[at + half] : -vectors[at - half];
    out[at] = vectors[at] * Math.cos(angle) + other * Math.sin(angle);
  }
  return out;
}
