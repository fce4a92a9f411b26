// The label of a text: an encoder with classes, as tasks/classifier.py has it.

import { logSoftmax } from "../search/steps.js";
import { labels } from "../text/labels.js";
import { howOf } from "./how.js";
import { specialIds } from "./special.js";

/** @typedef {import("./opening.js").Opened} Opened */

/**
 * The ids of a text, or of a pair, as the model reads them: start, text, end, and of a pair the second text and its end.
 * @param {Opened} opened
 * @param {string} text
 * @param {string | null} second
 */
export function classifierInput({ config, tokenizers: { source } }, text, second) {
  let first = source.encode(text), behind = second === null ? [] : source.encode(second);
  if (second !== null && config.num_segments < 2) throw new Error("a pair of texts is given, but the model tells no segments apart");
  const room = config.max_positions - 2 - (second === null ? 0 : 1);
  if (second === null) first = first.slice(0, Math.max(0, room));
  while (first.length + behind.length > Math.max(0, room)) {
    if (first.length > behind.length) first = first.slice(0, -1);
    else behind = behind.slice(0, -1);
  }
  return [config.bos_id, ...first, config.eos_id, ...(second === null ? [] : [...behind, config.eos_id])];
}

/**
 * The segment of each id: 0 as far as the first end token, 1 behind it; null where the model tells none apart.
 * @param {number[]} ids
 * @param {any} config
 */
export function segmentsOf(ids, config) {
  const first = ids.indexOf(config.eos_id) + 1;
  return config.num_segments > 1 ? ids.map((_, place) => Number(place >= first)) : null;
}

/**
 * @param {Opened} opened
 * @param {string} text
 * @param {any} asked
 */
export function classify(opened, text, asked) {
  const { model, config, tokenizers, labels: names } = opened;
  const ids = classifierInput(opened, text, asked.second ?? null), segments = segmentsOf(ids, config);
  const how = howOf(asked);
  if (segments) how.segments = segments;
  const probabilities = Array.from(logSoftmax(model.forward(ids, how), config.num_classes), Math.exp);
  const best = probabilities.indexOf(Math.max(...probabilities));
  return {
    label: names[best], probability: probabilities[best],
    probabilities: names.map((label, i) => ({ label, probability: probabilities[i] })),
    source: labels(tokenizers.source, ids, specialIds(config), segments ?? []),
  };
}
