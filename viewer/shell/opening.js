// The head with which an attention opens until somebody chooses: as src/pellucid/views/opening.py chooses it.

/** The weight on first and special tokens from which a head says little about the others. */
const MOSTLY_SINK = 0.5;

/**
 * The layer and the head that an attention of a trace of the page's model opens with: in cross-attention the head that
 * follows the words best, elsewhere that of the least entropy among those that are no sinks.
 * @param {import("../data/attention.js").Attention} attention
 * @returns {[number, number] | null} null: nothing is known of its heads
 */
export function openingHead({ description, statistics: { entropy, sink } }) {
  if (description.following) return least(description.following, (value) => -value);
  return entropy && sink ? least(entropy, (value, layer, head) => (sink[layer][head] < MOSTLY_SINK ? value : 1e3 + sink[layer][head])) : null;
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
