// The script that a page runs at first: it inflates the viewer, whose hash the page's policy names, and runs it.

globalThis.pellucid = (async () => {
  const packed = Uint8Array.from(atob(document.getElementById("viewer").textContent), (c) => c.charCodeAt(0));
  const script = document.createElement("script");
  script.textContent = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
  document.head.append(script);
  return script.started;
})();
