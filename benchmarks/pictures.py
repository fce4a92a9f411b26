"""Claim: a picture of every head of a 12-layer, 12-head model at 512 tokens takes Python less than 1.5 s as PNG.

    python benchmarks/pictures.py > pictures.json        (--quick: a trial of seconds)

The trace holds queries and keys of 12 x 12 heads, 64 wide, as a BERT-base has them, and no weights: these are computed,
pooled and drawn within the time. Each measurement is of a fresh Python process, in which pellucid and torch are loaded
and matplotlib is not, so its import is in the first figure; "again" is the same picture once more in that process.
SVG, other views of the same trace, and thumbnails alone stand beside it.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from report import circumstances, format_times, positive, print_json, summarize_times, time_call

import pellucid
from pellucid.tracing.attention import AttentionTrace
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace
from pellucid.views.pictures.model import thumbnails

SHAPE = {"layers": 12, "heads": 12, "tokens": 512, "width": 64}
QUICK = {"layers": 2, "heads": 3, "tokens": 48, "width": 16}


def sample(layers: int, heads: int, tokens: int, width: int) -> Trace:
    """A trace of random queries and keys, some heads of which look along the diagonal."""
    generator = np.random.default_rng(1)
    k = generator.normal(size=(layers, heads, tokens, width)).astype(np.float32)
    q = generator.normal(size=k.shape).astype(np.float32)
    q[:, ::2] += 0.5 * k[:, ::2]
    attention = AttentionTrace(name="encoder.self", queries="src", keys="src", q=q, k=k)
    words = tuple(Token(text=f" word{n}", piece=f"▁word{n}", id=n, word=n) for n in range(tokens))
    return Trace(
        model={"name": "sample"}, sequences={"src": words}, attentions={"encoder.self": attention}, faithfulness=0.0
    )


def measure_once(shape: dict[str, int]) -> dict[str, float]:
    """Seconds of each picture in this process; the first is the claim's."""
    trace = sample(**shape)
    torch.ones(64, 64) @ torch.ones(64, 64)  # the library that multiplies is loaded before the clock starts
    with TemporaryDirectory() as folder:
        png, svg = Path(folder, "a.png"), Path(folder, "a.svg")
        return {
            "model_png": time_call(lambda: pellucid.view(trace, "model").png(png)),
            "model_png_again": time_call(lambda: pellucid.view(trace, "model").png(png)),
            "model_svg": time_call(lambda: pellucid.view(trace, "model").svg(svg)),
            "thumbnails": time_call(lambda: thumbnails(trace["encoder.self"])),
            "matrix_png": time_call(lambda: pellucid.view(trace, "matrix").png(png)),
            "heads_png": time_call(lambda: pellucid.view(trace, "heads").png(png)),
            "heads_svg": time_call(lambda: pellucid.view(trace, "heads").svg(svg)),
        }


def main(argv: Sequence[str] | None = None) -> None:
    """Measures; JSON on standard output, a table on standard error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=positive, default=5, help="how often all is measured")
    parser.add_argument("--threads", type=positive, default=torch.get_num_threads())
    parser.add_argument("--quick", action="store_true", help="small shapes, a trial of the script")
    parser.add_argument("--once", action="store_true", help="measure in this process, as the parent asks")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    shape = QUICK if args.quick else SHAPE
    if args.once:
        print_json(measure_once(shape))
        return
    command = [sys.executable, __file__, "--once", "--threads", str(args.threads), *(["--quick"] if args.quick else [])]
    processes = 1 if args.quick else args.processes
    runs = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(processes)]
    found = {name: summarize_times([run[name] for run in runs]) for name in runs[0]}
    for name, values in found.items():
        print(f"{name:<18}{format_times(values)} s", file=sys.stderr)
    print_json(circumstances(__file__, argv, ("matplotlib",)) | {"shape": shape, "seconds": found})


if __name__ == "__main__":
    main()
