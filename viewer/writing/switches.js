// Switches for heads and layers: a grid for each attention, layers below each other, heads side by side.

import { button, el, write } from "../dom.js";
import { nameShort } from "../show/names.js";
import { t } from "../shell/language.js";

/**
 * @typedef {Object} Stack
 * @property {string} attention
 * @property {number} layers
 * @property {string} stack whose layers can be switched off beside it; "" where another grid of the stack does
 */

/** The attentions of a model by its configuration. @param {any} config @returns {Stack[]} */
export function stacks({ num_encoder_layers: encoder = 0, num_decoder_layers: decoder = 0 }) {
  return [
    { attention: "encoder.self", layers: encoder, stack: "encoder" },
    { attention: "decoder.self", layers: decoder, stack: "decoder" },
    { attention: "cross", layers: encoder ? decoder : 0, stack: "" },
  ].filter(({ layers }) => layers > 0);
}

export class Switches {
  /** @type {Map<string, HTMLElement>} */
  #cells = new Map();

  /**
   * @param {any} config of the model
   * @param {{off: () => Set<string>, layersOff: () => Set<string>, change: (off: Set<string>, layersOff: Set<string>) => void}} chosen
   */
  constructor(config, chosen) {
    this.chosen = chosen;
    this.heads = config.num_heads;
    this.stacks = stacks(config);
    this.root = el("div", { class: "switches" }, ...this.stacks.map((stack) => this.#grid(stack)));
    this.root.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.#key(event));
  }

  /** All heads by name, as the model is told: "cross.1.3". */
  get names() {
    return this.stacks.flatMap(({ attention, layers }) => Array.from({ length: layers * this.heads }, (_, i) => `${attention}.${Math.floor(i / this.heads)}.${i % this.heads}`));
  }

  /** @param {Stack} given */
  #grid({ attention, layers, stack }) {
    const name = nameShort(attention);
    const head = el("tr", {}, el("td"), ...Array.from({ length: this.heads }, (_, h) => el("th", { scope: "col" }, String(h))), stack ? el("th", { scope: "col", class: "whole" }, t("layer")) : null);
    const rows = Array.from({ length: layers }, (_, n) => el("tr", {},
      el("th", { scope: "row" }, button(String(n), () => this.#row(attention, n), { class: "quiet", "aria-label": t("{n}: all heads of the layer, {attention}", { n, attention: name }) })),
      ...Array.from({ length: this.heads }, (_, h) => el("td", {}, this.#cell(`${attention}.${n}.${h}`, t("{attention}, layer {n}, head {h}", { attention: name, n, h }), n + h === 0))),
      stack ? el("td", { class: "whole" }, this.#cell(`${stack}.${n}`, t("{stack}, the whole of layer {n}", { stack: t(stack), n }), false)) : null));
    return el("div", {}, write(el("h3"), name), el("div", { class: "sheet" }, el("table", { role: "group", "aria-label": name }, el("thead", { "aria-hidden": "true" }, head), el("tbody", {}, ...rows))));
  }

  /** @param {string} key @param {string} label @param {boolean} first */
  #cell(key, label, first) {
    const cell = el("button", { type: "button", class: "switch", role: "switch", "aria-checked": "true", "aria-label": label, title: label, tabindex: first ? 0 : -1, "data-key": key, onclick: () => this.#toggle([key]) });
    this.#cells.set(key, cell);
    return cell;
  }

  /** @param {string[]} keys */
  #toggle(keys) {
    const off = new Set(this.chosen.off()), layersOff = new Set(this.chosen.layersOff());
    const all = keys.every((key) => off.has(key) || layersOff.has(key));
    for (const key of keys) {
      const set = key.split(".").length === 2 ? layersOff : off;
      if (all) set.delete(key);
      else set.add(key);
    }
    this.chosen.change(off, layersOff);
  }

  /** @param {string} attention @param {number} layer */
  #row(attention, layer) { this.#toggle(Array.from({ length: this.heads }, (_, head) => `${attention}.${layer}.${head}`)); }

  /** Shows what is chosen. */
  sync() {
    const off = this.chosen.off(), layersOff = this.chosen.layersOff();
    for (const [key, cell] of this.#cells) cell.setAttribute("aria-checked", String(!off.has(key) && !layersOff.has(key)));
  }

  /**
   * Shades the heads by how much the output depends on each.
   * @param {Map<string, number>} effects log-probability that is lost without the head
   * @returns {number} what the darkest shade stands for
   */
  shade(effects) {
    const most = Math.max(0.05, ...effects.values());
    for (const [key, effect] of effects) {
      const cell = this.#cells.get(key);
      if (!cell) continue;
      cell.style.setProperty("--effect", String(Math.max(0, Math.min(1, effect / most))));
      const label = cell.getAttribute("aria-label") ?? "";
      cell.title = `${label}: ${t("without it {change} log-probability", { change: (effect > 0 ? "−" : "+") + Math.abs(effect).toFixed(2) })}`;
      write(cell, effect >= most / 2 ? "•" : "");
    }
    return most;
  }

  /** Arrow keys walk through a grid. @param {KeyboardEvent} event */
  #key(event) {
    const cell = /** @type {HTMLElement} */ (event.target), by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!by || !cell.matches(".switch")) return;
    const rows = [.../** @type {HTMLTableSectionElement} */ (cell.closest("tbody")).rows].map((row) => [...row.querySelectorAll(".switch")]);
    const at = rows.findIndex((row) => row.includes(cell)), to = /** @type {HTMLElement | undefined} */ (rows[at + by[0]]?.[rows[at].indexOf(cell) + by[1]]);
    event.preventDefault();
    if (!to) return;
    for (const one of rows.flat()) one.setAttribute("tabindex", "-1");
    to.setAttribute("tabindex", "0");
    to.focus();
  }
}
