// Finding a token among rows and columns.

import { el, write } from "../dom.js";
import { t } from "./language.js";

export class Find {
  /** @param {import("./app.js").App} app */
  constructor(app) {
    this.app = app;
    this.input = el("input", {
      type: "search", spellcheck: "false",
      oninput: () => this.search(0), onkeydown: (/** @type {KeyboardEvent} */ event) => this.press(event),
    });
    this.count = el("output", {});
    this.root = el("div", { class: "find" }, this.input, this.count);
    this.at = 0;
  }

  /** Names the field, in the language that is chosen. */
  name() {
    this.input.placeholder = this.input.ariaLabel = t("find a token");
    this.input.title = t("find a token (/)");
  }

  focus() { this.input.select(); }

  /** @param {KeyboardEvent} event */
  press(event) {
    if (event.key === "Enter") this.search(this.at + (event.shiftKey ? -1 : 1));
    else if (event.key === "Escape") this.leave();
    else return;
    event.preventDefault();
  }

  leave() {
    this.input.value = "";
    write(this.count, "");
    this.input.blur();
  }

  /** @param {number} at which of the places found to go to */
  search(at) {
    const { app } = this, wanted = this.input.value.trim().toLowerCase();
    const places = wanted ? matches(app, wanted) : [];
    this.at = places.length ? (at + places.length) % places.length : 0;
    write(this.count, !wanted ? "" : places.length ? `${this.at + 1}/${places.length}` : t("none"));
    if (places.length) app.moveTo(places[this.at]);
  }
}

/**
 * @param {import("./app.js").App} app
 * @param {string} wanted
 */
function matches(app, wanted) {
  const axes = app.shown.axes, from = app.cursor ?? app.pin ?? { row: 0, column: 0 };
  if (!axes) return [];
  const found = (/** @type {any[]} */ tokens) => tokens.flatMap((token, i) => ((token.text + "\n" + token.piece).toLowerCase().includes(wanted) ? [i] : []));
  return [
    ...found(axes.rows.tokens).map((row) => ({ row, column: app.shown.best?.(row) ?? from.column })),
    ...found(axes.columns.tokens).map((column) => ({ row: from.row, column })),
  ];
}
