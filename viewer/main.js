// Starts the page: reads its data, opens its view.

import { read } from "./data/trace.js";
import { el, write } from "./dom.js";
import { App } from "./shell/app.js";
import { learn, t } from "./shell/language.js";
import { surface } from "./surface.js";

/**
 * What script.py calls once all modules of a page are there. The loader hands the promise on as `pellucid`.
 * @param {import("./views/view.js").View[]} views
 * @param {typeof import("./live/client.js").Live | null} Live what asks the page's model, where it carries one
 */
export async function start(views, Live) {
  const root = /** @type {HTMLElement} */ (document.getElementById("app"));
  try {
    root.replaceChildren(); // what a page says that was cut off before its script
    for (const view of views) learn(view.korean ?? {});
    const app = new App(root, { ...(await read()), live: Live && new Live() }, views);
    const made = surface(app);
    app.busy = app.open();
    await app.busy;
    performance.mark("interactive");
    return made;
  } catch (error) {
    root.append(write(el("p", { class: "failure" }), t("The page could not be opened: {why}", { why: /** @type {Error} */ (error).message })));
    throw error;
  }
}
