// The heads that a trace opens with which the page's model has made: as src/pellucid/views/opening.py chooses them.

/** The weight on first and special tokens from which a head says little about the others. */
const MOSTLY_SINK = 0.5;

/**
 * Of each attention the layer and the head of the least entropy, among those that are no sinks.
 * @param {import("../data/trace.js").Trace} trace
 * @returns {Record<string, number[]>}
 */
export function openingHeads(trace) {
  /** @type {Record<string, number[]>} */
  const found = {};
  for (const [name, { statistics: { entropy, sink } }] of trace.attentions) {
    if (!entropy || !sink) continue;
    let least = Infinity;
    entropy.forEach((heads, layer) => heads.forEach((value, head) => {
      const rated = sink[layer][head] < MOSTLY_SINK ? value : 1e3 + sink[layer][head];
      if (rated < least) [least, found[name]] = [rated, [layer, head]];
    }));
  }
  return found;
}
