// What a canvas shows, for those who do not see it: an ARIA grid, of which a window around the cell in focus exists.

import { el, write } from "../dom.js";
import { t } from "../shell/language.js";
import { quoted } from "./labels.js";

const REACH = 2;

/**
 * @typedef {Object} Cells
 * @property {number} rows
 * @property {number} columns
 * @property {(row: number) => string} row a row's name
 * @property {(column: number) => string} column
 * @property {(row: number, column: number) => string} cell what stands there
 */

export class Grid {
  /**
   * @param {HTMLElement} parent
   * @param {(row: number, column: number) => void} focus somebody went to a cell
   */
  constructor(parent, focus) {
    this.root = el("div", { role: "grid", class: "mirror" });
    this.focused = focus;
    /** @type {Cells} */
    this.cells = { rows: 0, columns: 0, row: String, column: String, cell: String };
    this.at = { row: 0, column: 0 };
    this.root.addEventListener("focusin", () => this.focused(this.at.row, this.at.column));
    parent.append(this.root);
  }

  /**
   * @param {string} label
   * @param {Cells} cells
   */
  fill(label, cells) {
    this.cells = cells;
    this.root.hidden = cells.rows < 1 || cells.columns < 1; // a grid without cells is none
    this.root.setAttribute("aria-label", label);
    this.root.setAttribute("aria-rowcount", String(cells.rows + 1));
    this.root.setAttribute("aria-colcount", String(cells.columns + 1));
    this.at = { row: clamp(this.at.row, cells.rows), column: clamp(this.at.column, cells.columns) };
    this.window();
  }

  /**
   * @param {number} row
   * @param {number} column
   * @param {boolean} focus
   */
  go(row, column, focus) {
    this.at = { row: clamp(row, this.cells.rows), column: clamp(column, this.cells.columns) };
    this.window();
    if (focus) this.current?.focus({ preventScroll: true });
  }

  get hasFocus() { return this.root.contains(document.activeElement); }

  window() {
    const { cells, at } = this, hadFocus = this.hasFocus;
    const rows = span(at.row, cells.rows), columns = span(at.column, cells.columns);
    const head = el("div", { role: "row", "aria-rowindex": 1 });
    for (const column of columns) head.append(write(el("span", { role: "columnheader", "aria-colindex": column + 2 }), cells.column(column)));
    const lines = rows.map((row) => {
      const line = el("div", { role: "row", "aria-rowindex": row + 2 });
      line.append(write(el("span", { role: "rowheader", "aria-colindex": 1 }), cells.row(row)));
      for (const column of columns) {
        const here = row === at.row && column === at.column;
        const cell = el("span", { role: "gridcell", "aria-colindex": column + 2, tabindex: here ? 0 : -1 });
        if (here) this.current = cell;
        line.append(write(cell, cells.cell(row, column)));
      }
      return line;
    });
    this.root.replaceChildren(head, ...lines);
    if (hadFocus) this.current?.focus({ preventScroll: true });
  }
}

/**
 * @param {number} place
 * @param {number} count
 */
const clamp = (place, count) => Math.max(0, Math.min(place, count - 1));

/**
 * @param {number} place
 * @param {number} count
 */
function span(place, count) {
  const first = Math.max(0, place - REACH), last = Math.min(count - 1, place + REACH);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);
}

/**
 * What the grid calls rows and columns of tokens.
 * @param {import("../data/trace.js").Token[]} rows
 * @param {import("../data/trace.js").Token[]} columns
 */
export function cellNames(rows, columns) {
  return {
    row: (/** @type {number} */ row) => t("query {query}", { query: quoted(rows[row]) }),
    column: (/** @type {number} */ column) => t("key {key}", { key: quoted(columns[column]) }),
  };
}
