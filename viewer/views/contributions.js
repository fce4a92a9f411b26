// What each head and each feed-forward network adds to a word, or to a word against another one.

import { explained } from "../data/explained.js";
import { el, select, write } from "../dom.js";
import { span, text } from "../show/axis.js";
import { csv } from "../show/csv.js";
import { bare, figure } from "../show/labels.js";
import { named, namePart, nameShort } from "../show/names.js";
import { named as unit } from "../show/panels.js";
import { Picture } from "../show/picture.js";
import { ko } from "../shell/ko/texts.js";
import { t } from "../shell/language.js";

/** @typedef {import("../analysis/contributions.js").Part} Part */
/** @typedef {import("../show/picture.js").Window} Window */

const HEIGHT = 24;
/** Above this number of parts those of one layer and kind are put together at first. */
const MOST_PARTS = 60;

/** @type {import("./view.js").View} */
export const contributions = {
  name: "contributions",
  title: "Contributions",
  shows: () => true,
  open: (app, stage) => new Contributions(app, stage),
  korean: ko,
};

class Contributions {
  /** @type {import("../analysis/contributions.js").Contributions | null} */
  #found = null;
  /** @type {Part[]} */
  parts = [];
  /** @type {string[]} */
  names = [];
  /** @type {number[]} */
  values = [];
  left = 0;
  bar = 0;
  /** The rivals that are in the list, by their ids. */
  listed = "";

