// All heads of all attentions at a glance: layers by heads, or in the order of a statistic.

import { pooled, SIDE } from "../data/pooled.js";
import { select } from "../dom.js";
import { text } from "../show/axis.js";
import { csv } from "../show/csv.js";
import { heatmap } from "../show/heatmap.js";
import { figure } from "../show/labels.js";
import { Picture } from "../show/picture.js";
import { nameShort } from "../show/names.js";
import { t } from "../shell/language.js";
import { MEANINGS, STATISTICS } from "../shell/statistics.js";

const GAP = 8;

/** @type {Record<string, string>} */
const ORDERS = { "": "layer and head", ...STATISTICS };

/** @typedef {{attention: import("../data/attention.js").Attention, layer: number, head: number, row: number, column: number, x: number, y: number}} Item */

/** @type {import("./view.js").View} */
export const model = {
  name: "model",
  title: "Model",
  shows: (attention) => Boolean(attention.description.thumbnails) || (attention.hasWeights && !attention.name.startsWith("search.")),
  open: (app, stage) => new Model(app, stage),
};

class Model {
  /** @type {import("../data/attention.js").Attention[]} */ attentions;
  /** @type {Item[]} */ items;
  /** @type {{name: string, y: number}[]} */ titles;
  /** @type {number} */ caption;
  /** @type {number} */ margin;
  /** @type {{rows: number, columns: number}} */ size;

  /** @type {string | undefined} the view in which a head is opened */
  #lead;
  /** @type {Map<string, HTMLCanvasElement>} */
  #sheets = new Map();

