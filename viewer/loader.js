// The script that a page runs at first: it inflates the style and the viewer, whose hashes the page's policy names.

globalThis.pellucid = (async () => {
  /** @type {any} */
  let made;
  for (const tag of ["style", "script"]) {
    const packed = Uint8Array.from(atob(document.getElementById("viewer-" + tag).textContent), (c) => c.charCodeAt(0));
    made = document.createElement(tag);
    made.textContent = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
    document.head.append(made);
  }
  return made.started;
})();
