// Text in, text out: a Transformer with its tokenizers and a search, as tasks/translator.py has it.

import { Refusal, shown } from "../model/refusal.js";
import { rank } from "../search/hypothesis.js";
import { search } from "../search/beam.js";
import { drawing } from "../search/sampling.js";
import { logSoftmax, neverWritten, Steps } from "../search/steps.js";
import { joined, rankedTogether, segmentsOf } from "../text/segments.js";
import { labels } from "../text/labels.js";
import { howOf } from "./how.js";
import { specialIds } from "./special.js";
import { told } from "./words.js";

/** @typedef {import("./opening.js").Opened} Opened */
/** @typedef {import("../search/hypothesis.js").Hypothesis} Hypothesis */

/**
 * The settings of one request, over the model's own.
 * @param {any} decode
 * @param {any} asked
 */
export function settings(decode, asked) {
  const given = {
    beam_size: asked.beamSize, n_best: asked.nBest, length_penalty: asked.lengthPenalty, max_length: asked.maxLength, segment: asked.segment,
  };
  const chosen = { ...decode, ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) };
  for (const [name, value] of [["beamSize", chosen.beam_size], ["nBest", chosen.n_best]]) {
    if (!Number.isInteger(value) || value < 1 || value > 64) throw new Refusal("`{name}` ({value}) must be a whole number from 1 to 64.", { name, value: shown(value) });
  }
  const { max_length: length, length_penalty: penalty } = chosen;
  if (length !== null && !(Number.isInteger(length) && length >= 1)) throw new Refusal("`{name}` ({value}) must be at least 1.", { name: "maxLength", value: shown(length) });
  if (!Number.isFinite(penalty)) throw new Refusal("`{name}` ({value}) must be a number.", { name: "lengthPenalty", value: shown(penalty) });
  if (asked.beamSize === undefined && chosen.beam_size < chosen.n_best) chosen.beam_size = chosen.n_best;
  if (chosen.n_best > chosen.beam_size) throw new Refusal("`nBest` ({best}) cannot exceed `beamSize` ({beam}).", { best: chosen.n_best, beam: chosen.beam_size });
  return chosen;
}

/**
 * How a request wants its words drawn; null where it wants the most probable ones.
 * @param {any} asked
 * @returns {import("../search/sampling.js").Sampling | null}
 */
export function samplingOf(asked) {
  const given = ["temperature", "topK", "topP", "seed"].some((name) => asked[name] !== undefined && asked[name] !== null);
  if (!given || asked.temperature === 0) return null;
  const { temperature, topK, topP, seed } = { temperature: asked.temperature ?? 1, topK: asked.topK ?? 0, topP: asked.topP ?? 1, seed: asked.seed ?? 1 };
  if (!(temperature > 0)) throw new Refusal("`{name}` ({value}) must be above 0.", { name: "temperature", value: shown(temperature) });
  if (!(topP > 0 && topP <= 1)) throw new Refusal("`topP` ({value}) must be above 0 and at most 1.", { value: shown(topP) });
  if (!Number.isInteger(topK) || topK < 0) throw new Refusal("`{name}` ({value}) must be at least {least}.", { name: "topK", value: shown(topK), least: 0 });
  return { temperature, topK, topP, seed };
}

/**
 * A source as the encoder reads it, with all that stands around it.
 * @param {Opened} opened
 * @param {number[]} ids
 */
export function wholeSource({ decode, config }, ids) {
  return [...decode.source_prefix, ...ids, ...(decode.add_source_eos ? [config.eos_id] : []), ...decode.source_suffix];
}

/**
 * What a decoder reads and writes of a target: read[t] is followed by written[t].
 * @param {Opened} opened
 * @param {number[]} ids
 * @param {boolean} ended
 */
export function framed({ decode, config }, ids, ended) {
  const written = [...decode.target_prefix, ...ids, ...(ended ? [config.eos_id] : [])];
  return { read: [config.bos_id, ...written].slice(0, written.length), written };
}

/**
 * The translation of a line. A line of several sentences is translated sentence by sentence, where the model was
 * trained on single ones.
 * @param {Opened} opened
 * @param {string} line
 * @param {any} asked see the client
 * @param {{onWord: (word: any) => void, pause: () => Promise<void> | void}} told
 */
