// The steps of attention: what each shows of the chosen place and head, section 3.2 of the paper.

import { el } from "../dom.js";
import { largest } from "../data/numbers.js";
import { label } from "../show/labels.js";
import { t } from "../shell/language.js";
import { both, formula, frac, root, row, sub, sum, sup, words } from "./formula.js";
import { called, heading, indexed, lines, plus, two } from "./kit.js";

/** @typedef {import("./shown.js").Scene} Scene */

/** What the attention looks at, and from where. @param {Scene} scene */
function seen({ step, record, place, head, tokens }) {
  const { H, G, K, M } = record, shared = Math.floor(head / (H / G)), keys = step.sublayer === "cross_attn" ? tokens.src : tokens[step.stack === "encoder" ? "src" : "tgt"];
  const of = (/** @type {Float32Array} */ all, /** @type {number} */ group, /** @type {number} */ length, /** @type {number} */ at) => all.subarray((group * length + at) * K, (group * length + at + 1) * K);
  const cell = (head * record.L + place) * M;
  return {
    K, M, keys,
    q: of(record.q, head, record.L, place), k: (/** @type {number} */ j) => of(record.k, shared, M, j), v: (/** @type {number} */ j) => of(record.v, shared, M, j),
    scores: record.scores.subarray(cell, cell + M), weights: record.weights.subarray(cell, cell + M),
    allowed: (/** @type {number} */ j) => !record.mask || record.mask[place * M + j] === 1,
  };
}

/** The key that is looked at: the one that was chosen, else the one with the largest weight. @param {Scene} scene */
function keyOf(scene) {
  const { weights, M } = seen(scene), asked = scene.app.state.get("step.key");
  return asked === "" ? largest(weights, 1)[0] : Math.min(Number(asked) || 0, M - 1);
}

/** @param {Scene} scene @param {number} j */
const choose = (scene, j) => () => scene.app.state.set({ "step.key": j });

/** The product of two vectors, spelled out. @param {Float32Array} a @param {Float32Array} b @returns {[string, string][]} */
const products = (a, b) => Array.from(a, (one, d) => [two(one), two(b[d])]);

