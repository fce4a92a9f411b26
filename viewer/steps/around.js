// The steps around attention: embeddings, residual sums, norms, the feed-forward network, and what comes out at the end.

import { button, el } from "../dom.js";
import { figure, label } from "../show/labels.js";
import { t } from "../shell/language.js";
import { formula, frac, root, row, sub, sum, sup, words } from "./formula.js";
import { called, heading, indexed, lines, plus, two } from "./kit.js";

/** @typedef {import("./shown.js").Scene} Scene */

/** So many words are shown of a vocabulary. */
export const TOP_WORDS = 10;
/** So many tokens of the encoder's output. */
const MEMORY_SHOWN = 40;

/** The row of the chosen place. @param {Scene} scene @param {Float32Array} all @param {number} width */
const at = ({ place }, all, width) => all.subarray(place * width, (place + 1) * width);

/** Mean and deviation as the norm takes them. @param {Float32Array} x @param {any} config */
function spread(x, { norm_type, norm_eps }) {
  const mean = norm_type === "rms" ? 0 : x.reduce((a, b) => a + b, 0) / x.length;
  return { mean, deviation: Math.sqrt(x.reduce((a, b) => a + (b - mean) ** 2, 0) / x.length + norm_eps) };
}

/** A norm of the chosen place, with one number of it spelled out. @param {Scene} scene */
function normed(scene) {
  const { kit, record, D, tensors, step, config } = scene, x = at(scene, record.input, D), y = at(scene, record.output, D), d = kit.dimension("model", D);
  const { mean, deviation } = spread(x, config), gain = tensors.get(step.place + ".weight")?.data[d], bias = tensors.get(step.place + ".bias")?.data[d];
  const centred = config.norm_type === "rms" ? two(x[d]) : `(${two(x[d])} − ${mean < 0 ? `(${two(mean)})` : two(mean)})`;
  return [
    lines(kit.strip(t("before"), x, { space: "model", symbol: "x" }), kit.strip(t("after"), y, { space: "model", symbol: "y" })),
    el("p", { class: "sum" }, ...(config.norm_type === "rms" ? [] : [el("i", {}, "μ"), ` = ${two(mean)}, `]), el("i", {}, "σ"), ` = ${two(deviation)}`),
    gain === undefined ? null : el("p", { class: "sum" }, indexed("y", d), ` = ${centred} / ${two(deviation)} · ${two(gain)}${plus(bias)} = `, el("b", {}, two(y[d]))),
  ];
}

/** @param {Scene} scene */
const normFormula = ({ config }) => (config.norm_type === "rms"
  ? formula("RMSNorm", "(", "x", ")", "=", frac("x", root(row("mean", "(", sup("x", "2"), ")"))), "⊙", "γ")
  : formula("LayerNorm", "(", "x", ")", "=", frac(row("x", "−", "μ"), "σ"), "⊙", "γ", ...(config.bias ? ["+", "β"] : [])));

/** @param {Scene} scene */
const ofNorm = ({ step }) => [step.place + ".weight", step.place + ".bias"];

/** The words with the largest logits, and the one that is looked at. @param {Scene} scene */
function outcome(scene) {
  const { record, place, app, words: known } = scene, logits = record.logits.length === known.width ? record.logits : record.logits.subarray(place * known.width, (place + 1) * known.width);
  const asked = app.state.get("step.word"), chosen = known.ids.includes(Number(asked)) && asked !== "" ? Number(asked) : known.written;
  const most = logits.reduce((/** @type {number} */ a, /** @type {number} */ b) => Math.max(a, b), -Infinity);
  let total = 0;
  for (const one of logits) total += Math.exp(one - most);
  return { logits, chosen, most, total, choose: (/** @type {number} */ id) => () => app.state.set({ "step.word": id }) };
}

/** @param {Scene} scene @param {number} id */
const wordOf = ({ words: known }, id) => known.names[known.ids.indexOf(id)] ?? String(id);

