// The sentence as running text, shaded by where the chosen word looked, or by what looked at it.

import { button, el, select, write } from "../dom.js";
import { largest, rank } from "../data/numbers.js";
import { matrixCsv } from "../show/csv.js";
import { cellNames } from "../show/grid.js";
import { details, quoted, visible } from "../show/labels.js";
import { SCALES } from "../show/heatmap.js";
import { axes, note, shown } from "../show/shown.js";
import { ko } from "../shell/ko/texts.js";
import { t } from "../shell/language.js";

/** @typedef {"row" | "column"} Side a word that looks is a row, one that is looked at a column */

/** So many of the largest weights are written beside their words, if they are this large. */
const NUMBERED = 6, LEAST_NUMBERED = 0.1;
/** So many words of a side are in the page at a time: those around the one that is chosen. */
const MOST_WORDS = 1000;

/** @type {import("../show/shown.js").Axis} */
const NO_AXIS = { tokens: [], places: [] };

/** @type {import("./view.js").View} */
export const text = {
  name: "text",
  title: "Text",
  variant: (app) => app.state.get("text.by"),
  open: (app, stage) => new Text(app, stage),
  korean: ko,
};

class Text {
  axes = { rows: NO_AXIS, columns: NO_AXIS, hidden: /** @type {string[]} */ ([]) };
  size = { rows: 0, columns: 0 };
  /** @type {Float32Array} */
  values = new Float32Array();
  share = 0;
  /** The first word of each side that is in the page. */
  from = { row: 0, column: 0 };
  /** @type {Record<Side, HTMLElement[]>} */
  words = { row: [], column: [] };
  /** For what the words in the page were written. */
  written = "";

