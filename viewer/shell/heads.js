// One button a head, with its colour where views draw in it.

import { button, el } from "../dom.js";

/**
 * @param {import("./app.js").App} app
 * @param {import("./controls.js").Controls} controls
 * @param {boolean} many whether several can be chosen
 */
export function headChips(app, controls, many) {
  const chips = Array.from({ length: app.attention.numHeads }, (_, head) => {
    const chip = button(String(head), () => choose(app, head, many), { class: "chip", "aria-label": `head ${head}` });
    if (many) {
      chip.addEventListener("dblclick", () => app.state.set({ heads: String(head), head }));
      chip.style.setProperty("--head", app.colours.head(head));
    }
    return chip;
  });
  controls.synced.push(() => {
    const chosen = new Set(many ? app.heads : [app.head]);
    chips.forEach((chip, head) => chip.setAttribute("aria-pressed", String(chosen.has(head))));
  });
  const title = many ? "click to add or remove a head, double-click for it alone (, .)" : "head (, .)";
  const all = many && chips.length > 1 ? [button("all", () => app.state.set({ heads: "all" }), { class: "chip all" }), button("none", () => app.state.set({ heads: "" }), { class: "chip all" })] : [];
  return el("div", { class: many ? "chips many" : "chips", role: "group", "aria-label": many ? "heads" : "head", title }, el("span", {}, many ? "Heads" : "Head"), ...chips, ...all);
}

/**
 * @param {import("./app.js").App} app
 * @param {number} head
 * @param {boolean} many
 */
function choose(app, head, many) {
  if (!many) return app.state.set({ head });
  const chosen = new Set(app.heads);
  if (!chosen.delete(head)) chosen.add(head);
  const heads = chosen.size === app.attention.numHeads ? "all" : [...chosen].sort((a, b) => a - b).join(",");
  app.state.set({ heads, head });
}
