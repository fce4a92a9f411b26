"""Measures all that is to be known of a GPU, in nine minutes at most, on a bare machine with torch.

    PYTHONPATH=src python benchmarks/gpu.py --out gpu.json > same.json      (--device cpu --tiny: a trial of seconds)

What Pellucid imports must be there: numpy, rich, safetensors, sentencepiece, sentencex.
Nothing is fetched: weights and texts are random, lengths are those of news. `--model FOLDER` measures the decoding of a
trained model as well. The parts:

    peak        products of two square matrices, by type, against which all shares are taken
    equality    logits, scores and ids on the CPU and on the device, in single and double precision; a step's gradient
    waits       how often a step of training, and of search, has Python wait for the device (it should be: never, and
                a few times in eight steps)
    stopped     a loss that is not finite, noticed steps later: no weight has changed
    shapes      steps on batches of shapes that are new, against the same batches once more
    training    target tokens a second, share of the peak and memory, by model and type, against a plain loop around
                nn.Transformer
    decoding    sentences a second, greedily and with a beam of 5, in batches and alone, by how often the device is
                looked at, against transformers where it is installed

A part that fails leaves its error in the JSON, and the others run; one for which no time is left says so. `--out` is
written after each part.
"""

import argparse
import gc
import json
import math
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from report import circumstances, positive, print_json, refusals_in_words
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from torch_transformer import with_weights_of

from pellucid.config import DecodeConfig, ModelConfig, TrainConfig
from pellucid.data.batching import Batch, collate_batch, make_batch_sampler
from pellucid.data.sentences import Sentences
from pellucid.data.shards import EncodedCorpus
from pellucid.decoding import beam
from pellucid.decoding.batched_search import search
from pellucid.decoding.scoring import score_outputs
from pellucid.errors import ConfigError, PellucidError
from pellucid.model.transformer import Transformer
from pellucid.training.log import RunLog
from pellucid.training.loop import Trainer
from pellucid.training.loss import CrossEntropy, Losses
from pellucid.training.state import Checkpoints
from pellucid.training.validation import Validation

Found = dict[str, Any]
Step = Callable[[Batch], object]
"""Trains on a batch."""
OF_ALL_SHAPES: Found = {"norm": "post", "final_norm": False, "tie_embeddings": "all", "max_positions": 512}
MODELS: dict[str, Found] = {
    "7.58M": {"d_model": 256, "d_ff": 1024, "num_heads": 4, "num_encoder_layers": 3, "num_decoder_layers": 3,
              "vocab_size": 8000},
    "base": {"vocab_size": 37_000},
}  # fmt: skip
TINY: dict[str, Found] = {
    "tiny": {"d_model": 32, "d_ff": 64, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1,
             "vocab_size": 200},
}  # fmt: skip
PRECISIONS = {"float32": "highest", "tf32": "high", "bfloat16": "high"}
LOOKS = (1, 4, 8, 16)
"""The steps between two looks at the device."""
SOURCES = 256


@dataclass
class Bench:
    """What all parts share: where they run, how large they are, and how much time is left."""

    device: torch.device
    tiny: bool
    seconds: float
    folder: Path
    """A folder for the logs that nobody reads."""
    model: str | None = None
    started: float = field(default_factory=time.perf_counter)
    peaks: dict[str, float] = field(default_factory=dict)
    """Operations a second, by type."""

    @property
    def left(self) -> float:
        return self.seconds - (time.perf_counter() - self.started)

    @property
    def models(self) -> dict[str, Found]:
        return TINY if self.tiny else MODELS

    def config(self, name: str, **others: Any) -> ModelConfig:
        """The shape of a model; dropout stands where nn.Transformer has it."""
        fields = OF_ALL_SHAPES | self.models[name] | others
        size = fields.pop("vocab_size")
        return ModelConfig.preset("base", src_vocab_size=size, tgt_vocab_size=size, **fields)

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def time(self, call: Callable[[], object], seconds: float, least: int = 2) -> tuple[float, int]:
        """Returns the seconds of a call, and how often it was called.

        That is for so many seconds, after one call that does not count. The device is waited for at the end alone.
        """
        call()
        self.wait()
        started, calls = time.perf_counter(), 0
        while calls < least or (time.perf_counter() - started < seconds and self.left > 0):
            call()
            calls += 1
        self.wait()
        return (time.perf_counter() - started) / calls, calls

    @contextmanager
    def memory(self, found: Found) -> Iterator[None]:
        """Notes the most memory that the device held within, in MB."""
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.device)
        yield
        if self.device.type == "cuda":
            found["most_memory_mb"] = round(torch.cuda.max_memory_allocated(self.device) / 1e6, 1)


