"""Claim: Pellucid's dropout costs a fraction of PyTorch's on a CPU.

    python benchmarks/dropout.py > dropout.json

Forward and backward over as many numbers as the feed-forward sublayer of 4,096 tokens holds at d_ff = 512, with
the memory setting of `pellucid train`; the two take turns.
"""

import argparse
import sys
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from report import circumstances, in_words, positive, print_json, spread, take_turns
from torch import Tensor

from pellucid.model.fast.dropout import dropout
from pellucid.process import keep_freed_memory

WIDTH, P = 512, 0.1
WARM_UP = 5  # rounds that take fresh memory
SIDES: dict[str, Callable[[Tensor], Tensor]] = {
    "torch": lambda x: F.dropout(x, P),
    "pellucid": lambda x: dropout(x, P),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measures both and prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=positive, default=50)
    parser.add_argument("--tokens", type=positive, default=4096)
    options = parser.parse_args(argv)
    keep_freed_memory()
    x = torch.randn(options.tokens, WIDTH, requires_grad=True)
    upstream = torch.randn(options.tokens, WIDTH)
    both_ways = {name: lambda side=side: side(x).backward(upstream) for name, side in SIDES.items()}
    times = take_turns(both_ways, options.rounds, WARM_UP)
    found = {name: spread([1000 * value for value in values]) for name, values in times.items()}
    for name, values in found.items():
        print(f"{name}: {in_words(values)} ms", file=sys.stderr)
    print_json(circumstances(__file__, argv) | {"elements": x.numel(), "milliseconds": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
