// A classifier: its classes as bars, while one types.

import { el, write } from "../dom.js";
import { plain } from "../show/labels.js";
import { t } from "../shell/language.js";
import { bars } from "./bars.js";
import { Box, languageOf } from "./box.js";
import { follow, remember } from "./session.js";
import { percent } from "./words.js";

/** How long the model waits for the next key, and while an input method puts a character together. */
const PAUSE = 60, COMPOSING = 450;

export class Classes {
  hint = "";
  size = { rows: 0, columns: 0 };
  /** @type {(string | Node)[]} */
  controls = [];

  /** @param {any} app @param {HTMLElement} stage */
  constructor(app, stage) {
    this.app = app;
    this.live = app.live;
    this.text = app.state.get("text") || this.live.about.examples?.[0] || "";
    this.composing = false;
    /** @type {Promise<any>} */
    this.settled = Promise.resolve();
    this.box = new Box(this, { label: t("Text"), lang: languageOf(this.live.about).source.code, placeholder: t("Write here.") });
    this.list = el("ol", { class: "classes", "aria-label": t("classes") });
    this.said = el("p", { class: "sure" });
    this.encodes = this.live.about.task === "encode";
    stage.append(el("div", { class: "writing" },
      el("section", { class: "side" }, el("h2", {}, t("Text"), this.box.clear), this.box.root),
      el("section", { class: "side" }, el("h2", {}, this.encodes ? t("Tokens") : t("What it says")), el("div", { class: "paper" }, this.list, this.said))));
    this.run();
  }

  /** @param {string} text @param {number} [pause] */
  write(text, pause = this.composing ? COMPOSING : PAUSE) {
    this.text = text;
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => { this.settled = this.run(); }, pause);
    clearTimeout(this.noting);
    this.noting = setTimeout(() => this.app.state.set({ text: text.slice(0, 2000), hidden: "" }), 600);
  }

  async run() {
    this.controller?.abort();
    const { signal } = (this.controller = new AbortController());
    if (!this.text.trim()) {
      this.list.replaceChildren();
      write(this.said, "");
      remember(this.app, "", null);
      return;
    }
    try {
      await (this.encodes ? this.#tokens(signal) : this.#classes(signal));
      if (!signal.aborted) remember(this.app, this.text, null);
    } catch (error) {
      if (signal.aborted || /** @type {Error} */ (error).name === "AbortError") return;
      this.list.replaceChildren();
      this.said.className = "sure failure";
      write(this.said, plain(/** @type {Error} */ (error).message));
    }
  }

  /** @param {AbortSignal} signal */
  async #classes(signal) {
    const found = await this.live.classify(this.text, { lane: "write", signal });
    if (signal.aborted) return;
    this.list.replaceChildren(...bars(found.probabilities));
    this.said.className = "sure";
    write(this.said, t("The model says “{label}”, with {chance}.", { label: plain(found.label), chance: percent(found.probability) }));
    clearTimeout(this.saying);
    this.saying = setTimeout(() => this.app.say(this.said.textContent ?? ""), 900);
  }

  /** An encoder without a head gives vectors: what there is to see are its tokens. @param {AbortSignal} signal */
  async #tokens(signal) {
    const ids = await this.live.encode(this.text, { lane: "write", signal }), tokens = await this.live.label(ids, "source", { signal });
    if (signal.aborted) return;
    this.list.replaceChildren(...tokens.slice(0, 200).map((/** @type {any} */ token) => write(el("li", { class: "token" }), plain(token.text))));
    this.said.className = "sure";
    write(this.said, t("This model turns a text into vectors; it writes nothing. It reads {count} tokens.", { count: ids.length }));
  }

  draw() {}

  note() { return t("This model runs in the page itself: nothing that you write leaves it."); }

  close() {
    this.controller?.abort();
    clearTimeout(this.waiting);
    clearTimeout(this.saying);
    setTimeout(() => follow(this.app));
  }
}
