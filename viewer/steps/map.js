// The map of the walk: figure 1 as a list, of which the part that one is in is open.

import { button, el } from "../dom.js";
import { named } from "../show/names.js";
import { t } from "../shell/language.js";

/** @typedef {import("./walk.js").Step} Step */

/** Short names of the kinds of step. @type {Record<string, string>} */
const SHORT = {
  embedding: "vectors", positions: "positions", segments: "segments", norm: "norm", project: "q, k, v", turn: "turn", scores: "q·k, scaled", mask: "mask",
  softmax: "softmax", values: "Σ α·v", join: "Concat, Wᴼ", add: "add", inner: "inner layer", outer: "outer layer", final: "last norm", memory: "memory",
  logits: "logits", probabilities: "softmax over words", pooled: "one vector", classes: "softmax over classes",
};

/**
 * @param {Step[]} steps
 * @param {Step} here
 * @param {(step: Step) => void} go
 */
export function stepMap(steps, here, go) {
  /** @type {Map<string, Step[]>} */
  const groups = new Map();
  for (const step of steps) {
    const key = `${step.stack} ${step.layer ?? step.sublayer}`;
    groups.set(key, [...(groups.get(key) ?? []), step]);
  }
  const current = `${here.stack} ${here.layer ?? here.sublayer}`;
  /** @type {Node[]} */
  const items = [];
  let stack = "";
  for (const [key, group] of groups) {
    if (group[0].stack !== stack) items.push(el("h2", {}, (stack = group[0].stack) === "encoder" ? t("Encoder") : t("Decoder")));
    const name = group[0].layer !== null ? t("layer {layer}", { layer: group[0].layer }) : group[0].sublayer === "embedding" ? t("embedding") : t("output");
    if (key !== current) items.push(button(name, () => go(group[0]), { class: "group" }));
    else items.push(el("div", { class: "group open" }, el("b", {}, name), ...listed(group, here, go)));
  }
  const list = el("nav", { "aria-label": t("steps") }, ...items);
  // In a narrow window the map would push the step itself out of sight.
  return el("details", { open: innerWidth > 760 }, el("summary", {}, t("All steps")), list);
}

/** @param {Step[]} group @param {Step} here @param {(step: Step) => void} go */
function listed(group, here, go) {
  /** @type {Node[]} */
  const items = [];
  let sublayer = "";
  for (const step of group) {
    if (step.layer !== null && step.sublayer !== sublayer) items.push(el("span", { class: `sublayer ${step.sublayer}` }, named((sublayer = step.sublayer))));
    items.push(button(t(SHORT[step.kind]), () => go(step), { class: "kind", "aria-current": step === here ? "step" : null }));
  }
  return items;
}
