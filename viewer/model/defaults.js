// The shape of a Transformer: the settings of a description's `model`, and what they are where it does not say.

import { Refusal, shown } from "./refusal.js";

/**
 * The fields of Python's ModelConfig that a finished model has use for; dropout is a training's.
 * @typedef {Object} Settings
 * @property {number} src_vocab_size
 * @property {number} tgt_vocab_size
 * @property {number} d_model the width of the residual stream, D in shapes
 * @property {number} d_ff the inner width of the feed-forward network, F
 * @property {number} num_heads H
 * @property {number | null} num_kv_heads heads of keys and values, G; null: as many as of queries
 * @property {number | null} head_dim the width of a head, K; null: d_model / num_heads
 * @property {number} num_encoder_layers 0: a decoder alone
 * @property {number} num_decoder_layers 0: an encoder alone
 * @property {number} num_classes 0: an encoder alone ends with its states
 * @property {"none" | "tanh" | "relu"} classifier_activation
 * @property {"first" | "mean"} pooling
 * @property {"post" | "pre"} norm
 * @property {boolean | null} final_norm null: with `norm = "pre"` only
 * @property {boolean} embedding_norm
 * @property {"layer" | "rms"} norm_type
 * @property {number} norm_eps
 * @property {"sinusoidal" | "learned" | "rotary" | "relative"} positions
 * @property {number} rotary_base
 * @property {number} rotary_factor
 * @property {number[]} rotary_wavelengths two, or none
 * @property {number} relative_num_buckets
 * @property {number} relative_max_distance
 * @property {number} max_positions
 * @property {"relu" | "gelu" | "gelu_tanh" | "silu"} activation
 * @property {boolean} gated_feed_forward
 * @property {boolean} bias
 * @property {boolean | null} qkv_bias null: as `bias`
 * @property {boolean} qk_norm
 * @property {boolean} cross_query_norm
 * @property {boolean} output_bias
 * @property {boolean} scale_embeddings
 * @property {number} num_segments
 * @property {"none" | "decoder" | "all"} tie_embeddings
 * @property {number | null} pad_id null: every id is a word
 * @property {number} bos_id
 * @property {number} eos_id
 */

/**
 * Settings in which nothing is left open.
 * @typedef {Settings & {num_kv_heads: number, final_norm: boolean, qkv_bias: boolean, head_width: number}} Config
 */

/** The paper's base model with separate vocabularies. @type {Settings} */
export const DEFAULTS = {
  src_vocab_size: 37000, tgt_vocab_size: 37000, d_model: 512, d_ff: 2048, num_heads: 8, num_kv_heads: null, head_dim: null,
  num_encoder_layers: 6, num_decoder_layers: 6, num_classes: 0, classifier_activation: "none", pooling: "first",
  norm: "post", final_norm: null, embedding_norm: false, norm_type: "layer", norm_eps: 1e-5,
  positions: "sinusoidal", rotary_base: 10000, rotary_factor: 1, rotary_wavelengths: [], relative_num_buckets: 32,
  relative_max_distance: 128, max_positions: 5000, activation: "relu", gated_feed_forward: false, bias: true, qkv_bias: null, qk_norm: false, cross_query_norm: true,
  output_bias: false, scale_embeddings: true, num_segments: 0, tie_embeddings: "decoder", pad_id: 0, bos_id: 1, eos_id: 2,
};

/** Settings of training, which a model's description holds as well. */
const OF_TRAINING = ["dropout", "attention_dropout", "feed_forward_dropout"];

/** Those that are one of some words. @type {Record<string, string[]>} */
const CHOICES = {
  classifier_activation: ["none", "tanh", "relu"], pooling: ["first", "mean"], norm: ["post", "pre"], norm_type: ["layer", "rms"],
  positions: ["sinusoidal", "learned", "rotary", "relative"], activation: ["relu", "gelu", "gelu_tanh", "silu"],
  tie_embeddings: ["none", "decoder", "all"],
};