  /**
   * @param {import("../shell/app.js").App} app
   * @param {HTMLElement} stage
   */
  constructor(app, stage) {
    this.app = app;
    this.by = app.state.get("text.by");
    this.hint = t("Point at a word: the others are shaded by how much it looked at them.");
    const by = select(t("Weights of"), [["", t("the layer's heads, mean")], ["head", t("one head")], ["all", t("all layers and heads, mean")]],
      this.by, (chosen) => app.state.set({ "text.by": chosen }));
    const shade = select(t("Shade"), [["", t("of the largest")], ["linear", t("weight")], ["sqrt", t("square root")]],
      app.state.get("text.shade"), (chosen) => app.state.set({ "text.shade": chosen }));
    /** @type {Record<Side, HTMLButtonElement>} */
    this.sides = { row: button(t("where it looks"), () => this.#turn("row")), column: button(t("who looks at it"), () => this.#turn("column")) };
    const turn = el("div", { class: "segments", role: "group", "aria-label": t("what is shaded") }, this.sides.row, this.sides.column);
    this.controls = ["trace", "attention", by, ...(this.by === "all" ? [] : ["layer"]), ...(this.by === "head" ? ["head"] : []), turn, shade, "pair", "hide", "words", "table"];
    /** @type {Record<Side, HTMLElement>} */
    this.texts = { row: this.#paragraph("row"), column: this.#paragraph("column") };
    this.root = el("div", { class: "running", "aria-hidden": "true" });
    stage.append(this.root);
  }

  /** @param {Side} side */
  #paragraph(side) {
    const place = (/** @type {Event} */ event) => {
      const word = /** @type {HTMLElement} */ (event.target).closest?.(".word");
      return word ? Number(/** @type {HTMLElement} */ (word).dataset.at) : null;
    };
    return el("p", {
      dir: "auto", class: "words",
      onpointermove: (/** @type {PointerEvent} */ event) => this.#point(side, place(event), event),
      onpointerleave: () => this.#point(side, null, null),
      onclick: (/** @type {PointerEvent} */ event) => this.#press(side, place(event)),
    });
  }

  get attention() { return this.app.attention; }

  /** Whether one text looks at itself, and is shown once. */
  get single() { return this.attention.rows === this.attention.columns && !this.app.options.pair; }

  /** Which side the chosen word is on. @returns {Side} */
  get side() { return this.app.state.get("text.side") === "column" ? "column" : "row"; }

  async prepare() {
    const { attention, app } = this, numbers = this.by === "all" ? Array.from({ length: attention.numLayers }, (_, layer) => layer) : [app.layer];
    const mean = new Float32Array(attention.rows.length * attention.columns.length);
    for (const number of numbers) {
      const layer = await attention.load(number), heads = this.by === "head" ? [app.head] : Array.from({ length: attention.numHeads }, (_, head) => head);
      for (const head of heads) {
        const weights = layer.weights(head), share = 1 / (numbers.length * heads.length);
        for (let i = 0; i < mean.length; i++) mean[i] += weights[i] * share;
      }
    }
    this.weights = mean;
  }

  draw() {
    const { app, attention } = this, options = app.options;
    this.axes = axes(attention, options);
    const { values, share } = shown(/** @type {Float32Array} */ (this.weights), attention, this.axes, options);
    this.values = values;
    this.share = share;
    this.size = { rows: this.axes.rows.tokens.length, columns: this.axes.columns.tokens.length };
    for (const side of /** @type {Side[]} */ (["row", "column"])) this.sides[side].setAttribute("aria-pressed", String(side === this.side));
    this.#write();
  }

  /** The words of both sides. */
  #write() {
    const key = JSON.stringify([this.app.options, this.single]);
    if (this.written === key && this.writtenFor === this.attention) return;
    this.written = key;
    this.writtenFor = this.attention;
    this.from = { row: 0, column: 0 };
    this.#fill("row");
    this.#fill("column");
    const part = (/** @type {string} */ title, /** @type {HTMLElement} */ words) => el("div", {}, el("h2", {}, title), words);
    if (this.single) this.root.replaceChildren(part(t("the text, which looks at itself"), this.texts.row));
    else this.root.replaceChildren(part(t("these words look"), this.texts.row), part(t("at these"), this.texts.column));
    this.root.classList.toggle("two", !this.single);
  }

  /** @param {Side} side */
  #fill(side) {
    const { tokens } = this.axes[side === "row" ? "rows" : "columns"], from = this.from[side];
    /** @type {(Node | string)[]} */
    const parts = from ? ["… "] : [];
    tokens.slice(from, from + MOST_WORDS).forEach((token, at) => {
      const before = tokens[from + at - 1];
      if (at && !token.continues && !/^\s/.test(token.text) && !/\s$/.test(before.text)) parts.push(" ");
      parts.push(...spelled(token, from + at));
    });
    if (from + MOST_WORDS < tokens.length) parts.push(" …");
    this.texts[side].replaceChildren(...parts);
    this.words[side] = /** @type {HTMLElement[]} */ ([...this.texts[side].querySelectorAll(".word")]);
  }

  /** @param {Side} side */
  #spans(side) { return this.words[this.single ? "row" : side]; }

  /** The chosen word's place, and what the others are shaded by; before anything is chosen it is the first word. */
  #chosen() {
    const first = Math.max(0, this.axes[this.side === "row" ? "rows" : "columns"].tokens.findIndex((token) => !token.special));
    const cell = this.app.cell ?? (this.size.rows && this.size.columns ? { row: first, column: first } : null);
    return cell && { place: this.side === "row" ? cell.row : cell.column, values: this.side === "row" ? this.#row(cell.row) : this.#column(cell.column) };
  }

  /** @param {number} row */
  #row(row) { return this.values.subarray(row * this.size.columns, (row + 1) * this.size.columns); }

  /** @param {number} column */
  #column(column) { return Float32Array.from({ length: this.size.rows }, (_, row) => this.values[row * this.size.columns + column]); }

