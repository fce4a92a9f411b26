// One pass of the model over a text and what it writes, with all that it computed on the way.

import { logitsOf } from "../analysis/passes.js";
import { Refusal } from "../model/refusal.js";
import { logSoftmax, Steps } from "../search/steps.js";
import { search, top } from "../search/beam.js";
import { labels } from "../text/labels.js";
import { classifierInput, segmentsOf } from "./classifier.js";
import { howOf } from "./how.js";
import { started } from "./language_model.js";
import { specialIds } from "./special.js";
import { checkLength, framed, settings, wholeSource } from "./translator.js";

/** @typedef {import("./opening.js").Opened} Opened */

/**
 * @typedef {Object} Pass
 * @property {number[]} src what the encoder reads; none of a decoder alone
 * @property {number[]} tgt what the decoder reads; none of an encoder alone
 * @property {number[]} out what the decoder was to write at each place of `tgt`
 * @property {number[] | null} segments
 * @property {Float32Array} outputs logits (T, V), of a classifier (C,), of an encoder alone its states
 */

/**
 * The ids of a text that a pass reads: of a translator its source and a given translation, or its own best.
 * @param {Opened} opened
 * @param {string | {src?: number[] | null, tgt?: number[] | null, out?: number[] | null, segments?: number[] | null}} text or the ids of
 *   a pass that was, as a trace has them
 * @param {number[] | null} ids what is written: of a translator its translation, of a language model what follows `text`
 * @param {any} asked
 * @returns {Promise<Omit<Pass, "outputs">>}
 */
export async function sequencesOf(opened, text, ids, asked) {
  const { config, tokenizers, model } = opened;
  if (typeof text !== "string") return { src: text.src ?? [], tgt: text.tgt ?? [], out: text.out ?? [], segments: text.segments ?? null };
  if (config.num_decoder_layers === 0) {
    const src = classifierInput(opened, text, asked.second ?? null);
    return { src, tgt: [], out: [], segments: segmentsOf(src, config) };
  }
  if (config.num_encoder_layers === 0) {
    const whole = [...started(opened, text), ...(ids ?? [])];
    checkLength(whole, config, "text");
    const ended = opened.decode.add_source_eos && opened.decode.source_prefix.length > 0;
    return { src: [], tgt: whole, out: [...whole.slice(1), ended ? config.eos_id : -1], segments: null };
  }
  const src = wholeSource(opened, tokenizers.source.encode(text));
  if (src.length === wholeSource(opened, []).length) throw new Refusal("The text is empty: there is nothing to look at.");
  checkLength(src, config, "source");
  if (ids === null) {
    const decode = settings({ ...opened.decode, n_best: 1 }, asked);
    ids = (await search(new Steps(model, src, decode, { how: howOf(asked) }), decode)).hypotheses[0].ids;
  }
  const { read, written } = framed(opened, ids, true);
  checkLength(read, config, "translation");
  return { src, tgt: read, out: written, segments: null };
}

/**
 * @param {Opened} opened
 * @param {Omit<Pass, "outputs">} sequences
 * @param {any} asked
 * @param {(place: string, record: any) => void} tell
 * @returns {Pass}
 */
export function run({ model, config }, sequences, asked, tell) {
  const outputs = logitsOf(model, given(sequences), howOf(asked, tell)), out = [...sequences.out];
  if (out.at(-1) === -1) out[out.length - 1] = top(outputs.subarray(outputs.length - config.tgt_vocab_size), 1)[0];
  return { ...sequences, out, outputs };
}

/** What a pass is given, as the analysis takes it. @param {Omit<Pass, "outputs">} sequences @returns {import("../analysis/passes.js").Given} */
export function given({ src, tgt, out, segments }) {
  return { src: src.length ? src : null, tgt: tgt.length ? tgt : null, out: tgt.length ? out : null, ...(segments ? { segments } : {}) };
}

/**
 * The tokens of each sequence of a pass.
 * @param {Opened} opened
 * @param {Omit<Pass, "outputs">} pass
 */
export function tokensOf({ tokenizers, config }, { src, tgt, out, segments }) {
  const special = specialIds(config);
  return {
    ...(src.length ? { src: labels(tokenizers.source, src, special, segments ?? []) } : {}),
    ...(tgt.length ? { tgt: labels(tokenizers.target, tgt, special), out: labels(tokenizers.target, out, special) } : {}),
  };
}

/** Log-probabilities (T, V) of a pass that writes. @param {Opened} opened @param {Pass} pass */
export function logProbsOf({ config }, pass) { return logSoftmax(pass.outputs, config.tgt_vocab_size); }
