"""Claim: the page that holds a model answers while one types.

    python benchmarks/page_typing.py --model RUN --src DATA/multi30k/test_2016_flickr.de.gz > page-typing.json
    python benchmarks/page_typing.py --quick          (a trial of seconds, with a random model)

A page with the model in int8 is opened in Chromium from a file, without a network, several times: the time until it can
be asked. Then sentences are put into its box, one after the other. For each is taken, from the last key on: when its
first word was there, what each further word took, and when the whole translation was there; greedily and with a beam
of 5. The page waits 60 ms for a further key, which is part of these times. Other sentences are typed key by key, 40 ms
apart, while long tasks of the main thread (above 50 ms) are counted. Without --model, models of 2 and 26 million random
parameters write 20 words for each source of 12. Times are of 95 in 100.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from page_speed import QUICK, SHAPES
from report import chromium, circumstances, positive, print_json, refusals_in_words, summarize_times_with_p95

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.data.lines import read_lines
from pellucid.model.transformer import Transformer
from pellucid.tasks.translator import Translator
from pellucid.text.vocabulary import Vocabulary
from pellucid.views.model_page import to_page

BEAMS = (1, 5)
WRAPPED = """async () => {
  await pellucid.ready;
  const { live } = await pellucid, box = document.querySelector("textarea"), translate = live.translate.bind(live);
  const state = (window.measured = { typed: 0, first: 0, words: [], done: 0, long: [] });
  box.addEventListener("input", () => Object.assign(state, { typed: performance.now(), first: 0, words: [], done: 0 }));
  live.translate = async (text, asked) => {
    const onWord = (word) => {
      const now = performance.now();
      state.words.push(now);
      if (!state.first) state.first = now;
      asked.onWord?.(word);
    };
    const found = await translate(text, { ...asked, onWord });
    if (text === box.value) state.done = performance.now();
    return found;
  };
  const observer = new PerformanceObserver((list) => state.long.push(...list.getEntries().map((one) => one.duration)));
  observer.observe({ type: "longtask" });
}"""

WHEN_DONE = """async () => {
  while (!window.measured.done) await new Promise((resolve) => setTimeout(resolve, 5));
  return window.measured;
}"""


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a translator's folder")
    parser.add_argument("--src", type=Path, help="sentences for it")
    parser.add_argument("--limit", type=positive, default=40, help="the first sentences")
    parser.add_argument("--repeats", type=positive, default=10, help="times that the page is opened")
    parser.add_argument("--quick", action="store_true", help="a trial of seconds, whose figures mean nothing")
    arguments = parser.parse_args(argv)
    if arguments.quick:
        arguments.limit, arguments.repeats = 2, 2
    translators = list(models(arguments))
    with TemporaryDirectory() as workspace, chromium() as browser:
        cases = [
            measured(browser, name, translator, sources, Path(workspace) / f"{number}.html", arguments.repeats)
            for number, (name, translator, sources) in enumerate(translators)
        ]
        version = browser.version
    print_json(circumstances(__file__, argv, ("playwright",)) | {"browser": version, "cases": cases})
    return 0


def models(arguments: argparse.Namespace) -> Iterator[tuple[str, Translator, list[str]]]:
    """Yields names, translators and sentences for them."""
    if arguments.model is not None:
        lines = list(read_lines(str(arguments.src)))[: arguments.limit] if arguments.src else ["Ein Hund läuft."]
        yield str(arguments.model), Translator.load(arguments.model, "cpu"), lines
        return
    for name, shape in ({"quick": QUICK} if arguments.quick else SHAPES).items():
        yield name, *random_translator(shape, arguments.limit)


def random_translator(shape: ModelConfig, count: int) -> tuple[Translator, list[str]]:
    """Returns a model whose words are numbers, which writes 20 of them, and sources of 12."""
    torch.manual_seed(1)
    sizes = shape.src_vocab_size - 4, shape.tgt_vocab_size - 4
    source, target = (Vocabulary("words", tuple(f"w{i}" for i in range(size))) for size in sizes)
    model = Transformer(shape)
    with torch.no_grad():
        model.output_projection.weight[shape.eos_id] = 0  # else some end at once
    draws = np.random.default_rng(1).integers(0, min(sizes), size=(count, 12))
    decode = DecodeConfig(max_length=20, segment="off")
    return Translator(model, (source, target), decode), [" ".join(f"w{i}" for i in row) for row in draws]


def measured(
    browser: Any, name: str, translator: Translator, sources: Sequence[str], path: Path, repeats: int
) -> dict[str, Any]:
    """Returns the times of one page, in milliseconds."""
    to_page(translator, path)
    ready = [opened_in(browser, path) for _ in range(repeats)]
    row: dict[str, Any] = {
        "model": name, "parameters": sum(p.numel() for p in translator.model.parameters()),
        "megabytes": round(path.stat().st_size / 1e6, 2), "sentences": len(sources),
        "ready_ms": summarize_times_with_p95(ready),
    }  # fmt: skip
    for beam in BEAMS:
        with opened(browser, path, beam) as page:
            row[f"beam {beam}"] = {
                name: summarize_times_with_p95(values) for name, values in answered(page, sources).items()
            }
    with opened(browser, path, 5) as page:
        row["long_tasks_while_typing"] = typed(page, sources[: max(2, len(sources) // 8)])
    print(f"{name}: {row}", file=sys.stderr)
    return row


@contextmanager
def opened(browser: Any, path: Path, beam: int) -> Iterator[Any]:
    """Yields the page, open without a network, with what takes the times in it."""
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto(f"{path.as_uri()}#beam={beam}&nbest=1")
    page.evaluate(WRAPPED)
    yield page
    context.close()


def opened_in(browser: Any, path: Path) -> float:
    """Returns the milliseconds from the beginning of the navigation until the model can be asked."""
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto(path.as_uri())
    page.evaluate("pellucid.ready")
    found: float = page.evaluate('performance.getEntriesByName("model-ready")[0].startTime')
    context.close()
    return found


def answered(page: Any, sources: Sequence[str]) -> dict[str, list[float]]:
    """Returns the times from the last key on: the first word, each further word, the whole."""
    times: dict[str, list[float]] = {"first_word_ms": [], "word_ms": [], "sentence_ms": []}
    for source in sources:
        page.fill("textarea", source)
        found = page.evaluate(WHEN_DONE)
        times["first_word_ms"].append(found["first"] - found["typed"])
        times["sentence_ms"].append(found["done"] - found["typed"])
        times["word_ms"] += np.diff(found["words"]).tolist()
    return times


def typed(page: Any, sources: Sequence[str]) -> dict[str, Any]:
    """Types sentences key by key; returns the keys, and the tasks that kept the page for more than 50 ms."""
    page.evaluate("window.measured.long = []")
    keys = 0
    for source in sources:
        page.fill("textarea", "")
        page.focus("textarea")
        page.keyboard.type(source, delay=40)
        keys += len(source)
    page.wait_for_timeout(500)
    long = page.evaluate("window.measured.long")
    return {"keys": keys, "count": len(long), "longest_ms": round(max(long, default=0.0), 1)}


if __name__ == "__main__":
    sys.exit(main())
