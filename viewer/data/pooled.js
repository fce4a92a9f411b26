// Small pictures of all heads, where the page has none: as pictures/model.py makes them.

/** Rows and columns of a small picture. */
export const SIDE = 32;

/** @type {WeakMap<object, Promise<Uint8Array>>} */
const made = new WeakMap();

/**
 * The weights of all heads as small pictures, (N, H, 32, 32), 255 for a weight of 1; made once.
 * @param {import("./attention.js").Attention} attention
 * @returns {Promise<Uint8Array>}
 */
export function pooled(attention) {
  const found = made.get(attention) ?? pictures(attention);
  made.set(attention, found);
  found.catch(() => made.delete(attention));
  return found;
}

/**
 * The weights of one head's picture among those of all heads, 0 to 1.
 * @param {Uint8Array} all (N, H, 32, 32)
 * @param {import("./attention.js").Attention} attention
 * @param {number} layer
 * @param {number} head
 */
export function thumbnailOf(all, attention, layer, head) {
  const pixels = SIDE * SIDE, start = (layer * attention.numHeads + head) * pixels;
  return Float32Array.from(all.subarray(start, start + pixels), (one) => one / 255);
}

/** @param {import("./attention.js").Attention} attention */
async function pictures(attention) {
  const stored = await attention.thumbnails();
  if (stored) return stored;
  const { numLayers, numHeads, rows: { length: L }, columns: { length: M } } = attention, out = new Uint8Array(numLayers * numHeads * SIDE * SIDE);
  for (let n = 0; n < numLayers; n++) {
    const layer = await attention.load(n);
    for (let h = 0; h < numHeads; h++) pool(layer.rowsOf(h, 0, L), L, M, out.subarray((n * numHeads + h) * SIDE * SIDE));
    await new Promise((resolve) => setTimeout(resolve));
  }
  return out;
}

/**
 * Each pixel is the largest of the weights that it lies over; of few tokens a weight is several pixels.
 * @param {Float32Array} weights (L, M)
 * @param {number} L
 * @param {number} M
 * @param {Uint8Array} out (32, 32)
 */
function pool(weights, L, M, out) {
  for (let y = 0; y < SIDE; y++) for (let x = 0; x < SIDE; x++) {
    let most = 0;
    for (let i = Math.floor((y * L) / SIDE); i < ((y + 1) * L) / SIDE; i++) for (let j = Math.floor((x * M) / SIDE); j < ((x + 1) * M) / SIDE; j++) most = Math.max(most, weights[i * M + j]);
    out[y * SIDE + x] = Math.round(255 * most);
  }
}
