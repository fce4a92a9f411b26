// What stands in a view's place while the page's model is being opened, or where it cannot be.

import { el, write } from "../dom.js";
import { plain } from "../show/labels.js";
import { t } from "../shell/language.js";

/**
 * Opens a view once the model can be asked.
 * @param {any} app
 * @param {HTMLElement} stage
 * @param {() => any} open
 */
export function whenOpen(app, stage, open) {
  const { live } = app;
  if (live?.about) return open();
  const said = el("p", { class: "opening", role: "status" }, live ? t("The model is being opened …") : t("This page holds no model to ask."));
  stage.append(said);
  const shown = { hint: "", controls: [], size: { rows: 0, columns: 0 }, draw() {}, close() {} };
  live?.ready.then(() => {
    if (app.shown === shown) app.busy = app.open();
  }, (/** @type {Error} */ error) => {
    said.className = "failure";
    write(said, t("The model of this page could not be opened: {why}", { why: plain(error.message) }));
  });
  return shown;
}