  /**
   * @param {import("../shell/app.js").App} app
   * @param {HTMLElement} stage
   */
  constructor(app, stage) {
    this.app = app;
    this.hint = t("Each bar is what a part of the model adds to the chosen word. Click a head to see where it looks.");
    this.controls = ["trace", ...this.#choices(), "table"];
    this.size = { rows: 0, columns: 1 };
    this.summary = el("p", { class: "conclusion" });
    stage.append(this.summary);
    this.picture = new Picture(stage, {
      paint: (ctx, seen) => this.#paint(ctx, seen),
      mark: (ctx, seen) => this.#marks(ctx, seen),
      point: (x, y, event) => this.#point(y, event),
      press: (x, y) => { const row = this.#at(y); if (row !== null) this.enter(row); },
      resize: () => this.size.rows && this.#measure(),
    }, t("what each part adds"));
  }

  /** The words that were written: those of the trace, or a classifier's one label. */
  get #words() { return this.app.trace.sequences.out ?? []; }

  get #row() {
    const asked = this.app.state.get("contributions.row"), [, word] = this.app.state.get("word").split("out:"), first = word ? Number(word) : this.#leastSure;
    return Math.min(asked === "" ? first : Number(asked) || 0, Math.max(0, this.#words.length - 1));
  }

  /** The row whose word the model was least sure of, of those that can be told; the first where that is not known. */
  get #leastSure() {
    const rows = this.app.trace.predictions?.rows ?? [], told = (/** @type {number} */ row) => this.app.live || this.#carried.some((one) => one.row === row);
    const usable = this.#words.map((_, row) => row).filter((row) => !this.#words[row].special && told(row));
    const sure = (/** @type {number} */ row) => rows[row]?.chosen.probability ?? 1;
    return usable.reduce((least, row) => (sure(row) < sure(least) ? row : least), usable[0] ?? 0);
  }

  get #against() { return this.app.state.get("contributions.against"); }

  /** What Python put into the page, a word each. @returns {import("../analysis/contributions.js").Contributions[]} */
  get #carried() { return this.app.extrasOf("contributions") ?? []; }

  /** What is chosen above: the word, the rival, the order; the lists are filled when the rivals are known. */
  #choices() {
    const { app } = this, order = select(t("Order"), [["", t("by size")], ["pass", t("as in the pass")]], app.state.get("contributions.order"), (chosen) => app.state.set({ "contributions.order": chosen }));
    const fixed = !app.live;
    // Without a model the words are those that Python has explained.
    const rows = this.#words.map((_, i) => i).filter((row) => !fixed || this.#carried.some((one) => one.row === row));
    const word = rows.length < 2 ? null : select(t("Word"), rows.map((i) => [String(i), `${i + 1} · ${bare(this.#words[i].text, 16)}`]), String(this.#row),
      (row) => app.state.set({ "contributions.row": row, "contributions.against": "" }));
    this.rivals = fixed ? null : select(t("against"), [["", t("the likeliest other")]], this.#against, (against) => app.state.set({ "contributions.against": against }));
    return [word, this.rivals, order].filter(Boolean);
  }

  async prepare() {
    const { app } = this, row = this.#row;
    if (!app.live) {
      this.#found = this.#carried.find((one) => one.row === row) ?? this.#carried[0];
      return;
    }
    const lens = await explained(app, "lens"), last = lens.cells[lens.cells.length - 1][row].top;
    const written = this.#words[row]?.id ?? last[0].id;
    const others = last.filter((/** @type {any} */ one) => one.id !== written);
    const against = this.#against === "none" ? null : this.#against === "" ? others[0]?.id ?? null : Number(this.#against);
    this.#offer(others);
    this.#found = await explained(app, "contributions", { row, against });
  }

  /** Fills the list of rivals. @param {{id: number, text: string, probability: number}[]} others */
  #offer(others) {
    const list = /** @type {HTMLSelectElement} */ (/** @type {HTMLElement} */ (this.rivals).querySelector("select")), key = others.map((one) => one.id).join();
    if (this.listed === key) return;
    this.listed = key;
    const option = (/** @type {string} */ value, /** @type {string} */ name) => write(el("option", { value }), name);
    list.replaceChildren(...others.map((one, i) => option(i ? String(one.id) : "", `${bare(one.text, 16)} (${figure(one.probability, 3)})`)), option("none", t("nothing: the logit itself")));
    list.value = this.#against;
  }

  draw() {
    const found = /** @type {import("../analysis/contributions.js").Contributions} */ (this.#found);
    const bySize = this.app.state.get("contributions.order") !== "pass";
    this.parts = gathered(found.parts);
    if (bySize) this.parts.sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
    this.names = this.parts.map((part) => partName(part));
    this.most = this.parts.reduce((most, part) => Math.max(most, Math.abs(part.value)), 1e-9);
    this.size = { rows: this.parts.length, columns: 1 };
    this.axes = { rows: { tokens: this.names.map(unit) }, columns: { tokens: [unit(t("adds"))] } };
    this.values = this.parts.map((part) => part.value);
    write(this.summary, this.#conclusion());
    this.#measure();
    this.picture.paint();
  }

  #measure() {
    const ctx = this.picture.base.getContext("2d"), room = this.picture.room;
    ctx.font = `13px ${this.app.colours.font}`;
    this.names = this.parts.map((part) => partName(part, room < 560));
    this.left = Math.ceil(Math.min(0.5 * room, this.names.reduce((most, name) => Math.max(most, ctx.measureText(name).width), 60))) + 14;
    this.bar = Math.max(90, Math.min(620, room - this.left - 8));
    this.picture.size(this.left + this.bar, this.size.rows * HEIGHT + 4);
  }

  /** Where nothing is added. */
  get #zero() {
    const least = Math.min(0, ...this.values), largest = Math.max(0, ...this.values), number = 62;
    const each = Math.max(20, this.bar - 2 * number) / (largest - least || 1);
    return { x: this.left + number - least * each, each };
  }

  /** @param {CanvasRenderingContext2D} ctx @param {Window} seen */
  #paint(ctx, seen) {
    const { colours } = this.app, { x, each } = this.#zero;
    ctx.textBaseline = "middle";
    for (const i of span(seen.y, seen.height, HEIGHT, this.size.rows)) {
      const { value } = this.parts[i], y = (i + 0.5) * HEIGHT - seen.y, width = Math.abs(value) * each;
      ctx.fillStyle = colours.ink;
      ctx.font = `13px ${colours.font}`;
      text(ctx, this.names[i], this.left - 10 - seen.x, y, "right", this.left - 12);
      ctx.fillStyle = colours.signed(value < 0 ? -0.6 : 0.6);
      ctx.fillRect((value < 0 ? x - width : x) - seen.x, y - 8, Math.max(width, 0.5), 16);
      ctx.fillStyle = colours.ink;
      ctx.font = `12px ${colours.font}`;
      text(ctx, signed(value), (value < 0 ? x - width - 6 : x + width + 6) - seen.x, y, value < 0 ? "right" : "left", 60);
    }
    ctx.fillStyle = colours.faint;
    ctx.fillRect(x - 0.5 - seen.x, 0, 1, seen.height);
  }

  /** @param {CanvasRenderingContext2D} ctx @param {Window} seen */
  #marks(ctx, seen) {
    const { cursor, colours } = this.app;
    if (!cursor) return;
    ctx.strokeStyle = colours.accent;
    ctx.lineWidth = 1.5;
    ctx.strokeRect(1 - seen.x, cursor.row * HEIGHT - seen.y + 1, this.left + this.bar - 2, HEIGHT - 2);
  }

