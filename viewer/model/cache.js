// Keys and values kept between decoding steps.
//
// The W hypotheses of a sentence share one row of keys: step t writes its W new keys behind those of earlier steps, and
// each hypothesis knows the places of the keys that it descends from. Choosing hypotheses therefore moves places, never
// keys. Two hypotheses, a and b, after three steps; then both go on from b:
//
//     keys       a0 b0 | a1 b1 | a2 b2                      keys       a0 b0 | a1 b1 | a2 b2 | a3 b3
//     a may see  x     | x     | x                          a may see     x  |    x  |    x  | x
//     b may see     x  |    x  |    x                       b may see     x  |    x  |    x  |    x

/** @typedef {{k: Float32Array, v: Float32Array}} Heads keys and values, (M, G * K) each */

/** One decoder layer's memory of earlier steps: keys and values of its own past, and of the encoder's memory. */
export class LayerCache {
  #keys = new Float32Array(0);
  #values = new Float32Array(0);
  #used = 0;
  /** @type {Heads | null} */
  #memory = null;

  /**
   * Adds the keys and values of a step, (W, G * K), or of a prompt; returns all, (M, G * K).
   * @param {Float32Array} k
   * @param {Float32Array} v
   * @returns {Heads}
   */
  extendSelf(k, v) {
    const end = this.#used + k.length;
    if (end > this.#keys.length) {
      this.#keys = grown(this.#keys, end);
      this.#values = grown(this.#values, end);
    }
    this.#keys.set(k, this.#used);
    this.#values.set(v, this.#used);
    this.#used = end;
    return { k: this.#keys.subarray(0, end), v: this.#values.subarray(0, end) };
  }

  /**
   * The keys and values of the memory; `project` makes them the first time.
   * @param {() => Heads} project
   */
  keepMemory(project) {
    this.#memory ??= project();
    return this.#memory;
  }
}

/** All that decoding remembers of a sentence: each layer's keys and values, and the memory where there is one. */
export class DecoderCache {
  /** @type {number[]} */
  #positions = [];

  /**
   * @param {number} numLayers
   * @param {number} width hypotheses that begin
   * @param {Float32Array | null} memory (S, D)
   * @param {Uint8Array | null} memoryMask (S,)
   */
  constructor(numLayers, width, memory = null, memoryMask = null) {
    this.layers = Array.from({ length: numLayers }, () => new LayerCache());
    this.memory = memory;
    this.memoryMask = memoryMask;
    this.length = 0;
    /** @type {number[][]} the places of the keys that each hypothesis descends from */
    this.descent = Array.from({ length: width }, () => []);
  }

  /** Hypotheses that the next step goes on with. */
  get width() { return this.descent.length; }

  /** The position of each key, (M,): the W of a step share one. */
  get positions() { return this.#positions; }

  /** Opens the first `length` positions, which all hypotheses share, one key each. @param {number} length */
  fill(length) {
    for (let position = 0; position < length; position++) {
      for (const places of this.descent) places.push(position);
      this.#positions.push(position);
    }
    this.length = length;
  }

  /**
   * Opens a position.
   * @param {ReadonlySet<number>} [hidden] positions that only they themselves see
   * @returns {Uint8Array} (W, M), the keys that each hypothesis may see
   */
  grow(hidden) {
    const before = this.#positions.length;
    this.descent.forEach((places, w) => {
      places.push(before + w);
      this.#positions.push(this.length);
    });
    this.length += 1;
    const M = this.#positions.length;
    const mask = new Uint8Array(this.width * M);
    this.descent.forEach((places, w) => {
      for (const place of places) mask[w * M + place] = place < before && hidden?.has(this.#positions[place]) ? 0 : 1;
    });
    return mask;
  }

  /**
   * Hypothesis w goes on from hypothesis parents[w]; there may be more of them then, or fewer.
   * @param {ArrayLike<number>} parents
   */
  reorder(parents) {
    this.descent = Array.from(parents, (parent) => [...this.descent[parent]]);
  }
}

/**
 * Room for at least `needed` numbers, doubled each time, with the old ones in front.
 * @param {Float32Array} old
 * @param {number} needed
 */
function grown(old, needed) {
  const room = new Float32Array(Math.max(needed, 2 * old.length));
  room.set(old);
  return room;
}
