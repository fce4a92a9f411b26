// What one sees of a sentence, told in sentences: how sure the model was, which head is worth a look, what mattered.

import { plain } from "../show/labels.js";
import { leastSure, percent, percents, times } from "./words.js";

/** @typedef {import("./words.js").Word} Word */

/**
 * @typedef {Object} Finding
 * @property {string} text the English text, with names in braces
 * @property {Record<string, string | number>} values
 * @property {string[]} views where it can be seen; the first that the page has
 * @property {Record<string, string | number>} [state] what is chosen there
 */

/**
 * How sure the model was and where least.
 * @param {Word[]} written
 * @param {boolean} [searched] whether a search wrote it, which weighs whole sentences
 * @returns {Finding | null}
 */
export function ofSureness(written, searched = false) {
  const least = leastSure(written);
  if (!least || least.probability === null) return null;
  if (least.probability >= 0.9) return { text: "The model was sure of every word: {least} for the least sure of them.", values: { least: percent(least.probability) }, views: ["lens", "translate", "beam"] };
  const unsure = least.pieces.reduce((/** @type {any} */ found, piece) => (found === null || (piece.probability ?? 1) < (found.probability ?? 1) ? piece : found), null);
  const spelled = (/** @type {number} */ place) => unsure.top.tokens[place].replace(/^[▁Ġ]/, "").trim();
  const other = unsure?.top?.ids.findIndex((/** @type {number} */ id, /** @type {number} */ place) => id !== unsure.id && spelled(place) !== unsure.text.trim()) ?? -1;
  const views = ["lens", "translate", "beam"], state = { word: `out:${unsure?.place ?? 0}` };
  if (least.pieces.length > 1 || other < 0) return { text: "The model was least sure of “{word}”: {chance}.", values: { word: plain(least.text), chance: percent(least.probability) }, views, state };
  const [chance, second] = percents(least.probability, unsure.top.probabilities[other]), likelier = unsure.top.probabilities[other] > least.probability;
  const values = { word: plain(least.text), chance, second, other: plain(spelled(other)) };
  if (likelier && searched) return { text: "The model was least sure of “{word}”: {chance}. At that place “{other}” was likelier: {second}. The search took what made the better whole.", values, views, state };
  if (likelier) return { text: "The model was least sure of “{word}”: {chance}. At that place “{other}” was likelier: {second}.", values, views, state };
  return { text: "The model was least sure of “{word}”: {chance}. It might have written “{other}”: {second}.", values, views, state };
}

/**
 * @param {{label: string, probability: number}[]} classes
 * @returns {Finding | null}
 */
export function ofClasses(classes) {
  const [first, second] = [...classes].sort((a, b) => b.probability - a.probability);
  if (!first) return null;
  if (!second) return { text: "The model says “{label}”, with {chance}.", values: { label: plain(first.label), chance: percent(first.probability) }, views: ["what_if", "translate"] };
  return { text: "The model says “{label}”, with {chance}; next is “{other}”, with {second}.", values: { label: plain(first.label), chance: percent(first.probability), other: plain(second.label), second: percent(second.probability) }, views: ["what_if", "translate"] };
}

/** @typedef {import("../data/looks.js").Looks & {attention: string, layer: number, head: number}} Look */

/**
 * The head that follows the words best.
 * @param {Look[]} all
 * @returns {Look | null}
 */
export const following = (all) => all.reduce((/** @type {Look | null} */ best, one) => (!best || one.follows > best.follows ? one : best), null);

/**
 * What the attentions show, in a sentence: the head that aligns, or those that look one back, or those that rest.
 * @param {Look[]} all
 * @param {Look | null} [kept] the head that aligns, where held-out text has shown which one does
 * @returns {Finding | null}
 */
export function ofHeads(all, kept = null) {
  const cross = all.filter((one) => one.attention === "cross"), self = all.filter((one) => one.attention !== "cross" && !one.attention.startsWith("search"));
  const aligning = kept ?? following(cross);
  if (aligning) {
    const values = { layer: aligning.layer, head: aligning.head, share: percent(aligning.sharp) }, state = { attention: "cross", layer: aligning.layer, head: aligning.head, heads: String(aligning.head) };
    if (kept) return { text: "Layer {layer}, head {head} of the cross-attention aligns the words, as held-out text has shown: here {share} of it goes to one word read for each word written, on average.", values, views: ["alignment", "matrix", "heads"], state };
    if (aligning.aligned) return { text: "Layer {layer}, head {head} of the cross-attention follows the words best: for each word written, {share} of it goes to one word read, on average.", values, views: ["alignment", "matrix", "heads"], state };
    return { text: "Layer {layer}, head {head} is the sharpest of the cross-attention: for each word written, {share} of it goes to one word read, on average.", values, views: ["matrix", "heads"], state };
  }
  const back = self.reduce((/** @type {Look | null} */ best, one) => (!best || one.before > best.before ? one : best), null), resting = self.filter((one) => one.first > 0.5).length;
  if (back && back.before >= 0.5) {
    return { text: "Layer {layer}, head {head} looks one token back: {share} of its attention goes there.", values: { layer: back.layer, head: back.head, share: percent(back.before) }, views: ["matrix", "heads"], state: { attention: back.attention, layer: back.layer, head: back.head, heads: String(back.head) } };
  }
  if (resting) return { text: "{count} of {all} heads give more than half of their attention to the first token: a place to rest where nothing else is to be done.", values: { count: resting, all: self.length }, views: ["model", "heads"] };
  const sharpest = following(self);
  return sharpest && { text: "Layer {layer}, head {head} is the sharpest that does not rest on one token: {share} of it goes to one token, on average.", values: { layer: sharpest.layer, head: sharpest.head, share: percent(sharpest.sharp) }, views: ["matrix", "heads"], state: { attention: sharpest.attention, layer: sharpest.layer, head: sharpest.head, heads: String(sharpest.head) } };
}

/**
 * Which word that was read mattered most, by hiding each.
 * @param {{places: number[], text: string, change: number}[]} found
 * @returns {Finding | null}
 */
export function ofOcclusion(found) {
  const most = found.reduce((/** @type {typeof found[0] | null} */ best, one) => (!best || one.change > best.change ? one : best), null);
  if (!most || most.change < 0.05) return null;
  return { text: "The output depends most on “{word}”: without it, it is {times} times less likely.", values: { word: plain(most.text.trim()), times: times(most.change) }, views: ["what_if"], state: { hidden: most.places.join(",") } };
}

/**
 * Which word that was read was looked at most, where nothing can be hidden.
 * @param {Look | null} look
 * @param {import("../data/trace.js").Token[]} columns
 * @returns {Finding | null}
 */
export function ofMost(look, columns) {
  if (!look || look.most < 0 || !columns[look.most]) return null;
  return { text: "Of the words read, this head looks most at “{word}”: {share} of all its attention.", values: { word: plain(columns[look.most].text.trim()), share: percent(look.share) }, views: ["text", "matrix", "heads"], state: { attention: look.attention, layer: look.layer, head: look.head, heads: String(look.head) } };
}
