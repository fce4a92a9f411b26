// The script that a page runs at first: it inflates the style and the viewer, whose hashes the page's policy names.

{
  const inflated = async (/** @type {string} */ tag) => {
    const packed = Uint8Array.from(atob(document.getElementById("viewer-" + tag)?.textContent ?? ""), (c) => c.charCodeAt(0));
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
  };
  /** @type {any} a promise of what surface.js offers, with what it is asked for in front of it */
  const page = (async () => {
    const [style, script] = /** @type {[any, any]} */ (["style", "script"].map((tag) => document.createElement(tag)));
    style.textContent = await inflated("style");
    document.head.append(style);
    script.textContent = await inflated("script");
    document.head.append(script);
    return script.started;
  })();
  // What scripts may ask of the page's model, from the first moment on: `await pellucid.translate("Ein Hund läuft.")`.
  const live = async () => {
    const found = (await page).live;
    if (!found) throw new Error("this page carries no model");
    await found.ready;
    return found;
  };
  page.ready = page.then((/** @type {any} */ made) => made.live?.ready).then(() => undefined);
  page.ready.catch(() => {});
  for (const name of ["translate", "classify", "generate", "encode", "decode", "trace"]) {
    page[name] = async (/** @type {any[]} */ ...given) => (await live())[name](...given);
  }
  /** @type {any} */ (globalThis).pellucid = page;
}
