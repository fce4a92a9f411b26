"""Claim: Pellucid translates more sentences a second than transformers with the same weights; CTranslate2 beside them.

    python benchmarks/decoding_speed.py --data-dir DATA > decoding.json      (--quick: a trial of a minute)
    python benchmarks/decoding_speed.py --data-dir DATA --model FOLDER       a model trained by decoding_model.toml

Without --model, decoding_model.toml is trained into runs/decoding-model first; what is there already is used.

Engines, in one process, in single precision, with as many threads and the memory setting of Pellucid's commands:

    pellucid         pellucid.decoding.batched_search.search with its default batches (4,096 source tokens, beams
    included) pellucid-64      the same, given batches of 64 sentences of similar length, as the peers are
    transformers-64  MarianMTModel.generate with early_stopping: done when all beams have finished, as in the others
    ctranslate2-64   CTranslate2, float32

Before anything is timed, the engines must agree: logits of Pellucid and transformers within 1e-4, scores of Pellucid
and CTranslate2 within 1e-3; how many greedy outputs are equal is counted. Then the engines take turns, each time
another first. Tokenization and loading are left out; BLEU is of each engine's own output. The first 150 sentences are
translated greedily one at a time as well. Beside them stands the speed of a product of 1,024 x 1,024 matrices.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from measured_model import load_recipe
from report import circumstances, format_times, matrix_peak, positive, print_json, refusals_in_words, summarize_times

from pellucid.config import DecodeConfig
from pellucid.data.lines import read_pairs
from pellucid.decoding.batched_search import search
from pellucid.decoding.batches import pad
from pellucid.decoding.scoring import score_outputs
from pellucid.evaluation.scores import score_corpus
from pellucid.model.transformer import Transformer
from pellucid.process import keep_freed_memory
from pellucid.run.run import train
from pellucid.tasks.translator import Translator

BATCH, ALONE = 64, 150
BEAMS = (1, 5)
RUN = Path("runs/decoding-model")
Ids = list[list[int]]
Engine = Callable[[Ids, int], Ids]
"""(sources, beam size) -> outputs in the sources' order; all without start and end tokens."""


@dataclass(frozen=True)
class TestSet:
    """The sentences to translate, as ids, and their references."""

    sources: Ids
    targets: Ids
    references: list[str]


def in_batches(run: Engine) -> Engine:
    """`run` on 64 sentences of similar length at a time."""

    def translate(sources: Ids, beam_size: int) -> Ids:
        order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
        outputs: dict[int, list[int]] = {}
        for start in range(0, len(order), BATCH):
            places = order[start : start + BATCH]
            outputs.update(zip(places, run([sources[i] for i in places], beam_size), strict=True))
        return [outputs[i] for i in range(len(sources))]

    return translate


def pellucid_engine(model: Transformer, batch_tokens: int) -> Engine:
    """Pellucid's own search, batches of at most so many source tokens, beams included."""

    def translate(sources: Ids, beam_size: int) -> Ids:
        config = DecodeConfig(beam_size=beam_size, batch_tokens=batch_tokens)
        return [hypotheses[0].ids for hypotheses in search(model, sources, config)]

    return translate


def make_engines(model: Transformer, marian_model: Any, ct2_translator: Any) -> dict[str, Engine]:
    """All engines by name."""
    import ct2
    import marian

    config, whole_batch = model.config, 2**24
    return {
        "pellucid": pellucid_engine(model, DecodeConfig().batch_tokens),
        "pellucid-64": in_batches(pellucid_engine(model, whole_batch)),
        "transformers-64": in_batches(lambda sources, beam: marian.generate(marian_model, config, sources, beam)),
        "ctranslate2-64": in_batches(lambda sources, beam: ct2.translate(ct2_translator, config, sources, beam)),
    }


def prove_equal(model: Transformer, marian_model: Any, ct2_translator: Any, test: TestSet) -> dict[str, float]:
    """Largest differences of logits and scores over some sentences. Raises where they are too large."""
    import ct2

    config, sources, targets = model.config, test.sources[:BATCH], test.targets[:BATCH]
    src = pad([[*source, config.eos_id] for source in sources], config.pad_id or 0)
    tgt_in = pad([[config.bos_id, *target] for target in targets], config.pad_id or 0)
    with torch.inference_mode():
        mask = src.ne(config.pad_id or 0).long()
        theirs = marian_model(input_ids=src, attention_mask=mask, decoder_input_ids=tgt_in).logits
        logits = float((model(src, tgt_in) - theirs).abs().max())
    ours = score_outputs(model, sources, targets)
    scores = max(abs(a - b) for a, b in zip(ours, ct2.score(ct2_translator, config, sources, targets), strict=True))
    print(
        f"largest difference: logits to transformers {logits:.1g}, scores to CTranslate2 {scores:.1g}", file=sys.stderr
    )
    assert logits < 1e-4, f"logits differ by {logits:.2g}"
    assert scores < 1e-3, f"scores differ by {scores:.2g}"
    return {"logits_difference": logits, "scores_difference": scores}


def count_equal(engines: dict[str, Engine], sources: Ids) -> dict[str, int]:
    """How many greedy outputs of each engine are Pellucid's."""
    outputs = {name: engine(sources, 1) for name, engine in engines.items()}
    equal = {name: sum(a == b for a, b in zip(outputs["pellucid"], outputs[name], strict=True)) for name in engines}
    counts = ", ".join(f"{name} {count:,}" for name, count in equal.items())
    print(f"greedy outputs equal to Pellucid's, of {len(sources):,}: {counts}", file=sys.stderr)
    return equal


