// The entry: what was read, what was written and how sure of it, what one sees, and the model at a glance.

import { button, el, write } from "../dom.js";
import { plain } from "../show/labels.js";
import { t } from "../shell/language.js";
import { aligning } from "../shell/opening.js";
import { bars } from "../writing/bars.js";
import { following, ofClasses, ofHeads, ofMost, ofOcclusion, ofSureness } from "../writing/findings.js";
import { sketch, thumbnails } from "../writing/glance.js";
import { whenOpen } from "../writing/opening.js";
import { legend, Output } from "../writing/output.js";
import { asked } from "../writing/session.js";
import { words } from "../writing/words.js";
import { ko } from "../shell/ko/overview.js";

/** @type {import("./view.js").View} */
export const overview = {
  name: "overview",
  title: "Overview",
  alone: true,
  variant: (app) => app.state.get("trace"),
  korean: ko,
  open: (app, stage) => (app.live ? whenOpen(app, stage, () => new Overview(app, stage)) : new Overview(app, stage)),
};

class Overview {
  size = { rows: 0, columns: 0 };
  controls = ["trace"];

  /** @param {any} app @param {HTMLElement} stage */
  constructor(app, stage) {
    this.app = app;
    this.controller = new AbortController();
    /** How many rows later than a word stands the one by which the head that aligns looks at it. */
    this.later = 0;
    const { sequences, classes } = (this.trace = app.trace);
    /** @type {import("../data/trace.js").Token[]} the sequence that was read: of a decoder alone what it went on from */
    this.read = sequences.src ?? sequences.tgt ?? [];
    this.written = written(this.trace);
    this.source = el("p", { class: "source-text", dir: "auto" });
    this.output = new Output(app, t("what was written"), { point: (line, place) => this.#point(line === null ? null : place), press: (_, place) => this.#open(place) });
    this.cards = el("div", { class: "findings" });
    this.pictures = thumbnails(app, (attention, layer, head) => this.#head(attention, layer, head), this.controller.signal);
    // A decoder alone reads what it writes: one text, in which each token says how likely it was.
    const alone = !sequences.src && this.written.length > 0;
    stage.append(el("div", { class: "overview" },
      el("section", { class: "sentences" }, alone ? null : el("div", {}, el("h2", {}, t("It read")), this.source),
        classes ? el("div", {}, el("h2", {}, t("It says")), el("ol", { class: "classes", "aria-label": t("classes") }, ...bars(classes))) : null,
        this.written.length ? el("div", {}, el("h2", {}, alone ? t("The text, and how likely the model held each word") : t("It wrote")), this.output.root) : null,
        el("div", { class: "row" }, this.written.some((word) => word.probability !== null) ? legend() : null, el("span", { class: "push" }), ...this.#leads())),
      el("section", {}, el("h2", {}, t("What one sees")), this.cards),
      el("section", { class: "glance" }, el("div", {}, el("h2", {}, t("The model")), sketch(app, (attention) => this.#go(["heads", "matrix"], { attention }))),
        el("div", {}, el("h2", {}, t("Every head on this sentence")), el("p", { class: "faint" }, t("A row a layer, a column a head; in each picture a row is a token that looks, a column a token that is looked at. Click one to open it.")), this.pictures.root))));
    this.#source();
    this.output.show(this.written.length ? [{ words: this.written, before: alone ? (this.read[0].adds ?? this.read[0].text).trimStart() : "" }] : []);
    this.settled = this.#find();
  }

  /** Buttons to where one goes from here. */
  #leads() {
    const views = this.app.views.map((/** @type {any} */ view) => view.name);
    const leads = /** @type {[string, string][]} */ ([["translate", "Write another text"], ["what_if", "Ask what if"], ["step", "Go through it step by step"]]);
    return leads.filter(([view]) => views.includes(view)).map(([view, text]) => button(t(text), () => this.app.state.set({ view })));
  }

  #source() {
    this.parts = words(this.read);
    this.source.replaceChildren(...this.parts.flatMap((word, i) => [i ? word.before : "", write(el("span", { class: "read" }), plain(word.text))]));
  }

  /** Marks the words that were looked at as a word was written. @param {number | null} place */
  async #point(place) {
    const marks = [...this.source.querySelectorAll(".read")], { best } = this, word = place === null ? null : this.written[place];
    for (const mark of marks) mark.style.removeProperty("--seen");
    if (!best || !word?.pieces.length) return;
    const attention = this.trace.attentions.get(best.attention), weights = (await attention.load(best.layer)).weights(best.head), M = attention.columns.length;
    this.parts?.forEach((part, i) => {
      let sum = 0;
      for (const query of word.pieces) for (const key of part.pieces) sum += weights[Math.min(query.place + this.later, attention.rows.length - 1) * M + key.place] / word.pieces.length;
      marks[i]?.style.setProperty("--seen", String(Math.min(1, sum)));
    });
  }

  /** @param {number} place */
  #open(place) {
    const word = this.written[place];
    this.#go(["text", "alignment", "heads", "matrix"], { ...(this.best ? { attention: this.best.attention, layer: this.best.layer, head: this.best.head } : {}), pin: word?.pieces.length ? `${word.pieces[0].place},0` : "" });
  }

  /** @param {string} attention @param {number} layer @param {number} head */
  #head(attention, layer, head) { this.#go(["matrix", "heads", "neuron"], { attention, layer, head, heads: String(head) }); }

  /** Opens the first of these views that the page has. @param {string[]} views @param {Record<string, string | number>} state */
  #go(views, state) {
    const view = this.app.firstOf(views);
    if (view) this.app.state.set({ view: view.name, ...state });
  }

  /** Finds what is worth telling; each sentence comes as soon as it is known. */
  async #find() {
    const { app, trace } = this, sure = trace.classes ? ofClasses(trace.classes) : ofSureness(this.written, Boolean(trace.sequences.src));
    const all = await this.pictures.ready;
    if (this.controller.signal.aborted) return;
    const cross = all.filter((one) => one.attention === "cross");
    const known = aligning(trace.model), kept = known && cross.find((one) => one.layer === known.layer && one.head === known.head);
    this.best = kept || following(cross.length ? cross : all);
    this.later = kept && known?.reads ? 1 : 0;
    const heads = ofHeads(all, kept);
    this.#tell([sure, heads, null]);
    let mattered = null;
    if (app.live?.about && this.read.length && asked(app)) {
      try {
        mattered = ofOcclusion((await app.live.occlusion(asked(app), null, { row: null, lane: "overview", signal: this.controller.signal })).words);
      } catch {
        // Cancelled, or not to be had of this model: attention alone tells.
      }
    }
    if (this.controller.signal.aborted) return;
    const attention = this.best && trace.attentions.get(this.best.attention);
    this.#tell([sure, heads, mattered ?? (attention ? ofMost(this.best, attention.columns) : null)]);
  }

  /** @param {(import("../writing/findings.js").Finding | null)[]} findings */
  #tell(findings) {
    const told = findings.filter((one) => one !== null);
    this.cards.replaceChildren(...told.map(({ text, values, views, state = {} }) => {
      const target = this.app.firstOf(views);
      const there = target && button(t("See it in “{view}”", { view: t(target.titled?.(this.app) ?? target.title) }), () => this.app.state.set({ ...state, view: target.name }), { class: "quiet lead" });
      return el("article", {}, write(el("p"), t(text, values)), there ?? null);
    }));
  }

  draw() {}

  note() { return t("That a head looks at a word does not say that the outcome hangs on it; switching it off does."); }

  close() {
    this.controller.abort();
    this.app.tip.hide();
  }
}

/**
 * What a trace's model wrote, with its probabilities where the trace has them.
 * @param {any} trace
 */
export function written({ sequences, predictions }) {
  const tokens = sequences.out ?? [], rows = predictions?.rows ?? [];
  const top = rows.map((/** @type {any} */ row) => ({ ids: row.top.map((/** @type {any} */ one) => one.id), tokens: row.top.map((/** @type {any} */ one) => one.text), probabilities: row.top.map((/** @type {any} */ one) => one.probability) }));
  return words(tokens, rows.map((/** @type {any} */ row) => row.chosen.probability), top);
}
