"""Claim: Pellucid's dropout costs a fraction of PyTorch's on a CPU.

    python benchmarks/dropout.py > dropout.json

Forward and backward over as many numbers as the feed-forward sublayer of 4,096 tokens holds at d_ff = 512, with
the memory setting of `pellucid train`; the two take turns.
"""

import argparse
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from report import circumstances, in_words, print_json, spread
from torch import Tensor

from pellucid.model.fast.dropout import dropout
from pellucid.process import keep_freed_memory

TOKENS, WIDTH, P = 4096, 512, 0.1
SIDES: dict[str, Callable[[Tensor], Tensor]] = {
    "torch": lambda x: F.dropout(x, P),
    "pellucid": lambda x: dropout(x, P),
}


def main(argv: list[str] | None = None) -> int:
    """Measures both and prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args(argv)
    keep_freed_memory()
    x = torch.randn(TOKENS, WIDTH, requires_grad=True)
    upstream = torch.randn(TOKENS, WIDTH)
    times: dict[str, list[float]] = {name: [] for name in SIDES}
    for number in range(options.rounds + 5):
        for name, side in SIDES.items():
            started = time.perf_counter()
            side(x).backward(upstream)  # type: ignore[no-untyped-call]
            if number >= 5:  # the first ones take fresh memory
                times[name].append(1000 * (time.perf_counter() - started))
    found = {name: spread(values) for name, values in times.items()}
    for name, values in found.items():
        print(f"{name}: {in_words(values)} ms", file=sys.stderr)
    given = sys.argv[1:] if argv is None else argv
    print_json(circumstances(__file__, given) | {"elements": TOKENS * WIDTH, "milliseconds": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
