// What scripts may ask of the page: `(await pellucid).weight("cross", 0, 3, 2, 5)`. Tests compare it with Python.

import { array } from "./data/islands.js";
import { pageFile, painted, svg } from "./shell/dialogs.js";

/** @param {import("./shell/app.js").App} app */
export function surface(app) {
  const attention = (/** @type {string} */ name, trace = 0) => {
    const found = app.traces[trace].attentions.get(name);
    if (!found) throw new Error(`there is no attention \`${name}\``);
    return found;
  };
  return {
    app,
    live: app.live,
    /** All weights of a head, row after row. */
    weights: async (/** @type {string} */ name, /** @type {number} */ layer, /** @type {number} */ head, trace = 0) =>
      Array.from((await attention(name, trace).load(layer)).weights(head)),
    /** The weight of query i on key j. */
    weight: async (/** @type {string} */ name, /** @type {number} */ layer, /** @type {number} */ head, /** @type {number} */ i, /** @type {number} */ j, trace = 0) => {
      const loaded = await attention(name, trace).load(layer);
      return loaded.rowsOf(head, i, i + 1)[j];
    },
    /** The scores of a head before the softmax. */
    scores: async (/** @type {string} */ name, /** @type {number} */ layer, /** @type {number} */ head, trace = 0) =>
      Array.from((await attention(name, trace).load(layer)).scores(head)),
    /** The numbers of an array among the extras. */
    array: async (/** @type {any} */ handle) => Array.from(await array(handle)),
    /** The numbers that the open view shows, if it shows a matrix. */
    shown: () => Array.from(app.shown.values ?? []),
    /** What the open view says of a cell. */
    read: (/** @type {number} */ row, /** @type {number} */ column) => app.shown.read?.(row, column) ?? null,
    /** The picture that is shown, whole, as it is saved. */
    painted: () => painted(app),
    /** The same as SVG. */
    svg: () => svg(app),
    /** The page as a file. */
    file: () => pageFile(),
    set: (/** @type {Record<string, any>} */ patch) => app.state.set(patch),
    get: (/** @type {string} */ key) => app.state.get(key),
    /** Settles when what was asked for last is drawn. */
    settled: async () => {
      for (let last; last !== app.busy;) {
        last = app.busy;
        await last;
      }
    },
  };
}
