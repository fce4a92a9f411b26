// The views as tabs, grouped by what one wants to do; where there is little room, as one list.

import { button, el, write } from "../dom.js";
import { t } from "./language.js";

/** The order within the groups. A view that is not named here names its group, and is otherwise something to look at. */
const GROUPS = /** @type {[string, string[]][]} */ ([
  ["Write", ["translate"]],
  ["Look", ["overview", "text", "heads", "matrix", "model", "alignment", "beam", "evolution", "flow", "compare"]],
  ["Ask", ["what_if", "lens", "contributions"]],
  ["Learn", ["step", "neuron"]],
  ["About", ["card"]],
]);

/**
 * @param {any[]} views
 * @returns {[string, any[]][]} the groups that have views, each with its own in order
 */
function grouped(views) {
  const named = GROUPS.flatMap(([, names]) => names), others = views.filter((view) => !named.includes(view.name));
  return GROUPS.map(([group, names]) => /** @type {[string, any[]]} */ ([
    group, [...names.flatMap((name) => views.filter((view) => view.name === name)), ...others.filter((view) => (view.group ?? "Look") === group)],
  ])).filter(([, members]) => members.length);
}

/** @param {any} view @param {import("./app.js").App} app */
const titleOf = (view, app) => t(view.titled?.(app) ?? view.title);

/** @param {import("./app.js").App} app @returns {HTMLElement[]} */
export function tabs(app) {
  const groups = grouped(app.views), captions = groups.length > 1;
  const row = groups.map(([group, views]) => el("div", { class: "group", role: "group", "aria-label": t(group) },
    captions ? el("span", { class: "caption", "aria-hidden": "true" }, t(group)) : null,
    el("div", {}, ...views.map((view) => button(titleOf(view, app), () => app.state.set({ view: view.name }), { "aria-current": view === app.view ? "page" : null })))));
  const list = el("select", { "aria-label": t("view"), onchange: () => app.state.set({ view: list.value }) },
    ...groups.map(([group, views]) => el("optgroup", { label: t(group) },
      ...views.map((view) => write(el("option", { value: view.name, selected: view === app.view }), titleOf(view, app))))));
  return [...row, ...(app.views.length > 1 ? [el("label", { class: "jump" }, el("span", {}, t("View")), list)] : [])];
}
