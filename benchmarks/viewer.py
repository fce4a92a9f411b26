"""How large the viewer's pages are and how fast they answer, in headless Chromium.

    python benchmarks/viewer.py [--layers 12 --heads 12 --width 64] [--lengths 128,512] > viewer.json

Needs the extra `browser` and Chromium. A switch of the layer or head is timed from the choice until the frame that
shows it is handed on for display, which waits for the screen's next frame (17 ms at most); it comes 150 ms after the
switch before, in which the page decodes the layers beside it. A hover is timed by the script's own time, and as shown.
The main thread's own time, decoding of the layers beside it included, tells what a busy machine hides.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from report import chromium, circumstances, p95, positive, print_json, refusals_in_words

from pellucid.tracing.attention import AttentionTrace
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace
from pellucid.views.page import page

VIEWS = ("heads", "matrix", "model", "neuron")
LIMITS = {
    "interactive_ms": 1000, "elements": 2500, "layer_switch_p95_ms": 50, "head_switch_p95_ms": 50, "hover_p95_ms": 16,
    "heap_mb": 150,
}  # fmt: skip

# A frame's callback runs before the frame is made, a message sent in it is received after.
TIMED = """
async ([what, repeats]) => {
  const p = await pellucid, app = p.app, pane = document.querySelector('.pane'), times = [];
  const painted = () => new Promise((resolve) => requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = resolve;
    port2.postMessage(0);
  }));
  for (let i = 0; i < repeats; i++) {
    const box = pane.getBoundingClientRect();
    const across = 0.05 + 0.9 * ((i * 37) % 101) / 101, down = 0.15 + 0.8 * ((i * 53) % 97) / 97;
    const clientX = box.left + (app.view.name === 'heads' ? 40 : across * box.width);
    const clientY = box.top + down * box.height;
    const count = what === 'layer' ? app.attention.numLayers : app.attention.numHeads;
    await new Promise((resolve) => setTimeout(resolve, what === 'hover' ? 30 : 150));
    const start = performance.now();
    if (what === 'hover') pane.dispatchEvent(new PointerEvent('pointermove', { clientX, clientY, bubbles: true }));
    else p.set({ [what]: (Number(app[what]) + 1) % count });
    await p.settled();
    const drawn = performance.now();
    await painted();
    times.push([performance.now() - start, drawn - start]);
  }
  return times;
}
"""


def made(length: int, layers: int, heads: int, width: int) -> Trace:
    """An encoder's trace of made-up queries and keys that look near themselves."""
    rng = np.random.default_rng(0)
    q, k = (rng.normal(scale=0.8, size=(layers, heads, length, width)).astype(np.float32) for _ in range(2))
    q += 0.7 * np.roll(k, 1, axis=2)
    tokens = tuple(Token(text=f" token{i}", piece=f"▁token{i}", id=i, word=i) for i in range(length))
    attention = AttentionTrace(name="encoder.self", queries="src", keys="src", q=q, k=k)
    about: dict[str, str | int | float] = {"name": "made up", "family": "encoder", "d_model": heads * width}
    return Trace(model=about, sequences={"src": tokens}, attentions={"encoder.self": attention}, faithfulness=0.0)


def measured(browser: Any, path: Path, view: str, repeats: int) -> dict[str, float]:
    """One view of a page, opened anew."""
    context = browser.new_context(viewport={"width": 1280, "height": 860}, offline=True)
    page = context.new_page()
    page.set_default_timeout(120_000)
    session = context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def metric(name: str) -> float:
        return {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}[name]

    def timed(what: str) -> tuple[tuple[float, ...], tuple[float, ...], float]:
        """Each time until it is shown and until it is drawn, and the main thread's own time, in ms."""
        before = metric("TaskDuration")
        shown, drawn = zip(*page.evaluate(TIMED, [what, repeats]), strict=True)
        return shown, drawn, round(1000 * (metric("TaskDuration") - before) / repeats, 1)

    page.goto(path.as_uri() + f"#view={view}")
    page.evaluate("pellucid.then((p) => p.settled())")
    found = {
        "interactive_ms": round(page.evaluate("performance.getEntriesByName('interactive')[0].startTime"), 1),
        "interactive_thread_ms": round(1000 * metric("TaskDuration"), 1),
        "elements": page.evaluate("document.querySelectorAll('*').length"),
    }
    for what in ("layer", "head") if view != "model" else ():
        shown, _, cpu = timed(what)
        found |= {f"{what}_switch_median_ms": round(statistics.median(shown), 1), f"{what}_switch_p95_ms": p95(shown)}
        found[f"{what}_switch_thread_ms"] = cpu
    shown, drawn, found["hover_thread_ms"] = timed("hover")
    found |= {"hover_median_ms": round(statistics.median(drawn), 1), "hover_p95_ms": p95(drawn)}
    found["hover_shown_median_ms"] = round(statistics.median(shown), 1)
    session.send("HeapProfiler.collectGarbage")
    heap = session.send("Runtime.getHeapUsage")  # typed arrays are not in usedSize
    found["heap_mb"] = round((heap["usedSize"] + heap["backingStorageSize"]) / 1e6, 1)
    context.close()
    return found


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> None:
    """Prints the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("layers", 12), ("heads", 12), ("width", 64)):
        parser.add_argument(f"--{name}", type=positive, default=default)
    parser.add_argument("--repeats", type=positive, default=30, help="how often each switch and hover is timed")
    parser.add_argument("--lengths", default="128,512")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        table = circumstances(__file__, argv, ["playwright"]) | {"limits": LIMITS, "pages": []}
        table["versions"]["chromium"] = browser.version
        for length in (int(one) for one in options.lengths.split(",")):
            trace = made(length, options.layers, options.heads, options.width)
            for views in (VIEWS[:3], VIEWS[3:], VIEWS):
                path = Path(folder) / f"{length}-{len(views)}.html"
                start = time.perf_counter()
                path.write_text(page([trace], view=views[0], views=views), encoding="utf-8")
                row: dict[str, Any] = {
                    "length": length,
                    "views": list(views),
                    "megabytes": round(path.stat().st_size / 1e6, 2),
                }
                row["seconds_to_write"] = round(time.perf_counter() - start, 2)
                if views == VIEWS:
                    row["in_the_browser"] = {view: measured(browser, path, view, options.repeats) for view in views}
                table["pages"].append(row)
                print(f"{length} tokens, {', '.join(views)}: {row['megabytes']} MB", file=sys.stderr)
    print_json(table)


if __name__ == "__main__":
    main()
