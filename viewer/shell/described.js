// The line that says what model a page is of, and how exact it is.

import { bound, plain } from "../show/labels.js";
import { languageName, spoken, t } from "./language.js";

/** A page is called as its author says, else a translator by its languages, where its card says them. @param {import("./app.js").App} app */
export function titleOf(app) {
  const { pair, title } = app.live?.about ?? {};
  if (title) return String(title);
  return pair ? t("{source} to {target}", { source: languageName(pair[0]), target: languageName(pair[1]) }) : t(app.page.title);
}

/** @param {import("./app.js").App} app */
export function described(app) {
  const about = app.live?.about, { model, faithfulness, attentions } = app.traces[0], live = about && "how" in app.traces[0];
  const parts = about ? [t("{count} parameters", { count: about.parameters.toLocaleString(spoken()) }), about.served ? t("computed by the server") : t("runs in this page, without a network")]
    : [model.name, model.family, model.d_model && `d_model ${model.d_model}`];
  // What a page shows is off by the error of what was recorded, and by its own rounding.
  const rounding = Math.max(0, ...[...attentions.values()].map((one) => one.error));
  if (live && !about.served) parts.push(t("computed in this page, with {weights} weights", { weights: about.weights }));
  else if (faithfulness !== null) parts.push(t("the weights shown differ from those that ran by at most {error}", { error: bound(faithfulness + rounding) }));
  return parts.filter(Boolean).map((part) => plain(String(part))).join(" · ");
}
