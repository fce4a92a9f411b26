// Markdown as elements: what a model card is made of, and nothing that could run, load or lead away.

import { el, write } from "../dom.js";
import { plain } from "../show/labels.js";
import { t } from "../shell/language.js";

/**
 * @typedef {{kind: "heading", level: number, text: string} | {kind: "paragraph" | "quote", text: string} | {kind: "code", text: string}
 *   | {kind: "list", ordered: boolean, items: string[]} | {kind: "table", head: string[], rows: string[][]} | {kind: "rule"}} Block
 */

/**
 * @typedef {Object} Span
 * @property {"text" | "code" | "strong" | "em"} kind
 * @property {string} text
 */

/** A longer card is cut: a page is no place for a book. */
const LONGEST = 200_000;
const FENCE = /^ {0,3}(```|~~~)/, ITEM = /^ {0,3}(?:[-*+]|(\d{1,9})[.)])\s+(.*)$/, HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/, RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const DELIMITER = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

/**
 * The front matter of a card and the text below it.
 * @param {string} source
 * @returns {{front: [string, string][], body: string}}
 */
export function parted(source) {
  const lines = source.slice(0, LONGEST).replace(/\r\n?/g, "\n").split("\n");
  const end = lines[0] === "---" ? lines.indexOf("---", 1) : -1;
  if (end < 0) return { front: [], body: lines.join("\n") };
  return { front: facts(lines.slice(1, end)), body: lines.slice(end + 1).join("\n") };
}

/**
 * YAML as people write it in a card, as pairs: nested names are joined, lists written in a row. No more of YAML is read.
 * @param {string[]} lines
 * @returns {[string, string][]}
 */
function facts(lines) {
  /** @type {{indent: number, name: string}[]} */
  const path = [];
  /** @type {Map<string, string[]>} */
  const found = new Map();
  const put = (/** @type {string} */ value) => {
    const name = path.map((one) => one.name).join(" · ");
    found.set(name, [...(found.get(name) ?? []), value.replace(/^(["'])(.*)\1$/, "$2")]);
  };
  for (const line of lines) {
    let rest = line.trimEnd(), indent = rest.length - rest.trimStart().length;
    rest = rest.trimStart();
    for (; rest.startsWith("- "); rest = rest.slice(2)) indent += 2;
    if (!rest || rest.startsWith("#")) continue;
    const pair = /^([\w-]+):(?:\s+(.*))?$/.exec(rest);
    while (path.length && path[path.length - 1].indent >= indent) path.pop();
    if (!pair) {
      put(rest);
      continue;
    }
    path.push({ indent, name: pair[1] });
    if (pair[2]) {
      put(pair[2]);
      path.pop();
    }
  }
  const measured = metrics(found);
  return [...[...found].map(([name, values]) => /** @type {[string, string]} */ ([name, values.join(", ")])), ...measured];
}

/**
 * The metrics of a model's results, taken out: each with its own value, not all names in a row and then all values.
 * @param {Map<string, string[]>} found
 * @returns {[string, string][]}
 */
function metrics(found) {
  const of = "model-index · results · metrics · ", values = found.get(of + "value") ?? [], types = found.get(of + "type"), names = found.get(of + "name");
  const called = [names, types].find((one) => one?.length === values.length);
  if (!called || !values.length) return [];
  for (const part of ["value", "name", "type"]) found.delete(of + part);
  return called.map((name, i) => [name, values[i]]);
}

/**
 * The blocks of a text.
 * @param {string} body
 * @returns {Block[]}
 */
export function blocks(body) {
  const lines = body.split("\n");
  /** @type {Block[]} */
  const found = [];
  for (let i = 0; i < lines.length;) {
    const line = lines[i];
    if (!line.trim()) i++;
    else if (FENCE.test(line)) {
      const fence = /** @type {RegExpExecArray} */ (FENCE.exec(line))[1], end = lines.findIndex((one, j) => j > i && one.trim().startsWith(fence));
      found.push({ kind: "code", text: lines.slice(i + 1, end < 0 ? lines.length : end).join("\n") });
      i = end < 0 ? lines.length : end + 1;
    } else if (/^( {4}|\t)/.test(line)) {
      const from = i;
      while (i < lines.length && (/^( {4}|\t)/.test(lines[i]) || (!lines[i].trim() && /^( {4}|\t)/.test(lines[i + 1] ?? "")))) i++;
      found.push({ kind: "code", text: lines.slice(from, i).map((one) => one.replace(/^( {4}|\t)/, "")).join("\n") });
    } else if (HEADING.test(line)) {
      const [, marks, text] = /** @type {RegExpExecArray} */ (HEADING.exec(line));
      found.push({ kind: "heading", level: marks.length, text });
      i++;
    } else if (RULE.test(line)) {
      found.push({ kind: "rule" });
      i++;
    } else if (line.includes("|") && DELIMITER.test(lines[i + 1] ?? "")) {
      const from = i;
      for (i += 2; i < lines.length && lines[i].includes("|"); i++);
      found.push({ kind: "table", head: cells(line), rows: lines.slice(from + 2, i).map(cells) });
    } else if (ITEM.test(line)) {
      const items = /** @type {string[]} */ ([]), ordered = Boolean(ITEM.exec(line)?.[1]);
      for (; i < lines.length && lines[i].trim() && !HEADING.test(lines[i]); i++) {
        const item = ITEM.exec(lines[i]);
        if (item) items.push(item[2]);
        else items[items.length - 1] += " " + lines[i].trim();
      }
      found.push({ kind: "list", ordered, items });
    } else {
      const from = i;
      for (i++; i < lines.length && lines[i].trim() && !HEADING.test(lines[i]) && !FENCE.test(lines[i]) && !ITEM.test(lines[i]) && !(lines[i].includes("|") && DELIMITER.test(lines[i + 1] ?? "")); i++);
      const text = lines.slice(from, i).map((one) => one.trim()).join(" ");
      found.push(text.startsWith(">") ? { kind: "quote", text: text.replace(/(^|\s)>\s?/g, "$1") } : { kind: "paragraph", text });
    }
  }
  return found;
}

/** The cells of a table's row; "\|" is no border. @param {string} line */
function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/**
 * Emphasis and code within a text. A link is its own text with the address behind it, to read and not to follow.
 * @param {string} text
 * @returns {Span[]}
 */
export function spans(text) {
  const linked = text.slice(0, 20_000).replace(/!?\[([^\]\n]{0,500})\]\(([^)\s]{0,500})[^)\n]{0,200}\)/g, (_, name, address) => (name === address ? name : `${name} (${address})`));
  /** @type {Span[]} */
  const found = [];
  for (const part of linked.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*|__[^_\n]+__|(?<![\w*])\*[^*\s][^*\n]*\*(?![\w*])|(?<![\w_])_[^_\s][^_\n]*_(?![\w_]))/)) {
    if (!part) continue;
    const kind = part[0] === "`" && part.length > 2 ? "code" : /^(\*\*.+\*\*|__.+__)$/.test(part) ? "strong" : /^(\*.+\*|_.+_)$/.test(part) ? "em" : "text";
    const cut = kind === "strong" ? 2 : kind === "text" ? 0 : 1;
    const inner = part.slice(cut, part.length - cut);
    found.push({ kind, text: kind === "text" ? inner.replace(/\\([\\`*_{}[\]()#+.!|-])/g, "$1") : inner });
  }
  return found;
}

/** @param {Span[]} found */
const inline = (found) => found.map(({ kind, text }) => (kind === "text" ? document.createTextNode(plain(text)) : write(el(kind), plain(text))));

/**
 * A card as elements. Its headings begin below those of the page.
 * @param {string} body
 * @returns {HTMLElement[]}
 */
export function rendered(body) {
  return blocks(body).slice(0, 500).map((block) => {
    if (block.kind === "heading") return el(`h${Math.min(6, block.level + 1)}`, {}, ...inline(spans(block.text)));
    if (block.kind === "code") return el("pre", { tabindex: 0 }, write(el("code"), block.text.split("\n").map(plain).join("\n")));
    if (block.kind === "list") return el(block.ordered ? "ol" : "ul", {}, ...block.items.map((item) => el("li", {}, ...inline(spans(item)))));
    if (block.kind === "table") return table(block.head, block.rows);
    if (block.kind === "rule") return el("hr");
    return el(block.kind === "quote" ? "blockquote" : "p", {}, ...inline(spans(block.text)));
  });
}

/**
 * @param {string[]} head
 * @param {string[][]} rows
 * @param {string} [name] what a screen reader calls it
 */
export function table(head, rows, name = head.filter(Boolean).join(", ")) {
  const row = (/** @type {string[]} */ given, /** @type {string} */ tag) => el("tr", {}, ...given.map((cell, i) => el(tag === "td" && i === 0 && head.every((one) => !one) ? "th" : tag, tag === "th" ? { scope: "col" } : i === 0 && head.every((one) => !one) ? { scope: "row" } : {}, ...inline(spans(cell)))));
  return el("div", { class: "sheet", tabindex: 0, role: "group", "aria-label": name || t("table") },
    el("table", {}, head.some(Boolean) ? el("thead", {}, row(head, "th")) : null, el("tbody", {}, ...rows.map((one) => row(one, "td")))));
}
