// What may be asked of the page's model: requests that cannot be are refused in a sentence, with the value.

import { Refusal, shown } from "../model/refusal.js";

/** @typedef {import("./opening.js").Opened} Opened */

const HOW = ["off", "layersOff", "hidden"];
const SEARCH = ["beamSize", "nBest", "lengthPenalty", "maxLength", "temperature", "topK", "topP", "seed", "prefix", "top", "segment", "place"];
/** The options of each method. @type {Record<string, string[]>} */
const OPTIONS = {
  translate: [...SEARCH, ...HOW],
  generate: [...SEARCH, "maxNewTokens", ...HOW],
  classify: ["second", ...HOW],
  score: ["top", ...HOW],
  trace: [...SEARCH, "search", "second", ...HOW],
};

/**
 * @param {Opened} opened
 * @param {string} method
 * @param {any[]} args
 */
export function checkRequest({ config }, method, args) {
  const needsText = ["translate", "generate", "classify", "encode"].includes(method);
  if (needsText && typeof args[0] !== "string") throw new Refusal("A text is needed, not {found}.", { found: shown(args[0] ?? null) });
  const known = OPTIONS[method], asked = args[args.length - 1];
  if (!known || typeof asked !== "object" || asked === null || Array.isArray(asked)) return;
  const odd = Object.keys(asked).find((name) => !known.includes(name));
  if (odd) throw new Refusal("There is no option `{name}`; there are {known}.", { name: odd, known: known.join(", ") });
  for (const name of HOW) if (asked[name] !== undefined && !Array.isArray(asked[name])) throw listOf(name, asked[name]);
  if (asked.prefix !== undefined && !isIds(asked.prefix)) throw listOf("prefix", asked.prefix);
  for (const head of asked.off ?? []) if (!heads(config).has(head)) throw new Refusal("The model has no head `{head}`; the first is `{first}`.", { head: shown(head), first: [...heads(config)][0] });
  for (const layer of asked.layersOff ?? []) if (!layers(config).has(layer)) throw new Refusal("The model has no layer `{layer}`; there are {known}.", { layer: shown(layer), known: [...layers(config)].join(", ") });
  for (const place of asked.hidden ?? []) if (!Number.isInteger(place) || place < 0) throw new Refusal("Places that are hidden are counted from 0, but one is {found}.", { found: shown(place) });
}

/** @param {string} name @param {unknown} found */
const listOf = (name, found) => new Refusal("`{name}` must be a list, not {found}.", { name, found: shown(found) });

/** Ids, or a list of ids for each piece. @param {unknown} given @returns {boolean} */
const isIds = (given) => Array.isArray(given) && given.every((one) => Number.isInteger(one) || (Array.isArray(one) && one.every(Number.isInteger)));

/** @param {any} config */
function heads(config) {
  const found = new Set();
  const { num_encoder_layers: encoder, num_decoder_layers: decoder, num_heads: count } = config;
  for (const [name, number] of /** @type {[string, number][]} */ ([["encoder.self", encoder], ["decoder.self", decoder], ["cross", encoder ? decoder : 0]])) {
    for (let layer = 0; layer < number; layer++) for (let head = 0; head < count; head++) found.add(`${name}.${layer}.${head}`);
  }
  return found;
}

/** @param {any} config */
function layers({ num_encoder_layers: encoder, num_decoder_layers: decoder }) {
  return new Set([...Array.from({ length: encoder }, (_, n) => `encoder.${n}`), ...Array.from({ length: decoder }, (_, n) => `decoder.${n}`)]);
}