  /**
   * @param {import("../shell/app.js").App} app
   * @param {HTMLElement} stage
   */
  constructor(app, stage) {
    this.app = app;
    this.#lead = app.firstOf(["matrix", "heads", "neuron"])?.name;
    this.hint = this.#lead ? t("Point at a head; click to open it.") : t("Point at a head to see its figures.");
    const { ablation } = app.extras, known = Object.entries(ORDERS).map(([name, text]) => [name, t(text)]);
    if (ablation) known.push(["ablation", t("{metric} without the head", { metric: ablation.metric ?? "loss" })]);
    this.controls = ["trace", select(t("Order"), /** @type {[string, string][]} */ (known), this.#order, (order) => app.state.set({ order })), "table"];
    this.picture = new Picture(stage, {
      paint: (ctx, seen) => this.#paint(ctx, seen),
      mark: (ctx, seen) => this.#marks(ctx, seen),
      point: (x, y, event) => this.#point(x, y, event),
      press: (x, y) => { const item = this.#at(x, y); if (item) this.enter(item.row, item.column); },
      resize: () => this.items && this.#measure(),
    }, t("all heads"));
  }

  get #order() { return this.app.state.get("order"); }

  async prepare() {
    const { colours } = this.app;
    for (const attention of this.app.choices) {
      const pixels = await pooled(attention), { numLayers, numHeads } = attention;
      if (attention === this.app.attention) this.values = pixels;
      const roots = Float32Array.from(pixels, (one) => Math.sqrt(one / 255));
      this.#sheets.set(attention.name, heatmap(roots, numLayers * numHeads * SIDE, SIDE, colours.sequential));
    }
  }

  draw() {
    this.attentions = this.app.choices;
    this.#measure();
    this.picture.paint();
  }

  /** A statistic of a head, or its ablation. @param {import("../data/attention.js").Attention} attention @param {string} name @param {number} layer @param {number} head */
  #value(attention, name, layer, head) {
    const of = name === "ablation" ? this.app.extras.ablation?.attentions[attention.name]?.values : attention.statistics[name];
    return /** @type {number | undefined} */ (of?.[layer]?.[head]);
  }

  /** The heads of an attention in the order that is chosen. @param {import("../data/attention.js").Attention} attention */
  #sorted(attention) {
    const { numLayers, numHeads } = attention, order = this.#order;
    const all = Array.from({ length: numLayers * numHeads }, (_, i) => ({ attention, layer: Math.floor(i / numHeads), head: i % numHeads }));
    if (!order) return all;
    const value = (/** @type {any} */ one) => this.#value(attention, order, one.layer, one.head) ?? -Infinity;
    return all.sort((a, b) => value(b) - value(a));
  }

  #measure() {
    const room = this.picture.room, most = Math.max(...this.attentions.map((one) => one.numHeads)), sorted = Boolean(this.#order);
    const margin = sorted ? 0 : 46, caption = sorted || this.app.extras.ablation ? 30 : 0;
    this.side = Math.max(20, Math.min(sorted ? 72 : 88, Math.floor((room - margin) / (sorted ? 12 : most)) - GAP));
    if (caption) this.side = Math.max(56, this.side);
    const across = sorted ? Math.max(1, Math.floor((room + GAP) / (this.side + GAP))) : most;
    /** @type {Item[]} */
    this.items = [];
    /** @type {{name: string, y: number}[]} */
    this.titles = [];
    let y = 0, row = 0;
    for (const attention of this.attentions) {
      this.titles.push({ name: nameShort(attention.name), y: y + 10 });
      y += sorted ? 28 : 44;
      const width = sorted ? across : attention.numHeads, list = this.#sorted(attention);
      list.forEach((one, i) => /** @type {Item[]} */ (this.items).push({
        ...one, row: row + Math.floor(i / width), column: i % width,
        x: margin + (i % width) * (this.side + GAP), y: y + Math.floor(i / width) * (this.side + GAP + caption),
      }));
      const rows = Math.ceil(list.length / width);
      row += rows;
      y += rows * (this.side + GAP + caption) + 18;
    }
    this.caption = caption;
    this.margin = margin;
    this.size = { rows: row, columns: Math.max(...this.items.map((item) => item.column)) + 1 };
    this.picture.size(Math.max(margin + across * (this.side + GAP), 1), y - 18);
  }

  /** @param {CanvasRenderingContext2D} ctx @param {import("../show/picture.js").Window} seen */
  #paint(ctx, seen) {
    if (!this.items) return;
    const { colours } = this.app, { side } = this;
    ctx.textBaseline = "middle";
    for (const { name, y } of this.titles) {
      ctx.fillStyle = colours.ink;
      ctx.font = `600 13px ${colours.font}`;
      text(ctx, name, -seen.x, y - seen.y, "left", 300);
    }
    if (!this.#order) this.#numbers(ctx, seen);
    ctx.imageSmoothingEnabled = false;
    for (const item of this.items) {
      const x = item.x - seen.x, y = item.y - seen.y;
      if (y > seen.height || y + side + this.caption < 0) continue;
      const place = item.layer * item.attention.numHeads + item.head;
      ctx.drawImage(/** @type {any} */ (this.#sheets.get(item.attention.name)), 0, place * SIDE, SIDE, SIDE, x, y, side, side);
      ctx.strokeStyle = colours.line;
      ctx.strokeRect(x - 0.5, y - 0.5, side + 1, side + 1);
      this.#captions(ctx, item, x, y);
    }
  }

  /** The numbers of heads above, of layers at the left. @param {CanvasRenderingContext2D} ctx @param {import("../show/picture.js").Window} seen */
  #numbers(ctx, seen) {
    ctx.fillStyle = this.app.colours.faint;
    ctx.font = `11px ${this.app.colours.font}`;
    for (const item of /** @type {Item[]} */ (this.items)) {
      if (item.column === 0) text(ctx, String(item.layer), this.margin - 10 - seen.x, item.y + this.side / 2 - seen.y, "right", 24);
      if (item.column === 0 && item.layer === 0) {
        text(ctx, t("head") + " →", 0 - seen.x, item.y - 9 - seen.y, "left", this.margin);
        text(ctx, t("layer") + " ↓", 0 - seen.x, item.y + 8 - seen.y, "left", this.margin);
      }
      if (item.layer === 0) text(ctx, String(item.head), item.x + this.side / 2 - seen.x, item.y - 9 - seen.y, "center", this.side);
    }
  }

  /** @param {CanvasRenderingContext2D} ctx @param {Item} item @param {number} x @param {number} y */
  #captions(ctx, item, x, y) {
    if (!this.caption) return;
    const { colours } = this.app, order = this.#order || "ablation", value = this.#value(item.attention, order, item.layer, item.head);
    ctx.font = `11px ${colours.font}`;
    ctx.fillStyle = colours.faint;
    text(ctx, this.#order ? `${item.layer}·${item.head}` : "", x, y + this.side + 10, "left", this.side);
    if (value === undefined) return;
    ctx.fillStyle = colours.ink;
    text(ctx, (order === "ablation" && value > 0 ? "+" : "") + figure(value, order === "ablation" ? 3 : 2), x + this.side, y + this.side + 10, "right", this.side);
    if (order !== "ablation") return;
    const most = this.#largestChange();
    ctx.fillStyle = colours.signed(value / most);
    ctx.fillRect(x, y + this.side + 18, (this.side * Math.abs(value)) / most, 4);
  }

  /** The largest change that switching a head off makes: all bars are of one scale. */
  #largestChange() {
    const of = /** @type {{values: number[][]}[]} */ (Object.values(this.app.extras.ablation?.attentions ?? {}));
    return Math.max(1e-9, ...of.flatMap(({ values }) => values.flat().map(Math.abs)));
  }

  /** @param {CanvasRenderingContext2D} ctx @param {import("../show/picture.js").Window} seen */
  #marks(ctx, seen) {
    const item = this.app.cursor && this.#item(this.app.cursor.row, this.app.cursor.column);
    if (!item) return;
    ctx.strokeStyle = this.app.colours.accent;
    ctx.lineWidth = 2;
    ctx.strokeRect(item.x - 2 - seen.x, item.y - 2 - seen.y, this.side + 4, this.side + 4);
  }

  /** @param {number} row @param {number} column */
  #item(row, column) { return this.items?.find((item) => item.row === row && item.column === column); }

