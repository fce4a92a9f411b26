// What was found out about a trace beyond its attention: by Python, which put it into the page, or by the page's model.

import { given } from "../analysis/passes.js";

/** @type {WeakMap<object, Map<string, Promise<any>>>} by trace what was asked of it */
const found = new WeakMap();

/**
 * Whether the page can tell: Python put it there for one of the traces, or there is a model to ask.
 * @param {import("../shell/app.js").App} app
 * @param {string} name "lens" or "contributions"
 */
export function canExplain(app, name) {
  return Boolean(app.live || app.extras[name]?.traces?.some(Boolean));
}

/**
 * What Python put into the page of the trace that is looked at, or null.
 * @param {import("../shell/app.js").App} app
 * @param {string} name
 */
export function carried(app, name) {
  return app.extras[name]?.traces?.[app.traces.indexOf(app.trace)] ?? null;
}

/**
 * What the page's model says of the trace that is looked at; asked once for the same question.
 * @param {import("../shell/app.js").App} app
 * @param {"lens" | "contributions" | "pass"} name
 * @param {Record<string, any>} [question]
 * @returns {Promise<any>}
 */
export function explained(app, name, question = {}) {
  const { trace, live } = app, of = found.get(trace) ?? new Map(), key = name + JSON.stringify(question);
  found.set(trace, of);
  if (!of.has(key)) {
    const asked = live[name](given(trace), null, { ...trace.how, ...question });
    asked.catch(() => of.delete(key));
    of.set(key, asked);
  }
  return of.get(key);
}
