// Direct attribution: what each head and each feed-forward network adds to the logit of a word (Elhage et al. 2021).

import { pass, sumsOf, written } from "./passes.js";

/** @typedef {{name: string, attention?: string, layer?: number, head?: number, value: number}} Part */
/** @typedef {{text: string, piece: string, id: number}} Word */
/** @typedef {{row: number, word: Word, foil: Word | null, total: number, parts: Part[], error: number}} Contributions */
/** @typedef {Float64Array} Direction (D,): a logit grows by its product with what is added at a place */

/**
 * Logits are a sum of what all parts of a stack have written into the residual stream, once each norm on the way is held
 * at the mean and the deviation that it had, and the activation of a classifier's hidden layer at the ratio that it had.
 * So we go from the logits back to the embedding, and take along in which direction a word of the stream counts.
 * @param {any} model
 * @param {import("./passes.js").Given} given
 * @param {import("./passes.js").Name} name
 * @param {{row?: number, word?: number | null, against?: number | null, how?: import("./passes.js").How}} [options] `word`:
 *   by default what the row wrote; `against`: the word whose logit is taken off
 * @returns {Contributions}
 */
export function contributions(model, given, name, { row = 0, word = null, against = null, how } = {}) {
  const { logits, records, stack } = pass(model, given, how);
  const rows = written(given, logits), width = logits.length / rows.length; // R, V
  const chosen = word ?? rows[row], total = logits[row * width + chosen] - (against === null ? 0 : logits[row * width + against]);
  const biases = { value: 0 };
  /** @type {Map<number, Direction>} by place */
  let directions = given.tgt ? new Map([[row, difference(model.outputProjection, chosen, against, biases)]])
    : fromHead(model, records, chosen, against, biases);
  const norm = model[stack].norm;
  if (norm) directions = throughNorm(norm, records.get(`${stack}.norm`).input, directions, biases);
  /** @type {Part[][]} */
  const found = [];
  for (const sum of sumsOf(records, stack).reverse()) {
    const layer = model[stack].layers[sum.layer], module = layer[IN_LAYER[sum.sublayer]];
    if (!layer.normFirst) directions = throughNorm(layer[IN_LAYER[sum.sublayer] + "Norm"], sumBefore(sum), directions, biases);
    found.push(partsOf(module, sum, records.get(sum.place), stack, directions, biases));
  }
  const embedded = records.get(stack === "decoder" ? "tgt_embedding" : "src_embedding").output;
  const parts = [{ name: "embedding", value: along(directions, embedded) }, ...found.reverse().flat(), { name: "biases", value: biases.value }];
  const error = Math.abs(parts.reduce((sum, part) => sum + part.value, 0) - total);
  const named = (/** @type {number} */ id) => ({ ...name(id), id });
  return { row, word: named(chosen), foil: against === null ? null : named(against), total, parts, error };
}

/** A sublayer's name in a layer of layers.js. @type {Record<string, string>} */
const IN_LAYER = { self_attn: "selfAttn", cross_attn: "crossAttn", feed_forward: "feedForward" };

/**
 * Back through a classifier's head: its projection, the hidden layer where it has one, and the pooling.
 * @param {any} model
 * @param {Map<string, any>} records
 * @param {number} word
 * @param {number | null} against
 * @param {{value: number}} biases
 * @returns {Map<number, Direction>}
 */
function fromHead({ head }, records, word, against, biases) {
  let direction = difference(head.classProjection, word, against, biases);
  const { states, pooled } = records.get("head"), D = pooled.length;
  if (head.hidden) {
    const inner = head.hidden.apply(pooled), { weight, bias } = head.hidden; // (D,)
    const back = new Float64Array(D);
    for (let o = 0; o < D; o++) {
      const scaled = inner[o] === 0 ? 0 : (direction[o] * head.activation(inner[o])) / inner[o];
      if (bias) biases.value += scaled * bias[o];
      for (let d = 0; d < D; d++) back[d] += scaled * weight[o * D + d];
    }
    direction = back;
  }
  if (!head.takesMean) return new Map([[0, direction]]);
  const S = states.length / D;
  return new Map(Array.from({ length: S }, (_, place) => [place, direction.map((one) => one / S)]));
}

