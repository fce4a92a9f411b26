// The line that says what model a page is of, and how exact it is.

import { bound, plain } from "../show/labels.js";
import { t } from "./language.js";

/** @param {import("./app.js").App} app */
export function described(app) {
  if (!app.traces.length) return "";
  const { model, faithfulness, attentions } = app.traces[0];
  const parts = [model.name, model.family, model.d_model && `d_model ${model.d_model}`];
  // What a page shows is off by the error of what was recorded, and by its own rounding.
  const rounding = Math.max(0, ...[...attentions.values()].map((one) => one.error));
  if (faithfulness !== null) parts.push(t("the weights shown differ from those that ran by at most {error}", { error: bound(faithfulness + rounding) }));
  return parts.filter(Boolean).map((part) => plain(String(part))).join(" · ");
}
