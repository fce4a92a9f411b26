// How the parts of a model are called: by the list that the page carries (src/pellucid/views/words.json), as in stills.

import { learn, t } from "../shell/language.js";

/** @type {Record<string, [string, string]>} each name in English and in Korean */
let names = {};

/** Takes the list of a page. @param {Record<string, [string, string]>} given */
export function takeNames(given) {
  names = given;
  learn(Object.fromEntries(Object.values(given)));
}

/**
 * A name in the language that is chosen; what has none is called as it is.
 * @param {string} key
 * @param {Record<string, string | number>} [values]
 */
export const named = (key, values) => (key in names ? t(names[key][0], values) : t(key));

/** An attention where there is little room. @param {string} kind */
export const nameShort = (kind) => (`short ${kind}` in names ? named(`short ${kind}`) : kind);

/** An attention, or the other sublayer, of a layer, and one of its heads. @param {string} kind @param {number} layer @param {number} [head] */
export function nameAttention(kind, layer, head) {
  const part = named(kind);
  return head === undefined ? named("layer and part", { layer, part }) : named("layer, part and head", { layer, part, head });
}

/** A part that adds to a logit. @param {import("../analysis/contributions.js").Part} part */
export function namePart({ name, attention, layer, head }) {
  return layer === undefined ? named(name) : nameAttention(attention ?? "feed_forward", layer, head);
}

/** A stage of the lens: "layer 0 self_attn". @param {string} stage */
export function nameStage(stage) {
  const [, layer, sublayer] = /^layer (\d+) (\w+)$/.exec(stage) ?? [];
  return sublayer ? nameAttention(sublayer, Number(layer)) : named(stage);
}
