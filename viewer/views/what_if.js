// What if: heads and layers switched off, words hidden, another temperature; what was written before and after.

import { button, el, write } from "../dom.js";
import { plain } from "../show/labels.js";
import { t } from "../shell/language.js";
import { bars } from "../writing/bars.js";
import { legend, Output } from "../writing/output.js";
import { asked, session } from "../writing/session.js";
import { Switches } from "../writing/switches.js";
import { changes, percent, sureness, times, words } from "../writing/words.js";
import { ko as shared } from "../shell/ko/overview.js";
import { ko } from "../shell/ko/translating.js";
import { whenOpen } from "../writing/opening.js";

/** @type {import("./view.js").View} */
export const what_if = {
  name: "what_if",
  title: "What if",
  alone: true,
  variant: (app) => (app.live?.about ? asked(app) : ""),
  korean: { ...shared, ...ko },
  open: (app, stage) => whenOpen(app, stage, () => new WhatIf(app, stage)),
};

/** How many tokens a language model goes on, to compare. */
const GOES_ON = 24;

class WhatIf {
  size = { rows: 0, columns: 0 };
  /** @type {import("../writing/words.js").Word[]} */
  read = [];

  /** @param {any} app @param {HTMLElement} stage */
  constructor(app, stage) {
    this.app = app;
    this.live = app.live;
    this.task = this.live.about.task;
    this.text = asked(app);
    /** @type {Promise<any>} */
    this.settled = Promise.resolve();
    this.switches = new Switches(this.live.about.model, { off: () => this.#set("off"), layersOff: () => this.#set("layersoff"), change: (off, layersOff) => this.#choose({ off, layersoff: layersOff }) });
    this.source = el("div", { class: "source", role: "group", "aria-label": t("words that the model reads"), dir: "auto" });
    this.explained = el("p", { class: "faint" }, t("Click a word to hide it. The bar says how much less likely the whole output is without it."));
    this.reset = button(t("Reset"), () => this.#reset());
    this.measured = button(t("Measure every head"), () => { this.settled = this.#measure(); }, { title: t("switches off each head once, and shades it by what the output loses") });
    this.told = el("p", { class: "verdict", role: "status" });
    this.before = this.#side(t("Before"), "before");
    this.after = this.#side(t("After"), "after");
    this.meaning = el("p", { class: "row faint", hidden: true });
    this.drawn = el("b", {});
    const sentence = write(el("bdi", { class: "sentence" }), plain(this.text));
    stage.append(el("div", { class: "ask" },
      el("div", { class: "row" }, sentence, button(t("Change the text"), () => app.state.set({ view: "translate" }))),
      el("section", { class: "sides" }, this.before.root, this.after.root, el("div", { class: "row verdicts" }, this.told, el("span", { class: "push" }), this.task === "classify" ? null : legend(), this.reset)),
      el("section", {}, el("h2", {}, t("Hide words that the model reads")), this.source, this.explained),
      el("section", {}, el("h2", {}, t("Switch off heads and layers")), this.switches.root, el("div", { class: "row" }, this.measured, el("span", { class: "faint" }, t("Click a number at the left for all heads of a layer."))), this.meaning),
      ...(this.task === "classify" ? [] : [el("section", {}, el("h2", {}, t("Temperature")), this.#temperature())])));
    this.settled = this.#first();
  }

  /** @type {(string | Node)[]} */
  controls = [];

  /** @param {string} title @param {"before" | "after"} which */
  #side(title, which) {
    const output = new Output(this.app, title, {
      mark: (_word, _line, place) => (this.changed?.[which][place] ? "changed" : ""),
      press: which === "before" ? (_line, place) => this.#row(place) : undefined,
    });
    const list = el("ol", { class: "classes", "aria-label": title }), sure = el("p", { class: "sure" });
    const inner = this.task === "classify" ? list : output.root;
    const how = this.task === "generate" && which === "before" ? el("p", { class: "faint" }, t("Both sides go on by the likeliest tokens, {count} at most; what the model wrote before may have been drawn.", { count: GOES_ON })) : null;
    return { root: el("div", { class: "side" }, el("h2", {}, title), el("div", { class: "paper" }, inner, sure), how), output, list, sure };
  }

  #temperature() {
    const slider = el("input", { type: "range", min: 0, max: 2, step: 0.1, "aria-label": t("temperature"), oninput: () => this.#choose({ heat: slider.value === "0" ? "" : slider.value }) });
    slider.value = this.app.state.get("heat") || "0";
    this.slider = slider;
    this.again = button(t("Draw again"), () => this.#choose({ draw: this.app.state.number("draw") + 1 }));
    return el("div", { class: "row" }, slider, this.drawn, this.again, el("span", { class: "faint" }, t("0: the likeliest words. Above, each token is drawn by its probability, of which the temperature makes more or less: 1 leaves it as it is.")));
  }

  /** @param {string} key */
  #set(key) { return new Set(this.app.state.get(key).split(",").filter(Boolean)); }

  get how() {
    return { off: [...this.#set("off")], layersOff: [...this.#set("layersoff")], hidden: [...this.#set("hidden")].map(Number) };
  }

  /** @param {Record<string, Set<string> | string | number>} patch */
  #choose(patch) {
    this.app.state.set(Object.fromEntries(Object.entries(patch).map(([key, value]) => [key, value instanceof Set ? [...value].join(",") : value])));
    this.settled = this.#second();
  }

  #reset() { this.#choose({ off: "", layersoff: "", hidden: "", heat: "" }); }

  /** Asks the model, whatever its task. @param {any} how */
  #ask(how) {
    if (this.task === "classify") return this.live.classify(this.text, how);
    if (this.task === "generate") return this.live.generate(this.text, { temperature: 0, maxNewTokens: GOES_ON, top: 1, ...how });
    const { beamSize, lengthPenalty } = session(this.app).options;
    return this.live.translate(this.text, { beamSize, lengthPenalty, nBest: 1, top: 1, ...how });
  }

  /** What was written with everything on; it stays. */
  async #first() {
    try {
      this.one = await this.#ask({ lane: "before" });
      const source = this.one.source?.length ? this.one.source : await this.live.label(await this.live.encode(this.text), "source");
      this.read = words(source);
      this.#words();
      await this.#second();
      await this.#occlude(null);
    } catch (error) {
      this.#fail(error);
    }
  }

  async #second() {
    this.controller?.abort();
    const { signal } = (this.controller = new AbortController()), heat = Number(this.app.state.get("heat")) || 0;
    this.#sync();
    const how = this.how, same = !how.off.length && !how.layersOff.length && !how.hidden.length && !heat;
    try {
      const made = same ? this.one : await this.#ask({ ...how, ...(heat ? { temperature: heat, seed: this.app.state.number("draw") } : {}), lane: "after", signal });
      if (signal.aborted) return;
      this.two = made;
      this.#paint(same);
    } catch (error) {
      if (!signal.aborted) this.#fail(error);
    }
  }

  /** @param {any} error */
  #fail(error) {
    if (error.name === "AbortError") return;
    this.told.className = "verdict failure";
    write(this.told, plain(error.message));
  }

  /** @param {boolean} same whether nothing is switched off */
  #paint(same) {
    const { one, two } = this;
    this.told.className = "verdict";
    if (this.task === "classify") return this.#classes(same);
    const first = words(one.labels, one.probabilities, one.top, one.text), second = words(two.labels, two.probabilities, two.top, two.text);
    this.changed = changes(first.map((word) => word.text), second.map((word) => word.text));
    const before = this.task === "generate" ? this.text : "";
    this.before.output.show([{ words: first, before }]);
    this.after.output.show([{ words: second, before }]);
    for (const [side, made] of [[this.before, one], [this.after, two]]) write(side.sure, made.probabilities?.length ? t("{chance} for the whole", { chance: percent(sureness(made.probabilities).whole) }) : "");
    const count = this.changed.after.filter(Boolean).length, gone = this.changed.before.filter(Boolean).length;
    write(this.told, same ? t("Everything is on. Switch something off, or hide a word.")
      : !count && !gone ? t("The same words come out: the model can do without what is off.")
        : t("New words: {count}. Words that are gone: {gone}.", { count, gone }));
  }

  /** @param {boolean} same */
  #classes(same) {
    const { one, two } = this;
    this.before.list.replaceChildren(...bars(one.probabilities));
    this.after.list.replaceChildren(...bars(two.probabilities));
    write(this.told, same ? t("Everything is on. Switch something off, or hide a word.")
      : one.label === two.label ? t("It still says “{label}”: {before} before, {after} now.", { label: plain(one.label), before: percent(one.probability), after: percent(two.probability) })
        : t("Now it says “{after}” instead of “{before}”.", { before: plain(one.label), after: plain(two.label) }));
  }

  /** The words that the model reads, each to be hidden. */
  #words() {
    this.source.replaceChildren(...this.read.map((/** @type {any} */ word) => {
      const places = word.pieces.map((/** @type {any} */ piece) => piece.place);
      const gauge = el("span", { class: "gauge", "aria-hidden": "true" }, el("i"));
      const chip = el("button", { type: "button", class: "source-word", "aria-pressed": "false", onclick: () => this.#hide(places) }, write(el("bdi"), plain(word.text)), gauge);
      chip.places = places;
      return chip;
    }));
    this.#sync();
  }

  /** @param {number[]} places */
  #hide(places) {
    const hidden = this.#set("hidden"), all = places.every((place) => hidden.has(String(place)));
    for (const place of places) {
      if (all) hidden.delete(String(place));
      else hidden.add(String(place));
    }
    this.#choose({ hidden });
  }

  #sync() {
    const hidden = this.#set("hidden"), { how } = this, heat = this.app.state.get("heat");
    for (const chip of this.source.children) chip.setAttribute("aria-pressed", String(chip.places.every((/** @type {number} */ place) => hidden.has(String(place)))));
    this.switches.sync();
    this.reset.disabled = !how.off.length && !how.layersOff.length && !how.hidden.length && !heat;
    write(this.drawn, heat || "0");
    if (this.again) this.again.disabled = !heat;
    if (this.slider) this.slider.value = heat || "0";
  }

  /** Which word of the output the bars are about. @param {number} place among the words before */
  #row(place) {
    const word = words(this.one.labels, this.one.probabilities, this.one.top)[place];
    this.settled = this.#occlude(this.about === place ? null : place, word?.pieces[0].place ?? null);
  }

  /** How much the output depends on each word that is read. @param {number | null} about @param {number | null} [row] */
  async #occlude(about, row = null) {
    this.about = about;
    let found;
    try {
      found = await this.live.occlusion(this.text, this.one.ids ?? null, { row, lane: "occlusion" });
    } catch (error) {
      if (/** @type {Error} */ (error).name !== "AbortError") write(this.explained, plain(/** @type {Error} */ (error).message));
      return;
    }
    const most = Math.max(0.5, ...found.words.map((/** @type {any} */ one) => one.change));
    for (const chip of this.source.children) {
      const sum = found.words.filter((/** @type {any} */ one) => one.places.some((/** @type {number} */ place) => chip.places.includes(place))).reduce((/** @type {number} */ all, /** @type {any} */ one) => all + one.change, 0);
      chip.querySelector("i").style.width = `${Math.max(0, Math.min(100, (100 * sum) / most))}%`;
      chip.title = sum < 0 ? t("Without it the output is {times} times likelier.", { times: times(sum) }) : t("Without it the output is {times} times less likely.", { times: times(sum) });
    }
  }

  /** Switches off each head once, and says how much less likely the same output is. */
  async #measure() {
    const { one } = this, all = new Map(), { signal } = (this.measuring = new AbortController());
    if (!one) return;
    this.measured.disabled = true;
    try {
      const logProb = async (/** @type {any} */ how) => (await this.live.score(this.text, one.ids ?? null, how)).logProbs.reduce((/** @type {number} */ sum, /** @type {number} */ x) => sum + x, 0);
      const whole = await logProb({ signal });
      for (const name of this.switches.names) {
        all.set(name, whole - (await logProb({ off: [name], signal })));
        if (signal.aborted) return;
      }
      this.#shaded(this.switches.shade(all));
      const [name, most] = [...all].reduce((best, entry) => (entry[1] > best[1] ? entry : best));
      const parts = name.split("."), head = parts.pop(), layer = parts.pop();
      this.app.say(t("The output depends most on {attention}, layer {n}, head {h}.", { attention: parts.join("."), n: layer ?? "", h: head ?? "" }) + " " + most.toFixed(2));
    } catch (error) {
      this.#fail(error);
    } finally {
      this.measured.disabled = false;
    }
  }

  /** What the shades and the dots of the heads mean. @param {number} most */
  #shaded(most) {
    const swatch = (/** @type {number} */ effect) => {
      const one = el("span", { class: "shade", "aria-hidden": "true" });
      one.style.setProperty("--effect", String(effect));
      return one;
    };
    this.meaning.replaceChildren(t("Without the head the output loses: nothing"), swatch(0), swatch(0.5), swatch(1), t("most, {most} log-probability", { most: most.toFixed(2) }), el("span", {}, t("•: at least half of that")));
    this.meaning.hidden = false;
  }

  draw() { this.#sync(); }

  note() { return t("That a head looks at a word does not say that the outcome hangs on it; switching it off does."); }

  close() {
    this.controller?.abort();
    this.measuring?.abort();
    this.app.tip.hide();
  }
}
