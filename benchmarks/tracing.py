"""Claim: a trace costs at most 1.4 times a plain pass at 512 tokens, and nothing measurable while none is on.

    python benchmarks/tracing.py > tracing.json        (--quick: a trial of seconds)

Two models with random weights: an encoder as large as BERT's base, and the base Transformer. `on`: pellucid.trace() and
the plain forward pass in evaluation mode take turns; what counts is the ratio of each pair. `off`: the plain pass takes
turns with the same pass whose attention() and residual sums have no question for an observer at all, as it would be
without tracing. The question is asked most often for least work in a search, so the greedy search of one short sentence
takes turns, too.
"""

import argparse
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from textwrap import dedent
from typing import Any

import torch
from report import circumstances, format_times, positive, print_json, summarize_times, time_call
from torch import Tensor

import pellucid
from pellucid.config import DecodeConfig, ModelConfig
from pellucid.decoding.batched_search import search
from pellucid.model import attention as home
from pellucid.model import layers
from pellucid.model.families import EncoderOnly, Model
from pellucid.model.transformer import Transformer

QUESTION = "    notify_attention(block, q, k, v, mask, bias, output)\n"
"""The line of attention() that asks."""
QUESTION_OF_SUMS = "    notify_residual(self, norm, x, added, after)\n"
"""The line of a residual sum that asks."""


def models(quick: bool) -> dict[str, Model]:
    """The two models; small ones for a trial."""
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"d_model": 64, "d_ff": 128, "num_heads": 4} if quick else {}
    bert = {"d_model": 768, "d_ff": 3072, "num_heads": 12, "norm": "post", "activation": "gelu"} | sizes
    encoder = ModelConfig.encoder(vocab_size=30522, num_layers=2 if quick else 12, max_positions=512, **bert)
    base = ModelConfig.preset("base", src_vocab_size=8000, tgt_vocab_size=8000, max_positions=512, **sizes)
    return {"encoder 12 x 12 x 768": EncoderOnly(encoder).eval(), "base Transformer": Transformer(base).eval()}


def passes(model: Model, length: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """The plain pass and the trace, over the same random ids."""
    src, tgt = torch.randint(4, 8000, (2, 1, length)).unbind()

    @torch.inference_mode()
    def plain() -> Tensor:
        output: Tensor = model(src, tgt) if isinstance(model, Transformer) else model(src)
        return output

    return plain, lambda: pellucid.trace(model, src, tgt if isinstance(model, Transformer) else None)


@contextmanager
def without_question() -> Iterator[None]:
    """attention() and residual sums as they would be if nothing could observe them."""
    kept, kept_add = home.attention, layers.ResidualConnections.add
    places = ((home, kept, QUESTION), (layers, kept_add, QUESTION_OF_SUMS))
    bare: dict[str, Any] = {}
    for module, function, question in places:
        source = dedent(inspect.getsource(function))
        assert question in source, f"{module.__name__} asks in other words now"
        exec(compile(source.replace(question, ""), str(module.__file__), "exec"), vars(module), bare)
    home.attention, layers.ResidualConnections.add = bare["attention"], bare["add"]  # type: ignore[method-assign]
    try:
        yield
    finally:
        home.attention, layers.ResidualConnections.add = kept, kept_add  # type: ignore[method-assign]


def asked_against_not(call: Callable[[], object], pairs: int) -> list[float]:
    """Of each pair the time with the question over that without it."""
    ratios = []
    for number in range(pairs):
        # The order alternates: what runs second may find warmer memory.
        with_question = time_call(call) if number % 2 else None
        with without_question():
            without = time_call(call)
        ratios.append((with_question or time_call(call)) / without)
    return ratios


def measure_search(pairs: int) -> dict[str, Any]:
    """The spread of the ratio for a greedy search, by a small model, of 40 tokens."""
    torch.manual_seed(1)
    model = Transformer(ModelConfig.preset("tiny", src_vocab_size=4000, tgt_vocab_size=4000)).eval()
    decode = DecodeConfig(beam_size=1, max_length=40)
    source = torch.randint(4, 4000, (10,)).tolist()

    def call() -> object:
        return search(model, [source], decode)

    call()
    found = {
        "plain_s": summarize_times([time_call(call) for _ in range(pairs)]),
        "off": summarize_times(asked_against_not(call, pairs)),
    }
    words = ", ".join(f"{key} {format_times(values)}" for key, values in found.items())
    print(f"a greedy search of 40 steps: {words}", file=sys.stderr)
    return {"model": "tiny Transformer, greedy search of 40 steps", "pairs": pairs} | found


def measure(name: str, model: Model, length: int, pairs: int) -> dict[str, Any]:
    """The spreads of both ratios, and of the plain pass."""
    plain, traced = passes(model, length)
    plain(), traced()
    on, alone = [], []
    for _ in range(pairs):
        alone.append(time_call(plain))
        on.append(time_call(traced) / time_call(plain))
    found = {
        "plain_s": summarize_times(alone),
        "on": summarize_times(on),
        "off": summarize_times(asked_against_not(plain, pairs)),
    }
    words = ", ".join(f"{key} {format_times(values)}" for key, values in found.items())
    print(f"{name} at {length} tokens: {words}", file=sys.stderr)
    return {"model": name, "tokens": length, "pairs": pairs} | found


def main(argv: Sequence[str] | None = None) -> None:
    """Measures; JSON on standard output, a line a model on standard error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=positive, default=512)
    parser.add_argument("--pairs", type=positive, default=20)
    parser.add_argument("--threads", type=positive, default=torch.get_num_threads())
    parser.add_argument("--quick", action="store_true", help="small models, a trial of the script")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    length, pairs = (64, 3) if args.quick else (args.tokens, args.pairs)
    found = [measure(name, model, length, pairs) for name, model in models(args.quick).items()]
    found.append(measure_search(3 if args.quick else 10 * pairs))
    print_json(circumstances(__file__, argv) | {"cases": found})


if __name__ == "__main__":
    main()
