// What the pass of a trace was given, as the page's model takes it.

/**
 * What the trace's pass was given.
 * @param {import("./trace.js").Trace} trace
 * @returns {import("../analysis/passes.js").Given}
 */
export function given(trace) {
  const ids = (/** @type {string} */ name) => {
    const found = trace.sequences[name]?.map((token) => token.id);
    return found && found.every((id) => id !== null) ? /** @type {number[]} */ (found) : null;
  };
  const src = ids("src"), segments = trace.sequences.src?.map((token) => token.segment) ?? [];
  return { src, tgt: ids("tgt"), out: ids("out"), ...(segments.some((one) => one > 0) ? { segments } : {}) };
}
