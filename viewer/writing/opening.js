// What stands in a view's place while the page's model is being opened, or where it cannot be.

import { el, write } from "../dom.js";
import { plain } from "../show/labels.js";
import { t } from "../shell/language.js";
import { blank } from "./session.js";

/**
 * Opens a view once the model can be asked.
 * @param {any} app
 * @param {HTMLElement} stage
 * @param {() => any} open
 * @param {boolean} [empty] whether it opens where nothing is written, too
 */
export function whenOpen(app, stage, open, empty = false) {
  const { live } = app, nothing = live?.about && !empty && blank(app);
  if (live?.about && !nothing) return open();
  const said = el("p", { class: "opening", role: "status" }, nothing ? t("Nothing is written yet.") : live ? t("The model is being opened …") : t("This page holds no model to ask."));
  stage.append(said);
  const shown = { controls: [], size: { rows: 0, columns: 0 }, draw() {}, close() {} };
  if (nothing) return shown;
  live?.ready.then(() => {
    if (app.shown === shown) app.busy = app.open();
  }, (/** @type {Error} */ error) => {
    said.className = "failure";
    write(said, t("The model of this page could not be opened: {why}", { why: plain(error.message) }));
  });
  return shown;
}