@contextmanager
def products(precision: str) -> Iterator[None]:
    """Takes products of single precision within as PRECISIONS says, in TF32 or not."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(PRECISIONS[precision])
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def peak(bench: Bench) -> Found:
    """The speed of large products, by type."""
    size, found = 128 if bench.tiny else 8192, Found()
    types = {"float32": torch.float32, "tf32": torch.float32, "bfloat16": torch.bfloat16}
    for precision, dtype in types.items():
        a, b = (torch.rand(size, size, device=bench.device).to(dtype) for _ in range(2))
        with products(precision):
            seconds, _ = bench.time(partial(torch.mm, a, b), 0.02 if bench.tiny else 3.0)
        bench.peaks[precision] = 2 * size**3 / seconds
        found[precision] = {"tflops": float(f"{bench.peaks[precision] / 1e12:.4g}")}
    return found | {"size": size}


def random_ids(count: int, size: int, seed: int, longest: int) -> list[list[int]]:
    """Texts of random ids whose lengths are about those of news: 25 on average, few very long ones."""
    draw = np.random.default_rng(seed)
    lengths = draw.gamma(3.0, longest / 12, count).clip(1, longest).astype(int)
    return [draw.integers(4, size, length).tolist() for length in lengths]


def random_shard(bench: Bench, config: ModelConfig) -> EncodedCorpus:
    count, longest = (60, 12) if bench.tiny else (40_000, 100)
    sentences = _sentences(random_ids(count, config.tgt_vocab_size, 1, longest))
    return EncodedCorpus(sentences, sentences, empty=0, too_long=0)


def _sentences(texts: list[list[int]]) -> Sentences:
    starts = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    return Sentences(np.concatenate(texts).astype(np.uint16), starts)


def some_batches(shard: EncodedCorpus, config: ModelConfig, train: TrainConfig, count: int) -> list[Batch]:
    stream = make_batch_sampler(shard, train.batch_tokens, train.seed).iterate_from(0, 0)
    return [collate_batch(shard, next(stream)[2], config) for _ in range(count)]


def trainer_of(bench: Bench, model: nn.Module, shard: EncodedCorpus, train: TrainConfig, loss: Any = None) -> Trainer:
    """The real loop; of its parts the step alone is used."""
    return Trainer(
        model=model, shard=shard, config=train, checkpoints=Checkpoints(bench.folder, 1, 1), loss=loss,  # type: ignore[arg-type]
        log=RunLog(bench.folder, train.steps, quiet=True), validate=lambda: Validation(0.0),
        publish=lambda weights: None,
    )  # fmt: skip


def train_config(bench: Bench, precision: str = "float32") -> TrainConfig:
    tokens = 100 if bench.tiny else 25_000
    kind: Literal["float32", "bfloat16"] = "bfloat16" if precision == "bfloat16" else "float32"
    return TrainConfig(batch_tokens=tokens, label_smoothing=0.1, learning_rate=1e-4, schedule="linear", precision=kind)


def new_model(config: ModelConfig) -> Transformer:
    torch.manual_seed(0)
    return Transformer(config)


def shapes(bench: Bench) -> Iterator[Found]:
    """Steps on forty batches, of many shapes, and on the same once more: what a kernel costs that is new."""
    config = bench.config(next(iter(bench.models)), dropout=0.1, final_norm=True)
    shard = random_shard(bench, config)
    for precision in ("float32", "bfloat16"):
        train = replace(train_config(bench, precision), batch_tokens=100 if bench.tiny else 2000)
        first, *batches = some_batches(shard, config, train, 4 if bench.tiny else 41)
        step, seconds = own_step(bench, config, shard, train), list[float]()
        step(first)
        for _ in range(2):
            bench.wait()
            started = time.perf_counter()
            each_step(step, batches)
            bench.wait()
            seconds.append(round(time.perf_counter() - started, 4))
        distinct = len({(batch.src.shape, batch.tgt_in.shape) for batch in batches})
        yield {"type": precision, "steps": len(batches), "shapes": distinct, "seconds": seconds[0], "again": seconds[1]}


def training(bench: Bench) -> Iterator[Found]:
    """Tokens a second by model, type and side."""
    for name in bench.models:
        config = bench.config(name, dropout=0.1, attention_dropout=0.1, feed_forward_dropout=0.1, final_norm=True)
        shard = random_shard(bench, config)
        batches = some_batches(shard, config, train_config(bench), 2 if bench.tiny else 8)
        tokens = sum(batch.num_tokens for batch in batches)
        operations = 3 * forward_operations(config, batches)
        for precision, side in product(PRECISIONS, ("pellucid", "nn.Transformer")):
            train = train_config(bench, precision)
            found: Found = {"model": name, "type": precision, "side": side}
            with bench.memory(found), products(precision):
                step = own_step(bench, config, shard, train) if side == "pellucid" else plain_step(bench, config, train)
                seconds, calls = bench.time(partial(each_step, step, batches), 0.0 if bench.tiny else 6.0)
                del step
            share = operations / seconds / bench.peaks[precision] if precision in bench.peaks else None
            yield found | {
                "tokens_per_second": round(tokens / seconds),
                "share_of_peak": share and round(share, 4),
                "steps": calls * len(batches),
                "batch_tokens": train.batch_tokens,
            }


def each_step(step: Step, batches: list[Batch]) -> None:
    for batch in batches:
        step(batch)


def own_step(bench: Bench, config: ModelConfig, shard: EncodedCorpus, train: TrainConfig) -> Step:
    """The step of the real loop."""
    trainer = trainer_of(bench, new_model(config).to(bench.device), shard, train)
    return lambda batch: trainer.step([batch])


def forward_operations(config: ModelConfig, batches: list[Batch]) -> int:
    """The operations of the matrix products of a forward pass over batches."""
    with torch.device("meta"):
        model = Transformer(config).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        for batch in batches:
            model(batch.src.to("meta"), batch.tgt_in.to("meta"))
    return int(counter.get_total_flops())


def plain_step(bench: Bench, config: ModelConfig, train: TrainConfig) -> Step:
    """The step of a plain loop around nn.Transformer, with fused Adam, and with autocast in half precision."""
    device = bench.device
    model = with_weights_of(new_model(config)).to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    half = train.precision == "bfloat16"

    def step(batch: Batch) -> object:
        src, tgt_in, tgt_out = (ids.to(device) for ids in (batch.src, batch.tgt_in, batch.tgt_out))
        optimizer.zero_grad()
        with torch.autocast(device.type, torch.bfloat16) if half else nullcontext():
            loss = model.loss(src, tgt_in, tgt_out, train.label_smoothing)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss

    return step


def decoding(bench: Bench) -> Iterator[Found]:
    """Sentences a second by model, type, beam and looks; of transformers beside them."""
    for name, model in models_to_decode(bench):
        random = name != "given"
        sources = random_ids(6 if bench.tiny else SOURCES, model.config.src_vocab_size, 3, 12 if bench.tiny else 60)
        # Random weights do not know where to end.
        most = (4 if bench.tiny else 30) if random else None
        for dtype in (torch.float32, torch.bfloat16):
            model.to(bench.device, dtype).eval()
            for width in (1, 5):
                config = DecodeConfig(beam_size=width, batch_tokens=64 * 64 * width, max_length=most)
                for looks in LOOKS[-2:-1] if bench.tiny else LOOKS:
                    yield from timed_search(bench, model, sources, config, looks, name)
                yield from timed_transformers(bench, model, sources, config, name)


def models_to_decode(bench: Bench) -> Iterator[tuple[str, Transformer]]:
    for name in bench.models:
        yield name, new_model(bench.config(name))
    if bench.model is not None:
        from pellucid.tasks.translator import Translator

        given = Translator.load(bench.model, device="cpu").model
        assert isinstance(given, Transformer)
        yield "given", given


def timed_search(
    bench: Bench, model: Transformer, sources: list[list[int]], config: DecodeConfig, looks: int, name: str
) -> Iterator[Found]:
    """Rows for texts in batches, and for the first ones alone."""
    before, beam.LOOK_EVERY = beam.LOOK_EVERY, looks
    try:
        runs: dict[str, tuple[int, Callable[[], object]]] = {
            "in batches": (len(sources), lambda: search(model, sources, config)),
            "alone": (4, lambda: [search(model, [source], config) for source in sources[:4]]),
        }
        yield from rows_of(bench, model, config, name, f"pellucid, a look every {looks}", runs)
    finally:
        beam.LOOK_EVERY = before


def timed_transformers(
    bench: Bench, model: Transformer, sources: list[list[int]], config: DecodeConfig, name: str
) -> Iterator[Found]:
    """The same of transformers' generate; nothing where it is not installed, or cannot hold the model."""
    if find_spec("transformers") is None:
        return
    import marian

    try:
        marian.check_shape(model.config)
    except ConfigError:
        return
    peer = marian.to_marian(model).to(bench.device, next(model.parameters()).dtype)
    order, most = sorted(sources, key=len), config.max_length
    batches = [order[start : start + 64] for start in range(0, len(order), 64)]

    def generate(texts: list[list[int]]) -> object:
        return marian.generate(peer, model.config, texts, config.beam_size, most)

    runs: dict[str, tuple[int, Callable[[], object]]] = {
        "in batches": (len(sources), lambda: [generate(batch) for batch in batches]),
        "alone": (4, lambda: [generate([source]) for source in sources[:4]]),
    }
    yield from rows_of(bench, model, config, name, "transformers", runs)


