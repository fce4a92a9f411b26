// Which key each query may attend to: 1 = may attend, (L, M); null where all may.

/**
 * Lets words through, but no padding and nothing hidden: the same for every query.
 * @param {ArrayLike<number>} ids (M,)
 * @param {number | null} padId
 * @param {ReadonlySet<number> | undefined} hidden
 * @returns {Uint8Array | null} (M,)
 */
export function sourceMask(ids, padId, hidden) {
  const mask = Uint8Array.from(ids, (id, place) => (id === padId || hidden?.has(place) ? 0 : 1));
  return mask.includes(0) ? mask : null;
}

/**
 * The same mask for each of L queries.
 * @param {Uint8Array | null} mask (M,)
 * @param {number} L
 * @returns {Uint8Array | null} (L, M)
 */
export function forEachQuery(mask, L) {
  if (!mask) return null;
  const whole = new Uint8Array(L * mask.length);
  for (let i = 0; i < L; i++) whole.set(mask, i * mask.length);
  return whole;
}

/**
 * Lets each place see itself and what came before and is not hidden.
 * @param {number} length T
 * @param {ReadonlySet<number>} [hidden]
 * @returns {Uint8Array} (T, T)
 */
export function causalMask(length, hidden) {
  const mask = new Uint8Array(length * length);
  for (let i = 0; i < length; i++) {
    for (let j = 0; j <= i; j++) mask[i * length + j] = i !== j && hidden?.has(j) ? 0 : 1;
  }
  return mask;
}
