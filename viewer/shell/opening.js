// The head with which an attention opens until somebody chooses: as src/pellucid/views/initial_state.py chooses it.

/** The weight on first and special tokens from which a head says little about the others. */
const MOSTLY_SINK = 0.5;

/**
 * The layer and the head that an attention of a trace of the page's model opens with: in cross-attention the head that
 * aligns, as held-out text has chosen it, or else the one that follows the words of this text best; elsewhere that of the
 * least entropy among those that are no sinks.
 * @param {import("../data/attention.js").Attention} attention
 * @param {Record<string, any>} model what the trace tells of it
 * @returns {[number, number] | null} null: nothing is known of its heads
 */
export function openingHead({ name, description, statistics: { entropy, sink } }, model) {
  const kept = name === "cross" ? aligning(model) : null;
  if (kept) return [kept.layer, kept.head];
  if (description.following) return least(description.following, (value) => -value);
  return entropy && sink ? least(entropy, (value, layer, head) => (sink[layer][head] < MOSTLY_SINK ? value : 1e3 + sink[layer][head])) : null;
}

/**
 * The head that aligns, which was found on held-out text when training ended or the page was made; null: nobody has looked.
 * @param {Record<string, any>} model what a trace tells of its model
 * @returns {{layer: number, head: number, reads: boolean} | null} `reads`: by the row of the step that reads a word
 */
export function aligning(model) {
  const { aligning_layer: layer, aligning_head: head, aligning_row: row } = model;
  return layer === undefined || head === undefined ? null : { layer, head, reads: row === "reads" };
}

/**
 * The layer and the head that are rated least.
 * @param {number[][]} values (N, H)
 * @param {(value: number, layer: number, head: number) => number} rated
 * @returns {[number, number] | null}
 */
function least(values, rated) {
  /** @type {[number, number] | null} */
  let found = null;
  let lowest = Infinity;
  values.forEach((heads, layer) => heads.forEach((value, head) => {
    const rating = rated(value, layer, head);
    if (rating < lowest) [lowest, found] = [rating, [layer, head]];
  }));
  return found;
}
