"""Claim: two ranks of one thread train 0.95 times as many tokens a second as one process of two threads, and the same.

    python benchmarks/ranks.py > ranks.json                (--quick: a trial of a few steps)
    python benchmarks/ranks.py --paper

Each side is the command, `pellucid train --ranks N` with `cores / N` threads a rank, on dates, N batches a step in all;
the sides take turns. Counted are the tokens a second of the metrics' lines after the first. All must end with the same
validation loss, to 1e-3; exit status 1 where they do not.

With `--paper` nothing is measured: for the paper's base and big model it reckons, on 8 GPUs and on 4 nodes of 8, how
long a step is computed and how long its gradients travel. Computing takes 6 FLOP a parameter and token (forward and
backward; of embeddings the output projection alone), at `--tflops` a GPU. Gradients are 4 bytes a parameter; each of R
ranks sends (R - 1) / R of them twice. Within a node that goes at `--node-gigabytes` a second and GPU; what leaves a
node, to the ranks of others, shares `--network-gigabits` among its GPUs. What both take together is told, as adding up
does not overlap with computing; `train.accumulate` k divides the share of travel by about k.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from report import circumstances, format_times, positive, print_json, refusals_in_words, summarize_times

from pellucid import ModelConfig, Transformer
from pellucid.data.dates import split_dates, write_parallel

SETTINGS = {
    "data.tokenizer": "bpe", "data.vocab_size": 2000, "model.d_model": 256, "model.d_ff": 1024,
    "model.num_encoder_layers": 3, "model.num_decoder_layers": 3, "train.steps": 60, "train.batch_tokens": 2048,
    "train.warmup_steps": 20, "train.validate_every": 60, "train.decode_and_evaluate": 0, "train.save_every": 60,
    "train.average": 1, "train.log_every": 10,
}  # fmt: skip
QUICK = {"model.d_model": 16, "model.d_ff": 32, "train.steps": 4, "train.log_every": 1, "train.batch_tokens": 256}
VOCABULARY = 37_000
CLUSTERS = {"8 GPUs": (1, 8), "4 nodes of 8 GPUs": (4, 8)}
EQUAL = 1e-3


def train(args: argparse.Namespace, folder: Path, out: str, ranks: int) -> tuple[float, float]:
    """Trains on so many ranks; returns tokens a second, and the validation loss at the end."""
    settings = SETTINGS | (QUICK if args.quick else {}) | {"train.accumulate": args.cores // ranks}
    words = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "pellucid", "train", "--src", "a.written", "--tgt", "a.iso", "--out", out, *words]
    environment = os.environ | {"OMP_NUM_THREADS": str(args.cores // ranks)}
    subprocess.run(
        [*command, "--device", "cpu", "--ranks", str(ranks)], cwd=folder, env=environment, check=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    lines = [json.loads(line) for line in (folder / out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    speeds = [line["tokens_per_second"] for line in lines if line["event"] == "train"][1:]
    (loss,) = (line["loss"] for line in lines if line["event"] == "validation")
    return statistics.median(speeds), loss


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the tokens a second of both sides, and their ratio."""
    found: dict[int, list[tuple[float, float]]] = {1: [], args.cores: []}
    with tempfile.TemporaryDirectory() as name:
        pairs, _ = split_dates(600 if args.quick else 20_000, 1, 10)
        write_parallel(pairs, Path(name), "a")
        for number in range(args.rounds):
            for ranks in [*found] if number % 2 == 0 else [*found][::-1]:
                found[ranks].append(train(args, Path(name), f"{ranks}-{number}", ranks))
    speeds = {ranks: [speed for speed, _ in each] for ranks, each in found.items()}
    losses = [loss for each in found.values() for _, loss in each]
    ratio = summarize_times([b / a for a, b in zip(speeds[1], speeds[args.cores], strict=True)])
    sides = {f"{ranks} x {args.cores // ranks} threads": summarize_times(each) for ranks, each in speeds.items()}
    print(f"{args.cores} ranks train {format_times(ratio)} times as fast as one process", file=sys.stderr)
    return {"tokens a second": sides, "ratio": ratio, "equal": max(losses) - min(losses) < EQUAL}


def on_paper(args: argparse.Namespace) -> dict[str, Any]:
    """Returns, by model and cluster, the milliseconds of a step and what they are made of."""
    rows: dict[str, Any] = {}
    for name in ("base", "big"):
        config = ModelConfig.preset(name, src_vocab_size=VOCABULARY, tgt_vocab_size=VOCABULARY)
        with torch.device("meta"):
            model = Transformer(config)
        parameters = sum(p.numel() for p in model.parameters())
        # The output projection is an embedding that computes, once a target token.
        computing = parameters - sum(p.numel() for n, p in model.named_parameters() if "embedding" in n)
        flop = 6 * (computing + VOCABULARY * config.d_model) * args.tokens
        for cluster, (nodes, gpus) in CLUSTERS.items():
            ranks = nodes * gpus
            sent, leaving = (2 * 4 * parameters * to / ranks for to in (ranks - 1, ranks - gpus))
            shared = args.network_gigabits / 8 / gpus
            compute, travel = flop / args.tflops / 1e9, max(sent / args.node_gigabytes, leaving / shared) / 1e6
            rows[f"{name}, {cluster}"] = {
                "parameters": parameters, "megabytes sent a rank": round(sent / 1e6, 1),
                "compute ms": round(compute, 1), "travel ms": round(travel, 1),
                "share of travel": round(travel / (compute + travel), 3),
            }  # fmt: skip
            print(
                f"{name}, {cluster}: {compute:.1f} ms of computing, {travel:.1f} ms of travel a step "
                f"of {args.tokens:,} tokens a GPU: {100 * travel / (compute + travel):.0f} % is travel",
                file=sys.stderr,
            )
    return rows


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Measures, or reckons; JSON on standard output. Returns 1 where the sides have not learnt the same."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--cores", type=positive, default=max(2, torch.get_num_threads()))
    parser.add_argument("--quick", action="store_true", help="a round of four steps, a trial of the script")
    parser.add_argument("--paper", action="store_true", help="reckon communication against compute, measure nothing")
    parser.add_argument("--tokens", type=positive, default=25_000, help="tokens of a GPU's batches of a step")
    parser.add_argument("--tflops", type=float, default=200.0, help="that a GPU comes to, in bfloat16")
    parser.add_argument(
        "--node-gigabytes", type=float, default=200.0, help="a second, from a GPU to others of its node"
    )
    parser.add_argument("--network-gigabits", type=float, default=400.0, help="a second, of a node")
    args = parser.parse_args(argv)
    args.rounds = 1 if args.quick else args.rounds
    found = {"paper": on_paper(args)} if args.paper else measure(args)
    print_json(circumstances(__file__, argv) | found)
    return int(not found.get("equal", True))


if __name__ == "__main__":
    sys.exit(main())
