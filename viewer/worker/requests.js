// What the page may ask of its model, by name.

import { Refusal } from "../model/refusal.js";
import { search } from "../search/beam.js";
import { Steps } from "../search/steps.js";
import { checkRequest } from "./checks.js";
import { labels } from "../text/labels.js";
import { classify } from "./classifier.js";
import { contributionsOf, lensOf, occlusionOf } from "./explaining.js";
import { generate, score as scoreText, started } from "./language_model.js";
import { run, sequencesOf, tokensOf } from "./passes.js";
import { traceOf } from "./traces.js";
import { specialIds } from "./special.js";
import { score, translate } from "./translator.js";

/** @typedef {import("./opening.js").Opened} Opened */
/** @typedef {{onWord: (word: any) => void, pause: () => Promise<void> | void}} Telling */

let traced = 0;

/** Of ids as the model reads them: what a proof of the page compares with Python. @type {Record<string, (opened: Opened, args: any[]) => any>} */
const OF_IDS = {
  /** Logits (T, V) of what follows each of `tgt`; of an encoder alone its states (S, D), or a classifier's logits (C,). */
  outputs: ({ model, config }, [src, tgt = []]) => {
    const found = src.length && tgt.length ? model.forward(src, tgt, {}) : model.forward(src.length ? src : tgt, {});
    const width = tgt.length ? config.tgt_vocab_size : config.num_classes || config.d_model;
    return Array.from({ length: found.length / width }, (_, row) => Array.from(found.subarray(row * width, (row + 1) * width)));
  },
  /** What greedy search adds to `tgt`, at most `most` tokens, without the end token; `suppressed` ids are never written. */
  greedy: async ({ model, config, decode }, [src, tgt, suppressed, most]) => {
    const plain = { ...decode, banned: [], end_ids: [], min_length: 0, no_repeat_ngram_size: 0, suppress_tokens: suppressed };
    const given = { ...plain, beam_size: 1, n_best: 1, max_length: most, target_prefix: src.length ? tgt.slice(1) : [] };
    const steps = new Steps(model, src.length ? src : tgt, given);
    return (await search(steps, given)).hypotheses[0].ids;
  },
};

/** @type {Record<string, (opened: Opened, args: any[], telling: Telling) => any>} */
const METHODS = {
  translate: (opened, [text, asked = {}], telling) => translate(needing(opened, "translate"), text, asked, telling),
  generate: (opened, [prompt, asked = {}], telling) => generate(needing(opened, "generate"), prompt, asked, telling),
  classify: (opened, [text, asked = {}]) => classify(needing(opened, "classify"), text, asked),
  ...OF_IDS,
  tensor: ({ tensors }, [name]) => tensors.get(name) ?? null,
  encode: ({ tokenizers }, [text, side = "source"]) => tokenizers[/** @type {"source"} */ (side)].encode(text),
  decode: ({ tokenizers }, [ids, side = "target"]) => tokenizers[/** @type {"target"} */ (side)].decode(ids),
  label: ({ tokenizers, config }, [ids, side = "target"]) => labels(tokenizers[/** @type {"target"} */ (side)], ids, specialIds(config)),
  score: (opened, [text, ids, asked = {}]) => (opened.config.num_encoder_layers
    ? score(opened, opened.tokenizers.source.encode(text), ids, asked)
    : scoreText(opened, started(opened, text), ids, asked)),
  pass: async (opened, [text, ids = null, asked = {}]) => {
    /** @type {Map<string, any>} */
    const records = new Map();
    const wanted = (/** @type {string} */ place) => !asked.places || asked.places.some((/** @type {string} */ start) => place.startsWith(start));
    /** @type {string[]} */
    const told = [];
    const pass = run(opened, await sequencesOf(opened, text, ids, asked), asked, (place, record) => {
      told.push(place);
      if (wanted(place)) records.set(place, record);
    });
    return { records, told, sequences: tokensOf(opened, pass), ids: { src: pass.src, tgt: pass.tgt, out: pass.out } };
  },
  lens: async (opened, [text, ids = null, asked = {}], { pause }) => lensOf(opened, await sequencesOf(opened, text, ids, asked), asked, pause),
  contributions: async (opened, [text, ids = null, asked = {}]) => contributionsOf(opened, await sequencesOf(opened, text, ids, asked), asked),
  occlusion: async (opened, [text, ids = null, asked = {}], { pause }) => occlusionOf(opened, await sequencesOf(opened, text, ids, asked), asked, pause),
};

/**
 * @param {Opened} opened
 * @param {string} method
 * @param {any[]} args
 * @param {Telling} telling
 * @returns {Promise<{result: any, transfer: Transferable[]}>}
 */
export async function answer(opened, method, args, telling) {
  checkRequest(opened, method, args);
  if (method === "trace") {
    const [text, ids = null, asked = {}] = args;
    const found = await traceOf(opened, text, ids, asked, `live${++traced}`);
    return { result: found, transfer: Object.values(found.bytes).map((one) => one.buffer) };
  }
  if (!Object.hasOwn(METHODS, method)) throw new Refusal("The page's model has no `{method}`.", { method });
  return { result: await METHODS[method](opened, args, telling), transfer: [] };
}

/** Refuses what another task's model is asked for. @param {Opened} opened @param {string} task */
function needing(opened, task) {
  const found = opened.description.task;
  if (found !== task) throw new Refusal("The model of this page does not {asked}: its task is `{task}`.", { asked: task, task: found });
  return opened;
}
