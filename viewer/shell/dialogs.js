// What opens over the page: the list of keys, and what can be taken along.

import { button, el } from "../dom.js";

/**
 * @param {string} title
 * @param {...(Node | string)} content
 */
function open(title, ...content) {
  const dialog = el("dialog", { "aria-label": title, onclose: () => dialog.remove() },
    el("header", {}, el("h2", {}, title), button("×", () => dialog.close(), { "aria-label": "close", class: "quiet" })), ...content);
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
    el("dt", {}, ...key.split(" ").map((one) => el("kbd", {}, one))), el("dd", {}, what)]);
  open("Keys", el("dl", { class: "keys" }, ...list),
    el("p", {}, "“·” begins a piece that continues the word before it, “␣” is a space, “⟨…⟩” a character that cannot be seen."),
    el("p", {}, "Attention is not by itself an explanation: that a head looks at a token does not say that the outcome hangs on it. Switching the head off does."));
}

/** @param {import("./app.js").App} app */
export function exporting(app) {
  const { shown } = app;
  const then = (/** @type {() => any} */ act) => () => { dialog.close(); act(); };
  const choices = [
    shown.picture && button("Picture as PNG", then(async () => save(app, await shown.picture.png(app.colours.paper), "png"))),
    shown.csv && button("All numbers as CSV", then(() => save(app, new Blob([shown.csv()], { type: "text/csv" }), "csv"))),
    shown.csv && button("Copy the row as CSV", then(() => copy(app, shown.csv(app.cell?.row ?? 0), "the row"))),
    app.readout.reading && button("Copy the cell as text", then(() => copy(app, app.readout.reading?.text ?? "", "the cell"))),
    button("Copy a link to what is shown", then(() => copy(app, app.state.address, "the link"))),
  ];
  const dialog = open("Save or copy", el("div", { class: "choices" }, ...choices.filter(Boolean)));
}

/**
 * @param {import("./app.js").App} app
 * @param {Blob} blob
 * @param {string} kind
 */
function save(app, blob, kind) {
  const address = URL.createObjectURL(blob);
  const parts = [app.view.name, app.attention.name, "layer" + app.layer, "head" + app.head];
  const link = el("a", { href: address, download: parts.join("-").replaceAll(".", "-") + "." + kind });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
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
    const area = el("textarea", { readonly: true, rows: 8 });
    area.value = text;
    open(`Copy ${what}`, area);
    area.select();
    return;
  }
  app.readout.flash(`copied ${what}`);
  app.say(`copied ${what}`);
}
