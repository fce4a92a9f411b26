// The five figures of a head, in words.

/** @type {Record<string, string>} */
export const STATISTICS = {
  entropy: "entropy, in nats", distance: "distance, in tokens", diagonality: "diagonality",
  previous: "weight on the token before", sink: "weight on first and special tokens",
};

/** @type {Record<string, string>} */
export const MEANINGS = {
  entropy: "How widely a head looks: 0 nats is at one token alone, ln M evenly at all of M.",
  distance: "How far a head looks: the mean of the number of tokens between the one that looks and those that are looked at.",
  diagonality: "How close the weight lies to the diagonal from corner to corner: 1 is on it, about 2/3 is spread evenly.",
  previous: "How much of its weight each token gives the one before it.",
  sink: "How much weight goes to the first token and to special ones, which take what no other wants.",
};
