// A picture's largest numbers as a table.

import { el, write } from "../dom.js";
import { t } from "./language.js";

/**
 * @typedef {Object} Table
 * @property {string} caption
 * @property {string[]} columns
 * @property {string[][]} rows
 */

/** More rows than this are the CSV's business. */
const MOST_ROWS = 100;

/** @param {Table} given */
export function table({ caption, columns, rows }) {
  const cut = rows.length > MOST_ROWS ? " " + t("(the first {shown} of {all})", { shown: MOST_ROWS, all: rows.length }) : "";
  return el("table", {},
    write(el("caption"), caption + cut),
    el("thead", {}, el("tr", {}, ...columns.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, ...rows.slice(0, MOST_ROWS).map((row) => el("tr", {}, ...row.map((text) => el("td", {}, write(el("bdi"), text)))))));
}