def rows_of(
    bench: Bench,
    model: Transformer,
    config: DecodeConfig,
    name: str,
    engine: str,
    runs: dict[str, tuple[int, Callable[[], object]]],
) -> Iterator[Found]:
    """A row for each way to run an engine."""
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    for how, (count, run) in runs.items():
        found: Found = {"model": name, "type": dtype, "beam": config.beam_size, "engine": engine, "how": how}
        with bench.memory(found):
            seconds, calls = bench.time(run, 0.0 if bench.tiny else 1.0, least=1)
        yield found | {"sentences_per_second": float(f"{count / seconds:.4g}"), "rounds": calls}


def equality(bench: Bench) -> Iterator[Found]:
    """How far the device is from the CPU, in both precisions.

    Half of a type's digits are left to rounding, through the layers of a network; a near tie may decide otherwise.
    """
    config = bench.config(next(iter(bench.models)))
    sources = random_ids(6 if bench.tiny else 64, config.src_vocab_size, 5, 12 if bench.tiny else 40)
    small = replace(train_config(bench), batch_tokens=100 if bench.tiny else 2000)
    for dtype in (torch.float32, torch.float64):
        here, there = (new_model(config).to(dtype).eval() for _ in range(2))
        there.to(bench.device)
        tolerance = torch.finfo(dtype).eps ** 0.5
        batch = some_batches(random_shard(bench, config), config, small, 1)[0]
        with torch.inference_mode(), products("float32"):
            logits = (
                here(batch.src, batch.tgt_in),
                there(batch.src.to(bench.device), batch.tgt_in.to(bench.device)).cpu(),
            )
        difference = float((logits[0] - logits[1]).abs().max())
        yield {
            "type": str(dtype).removeprefix("torch."), "what": "logits", "difference": difference,
            "tolerance": tolerance, "holds": difference <= tolerance * max(1.0, float(logits[0].abs().max())),
        }  # fmt: skip
        for width in (1, 5):
            decode = DecodeConfig(beam_size=width, max_length=4 if bench.tiny else 30)
            with products("float32"):
                found = [[h[0] for h in search(model, sources, decode)] for model in (here, there)]
                scores = [score_outputs(model, sources, [h.ids for h in found[0]]) for model in (here, there)]
            yield {
                "type": str(dtype).removeprefix("torch."), "what": f"beam {width}", "sentences": len(sources),
                "equal_ids": sum(a.ids == b.ids for a, b in zip(*found, strict=True)),
                "difference_of_scores": max(abs(a - b) for a, b in zip(*scores, strict=True)),
            }  # fmt: skip
    yield equality_of_a_step(bench, config)


