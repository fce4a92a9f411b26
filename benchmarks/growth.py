"""Claim: time and memory grow no faster than they have to, with length, vocabulary, batch, beam, model and corpus.

    python benchmarks/growth.py --picture growth.svg > growth.json        (--quick: a trial of two sizes each)

Each point is measured in a process of its own, on one thread unless `--threads` says otherwise: the median of three
calls after one that does not count, and the most memory that it takes beyond what was there before it. The exponent is
the slope of both over the last three sizes (of memory, over those that take some), on axes of logarithms: 1 is in
proportion, 2 with the square. What it may be follows from the work: attention multiplies each position with each, so
time may grow with the square of the length, but memory need not, since no kernel has to keep the products.
"""

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from report import circumstances, positive, print_json, refusals_in_words, time_call

from pellucid.config import DecodeConfig, ModelConfig, TrainConfig
from pellucid.data.batching import Batch
from pellucid.decoding.beam import beam_search, greedy_search
from pellucid.decoding.steps import SearchState
from pellucid.errors import ConfigError
from pellucid.model.transformer import Transformer
from pellucid.process import keep_freed_memory
from pellucid.training.loss import make_loss
from pellucid.training.optimizer import make_optimizer, set_learning_rate
from pellucid.views.canvas.chart import Panel, Series, draw_panel
from pellucid.views.canvas.drawing import MARGIN, PAGE, Drawing

Work = Callable[[], object]
SHAPE = {"d_model": 128, "d_ff": 512, "num_heads": 4, "num_encoder_layers": 2, "num_decoder_layers": 2}
VOCABULARY = 1000
LAST = 3
"""The sizes that an exponent is taken over."""
LEAST_MEGABYTES = 16.0
"""The memory below which a point says nothing of growth: so much takes a first call, whatever its size."""
SPARE = 0.15
"""The part of an exponent that measurements stray by."""