/** @param {Scene} scene */
function logitBars(scene) {
  const { kit, words: known } = scene, { logits, chosen, choose } = outcome(scene), first = logits[known.ids[0]], last = Math.min(0, ...known.ids.map((id) => logits[id]));
  return kit.bars(known.ids.map((id) => ({ name: wordOf(scene, id), value: two(logits[id]), share: (logits[id] - last) / (first - last || 1), chosen: id === chosen, choose: choose(id) })));
}

/** @param {Scene} scene */
function probabilityBars(scene) {
  const { kit, words: known } = scene, { logits, chosen, most, total, choose } = outcome(scene), p = (/** @type {number} */ id) => Math.exp(logits[id] - most) / total;
  const whole = total * Math.exp(most);
  return [
    kit.bars(known.ids.map((id) => ({ name: wordOf(scene, id), value: p(id) < 5e-4 ? "< 0.001" : p(id).toFixed(3), share: p(id), chosen: id === chosen, choose: choose(id) }))),
    el("p", { class: "sum" }, el("i", {}, "p"), " ", t("of “{word}”", { word: wordOf(scene, chosen) }), " = ", el("i", {}, "e"), el("sup", {}, two(logits[chosen])), ` / ${whole < 1e15 ? figure(whole, whole < 100 ? 2 : 0) : t("sum of all")} = `, el("b", {}, figure(p(chosen), 3))),
  ];
}

