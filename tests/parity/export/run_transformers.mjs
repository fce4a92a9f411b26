// Runs an exported folder in transformers.js: what it makes of each text on stdin, a JSON list, as JSON on stdout.
// node run_transformers.mjs PATH-OF-THE-LIBRARY FOLDER translate|generate|classify [MAX_NEW_TOKENS]
import { readFileSync } from "node:fs";
import { basename, dirname } from "node:path";

const [library, folder, task, limit] = process.argv.slice(2);
const { AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoModelForSequenceClassification, AutoTokenizer, env } =
  await import(library);
env.allowRemoteModels = false;
env.localModelPath = dirname(folder);
const classes = {
  translate: AutoModelForSeq2SeqLM,
  generate: AutoModelForCausalLM,
  classify: AutoModelForSequenceClassification,
};
const tokenizer = await AutoTokenizer.from_pretrained(basename(folder));
const model = await classes[task].from_pretrained(basename(folder));
const numbers = (tensor) => tensor.tolist().map((row) => row.map(Number));

const texts = JSON.parse(readFileSync(0, "utf-8"));
const found = [];
for (const text of texts) {
  const inputs = tokenizer(text);
  const entry = { ids: numbers(inputs.input_ids)[0] };
  if (task === "classify") {
    entry.logits = numbers((await model(inputs)).logits)[0];
  } else {
    entry.written = numbers(await model.generate({ ...inputs, max_new_tokens: Number(limit) }))[0];
    entry.text = tokenizer.decode(entry.written, { skip_special_tokens: true });
  }
  found.push(entry);
}
// All at once: padded behind a source, in front of a prompt.
const inputs = tokenizer(texts, { padding: true });
const together =
  task === "classify"
    ? numbers((await model(inputs)).logits)
    : numbers(await model.generate({ ...inputs, max_new_tokens: Number(limit) }));
console.log(JSON.stringify({ found, together, width: inputs.input_ids.dims[1] }));
