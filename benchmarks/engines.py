"""Claim: `engine="ctranslate2"` costs next to nothing over CTranslate2 itself, and answers from the shell at once.

    python benchmarks/engines.py RUN --input test.de > engines.json      (--quick: a trial of seconds)

Lines to lines against words to words: one side is `Translator.translate` with all that it does beside the engine
(sentences, tokenization, batches, text, scores), the other is `ctranslate2.Translator.translate_batch` of the same
conversion, whose words lie ready in the same batches and are left as words. Both have as many workers as `--threads`;
they take turns, greedily and with a beam of 5, in batches and one line at a time, in each type. The own engine, in
single precision, stands beside, for its share of CTranslate2's speed and for how much faster the other one is, and the
compiled engine where numba is installed; without tokenizers, ids to ids, as well.

Then a sentence from the shell, `pellucid translate RUN TEXT --engine ...`: processor seconds and wall seconds of the
whole process, once the conversion is kept. The model's folder is copied first, without what is kept in it.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import torch
from report import circumstances, format_times, positive, print_json, refusals_in_words, summarize_times, take_turns

import pellucid
from pellucid.data.lines import read_lines
from pellucid.decoding.batches import batches_by_length
from pellucid.engines.conversion_cache import FOLDER, MODEL
from pellucid.errors import ConfigError
from pellucid.process import keep_freed_memory

DTYPES = "float32", "int8"
BEAMS = 1, 5
ASKED = 0.95
QUICK = 20
"""Lines of a trial."""
ALONE = 150
"""Lines that are translated one at a time."""


def copied(model: Path, folder: Path) -> Path:
    """Returns a copy of a model's folder alone: what a run has beside it is left out, and so is what is kept in it."""
    place = folder / "model"
    shutil.copytree(model, place, ignore=shutil.ignore_patterns(FOLDER, "checkpoints", "data", "*.jsonl"))
    return place


def directly(
    folder: Path, dtype: str, lines: Sequence[str], beam_size: int, threads: int, alone: bool
) -> Callable[[], None]:
    """Returns a call of CTranslate2 that translates the lines alone, or in the batches that Pellucid makes of them."""
    import ctranslate2

    opened = pellucid.Translator.load(folder, engine="ctranslate2", dtype=dtype, threads=threads)
    (kept,) = (folder / FOLDER).glob(f"ctranslate2-{dtype}-*")
    engine = ctranslate2.Translator(str(kept / MODEL), compute_type=dtype, inter_threads=threads, intra_threads=1)
    tokenizer, decode, config = opened.tokenizers.source, opened.decode, opened.config
    texts = [s.source for found in opened.translate(lines, beam_size=1) for s in found.sentences]
    sources = [decode.add_special_ids(ids, config.eos_id) for ids in tokenizer.encode_lines(texts)]
    vocabulary = json.loads(next(kept.glob(f"{MODEL}/s*_vocabulary.json")).read_text(encoding="utf-8"))
    words = [[vocabulary[i] for i in ids] for ids in sources]
    limits = [decode.limit(len(source) - decode.added) + 1 for source in sources]
    budget = decode.batch_tokens // beam_size
    batches = list(batches_by_length([(len(source) - 1,) for source in sources], budget, padded=True))

    def translate_alone() -> None:
        for sentence, limit in zip(words, limits, strict=True):
            engine.translate_batch(
                [sentence], beam_size=beam_size, length_penalty=decode.length_penalty, max_decoding_length=limit
            )

    def translate() -> None:
        under_way = [
            engine.translate_batch(
                [words[place] for place in batch], beam_size=beam_size, length_penalty=decode.length_penalty,
                max_decoding_length=max(limits[place] for place in batch), asynchronous=True,
            )
            for batch in batches
        ]  # fmt: skip
        for results in under_way:
            for result in results:
                result.result()

    return translate_alone if alone else translate


def through(translator: pellucid.Translator, lines: Sequence[str], beam_size: int, alone: bool) -> Callable[[], None]:
    """Returns a call of a translator with the lines, each of them alone or all together."""

    def translate() -> None:
        for part in [[line] for line in lines] if alone else [lines]:
            translator.translate(part, beam_size=beam_size)

    return translate


