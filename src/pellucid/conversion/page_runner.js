// Runs the worker of a page in Node: requests come in a line each, answers go out a line each.

const { readFileSync } = require("node:fs");
const { createInterface } = require("node:readline");
const { join } = require("node:path");
const vm = require("node:vm");

const folder = process.argv[2];
const packed = (name) => JSON.parse(readFileSync(join(folder, name + ".json"), "utf8"));
const waiting = new Map();
const told = ({ id, word, result, error }) => {
  if (word) return;
  waiting.get(id)(JSON.stringify(error ? { error: error.message } : { result }));
  waiting.delete(id);
};
const scope = vm.createContext({
  postMessage: told, performance, MessageChannel, TextDecoder, TextEncoder, DecompressionStream, Blob, Response, atob, Intl,
});
vm.runInContext(readFileSync(join(folder, "worker"), "utf8"), scope);
const ask = (id, method, args) => new Promise((resolve) => {
  waiting.set(id, resolve);
  scope.onmessage({ data: { id, method, args } });
});

(async () => {
  const about = JSON.parse(readFileSync(join(folder, "model.about"), "utf8"));
  const files = Object.fromEntries(about.files.map((name) => [name, packed("model.file." + name)]));
  console.log(await ask(0, "open", [{ description: packed("model.description"), weights: packed("model.weights"), files }]));
  let id = 0;
  for await (const line of createInterface({ input: process.stdin })) {
    const { method, args } = JSON.parse(line);
    console.log(await ask(++id, method, args));
  }
})();