export async function translate(opened, line, asked, { onWord, pause }) {
  const { tokenizers, config, text } = opened;
  const decode = settings(opened.decode, asked), sampling = samplingOf(asked);
  if (sampling) Object.assign(decode, { beam_size: 1, n_best: 1 });
  const room = Math.max(1, Math.min(decode.max_source_length, config.max_positions - wholeSource(opened, []).length));
  const segments = segmentsOf(line, tokenizers.source, room, decode.segment === "auto" ? text : null);
  const pieces = segments.flatMap((segment) => segment.pieces), prefixes = prefixesOf(asked.prefix);
  /** @type {Hypothesis[][]} */
  const found = [];
  /** @type {number[]} how near each piece came to another outcome */
  const margins = [];
  for (const [place, ids] of pieces.entries()) {
    const prefer = sampling && drawing(sampling, (asked.place ?? 0) + place * 2 ** 20);
    const steps = new Steps(opened.model, wholeSource(opened, ids), decode, { prefix: prefixes[place] ?? [], how: howOf(asked), pause });
    const { hypotheses, margin } = await search(steps, decode, { prefer, watch: watching(opened, steps, found, segments, place, onWord) });
    found.push(hypotheses);
    margins.push(margin);
  }
  const ranks = found.map((hypotheses) => hypotheses.map((one) => rank(one.score, one.length, decode.length_penalty)));
  const ways = pieces.length ? rankedTogether(ranks, Math.max(...found.map((one) => one.length))) : [[]];
  const alternatives = ways.map((way) => ({
    ...translation(opened, segments, way.map((choice, place) => found[place][choice])), rank: way.reduce((sum, choice, place) => sum + ranks[place][choice], 0) / (way.length || 1),
  }));
  const best = ways[0].map((choice, place) => found[place][choice]);
  const parts = pieces.map((ids, place) => ({ ...part(opened, ids, best[place], asked), margin: margins[place] }));
  return {
    ...alternatives[0], alternatives, parts,
    probabilities: parts.flatMap((one) => one.probabilities),
    top: parts.flatMap((one) => one.top),
    labels: parts.flatMap((one) => one.labels),
    source: parts.length === 1 ? parts[0].source : parts.flatMap((one) => one.source),
  };
}

/** Beginnings that somebody chose: one list of ids for the first piece, or a list for each. @param {number[] | number[][] | undefined} prefix */
function prefixesOf(prefix = []) {
  return Array.isArray(prefix[0]) ? /** @type {number[][]} */ (prefix) : [/** @type {number[]} */ (prefix)];
}

/**
 * Tells of each word as it is chosen: of a beam, of its best live hypothesis.
 * @param {Opened} opened
 * @param {Steps} steps
 * @param {Hypothesis[][]} before
 * @param {any[]} segments
 * @param {number} place
 * @param {(word: any) => void} onWord
 */
function watching(opened, steps, before, segments, place, onWord) {
  const earlier = translation(opened, segments.slice(0, before.length), before.map((one) => one[0])).text;
  return (/** @type {import("../search/beam.js").Step} */ { weighed }) => {
    const chosen = weighed.find((one) => one.fate === "live");
    if (!chosen) return;
    const ids = [...steps.ids(chosen.parent), chosen.token], { target } = opened.tokenizers;
    onWord({ ids, tokens: target.tokens(ids), text: [earlier, target.decode(ids)].filter(Boolean).join(" "), probability: Math.exp(chosen.logProb), part: place });
  };
}

/**
 * @param {Opened} opened
 * @param {any[]} segments
 * @param {Hypothesis[]} chosen of each piece
 */
function translation({ tokenizers }, segments, chosen) {
  const { target } = tokenizers, left = [...chosen];
  /** @type {any[]} */
  const used = [];
  const texts = segments.filter(() => left.length).map((segment) => {
    used.push(segment);
    const texts = segment.pieces.map(() => left.shift()).filter(Boolean).map((/** @type {any} */ one) => inOneLine(target.decode(one.ids)));
    return joined(texts, texts.map(() => ({ source: segment.source, pieces: [], behind: " ", before: "" })));
  });
  const ids = chosen.flatMap((one) => one.ids);
  return {
    text: texts.length ? joined(texts, used) : "",
    score: chosen.reduce((sum, one) => sum + one.score, 0),
    ids,
    tokens: target.tokens(ids),
  };
}

/** @param {string} text in which the model may have written a line's end */
function inOneLine(text) {
  const lines = text.split(/\r\n|[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]/);
  if (lines[lines.length - 1] === "") lines.pop();
  return lines.join(" ");
}

/**
 * A piece with what the model thought of each token.
 * @param {Opened} opened
 * @param {number[]} ids of the source
 * @param {Hypothesis} best
 * @param {any} asked
 */
function part(opened, ids, best, asked) {
  const { target } = opened.tokenizers, scored = score(opened, ids, best.ids, asked, best.ended);
  return {
    ids: best.ids, score: best.score, text: inOneLine(target.decode(best.ids)), ended: best.ended,
    sourceIds: ids, ...scored,
  };
}

/**
 * What the model thinks of a translation that is given: of each token of it, the end token last.
 * @param {Opened} opened
 * @param {number[]} source ids of the source, without what stands around it
 * @param {number[]} ids
 * @param {any} asked
 * @param {boolean} [ended]
 */
export function score(opened, source, ids, asked, ended = true) {
  const { config, tokenizers, decode } = opened, src = wholeSource(opened, source);
  const { read, written } = framed(opened, ids, ended);
  checkLength(src, config, "source");
  checkLength(read, config, "translation");
  const logProbs = logSoftmax(opened.model.forward(src, read, howOf(asked)), config.tgt_vocab_size);
  const own = decode.target_prefix.length, size = config.tgt_vocab_size;
  const rows = logProbs.subarray(own * size), after = written.slice(own);
  return {
    ...told(rows, after, asked.top ?? 5, tokenizers.target, neverWritten(config, decode)),
    logProbs: after.map((id, t) => rows[t * size + id]),
    source: labels(tokenizers.source, src, specialIds(config)),
    labels: labels(tokenizers.target, after, specialIds(config)),
  };
}

/** @param {number[]} ids @param {any} config @param {string} what */
export function checkLength(ids, config, what) {
  if (ids.length > config.max_positions) throw new Refusal("The text has {found} tokens ({what}); the model takes at most {most}.", { found: ids.length, what, most: config.max_positions });
}
