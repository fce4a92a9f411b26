"""Says where the time of a training step and of decoding goes, kind by kind, in milliseconds and as a share.

    python benchmarks/where_time_goes.py --data-dir DATA --model runs/multi30k-15m > where_time_goes.json

The training step is that of `training_speed.py`, of 7.58 million parameters; decoding is that of a given model, with a
beam of 5 and greedily, in batches and a sentence at a time. PyTorch's profiler tells the time within each operator
(without what it calls); the operators are counted by kind, and what the clock says beyond their sum is Python's and the
dispatch of calls. The profiler itself makes each call slower, so the times are scaled to those of the same work without
it.
"""

import argparse
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from measured_model import load_recipe
from report import circumstances, matrix_peak, positive, print_json, refusals_in_words, time_call
from torch.profiler import ProfilerActivity, profile
from training_speed import AS_IN_TORCH, in_groups, make_job, pellucid_step

import pellucid
from pellucid.data.batching import BucketBatchSampler

KINDS = {
    "products of weights": r"mm|addmm_?|mkldnn_linear|linear|_linear_pointwise",
    "products of attention": r"bmm|baddbmm|.*scaled_dot_product.*|.*flash_attention.*",
    "softmax": r"_softmax.*|_log_softmax.*|logsumexp|exp_?",
    "random numbers": r"random_|bernoulli_|uniform_|rand.*",
    "norms": r"native_layer_norm.*|_fused_rms_norm.*|rsqrt",
    "ranking": r"topk|sort|argmax|max|amax|argsort",
    "copies and choices": r"copy_|clone|contiguous|cat|stack|index.*|gather|scatter.*|_to_copy|embedding.*|const.*",
    "new memory and zeros": r"empty.*|zero_|zeros.*|fill_|new_.*|resize_|ones.*|full.*",
    "the optimizer": r"_fused_adamw_|_foreach.*|lerp.*",
    "sums over a batch": r"sum|mean|cumsum|cumprod|norm|linalg_vector_norm",
}
"""Kinds of work, by the names of PyTorch's operators; the rest works element by element."""
ELEMENTS = "element by element"
CALLS = "Python and calls"
CASES = {
    "beam of 5, in batches": (5, 200, 4096), "greedy, in batches": (1, 400, 4096),
    "beam of 5, alone": (5, 12, 1), "greedy, alone": (1, 24, 1),
}  # fmt: skip
"""Beam, sentences, tokens of a batch."""


def profiled(work: Callable[[], object], rounds: int) -> dict[str, Any]:
    """Returns the milliseconds of some work, the best of `rounds`, and its share by kind."""
    work()
    milliseconds = 1000 * min(time_call(work) for _ in range(rounds))
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        under_profile = 1000 * time_call(work)
    spent: dict[str, float] = defaultdict(float)
    for event in profiler.key_averages():
        spent[kind_of(event.key)] += event.self_cpu_time_total / 1000
    spent[CALLS] += max(0.0, under_profile - sum(spent.values()))
    total = sum(spent.values())
    shares = {kind: spent[kind] / total for kind in sorted(spent, key=lambda kind: -spent[kind])}
    return {
        "milliseconds": round(milliseconds, 2),
        "kinds": {
            kind: {"share": round(s, 3), "milliseconds": round(s * milliseconds, 2)} for kind, s in shares.items()
        },
    }


def kind_of(operator: str) -> str:
    """Returns the kind of work that an operator does, forward or backward."""
    name = operator.removeprefix("aten::").removeprefix("mkldnn::")
    if "::" in name or name[:1].isupper() or name.endswith("Backward0") or name == "backward":
        return CALLS  # a function of autograd: what it computes, operators do
    return next((kind for kind, pattern in KINDS.items() if re.fullmatch(pattern, name)), ELEMENTS)


def training(data_dir: str | None, quick: bool, threads: int, rounds: int) -> dict[str, Any]:
    """Returns where a step of training goes."""
    with tempfile.TemporaryDirectory() as folder:
        job = make_job(load_recipe(data_dir, quick, AS_IN_TORCH), Path(folder), threads)
        lengths = job.shard.source.lengths, job.shard.target.lengths
        ((sentences,),) = [next(in_groups(BucketBatchSampler(*lengths, job.train.batch_tokens, job.train.seed), 1))]
        step = pellucid_step(job)
        return profiled(lambda: step(sentences), rounds)


def decoding(model: Path, data_dir: str | None, threads: int, rounds: int, most: int | None) -> dict[str, Any]:
    """Returns where translating goes, case by case."""
    torch.set_num_threads(threads)
    translator = pellucid.Translator.load(model, device="cpu", engine="torch")
    source = Path(data_dir or ".") / "multi30k" / "test_2016_flickr.de.gz"
    lines = list(pellucid.read_lines(source))[:most]
    found = {}
    for name, (beam_size, count, batch_tokens) in CASES.items():
        given = lines[:count]
        work = lambda beam=beam_size, some=given, batch=batch_tokens: translator.translate(  # noqa: E731
            some, beam_size=beam, batch_tokens=batch * beam
        )
        found[name] = {"sentences": len(given)} | profiled(work, rounds)
    return found


def tell(name: str, found: dict[str, Any]) -> None:
    """Writes a table for the reader."""
    print(f"{name}: {found['milliseconds']:,.1f} ms", file=sys.stderr)
    for kind, value in found["kinds"].items():
        print(f"  {value['share']:6.1%} {value['milliseconds']:9.2f} ms  {kind}", file=sys.stderr)


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Profiles, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", help="holds multi30k/; else PELLUCID_DATA does")
    parser.add_argument("--model", type=Path, help="a translator's folder; without it, only training is looked at")
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--threads", type=positive, default=1)
    parser.add_argument("--quick", action="store_true", help="a small model and few lines, a trial of the script")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    peak = matrix_peak()
    table = {"training": training(args.data_dir, args.quick, args.threads, args.rounds)}
    tell("a step of training", table["training"])
    if args.model:
        table["decoding"] = decoding(args.model, args.data_dir, args.threads, args.rounds, 3 if args.quick else None)
        for name, found in table["decoding"].items():
            tell(name, found)
    print_json(circumstances(__file__, argv) | {"peak_gflops": round(peak / 1e9, 1)} | table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
