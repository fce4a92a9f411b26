// The line above the picture: the cell that is looked at, in exact numbers.

import { el, write } from "../dom.js";
import { t } from "./language.js";

/** Where one touches, there is no key and nothing to point with. */
const COARSE = matchMedia("(pointer: coarse)");

/**
 * @typedef {Object} Reading
 * @property {string[]} names what the cell lies between: a query and a key, a layer and a head
 * @property {[string, string][]} figures name and value of each
 * @property {string} text all of it as a sentence
 */

export class Readout {
  /** @param {import("./app.js").App} app */
  constructor(app) {
    this.app = app;
    this.root = el("div", { class: "readout", "aria-hidden": "true" });
    /** @type {Reading | null} */
    this.reading = null;
  }

  /** @param {Reading | null} reading */
  show(reading) {
    this.reading = reading;
    if (!reading) {
      this.root.replaceChildren(el("span", { class: "hint" }, this.app.shown?.hint ?? (COARSE.matches ? t("Touch a cell to see its numbers.") : t("Point at a cell, or press an arrow key."))));
      return;
    }
    const names = reading.names.flatMap((name, i) => [...(i ? [el("span", { class: "arrow" }, "→")] : []), write(el("bdi", { class: "name" }), name)]);
    const figures = reading.figures.map(([name, value]) => el("span", { class: "figure" }, el("span", {}, name), write(el("b"), value)));
    this.root.replaceChildren(el("span", { class: "names" }, ...names), ...figures);
  }

  /**
   * Says something for a moment.
   * @param {string} text
   */
  flash(text) {
    this.flashed?.remove();
    const said = (this.flashed = el("span", { class: "flash" }, text));
    this.root.append(said);
    setTimeout(() => said.remove(), 1600);
  }
}
