// What steps are shown with: vectors as coloured strips, rows of tokens, bars, and sums that are spelled out.

import { el, write } from "../dom.js";
import { largest } from "../data/numbers.js";
import { heatmap } from "../show/heatmap.js";
import { figure, label } from "../show/labels.js";
import { t } from "../shell/language.js";

/** @typedef {import("../data/trace.js").Token} Token */
/** @typedef {"model" | "head" | "inner" | "joined"} Space a strip belongs to: one number of each is looked at */

/** So many tokens of a long text are shown beside each other: those that are looked at most. */
const MOST_TOKENS = 24;
/** So many numbers are written out below a strip. */
const MOST_NUMBERS = 64;
/** So many terms of a sum are written before the dots. */
const FIRST_TERMS = 3;

export class Kit {
  /**
   * @param {import("../shell/app.js").App} app
   */
  constructor(app) {
    this.app = app;
  }

  /** The number of a space that is looked at. @param {Space} space @param {number} size */
  dimension(space, size) { return Math.min(this.app.state.number(`step.${space}`), size - 1); }

  /** The largest size of any of the vectors, for strips on one scale. @param {...Float32Array} vectors */
  most(...vectors) {
    let most = 1e-9;
    for (const vector of vectors) for (const one of vector) if (Math.abs(one) > most) most = Math.abs(one);
    return most;
  }

  /**
   * The numbers of a vector as colours; the one that is looked at is marked.
   * @param {Float32Array} values
   * @param {{space: Space, most?: number, cut?: number}} how `cut`: where parts of so many numbers meet
   */
  picture(values, { space, most = this.most(values), cut = 0 }) {
    const at = this.dimension(space, values.length), size = values.length;
    const picture = heatmap(Array.from(values, (one) => 0.5 + one / most / 2), 1, size, /** @type {number[][]} */ (this.app.colours.diverging));
    const mark = el("i", {});
    mark.style.left = `${(100 * at) / size}%`;
    mark.style.width = `max(3px, ${100 / size}%)`;
    const cuts = cut ? Array.from({ length: size / cut - 1 }, (_, i) => {
      const line = el("s", {});
      line.style.left = `${(100 * (i + 1) * cut) / size}%`;
      return line;
    }) : [];
    const where = (/** @type {MouseEvent} */ event) => {
      const box = picture.getBoundingClientRect();
      return Math.max(0, Math.min(size - 1, Math.floor(((event.clientX - box.left) / box.width) * size)));
    };
    return el("div", {
      class: "strip", role: "img",
      "aria-label": t("{count} numbers from {least} to {largest}", { count: size, least: figure(values.reduce((a, b) => Math.min(a, b)), 2), largest: figure(values.reduce((a, b) => Math.max(a, b)), 2) }),
      onpointermove: (/** @type {PointerEvent} */ event) => this.app.tip.show(event, [figure(values[where(event)], 4), t("number {place} of {count}", { place: where(event) + 1, count: size })]),
      onpointerleave: () => this.app.tip.hide(),
      onclick: (/** @type {MouseEvent} */ event) => this.app.state.set({ [`step.${space}`]: where(event) }),
    }, picture, ...cuts, mark);
  }

  /**
   * A vector: its name, its numbers as colours, the number that is looked at.
   * @param {Node | string} name
   * @param {Float32Array} values
   * @param {{space: Space, most?: number, cut?: number, symbol?: string}} how as for `picture`
   */
  strip(name, values, { symbol = "", ...how }) {
    const size = values.length, at = this.dimension(how.space, size);
    const value = el("b", { class: "value" }, ...(symbol ? [indexed(symbol, at), " = "] : []), figure(values[at], 2));
    const line = el("div", { class: "line" }, el("span", { class: "name" }, typeof name === "string" ? write(el("bdi"), name) : name), this.picture(values, how), value);
    if (!this.app.state.flag("step.numbers")) return line;
    const listed = Array.from(values.subarray(0, MOST_NUMBERS), (one) => figure(one, 2)).join("  ") + (size > MOST_NUMBERS ? " …" : "");
    return el("div", {}, line, write(el("p", { class: "numbers" }), listed));
  }

  /**
   * The places of a row of tokens that are shown: all, or those with the largest weights.
   * @param {ArrayLike<number>} weights
   * @param {number[]} [always]
   */
  places(weights, always = []) {
    if (weights.length <= MOST_TOKENS) return Array.from({ length: weights.length }, (_, i) => i);
    return [...new Set([...always, ...largest(weights, MOST_TOKENS)])].sort((a, b) => a - b);
  }