def equality_of_a_step(bench: Bench, config: ModelConfig) -> Found:
    """Loss and gradient of a training step without dropout, on the CPU and on the device."""
    config, train = replace(config, dropout=0.0), replace(train_config(bench), batch_tokens=100 if bench.tiny else 2000)
    shard, numbers, gradients = random_shard(bench, config), [], []
    (batch,) = some_batches(shard, config, train, 1)
    for device in (torch.device("cpu"), bench.device):
        with products("float32"):
            trainer = trainer_of(bench, new_model(config).to(device), shard, train)
            taken = trainer.step([batch])
        numbers.append((taken.loss.item() / batch.num_tokens, taken.norm.item()))
        gradients.append({name: p.grad.cpu() for name, p in trainer.model.named_parameters() if p.grad is not None})
    difference = max(float((gradients[0][name] - gradients[1][name]).abs().max()) for name in gradients[0])
    tolerance = torch.finfo(torch.float32).eps ** 0.5
    return {
        "type": "float32", "what": "a step", "losses_and_norms": numbers,
        "difference_of_gradients": difference, "tolerance": tolerance, "holds": difference <= tolerance,
    }  # fmt: skip


def waits(bench: Bench) -> Iterator[Found]:
    """How often Python waits for the device, as PyTorch's debug mode counts it; there is none to wait for on a CPU."""
    config = bench.config(next(iter(bench.models)))
    shard = random_shard(bench, config)
    for precision in ("float32", "bfloat16"):
        train = train_config(bench, precision)
        batches = some_batches(shard, config, train, 4)
        step = own_step(bench, config, shard, train)
        step(batches[0])
        counted = count_waits(bench, partial(each_step, step, batches[1:]))
        yield {"what": f"three steps of training, {precision}", **counted}
    model = new_model(config).to(bench.device).eval()
    sources = random_ids(8, config.src_vocab_size, 3, 12)
    for width in (1, 5):
        decode = DecodeConfig(beam_size=width, max_length=4 if bench.tiny else 32)
        search(model, sources, decode)
        counted = count_waits(bench, partial(search, model, sources, decode))
        yield {"what": f"a whole search, beam {width}", "steps": (decode.max_length or 0) + 1, **counted}


