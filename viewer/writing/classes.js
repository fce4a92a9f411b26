// A classifier: its classes as bars, while one types.

import { el, write } from "../dom.js";
import { plain } from "../show/labels.js";
import { t } from "../shell/language.js";
import { bars } from "./bars.js";
import { Box, languageOf } from "./box.js";
import { follow, remember } from "./session.js";
import { Typing } from "./typing.js";
import { percent } from "./words.js";

export class Classes extends Typing {
  size = { rows: 0, columns: 0 };
  /** @type {(string | Node)[]} */
  controls = [];

  /** @param {any} app @param {HTMLElement} stage */
  constructor(app, stage) {
    super(app);
    this.box = new Box(this, { label: t("Text"), lang: languageOf(this.live.about).source.code, placeholder: t("Write here.") });
    this.list = el("ol", { class: "classes", "aria-label": t("classes") });
    this.said = el("p", { class: "sure" });
    this.encodes = this.live.about.task === "encode";
    stage.append(el("div", { class: "writing" },
      el("section", { class: "side" }, el("h2", {}, t("Text"), this.box.clear), this.box.root),
      el("section", { class: "side" }, el("h2", {}, this.encodes ? t("Tokens") : t("What it says")), el("div", { class: "paper" }, this.list, this.said))));
    this.run();
  }

  async run() {
    const signal = this.begin();
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
    this.cancel();
    clearTimeout(this.saying);
    setTimeout(() => follow(this.app));
  }
}
