// A language model: it goes on writing where one stopped.

import { button, el, tick, write } from "../dom.js";
import { plain } from "../show/labels.js";
import { copy } from "../shell/dialogs.js";
import { t } from "../shell/language.js";
import { Alternatives } from "./alternatives.js";
import { Box, languageOf } from "./box.js";
import { legend, Output } from "./output.js";
import { add, chosenIn, follow, remember } from "./session.js";
import { Typing } from "./typing.js";
import { leastSure, percent, words } from "./words.js";

/**
 * @typedef {Object} Dial
 * @property {string} key in the page's state
 * @property {string} name
 * @property {number} min
 * @property {number} max
 * @property {number} step
 * @property {number} usual
 * @property {string} title
 */

export class Continuing extends Typing {
  size = { rows: 0, columns: 0 };
  /** @type {import("./session.js").Line | null} the text that was said last */
  said = null;

  /** @param {any} app @param {HTMLElement} stage */
  constructor(app, stage) {
    super(app);
    /** @type {import("./session.js").Line} what the model wrote */
    this.line = { text: "", state: "empty", words: [], result: null, failure: "", prefix: [], own: [] };
    this.alternatives = new Alternatives(this.#previewing());
    this.output = new Output(app, t("how the model goes on"), {
      press: (_, place, element) => this.#ask(place, element), mark: (word) => (chosenIn(this.line, word) ? "chosen" : ""),
    });
    this.box = new Box(this, { label: t("How it begins"), lang: languageOf(this.live.about).source.code, placeholder: t("Write how it begins.") });
    this.go = button(t("Go on writing"), () => this.goOn(), { class: "main" });
    this.halt = button(t("Stop"), () => this.stop());
    this.sure = el("p", { class: "sure" });
    stage.append(el("div", { class: "writing" },
      el("section", { class: "side" }, el("h2", {}, t("How it begins"), this.box.clear), this.box.root, el("div", { class: "row" }, this.go, this.halt), this.#dials()),
      el("section", { class: "side" }, el("h2", {}, t("How the model goes on")), el("div", { class: "paper" }, this.output.root, this.sure),
        el("div", { class: "row" }, button(t("Copy"), () => copy(app, this.line.text + this.#written(), t("the text"))),
          tick(t("numbers"), app.state.flag("numbers"), (/** @type {boolean} */ numbers) => app.state.set({ numbers }), t("how sure the model was of each word")), el("span", { class: "push" }), legend()),
        this.alternatives.root)));
    this.#paint();
  }

  /** @type {(string | Node)[]} */
  controls = [];

  /** The list of alternatives asks a translator how it would go on; a language model is asked the same in its own way. */
  #previewing() {
    const { app, live } = this;
    const translate = (/** @type {string} */ text, /** @type {any} */ how) => live.generate(text, { ...how, prefix: how.prefix[0], temperature: 0, maxNewTokens: how.prefix[0].length + 12 });
    return /** @type {any} */ ({ tip: app.tip, live: { about: live.about, translate } });
  }

  #dials() {
    /** @type {Dial[]} */
    const dials = [
      { key: "temperature", name: t("Temperature"), min: 0, max: 2, step: 0.1, usual: 0.8, title: t("0: always the likeliest token; 1: as the model weighs them; above: more daring") },
      { key: "topk", name: t("Top-k"), min: 0, max: 100, step: 1, usual: 0, title: t("top-k: drawn among so many tokens; 0: among all") },
      { key: "topp", name: t("Top-p"), min: 0.05, max: 1, step: 0.05, usual: 1, title: t("top-p: drawn among the likeliest tokens that make up this share of probability") },
      { key: "length", name: t("Length"), min: 5, max: 200, step: 5, usual: 40, title: t("at most so many tokens") },
      { key: "seed", name: t("Seed"), min: 0, max: 99, step: 1, usual: 0, title: t("the same seed draws the same") },
    ];
    return el("div", { class: "dials" }, ...dials.map((dial) => this.#dial(dial)));
  }

  /** @param {Dial} dial */
  #dial({ key, name, min, max, step, usual, title }) {
    const { state } = this.app, number = el("b", {});
    const slider = el("input", { type: "range", min, max, step, title, oninput: () => { write(number, slider.value); state.set({ [key]: slider.value }); } });
    slider.value = String(this.#number(key, usual));
    write(number, slider.value);
    return el("label", { class: "field", title }, el("span", {}, name), slider, number);
  }

  /** @param {string} key @param {number} usual */
  #number(key, usual) {
    const written = this.app.state.get(key), value = Number(written);
    return written === "" || !Number.isFinite(value) ? usual : value;
  }

  /** The model goes on when it is told to, not while one types. @param {string} text */
  write(text) {
    this.takeOver(text);
    if (!text.trim()) remember(this.app, "", null);
  }

  get options() {
    return { temperature: this.#number("temperature", 0.8), topK: this.#number("topk", 0), topP: this.#number("topp", 1), maxNewTokens: this.#number("length", 40), seed: this.#number("seed", 0), top: 6 };
  }

  /** Goes on from the box's text, or from tokens that a person has chosen. @param {number[]} [prefix] @param {number[]} [own] the places at which a person chose */
  goOn(prefix = [], own = /** @type {number[]} */ ([])) {
    this.settled = this.#goOn(prefix, own);
    return this.settled;
  }

  /** @param {number[]} prefix @param {number[]} own */
  async #goOn(prefix, own) {
    const signal = this.begin();
    const line = (this.line = { text: this.text, state: /** @type {any} */ ("working"), words: /** @type {any[]} */ ([]), result: /** @type {any} */ (null), failure: "", prefix: [prefix], own });
    this.#paint();
    let before = "";
    const onWord = (/** @type {any} */ word) => {
      if (signal.aborted) return;
      add(line.words, before, word);
      before = word.text;
      this.#paint();
    };
    try {
      line.result = await this.live.generate(this.text, { ...this.options, prefix, lane: "write", signal, onWord });
      if (signal.aborted) return;
      remember(this.app, line.text, line.result);
      line.words = words(line.result.labels, line.result.probabilities, line.result.top, line.result.text);
    } catch (error) {
      if (/** @type {Error} */ (error).name !== "AbortError") line.failure = /** @type {Error} */ (error).message;
    }
    line.state = line.failure ? "failed" : "done";
    if (line === this.line) this.#paint();
  }

  stop() { this.cancel(); }

  #written() { return this.line.words.map((word) => word.before + word.text).join(""); }

  #paint() {
    const { line } = this, busy = line.state === "working", least = leastSure(line.words.filter((word) => !chosenIn(line, word)));
    this.output.show(line.state === "empty" ? [] : [{ words: line.words, before: line.text, failure: line.failure }]);
    this.output.root.setAttribute("aria-busy", String(busy));
    this.halt.disabled = !busy;
    write(this.sure, line.state === "empty" ? t("Press the button: the model goes on from where you stopped.")
      : busy || !least ? "" : t("Least sure of “{word}”: {chance}.", { word: plain(least.text), chance: percent(least.probability ?? 0) }));
    if (line.state === "done" && this.said !== line) {
      this.said = line;
      this.app.say(plain(this.#written().trim()).slice(0, 300));
    }
  }

  /** @param {number} place @param {HTMLElement} beside */
  #ask(place, beside) {
    const { line } = this, word = line.words[place];
    if (line.result && word?.pieces.length) this.alternatives.open({ line, word, beside, choose: ([prefix], at) => this.goOn(prefix, [...line.own.filter((one) => one < at), at]), closed: () => this.#paint() });
  }

  draw() { this.output.root.classList.toggle("numbered", this.app.state.flag("numbers")); }

  note() { return t("This model runs in the page itself: nothing that you write leaves it."); }

  close() {
    this.cancel();
    this.alternatives.remove();
    this.app.tip.hide();
    setTimeout(() => follow(this.app));
  }
}