  mark() {
    const { side } = this, other = side === "row" ? "column" : "row", chosen = this.#chosen();
    for (const one of new Set([...this.#spans("row"), ...this.#spans("column")])) bare(one);
    if (!chosen) return;
    this.#bring(side, chosen.place);
    const first = this.from[this.single ? "row" : other];
    if (!this.single) this.#bring(other, largest(chosen.values, 1)[0]);
    const most = chosen.values.reduce((a, b) => Math.max(a, b), 0), scale = this.app.state.get("text.shade") || "row";
    const top = new Set(largest(chosen.values, NUMBERED).filter((place) => chosen.values[place] >= LEAST_NUMBERED));
    this.#spans(other).forEach((span, i) => {
      const place = Number(span.dataset.at ?? i + first), value = chosen.values[place], ground = SCALES[scale](value, most);
      if (ground < 0.01) return;
      span.style.background = this.app.colours.of(ground);
      span.style.color = this.app.colours.inkOn(ground);
      if (top.has(place)) span.dataset.weight = value.toFixed(2).replace(/^0/, "");
    });
    this.#spans(side)[chosen.place - this.from[this.single ? "row" : side]]?.classList.add("chosen");
  }

  /** Puts a word among those in the page, where it is not. @param {Side} side @param {number} place */
  #bring(side, place) {
    const of = this.single ? "row" : side, from = this.from[of];
    if (place >= from && place < from + MOST_WORDS) return;
    this.from[of] = Math.max(0, place - MOST_WORDS / 2);
    this.#fill(of);
  }

  /** @param {Side} side @param {number} place @returns {import("../shell/app.js").Cell} */
  #cell(side, place) {
    const other = largest(side === "row" ? this.#row(place) : this.#column(place), 1)[0];
    return side === "row" ? { row: place, column: other } : { row: other, column: place };
  }

  /** The side that pointing at a word means. @param {Side} side */
  #meant(side) { return this.single ? this.side : side; }

