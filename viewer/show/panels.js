// Several pictures side by side, each under its name.

import { el, write } from "../dom.js";

/**
 * Places for pictures: they stand side by side where there is room for each, below each other where not.
 * @param {HTMLElement} stage
 * @param {number} count
 */
export function panels(stage, count) {
  const root = el("div", { class: "panels" });
  const made = Array.from({ length: count }, () => {
    const title = el("h2"), place = el("div"), note = el("p", { class: "note" });
    const panel = { root: el("div", {}, title, place, note), place, get named() { return title.textContent ?? ""; }, title: (/** @type {string} */ text) => write(title, text), note: (/** @type {string} */ text) => write(note, text) };
    root.append(panel.root);
    return panel;
  });
  stage.append(root);
  return made;
}

/**
 * What a picture takes for the app when its cells are not those that cursor and pin mean.
 * @param {import("../shell/app.js").App} app
 * @returns {any}
 */
export function aside(app) {
  return { get colours() { return app.colours; }, tip: app.tip, pin: null, cursor: null, hover() {}, setPin() {}, grid: { go() {} } };
}

/**
 * A name that is no token, as an axis takes it.
 * @param {string} text
 * @returns {import("../data/trace.js").Token}
 */
export const named = (text) => ({ text, piece: text, id: null, word: null, special: true, segment: 0, continues: false, plain: true });
