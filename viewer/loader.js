// The script that a page runs at first: it inflates the style and the viewer, whose hashes the page's policy names.

{
  const page = (globalThis.pellucid = (async () => {
    let made;
    for (const tag of ["style", "script"]) {
      const packed = Uint8Array.from(atob(document.getElementById("viewer-" + tag).textContent), (c) => c.charCodeAt(0));
      made = document.createElement(tag);
      made.textContent = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
      document.head.append(made);
    }
    return made.started;
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