  /** @param {Side} side @param {number | null} place @param {PointerEvent | null} event */
  #point(side, place, event) {
    if (place === null || !event) {
      this.app.hover(null);
      return this.app.tip.hide();
    }
    // While a word is pinned, pointing at one that is shaded tells its weight.
    if (this.app.pin) return this.#tell(side, place, event);
    const meant = this.#meant(side);
    if (meant !== this.side) this.app.state.set({ "text.side": meant === "row" ? "" : meant });
    this.app.hover(this.#cell(meant, place));
    this.app.tip.show(event, [details(this.#token(meant, place))]);
  }

  /** @param {Side} side @param {number} place */
  #token(side, place) { return this.axes[side === "row" ? "rows" : "columns"].tokens[place]; }

  /** @param {Side} side @param {number} place @param {PointerEvent} event */
  #tell(side, place, event) {
    const other = this.side === "row" ? "column" : "row", chosen = this.#chosen();
    const weight = chosen && (this.single || side === other) ? [this.attention.figure(chosen.values[place])] : [];
    this.app.tip.show(event, [...weight, details(this.#token(this.single ? other : side, place))]);
  }

  /** @param {Side} side @param {number | null} place */
  #press(side, place) {
    if (place === null) return;
    const meant = this.#meant(side), pin = this.app.pin, same = pin && meant === this.side && (meant === "row" ? pin.row : pin.column) === place;
    this.#turn(meant);
    this.app.setPin(same ? null : this.#cell(meant, place));
  }

  /** @param {Side} side */
  #turn(side) {
    const cell = this.app.cell;
    this.app.state.set({ "text.side": side === "row" ? "" : side });
    if (cell && this.app.cursor) this.app.cursor = this.#cell(side, side === "row" ? cell.row : cell.column);
  }

  keys = [["← →", t("the word before, the word behind")], ["↑ ↓", t("the other text, or the other direction")]];

  /** @param {KeyboardEvent} event */
  key(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key], turns = event.key === "ArrowUp" || event.key === "ArrowDown";
    if (!by && !turns) return false;
    const cell = this.app.cell;
    if (!cell) this.app.moveTo(this.#cell(this.side, this.#chosen()?.place ?? 0), true);
    else if (by) {
      const now = this.side === "row" ? cell.row : cell.column, last = (this.side === "row" ? this.size.rows : this.size.columns) - 1;
      this.app.moveTo(this.#cell(this.side, Math.max(0, Math.min(last, now + by * (event.shiftKey ? 10 : 1)))), true);
    } else {
      const side = this.side === "row" ? "column" : "row";
      this.app.state.set({ "text.side": side === "row" ? "" : side });
      this.app.moveTo(this.#cell(side, this.single ? (side === "row" ? cell.column : cell.row) : side === "row" ? cell.row : cell.column), true);
    }
    return true;
  }

  /** @param {number} row @param {number} column */
  reveal(row, column) {
    this.mark();
    const of = this.single ? "row" : this.side;
    this.#spans(this.side)[(this.side === "row" ? row : column) - this.from[of]]?.scrollIntoView({ block: "nearest" });
  }

  /** @param {number} row */
  best(row) { return largest(this.#row(row), 1)[0]; }

  /** @param {number} row @param {number} column @returns {import("../shell/readout.js").Reading} */
  read(row, column) {
    const { rows, columns } = this.axes, query = quoted(rows.tokens[row]), key = quoted(columns.tokens[column]);
    const values = this.side === "row" ? this.#row(row) : this.#column(column), at = this.side === "row" ? column : row;
    const weight = this.attention.figure(this.values[row * this.size.columns + column]), place = t("{rank} of {count}", { rank: rank(values, at), count: values.length });
    return {
      names: [query, key], figures: [[t("weight"), weight], [t("rank"), place]],
      text: t("query {query}, key {key}, weight {weight}, rank {rank}", { query, key, weight, rank: place }),
    };
  }

  label() {
    const { app } = this, of = { "": t("layer {layer}, mean of its heads", { layer: app.layer }), head: t("layer {layer}, head {head}", { layer: app.layer, head: app.head }), all: t("mean of all layers and heads") }[this.by];
    return `${this.attention.name}, ${of}`;
  }

  cells() {
    const { rows, columns } = this.axes;
    return {
      ...cellNames(rows.tokens, columns.tokens),
      cell: (/** @type {number} */ row, /** @type {number} */ column) => this.attention.figure(this.values[row * this.size.columns + column]),
    };
  }

  note() {
    const scale = this.app.state.get("text.shade") ? "" : t("The darkest word has the largest weight of the row or column; numbers are the weights themselves.");
    return [note(this.attention, this.axes.hidden, this.share, this.app.options), scale].filter(Boolean).join("; ");
  }

  table() {
    const chosen = this.#chosen(), other = this.axes[this.side === "row" ? "columns" : "rows"].tokens;
    if (!chosen) return { caption: t("There is no word"), columns: [t("word"), t("weight")], rows: [] };
    const word = quoted(this.axes[this.side === "row" ? "rows" : "columns"].tokens[chosen.place]);
    return {
      caption: this.side === "row" ? t("Where {word} looks", { word }) : t("Who looks at {word}", { word }), columns: [t("word"), t("weight")],
      rows: largest(chosen.values, 50).map((place) => [quoted(other[place]), this.attention.figure(chosen.values[place])]),
    };
  }

  /** @param {number} [row] one row alone */
  csv(row) {
    const [rows, columns] = [this.axes.rows, this.axes.columns].map((axis) => axis.tokens.map((token) => token.text));
    return matrixCsv({ rows, columns, values: this.values }, row);
  }

  close() { this.app.tip.hide(); }
}

/**
 * A token as running text has it, with its place; what cannot be seen is written out. A line's end ends the line.
 * @param {import("../data/trace.js").Token} token
 * @param {number} place
 */
function spelled(token, place) {
  const inner = token.text.trim(), lead = inner ? token.text.slice(0, token.text.indexOf(inner)) : "";
  const shown = visible(inner || token.text) || "∅", spaces = lead.replace(/[^\s]/g, "").replace(/\n/g, "↵\n");
  const span = write(el("span", { class: token.special ? "word special" : "word", "data-at": place }), shown);
  return [...(spaces && place ? [spaces] : []), span, ...(token.text.endsWith("\n") ? ["\n"] : []), ...(inner && /[^\n\S]$/.test(token.text) ? [" "] : [])];
}

/** @param {HTMLElement} span */
function bare(span) {
  span.style.background = span.style.color = "";
  span.classList.remove("chosen");
  delete span.dataset.weight;
}
