// What may be switched off or hidden in a pass, as requests spell it and as the model takes it.

/**
 * @typedef {Object} How
 * @property {string[]} [off] heads: "cross.1.3" is head 3 of layer 1
 * @property {string[]} [layersOff] layers: "encoder.2"
 * @property {number[]} [hidden] places of the source that nobody attends to
 */

/**
 * @param {How} asked
 * @param {((place: string, record: any) => void) | null} [tell]
 */
export function howOf({ off = [], layersOff = [], hidden = [] }, tell = null) {
  /** @type {any} */
  const how = {};
  if (off.length) how.off = new Set(off);
  if (layersOff.length) how.layersOff = new Set(layersOff);
  if (hidden.length) how.hidden = new Set(hidden);
  if (tell) how.tell = tell;
  return how;
}
