"""Claim: products are taken by the faster of PyTorch's two libraries, at the shapes of training and of decoding.

    python benchmarks/products.py > products.json

For each shape of a layer and each number of rows: x W^T, and both its gradients, by PyTorch's own operator (MKL, where
PyTorch is built with it) and by Pellucid, in turns. Where the gain that decides is below 1.4, both are the same.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from report import circumstances, positive, print_json, summarize_times, take_turns

from pellucid.model.fast.products import gain_of_onednn, linear, matmul_nt, matmul_tn

SHAPES = ((128, 384), (128, 128), (128, 512), (512, 128), (128, 4000), (256, 1024), (1024, 256), (256, 8000))
ROWS = (5, 64, 320, 1787)


def main(argv: Sequence[str] | None = None) -> int:
    """Measures all shapes, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=positive, default=20)
    parser.add_argument("--threads", type=positive, default=1)
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    with torch.inference_mode():
        cases = [measured(rows, *shape, args.rounds) for shape in SHAPES for rows in ROWS]
    for case in cases:
        gains = ", ".join(f"{name} {case[name]['median']:.2f}" for name in ("forward", "input", "weight"))
        print(f"{case['inner']:>5} > {case['outer']:<5} {case['rows']:>5} rows: {gains}", file=sys.stderr)
    print_json(circumstances(__file__, argv) | {"gain": round(gain_of_onednn(), 2), "cases": cases})
    return 0


def measured(rows: int, inner: int, outer: int, rounds: int) -> dict[str, Any]:
    """Returns how many times as fast the product and its gradients are."""
    x, weight, upstream = torch.rand(rows, inner), torch.rand(outer, inner), torch.rand(rows, outer)
    sides: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "forward": (lambda: F.linear(x, weight), lambda: linear(x, weight)),
        "input": (lambda: upstream @ weight, lambda: matmul_nt(upstream, weight.t())),
        "weight": (lambda: upstream.t() @ x, lambda: matmul_tn(upstream, x)),
    }
    found: dict[str, Any] = {"rows": rows, "inner": inner, "outer": outer}
    for name, (plain, ours) in sides.items():
        times = take_turns({"plain": plain, "ours": ours}, rounds, warm_up=2)
        found[name] = summarize_times([p / o for p, o in zip(times["plain"], times["ours"], strict=True)])
    return found


if __name__ == "__main__":
    sys.exit(main())