def count_waits(bench: Bench, call: Callable[[], object]) -> Found:
    """Runs a call; returns how often it waited, and where from."""
    if bench.device.type != "cuda":
        call()
        return {"waits": None}
    bench.wait()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            call()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    places = [f"{Path(w.filename).name}:{w.lineno}" for w in caught if "synchroniz" in str(w.message)]
    return {"waits": len(places), "from": {place: places.count(place) for place in sorted({*places})}}


def stopped(bench: Bench) -> Found:
    """Trains three steps, of which the second has a loss that is not a number: no weight may change from there on."""
    config = bench.config(next(iter(bench.models)))
    shard, train = random_shard(bench, config), train_config(bench)
    calls = 0

    def poisoned(model: Any, batch: Batch) -> Losses:
        nonlocal calls
        calls += 1
        found = CrossEntropy(0.1)(model, batch)
        return Losses(found.minimised * (math.nan if calls == 2 else 1), found.reported)

    trainer = trainer_of(bench, new_model(config).to(bench.device), shard, train, poisoned)
    batches = some_batches(shard, config, train, 3)
    taken = [trainer.step(batches[:1])]
    after_one = [p.detach().clone() for p in trainer.model.parameters()]
    told = ""
    try:
        taken += [trainer.step([batch]) for batch in batches[1:]]
        trainer.step._check(taken)
    except PellucidError as error:
        told = str(error)
    unchanged = all(map(torch.equal, after_one, (p.detach() for p in trainer.model.parameters())))
    return {"weights_unchanged": unchanged, "runs_ahead": trainer.step.runs_ahead, "told": told[:120]}


