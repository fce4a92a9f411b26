// What opens over the page: the list of keys and of what figures mean, and what can be taken along.

import { button, el, write } from "../dom.js";
import { plain, shorten } from "../show/labels.js";
import { MOST_PIXELS } from "../show/picture.js";
import { SvgContext } from "../show/svg.js";
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
  const { shown } = app, drawn = shown.picture || shown.laid;
  const then = (/** @type {() => any} */ act) => () => { dialog.close(); act(); };
  const choices = [
    drawn && button(t("Picture as PNG"), then(() => painted(app).toBlob((/** @type {Blob | null} */ blob) => blob && save(app, blob, "png")))),
    drawn && button(t("Picture as SVG"), then(() => save(app, new Blob([svg(app)], { type: "image/svg+xml" }), "svg"))),
    shown.csv && button(t("All numbers as CSV"), then(() => save(app, new Blob([shown.csv()], { type: "text/csv" }), "csv"))),
    shown.csv && button(t("Copy the row as CSV"), then(() => copy(app, shown.csv(app.cell?.row ?? 0), t("the row")))),
    app.readout.reading && button(t("Copy the cell as text"), then(() => copy(app, app.readout.reading?.text ?? "", t("the cell")))),
    button(t("Copy a link to what is shown"), then(() => copy(app, app.state.address, t("the link")))),
    !app.live?.about?.served && "getHTML" in document.documentElement && button(t("This page as a file"), then(() => download(new Blob([pageFile()], { type: "text/html;charset=utf-8" }), fileName(document.title) + ".html"))),
  ];
  const dialog = open(t("Save or copy"), el("div", { class: "choices" }, ...choices.filter(Boolean)));
}

/** The page as it was opened, with all that it carries and nothing that was done in it. */
export function pageFile() {
  const root = /** @type {HTMLElement} */ (document.documentElement.cloneNode(true));
  root.querySelector("#app")?.replaceChildren();
  for (const made of root.querySelectorAll("head > style, head > script, body > :not(#app, noscript, script)")) made.remove();
  return `<!doctype html>\n<html lang="${root.lang}">${/** @type {any} */ (root).getHTML()}</html>\n`;
}

/**
 * The whole picture, with what it is of above and what its colours mean below; several stand one above the other.
 * @param {import("./app.js").App} app
 * @returns {import("../show/picture.js").Laid}
 */
function laid(app) {
  if (!app.shown.picture) return app.shown.laid();
  const lines = [shorten(plain(app.page.title), 120), [t(app.view.title), app.shown.label?.()].filter(Boolean).join(": ")];
  const { picture, pictures } = app.shown, signs = app.shown.legend?.() ?? [];
  if (!pictures || pictures.length < 2) return picture.laid(app.colours, lines, signs);
  /** @type {import("../show/picture.js").Laid[]} */
  const parts = pictures.map((/** @type {any} */ one, /** @type {number} */ i) => one.picture.laid(app.colours, i ? [one.title] : [...lines, one.title], i + 1 === pictures.length ? signs : []));
  return {
    width: Math.max(...parts.map((part) => part.width)), height: parts.reduce((sum, part) => sum + part.height, 0), title: lines.join(", "),
    paint: (ctx) => {
      let y = 0;
      for (const part of parts) {
        ctx.save();
        ctx.translate(0, y);
        part.paint(ctx);
        ctx.restore();
        y += part.height;
      }
    },
  };
}

/** The longest side that browsers paint. */
const LONGEST_SIDE = 16000;

/** What is shown, on a canvas. @param {import("./app.js").App} app */
export function painted(app) {
  const { width, height, paint } = laid(app), canvas = el("canvas"), ctx = canvas.getContext("2d");
  const scale = Math.min(2, LONGEST_SIDE / Math.max(width, height), Math.sqrt(MOST_PIXELS / (width * height)));
  canvas.width = Math.floor(width * scale);
  canvas.height = Math.floor(height * scale);
  ctx.scale(scale, scale);
  onPaper(ctx, app, width, height, paint);
  return canvas;
}

/** What is shown, as SVG. @param {import("./app.js").App} app */
export function svg(app) {
  const { width, height, title, paint } = laid(app), ctx = /** @type {any} */ (new SvgContext());
  onPaper(ctx, app, width, height, paint);
  return /** @type {SvgContext} */ (ctx).text(width, height, title);
}

/** @param {CanvasRenderingContext2D} ctx @param {import("./app.js").App} app @param {number} width @param {number} height @param {(ctx: CanvasRenderingContext2D) => void} paint */
function onPaper(ctx, app, width, height, paint) {
  ctx.fillStyle = app.colours.paper;
  ctx.fillRect(0, 0, width, height);
  paint(ctx);
}

/**
 * Saves what is shown, under a name that says what it is: of layer and head only where the view shows one.
 * @param {import("./app.js").App} app
 * @param {Blob} blob
 * @param {string} kind
 */
function save(app, blob, kind) {
  const chosen = app.shown.controls ?? [], has = (/** @type {string[]} */ ...names) => names.some((name) => chosen.includes(name));
  const parts = [app.view.name, has("attention", "layer", "head", "heads") && app.attention?.name, has("layer") && "layer" + app.layer, has("head") && "head" + app.head].filter(Boolean);
  download(blob, parts.join("-").replaceAll(".", "-") + "." + kind);
}

/** A title as the name of a file. @param {string} title */
const fileName = (title) => title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60) || "page";

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