  /** @param {number} x @param {number} y */
  #at(x, y) {
    const seen = this.picture.seen;
    return this.items?.find((item) => x + seen.x >= item.x && x + seen.x < item.x + this.side && y + seen.y >= item.y && y + seen.y < item.y + this.side);
  }

  /** @param {number} x @param {number} y @param {PointerEvent | null} event */
  #point(x, y, event) {
    const item = event && this.#at(x, y);
    this.app.hover(item ? { row: item.row, column: item.column } : null);
    if (item && event) this.app.tip.show(event, [t("layer {layer}, head {head}", { layer: item.layer, head: item.head }), nameShort(item.attention.name)]);
    else this.app.tip.hide();
  }

  /** Opens a head in the matrix, or in the heads view. @param {number} row @param {number} column */
  enter(row, column) {
    const item = this.#item(row, column), view = this.#lead;
    if (item && view) this.app.state.set({ view, attention: item.attention.name, layer: item.layer, head: item.head, heads: String(item.head) });
  }

  mark() { this.picture.mark(); }

  /** @param {number} row @param {number} column */
  reveal(row, column) {
    const item = this.#item(row, column);
    if (item) this.picture.reveal(item.x, item.y, this.side, this.side + this.caption);
  }

  /** @param {Item} item @returns {[string, string][]} */
  #figures(item) {
    const { ablation } = this.app.extras, of = ablation?.attentions[item.attention.name], { layer, head } = item;
    const figures = Object.keys(item.attention.statistics).map((name) => /** @type {[string, string]} */ ([t(name), figure(item.attention.statistics[name][layer][head], 3)]));
    if (of) figures.push([t("{metric} without it", { metric: ablation.metric ?? "loss" }), figure(of.values[layer][head], 4) + (of.low ? ` [${figure(of.low[layer][head], 4)}, ${figure(of.high[layer][head], 4)}]` : "")]);
    return figures;
  }

  /** @param {number} row @param {number} column @returns {import("../shell/readout.js").Reading | null} */
  read(row, column) {
    const item = this.#item(row, column);
    if (!item) return null;
    const figures = this.#figures(item), name = t("layer {layer}, head {head}", { layer: item.layer, head: item.head });
    return { names: [nameShort(item.attention.name), name], figures, text: `${item.attention.name}, ${name}, ${figures.map((pair) => pair.join(" ")).join(", ")}` };
  }

  get #ordered() { return t("in order of {order}", { order: ORDERS[this.#order] ? t(ORDERS[this.#order]) : this.#order }); }

  label() { return `${t("all heads")}, ${this.#ordered}`; }

  /** @returns {import("../show/legend.js").Sign[]} */
  legend() {
    const { colours } = this.app, { ablation } = this.app.extras, most = ablation ? this.#largestChange() : 0;
    const roots = Array.from({ length: 64 }, (_, at) => colours.sequential[Math.round(255 * Math.sqrt(at / 63))]);
    /** @type {import("../show/legend.js").Sign[]} */
    const signs = [{ ramp: roots, ends: ["0", "1"], text: t("attention weight") }];
    if (most && (!this.#order || this.#order === "ablation")) {
      const of = t("bars: the change of {metric} without the head, all on one scale", { metric: ablation.metric ?? "loss" });
      signs.push({ ramp: colours.diverging, ends: ["−" + figure(most, 3), "+" + figure(most, 3)], text: of });
    }
    return signs;
  }

  cells() {
    return {
      row: (/** @type {number} */ row) => { const item = this.#item(row, 0); return item ? (this.#order ? t("row {row}", { row }) : `${item.attention.name} ${t("layer {layer}", { layer: item.layer })}`) : ""; },
      column: (/** @type {number} */ column) => (this.#order ? t("place {place}", { place: column }) : t("head {head}", { head: column })),
      cell: (/** @type {number} */ row, /** @type {number} */ column) => this.read(row, column)?.text ?? t("none"),
    };
  }

  note() {
    const meaning = MEANINGS[this.#order];
    return [meaning && t(meaning), t("In each picture rows look at columns; it is 32 by 32 at most: a pixel is the largest of the weights that it stands for, by the square root.")].filter(Boolean).join(" ");
  }

  table() {
    const items = /** @type {Item[]} */ (this.items);
    return {
      caption: `${t("Heads")}, ${this.#ordered}`, columns: [t("attention"), t("layer"), t("head"), ...this.#figures(items[0]).map(([name]) => name)],
      rows: items.map((item) => [nameShort(item.attention.name), String(item.layer), String(item.head), ...this.#figures(item).map(([, value]) => value)]),
    };
  }

  /** @param {number} [row] one row of pictures alone */
  csv(row) {
    const items = /** @type {Item[]} */ (this.items).filter((item) => row === undefined || item.row === row), names = Object.keys(items[0].attention.statistics);
    return csv([["attention", "layer", "head", ...names], ...items.map((item) => [item.attention.name, item.layer, item.head, ...names.map((name) => item.attention.statistics[name][item.layer][item.head])])]);
  }

  close() {
    this.picture.close();
    this.app.tip.hide();
  }
}
