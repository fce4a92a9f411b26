// The worker that holds the page's model: requests come in as messages, answers and words go out.

import { openModel } from "./opening.js";
import { answer } from "./requests.js";

/** @type {import("./opening.js").Opened | null} */
let opened = null;
/** Requests that nobody waits for any more. @type {Set<number>} */
const cancelled = new Set();
/** What is done one after another, in the order in which it was asked for. */
let queue = Promise.resolve();
/** Milliseconds after which the worker looks if a request was cancelled. */
const PATIENCE = 6;

onmessage = ({ data }) => {
  if (data.cancel !== undefined) cancelled.add(data.cancel);
  else queue = queue.then(() => handled(data));
};

/** @param {{id: number, method: string, args: any[]}} request */
async function handled({ id, method, args }) {
  try {
    if (cancelled.has(id)) throw new Cancelled();
    if (method === "open") {
      opened = await openModel(args[0]);
      postMessage({ id, result: about(opened) });
      return;
    }
    if (!opened) throw new Error("the page's model is not open");
    let looked = performance.now();
    const pause = async () => {
      if (performance.now() - looked < PATIENCE) return;
      await tick();
      looked = performance.now();
      if (cancelled.has(id)) throw new Cancelled();
    };
    const onWord = (/** @type {any} */ word) => postMessage({ id, word });
    const { result, transfer } = await answer(opened, method, args, { onWord, pause });
    postMessage({ id, result }, { transfer });
  } catch (error) {
    const { name, message, text, values } = /** @type {any} */ (error);
    postMessage({ id, error: { name, message, text, values } });
  } finally {
    cancelled.delete(id);
  }
}

class Cancelled extends Error {
  name = "AbortError";
  message = "the request was cancelled";
}

/** What the page says of its model. @param {import("./opening.js").Opened} opened */
function about({ description, config, decode, labels, tokenizers }) {
  const side = (/** @type {any} */ tokenizer) => ({ kind: tokenizer.kind, size: tokenizer.size });
  return {
    task: description.task, model: config, decode, labels, languages: Object.keys(description.languages ?? {}), text: description.text ?? null,
    tokenizers: { source: side(tokenizers.source), target: side(tokenizers.target) },
  };
}

/** Lets messages in. */
function tick() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve(undefined);
    };
    port2.postMessage(null);
  });
}
