// How a prompt goes on: a decoder alone with its tokenizer and a search, as tasks/language_model.py has it.

import { Refusal, shown } from "../model/refusal.js";
import { search } from "../search/beam.js";
import { drawing } from "../search/sampling.js";
import { logSoftmax, neverWritten, Steps } from "../search/steps.js";
import { labels } from "../text/labels.js";
import { howOf } from "./how.js";
import { specialIds } from "./special.js";
import { samplingOf, settings } from "./translator.js";
import { likeliest, told } from "./words.js";

/** @typedef {import("./opening.js").Opened} Opened */

const MOST_NEW_TOKENS = 4096;

/**
 * The ids of a text with what stands before every text; what has no token yet begins with the start token.
 * @param {Opened} opened
 * @param {string} text
 */
export function started({ decode, config, tokenizers }, text) {
  const ids = [...decode.source_prefix, ...tokenizers.target.encode(text)];
  return ids.length ? ids : [config.bos_id];
}

/**
 * @param {Opened} opened
 * @param {string} prompt
 * @param {any} asked
 * @param {{onWord: (word: any) => void, pause: () => Promise<void> | void}} told
 */
export async function generate(opened, prompt, asked, { onWord, pause }) {
  const { tokenizers: { target }, config } = opened, most = asked.maxNewTokens ?? 100, sampling = samplingOf(asked);
  if (!Number.isInteger(most) || most < 1 || most > MOST_NEW_TOKENS) throw new Refusal("`{name}` ({value}) must be from 1 to {most}.", { name: "maxNewTokens", value: shown(most), most: MOST_NEW_TOKENS });
  const decode = { ...settings({ ...opened.decode, beam_size: 1, n_best: 1 }, asked), max_length: most };
  if (sampling) Object.assign(decode, { beam_size: 1, n_best: 1 });
  const ids = started(opened, prompt), count = asked.top ?? 5;
  const steps = new Steps(opened.model, ids, decode, { prefix: asked.prefix ?? [], how: howOf(asked), pause });
  /** @type {import("./words.js").Likeliest[]} */
  const top = [];
  /** @type {number[]} */
  const probabilities = [];
  const watch = (/** @type {import("../search/beam.js").Step} */ { logProbs, weighed }) => {
    const chosen = weighed.find((one) => one.fate === "live") ?? weighed[0];
    if (decode.beam_size === 1) {
      top.push(likeliest(logProbs, count, target));
      probabilities.push(Math.exp(chosen.logProb));
    }
    if (chosen.fate !== "live") return;
    const written = [...steps.ids(chosen.parent), chosen.token];
    onWord({ ids: written, text: behind(target, ids, written), tokens: target.tokens(written), probability: Math.exp(chosen.logProb), part: 0 });
  };
  const { hypotheses } = await search(steps, decode, { prefer: sampling && drawing(sampling, asked.place ?? 0), watch });
  const alternatives = hypotheses.map((one) => ({
    text: behind(target, ids, one.ids), score: one.score, ids: one.ids, tokens: target.tokens(one.ids), ended: one.ended,
  }));
  const best = hypotheses[0];
  const begun = { top: steps.before.map((row) => likeliest(row, count, target)), probabilities: steps.prefixed.map(Math.exp) };
  const thought = decode.beam_size === 1
    ? { top: [...begun.top, ...top], probabilities: [...begun.probabilities, ...probabilities] }
    : score(opened, ids, best.ids, asked, best.ended);
  const written = best.ended ? [...best.ids, config.eos_id] : best.ids;
  return {
    ...alternatives[0], prompt, alternatives,
    probabilities: thought.probabilities.slice(0, written.length), top: thought.top.slice(0, written.length),
    source: labels(target, ids, specialIds(config)), labels: labels(target, written, specialIds(config)),
  };
}

/**
 * What the model thinks of each token that follows a prompt.
 * @param {Opened} opened
 * @param {number[]} prompt
 * @param {number[]} ids
 * @param {any} asked
 * @param {boolean} [ended]
 */
export function score(opened, prompt, ids, asked, ended = false) {
  const { config, tokenizers: { target } } = opened, written = ended ? [...ids, config.eos_id] : ids;
  const whole = [...prompt, ...written], from = Math.max(0, whole.length - 1 - config.max_positions);
  const read = whole.slice(from, -1), size = config.tgt_vocab_size;
  const logProbs = logSoftmax(opened.model.forward(read, howOf(asked)), size);
  const seen = Math.min(written.length, read.length), rows = logProbs.subarray((read.length - seen) * size), after = written.slice(written.length - seen);
  return {
    ...told(rows, after, asked.top ?? 5, target, neverWritten(config, opened.decode)), logProbs: after.map((id, t) => rows[t * size + id]),
    source: labels(target, prompt, specialIds(config)), labels: labels(target, after, specialIds(config)),
  };
}

/** The text that new tokens add to a prompt: a piece may spell its space only together with what stands before it. @param {any} tokenizer @param {number[]} prompt @param {number[]} ids */
function behind(tokenizer, prompt, ids) {
  const before = tokenizer.decode(prompt), whole = tokenizer.decode([...prompt, ...ids]);
  return whole.startsWith(before) ? whole.slice(before.length) : tokenizer.decode(ids);
}
