// The step function: all that a search sees of a model. One output, W hypotheses of it, which grow by one token a step.

import { Refusal } from "../model/refusal.js";

/** @typedef {import("./hypothesis.js").Hypothesis} Hypothesis */

/**
 * @typedef {Object} StepModel a Transformer or a DecoderOnly
 * @property {any} config
 * @property {(ids: number[], how: object, width: number) => any} start
 * @property {(tokens: number[], cache: any, how: object) => Float32Array} step
 */

/** The part of its positions with which a text goes on when all of them are taken. */
const KEPT = 3 / 4;

export class Steps {
  /**
   * @param {StepModel} model
   * @param {number[]} given a source as the encoder reads it, or a prompt
   * @param {any} decode what limits, begins and suppresses an output, as `pellucid.json` has it
   * @param {{prefix?: number[], how?: object, pause?: () => Promise<void> | void}} [options] tokens that somebody chose
   *   for the output's beginning, whose probabilities count; what is switched off; what is waited for before each step
   */
  constructor(model, given, decode, { prefix = [], how = {}, pause = () => {} } = {}) {
    const { config } = model;
    this.model = model;
    this.decode = decode;
    this.how = how;
    this.pause = pause;
    this.eos = config.eos_id;
    this.size = config.tgt_vocab_size;
    /** Whether an output at its limit is cut off, or may only end. */
    this.cuts = config.num_encoder_layers === 0;
    this.given = this.cuts ? given.slice(-config.max_positions) : given;
    this.begin = this.cuts ? this.given : [config.bos_id, ...decode.target_prefix];
    this.prefix = prefix;
    this.prefixLength = this.cuts ? 0 : decode.target_prefix.length;
    /** The most tokens, the end token not counted. */
    this.limit = limit(given.length, decode, config);
    this.never = neverWritten(config, decode);
    /** The ids at which an output ends; more than the end token alone only where a folder asks for it. @type {number[]} */
    this.ends = endIds(config, decode);
    /** Whether the end token's log-probability is that of all ends together, as a draw needs it, or the likeliest's. */
    this.addsEnds = false;
    const odd = prefix.find((id) => this.never.includes(id) || id === this.eos || !(id >= 0 && id < this.size));
    if (odd !== undefined) throw new Refusal("A text cannot begin with the id {id}: it is not written.", { id: odd });
    if (prefix.length > this.limit) throw new Refusal("The chosen beginning has {found} tokens, and the text may have {most}.", { found: prefix.length, most: this.limit });
    /** The log-probability of each token of `prefix`. @type {number[]} */
    this.prefixed = [];
    /** The log-probabilities, (V,), from which each token of `prefix` was chosen. @type {Float64Array[]} */
    this.before = [];
  }

  /** Begins the search, with `width` hypotheses that are alike at first. @param {number} width */
  async start(width) {
    this.width = width;
    /** @type {number[][]} all that each hypothesis has read or reads next */
    this.read = Array.from({ length: width }, () => [...this.begin]);
    this.#open(this.given, this.read);
    for (const token of this.prefix) {
      const found = await this.logProbs();
      this.before.push(found.slice(0, this.size));
      this.prefixed.push(found[token]);
      this.advance(Array(width).fill(token), null);
    }
  }

