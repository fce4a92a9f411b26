// Everything by keyboard.

import { exporting, help, copy } from "./dialogs.js";
import { t } from "./language.js";

/** What `?` lists; of a view without cells only the keys that mean something there. @param {import("./app.js").App} app */
export const keysOf = (app) => (app.view.alone || !app.attention ? KEYS.filter(([key]) => ["Esc", "e", "?"].includes(key)) : KEYS);

const KEYS = [
  ["← ↑ → ↓", "move from cell to cell; with Shift ten at a time"],
  ["Home End", "first, last cell of the row"],
  ["[ ]", "layer before, layer after"],
  [", .", "head before, head after"],
  ["Enter", "pin the cell, or let it go"],
  ["Esc", "let everything go"],
  ["/", "find a token"],
  ["c", "copy the cell as text"],
  ["r", "copy the row as CSV"],
  ["t", "the largest numbers as a table"],
  ["e", "save or copy: PNG, CSV, link"],
  ["?", "this list"],
];

const ARROWS = /** @type {Record<string, [number, number]>} */ ({
  ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
});

/** What means something where there are no cells to walk through, too. */
const ANYWHERE = ["Escape", "e", "?"];

/** @param {import("./app.js").App} app */
export function listen(app) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = /** @type {HTMLElement} */ (event.target);
    if (target.closest("dialog") || (target.matches("input, select, textarea") && event.key !== "Escape")) return;
    if (app.shown?.key?.(event) || press(app, event, target)) event.preventDefault();
  });
}

/**
 * @param {import("./app.js").App} app
 * @param {KeyboardEvent} event
 * @param {HTMLElement} target
 * @returns {boolean} whether the key meant something
 */
function press(app, event, target) {
  const { key } = event, arrow = ARROWS[key];
  if ((app.view.alone || !app.attention) && !ANYWHERE.includes(key)) return false;
  if (arrow) return move(app, arrow[0], arrow[1], event.shiftKey ? 10 : 1);
  if (key === "Home" || key === "End") return move(app, 0, key === "Home" ? -1 : 1, Infinity);
  if (key === "Enter") return !target.matches("button, summary") && pin(app);
  const action = ACTIONS[key];
  action?.(app);
  return Boolean(action);
}

/** @type {Record<string, (app: import("./app.js").App) => void>} */
const ACTIONS = {
  "[": (app) => app.state.set({ layer: Math.max(0, app.layer - 1) }),
  "]": (app) => app.state.set({ layer: Math.min(app.attention.numLayers - 1, app.layer + 1) }),
  ",": (app) => step(app, -1),
  ".": (app) => step(app, 1),
  Escape: clear,
  "/": (app) => app.controls.find.focus(),
  c: (app) => copy(app, app.readout.reading?.text ?? "", t("the cell")),
  r: (app) => copy(app, app.shown.csv?.(app.cell?.row ?? 0) ?? "", t("the row")),
  t: (app) => app.state.set({ table: !app.state.flag("table") }),
  e: exporting,
  "?": (app) => help(app, keysOf(app)),
};

/**
 * @param {import("./app.js").App} app
 * @param {number} by
 */
function step(app, by) {
  const head = Math.max(0, Math.min(app.attention.numHeads - 1, app.head + by));
  app.state.set(app.shown.controls.includes("heads") ? { head, heads: String(head) } : { head });
}

/**
 * @param {import("./app.js").App} app
 * @param {number} down
 * @param {number} right
 * @param {number} by
 */
function move(app, down, right, by) {
  const size = app.shown?.size;
  if (!size?.rows) return false;
  const from = app.cursor ?? app.pin;
  if (!from) app.moveTo({ row: 0, column: 0 }, true);
  else app.moveTo({ row: from.row + (down && down * by), column: from.column + (right && right * by) }, true);
  return true;
}

/** @param {import("./app.js").App} app */
function pin(app) {
  if (!app.cursor) return false;
  if (app.shown.enter) app.shown.enter(app.cursor.row, app.cursor.column);
  else app.setPin(app.cursor);
  return true;
}

/** @param {import("./app.js").App} app */
function clear(app) {
  app.tip.hide();
  app.cursor = null;
  app.state.set({ pin: "", word: "" });
  app.refresh();
  /** @type {HTMLElement} */ (document.activeElement)?.blur();
  app.say(t("nothing is pinned"));
}
