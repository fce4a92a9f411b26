// What the model wrote: running text whose words can be pointed at, with how sure it was of each.

import { el, write } from "../dom.js";
import { plain } from "../show/labels.js";
import { t } from "../shell/language.js";
import { percent, shade } from "./words.js";

/** @typedef {import("./words.js").Word} Word */

/**
 * @typedef {Object} Hooks
 * @property {(line: number, word: number, element: HTMLElement) => void} [press] a word was clicked or entered
 * @property {(line: number | null, word: number) => void} [point] the pointer or the focus is on a word; null: on none
 * @property {(word: Word, line: number, place: number) => string} [mark] a class that marks a word
 */

export class Output {
  /**
   * @param {import("../shell/app.js").App} app
   * @param {string} label
   * @param {Hooks} [hooks]
   */
  constructor(app, label, hooks = {}) {
    this.app = app;
    this.hooks = hooks;
    this.root = el("div", { class: "written", role: "group", "aria-label": label, dir: "auto" });
    /** @type {{words: Word[], faint?: boolean, failure?: string}[]} */
    this.lines = [];
    /** Whether words are marked by how sure the model was of them. */
    this.shaded = false;
    /** @type {[number, number]} which word Tab comes to */
    this.at = [0, 0];
    this.root.addEventListener("click", (/** @type {MouseEvent} */ event) => this.#press(event));
    this.root.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.#key(event));
    for (const kind of ["pointerover", "focusin"]) this.root.addEventListener(kind, (/** @type {Event} */ event) => this.#point(event));
    for (const kind of ["pointerleave", "focusout"]) this.root.addEventListener(kind, () => this.#leave());
  }

  /**
   * @param {{words: Word[], fresh?: number, before?: string, failure?: string}[]} lines `fresh`: how many words are new; the rest is from before. `before`: text that was given, not written
   */
  show(lines) {
    this.lines = lines;
    // Of a text without any probabilities no word is fainter than another.
    this.shaded = lines.some((line) => line.fresh !== undefined || line.words.some((word) => word.probability !== null));
    while (this.root.children.length > lines.length) this.root.lastChild.remove();
    lines.forEach((line, i) => {
      const place = this.root.children[i] ?? this.root.appendChild(el("p", { dir: "auto" }));
      this.#line(place, line, i);
    });
  }

  /** @param {HTMLElement} place @param {any} line @param {number} number */
  #line(place, line, number) {
    const said = JSON.stringify([line.words.map((/** @type {Word} */ word, /** @type {number} */ j) => [word.before, word.text, word.probability, this.shaded, this.hooks.mark?.(word, number, j)]), line.fresh, line.before, line.failure, this.app.state.get("language")]);
    const kept = /** @type {any} */ (place);
    if (kept.said === said) return;
    kept.said = said;
    const focused = place.contains(document.activeElement) ? this.at[1] : -1;
    if (line.failure) {
      place.replaceChildren(write(el("span", { class: "failure" }), plain(line.failure)));
      return;
    }
    const parts = line.words.flatMap((/** @type {Word} */ word, /** @type {number} */ j) =>
      [j || line.before ? word.before : "", this.#word(word, number, j, j >= (line.fresh ?? Infinity))]);
    place.replaceChildren(...(line.before ? [write(el("span", { class: "given" }), plain(line.before))] : []), ...(parts.length ? parts : [el("br")]));
    if (focused >= 0) this.#element(number, Math.min(focused, line.words.length - 1))?.focus();
  }

  /** @param {Word} word @param {number} line @param {number} place @param {boolean} stale */
  #word(word, line, place, stale) {
    const chance = word.probability === null ? "" : percent(word.probability), mark = this.hooks.mark?.(word, line, place) ?? "";
    const element = el("span", {
      class: ["word", this.shaded ? `sure-${shade(word.probability)}` : "", stale ? "stale" : "", mark].filter(Boolean).join(" "),
      role: "button", tabindex: this.at[0] === line && this.at[1] === place ? 0 : -1, "data-place": `${line},${place}`, "data-chance": chance || null,
      "aria-label": [plain(word.text), chance, mark && t(mark)].filter(Boolean).join(", "),
    }, write(el("span"), plain(word.text)));
    return element;
  }

  /** @param {number} line @param {number} word @returns {HTMLElement | null} */
  #element(line, word) { return this.root.querySelector(`[data-place="${line},${word}"]`); }

  /** @param {Event} event @returns {{line: number, word: number, element: HTMLElement} | null} */
  #at(event) {
    const element = /** @type {HTMLElement | null} */ (/** @type {HTMLElement} */ (event.target).closest("[data-place]"));
    if (!element) return null;
    const [line, word] = (element.dataset.place ?? "").split(",").map(Number);
    return this.lines[line]?.words[word] ? { line, word, element } : null;
  }

  /** @param {MouseEvent} event */
  #press(event) {
    const at = this.#at(event);
    if (!at) return;
    this.#move(at.line, at.word, false);
    this.hooks.press?.(at.line, at.word, at.element);
  }

  /** @param {Event} event */
  #point(event) {
    const at = this.#at(event);
    if (!at) return this.#leave();
    this.hooks.point?.(at.line, at.word);
    if (event instanceof PointerEvent) this.app.tip.show(event, told(this.lines[at.line].words[at.word]));
  }