  /** Has the model read `given`, and of the tokens what is not part of that, but the last of each. @param {number[]} given @param {number[][]} read */
  #open(given, read) {
    this.cache = this.model.start(given, this.how, this.width ?? 1);
    for (let place = this.cache.length; place < read[0].length - 1; place++) {
      this.model.step(read.map((ids) => ids[place]), this.cache, this.how);
    }
  }

  /** The tokens so far, without what every output begins with. */
  get length() { return (this.read ?? [[]])[0].length - this.begin.length; }

  /** What a hypothesis has written so far, the chosen beginning included. @param {number} row */
  ids(row) { return /** @type {number[][]} */ (this.read)[row].slice(this.begin.length); }

  /**
   * The log-probability of each next token of each hypothesis, (W, V). Minus infinity stands at what may not be
   * written; nothing is normalised again. At its limit an output may only end.
   */
  async logProbs() {
    await this.pause();
    const read = /** @type {number[][]} */ (this.read), atLimit = this.length >= this.limit, { size, eos } = this;
    const width = this.width ?? 1;
    if (atLimit && this.cuts) {
      const end = new Float64Array(width * size).fill(-Infinity);
      for (let row = 0; row < width; row++) end[row * size + eos] = 0;
      return end;
    }
    const room = this.model.config.max_positions;
    if (this.cuts && this.cache.length === room) this.#goOnWithTheLastPart(room);
    const found = logSoftmax(this.model.step(read.map((ids) => ids[ids.length - 1]), this.cache, this.how), size);
    for (let row = 0; row < width; row++) {
      const own = found.subarray(row * size, (row + 1) * size);
      if (this.ends.length > 1) this.#takeTogether(own);
      const whole = own[eos];
      for (const id of this.never) own[id] = -Infinity;
      this.#apply(own, read[row], whole);
      if (!atLimit) continue;
      const end = found[row * size + eos];
      found.fill(-Infinity, row * size, (row + 1) * size);
      found[row * size + eos] = end;
    }
    return found;
  }

  /** Lets the end token stand for all ends. @param {Float64Array} logProbs (V,) */
  #takeTogether(logProbs) {
    const values = this.ends.map((id) => logProbs[id]), best = Math.max(...values);
    for (const id of this.ends) logProbs[id] = -Infinity;
    const sum = values.reduce((total, value) => total + Math.exp(value - best), 0);
    logProbs[this.eos] = this.addsEnds && best > -Infinity ? best + Math.log(sum) : best;
  }

  /**
   * Writes minus infinity over what the model's folder keeps from following: what repeats a run of tokens or completes
   * a banned sequence, and an end that comes too soon; not within a chosen beginning. Where nothing may follow, the
   * output ends.
   * @param {Float64Array} logProbs (V,)
   * @param {number[]} read all that the hypothesis has read, its start token included
   * @param {number} end the log-probability of the end
   */
  #apply(logProbs, read, end) {
    const { banned = [], no_repeat_ngram_size: size = 0, min_length: least = 0 } = this.decode;
    if ((!banned.length && !size && !least) || this.length < this.prefix.length) return;
    const context = this.cuts ? read : read.slice(1), last = context.slice(context.length - size + 1);
    for (let at = 0; size && at + size <= context.length; at++) {
      if (last.every((id, place) => context[at + place] === id)) logProbs[context[at + size - 1]] = -Infinity;
    }
    for (const ids of banned) {
      const start = context.length - ids.length + 1;
      if (start >= 0 && context.slice(start).every((id, place) => id === ids[place])) logProbs[ids[ids.length - 1]] = -Infinity;
    }
    if (this.length < Math.min(least, this.limit)) logProbs[this.eos] = -Infinity;
    if (logProbs.every((value) => value === -Infinity)) logProbs[this.eos] = end;
  }

  /** Reads the last three quarters of the positions again, from the first position on. @param {number} room */
  #goOnWithTheLastPart(room) {
    const kept = /** @type {number[][]} */ (this.read).map((ids) => ids.slice(-Math.max(1, Math.floor(room * KEPT))));
    let common = 0;
    while (common < kept[0].length - 1 && kept.every((ids) => ids[common] === kept[0][common])) common++;
    this.#open(kept[0].slice(0, common + 1), kept);
  }

  /**
   * Hypothesis w goes on from hypothesis parents[w], or from itself, with tokens[w].
   * @param {number[]} tokens
   * @param {number[] | null} parents
   */
  advance(tokens, parents) {
    const read = /** @type {number[][]} */ (this.read);
    if (parents) this.cache.reorder(parents);
    this.read = tokens.map((token, w) => [...read[parents ? parents[w] : w], token]);
  }

  /**
   * A hypothesis as it stands, whose next token is the end token.
   * @param {number} row
   * @param {number} score with the end token's log-probability
   * @returns {Hypothesis}
   */
  finished(row, score) {
    const ids = this.ids(row), ended = !(this.cuts && this.length >= this.limit);
    return { ids, score, ended, length: this.prefixLength + ids.length + Number(ended) };
  }
}

/**
 * The ids that no output may hold: padding, the start token of an encoder-decoder, and what the settings name.
 * @param {any} config
 * @param {any} decode
 * @returns {number[]}
 */
export function neverWritten(config, decode) {
  const special = config.num_encoder_layers === 0 ? [config.pad_id] : [config.pad_id, config.bos_id].filter((id) => id !== config.eos_id);
  return [...new Set([...decode.suppress_tokens, ...special])].filter((id) => id !== null && id < config.tgt_vocab_size);
}

/**
 * The ids at which an output ends: the model's end token, and what the settings name beside it.
 * @param {any} config
 * @param {any} decode
 * @returns {number[]}
 */
function endIds(config, decode) {
  const all = new Set([config.eos_id, ...(decode.end_ids ?? [])]);
  return [...all].filter((id) => id < config.tgt_vocab_size && !decode.suppress_tokens.includes(id));
}

/**
 * The most tokens that may follow: `max_length`, or twice the source's own tokens + 50, as far as positions allow.
 * @param {number} length of what the model is given
 * @param {any} decode
 * @param {any} config
 */
function limit(length, decode, config) {
  if (config.num_encoder_layers === 0) return decode.max_length || 2 * length + 50;
  const own = length - decode.source_prefix.length - Number(decode.add_source_eos) - decode.source_suffix.length;
  return Math.min(decode.max_length || 2 * own + 50, config.max_positions - 1 - decode.target_prefix.length);
}

/**
 * The logarithm of the softmax of each row, in double precision.
 * @param {ArrayLike<number>} logits (W, V)
 * @param {number} size V
 */
export function logSoftmax(logits, size) {
  const found = new Float64Array(logits.length);
  for (let start = 0; start < logits.length; start += size) {
    let largest = -Infinity, sum = 0;
    for (let i = start; i < start + size; i++) if (logits[i] > largest) largest = logits[i];
    for (let i = start; i < start + size; i++) sum += Math.exp(logits[i] - largest);
    if (!Number.isFinite(sum)) throw new Error("the model's output is not a number: its weights are damaged");
    const total = largest + Math.log(sum);
    for (let i = start; i < start + size; i++) found[i] = logits[i] - total;
  }
  return found;
}