/**
 * The row of a matrix that makes a logit, less that of another one.
 * @param {any} linear
 * @param {number} word
 * @param {number | null} against
 * @param {{value: number}} biases
 * @returns {Direction}
 */
function difference({ weight, bias, inWidth: D }, word, against, biases) {
  const direction = Float64Array.from(weight.subarray(word * D, (word + 1) * D));
  if (bias) biases.value += bias[word] - (against === null ? 0 : bias[against]);
  if (against !== null) for (let d = 0; d < D; d++) direction[d] -= weight[against * D + d];
  return direction;
}

/**
 * Back through a norm that is held at the mean and the deviation that it had: the directions in front of it.
 * @param {any} norm
 * @param {Float32Array} x (L, D) what it was of
 * @param {Map<number, Direction>} directions
 * @param {{value: number}} biases
 * @returns {Map<number, Direction>}
 */
function throughNorm({ width: D, weight, bias, epsilon, subtractsMean }, x, directions, biases) {
  return new Map([...directions].map(([place, direction]) => {
    let mean = 0, square = 0, middle = 0;
    for (let d = 0; d < D && subtractsMean; d++) mean += x[place * D + d] / D;
    for (let d = 0; d < D; d++) square += (x[place * D + d] - mean) ** 2;
    if (bias) for (let d = 0; d < D; d++) biases.value += direction[d] * bias[d];
    const scaled = direction.map((one, d) => (one * weight[d]) / Math.sqrt(square / D + epsilon));
    // The mean of what is added is taken off it, too.
    if (subtractsMean) for (const one of scaled) middle += one / D;
    return [place, scaled.map((one) => one - middle)];
  }));
}

/**
 * What a sublayer adds: its heads one by one, or all of it; its last bias goes to the biases.
 * @param {any} module
 * @param {{sublayer: string, layer: number, added: Float32Array}} sum
 * @param {any} record
 * @param {string} stack
 * @param {Map<number, Direction>} directions
 * @param {{value: number}} biases
 * @returns {Part[]}
 */
function partsOf(module, { sublayer, layer, added }, record, stack, directions, biases) {
  const { weight, bias } = module.outProj ?? module.downProj;
  let ofBias = 0;
  if (bias) for (const direction of directions.values()) direction.forEach((one, d) => { ofBias += one * bias[d]; });
  biases.value += ofBias;
  if (!module.outProj) return [{ name: `feed forward ${layer}`, layer, value: along(directions, added) - ofBias }];
  const attention = sublayer === "cross_attn" ? "cross" : `${stack}.self`, { H, K } = module, wide = H * K;
  const values = new Float64Array(H);
  for (const [place, direction] of directions) {
    for (let d = 0; d < direction.length; d++) {
      for (let at = 0; at < wide; at++) values[Math.floor(at / K)] += direction[d] * weight[d * wide + at] * record.heads[place * wide + at];
    }
  }
  return Array.from(values, (value, head) => ({ name: `${attention} layer ${layer} head ${head}`, attention, layer, head, value }));
}

/**
 * The product of each place's direction with its row, all added up.
 * @param {Map<number, Direction>} directions
 * @param {Float32Array} rows (L, D)
 */
function along(directions, rows) {
  let sum = 0;
  for (const [place, direction] of directions) direction.forEach((one, d) => { sum += one * rows[place * direction.length + d]; });
  return sum;
}

/** x + Sublayer(x), before the norm. @param {{before: Float32Array, added: Float32Array}} sum */
function sumBefore({ before, added }) { return before.map((one, at) => one + added[at]); }
