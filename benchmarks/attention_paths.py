"""Claim: on a CPU explicit attention is faster for sentences, the kernel for long texts; model/attention.py goes by it.

    python benchmarks/attention_paths.py > attention_paths.json        (--quick: a trial of seconds)

Both paths of pellucid.attention take turns on the same random queries, keys and values, with a padding mask that hides
the last fifth of the keys, as in a batch of sentences. Before they are timed, their outputs and gradients must be equal
(where no weight is dropped). Rows of one to five queries are steps of decoding. Of each shape that is trained on
without dropout a process of its own tells the memory that a call takes beside its inputs (Linux).
"""

import argparse
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from memory import held
from report import circumstances, positive, print_json, summarize_times, time_call
from torch import Tensor

from pellucid.model.attention import attention


@dataclass(frozen=True)
class Case:
    """Batch, heads, queries, keys, width of a head; dropout of the weights; with gradients or without."""

    B: int
    H: int
    L: int
    M: int
    K: int
    dropout: float
    backward: bool

    def __str__(self) -> str:
        what = "forward+backward" if self.backward else "forward"
        return f"({self.B:>3}, {self.H}, {self.L:>3}, {self.M:>3}, {self.K:>2})  {self.dropout:<7} {what:<17}"


# Batches of about 4,096 tokens: short, usual and long sentences, heads of 64 and of 32, a paragraph, pages.
SHAPES = (
    (256, 4, 16, 16, 64), (128, 4, 32, 32, 64), (128, 4, 32, 32, 32), (64, 4, 64, 64, 64), (16, 4, 256, 256, 64),
    (4, 4, 1024, 1024, 64), (1, 4, 4096, 4096, 64),
)  # fmt: skip
STEPS = ((64, 4, 1, 16, 64), (64, 4, 5, 80, 64))  # one step of greedy search, and of a beam of five
QUICK = ((4, 2, 8, 8, 16), (4, 2, 1, 8, 16))


def cases(quick: bool) -> list[Case]:
    """Training without and with dropout, validation, and steps of decoding."""
    shapes, steps = (QUICK[:1], QUICK[1:]) if quick else (SHAPES, STEPS)
    kinds = ((0.0, True), (0.1, True), (0.0, False))
    return [
        *(Case(*shape, dropout, backward) for dropout, backward in kinds for shape in shapes),
        *(Case(*shape, 0.0, False) for shape in steps),
    ]


def inputs(case: Case) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries, keys, values and the mask."""
    generator = torch.Generator().manual_seed(1)
    lengths = (case.L, case.M, case.M)
    q, k, v = (torch.randn(case.B, case.H, length, case.K, generator=generator) for length in lengths)
    mask = torch.arange(case.M) < max(1, round(0.8 * case.M))
    return q, k, v, mask.expand(case.B, 1, 1, -1)


def runner(case: Case, fused: bool) -> Callable[[], list[Tensor]]:
    """One call of a path; gives the output, and the gradients of q, k and v."""
    q, k, v, mask = inputs(case)
    if not case.backward:

        @torch.inference_mode()
        def forward() -> list[Tensor]:
            return [attention(q, k, v, mask, case.dropout, fused)]

        return forward
    leaves = [tensor.requires_grad_() for tensor in (q, k, v)]
    upstream = torch.ones_like(q)

    def both() -> list[Tensor]:
        output = attention(q, k, v, mask, case.dropout, fused)
        return [output.detach(), *torch.autograd.grad(output, leaves, upstream)]

    return both


def measure(case: Case, time_given: float) -> dict[str, Any]:
    """Milliseconds a call of each path, and how many times as fast the explicit one is."""
    runners = {"explicit": runner(case, fused=False), "fused": runner(case, fused=True)}
    if not case.dropout:
        for ours, theirs in zip(*(run() for run in runners.values()), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    times: dict[str, list[float]] = {name: [] for name in runners}
    end = time.perf_counter() + time_given
    while time.perf_counter() < end or len(times["fused"]) < 5:
        for name, run in runners.items():
            times[name].append(1000 * time_call(run))
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratio = medians["fused"] / medians["explicit"]
    print(f"{case}  {medians['explicit']:8.3f}  {medians['fused']:8.3f}  {ratio:6.2f}", file=sys.stderr)
    spreads = {f"{name}_ms": summarize_times(values) for name, values in times.items()}
    return asdict(case) | spreads | {"explicit_times_as_fast": round(ratio, 3)} | memory(case)


def memory(case: Case) -> dict[str, dict[str, float]]:
    """Returns the MiB that a call of each path takes, each in a process of its own."""
    if not case.backward or case.dropout or sys.platform != "linux":
        return {}
    found = {}
    for name, fused in (("explicit", False), ("fused", True)):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            found[name] = pool.submit(taken, case, fused).result()
    print(f"{'':>40} MiB {found['explicit']:8.1f}  {found['fused']:8.1f}", file=sys.stderr)
    return {"mib": found}


def taken(case: Case, fused: bool) -> float:
    """Returns the MiB that a call takes beside its inputs, in a process that has done nothing else."""
    run = runner(case, fused)
    Path("/proc/self/clear_refs").write_text("5")  # the most held begins anew
    before = held("VmRSS")
    run()
    return round(held("VmHWM") - before, 1)


def main(argv: Sequence[str] | None = None) -> None:
    """Measures; JSON on standard output, a table on standard error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="time given to a line of the table")
    parser.add_argument("--threads", type=positive, default=torch.get_num_threads())
    parser.add_argument("--quick", action="store_true", help="small shapes, a trial of the script")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    print("(  B, H,   L,   M,  K)  dropout                    explicit ms  fused ms  ratio", file=sys.stderr)
    time_given = min(args.seconds, 0.1) if args.quick else args.seconds
    found = [measure(case, time_given) for case in cases(args.quick)]
    print_json(circumstances(__file__, argv) | {"cases": found})


if __name__ == "__main__":
    main()
