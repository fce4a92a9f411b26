// What a pass is asked for beyond its plain result: parts switched off, places hidden, somebody told of each step.

/**
 * All of it may be left out, and nothing is paid for what is.
 * @typedef {Object} How
 * @property {ReadonlySet<string>} [off] heads whose output is zero where W^O takes it in: "encoder.self.0.2", "cross.1.3"
 * @property {ReadonlySet<string>} [layersOff] layers that pass their input on as it is: "encoder.2"
 * @property {ReadonlySet<number>} [hidden] places of the source that nobody attends to; of a decoder alone those of its
 *   ids, which only the place itself attends to
 * @property {ArrayLike<number>} [segments] of an encoder with segments: which one each id is part of; left out: the first
 * @property {(place: string, record: any) => void} [tell] is told of each module's work, by its name in the state dict
 */

/** @type {How} */
export const PLAIN = Object.freeze({});
