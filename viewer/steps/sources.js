// Where each step stands in the paper, and where Pellucid computes it.

/**
 * @typedef {Object} Source
 * @property {string} title
 * @property {string} section of "Attention Is All You Need"; "" where the paper has none of it
 * @property {number} [equation]
 * @property {string} code a file of `src/pellucid`, and what computes it there
 */

/** @type {Record<string, Source>} */
export const SOURCES = {
  embedding: { title: "From a word to a vector", section: "3.4", code: "model/embeddings.py::Embeddings.forward" },
  positions: { title: "Add the position", section: "3.5", code: "model/positions.py::sinusoids" },
  learned: { title: "Add the position", section: "3.5", code: "model/positions.py::LearnedPositions.forward" },
  segments: { title: "Add the segment", section: "", code: "model/embeddings.py::Embeddings.forward" },
  norm: { title: "Layer norm", section: "3.1", code: "model/norm.py::make_norm_of_width" },
  project: { title: "Query, key and value", section: "3.2.2", code: "model/attention.py::MultiHeadAttention.project" },
  turn: { title: "Turn by the position", section: "", code: "model/attention_positions.py::apply_rotary" },
  scores: { title: "Scores: query times key", section: "3.2.1", equation: 1, code: "model/attention.py::attention_weights" },
  mask: { title: "The mask", section: "3.2.3", code: "model/masks.py::causal_mask" },
  softmax: { title: "Softmax: weights that sum to one", section: "3.2.1", equation: 1, code: "model/attention.py::attention_weights" },
  values: { title: "The weighted sum of the values", section: "3.2.1", equation: 1, code: "model/attention.py::attention" },
  join: { title: "Put the heads together", section: "3.2.2", code: "model/attention.py::MultiHeadAttention.forward" },
  add: { title: "Add: the residual connection", section: "3.1", code: "model/layers.py::ResidualConnections.add" },
  inner: { title: "Feed-forward: the inner layer", section: "3.3", equation: 2, code: "model/feed_forward.py::FeedForward.forward" },
  outer: { title: "Feed-forward: back to the model's width", section: "3.3", equation: 2, code: "model/feed_forward.py::FeedForward.forward" },
  final: { title: "The norm behind the last layer", section: "", code: "model/norm.py::make_norm" },
  memory: { title: "What the encoder hands on", section: "3.1", code: "model/transformer.py::Transformer.encode" },
  logits: { title: "Logits: a number for every word", section: "3.4", code: "model/transformer.py::Transformer.forward" },
  probabilities: { title: "Softmax: the next word", section: "3.4", code: "decoding/steps.py::compute_log_probs" },
  pooled: { title: "One vector for the text", section: "", code: "model/classification.py::ClassificationHead.forward" },
  classes: { title: "Softmax: the class", section: "", code: "model/classification.py::ClassificationHead.forward" },
};
