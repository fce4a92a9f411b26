// Runs the clients deepl-node and openai against a server, as their users call them; prints what they found as JSON.
// node run_clients.mjs PATH-OF-NODE_MODULES ADDRESS KEY FOLDER < LINES, a JSON list
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [modules, address, key, folder] = process.argv.slice(2);
const load = createRequire(join(modules, "here.js"));
const deepl = load("deepl-node");
const { OpenAI } = load("openai");
const lines = JSON.parse(readFileSync(0, "utf-8"));
const found = {};

const failure = async (work) => {
  try {
    return { result: await work() };
  } catch (error) {
    return { name: error.constructor.name, message: error.message, status: error.status, code: error.code };
  }
};

// DeepL: texts, languages, usage.
const options = { serverUrl: address, maxRetries: 0, minTimeout: 60_000, sendPlatformInfo: false };
const client = new deepl.DeepLClient(key, options);
found.texts = await client.translateText(lines, "de", "en-US");
found.single = await client.translateText(lines[0], null, "en-GB");
found.xml = await client.translateText("a <x>q &amp; r</x> b", "de", "en-US", {
  tagHandling: "xml",
  ignoreTags: ["x"],
  splitSentences: "nonewlines",
  formality: "prefer_less",
  context: "c",
  preserveFormatting: true,
  outlineDetection: false,
});
found.html = await client.translateText("<p>a <b>b</b> c</p>", "de", "en-US", { tagHandling: "html" });
found.sources = await client.getSourceLanguages();
found.targets = await client.getTargetLanguages();
found.limited = (await client.getUsage()).anyLimitReached();

// DeepL: glossaries.
const entries = { a: "h", b: "g" };
const glossary = await client.createGlossary("mine", "de", "en", new deepl.GlossaryEntries({ entries }));
const read = await client.getGlossaryEntries(glossary);
const listed = (await client.listGlossaries()).map((each) => each.glossaryId);
const again = await client.getGlossary(glossary.glossaryId);
const table = await client.createGlossaryWithCsv("table", "de", "en", Buffer.from('a,h\r\n"b",g\r\n'));
found.glossary = {
  count: glossary.entryCount,
  ready: glossary.ready,
  dated: glossary.creationTime instanceof Date && !Number.isNaN(glossary.creationTime.getTime()),
  entries: read.entries(),
  listed: listed.includes(glossary.glossaryId),
  name: again.name,
  csv: (await client.getGlossaryEntries(table)).entries(),
  used: (await client.translateText("a b", "de", "en-US", { glossary })).text,
  pairs: await client.getGlossaryLanguagePairs(),
};
await client.deleteGlossary(glossary);
found.deleted = await failure(() => client.getGlossary(glossary.glossaryId));
found.multilingual = await failure(() =>
  client.createMultilingualGlossary("m", [{ sourceLangCode: "de", targetLangCode: "en", entries: new deepl.GlossaryEntries({ entries }) }]),
);

// DeepL: documents.
writeFileSync(join(folder, "in.txt"), lines.join("\n\n"));
const done = await client.translateDocument(join(folder, "in.txt"), join(folder, "out.txt"), "de", "en-US");
found.document = { done: done.done(), billed: done.billedCharacters };
found.unknown = await failure(() =>
  client.translateDocument(Buffer.from("MZ"), join(folder, "x.exe"), "de", "en-US", { filename: "x.exe" }),
);
found.stranger = await failure(() =>
  client.getDocumentStatus({ documentId: "0".repeat(32), documentKey: "0".repeat(64) }),
);

// DeepL: errors.
found.target = await failure(() => client.translateText("a", "de", "fr"));
found.stolen = await failure(() => new deepl.DeepLClient("wrong", options).translateText("a", "de", "en-US"));

// OpenAI: plain, streamed, errors.
const gpt = new OpenAI({ apiKey: key, baseURL: `${address}/v1`, maxRetries: 0 });
const messages = [
  { role: "system", content: "Translate." },
  { role: "user", content: lines[0] },
];
found.whole = await gpt.chat.completions.create({ model: "de-en", messages });
const parts = [{ role: "user", content: [{ type: "text", text: lines[0] }] }];
found.parts = (await gpt.chat.completions.create({ model: "de-en", messages: parts })).choices[0].message.content;
const asked = { model: "de-en", messages, stream: true, stream_options: { include_usage: true } };
found.chunks = [];
for await (const chunk of await gpt.chat.completions.create(asked)) found.chunks.push(chunk);
const stream = gpt.chat.completions.stream({ model: "de-en", messages });
found.final = await stream.finalContent();
found.models = [];
for await (const model of gpt.models.list()) found.models.push(model.id);
found.model = (await gpt.models.retrieve("de-en")).id;
found.missing = await failure(() => gpt.chat.completions.create({ model: "gpt-4", messages }));
found.stop = await failure(() => gpt.chat.completions.create({ model: "de-en", messages, stop: ["."] }));
found.refused = await failure(async () => {
  for await (const chunk of await gpt.chat.completions.create({ ...asked, n: 2 })) void chunk;
});
found.intruder = await failure(() => new OpenAI({ apiKey: "wrong", baseURL: `${address}/v1`, maxRetries: 0 }).models.list());

console.log(JSON.stringify(found));
