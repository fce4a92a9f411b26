// How much of each input is in each place after each layer: as analysis/flow.py's `rollout`.

/** @typedef {import("../data/attention.js").Attention} Attention */

/** @type {WeakMap<object, Promise<Record<string, Float32Array[]>>>} by trace */
const found = new WeakMap();

/**
 * Of each attention the rollout after each of its layers, (L, M); computed once a trace.
 * @param {{attentions: Map<string, Attention>}} trace
 */
export function rollout(trace) {
  const known = found.get(trace) ?? through(trace.attentions);
  found.set(trace, known);
  known.catch(() => found.delete(trace));
  return known;
}

/** @param {Map<string, Attention>} attentions */
async function through(attentions) {
  /** @type {Record<string, Float32Array[]>} */
  const out = {};
  const encoder = attentions.get("encoder.self"), decoder = attentions.get("decoder.self"), cross = attentions.get("cross");
  if (encoder) out["encoder.self"] = await throughLayers(encoder);
  if (decoder && !cross) out["decoder.self"] = await throughLayers(decoder);
  if (decoder && cross) [out["decoder.self"], out.cross] = await throughDecoder(decoder, cross, out["encoder.self"]?.at(-1));
  return out;
}

/** @param {Attention} attention */
async function throughLayers(attention) {
  const L = attention.rows.length, all = [];
  let soFar = identity(L);
  for (let n = 0; n < attention.numLayers; n++) all.push((soFar = half(soFar, product(await meanHeads(attention, n), soFar, L, L))));
  return all;
}

/**
 * Over the target read, (T, T), and over the source, (T, S), which the memory is made of.
 * @param {Attention} own
 * @param {Attention} cross
 * @param {Float32Array | undefined} memory (S, S)
 */
async function throughDecoder(own, cross, memory) {
  const T = own.rows.length, S = cross.columns.length, ofTarget = [], ofSource = [];
  let target = identity(T), source = new Float32Array(T * S);
  for (let n = 0; n < own.numLayers; n++) {
    const mixed = await meanHeads(own, n), read = await meanHeads(cross, n);
    [target, source] = [half(target, product(mixed, target, T, T)), half(source, product(mixed, source, T, S))];
    [target, source] = [target.map((one) => one / 2), half(source, memory ? product(read, memory, S, S) : read)];
    ofTarget.push(target);
    ofSource.push(source);
  }
  return [ofTarget, ofSource];
}

/** @param {Attention} attention @param {number} n */
async function meanHeads(attention, n) {
  const layer = await attention.load(n), L = attention.rows.length, mean = new Float32Array(L * attention.columns.length);
  for (let h = 0; h < attention.numHeads; h++) layer.rowsOf(h, 0, L).forEach((weight, at) => { mean[at] += weight / attention.numHeads; });
  await new Promise((resolve) => setTimeout(resolve)); // whoever reads the page is not to wait
  return mean;
}

/** @param {number} size */
function identity(size) {
  const out = new Float32Array(size * size);
  for (let i = 0; i < size; i++) out[i * size + i] = 1;
  return out;
}

/** @param {Float32Array} a @param {Float32Array} b */
const half = (a, b) => a.map((one, at) => (one + b[at]) / 2);

/** a (L, K) times b (K, M). @param {Float32Array} a @param {Float32Array} b @param {number} K @param {number} M */
function product(a, b, K, M) {
  const L = a.length / K, out = new Float32Array(L * M);
  for (let i = 0; i < L; i++) for (let k = 0; k < K; k++) {
    const factor = a[i * K + k];
    if (factor) for (let j = 0; j < M; j++) out[i * M + j] += factor * b[k * M + j];
  }
  return out;
}