def translating(folder: Path, lines: Sequence[str], rounds: int, threads: int) -> dict[str, Any]:
    """Lines a second of each side, and what share of CTranslate2's own speed Pellucid's translator has."""
    own = pellucid.Translator.load(folder, "cpu", engine="torch")
    compiled = pellucid.Translator.load(folder, "cpu", engine="compiled") if find_spec("numba") else None
    table: dict[str, Any] = {}
    for dtype in DTYPES:
        fast = pellucid.Translator.load(folder, engine="ctranslate2", dtype=dtype, threads=threads)
        for beam_size, alone in product(BEAMS, (False, True)):
            some = lines[:ALONE] if alone else lines
            sides = {
                "pellucid": through(fast, some, beam_size, alone),
                "directly": directly(folder, dtype, some, beam_size, threads, alone),
                "own engine": through(own, some, beam_size, alone),
            }
            if compiled is not None:
                sides["compiled"] = through(compiled, some, beam_size, alone)
                sides["compiled, ids to ids"] = over_ids(compiled, some, beam_size, alone)
            torch.set_num_threads(threads)  # CTranslate2, called directly, has set them to its own
            times = take_turns(sides, rounds, warm_up=1)
            shares = {
                name: summarize_times([b / a for a, b in zip(times[name], times["directly"], strict=True)])
                for name in sides
                if name != "directly"
            }
            faster = summarize_times([b / a for a, b in zip(times["pellucid"], times["own engine"], strict=True)])
            case = f"{dtype}, beam {beam_size}{', alone' if alone else ''}"
            table[case] = {
                "lines_per_second": {name: summarize_times([len(some) / s for s in each]) for name,
                each in times.items()},
                "share_of_ctranslate2": shares["pellucid"], "own_engine_share_of_ctranslate2": shares["own engine"],
                "shares_of_ctranslate2": shares,
                "times_as_fast_as_the_own_engine": faster,
            }  # fmt: skip
            print(
                f"{case}: {format_times(shares['pellucid'])} of CTranslate2 called directly (asked: {ASKED}), "
                f"{format_times(faster)} times as fast as the own engine, which has "
                f"{format_times(shares['own engine'])}; "
                + "; ".join(f"{name}: {format_times(shares[name])}" for name in shares if name.startswith("compiled")),
                file=sys.stderr,
            )
    return table


def over_ids(translator: pellucid.Translator, lines: Sequence[str], beam_size: int, alone: bool) -> Callable[[], None]:
    """Returns a call of an engine with the ids of all sentences, each of them alone or all together."""
    texts = [s.source for found in translator.translate(lines, beam_size=1) for s in found.sentences]
    sources = translator.tokenizers.source.encode_lines(texts)
    decode = replace(translator.decode, beam_size=beam_size)
    calls = [[list(ids)] for ids in sources] if alone else [[list(ids) for ids in sources]]

    def search() -> None:
        for each in calls:
            translator.engine.search_all(each, decode, None, None)

    return search


def from_the_shell(folder: Path, line: str, rounds: int, threads: int) -> dict[str, Any]:
    """Seconds of a process that translates a line, by engine."""
    sides = {
        "ctranslate2, int8": ["--engine", "ctranslate2", "--dtype", "int8"],
        "ctranslate2, float32": ["--engine", "ctranslate2"],
        "torch": [],
    }
    if find_spec("numba"):
        sides["compiled"] = ["--engine", "compiled"]
    found: dict[str, dict[str, list[float]]] = {name: {"cpu_seconds": [], "wall_seconds": []} for name in sides}
    for number in range(rounds + 1):
        for name, options in sides.items():
            command = [sys.executable, "-m", "pellucid", "translate", str(folder), line, "--threads", str(threads)]
            before, started = os.times(), time.perf_counter()
            subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)
            wall, after = time.perf_counter() - started, os.times()
            if number:  # the first one reads the files from the disk
                cpu = after.children_user + after.children_system - before.children_user - before.children_system
                found[name]["cpu_seconds"].append(cpu)
                found[name]["wall_seconds"].append(wall)
    table = {name: {kind: summarize_times(values) for kind, values in kinds.items()} for name, kinds in found.items()}
    for name, kinds in table.items():
        print(f"a sentence from the shell, {name}: {format_times(kinds['cpu_seconds'])} s of CPU", file=sys.stderr)
    return table


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> None:
    """Measures; JSON on standard output, the rest on standard error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a run or model folder of a translator")
    parser.add_argument("--input", required=True, help="lines to translate, one a line")
    parser.add_argument("--rounds", type=positive, default=5, help="how often each side is measured")
    parser.add_argument("--threads", type=positive, default=torch.get_num_threads())
    parser.add_argument("--quick", action="store_true", help=f"the first {QUICK} lines, a trial of the script")
    args = parser.parse_args(argv)
    if not args.model.is_dir():
        raise ConfigError(f"`{args.model}` is no folder", "name the folder of a translator")
    lines = list(read_lines(args.input))[: QUICK if args.quick else None]
    torch.set_num_threads(args.threads)
    keep_freed_memory()
    table: dict[str, Any] = {"lines": len(lines), "asked_share": ASKED}
    with tempfile.TemporaryDirectory() as temporary:
        folder = copied(args.model, Path(temporary))
        table["translating"] = translating(folder, lines, args.rounds, args.threads)
        table["from_the_shell"] = from_the_shell(folder, lines[0], args.rounds, args.threads)
    print_json(circumstances(__file__, argv, ("ctranslate2",)) | table)


if __name__ == "__main__":
    main()
