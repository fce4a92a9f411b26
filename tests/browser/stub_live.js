// A model that is none, for tests of the page around it: the client's interface, with delays, errors and cancellation.
// It "translates" word by word from a small dictionary, and remembers in `asked` what it was asked for.

(about = {}) => {
  const DICTIONARY = { Zwei: "Two", junge: "young", Männer: "men", spielen: "are playing", Fußball: "soccer", auf: "on", einer: "a", grünen: "green", Wiese: "meadow", ".": "." };
  const OTHERS = { men: ["guys", "boys"], soccer: ["football", "ball"], playing: ["play"], meadow: ["field", "lawn", "grass"], a: ["the"], are: ["is"] };
  const pieces = ["<pad>", "<s>", "</s>"], numbers = new Map(pieces.map((piece, i) => [piece, i]));
  const idOf = (piece) => {
    if (!numbers.has(piece)) numbers.set(piece, pieces.push(piece) - 1);
    return numbers.get(piece);
  };
  const hash = (text) => [...text].reduce((sum, c) => (sum * 31 + c.codePointAt(0)) % 997, 7) / 997;
  const lanes = new Map(), asked = [], knobs = { delay: 0, failure: "", cancelled: 0 };
  const wait = (signal) => new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, knobs.delay), stop = () => { knobs.cancelled++; clearTimeout(timer); reject(new DOMException("newer", "AbortError")); };
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
  });
  const laned = ({ lane, signal } = {}) => {
    const controller = new AbortController();
    if (lane) {
      lanes.get(lane)?.abort();
      lanes.set(lane, controller);
    }
    signal?.addEventListener("abort", () => controller.abort(), { once: true });
    if (signal?.aborted) controller.abort();
    return controller.signal;
  };
  const token = (id) => {
    const piece = pieces[id], continues = !piece.startsWith("▁") && id > 2 && piece !== ".";
    return { text: piece.replace("▁", " "), piece, id, word: null, special: id <= 2, segment: 0, continues };
  };
  const spelled = (ids) => ids.filter((id) => id > 2).map((id) => pieces[id].replace("▁", " ")).join("").trimStart();
  const target = (text, { off = [], layersOff = [], hidden = [] } = {}) => {
    const written = text.trim().split(/\s+/).filter((_, i) => !hidden.includes(i)).flatMap((word) => (DICTIONARY[word] ?? (knobs.dictionary?.[word] ?? word)).split(" "));
    if (off.length + layersOff.length) written[written.length - 1] = "soup";
    return written.flatMap((word) => (word === "." ? ["."] : ["playing", "meadow"].includes(word) && !knobs.dictionary ? ["▁" + word.slice(0, 3), word.slice(3)] : ["▁" + word]));
  };
  const choicesOf = (piece, probability) => {
    const word = piece.replace("▁", ""), others = (OTHERS[word] ?? knobs.others ?? ["thing", "stuff"]).map((other) => "▁" + other);
    const ids = [piece, ...others].map(idOf), probabilities = [probability, ...others.map((_, i) => (1 - probability) / (i + 2))];
    return { ids, tokens: ids.map((id) => pieces[id]), probabilities };
  };
  const made = (ids, tops, probabilities) => {
    const labels = ids.map(token);
    return { text: spelled(ids), score: -1, rank: -0.1, ids, tokens: ids.map((id) => pieces[id]), probabilities, top: tops, labels, source: [], alternatives: [] };
  };
  const write = async (text, how, wanted, signal) => {
    const ids = [], tops = [], probabilities = [], forced = [how.prefix ?? []].flat(2);
    for (let place = 0; place < Math.max(wanted.length, forced.length); place++) {
      await wait(signal);
      if (knobs.failure) throw new Error(knobs.failure);
      const usual = wanted[place] ?? ".", probability = 0.15 + 0.84 * hash(usual), top = choicesOf(usual, probability);
      const id = forced[place] ?? idOf(place > forced.length - 1 && forced.length && idOf(wanted[forced.length - 1] ?? "") !== forced.at(-1) ? usual.toUpperCase() : usual);
      ids.push(id);
      tops.push(top);
      probabilities.push(forced[place] !== undefined ? top.probabilities[top.ids.indexOf(id)] ?? 0.01 : probability);
      how.onWord?.({ ids: [...ids], tokens: ids.map((one) => pieces[one]), text: spelled(ids), probability: probabilities[place], top });
    }
    return { ids, tops, probabilities };
  };
  const live = {
    asked, knobs, idOf,
    about: { task: "translate", model: { d_model: 128, d_ff: 512, num_heads: 4, num_encoder_layers: 4, num_decoder_layers: 3, src_vocab_size: 4000, tgt_vocab_size: 4000, eos_id: 2 },
      decode: { beam_size: 3, length_penalty: 1 }, labels: null, languages: { source: "de", target: "en" }, parameters: 2_100_000, weights: "int8", bytes: 2_300_000,
      examples: ["Zwei junge Männer spielen Fußball auf einer grünen Wiese ."], card: "# A model\n\nIt *translates*.\n", tokenizers: { source: { kind: "bpe", size: 4000 }, target: { kind: "bpe", size: 4000 } }, ...about },
    ready: Promise.resolve(),
    async translate(text, how = {}) {
      asked.push(["translate", text, { ...how, signal: undefined, onWord: undefined }]);
      const signal = laned(how), wanted = target(text, how), { ids, tops, probabilities } = await write(text, how, wanted, signal);
      await wait(signal);
      const whole = made(ids, [...tops, { ids: [2], tokens: ["</s>"], probabilities: [0.97] }], [...probabilities, 0.97]);
      whole.labels.push(token(2));
      whole.parts = [{ ids, labels: whole.labels }];
      whole.source = text.trim().split(/\s+/).map((word) => token(idOf("▁" + word)));
      whole.alternatives.push(made(ids, tops, probabilities));
      for (let n = 1; n < (how.nBest ?? 1); n++) {
        const other = ids.map((id, place) => (place === n ? tops[place].ids[1] ?? id : id));
        whole.alternatives.push({ ...made(other, tops, probabilities), score: -1 - n, rank: -0.1 - n });
      }
      return whole;
    },
    async classify(text, how = {}) {
      asked.push(["classify", text]);
      const signal = laned(how);
      await wait(signal);
      if (knobs.failure) throw new Error(knobs.failure);
      const labels = live.about.labels ?? ["negative", "neutral", "positive"], sizes = labels.map((label) => 0.05 + hash(label + text + (how.off ?? []).join() + (how.hidden ?? []).join()));
      const sum = sizes.reduce((all, one) => all + one, 0), probabilities = labels.map((label, i) => ({ label, probability: sizes[i] / sum })).sort((a, b) => b.probability - a.probability);
      return { ...probabilities[0], probabilities, source: text.trim().split(/\s+/).map((word) => token(idOf("▁" + word))) };
    },
    async generate(text, how = {}) {
      asked.push(["generate", text, { ...how, signal: undefined, onWord: undefined }]);
      const signal = laned(how), wanted = "the model goes on writing until somebody says that it is enough".split(" ").slice(0, how.maxNewTokens ?? 20).map((word) => "▁" + word);
      const { ids, tops, probabilities } = await write(text, how, wanted, signal);
      return { ...made(ids, tops, probabilities), text: " " + spelled(ids) };
    },
    async encode(text) { return text.trim().split(/\s+/).map((word) => idOf("▁" + word)); },
    async decode(ids) { return spelled(ids); },
    async label(ids) { return ids.map(token); },
    async trace() { return (await pellucid).app.traces[0]; },
    async score(text, ids, { off = [] } = {}) { return { logProbs: ids.map(() => -0.1 - (off[0] === "cross.1.2" ? 1 : 0)) }; },
    async occlusion(text) {
      const found = text.trim().split(/\s+/).map((word, place) => ({ places: [place], text: word, change: 6 * hash(word) - 0.5 }));
      return { row: null, words: found };
    },
  };
  return live;
}
