// The script that a page runs at first: it inflates the viewer, whose hash the page's policy names, and runs it.

{
  const page = (globalThis.pellucid = (async () => {
    const packed = Uint8Array.from(atob(document.getElementById("viewer").textContent), (c) => c.charCodeAt(0));
    const script = document.createElement("script");
    script.textContent = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
    document.head.append(script);
    return script.started;
  })());
  // What scripts may ask of the page's model, from the first moment on: `await pellucid.translate("Ein Hund läuft.")`.
  const live = async () => {
    const found = (await page).live;
    if (!found) throw new Error("this page carries no model");
    await found.ready;
    return found;
  };
  page.ready = page.then(({ live }) => live?.ready).then(() => undefined);
  page.ready.catch(() => {});
  for (const name of ["translate", "classify", "generate", "encode", "decode", "trace"]) page[name] = async (...given) => (await live())[name](...given);
}