  /** @param {number} y */
  #at(y) {
    const row = Math.floor((y + this.picture.seen.y) / HEIGHT);
    return row >= 0 && row < this.size.rows ? row : null;
  }

  /** @param {number} y @param {PointerEvent | null} event */
  #point(y, event) {
    const row = event && this.size.rows ? this.#at(y) : null;
    this.app.hover(row === null ? null : { row, column: 0 });
    if (row === null || !event) return this.app.tip.hide();
    this.app.tip.show(event, [`${this.names[row]}: ${signed(this.parts[row].value)}`, this.#meaning(this.parts[row])]);
  }

  /** @param {Part} part */
  #meaning({ value }) {
    const { word, against } = this.#sides;
    if (!against) return value < 0 ? t("speaks against {word}", { word }) : t("speaks for {word}", { word });
    return value < 0 ? t("speaks for {against}, against {word}", { word, against }) : t("speaks for {word}, against {against}", { word, against });
  }

  get #sides() {
    const { word, foil } = /** @type {any} */ (this.#found), name = (/** @type {any} */ one) => `“${bare(one.text, 24)}”`;
    return { word: name(word), against: foil && name(foil) };
  }

  /** Opens a head where one sees what it looks at. @param {number} row */
  enter(row) {
    const { attention, layer, head } = this.parts[row], to = this.app.firstOf(["text", "matrix", "heads"])?.name;
    if (!attention || head === undefined || !to) return;
    this.app.state.set({ view: to, attention, layer: layer ?? 0, head, heads: String(head), ...(to === "text" ? { "text.by": "head" } : {}) });
  }

  mark() { this.picture.mark(); }

  /** @param {number} row */
  reveal(row) { this.picture.reveal(0, row * HEIGHT, 1, HEIGHT); }

  /** @param {number} row @returns {import("../shell/readout.js").Reading} */
  read(row) {
    const name = this.names[row], value = signed(this.parts[row].value);
    return { names: [name], figures: [[t("adds"), value], ["", this.#meaning(this.parts[row])]], text: `${name}: ${value}, ${this.#meaning(this.parts[row])}` };
  }

  label() {
    const { word, against } = this.#sides;
    return against ? t("what each part adds to {word} against {against}", { word, against }) : t("what each part adds to {word}", { word });
  }

  cells() {
    return { row: (/** @type {number} */ row) => this.names[row], column: () => t("adds"), cell: (/** @type {number} */ row) => signed(this.parts[row].value) };
  }

  note() { return t("Norms are held at the mean and deviation that they had; what a part does by way of later ones counts as theirs."); }

  /** The sum, its check, and what it means. */
  #conclusion() {
    const { total, parts, error } = /** @type {any} */ (this.#found), { word, against } = this.#sides;
    const sum = figure(parts.reduce((/** @type {number} */ all, /** @type {Part} */ part) => all + part.value, 0), 3);
    const values = { word, against: against ?? "", sum, total: figure(total, 3), error: error.toExponential(0).replace("-", "−"), times: times(Math.exp(Math.abs(total))) };
    const check = against ? t("All parts together: {sum}. The logit of {word} less that of {against}: {total} (difference {error}).", values)
      : t("All parts together: {sum}. The logit of {word}: {total} (difference {error}).", values);
    const odds = !against ? "" : Math.abs(total) < 0.05 ? t("So the model holds {word} and {against} about equally probable.", values) : total >= 0 ? t("So the model holds {word} {times} times as probable as {against}.", values) : t("So the model holds {against} {times} times as probable as {word}.", values);
    return [odds, check].filter(Boolean).join(" ");
  }

  table() {
    return { caption: this.label(), columns: [t("part"), t("adds")], rows: this.parts.map((part, i) => [this.names[i], signed(part.value)]) };
  }

  /** @param {number} [row] one part alone, as it is shown; else all, each head by itself */
  csv(row) {
    const parts = row === undefined ? /** @type {import("../analysis/contributions.js").Contributions} */ (this.#found).parts : [this.parts[row]];
    return csv([["part", "attention", "layer", "head", "value"], ...parts.map((part) => [part.name, part.attention ?? null, part.layer ?? null, part.head ?? null, part.value])]);
  }

  close() {
    this.picture.close();
    this.app.tip.hide();
  }
}

/** The parts as they are, or of a large model each layer's heads of a kind together. @param {Part[]} parts @returns {Part[]} */
function gathered(parts) {
  if (parts.length <= MOST_PARTS) return [...parts];
  /** @type {Map<string, Part>} */
  const by = new Map();
  for (const part of parts) {
    const key = part.head === undefined ? part.name : `${part.attention} ${part.layer}`, known = by.get(key);
    if (known) known.value += part.value;
    else by.set(key, { ...part, ...(part.head === undefined ? {} : { name: key, head: undefined }) });
  }
  return [...by.values()];
}

/** A part as a reader calls it; `short`: where there is little room. @param {Part} part @param {boolean} [short] */
function partName(part, short = false) {
  const { attention, layer, head } = part;
  if (!short || layer === undefined) return namePart(part);
  return `${layer} · ${attention ? nameShort(attention) : named("feed_forward")}${head === undefined ? "" : " " + head}`;
}

/** @param {number} value */
const signed = (value) => (value > 0 ? "+" : "") + figure(value, 3);

/** @param {number} many */
const times = (many) => (many < 10 ? many.toFixed(1) : many < 1e6 ? String(Math.round(many)) : many.toExponential(0).replace("e+", " · 10^"));
