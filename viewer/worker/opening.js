// Opens the model that a page carries: its description, its weights, its tokenizers.

import { unpacked } from "../data/packed.js";
import { buildModel } from "../model/families.js";
import { readWeights } from "../model/tensors.js";
import { openTokenizers } from "../text/tokenizers.js";

/** What `pellucid.json` may leave out of `decode`, as config/decode.py has it. */
const DECODE = {
  beam_size: 5, length_penalty: 1, n_best: 1, max_length: null, max_source_length: 256, segment: "auto", source_prefix: [],
  add_source_eos: true, source_suffix: [], target_prefix: [], suppress_tokens: [], banned: [], end_ids: [], min_length: 0, no_repeat_ngram_size: 0,
};

/** @typedef {import("../data/packed.js").Packed} Packed */

/**
 * @typedef {Object} Opened
 * @property {any} description what `pellucid.json` says
 * @property {any} config the model's
 * @property {any} model
 * @property {Map<string, any>} tensors the weights, by their names in the state dict
 * @property {{source: any, target: any}} tokenizers
 * @property {any} decode
 * @property {any | null} text what a translator's training lines were
 * @property {string[]} labels
 */

/**
 * @param {{description: Packed, weights: Packed, files: Record<string, Packed>}} carried as the page has it
 * @returns {Promise<Opened>}
 */
export async function openModel(carried) {
  const description = JSON.parse(new TextDecoder().decode(await unpacked(carried.description)));
  const tensors = readWeights(await unpacked(carried.weights)), model = buildModel(description.model, tensors);
  const { config } = model;
  const files = await Promise.all(Object.entries(carried.files).map(async ([name, packed]) => /** @type {[string, Uint8Array]} */ ([name, await unpacked(packed)])));
  const tokenizers = openTokenizers(description.tokenizer, new Map(files));
  for (const [side, size] of /** @type {["source" | "target", number][]} */ ([["source", config.src_vocab_size], ["target", config.tgt_vocab_size]])) {
    if (tokenizers[side].size > size) throw new Error(`the ${side} tokenizer has ${tokenizers[side].size} ids, the model ${size}`);
  }
  return {
    description, config, model, tensors, tokenizers,
    decode: { ...DECODE, ...description.decode },
    text: description.text ?? null,
    labels: description.labels ?? Array.from({ length: config.num_classes }, (_, i) => String(i)),
  };
}
