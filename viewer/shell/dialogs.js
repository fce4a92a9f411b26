// What opens over the page: the list of keys and of what figures mean, and what can be taken along.

import { button, el, write } from "../dom.js";
import { plain, shorten } from "../show/labels.js";
import { described } from "./described.js";
import { t } from "./language.js";
import { MEANINGS } from "./statistics.js";

/**
 * @param {string} title
 * @param {...(Node | string)} content
 */
function open(title, ...content) {
  const dialog = el("dialog", { "aria-label": title, onclose: () => dialog.remove() },
    el("header", {}, el("h2", {}, title), button("×", () => dialog.close(), { "aria-label": t("close"), class: "quiet" })), ...content);
  dialog.addEventListener("click", (/** @type {Event} */ event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/**
 * @param {import("./app.js").App} app
 * @param {string[][]} keys
 */
export function help(app, keys) {
  const list = [...keys, ...(app.shown.keys ?? [])].flatMap(([key, what]) => [
    el("dt", {}, ...key.split(" ").map((/** @type {string} */ one) => el("kbd", {}, one))), el("dd", {}, t(what))]);
  const figures = Object.entries(MEANINGS).flatMap(([name, meaning]) => [el("dt", {}, t(name)), el("dd", {}, t(meaning))]);
  open(t("Keys and figures"), write(el("p", {}), described(app)), el("dl", { class: "keys" }, ...list),
    el("p", {}, t("“·” begins a piece that continues the word before it, “␣” is a space, “⟨…⟩” a character that cannot be seen.")),
    el("h3", {}, t("What the figures of a head mean")), el("dl", { class: "keys" }, ...figures),
    el("p", {}, t("Attention is not by itself an explanation: that a head looks at a token does not say that the outcome hangs on it. Switching the head off does.")));
}

/** @param {import("./app.js").App} app */
export function exporting(app) {
  const { shown } = app;
  const then = (/** @type {() => any} */ act) => () => { dialog.close(); act(); };
  const choices = [
    shown.picture && button(t("Picture as PNG"), then(() => painted(app).toBlob((/** @type {Blob | null} */ blob) => blob && save(app, blob, "png")))),
    shown.csv && button(t("All numbers as CSV"), then(() => save(app, new Blob([shown.csv()], { type: "text/csv" }), "csv"))),
    shown.csv && button(t("Copy the row as CSV"), then(() => copy(app, shown.csv(app.cell?.row ?? 0), t("the row")))),
    app.readout.reading && button(t("Copy the cell as text"), then(() => copy(app, app.readout.reading?.text ?? "", t("the cell")))),
    button(t("Copy a link to what is shown"), then(() => copy(app, app.state.address, t("the link")))),
  ];
  const dialog = open(t("Save or copy"), el("div", { class: "choices" }, ...choices.filter(Boolean)));
}

/** The whole picture, with what it is of above and what its colours mean below. @param {import("./app.js").App} app */
export function painted(app) {
  const lines = [shorten(plain(app.page.title), 120), [t(app.view.title), app.shown.label?.()].filter(Boolean).join(": ")];
  const { picture, pictures } = app.shown, signs = app.shown.legend?.() ?? [];
  if (!pictures || pictures.length < 2) return picture.whole(app.colours, lines, signs);
  /** @type {HTMLCanvasElement[]} */
  const parts = pictures.map((/** @type {any} */ one, /** @type {number} */ i) => one.picture.whole(app.colours, i ? [one.title] : [...lines, one.title], i + 1 === pictures.length ? signs : []));
  const canvas = el("canvas", { width: Math.max(...parts.map((part) => part.width)), height: parts.reduce((sum, part) => sum + part.height, 0) });
  const ctx = canvas.getContext("2d");
  ctx.fillStyle = app.colours.paper;
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  parts.reduce((y, part) => { ctx.drawImage(part, 0, y); return y + part.height; }, 0);
  return canvas;
}

/**
 * Saves what is shown, under a name that says what it is.
 * @param {import("./app.js").App} app
 * @param {Blob} blob
 * @param {string} kind
 */
function save(app, blob, kind) {
  const parts = [app.view.name, app.attention?.name, "layer" + app.layer, "head" + app.head].filter(Boolean);
  download(blob, parts.join("-").replaceAll(".", "-") + "." + kind);
}

/**
 * Hands a file to the browser, which saves it.
 * @param {Blob} blob
 * @param {string} name
 */
export function download(blob, name) {
  const address = URL.createObjectURL(blob);
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/**
 * @param {import("./app.js").App} app
 * @param {string} text
 * @param {string} what
 */
export async function copy(app, text, what) {
  if (!text) return;
  app.copied = text;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // A frame may not reach the clipboard: the reader can.
    const area = el("textarea", { readonly: true, rows: 8, "aria-label": what });
    area.value = text;
    open(t("Copy {what}", { what }), area);
    area.select();
    return;
  }
  const said = t("copied {what}", { what });
  app.readout.flash(said);
  app.say(said);
}
