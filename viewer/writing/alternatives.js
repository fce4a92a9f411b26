// What the model could have written instead: a list beside a word, with how likely each was and what would follow.

import { button, el, write } from "../dom.js";
import { plain, shorten } from "../show/labels.js";
import { t } from "../shell/language.js";
import { percent, prefixes, words } from "./words.js";
import { spelled } from "./output.js";

/**
 * @typedef {Object} Asked
 * @property {import("./session.js").Line} line
 * @property {import("./words.js").Word} word
 * @property {HTMLElement} beside the word's element
 * @property {(prefix: number[][], place: number) => void} choose
 * @property {() => void} closed
 */

export class Alternatives {
  /** @param {import("../shell/app.js").App} app */
  constructor(app) {
    this.app = app;
    this.live = /** @type {any} */ (app).live;
    this.title = el("b", { dir: "auto" });
    this.pieces = el("div", { class: "pieces", role: "group", "aria-label": t("parts of the word") });
    this.list = el("ul", { role: "listbox", "aria-label": t("what else the model could have written") });
    this.root = el("div", { class: "alternatives", role: "dialog", hidden: true },
      el("header", {}, this.title, button("×", () => this.close(true), { class: "quiet", "aria-label": t("close") })), this.pieces, this.list,
      el("p", {}, t("Choose one, and the rest is written anew from there.")));
    this.root.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.#key(event));
    this.root.addEventListener("focusout", (/** @type {FocusEvent} */ event) => {
      if (event.relatedTarget && !this.root.contains(event.relatedTarget)) this.close(false);
    });
    this.away = (/** @type {Event} */ event) => {
      const target = /** @type {Node} */ (event.target);
      if (!this.root.contains(target) && !this.asked?.beside.contains(target)) this.close(false);
    };
    document.addEventListener("pointerdown", this.away);
  }

  /** @param {Asked} asked */
  open(asked) {
    this.asked = asked;
    this.app.tip.hide();
    this.root.hidden = false;
    this.root.setAttribute("aria-label", t("instead of “{word}”", { word: plain(asked.word.text) }));
    write(this.title, plain(asked.word.text));
    this.#piece(0);
    this.#place();
    this.#options()[0]?.focus({ preventScroll: true });
  }

  /** Shows the alternatives of one of the word's tokens. @param {number} number */
  #piece(number) {
    const { word, line } = /** @type {Asked} */ (this.asked), piece = word.pieces[number], { top } = piece;
    const chips = word.pieces.length < 2 ? [] : word.pieces.map((one, i) =>
      button(plain(one.text.trim()) + (one.probability === null ? "" : ` ${percent(one.probability)}`), () => this.#piece(i), { "aria-pressed": String(i === number) }));
    this.pieces.replaceChildren(...chips);
    this.pieces.hidden = !chips.length;
    const written = line.result.labels[piece.place].id, beginning = (/** @type {number} */ id) => prefixes(line.result, piece.place, id);
    this.controller?.abort();
    const items = (top?.ids ?? []).map((/** @type {number} */ id, /** @type {number} */ i) => this.#option(id, i, top, id === written, beginning(id), piece.place));
    this.list.replaceChildren(...(items.length ? items : [el("li", { role: "option", "aria-selected": "false", "aria-disabled": "true", tabindex: -1 }, t("none is known"))]));
    this.#preview(line, piece.place, top, written);
  }

  /** @param {number} id @param {number} i @param {any} top @param {boolean} chosen @param {number[][]} prefix @param {number} place */
  #option(id, i, top, chosen, prefix, place) {
    const end = id === this.live.about.model.eos_id, text = end ? t("the end of the sentence") : shorten(plain(spelled(top.tokens[i])), 32);
    const bar = el("i", { "aria-hidden": "true" });
    bar.style.width = `${Math.max(1, 100 * top.probabilities[i])}%`;
    const option = el("li", { role: "option", tabindex: -1, "aria-selected": String(chosen), onclick: () => this.#choose(prefix, place) },
      write(el("bdi", { class: end ? "name faint" : "name" }), text), el("span", { class: "chance" }, percent(top.probabilities[i])), el("span", { class: "gauge", "aria-hidden": "true" }, bar),
      el("span", { class: "follows", dir: "auto" }));
    return option;
  }

  /**
   * Writes beside each alternative how the sentence would go on, one after another.
   * @param {import("./session.js").Line} line
   * @param {number} place
   * @param {any} top
   * @param {number} written
   */
  async #preview(line, place, top, written) {
    const { signal } = (this.controller = new AbortController()), options = this.#options();
    for (const [i, id] of (top?.ids ?? []).entries()) {
      if (id === this.live.about.model.eos_id) continue;
      try {
        const result = id === written ? line.result
          : await this.live.translate(line.text, { beamSize: 1, nBest: 1, top: 1, prefix: prefixes(line.result, place, id), lane: "preview", signal });
        if (signal.aborted) return;
        const follows = words(result.labels, [], [], result.text), at = follows.findIndex((word) => word.pieces.some((piece) => piece.place >= place));
        const text = follows.slice(Math.max(0, at)).map((word) => word.before + word.text).join("").trim();
        write(/** @type {HTMLElement} */ (options[i].querySelector(".follows")), at < 0 ? "" : shorten(plain(text), 90));
      } catch {
        return; // Cancelled, or the model cannot: the list stands without it.
      }
    }
  }

  /** @returns {HTMLElement[]} */
  #options() { return [...this.list.querySelectorAll("[role=option]")]; }

  /** @param {number[][]} prefix @param {number} place */
  #choose(prefix, place) {
    const { asked } = this;
    this.close(true);
    asked?.choose(prefix, place);
  }

  /** Below the word, and within the window. */
  #place() {
    const { beside } = /** @type {Asked} */ (this.asked), parent = /** @type {HTMLElement} */ (this.root.offsetParent ?? document.body);
    const word = beside.getBoundingClientRect(), box = parent.getBoundingClientRect(), { offsetWidth: width } = this.root;
    const left = Math.max(8, Math.min(word.left, document.documentElement.clientWidth - width - 8));
    this.root.style.left = `${left - box.left}px`;
    this.root.style.top = `${word.bottom - box.top + 6}px`;
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const options = this.#options(), at = options.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: options.length - 1 }[event.key];
    if (event.key === "Escape") this.close(true);
    else if (to !== undefined) options[(to + options.length) % options.length]?.focus();
    else if ((event.key === "Enter" || event.key === " ") && at >= 0) options[at].click();
    else {
      event.stopPropagation();
      return;
    }
    event.preventDefault();
  }

  /** @param {boolean} back whether the focus goes back to the word */
  close(back) {
    if (this.root.hidden) return;
    this.controller?.abort();
    this.root.hidden = true;
    const { asked } = this;
    this.asked = null;
    if (back) asked?.beside.focus();
    asked?.closed();
  }

  remove() {
    this.controller?.abort();
    document.removeEventListener("pointerdown", this.away);
  }
}