/** The least and the largest value of whole numbers, as Python's `config/model.py` has them. @type {Record<string, [number, number]>} */
const WHOLE = {
  src_vocab_size: [1, 2 ** 22], tgt_vocab_size: [1, 2 ** 22], d_model: [1, 2 ** 16], d_ff: [1, 2 ** 18], num_heads: [1, 2 ** 10],
  num_kv_heads: [1, 2 ** 10], head_dim: [1, 2 ** 16], num_encoder_layers: [0, 2 ** 10], num_decoder_layers: [0, 2 ** 10],
  num_classes: [0, 2 ** 20], relative_num_buckets: [4, 2 ** 16], relative_max_distance: [1, 2 ** 24], max_positions: [1, 2 ** 24],
  num_segments: [0, 2 ** 16], pad_id: [0, 2 ** 22 - 1], bos_id: [0, 2 ** 22 - 1], eos_id: [0, 2 ** 22 - 1],
};

/** The same of other numbers; of rotary positions they count only where a model has those. @type {Record<string, [number, number]>} */
const REAL = { norm_eps: [0, 1], rotary_base: [Number.MIN_VALUE, 1e15], rotary_factor: [1, Number.MAX_VALUE] };

/** Those that may be left to others, by null. */
const OPEN = ["num_kv_heads", "head_dim", "final_norm", "qkv_bias", "pad_id"];

/**
 * The whole config of a description's `model`. Throws a Refusal for what cannot be.
 * @param {Partial<Settings>} given
 * @returns {Config}
 */
export function readConfig(given) {
  if (typeof given !== "object" || given === null || Array.isArray(given)) throw new Refusal("The page does not describe its model.");
  for (const name of Object.keys(given)) {
    if (!Object.hasOwn(DEFAULTS, name) && !OF_TRAINING.includes(name) && name !== "head_width") {
      throw new Refusal("This page knows no setting `{name}` of a model.", { name: shown(name) });
    }
  }
  const settings = { ...DEFAULTS, ...given };
  for (const name of Object.keys(DEFAULTS)) {
    if (settings.positions === "rotary" || !name.startsWith("rotary_")) check(name, /** @type {any} */ (settings)[name]);
  }
  const { d_model, num_heads, head_dim, qkv_bias, bias, final_norm, norm, num_kv_heads } = settings;
  const config = {
    ...settings,
    num_kv_heads: num_kv_heads ?? num_heads,
    head_width: head_dim ?? d_model / num_heads,
    qkv_bias: qkv_bias ?? bias,
    final_norm: final_norm ?? norm === "pre",
  };
  checkTogether(config);
  return config;
}

/**
 * @param {string} name
 * @param {any} value
 */
function check(name, value) {
  const [least, most] = WHOLE[name] ?? REAL[name] ?? [0, 0];
  const fits = value === null ? OPEN.includes(name)
    : CHOICES[name] ? CHOICES[name].includes(value)
    : WHOLE[name] ? Number.isInteger(value) && value >= least && value <= most
    : REAL[name] ? Number.isFinite(value) && value >= least && value <= most
    : name === "rotary_wavelengths" ? areWavelengths(value)
    : typeof value === "boolean";
  if (!fits) throw new Refusal("The model's setting `{name}` cannot be {value}.", { name, value: shown(value) });
}

/** @param {any} value */
function areWavelengths(value) {
  return Array.isArray(value) && value.every(Number.isFinite)
    && (value.length === 0 || (value.length === 2 && value[0] > 0 && value[0] < value[1]));
}

/**
 * Settings that do not go together.
 * @param {Config} config
 */
function checkTogether(config) {
  const { num_heads, num_kv_heads, head_width, d_model, positions, num_encoder_layers, num_decoder_layers } = config;
  /** @type {[boolean, string][]} */
  const wrong = [
    [num_encoder_layers + num_decoder_layers === 0, "num_encoder_layers"],
    [config.num_classes > 0 && num_decoder_layers > 0, "num_classes"],
    [config.num_classes === 1, "num_classes"],
    [!Number.isInteger(head_width), "num_heads"],
    [num_heads % num_kv_heads !== 0, "num_kv_heads"],
    [positions === "sinusoidal" && d_model % 2 === 1, "d_model"],
    [positions === "rotary" && head_width % 2 === 1, "head_dim"],
    [positions === "relative" && config.relative_max_distance <= Math.floor(config.relative_num_buckets / 2), "relative_max_distance"],
    [config.tie_embeddings === "all" && config.src_vocab_size !== config.tgt_vocab_size, "tie_embeddings"],
  ];
  const found = wrong.find(([isWrong]) => isWrong);
  if (found) throw new Refusal("The model's setting `{name}` does not go with its other settings.", { name: found[1] });
}
