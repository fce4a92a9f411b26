// The page: what is shown of which trace, and what all views share.

import { el, write } from "../dom.js";
import { State } from "../state.js";
import { Colours } from "../show/colours.js";
import { Grid } from "../show/grid.js";
import { plain, shorten } from "../show/labels.js";
import { legend } from "../show/legend.js";
import { Controls } from "./controls.js";
import { listen } from "./keys.js";
import { preferred, speak, spoken, t } from "./language.js";
import { openingHead } from "./opening.js";
import { Readout } from "./readout.js";
import { table } from "./table.js";
import { Tip } from "./tip.js";
import { cellOf, wordOf } from "./word.js";

/** @typedef {{row: number, column: number}} Cell */

/** What a page shows whose model has computed nothing yet. */
const NOTHING = /** @type {any} */ ({ model: {}, sequences: {}, attentions: new Map(), faithfulness: null, search: null, predictions: null, classes: null });

export class App {
  /** @type {import("./controls.js").Controls} */ controls;
  /** @type {import("./readout.js").Readout} */ readout;
  /** @type {import("./tip.js").Tip} */ tip;
  /** @type {import("../show/grid.js").Grid} */ grid;
  copied = ""; // what was copied last, for whoever asks by a script

  /**
   * @param {HTMLElement} root
   * @param {any} page what trace.js read
   * @param {import("../views/view.js").View[]} views
   */
  constructor(root, page, views) {
    this.page = page;
    /** @type {import("../data/trace.js").Trace[]} */
    this.traces = page.traces.length ? [...page.traces] : [NOTHING];
    /** @type {import("../data/trace.js").Trace[]} those that Python wrote, in the order of its extras */
    this.recorded = page.traces;
    /** @type {import("../live/requests.js").Requests | null} the model that the page carries */
    this.live = page.live ?? null;
    /** Why there is no trace yet, of a page whose model makes it. */
    this.waiting = "The model is being opened …";
    this.live?.ready.then(() => {}, (/** @type {Error} */ error) => this.tell(t("The model of this page could not be opened: {why}", { why: plain(error.message) })));
    /** @type {Record<string, any>} what Python computed for single views */
    this.extras = page.extras;
    this.recorded.forEach((trace, i) => trace.attentions.forEach((one, name) => { one.opening = page.extras.opening?.[i]?.[name] ?? null; }));
    this.state = new State({ view: page.view, layer: "", head: "", heads: page.extras.opening || page.live ? "own" : "all", scale: "linear", language: preferred(), ...page.state }, (keys) => this.change(keys));
    /** @type {import("../views/view.js").View[]} */
    this.views = page.views.map((/** @type {string} */ name) => views.find((view) => view.name === name)).filter(Boolean);
    this.colours = new Colours();
    /** @type {Cell | null} where the pointer or the keyboard is */
    this.cursor = null;
    /** @type {number | null} a head that is shown while its picture is pointed at */
    this.previewed = null;
    this.drawn = 0;
    this.tip = new Tip(root);
    this.speak();
    this.build(root);
    listen(this);
    for (const view of this.views) view.begin?.(this);
    for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
      matchMedia(query).addEventListener("change", () => this.recolour());
    }
  }

  /** Takes the language that is chosen for all texts of the page. */
  speak() {
    speak(/** @type {any} */ (this.state.get("language")));
    document.documentElement.lang = spoken();
  }

  /** @param {HTMLElement} root */
  build(root) {
    this.controls = new Controls(this);
    this.stage = el("div", { class: "stage" });
    this.readout = new Readout(this);
    this.region = el("div", { class: "mirror", "aria-live": "polite", role: "status" });
    this.listing = el("div", { class: "listing" });
    this.note = el("p", { class: "note" });
    this.key = el("div", { class: "signs" });
    const main = el("main", {}, this.controls.bar, this.readout.root, this.stage, this.key, this.note, this.listing);
    this.grid = new Grid(main, (row, column) => this.moveTo({ row, column }));
    root.append(this.controls.header, main, this.region);
  }

  /** The trace that is looked at. */
  get trace() { return this.traces[Math.min(this.state.number("trace"), this.traces.length - 1)]; }

  /**
   * Shows a trace that the page's model has computed in place of the one that is looked at.
   * @param {import("../data/trace.js").Trace} trace
   */
  show(trace) {
    for (const attention of trace.attentions.values()) attention.opening = openingHead(attention, trace.model);
    const search = trace.attentions.get("search.cross");
    if (search) search.opening = trace.attentions.get("cross")?.opening ?? search.opening;
    this.traces[this.traces.indexOf(this.trace)] = trace;
    this.busy = this.view.steady ? this.draw() : this.open();
    return this.busy;
  }

  /**
   * What Python computed of the trace that is looked at; undefined where the page's model made the trace.
   * @param {string} name of the view
   * @param {string} [of] what of its extras holds an entry a trace
   */
  extrasOf(name, of = "traces") { return this.extras[name]?.[of]?.[this.recorded.indexOf(this.trace)]; }

  /** What a trace is called where there are several. @param {number} number */
  nameOf(number) { return shorten(plain(String(this.extras.names?.[this.recorded.indexOf(this.traces[number])] ?? this.traces[number].model.name ?? "")), 24); }

  /** The attentions of the trace that the view can show. */
  get choices() {
    return [...(this.trace?.attentions.values() ?? [])].filter((attention) => this.view.shows?.(attention) ?? attention.hasWeights);
  }

  /** The attention that is looked at: until one is chosen cross-attention where there is some, as in Choice of Python. */
  get attention() {
    return this.choices.find((one) => one.name === this.state.get("attention")) ?? this.choices.find((one) => one.name === "cross") ?? this.choices[0] ?? [...(this.trace?.attentions.values() ?? [])][0];
  }

  /**
   * The layer and the head that an attention shows until somebody chooses: the head that aligns, or the sharpest that
   * is no sink, as Python or the page's model found them.
   * @returns {number[]}
   */
  get first() { return this.attention?.opening ?? [0, 0]; }

  get layer() {
    const chosen = this.state.get("layer") === "" ? this.first[0] : this.state.number("layer");
    return Math.max(0, Math.min(chosen, (this.attention?.numLayers ?? 1) - 1));
  }

  /** The head that is looked at: the one that was chosen, or one that is pointed at for a while. */
  get head() { return this.previewed ?? this.chosenHead; }

  get chosenHead() {
    const chosen = this.state.get("head") === "" ? this.first[1] : this.state.number("head");
    return Math.max(0, Math.min(chosen, (this.attention?.numHeads ?? 1) - 1));
  }

  /** The heads that a view of several shows, in order. @returns {number[]} */
  get heads() { return this.previewed === null ? this.chosenHeads : [this.previewed]; }

  /** @returns {number[]} */
  get chosenHeads() {
    const all = Array.from({ length: this.attention.numHeads }, (_, head) => head), chosen = this.state.get("heads");
    if (chosen === "all") return all;
    if (chosen === "own") return [this.chosenHead];
    const numbers = new Set(chosen.split(",").filter(Boolean).map(Number));
    return all.filter((head) => numbers.has(head));
  }

  /** How weights are shown: see show/shown.js. @returns {import("../show/shown.js").Options} */
  get options() {
    const { state } = this;
    return { special: state.flag("special"), sink: state.flag("sink"), words: state.flag("words"), pair: this.hasPair ? state.get("pair") : "" };
  }

  /** Whether the input is two texts. */
  get hasPair() { return Boolean(this.attention) && this.attention.rows.some((token) => token.segment > 0) && this.attention.columns.some((token) => token.segment > 0); }

  /** The first of these views that the page has. @param {string[]} names @returns {import("../views/view.js").View | undefined} */
  firstOf(names) {
    return names.map((name) => this.views.find((view) => view.name === name)).find(Boolean);
  }

  get view() { return this.views.find((/** @type {any} */ view) => view.name === this.state.get("view")) ?? this.views[0]; }

  /** The cell that was clicked or entered; in another view than that one, the cell of the same word. @returns {Cell | null} */
  get pin() {
    const [row, column] = this.state.get("pin").split(",").map(Number);
    const size = this.shown?.size;
    if (this.state.get("pin")) return size && row < size.rows && column < size.columns ? { row, column } : null;
    return size && this.ready === this.shown ? cellOf(this, this.state.get("word")) : null;
  }

  /** The word that is pointed at or pinned, as "sequence:place"; "" is none. Views and strips of words follow it. */
  get word() { return this.cursor ? wordOf(this, this.cursor) : this.state.get("word"); }

  /** The cell that is told about. */
  get cell() { return this.cursor ?? this.pin; }

  /** What a view is opened for: when it changes, the view is opened anew. */
  get opening() { return [this.view.name, this.state.get("language"), ...(this.view.alone ? [] : [this.state.get("trace"), this.attention?.name]), this.view.variant?.(this)].join(" "); }

  async open() {
    this.shown?.close?.();
    this.stage.replaceChildren();
    this.cursor = this.previewed = null;
    this.shown = this.view.alone || this.choices.length ? this.view.open(this, this.stage) : this.nothing();
    this.readout.root.hidden = Boolean(this.view.alone);
    this.opened = this.opening;
    this.controls.rebuild();
    await this.draw();
  }

  /** In place of a view that can show nothing of this trace. */
  nothing() {
    const waits = this.trace === NOTHING && this.live, said = waits ? t(this.waiting) : t("This trace has nothing that the view “{view}” can show.", { view: t(this.view.title) });
    this.stage.append(write(el("p", { class: "opening", role: "status" }), said));
    return { controls: ["trace"], size: { rows: 0, columns: 0 }, draw() {}, hint: "" };
  }

  /**
   * Says why there is no trace: the model is being opened, it reads the text, or there is no text.
   * @param {string} why
   */
  tell(why) {
    this.waiting = why;
    if (this.trace === NOTHING && !this.view.alone) this.busy = this.open();
  }

  /** Takes the trace away, since there is no text any more. */
  clear() {
    this.traces[this.traces.indexOf(this.trace)] = NOTHING;
    this.tell("Nothing is written yet.");
  }

  /** Puts the focus on what is shown: the first thing in it that takes it. */
  enterStage() {
    const first = /** @type {HTMLElement | null} */ (this.stage.querySelector("textarea, input, button:not([disabled]), select, a[href], [tabindex='0']"));
    (first ?? this.grid.current)?.focus();
  }

  /**
   * Shows a head without choosing it; null: shows again what is chosen.
   * @param {number | null} head
   */
  preview(head) {
    if (this.previewed === head) return;
    this.previewed = head;
    this.busy = this.draw();
  }

  /** Draws anew; of calls that overlap the last one counts. */
  async draw() {
    const shown = this.shown, turn = (this.turn = (this.turn ?? 0) + 1);
    try {
      if (shown.prepare) await shown.prepare();
      if (turn !== this.turn || shown !== this.shown) return;
      shown.draw();
      this.ready = shown;
      this.controls.sync();
      write(this.note, shown.note?.() ?? "");
      this.key.replaceChildren(...legend(shown.legend?.() ?? [], this.colours));
      this.mirror();
      this.refresh();
      this.listing.replaceChildren(...(this.state.flag("table") && shown.table ? [table(shown.table())] : []));
      this.prefetch();
    } catch (error) {
      this.fail(error);
      throw error;
    } finally {
      this.drawn++;
    }
  }

  /** Decodes the layers beside this one while nothing else is to do. */
  prefetch() {
    const { attention, shown } = this;
    if (!attention || this.view.alone) return;
    const { layer } = this;
    for (const one of [layer + 1, layer - 1]) {
      if (!attention.hasWeights || one < 0 || one >= attention.numLayers) continue;
      requestIdleCallback(async () => {
        const loaded = await attention.load(one);
        requestIdleCallback(() => shown === this.shown && shown.warm?.(loaded));
      });
    }
  }

  /** @param {any} error */
  fail(error) {
    write(this.note, t("This cannot be shown: {why}", { why: error.message }));
  }

  /** @param {Set<string>} keys what was chosen */
  async change(keys) {
    if (["special", "sink", "words", "pair", "trace", "attention", "view"].some((key) => keys.has(key)) && !keys.has("pin")) {
      this.cursor = null;
      this.state.set({ pin: "" });
    }
    if (this.opening === this.opened && [...keys].every((key) => key === "pin" || key === "word")) return this.refresh();
    if (keys.has("language")) {
      this.speak();
      this.controls.head();
    }
    this.busy = this.opening === this.opened ? this.draw() : this.open();
    if (keys.has("layer") || keys.has("head")) this.busy = this.busy.then(() => this.tellPlace());
    return this.busy;
  }

  /** Says which layer and head are shown now, and what the cell that was looked at has there. */
  tellPlace() {
    if (!this.attention || this.view.alone || document.activeElement?.matches("input")) return;
    const { cell } = this, told = cell && this.shown.read?.(cell.row, cell.column)?.text;
    this.say([t("layer {layer}, head {head}", { layer: this.layer, head: this.head }), told].filter(Boolean).join(": "));
  }

  /** Fills the grid that screen readers and the keyboard use. */
  mirror() {
    const { shown } = this;
    this.grid.fill(shown.label?.() ?? this.view.title, { row: String, column: String, cell: String, rows: 0, columns: 0, ...shown.cells?.(), ...shown.size });
  }

  /** What follows cursor and pin: crosshair, readout. */
  refresh() {
    this.shown.mark?.();
    this.readout.show(this.cell ? this.shown.read?.(this.cell.row, this.cell.column) ?? null : null);
  }

  /**
   * The pointer is on a cell, or on none.
   * @param {Cell | null} cell
   */
  hover(cell) {
    if (cell?.row === this.cursor?.row && cell?.column === this.cursor?.column) return;
    this.cursor = cell;
    this.refresh();
  }

  /**
   * The keyboard went to a cell.
   * @param {Cell} cell
   * @param {boolean} [focus] whether the focus goes with it
   */
  moveTo(cell, focus = false) {
    const { rows, columns } = this.shown.size;
    if (!rows || !columns) return;
    const row = Math.max(0, Math.min(cell.row, rows - 1)), column = Math.max(0, Math.min(cell.column, columns - 1));
    const same = this.cursor?.row === row && this.cursor?.column === column;
    this.cursor = { row, column };
    if (focus || this.grid.at.row !== row || this.grid.at.column !== column) this.grid.go(row, column, focus);
    if (same) return;
    this.shown.reveal?.(row, column);
    this.refresh();
    const told = this.shown.read?.(row, column);
    if (told) this.say(told.text);
  }

  /**
   * Pins a cell, or lets it go where it is pinned already.
   * @param {Cell | null} cell
   */
  setPin(cell) {
    const same = cell && this.pin?.row === cell.row && this.pin?.column === cell.column;
    this.state.set({ pin: cell && !same ? `${cell.row},${cell.column}` : "", word: cell && !same ? wordOf(this, cell) : "" });
    if (cell) this.say(same ? t("let go") : t("pinned"));
  }

  /**
   * Tells a screen reader.
   * @param {string} text
   */
  say(text) {
    clearTimeout(this.saying);
    this.saying = setTimeout(() => {
      this.saying = 0;
      write(this.region, text);
    }, 120);
  }

  recolour() {
    this.colours.read();
    this.controls.rebuild();
    this.busy = this.draw();
  }
}
