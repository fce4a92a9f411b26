// What the page's model finds out about a trace beyond its attention.

import { t } from "../shell/language.js";
import { given } from "./given.js";

/** @type {WeakMap<object, Map<string, Promise<any>>>} by trace what was asked of it */
const found = new WeakMap();

/**
 * What the page's model says of the trace that is looked at; asked once for the same question.
 * @param {import("../shell/app.js").App} app
 * @param {"lens" | "contributions" | "pass"} name
 * @param {Record<string, any>} [question]
 * @returns {Promise<any>}
 */
export function explained(app, name, question = {}) {
  const { trace, live } = app;
  if (!live) throw new Error(t("the page has no model to ask"));
  const of = found.get(trace) ?? new Map(), key = name + JSON.stringify(question);
  found.set(trace, of);
  if (!of.has(key)) {
    const asked = /** @type {any} */ (live)[name](given(trace), null, { ...trace.how, ...question });
    asked.catch(() => of.delete(key));
    of.set(key, asked);
  }
  return of.get(key);
}
