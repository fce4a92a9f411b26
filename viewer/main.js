// Starts the page: reads its data, opens its view.

import { read } from "./data/trace.js";
import { el, write } from "./dom.js";
import { Live } from "./live/client.js";
import { App } from "./shell/app.js";
import { surface } from "./surface.js";
import { VIEWS } from "./views/all.js";

async function start() {
  const root = /** @type {HTMLElement} */ (document.getElementById("app"));
  try {
    const live = document.getElementById("data-model.about") ? new Live() : null;
    const app = new App(root, { ...(await read()), live }, VIEWS);
    const made = surface(app);
    app.busy = app.open();
    await app.busy;
    performance.mark("interactive");
    return made;
  } catch (error) {
    root.append(write(el("p", { class: "failure" }), `The page could not be opened: ${/** @type {Error} */ (error).message}`));
    throw error;
  }
}

// The loader hands it on as `pellucid`.
/** @type {any} */ (document.currentScript).started = start();