  #leave() {
    this.app.tip.hide();
    this.hooks.point?.(null, 0);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const at = this.#at(event);
    if (!at || event.ctrlKey || event.metaKey || event.altKey) return;
    const forward = getComputedStyle(at.element).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
    const { key } = event, last = this.lines[at.line].words.length - 1;
    if (key === "Enter" || key === " " || (key === "ArrowDown" && !event.shiftKey && this.lines.length === 1)) this.hooks.press?.(at.line, at.word, at.element);
    else if (key === "ArrowLeft" || key === "ArrowRight") this.#step(at, key === forward ? 1 : -1);
    else if (key === "ArrowDown" || key === "ArrowUp") this.#down(at, key === "ArrowDown" ? 1 : -1);
    else if (key === "Home" || key === "End") this.#move(at.line, key === "Home" ? 0 : last);
    else return;
    event.preventDefault();
  }

  /** @param {{line: number, word: number}} at @param {number} by */
  #step(at, by) {
    const word = at.word + by;
    if (this.lines[at.line].words[word]) return this.#move(at.line, word);
    return this.#down(at, by, by > 0 ? 0 : Infinity);
  }

  /** @param {{line: number, word: number}} at @param {number} by @param {number} [word] */
  #down(at, by, word = at.word) {
    for (let line = at.line + by; this.lines[line]; line += by) {
      const { length } = this.lines[line].words;
      if (length) return this.#move(line, Math.min(word, length - 1));
    }
  }

  /** @param {number} line @param {number} word @param {boolean} [focus] */
  #move(line, word, focus = true) {
    this.#element(...this.at)?.setAttribute("tabindex", "-1");
    this.at = [line, word];
    const element = this.#element(line, word);
    element?.setAttribute("tabindex", "0");
    if (focus) element?.focus();
  }

  /** Puts the focus on a word, if it is there. @param {number} line @param {number} word */
  focus(line, word) { if (this.lines[line]?.words[word]) this.#move(line, word); }
}

/** What a tooltip says of a word. @param {Word} word */
export function told(word) {
  const chance = word.probability === null ? "" : ` ${percent(word.probability)}`;
  const parts = word.pieces.length > 1 ? [word.pieces.map((piece) => `${plain(piece.text.trim())} ${piece.probability === null ? "" : percent(piece.probability)}`).join(" · ")] : [];
  const [only] = word.pieces, top = word.pieces.length === 1 ? only.top : null;
  // What was written need not be the likeliest: a search weighs whole sentences, and a person may have chosen.
  const others = top ? top.tokens.map((text, i) => ({ text, id: top.ids[i], chance: top.probabilities[i] })).filter(({ id }) => id !== only.id).slice(0, 3) : [];
  if (others.length) parts.push(others.map(({ text, chance }) => `${plain(spelled(text))} ${percent(chance)}`).join(" · "));
  return [`${plain(word.text)}${chance}`, ...parts];
}

/** A piece of a vocabulary without the sign for a space. @param {string} piece */
export const spelled = (piece) => piece.replace(/^[▁Ġ]/, "").replace(/^##/, "") || "␣";

/** What the shades mean. */
export function legend() {
  const steps = [["0", t("quite sure")], ["1", ""], ["2", ""], ["3", ""], ["4", t("hardly sure")]];
  return el("span", { class: "legend", role: "img", "aria-label": t("The more strongly a word is marked, the less sure the model was of it: over 90 %, 70, 50, 25 %, less.") },
    ...steps.flatMap(([number, text]) => [el("span", { class: `swatch sure-${number}` }, "ab"), text ? el("span", {}, text) : null]));
}

