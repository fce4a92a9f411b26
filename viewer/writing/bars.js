// A classifier's classes as a list with bars.

import { el, write } from "../dom.js";
import { plain, shorten } from "../show/labels.js";
import { t } from "../shell/language.js";
import { percent } from "./words.js";

/** More classes than this are told as a number. */
const MOST = 40;

/**
 * The classes as a list, the likeliest first, each with a bar.
 * @param {{label: string, probability: number}[]} classes
 */
export function bars(classes) {
  const sorted = [...classes].sort((a, b) => b.probability - a.probability), left = sorted.length - MOST;
  const items = sorted.slice(0, MOST).map(({ label, probability }, i) => {
    const fill = el("i");
    fill.style.width = `${100 * probability}%`;
    return el("li", { class: i ? "" : "first" }, write(el("bdi", { class: "name" }), shorten(plain(label), 60)), el("span", { class: "chance" }, percent(probability)), el("span", { class: "gauge", "aria-hidden": "true" }, fill));
  });
  return [...items, ...(left > 0 ? [el("li", { class: "faint" }, t("and {count} more", { count: left }))] : [])];
}