PARTS: dict[str, Callable[[Bench], Found | Iterator[Found]]] = {
    "peak": peak, "equality": equality, "waits": waits, "stopped": stopped, "shapes": shapes, "training": training,
    "decoding": decoding,
}  # fmt: skip


def run_part(bench: Bench, part: Callable[[Bench], Found | Iterator[Found]]) -> Found:
    """Runs a part; returns its results up to where it failed, or to where the time ended, and says so."""
    started, found = time.perf_counter(), Found()
    try:
        results = part(bench)
        if isinstance(results, dict):
            found["result"] = results
        else:
            found["result"] = []
            for row in results:
                found["result"].append(row)
                print("  " + ", ".join(f"{name} {value}" for name, value in row.items()), file=sys.stderr)
                if bench.left <= 0:
                    found["cut_short"] = f"the {bench.seconds:.0f} seconds are over"
                    break
    except Exception as error:  # the others' results must not be lost
        found["error"] = f"{type(error).__name__}: {error}"
        found["traceback"] = traceback.format_exc().splitlines()[-12:]
        print(f"  failed: {found['error']}", file=sys.stderr)
    return found | {"seconds": round(time.perf_counter() - started, 1)}


def device_of(name: str) -> torch.device:
    """Returns the device. Raises ConfigError where this machine has none of the name."""
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device `cuda` is not on this machine", "try the script with `--device cpu --tiny`")
    return torch.device(name)


def name_of(device: torch.device) -> Found:
    if device.type != "cuda":
        return {"type": device.type}
    properties = torch.cuda.get_device_properties(device)
    return {"type": "cuda", "name": properties.name, "memory_gb": round(properties.total_memory / 1e9, 1),
            "cuda": torch.version.cuda}  # fmt: skip


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Measures; JSON on standard output, the rest on standard error. Returns 1 where a part has failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--seconds", type=positive, default=540, help="no part begins, and none goes on, behind them")
    parser.add_argument("--model", help="the folder of a trained translator, to decode with as well")
    parser.add_argument("--out", type=Path, help="a file for the JSON, written after each part")
    parser.add_argument("--only", choices=[*PARTS], nargs="+", help="some of the parts alone")
    parser.add_argument("--tiny", action="store_true", help="a small model, a trial of the script")
    args = parser.parse_args(argv)
    device = device_of(args.device)
    if args.model is not None and not Path(args.model).is_dir():
        raise ConfigError(f"`--model` ({args.model}) is not a folder", "give that of a trained translator, or none")
    table = circumstances(__file__, argv) | {"device": name_of(device), "tiny": args.tiny, "parts": {}}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(device, args.tiny, args.seconds, Path(folder), args.model)
        for name in args.only or PARTS:
            print(f"{name}, {bench.left:.0f} seconds left", file=sys.stderr)
            late = {"error": "no time was left for it"}
            table["parts"][name] = run_part(bench, PARTS[name]) if bench.left > 0 else late
            if args.out:
                args.out.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
    print_json(table)
    return int(any("error" in part for part in table["parts"].values()))


if __name__ == "__main__":
    sys.exit(main())
