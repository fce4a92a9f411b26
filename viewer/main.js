// Starts the page: reads its data, opens its view.

import { read } from "./data/trace.js";
import { el, write } from "./dom.js";
import { App } from "./shell/app.js";
import { takeNames } from "./show/names.js";
import { learn, t } from "./shell/language.js";
import { surface } from "./surface.js";

/**
 * What script.py calls once all modules of a page are there. The loader hands the promise on as `pellucid`.
 * @param {import("./views/view.js").View[]} views
 * @param {(new () => import("./live/requests.js").Requests) | null} Live what asks the page's model, where it carries one
 */
export async function start(views, Live) {
  const root = /** @type {HTMLElement} */ (document.getElementById("app"));
  try {
    root.replaceChildren(); // what a page says that was cut off before its script
    const data = await read();
    takeNames(data.words);
    for (const view of views) learn(view.korean ?? {});
    const app = new App(root, { ...data, live: Live && new Live() }, views);
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
