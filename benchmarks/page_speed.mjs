// What page_speed.py times in Node: sentences of a model of viewer/model/, a step a word. Reads JSON, prints JSON.

import { readFileSync } from "node:fs";
import { buildModel } from "../viewer/model/families.js";
import { readWeights } from "../viewer/model/tensors.js";

const { config, weights, ids, words, width, sentences } = JSON.parse(readFileSync(0, "utf8"));
const begun = performance.now();
const model = buildModel(config, readWeights(new Uint8Array(readFileSync(weights))));
const openMs = performance.now() - begun;

const firstMs = [], wordMs = [], logits = [];
for (let sentence = -1; sentence < sentences; sentence++) { // the one before the first warms up
  let started = performance.now();
  const took = () => -started + (started = performance.now());
  const cache = model.start(ids, {}, width);
  const times = [took()];
  for (const [tokens, parents] of words) {
    const found = model.step(tokens, cache);
    cache.reorder(parents);
    times.push(took());
    if (sentence < 0) logits.push(Array.from(found));
  }
  if (sentence < 0) continue;
  firstMs.push(times[0]);
  wordMs.push(...times.slice(1));
}
process.stdout.write(JSON.stringify({ openMs, firstMs, wordMs, logits }));
