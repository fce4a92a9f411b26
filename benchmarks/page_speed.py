"""Claim: a page's model writes a word in 10 ms where it has 2 million parameters, in 60 ms where it has 26 million.

    python benchmarks/page_speed.py > page-speed.json        (--quick: a trial of seconds)
    python benchmarks/page_speed.py --model RUN              (a translator or language model of yours)

The modules of viewer/model/ run in Node, whose engine is Chromium's, on one thread. Times are of 95 in 100 words,
greedily and with a beam of 5, after a source or a prompt of 16 tokens, whose reading is timed by itself. The words are
drawn, and so are the hypotheses that go on: choosing them takes no part. Without --model the models are random, of the
shapes of the preset `tiny` (d_model 128, 4,000 words) and of d_model 512 with 3 layers each and 8,000 words.

Python's own steps stand beside them, on one thread, and must give the same logits.
"""

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import torch
from report import (
    circumstances,
    positive,
    print_json,
    program,
    refusals_in_words,
    summarize_times,
    summarize_times_with_p95,
    time_call,
)

from pellucid.config import ModelConfig
from pellucid.config.tables import to_table
from pellucid.decoding.fast_step import make_step
from pellucid.errors import ConfigError
from pellucid.model.families import DecoderOnly, Model, build_model
from pellucid.model.transformer import Transformer
from pellucid.weights.export.page_weights import PageWeights, dequantise, page_weights
from pellucid.weights.opening import open_folder

SHAPES = {
    "2 million": ModelConfig.preset("tiny", src_vocab_size=4000, tgt_vocab_size=4000),
    "26 million": ModelConfig(
        src_vocab_size=8000, tgt_vocab_size=8000, num_encoder_layers=3, num_decoder_layers=3, norm="pre",
        tie_embeddings="all",
    ),
}  # fmt: skip
QUICK = ModelConfig.preset("tiny", src_vocab_size=50, tgt_vocab_size=40, d_model=16, d_ff=32, tie_embeddings="decoder")
LENGTH, WIDTHS = 16, (1, 5)
SCRIPT = Path(__file__).with_suffix(".mjs")
NEAR = 1e-3
"""How near the logits of both sides must be."""

Words = list[tuple[list[int], list[int]]]


def given_models(args: argparse.Namespace) -> dict[str, Model]:
    """Returns the models by what they are called. Raises ConfigError for a folder whose model writes nothing."""
    if args.model is None:
        torch.manual_seed(0)
        shapes = {"quick": QUICK} if args.quick else SHAPES
        return {name: build_model(config).eval() for name, config in shapes.items()}
    model = open_folder(args.model, torch.device("cpu")).model.float()
    if not isinstance(model, Transformer | DecoderOnly):
        raise ConfigError(f"the model in `{args.model}` writes no words", "name a translator or a language model")
    return {str(args.model): model}


def drawn_words(vocab_size: int, width: int) -> Words:
    """Draws the tokens of each step, and the hypotheses that go on from it."""
    draw = random.Random(width)
    return [
        ([draw.randrange(vocab_size) for _ in range(width)], [draw.randrange(width) for _ in range(width)])
        for _ in range(LENGTH)
    ]


@torch.inference_mode()
def in_python(model: Model, ids: list[int], words: Words, sentences: int) -> tuple[list[float], list[Any]]:
    """Returns the milliseconds of each word, and the logits of each step of a sentence."""
    assert isinstance(model, Transformer | DecoderOnly)
    times: list[float] = []
    logits: list[Any] = []
    for _ in range(1 + sentences):
        logits = []
        cache = model.start(torch.tensor([ids]), len(words[0][0]))
        take = make_step(model, cache)
        for tokens, parents in words:

            def step(tokens: list[int] = tokens, parents: list[int] = parents) -> None:
                logits.append(take(torch.tensor([tokens]))[0])  # noqa: B023 (called before they change)
                cache.reorder(torch.tensor([parents]))  # noqa: B023

            times.append(1000 * time_call(step))
    return times[len(words) :], logits


def case(model: Model, width: int, weights: PageWeights, sentences: int, engine: str) -> dict[str, Any]:
    """Returns a row: one model, one width of the beam, both sides."""
    config = model.config
    draw = random.Random(0)
    sizes = config.src_vocab_size if config.num_encoder_layers else config.tgt_vocab_size
    ids = [draw.randrange(1, sizes) for _ in range(LENGTH)]
    words = drawn_words(config.tgt_vocab_size, width)
    with TemporaryDirectory() as folder:
        packed = Path(folder, "weights")
        packed.write_bytes(page_weights(model, weights))
        asked = {"config": to_table(config), "weights": str(packed), "ids": ids, "words": words, "width": width}
        done = subprocess.run(
            [engine, str(SCRIPT)], input=json.dumps(asked | {"sentences": sentences}),
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        size = packed.stat().st_size
    found = json.loads(done.stdout)
    python_ms, exact = in_python(dequantise(model, weights), ids, words, sentences)
    error = max(
        float((torch.tensor(one).view_as(other) - other).abs().max())
        for one, other in zip(found["logits"], exact, strict=True)
    )
    if error > NEAR:
        raise SystemExit(f"the logits differ by {error:.2g}: nothing is timed")
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "weights": weights, "bytes": size, "beam": width, "largest difference of a logit": error,
        "open_ms": round(found["openMs"], 1), "read_ms": summarize_times(found["firstMs"]),
        "word_ms": summarize_times_with_p95(found["wordMs"]),
        "words a second": round(1000 * len(found["wordMs"]) / sum(found["wordMs"])),
        "python_word_ms": summarize_times_with_p95(python_ms),
    }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    """Measures; JSON on standard output, a line a case on standard error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a model folder in place of the random models")
    parser.add_argument("--weights", choices=get_args(PageWeights), default="float32")
    parser.add_argument("--sentences", type=positive, default=20, help="sentences of 16 words, for each case")
    parser.add_argument("--quick", action="store_true", help="a small model, a trial of the script")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    rows = []
    with refusals_in_words():
        engine = program("node", "nodejs")
        for name, model in given_models(args).items():
            for width in WIDTHS:
                row = {"model": name} | case(model, width, args.weights, 1 if args.quick else args.sentences, engine)
                rows.append(row)
                print(
                    f"{name}, beam {width}: a word {row['word_ms']['median']} ms, 95 of 100 under "
                    f"{row['word_ms']['p95']} ms, {row['words a second']:,} a second; Python "
                    f"{row['python_word_ms']['median']} ms",
                    file=sys.stderr,
                )
    version = subprocess.run([engine, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    print_json(circumstances(__file__, argv) | {"node": version, "cases": rows})


if __name__ == "__main__":
    main()
