// The steps of a pass in the order of the paper, by what the model told of while it ran.

/**
 * @typedef {Object} Step
 * @property {string} id what the address calls it
 * @property {string} kind one of sources.js
 * @property {string} stack "encoder" or "decoder"
 * @property {number | null} layer null before the first layer and behind the last
 * @property {string} sublayer "embedding", "self_attn", "cross_attn", "feed_forward" or "output"
 * @property {string} place of the record that it shows
 */

const EMBEDDINGS = { encoder: "src_embedding", decoder: "tgt_embedding" };
const SUBLAYERS = ["self_attn", "cross_attn", "feed_forward"];

/**
 * @param {Set<string>} told the places that the model told of
 * @param {any} config
 * @param {boolean} hides whether words are hidden from everybody
 * @returns {Step[]}
 */
export function walkOf(told, config, hides = false) {
  /** @type {Step[]} */
  const steps = [];
  for (const stack of /** @type {("encoder" | "decoder")[]} */ (["encoder", "decoder"])) {
    const place = EMBEDDINGS[stack];
    if (!told.has(place)) continue;
    const add = (/** @type {string} */ kind, /** @type {string} */ of, /** @type {string} */ sublayer, /** @type {number | null} */ layer = null) =>
      steps.push({ id: [stack, ...(layer === null ? [] : [layer]), sublayer, kind].join("."), kind, stack, layer, sublayer, place: of });
    add("embedding", place, "embedding");
    if (["sinusoidal", "learned"].includes(config.positions)) add("positions", place, "embedding");
    if (stack === "encoder" && config.num_segments) add("segments", place, "embedding");
    if (told.has(place + ".norm")) add("norm", place + ".norm", "embedding");
    for (let layer = 0; layer < (stack === "encoder" ? config.num_encoder_layers : config.num_decoder_layers); layer++) {
      for (const sublayer of SUBLAYERS) {
        const of = `${stack}.layers.${layer}.${sublayer}`;
        if (!told.has(of + ".sum")) continue;
        if (config.norm === "pre") add("norm", of + "_norm", sublayer, layer);
        for (const kind of sublayer === "feed_forward" ? ["inner", "outer"] : attending(stack, sublayer, config, hides)) add(kind, of, sublayer, layer);
        add("add", of + ".sum", sublayer, layer);
        if (config.norm === "post") add("norm", of + "_norm", sublayer, layer);
      }
    }
    if (told.has(stack + ".norm")) add("final", stack + ".norm", "output");
    if (stack === "encoder" && told.has(EMBEDDINGS.decoder)) add("memory", lastOf(told, config), "output");
    if (stack === "decoder") for (const kind of ["logits", "probabilities"]) add(kind, "output_projection", "output");
    else if (told.has("head")) for (const kind of ["pooled", "classes"]) add(kind, "head", "output");
  }
  return steps;
}

/**
 * The steps of equation 1, and of section 3.2.2 around it.
 * @param {string} stack
 * @param {string} sublayer
 * @param {any} config
 * @param {boolean} hides
 */
function attending(stack, sublayer, config, hides) {
  const masked = (sublayer === "self_attn" && stack === "decoder") || hides;
  const turned = sublayer === "self_attn" && config.positions === "rotary";
  return ["project", ...(turned ? ["turn"] : []), "scores", ...(masked ? ["mask"] : []), "softmax", "values", "join"];
}

/** Where the encoder's output stands. @param {Set<string>} told @param {any} config */
function lastOf(told, config) {
  return told.has("encoder.norm") ? "encoder.norm" : `encoder.layers.${config.num_encoder_layers - 1}.feed_forward.sum`;
}

/**
 * The same step of the layer before or behind, or null.
 * @param {Step[]} steps
 * @param {Step} step
 * @param {number} by
 */
export function inLayer(steps, step, by) {
  if (step.layer === null) return null;
  const layer = step.layer + by;
  return steps.find((one) => one.stack === step.stack && one.layer === layer && one.sublayer === step.sublayer && one.kind === step.kind) ?? null;
}