def model_of(**fields: Any) -> Transformer:
    """Returns a small model with random weights and room for long texts."""
    torch.manual_seed(0)
    sizes = {"src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY, "max_positions": 8192}
    return Transformer(ModelConfig(**{**sizes, **SHAPE, "norm": "pre", "tie_embeddings": "all", **fields}))


def ids_of(model: Transformer, sentences: int, length: int) -> torch.Tensor:
    """Returns sentences of random ids, none of them special: (sentences, length)."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(4, model.config.tgt_vocab_size, (sentences, length), generator=generator)


def training(sentences: int, length: int, **fields: Any) -> Work:
    """Returns what takes a step of training on sentence pairs of one length."""
    model = model_of(**fields).train()
    train = TrainConfig(schedule="constant", learning_rate=1e-3)
    loss, optimizer = make_loss(train), make_optimizer(model, train)
    set_learning_rate(optimizer, 1e-3)
    ids = ids_of(model, sentences, length)
    batch = Batch(ids, ids, ids, np.arange(sentences), ids.numel())

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        (loss(model, batch).minimised / batch.num_tokens).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def decoding(sentences: int, length: int, beam_size: int = 1, **fields: Any) -> Work:
    """Returns what translates sentences into as many tokens as they have: no output ends before that."""
    model = model_of(**fields).eval()
    ids, eos = ids_of(model, sentences, length), model.config.eos_id
    decode = DecodeConfig(beam_size=beam_size, max_length=length, suppress_tokens=(eos,))
    search = greedy_search if beam_size == 1 else beam_search

    def translate() -> None:
        with torch.inference_mode():
            search(SearchState(model, ids, decode, range(sentences)), decode)

    return translate


@dataclass(frozen=True)
class Dimension:
    """Names what grows, its sizes, the work at a size, and the exponents that time and memory may have."""

    name: str
    unit: str
    sizes: tuple[int, ...]
    work: Callable[[int], Work] | None
    time: float = 1.0
    memory: float = 1.0


DIMENSIONS = {
    d.name: d
    for d in (
        Dimension(
            "training by length", "tokens of a pair's sides", (64, 128, 256, 512, 1024, 2048, 4096),
            lambda n: training(1, n), time=2.0,
        ),
        Dimension(
            "greedy decoding by length", "tokens of source and output", (64, 128, 256, 512, 1024, 2048, 4096),
            lambda n: decoding(1, n), time=2.0,
        ),
        Dimension(
            "beam of 5 by length", "tokens of source and output", (32, 64, 128, 256, 512, 1024),
            lambda n: decoding(4, n, 5), time=2.0,
        ),
        Dimension(
            "training by vocabulary", "words", (1000, 4000, 16000, 32000, 64000),
            lambda n: training(32, 16, src_vocab_size=n, tgt_vocab_size=n),
        ),
        Dimension(
            "beam of 5 by vocabulary", "words", (1000, 4000, 16000, 32000, 64000),
            lambda n: decoding(32, 16, 5, src_vocab_size=n, tgt_vocab_size=n),
        ),
        Dimension("training by batch", "pairs of 32 tokens", (4, 16, 64, 128, 256, 512), lambda n: training(n, 32)),
        Dimension(
            "greedy decoding by batch", "sentences of 32 tokens", (1, 4, 16, 64, 256, 512), lambda n: decoding(n, 32)
        ),
        Dimension("decoding by beam", "hypotheses", (2, 4, 8, 16, 32), lambda n: decoding(16, 24, n)),
        Dimension(
            "training by width", "d_model", (64, 128, 256, 512, 1024),
            lambda n: training(32, 32, d_model=n, d_ff=4 * n), time=2.0, memory=2.0,
        ),
        Dimension("starting by corpus", "pairs", (3000, 10_000, 30_000, 100_000, 300_000), None),
    )
}  # fmt: skip


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Measures all points, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=DIMENSIONS, help="what is to grow; may be repeated")
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--threads", type=positive, default=1)
    parser.add_argument("--picture", type=Path, help="an SVG with a chart for each")
    parser.add_argument("--quick", action="store_true", help="the two smallest sizes of each")
    parser.add_argument("--point", nargs=2, metavar=("NAME", "SIZE"), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    torch.set_num_threads(options.threads)
    if options.point:
        name, size = options.point
        print(json.dumps(point(DIMENSIONS[name], int(size), options.rounds)))
        return 0
    rows = [measured(DIMENSIONS[name], options) for name in options.only or DIMENSIONS]
    if options.picture:
        drawing = picture(rows)
        (drawing.png if options.picture.suffix == ".png" else drawing.svg)(options.picture)
    print_json(circumstances(__file__, argv) | {"growth": rows})
    return 0


def point(dimension: Dimension, size: int, rounds: int) -> dict[str, float]:
    """Measures one size in this process: seconds, and megabytes beyond what was there before."""
    assert dimension.work is not None
    keep_freed_memory()  # as a command does
    work = dimension.work(size)
    before = most_memory()
    work()
    found = statistics.median(time_call(work) for _ in range(rounds))
    return {"size": size, "seconds": round(found, 6), "megabytes": round(most_memory() - before, 1)}


def starting(pairs: int) -> dict[str, float]:
    """Measures a command that trains one step on so many pairs, and the same command once more, which finds it done.

    The sentences are of words that occur as often as in a language: the n-th as often as 1 / n.
    """
    draw = np.random.default_rng(1)
    words = np.array(["".join(draw.choice(list("abcdefghijklmnop"), draw.integers(2, 9))) for _ in range(20_000)])
    with tempfile.TemporaryDirectory() as folder:
        for side in ("src", "tgt"):
            lengths = draw.integers(5, 20, pairs)
            chosen = words[np.minimum(draw.zipf(1.3, int(lengths.sum())) - 1, len(words) - 1)]
            lines = (" ".join(line) for line in np.split(chosen, np.cumsum(lengths)[:-1]))
            Path(folder, side).write_text("\n".join(lines) + "\n", encoding="utf-8")
        small = ("model.d_model=16", "model.num_heads=2", "model.d_ff=16", "data.vocab_size=4000", "train.steps=1")
        settings = [word for setting in (*small, "train.decode_and_evaluate=0") for word in ("--set", setting)]
        command = [sys.executable, "-m", "pellucid", "train", "--src", f"{folder}/src", "--tgt", f"{folder}/tgt"]
        command += ["--out", f"{folder}/run", *settings]
        (first, megabytes), (again, _) = (command_taken(command) for _ in range(2))
    return {"size": pairs, "seconds": round(first, 3), "seconds_again": round(again, 3), "megabytes": megabytes}


def command_taken(command: Sequence[str]) -> tuple[float, float]:
    """Returns the seconds and the most megabytes that a command takes. Raises ConfigError where it fails."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        ended: list[Any] = []
        duration = time_call(lambda: ended.extend(os.wait4(process.pid, 0)))
        process.returncode = os.waitstatus_to_exitcode(ended[1])
        if process.returncode:
            errors.seek(0)
            raise ConfigError(f"`{' '.join(command)}` failed: {errors.read().decode('utf-8', 'replace')}")
    return duration, round(ended[2].ru_maxrss / 1024, 1)


def most_memory() -> float:
    """Returns the most megabytes that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(dimension: Dimension, options: argparse.Namespace) -> dict[str, Any]:
    """Returns the points of a dimension, each from a process of its own, and the exponents of their growth."""
    sizes = dimension.sizes[:2] if options.quick else dimension.sizes
    points = []
    for size in sizes:
        if dimension.work is None:
            points.append(starting(size))
        else:
            own = ("--point", dimension.name, size, "--rounds", options.rounds, "--threads", options.threads)
            command = [sys.executable, str(Path(__file__).resolve()), *map(str, own)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise ConfigError(f"{dimension.name}, {size:,} {dimension.unit}: {done.stderr.strip()}")
            points.append(json.loads(done.stdout))
        print(f"{dimension.name}: {points[-1]}", file=sys.stderr, flush=True)
    time = exponent(points, "seconds")
    large = [point for point in points if point["megabytes"] >= LEAST_MEGABYTES]
    memory = exponent(large, "megabytes") if len(large) > 1 else None
    return {
        "what": dimension.name, "unit": dimension.unit, "points": points,
        "time": {"exponent": time, "at_most": dimension.time, "holds": time <= dimension.time + SPARE},
        "memory": {
            "exponent": memory, "at_most": dimension.memory,
            "holds": None if memory is None else memory <= dimension.memory + SPARE,
        },
    }  # fmt: skip


def exponent(points: Sequence[dict[str, float]], name: str) -> float:
    """Returns the slope of a measurement over the last sizes, on axes of logarithms, by least squares."""
    last = points[-LAST:]
    slope, _ = np.polyfit([math.log(p["size"]) for p in last], [math.log(p[name]) for p in last], 1)
    return round(float(slope), 2)


def picture(rows: Sequence[dict[str, Any]]) -> Drawing:
    """Draws time and memory of each dimension side by side, on axes of logarithms."""
    drawing = Drawing("Growth", "Time and memory of one call by size; the slope over the last three sizes.")
    y = drawing.add_heading(drawing.title, drawing.description, PAGE) + 6
    width = (PAGE - 2 * MARGIN) / 2
    for row in rows:
        sizes = np.array([point["size"] for point in row["points"]], float)
        below = []
        for number, (name, unit, says) in enumerate((("seconds", "s", "time"), ("megabytes", "MB", "memory"))):
            values = np.array([point[name] for point in row["points"]])
            slope = row[says]["exponent"]
            title = f"{row['what']}, {unit}" + ("" if slope is None else f": slope {slope:g}")
            line = Series("", sizes, np.where(values > 0, values, np.nan), dots=True)
            panel = Panel(title, row["unit"], (line,), logarithmic=True, logarithmic_across=True)
            below.append(draw_panel(drawing, panel, MARGIN + number * width, y, width))
        y = max(below) + 8
    return drawing.finish(None)


if __name__ == "__main__":
    sys.exit(main())
