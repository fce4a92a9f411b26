// The models of a tokenizer.json: BPE by its list of merges, WordPiece, whole words, unigram.

import { Agenda } from "./bpe.js";
import { PieceTable, UNKNOWN_PENALTY, bestPath } from "./unigram.js";
import { byteToken, utf8 } from "./utf8.js";

/**
 * The table of a model's tokens, and the function that cuts a word into their ids.
 * @param {any} model
 * @returns {{vocabulary: Map<string, number>, cut: (word: string) => number[]}}
 */
export function modelFrom(model) {
  const kind = model?.type ?? (Array.isArray(model?.vocab) ? "Unigram" : model?.merges ? "BPE" : "WordPiece");
  const vocabulary = new Map(/** @type {[string, number][]} */ (
    kind === "Unigram" ? model.vocab.map((/** @type {[string, number]} */ [piece], /** @type {number} */ i) => [piece, i])
      : Object.entries(model?.vocab ?? {})));
  switch (kind) {
    case "BPE": return { vocabulary, cut: byMerges(model, vocabulary) };
    case "WordPiece": return { vocabulary, cut: byWordPieces(model, vocabulary) };
    case "WordLevel": {
      const unknown = vocabulary.get(model.unk_token);
      return { vocabulary, cut: (word) => [vocabulary.get(word) ?? unknown ?? []].flat() };
    }
    case "Unigram": return { vocabulary, cut: byProbability(model, vocabulary) };
    default: throw new Error(`the tokenizer asks for the model \`${kind}\`, which this page does not run`);
  }
}

/**
 * The ids of the bytes of a text; null where one of them is no token.
 * @param {string} text
 * @param {Map<string, number>} vocabulary
 */
function byteIds(text, vocabulary) {
  const ids = Array.from(utf8(text), (byte) => vocabulary.get(byteToken(byte)));
  return ids.every((id) => id !== undefined) ? /** @type {number[]} */ (ids) : null;
}

/**
 * @param {any} model
 * @param {Map<string, number>} vocabulary
 */
function byMerges(model, vocabulary) {
  const prefix = model.continuing_subword_prefix ?? "", suffix = model.end_of_word_suffix ?? "";
  if (model.dropout) throw new Error("the tokenizer draws its merges at random, which this page does not do");
  const unknown = vocabulary.get(model.unk_token), span = Math.max(0, ...vocabulary.values()) + 1;
  /** The rank of a pair of ids, and the id of what it makes. @type {Map<number, [number, number]>} */
  const merges = new Map();
  (model.merges ?? []).forEach((/** @type {any} */ pair, /** @type {number} */ rank) => {
    const [left, right] = typeof pair === "string" ? pair.split(" ") : pair;
    const ids = [left, right, left + right.slice(prefix.length)].map((token) => vocabulary.get(token));
    if (ids.includes(undefined)) throw new Error(`the tokenizer merges \`${left}\` and \`${right}\` into no token`);
    const [first, second, made] = /** @type {number[]} */ (ids);
    merges.set(first * span + second, [rank, made]);
  });

  return (/** @type {string} */ word) => {
    const whole = model.ignore_merges ? vocabulary.get(word) : undefined;
    if (whole !== undefined) return [whole];
    const characters = Array.from(word);
    /** @type {number[]} */
    const ids = [];
    let pending = 0; // unknown characters that are not written yet
    const writeUnknown = () => {
      if (unknown !== undefined) ids.push(...Array(model.fuse_unk && pending ? 1 : pending).fill(unknown));
      pending = 0;
    };
    characters.forEach((character, i) => {
      const token = (i ? prefix : "") + character + (i === characters.length - 1 ? suffix : "");
      const id = vocabulary.get(token), bytes = id === undefined && model.byte_fallback ? byteIds(token, vocabulary) : null;
      if (bytes) ids.push(...bytes);
      else if (id === undefined) pending++;
      else {
        writeUnknown();
        ids.push(id);
      }
    });
    writeUnknown();
    return merged(ids, (left, right) => merges.get(left * span + right));
  };
}

/**
 * The ids after all merges, the one of the lowest rank first, of equal ones the left-most.
 * @param {number[]} ids
 * @param {(left: number, right: number) => [number, number] | undefined} mergeOf
 */
function merged(ids, mergeOf) {
  const count = ids.length, agenda = new Agenda();
  const before = ids.map((_, i) => i - 1), behind = ids.map((_, i) => i + 1);
  const consider = (/** @type {number} */ left, /** @type {number} */ right) => {
    const merge = left >= 0 && right < count ? mergeOf(ids[left], ids[right]) : undefined;
    if (merge) agenda.add({ left, right, score: -merge[0], end: merge[1] });
  };
  for (let i = 1; i < count; i++) consider(i - 1, i);
  for (let pair = agenda.take(); pair; pair = agenda.take()) {
    const { left, end: made } = pair, right = behind[left];
    if (ids[left] < 0 || right >= count || mergeOf(ids[left], ids[right])?.[1] !== made) continue;
    ids[left] = made;
    ids[right] = -1;
    behind[left] = behind[right];
    if (behind[left] < count) before[behind[left]] = left;
    consider(before[left], left);
    consider(left, behind[left]);
  }
  return ids.filter((id) => id >= 0);
}

/**
 * The longest token that a word begins with, and so on; a word that has none anywhere is unknown.
 * @param {any} model
 * @param {Map<string, number>} vocabulary
 */
function byWordPieces(model, vocabulary) {
  const prefix = model.continuing_subword_prefix ?? "##", most = model.max_input_chars_per_word ?? 100;
  const unknown = vocabulary.get(model.unk_token ?? "[UNK]");
  if (unknown === undefined) throw new Error(`the tokenizer's unknown word, \`${model.unk_token}\`, is not in its vocabulary`);
  return (/** @type {string} */ word) => {
    const characters = Array.from(word), ids = [];
    if (characters.length > most) return [unknown];
    for (let start = 0, end = 0; start < characters.length; start = end) {
      let id;
      for (end = characters.length; end > start; end--) {
        id = vocabulary.get((start ? prefix : "") + characters.slice(start, end).join(""));
        if (id !== undefined) break;
      }
      if (id === undefined) return [unknown];
      ids.push(id);
    }
    return ids;
  };
}

/**
 * @param {any} model
 * @param {Map<string, number>} vocabulary
 */
function byProbability(model, vocabulary) {
  const scores = model.vocab.map((/** @type {[string, number]} */ [, score]) => score), table = new PieceTable(vocabulary);
  const lowest = scores.reduce((/** @type {number} */ a, /** @type {number} */ b) => Math.min(a, b), Infinity);
  const unknown = model.unk_id;
  return (/** @type {string} */ word) => {
    const places = bestPath(word, table, (id) => scores[id], lowest - UNKNOWN_PENALTY, true);
    /** @type {string[]} */
    const pieces = [];
    let afterUnknown = false;
    places.slice(1).forEach((end, i) => {
      const piece = word.slice(places[i], end), isUnknown = (vocabulary.get(piece) ?? unknown) === unknown;
      if (isUnknown && afterUnknown) pieces[pieces.length - 1] += piece;
      else pieces.push(piece);
      afterUnknown = isUnknown;
    });
    return pieces.flatMap((piece) => {
      const id = vocabulary.get(piece);
      if (id !== undefined) return [id];
      const bytes = model.byte_fallback ? byteIds(piece, vocabulary) : null;
      if (!bytes && typeof unknown !== "number") throw new Error("the tokenizer has no piece for an unknown character");
      return bytes ?? [unknown];
    });
  };
}
