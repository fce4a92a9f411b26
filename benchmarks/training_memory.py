"""Claim: however many steps a training has taken, it holds no more memory than after the first.

    python benchmarks/training_memory.py --minutes 120 > training-memory.json

A small training on dates, with dropout, accumulation, subwords drawn anew each epoch, a moving average, checkpoints and
validations that decode, goes on on `--ranks` processes for as long as it is watched. What each of its processes holds
is looked at from its first checkpoint on: after a third of the time for warming up, the most of the last third against
that of the second. Exit status 1 where it grows by more than 2 %. (Linux alone: the processes are found in /proc.)
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from held_memory import is_flat, watch
from report import circumstances, positive, print_json

from pellucid.data.dates import split_dates, write_parallel

SETTINGS = {
    "data.tokenizer": "bpe", "data.vocab_size": 300, "data.subword_regularization": 0.1, "model.d_model": 64,
    "model.d_ff": 128, "model.num_encoder_layers": 2, "model.num_decoder_layers": 2, "train.steps": 100_000_000,
    "train.batch_tokens": 1024, "train.accumulate": 2, "train.warmup_steps": 1000, "train.validate_every": 100,
    "train.decode_and_evaluate": 20, "train.save_every": 100, "train.ema_decay": 0.99, "train.log_every": 10,
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Prints what the processes of a training held; returns 1 where that grew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--ranks", type=positive, default=2)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="memory-") as name:
        folder = Path(name)
        src, tgt = write_parallel(split_dates(3000, seed=1, held_out=50)[0], folder, "train")
        settings = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
        words = [
            "train",
            "--src",
            str(src),
            "--tgt",
            str(tgt),
            "--out",
            str(folder / "run"),
            "--device",
            "cpu",
            *settings,
        ]
        log = folder / "log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "pellucid", *words, "--ranks", str(args.ranks)], stdout=file, stderr=file,
                env={"OMP_NUM_THREADS": "1", **os.environ},
            )  # fmt: skip
        try:
            while not any((folder / "run").glob("checkpoints/step-*/state.json")) and process.poll() is None:
                time.sleep(0.1)
            if process.poll() is None:
                found = watch(process, args.minutes)
        finally:
            process.terminate()
            status = process.wait()
        if status <= 0 or status < 128:
            raise SystemExit(f"error: status {status}: {log.read_text()[-2000:]}")
        lines = (folder / "run/metrics.jsonl").read_text().splitlines()
        found["steps"] = max(json.loads(line)["step"] for line in lines)
    print_json(circumstances(__file__, argv) | found)
    return int(not is_flat(found))


if __name__ == "__main__":
    sys.exit(main())
