// What the page of a server has beside its views: the API key, the choice of languages, documents.

import { button, el, select, write } from "../dom.js";
import { plain, shorten } from "../show/labels.js";
import { languageName, learn, t } from "../shell/language.js";
import { ko } from "../shell/ko/serving.js";

learn(ko);

/** @typedef {{name: string, state: "working" | "done" | "failed", href: string, message: string}} Sent a document, and what became of it */

/** A language by its name, or its code where the browser has none. @param {string} code */
const named = (code) => languageName(code) || code;

/**
 * Asks for the server's API key, which stays in this page.
 * @param {string} said why the last one was refused
 * @returns {Promise<string>}
 */
export function askForKey(said) {
  return new Promise((resolve) => {
    const input = el("input", { type: "password", autocomplete: "off", required: true });
    const form = el("form", { class: "key", onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      form.remove();
      resolve(input.value);
    } }, el("label", { class: "field" }, el("span", {}, t("API key")), input), el("button", { type: "submit" }, t("Open")), said ? write(el("p", { class: "failure", role: "status" }), said) : null);
    document.querySelector("#app")?.prepend(form);
  });
}

/** @param {any} live */
export function tools(live) {
  return el("section", { class: "server" }, documents(live), ...pairs(live.served));
}

/** The choice among the pairs of the server; none where it has one alone. @param {any} served */
function pairs({ source, target, pairs: all }) {
  const sources = Object.keys(all);
  if (sources.length === 1 && all[source].length === 1) return [];
  let from = source, to = target;
  const field = el("div", { class: "row" });
  const fill = () => {
    if (!all[from].includes(to)) [to] = all[from];
    field.replaceChildren(
      select(t("From"), sources.map((code) => [code, named(code)]), from, (code) => { from = code; fill(); }),
      select(t("To"), all[from].map((/** @type {string} */ code) => [code, named(code)]), to, (code) => { to = code; }),
      button(t("Open"), () => location.assign(`?${new URLSearchParams({ source: from, target: to })}`)));
  };
  fill();
  return [el("div", {}, el("h2", {}, t("Languages")), field)];
}

/** Documents in, documents out: by a button, or dropped anywhere on the page. @param {any} live */
function documents(live) {
  const list = el("ul", { class: "documents" });
  const input = el("input", { type: "file", multiple: true, accept: live.served.endings.join(","), onchange: () => {
    for (const file of input.files) send(live, file);
    input.value = "";
  } });
  const draw = () => list.replaceChildren(...live.documents.map(row));
  live.listeners.clear(); // those of a section that was replaced
  live.listeners.add(draw);
  draw();
  return el("div", {}, el("h2", {}, t("Documents")),
    el("label", { class: "field" }, el("span", {}, t("Choose a document, or drop one on this page: {endings}", { endings: live.served.endings.join(" ") })), input), el("div", { role: "status" }, list));
}

/** @param {Sent} sent */
function row({ name, state, href, message }) {
  const shown = el("bdi", {}, shorten(plain(name), 60));
  if (state === "working") return el("li", {}, shown, " ", el("span", { class: "faint" }, t("is being translated …")));
  if (state === "failed") return el("li", {}, shown, " ", write(el("span", { class: "failure" }), message));
  return el("li", {}, shown, " ", el("a", { href, download: "" }, t("Save the translation")));
}

/** Takes documents that are dropped anywhere on the page. @param {any} live */
export function watchDrops(live) {
  const carries = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragover", (event) => { if (carries(event)) event.preventDefault(); });
  addEventListener("drop", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    for (const file of event.dataTransfer?.files ?? []) send(live, file);
  });
}

/** Sends a document, and shows what becomes of it. @param {any} live @param {File} file */
async function send(live, file) {
  /** @type {Sent} */
  const sent = { name: file.name, state: "working", href: "", message: "" };
  const tell = () => { for (const listener of live.listeners) listener(); };
  live.documents.unshift(sent);
  tell();
  const form = new FormData();
  form.append("source", live.served.source);
  form.append("target", live.served.target);
  form.append("file", file);
  try {
    const { translatedFileUrl } = await live.post("translate_file", form);
    // Relative, since a proxy in front of the server may have another address.
    sent.href = `download_file/${new URL(translatedFileUrl).pathname.split("/").at(-1)}`;
    sent.state = "done";
  } catch (error) {
    sent.message = /** @type {Error} */ (error).message;
    sent.state = "failed";
  }
  tell();
}