/** @type {Record<string, import("./shown.js").Lesson>} */
export const ATTENDING = {
  project: {
    formula: ({ step, config }) => {
      const from = step.sublayer === "cross_attn" ? "m" : "x", bias = config.qkv_bias ? ["+", "b"] : [];
      return formula("q", "=", "x", both("W", "i", "Q"), ...bias, words(",\u2003"), "k", "=", from, both("W", "i", "K"), ...bias, words(",\u2003"), "v", "=", from, both("W", "i", "V"), ...bias);
    },
    says: ({ step }) => (step.sublayer === "cross_attn"
      ? t("The word being written asks (query); every word of the source answers with a key, and offers a value. Queries come from the decoder, keys and values from the encoder's output m.")
      : t("Each word's vector is multiplied by three learned matrices. The query says what the word looks for, the key what it can be found by, the value what it gives when it is found.")),
    needs: ({ step }) => [step.place + ".qkv_proj.weight", step.place + ".qkv_proj.bias"],
    shows: (scene) => {
      const { kit, record, place, head, D, tensors, step } = scene, { q, k, v, K, keys, weights } = seen(scene);
      const x = record.input.subarray(place * D, (place + 1) * D), d = kit.dimension("head", K), W = tensors.get(step.place + ".qkv_proj.weight");
      const places = kit.places(weights), vectors = [q, ...places.map(k)], most = kit.most(...vectors), mostV = kit.most(...places.map(v));
      const turned = step.sublayer === "self_attn" && scene.config.positions === "rotary", whole = W && !scene.config.qk_norm && !turned;
      const column = whole && W.data.subarray((head * K + d) * D, (head * K + d + 1) * D), bias = tensors.get(step.place + ".qkv_proj.bias")?.data[head * K + d] ?? 0;
      return [
        lines(kit.strip(t("x, the word's vector"), x, { space: "model", symbol: "x" }), kit.strip(t("q, its query"), q, { space: "head", most, symbol: "q" })),
        column ? kit.sum(indexed("q", d), products(x, column), two(q[d]), { after: plus(bias) }) : null,
        // The model tells of both as it multiplies them, behind the rotation.
        turned ? el("p", { class: "note" }, t("q and k are shown as they are after the next step, which turns them.")) : null,
        heading(t("Keys k and values v of the words that can be looked at")),
        el("div", { class: "pairs" }, ...places.map((j) => el("div", { class: "pair" }, el("span", { class: "name" }, el("bdi", {}, label(keys[j], 14))),
          kit.strip("k", k(j), { space: "head", most }), kit.strip("v", v(j), { space: "head", most: mostV })))),
        kit.left(places.length, keys.length),
        scene.config.num_kv_heads && scene.config.num_kv_heads < record.H ? el("p", { class: "note" }, t("{heads} heads of queries share {groups} heads of keys and values.", { heads: record.H, groups: record.G })) : null,
      ];
    },
  },
  turn: {
    formula: ({ config }) => formula(row("(", sub("q", "i"), ",", sub("q", row("i", "+", sub("d", "k"), "/", "2")), ")"), "↦", words("\u2002"), words("rotation by\u2002"), "pos", "·", sup(String(config.rotary_base), row("−", "2i", "/", sub("d", "k")))),
    says: () => t("This model does not add positions to its words. It turns each pair of numbers of a query and a key by an angle that grows with the position, so that their product depends on the distance between the words."),
    shows: (scene) => {
      const { kit } = scene, { q, k, keys, weights } = seen(scene), places = kit.places(weights), most = kit.most(q, ...places.map(k));
      return [lines(kit.strip(t("q, turned"), q, { space: "head", most, symbol: "q" })), heading(t("Keys, turned")), lines(...places.map((j) => kit.strip(label(keys[j], 16), k(j), { space: "head", most })))];
    },
  },
  scores: {
    formula: () => formula(sub("score", "j"), "=", frac(row("q", "·", sub("k", "j")), root(sub("d", "k")))),
    says: ({ record }) => t("How well does the query fit each key? Both vectors are multiplied number by number and added up; the sum is divided by the root of {width}, so that wide heads do not give huge scores.", { width: record.K }),
    shows: (scene) => {
      const { kit } = scene, { q, k, K, keys, scores, weights } = seen(scene), j = keyOf(scene), places = kit.places(weights, [j]), most = kit.most(q, ...places.map(k));
      const plain = q.reduce((total, one, d) => total + one * k(j)[d], 0) / Math.sqrt(K), bias = scores[j] - plain;
      const rows = places.map((at) => kit.row(keys[at], { chosen: at === j, choose: choose(scene, at), middle: kit.picture(k(at), { space: "head", most }), value: two(scores[at]) }));
      return [
        lines(kit.strip(t("q of “{word}”", { word: called(scene.token) }), q, { space: "head", most, symbol: "q" }), kit.strip(t("k of “{word}”", { word: called(keys[j]) }), k(j), { space: "head", most, symbol: "k" }),
          kit.strip(t("their products"), q.map((one, d) => one * k(j)[d]), { space: "head", symbol: "q·k" })),
        kit.sum(el("span", {}, t("score of “{word}”", { word: called(keys[j]) })), products(q, k(j)), two(scores[j]), { before: "(", after: `) / ${two(Math.sqrt(K))}` + (Math.abs(bias) > 5e-4 ? ` + ${t("bias of the distance")} ${two(bias)}` : "") }),
        heading(t("The key of each word, and its score; click a word for its sum")), lines(...rows), kit.left(places.length, keys.length),
      ];
    },
  },
  mask: {
    formula: () => formula(sub("score", "j"), "=", row("−", "∞"), words("\u2003"), words(t("where j must not be seen"))),
    says: ({ step }) => (step.stack === "decoder" && step.sublayer === "self_attn"
      ? t("A word that is being written may not see the words behind it: they are not there yet when the model writes for itself. Their scores become −∞, and −∞ becomes the weight 0.")
      : t("These words are hidden: their scores become −∞, so that nobody looks at them.")),
    shows: (scene) => {
      const { kit, record, place } = scene, { keys, scores, weights, allowed } = seen(scene), places = kit.places(weights.map((/** @type {number} */ one, /** @type {number} */ j) => one + (allowed(j) ? 0 : 0.5)));
      const left = { shown: places.length, count: keys.length };
      return [el("div", { class: "beside" },
        el("div", {}, heading(t("The scores of “{word}”", { word: called(scene.token) })), lines(...places.map((j) => kit.row(keys[j], { chosen: false, choose: null, middle: null, value: allowed(j) ? two(scores[j]) : `${two(scores[j])} → −∞`, struck: !allowed(j) }))),
          kit.left(left.shown, left.count, t("{shown} of {count} tokens are shown: hidden ones, and those with the largest weights.", left))),
        el("div", {}, heading(t("Who may see whom: a row looks, a column is looked at")), scene.triangle(record, place))),
      ];
    },
  },
  softmax: {
    formula: () => formula(sub("α", "j"), "=", "softmax", "(", sub("score", "j"), ")", "=", frac(sup("e", sub("score", "j")), sum("m", sup("e", sub("score", "m"))))),
    says: () => t("The exponential makes every score positive and large ones much larger; divided by their sum they become weights between 0 and 1 that add up to 1. This is what the other views draw."),
    shows: (scene) => {
      const { kit } = scene, { keys, scores, weights, allowed } = seen(scene), j = keyOf(scene), places = kit.places(weights, [j]);
      const open = Array.from(scores, (_, at) => at).filter(allowed), powers = open.map((at) => Math.exp(scores[at])), total = powers.reduce((a, b) => a + b, 0);
      const order = largest(powers, powers.length);
      return [
        lines(...places.map((at) => kit.row(keys[at], { chosen: at === j, choose: choose(scene, at), middle: null, value: weights[at].toFixed(3), bar: weights[at], struck: !allowed(at) }))),
        kit.left(places.length, keys.length),
        allowed(j) && total < 1e12 ? kit.sum(el("span", {}, t("sum of all"), " ", el("i", {}, "e"), el("sup", {}, t("score"))), order.map((at) => two(powers[at])), two(total), { labels: order.map((at) => label(keys[open[at]], 12)) }) : null,
        allowed(j) ? el("p", { class: "sum" }, el("span", {}, indexed("α", j)), " ", t("of “{word}”", { word: called(keys[j]) }), " = ", el("i", {}, "e"), el("sup", {}, two(scores[j])), ` / ${total < 1e12 ? two(total) : t("sum of all")} = `, el("b", {}, weights[j].toFixed(3))) : null,
      ];
    },
  },
  values: {
    formula: ({ head }) => formula(sub("head", String(head)), "=", sum("j", sub("α", "j"), sub("v", "j"))),
    says: () => t("Now the values count: each word's value times its weight, all added up. A word that is looked at much leaves much of itself in the result; this sum is all that the head brings along."),
    shows: (scene) => {
      const { kit, record, place, head } = scene, { v, K, keys, weights, allowed } = seen(scene), d = kit.dimension("head", K), places = kit.places(weights);
      const scaled = places.map((j) => v(j).map((one) => one * weights[j]));
      const out = record.heads.subarray((place * record.H + head) * K, (place * record.H + head + 1) * K), most = kit.most(out, ...scaled);
      const open = Array.from(weights, (_, j) => j).filter(allowed), order = open.sort((a, b) => weights[b] - weights[a]);
      const off = out.every((/** @type {number} */ one) => one === 0);
      return [
        heading(t("What the head gives: the sum")), lines(kit.strip(t("head {head}", { head }), out, { space: "head", most, symbol: "z" })),
        off ? el("p", { class: "note" }, t("This head is switched off: it gives zeros.")) : kit.sum(indexed("z", d), order.map((j) => /** @type {[string, string]} */ ([weights[j].toFixed(2), two(v(j)[d])])), two(out[d]), { labels: order.map((j) => label(keys[j], 12)) }),
        heading(t("Weight times value, word by word")),
        lines(...places.map((j, i) => kit.row(keys[j], { chosen: false, choose: null, middle: kit.picture(scaled[i], { space: "head", most }), value: weights[j].toFixed(3), struck: !allowed(j) }))),
        kit.left(places.length, keys.length),
      ];
    },
  },
  join: {
    formula: ({ record, config }) => formula("MultiHead", "=", "Concat", "(", sub("head", "0"), ",", "…", ",", sub("head", String(record.H - 1)), ")", sup("W", "O"), ...(config.bias ? ["+", "b"] : [])),
    says: ({ record }) => t("All {heads} heads did the same with matrices of their own. What they give is laid side by side and mixed by one more matrix, which brings it back to the width of the model.", { heads: record.H }),
    needs: ({ step }) => [step.place + ".out_proj.weight", step.place + ".out_proj.bias"],
    shows: (scene) => {
      const { kit, record, place, D, tensors, step } = scene, { H, K } = record, joined = record.heads.subarray(place * H * K, (place + 1) * H * K);
      const out = record.output.subarray(place * D, (place + 1) * D), d = kit.dimension("model", D), W = tensors.get(step.place + ".out_proj.weight"), bias = tensors.get(step.place + ".out_proj.bias")?.data[d] ?? 0;
      return [
        lines(kit.strip(t("all heads, side by side"), joined, { space: "joined", cut: K, symbol: "z" }), kit.strip(t("what attention adds"), out, { space: "model", symbol: "y" })),
        W ? kit.sum(indexed("y", d), products(joined, W.data.subarray(d * H * K, (d + 1) * H * K)), two(out[d]), { after: plus(bias) }) : null,
      ];
    },
  },
};