/** @type {Record<string, import("./shown.js").Lesson>} */
export const AROUND = {
  embedding: {
    formula: ({ config }) => (config.scale_embeddings ? formula("x", "=", sub("E", "id"), "·", root(sub("d", "model"))) : formula("x", "=", sub("E", "id"))),
    says: ({ config }) => t("The tokenizer gives every piece of the sentence a number; the number picks a row of a learned table. That row is the word's vector.")
      + (!config.scale_embeddings ? "" : " " + (["sinusoidal", "learned"].includes(config.positions) ? t("It is multiplied by the root of {width}, so that the positions added next do not drown it.", { width: config.d_model })
        : t("It is multiplied by the root of {width}.", { width: config.d_model }))),
    shows: (scene) => {
      const { kit, record, D, config, token } = scene, x = at(scene, record.tokens, D), scale = config.scale_embeddings ? Math.sqrt(config.d_model) : 1, row = x.map((/** @type {number} */ one) => one / scale), d = kit.dimension("model", D);
      return [
        el("p", { class: "sum" }, t("“{word}” is number {id} of the vocabulary.", { word: called(token, 20), id: String(record.ids[scene.place]) })),
        lines(kit.strip(t("row of the table"), row, { space: "model", symbol: "E" }), scale === 1 ? null : kit.strip(t("times the root of {width}", { width: config.d_model }), x, { space: "model", symbol: "x" })),
        scale === 1 ? null : kit.sum(indexed("x", d), [[two(row[d]), two(scale)]], two(x[d])),
      ];
    },
  },
  positions: {
    formula: ({ config }) => (config.positions === "learned" ? formula("x", "←", "x", "+", sub("P", "pos"))
      : formula(sub("PE", row("(", "pos", ",", "2i", ")")), "=", "sin", "(", "pos", "/", sup("10000", row("2i", "/", sub("d", "model"))), ")", words(",\u2003"), sub("PE", row("(", "pos", ",", "2i+1", ")")), "=", "cos", "(", "…", ")")),
    says: ({ config }) => (config.positions === "learned"
      ? t("Attention by itself does not know the order of words. So each place has a learned vector, which is added to the word's.")
      : t("Attention by itself does not know the order of words. So each place has a pattern of sines and cosines, fast at the left and slow at the right, which is added to the word's vector.")),
    shows: (scene) => {
      const { kit, record, D, config, place } = scene, x = at(scene, record.tokens, D), p = at(scene, record.positions, D), after = x.map((/** @type {number} */ one, /** @type {number} */ i) => one + p[i]), d = kit.dimension("model", D);
      const wave = config.positions === "learned" ? null : el("p", { class: "sum" }, el("span", {}, indexed("PE", d)), ` = ${d % 2 ? "cos" : "sin"}(${place} / 10000`, el("sup", {}, `${d - (d % 2)}/${D}`), ") = ", el("b", {}, two(p[d])));
      return [
        lines(kit.strip(t("the word"), x, { space: "model", symbol: "x" }), kit.strip(t("its position, {place}", { place }), p, { space: "model", symbol: "PE" }), kit.strip(t("together"), after, { space: "model", symbol: "x" })),
        wave, kit.sum(indexed("x", d), [two(x[d]), two(p[d])], two(after[d])),
      ];
    },
  },
  segments: {
    formula: () => formula("x", "←", "x", "+", sub("S", "segment")),
    says: () => t("A model that reads two texts adds a learned vector that says which of them a word belongs to, as BERT does."),
    shows: (scene) => [lines(scene.kit.strip(t("the segment's vector"), at(scene, scene.record.segments, scene.D), { space: "model", symbol: "s" }))],
  },
  norm: {
    formula: normFormula, needs: ofNorm, shows: normed,
    says: ({ config, step }) => (config.norm_type === "rms" ? t("The vector is scaled so that the mean of its squares is 1, then multiplied by learned numbers. That keeps vectors of one size through all layers.")
      : t("The vector is shifted and scaled so that its numbers have mean 0 and deviation 1, then multiplied by learned numbers. That keeps vectors of one size through all layers.")) + " "
      + (step.sublayer === "embedding" ? "" : config.norm === "pre"
        ? t("The paper has it behind the residual sum; this model, as most today, before the sublayer.") : t("It stands behind the residual sum, as in the paper: LayerNorm(x + Sublayer(x)).")),
  },
  final: {
    formula: normFormula, needs: ofNorm, shows: normed,
    says: () => t("Where norms stand before the sublayers, nothing has normalised the last sum: one more norm does it. The paper, with its norms behind the sums, needs none."),
  },
  add: {
    formula: ({ config }) => formula("x", "←", "x", "+", "Sublayer", "(", ...(config.norm === "pre" ? ["LayerNorm", "(", "x", ")"] : ["x"]), ")"),
    says: () => t("What the sublayer gives is added to what came in. Nothing is replaced: each sublayer writes a little into the same vector, which runs through all layers (the residual stream)."),
    shows: (scene) => {
      const { kit, record, D, step } = scene, x = at(scene, record.before, D), added = at(scene, record.added, D), after = x.map((/** @type {number} */ one, /** @type {number} */ i) => one + added[i]);
      const most = kit.most(x, added, after), d = kit.dimension("model", D);
      return [
        lines(kit.strip(t("what came in"), x, { space: "model", most, symbol: "x" }), kit.strip(step.sublayer === "feed_forward" ? t("what feed-forward adds") : t("what attention adds"), added, { space: "model", most, symbol: "y" }), kit.strip(t("together"), after, { space: "model", most, symbol: "x" })),
        kit.sum(indexed("x", d), [two(x[d]), two(added[d])], two(after[d])),
      ];
    },
  },
  inner: {
    formula: ({ config, record }) => {
      const inside = row("x", sub("W", "1"), ...(config.bias ? ["+", sub("b", "1")] : [])), name = config.activation === "relu" ? null : config.activation.replace("gelu_tanh", "gelu").toUpperCase();
      if (record.gate) return formula("h", "=", name ?? "ReLU", "(", "x", sub("W", "g"), ")", "⊙", "(", inside, ")");
      return name ? formula("h", "=", name, "(", inside, ")") : formula("h", "=", "max", "(", "0", ",", inside, ")");
    },
    says: ({ config, record }) => t("Each place by itself goes through a small network: first up to {wide} numbers.", { wide: config.d_ff }) + " "
      + (config.activation === "relu" && !record.gate ? t("Whatever is negative becomes 0, so that only some of these units speak for this word.") : t("The activation lets some of these units through and holds others back.")),
    needs: ({ step }) => [step.place + ".up_proj.weight", step.place + ".up_proj.bias"],
    shows: (scene) => {
      const { kit, record, D, tensors, step, config } = scene, F = config.d_ff, x = at(scene, record.input, D), up = at(scene, record.up, F), h = at(scene, record.activated, F), d = kit.dimension("inner", F);
      const W = tensors.get(step.place + ".up_proj.weight"), bias = tensors.get(step.place + ".up_proj.bias")?.data[d] ?? 0, active = h.filter((/** @type {number} */ one) => one > 0).length;
      return [
        lines(kit.strip(t("x, what comes in"), x, { space: "model", symbol: "x" }), record.gate ? kit.strip(t("the gate"), at(scene, record.gate, F), { space: "inner", symbol: "g" }) : null,
          kit.strip(record.gate ? "x W₁ + b₁" : t("before the activation"), up, { space: "inner", symbol: "u" }), kit.strip(t("after the activation"), h, { space: "inner", symbol: "h" })),
        el("p", { class: "note" }, t("{active} of {all} units are above 0 here.", { active, all: F })),
        W ? kit.sum(indexed("u", d), Array.from(x, (one, i) => [two(one), two(W.data[d * D + i])]), two(up[d]), { after: plus(bias) }) : null,
        record.gate ? null : el("p", { class: "sum" }, indexed("h", d), config.activation === "relu" ? ` = max(0, ${two(up[d])}) = ` : ` = ${config.activation}(${two(up[d])}) = `, el("b", {}, two(h[d]))),
      ];
    },
  },
  outer: {
    formula: ({ config }) => formula("FFN", "(", "x", ")", "=", "h", sub("W", "2"), ...(config.bias ? ["+", sub("b", "2")] : [])),
    says: () => t("Then back down to the width of the model. What a unit of the inner layer adds to the word is a learned vector, times how much the unit speaks."),
    needs: ({ step }) => [step.place + ".down_proj.weight", step.place + ".down_proj.bias"],
    shows: (scene) => {
      const { kit, record, D, tensors, step, config } = scene, F = config.d_ff, h = at(scene, record.activated, F), y = at(scene, record.output, D), d = kit.dimension("model", D);
      const W = tensors.get(step.place + ".down_proj.weight"), bias = tensors.get(step.place + ".down_proj.bias")?.data[d] ?? 0;
      // Units that are silent add nothing, and are left out of the sum.
      const order = W ? Array.from({ length: F }, (_, f) => f).filter((f) => h[f] !== 0).sort((a, b) => Math.abs(h[b] * W.data[d * F + b]) - Math.abs(h[a] * W.data[d * F + a])) : [];
      return [
        lines(kit.strip(t("h, the inner layer"), h, { space: "inner", symbol: "h" }), kit.strip(t("what feed-forward adds"), y, { space: "model", symbol: "y" })),
        W ? kit.sum(indexed("y", d), order.map((f) => [two(h[f]), two(W.data[d * F + f])]), two(y[d]), { after: plus(bias), labels: order.map((f) => `h${f + 1}`) }) : null,
      ];
    },
  },
  memory: {
    formula: () => formula("m", "=", "Encoder", "(", "x", ")"),
    says: () => t("The encoder is done: each word of the source has a vector that knows its neighbours. The cross-attention of every decoder layer takes its keys and values from these vectors."),
    shows: (scene) => {
      const { kit, record, D, tokens } = scene, all = record.output ?? record.after, shown = tokens.src.slice(0, MEMORY_SHOWN), most = kit.most(all);
      const left = { shown: shown.length, count: tokens.src.length };
      return [lines(...shown.map((token, i) => kit.strip(label(token, 16), all.subarray(i * D, (i + 1) * D), { space: "model", most, symbol: "m" }))), kit.left(left.shown, left.count, t("The first {shown} of {count} tokens are shown.", left))];
    },
  },
  logits: {
    formula: ({ tied, config }) => formula(sub("z", "w"), "=", "x", "·", tied ? sub("E", "w") : sub("W", "w"), ...(config.output_bias ? ["+", sub("b", "w")] : [])),
    says: ({ tied, words: known }) => t("The last vector is multiplied with one vector for each of the {count} words. The larger the product, the better the word fits.", { count: known.width })
      + (tied ? " " + t("These vectors are the rows of the embedding table again: one matrix for both.") : ""),
    needs: ({ outputName }) => [outputName, "output_projection.bias"],
    shows: (scene) => {
      const { kit, record, D, tensors, outputName } = scene, x = at(scene, record.input, D), { logits, chosen } = outcome(scene), W = tensors.get(outputName), bias = tensors.get("output_projection.bias")?.data[chosen] ?? 0;
      const vector = W && W.data.subarray(chosen * D, (chosen + 1) * D);
      return [
        lines(kit.strip(t("x, the last vector"), x, { space: "model", symbol: "x" }), vector ? kit.strip(t("vector of “{word}”", { word: wordOf(scene, chosen) }), vector, { space: "model", symbol: "E" }) : null),
        heading(t("The words with the largest logits")), logitBars(scene),
        vector ? kit.sum(el("span", {}, el("i", {}, "z"), " ", t("of “{word}”", { word: wordOf(scene, chosen) })), Array.from(x, (one, i) => [two(one), two(vector[i])]), two(logits[chosen]), { after: plus(bias) }) : null,
      ];
    },
  },
  probabilities: {
    formula: () => formula(sub("p", "w"), "=", frac(sup("e", sub("z", "w")), sum("v", sup("e", sub("z", "v"))))),
    says: ({ words: known }) => t("Softmax again, now over all {count} words: their probabilities. The search chooses among them; the chosen word is read in the next step, and everything begins anew.", { count: known.width }),
    shows: (scene) => {
      const { tokens, place, app } = scene, written = tokens.out?.[place], next = place + 1 < (tokens.out?.length ?? 0);
      return [
        ...probabilityBars(scene),
        written ? el("p", { class: "sum" }, t("Written here: “{word}”.", { word: called(written, 20) })) : null,
        next ? button(t("Go on: how the next word comes about"), () => app.state.set({ "step.write": place + 1, "step.at": "decoder.embedding.embedding", "step.key": "", "step.word": "" })) : null,
      ];
    },
  },
  pooled: {
    formula: ({ config }) => (config.pooling === "mean" ? formula("c", "=", frac("1", "n"), sum("i", sub("x", "i"))) : formula("c", "=", sub("x", "1"))),
    says: ({ config }) => (config.pooling === "mean" ? t("To name the class of the whole text, one vector is made of all: their mean.") : t("To name the class of the whole text, the vector of the first token stands for it: attention has gathered there what counts."))
      + (config.classifier_activation === "none" ? "" : " " + t("It goes through one more layer.")),
    shows: (scene) => {
      const { kit, record, config } = scene;
      return [lines(kit.strip("c", record.pooled, { space: "model", symbol: "c" }), config.classifier_activation === "none" ? null : kit.strip(t("after the layer"), record.input, { space: "model", symbol: "c" }))];
    },
  },
  classes: {
    formula: () => formula("p", "=", "softmax", "(", "c", "W", "+", "b", ")"),
    says: () => t("One product for each class, and the softmax over them: the probabilities of the classes."),
    shows: (scene) => [heading(t("Logits")), logitBars(scene), heading(t("Probabilities")), ...probabilityBars(scene)],
  },
};