  /**
   * Says what of a long row is left out.
   * @param {number} shown
   * @param {number} count
   * @param {string} [which] are shown, where they are not those of `places`
   */
  left(shown, count, which = t("{shown} of {count} tokens are shown: those with the largest weights.", { shown, count })) {
    return shown < count ? el("p", { class: "note" }, which) : null;
  }

  /**
   * A row of a list of tokens: its name, something in the middle, a number; a click chooses the token.
   * @param {Token} token
   * @param {{chosen: boolean, choose: (() => void) | null, middle: Element | null, value: string, bar?: number | null, struck?: boolean}} how
   *   `bar`: a share from 0 to 1
   */
  row(token, { chosen, choose, middle, value, bar = null, struck = false }) {
    const name = write(el(choose ? "button" : "span", choose ? { type: "button", class: "name", "aria-pressed": String(chosen), onclick: choose } : { class: "name" }), label(token, 16));
    const share = bar === null ? null : el("span", { class: "share" }, el("i", {}));
    if (share) /** @type {HTMLElement} */ (share.firstChild).style.width = `${100 * Math.min(1, Math.max(0, /** @type {number} */ (bar)))}%`;
    return el("div", { class: `line${struck ? " struck" : ""}${chosen ? " at" : ""}` }, name, middle ?? (share ? null : el("span", {})), share, el("b", { class: "value" }, value));
  }

  /**
   * A sum that is spelled out: the first terms, the last one, the result; all of them on demand.
   * @param {Node | string} name what it is that is computed
   * @param {(string | [string, string])[]} terms a number, or two that are multiplied
   * @param {string} result
   * @param {{before?: string, after?: string, labels?: string[]}} [around] what stands in front of the sum, and behind it
   */
  sum(name, terms, result, { before = "", after = "", labels } = {}) {
    const written = terms.map((term) => (typeof term === "string" ? bracketed(term) : `${bracketed(term[0])} · ${bracketed(term[1])}`));
    const few = written.length <= FIRST_TERMS + 2;
    const shown = few ? written : [...written.slice(0, FIRST_TERMS), "…", written[written.length - 1]];
    const parts = shown.flatMap((one, i) => [...(i ? [" + "] : []), el("span", { class: "term" }, one)]);
    const line = el("p", { class: "sum" }, name, " = ", before, ...parts, after, " = ", el("b", {}, result));
    if (few) return line;
    const all = el("p", { class: "numbers" }, written.map((one, i) => (labels ? `${labels[i]}: ` : "") + one).join(labels ? "; " : "  +  "));
    return el("div", {}, line, el("details", {}, el("summary", {}, t("all {count} terms", { count: written.length })), all));
  }

  /**
   * Words with their probabilities, or logits, as bars.
   * @param {{name: string, value: string, share: number, chosen: boolean, choose?: () => void}[]} rows
   */
  bars(rows) {
    return el("div", { class: "lines bars" }, ...rows.map(({ name, value, share, chosen, choose }) => {
      const bar = el("i", {});
      bar.style.width = `${100 * Math.max(0, Math.min(1, share))}%`;
      return el("div", { class: `line${chosen ? " at" : ""}` },
        write(el(choose ? "button" : "span", choose ? { type: "button", class: "name", onclick: choose, "aria-pressed": String(chosen) } : { class: "name" }), name),
        el("span", { class: "share" }, bar), el("b", { class: "value" }, value));
    }));
  }
}

/** A name with the place of a number, counted from 1. @param {string} name @param {number} place */
export function indexed(name, place) { return el("span", { class: "symbol" }, el("i", {}, name), el("sub", {}, String(place + 1))); }

/** Negative numbers stand in brackets within a sum. @param {string} number */
function bracketed(number) { return number.startsWith("−") ? `(${number})` : number; }

/** A token as sentences name it. @param {Token} token @param {number} [most] */
export const called = (token, most = 16) => label({ ...token, continues: false }, most);

/** A number as sums have it. @param {number} value */
export const two = (value) => (Math.abs(value) < 0.005 ? "0.00" : figure(value, 2));

/** A bias at the end of a sum. @param {number | undefined} bias */
export const plus = (bias) => (bias ? ` + ${bracketed(two(bias))}` : "");

/** @param {...(Node | null)} lines */
export const lines = (...lines) => el("div", { class: "lines" }, ...lines);

/** What a group of strips is. @param {string} text */
export const heading = (text) => el("h3", {}, text);