def one_at_a_time(run: Engine) -> Engine:
    """`run` on each sentence by itself."""
    return lambda sources, beam_size: [run([source], beam_size)[0] for source in sources]


def measure(
    engines: dict[str, Engine], test: TestSet, beam_size: int, rounds: int
) -> tuple[dict[str, Ids], dict[str, list[float]]]:
    """Each engine's outputs, and its seconds in each round, after a batch of warm-up."""
    names, outputs = list(engines), dict[str, Ids]()
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for engine in engines.values():
        engine(test.sources[:BATCH], beam_size)
    for number in range(rounds):
        for name in (*names[number % len(names) :], *names[: number % len(names)]):
            started = time.perf_counter()
            outputs[name] = engines[name](test.sources, beam_size)
            seconds[name].append(time.perf_counter() - started)
        speeds = ", ".join(f"{name} {len(test.sources) / seconds[name][-1]:,.1f}" for name in names)
        print(f"beam {beam_size}, round {number + 1}: {speeds} sentences/s", file=sys.stderr)
    return outputs, seconds


def summarise(outputs: dict[str, Ids], seconds: dict[str, list[float]], test: TestSet, decode: Any) -> dict[str, Any]:
    """Speed, ratio to Pellucid round by round, and BLEU of each engine."""
    table: dict[str, Any] = {}
    for name, found in outputs.items():
        scores = score_corpus([decode(ids) for ids in found], test.references, resamples=40)
        speeds = summarize_times([len(test.sources) / s for s in seconds[name]])
        ratios = summarize_times(
            [theirs / ours for theirs, ours in zip(seconds[name], seconds["pellucid"], strict=True)]
        )
        table[name] = {
            "sentences_per_second": speeds, "pellucid_times_as_fast": ratios, "seconds": seconds[name],
            "bleu": scores.bleu, "signature": scores.signature,
        }  # fmt: skip
        print(
            f"{name:<16} {format_times(speeds)} sentences/s, BLEU {scores.bleu:.2f}, "
            f"Pellucid is {format_times(ratios)} times as fast",
            file=sys.stderr,
        )
    return table


def load_translator(args: argparse.Namespace, folder: Path) -> tuple[Translator, TestSet]:
    """The model, trained first where none is given, and the test set."""
    recipe = load_recipe(args.data_dir, args.quick)
    if args.model is None:
        args.model = folder / "run" if args.quick else RUN
        train(recipe, args.model, device="cpu")
    translator = Translator.load(args.model, device="cpu", dtype="float32", engine="torch")
    data = replace(
        recipe.data, test_src=args.input or recipe.data.test_src, test_tgt=args.reference or recipe.data.test_tgt
    )
    pairs = list(read_pairs(data.test_src, data.test_tgt))[: 100 if args.quick else None]
    sources, references = (list(side) for side in zip(*pairs, strict=True))
    tokenizers = translator.tokenizers
    ids = tokenizers.source.encode_lines(sources), tokenizers.target.encode_lines(references)
    return translator, TestSet(*ids, references)


def run(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Loads, proves, measures."""
    translator, test = load_translator(args, folder)
    import ct2
    import marian

    model, target = translator.model, translator.tokenizers.target
    marian_model = marian.to_marian(model)
    ct2_translator = ct2.to_ctranslate2(model, target.unk_id, folder / "ct2", args.threads)
    engines = make_engines(model, marian_model, ct2_translator)
    table: dict[str, Any] = {"model": asdict(model.config), "sentences": len(test.sources), "batch": BATCH}
    table |= prove_equal(model, marian_model, ct2_translator, test)
    table["greedy_outputs_equal_to_pellucid"] = count_equal(engines, test.sources)
    peaks = [matrix_peak()]
    for beam_size in BEAMS:
        found = measure(engines, test, beam_size, args.rounds)
        table[f"beam_{beam_size}"] = summarise(*found, test, target.decode)
        peaks.append(matrix_peak())
    first = TestSet(test.sources[:ALONE], test.targets[:ALONE], test.references[:ALONE])
    alone = {
        name.removesuffix("-64"): one_at_a_time(engine) for name, engine in engines.items() if name != "pellucid-64"
    }
    print(f"one sentence at a time, the first {len(first.sources)}:", file=sys.stderr)
    table["greedy_alone"] = summarise(*measure(alone, first, 1, args.rounds), first, target.decode)
    return table | {"peak_gflops": summarize_times([peak / 1e9 for peak in peaks])}


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> None:
    """Measures; JSON on standard output, the rest on standard error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a model folder; without it one is trained into runs/decoding-model")
    parser.add_argument("--data-dir", help="holds multi30k/; else PELLUCID_DATA does")
    parser.add_argument("--input", help="source sentences, one a line, instead of test_2016_flickr.de")
    parser.add_argument("--reference", help="their translations")
    parser.add_argument("--rounds", type=positive, default=3, help="how often each engine is measured")
    parser.add_argument("--threads", type=positive, default=torch.get_num_threads())
    parser.add_argument("--quick", action="store_true", help="a small model and 100 sentences, a trial of the script")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        table = run(args, Path(folder))
    print_json(circumstances(__file__, argv, ("transformers", "ctranslate2")) | table)


if __name__ == "__main__":
    main()
