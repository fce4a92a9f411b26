// Section 3.4: token embeddings, and the positions that are added to them; segments are BERT's.

import { Norm } from "./norm.js";
import { makeAddedPositions } from "./positions.js";
import { Refusal } from "./refusal.js";

/** Token embeddings times sqrt(d_model), plus positions and segments; then a norm where there is one. */
export class Embeddings {
  /**
   * @param {import("./defaults.js").Config} config
   * @param {number} vocabSize
   * @param {import("./weights.js").Weights} weights
   * @param {Float32Array | null} shared the other side's table, where both have one (section 3.4)
   */
  constructor(config, vocabSize, weights, shared = null) {
    this.place = weights.place;
    this.width = config.d_model;
    this.vocabSize = vocabSize;
    this.maxPositions = config.max_positions;
    this.table = shared ?? weights.within("tokens").take("weight", vocabSize, config.d_model);
    this.positions = makeAddedPositions(config, weights);
    this.numSegments = config.num_segments;
    this.segments = config.num_segments ? weights.within("segments").take("weight", config.num_segments, config.d_model) : null;
    this.norm = config.embedding_norm ? new Norm(config, config.d_model, weights.within("norm")) : null;
    this.scale = config.scale_embeddings ? Math.sqrt(config.d_model) : 1;
  }

  /**
   * Ids (L,) to (L, D); they stand at 0, 1, 2 ..., or in a step of decoding all at one `position`.
   * @param {ArrayLike<number>} ids
   * @param {import("./how.js").How} how
   * @param {number | null} [position]
   * @returns {Float32Array} (L, D)
   */
  apply(ids, how, position = null) {
    const L = ids.length;
    this.check(ids, how, position === null ? L : position + 1);
    const tokens = look(this.table, ids, this.width); // (L, D)
    for (let i = 0; i < tokens.length; i++) tokens[i] *= this.scale;
    let added = this.positions && (position === null ? this.positions.rows(0, L) : this.positions.rows(position, position + 1));
    if (added && position !== null) added = look(added, new Int32Array(L), this.width); // the same for all
    const segments = this.segments && look(this.segments, how.segments ?? new Int32Array(L), this.width);
    const sum = tokens.slice();
    for (const part of [added, segments]) if (part) for (let i = 0; i < sum.length; i++) sum[i] += part[i];
    const output = this.norm ? this.norm.apply(sum, how) : sum;
    how.tell?.(this.place, { ids: Int32Array.from(ids), tokens, positions: added, segments, output });
    return output;
  }

  /**
   * Refuses ids that are not the model's, and more of them than it has positions.
   * @param {ArrayLike<number>} ids
   * @param {import("./how.js").How} how
   * @param {number} end
   */
  check(ids, how, end) {
    if (ids.length === 0) throw new Refusal("There is nothing to read.");
    if (end > this.maxPositions) {
      throw new Refusal("A text of {length} tokens is longer than the model's {most}.", { length: end, most: this.maxPositions });
    }
    checkIds(ids, this.vocabSize, "There is no token {id}; the model's are 0 to {most}.");
    if (!this.segments || !how.segments) return;
    if (how.segments.length !== ids.length) {
      throw new Refusal("{found} segments are given for {needed} tokens.", { found: how.segments.length, needed: ids.length });
    }
    checkIds(how.segments, this.numSegments, "There is no segment {id}; the model's are 0 to {most}.");
  }
}

/**
 * @param {ArrayLike<number>} ids
 * @param {number} size of the table that they are rows of
 * @param {string} text what to say of one that is not
 */
function checkIds(ids, size, text) {
  for (let i = 0; i < ids.length; i++) {
    if (!Number.isInteger(ids[i]) || ids[i] < 0 || ids[i] >= size) throw new Refusal(text, { id: String(ids[i]), most: size - 1 });
  }
}

/**
 * Rows of a table, (n, D) to (L, D).
 * @param {Float32Array} table
 * @param {ArrayLike<number>} ids
 * @param {number} width
 */
function look(table, ids, width) {
  const rows = new Float32Array(ids.length * width);
  for (let i = 0; i < ids.length; i++) rows.set(table.subarray(ids[i] * width, (ids[i] + 1) * width), i * width);
  return rows;
}
