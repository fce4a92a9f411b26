"""Claim: on a processor that multiplies bfloat16, training in it is faster, if only the products are rounded.

    python benchmarks/precision.py > precision.json

Training steps (forward, backward, Adam) of models of several widths on batches of random ids. The sides take turns:

    float32    all in single precision
    bfloat16   `train.precision = "bfloat16"`: the products of the linear layers and of the loss
    autocast   `torch.autocast` around the forward pass, which hands rounded numbers on to all that follows

No side is timed before its loss has come within two per cent of single precision's.
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from report import circumstances, format_times, positive, print_json, summarize_times, take_turns

from pellucid.config import ModelConfig, TrainConfig
from pellucid.data.batching import Batch
from pellucid.model.transformer import Transformer
from pellucid.process import keep_freed_memory
from pellucid.training.loss import CrossEntropy
from pellucid.training.optimizer import make_optimizer
from pellucid.training.precision import bfloat16_gain, set_compute_dtype

SIDES = ("float32", "bfloat16", "autocast")
WIDTHS = (128, 256, 512)
LENGTH = 30  # of each sentence
WARM_UP = 2  # steps of each side that do not count


@dataclass
class Side:
    """A model in training."""

    name: str
    model: Transformer
    optimizer: torch.optim.Optimizer

    @classmethod
    def of(cls, name: str, config: ModelConfig, train: TrainConfig) -> "Side":
        """The side with the weights that all begin with."""
        torch.manual_seed(1)
        model = Transformer(config).train()
        set_compute_dtype(model, name)
        optimizer = make_optimizer(model, train)
        for group in optimizer.param_groups:
            group["lr"] = 1e-4
        return cls(name, model, optimizer)

    def loss(self, batch: Batch) -> torch.Tensor:
        """The summed loss."""
        torch.manual_seed(2)
        with torch.autocast("cpu", torch.bfloat16) if self.name == "autocast" else nullcontext():
            return CrossEntropy(0.1)(self.model, batch).minimised

    def step(self, batch: Batch) -> None:
        """A whole step."""
        self.optimizer.zero_grad(set_to_none=True)
        (self.loss(batch) / batch.num_tokens).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()


def random_batch(sentences: int, vocabulary: int) -> Batch:
    """Sentences of one length: no padding."""
    generator = torch.Generator().manual_seed(3)
    src, tgt = (torch.randint(3, vocabulary, (sentences, LENGTH + 1), generator=generator) for _ in range(2))
    return Batch(src, tgt[:, :-1], tgt[:, 1:], np.arange(sentences), sentences * LENGTH)


def measure(d_model: int, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Target tokens a second of each side."""
    config = ModelConfig.preset(
        "tiny",
        src_vocab_size=options.vocabulary,
        tgt_vocab_size=options.vocabulary,
        d_model=d_model,
        d_ff=4 * d_model,
        dropout=0.1,
    )
    batch, train = random_batch(options.sentences, options.vocabulary), TrainConfig()
    sides = [Side.of(name, config, train) for name in SIDES]
    losses = {side.name: float(side.loss(batch).detach()) / batch.num_tokens for side in sides}
    assert all(abs(loss / losses["float32"] - 1) < 0.02 for loss in losses.values()), losses
    times = take_turns({side.name: partial(side.step, batch) for side in sides}, options.rounds, WARM_UP)
    found = {name: summarize_times([batch.num_tokens / value for value in values]) for name, values in times.items()}
    for name, values in found.items():
        gain = values["median"] / found["float32"]["median"]
        print(f"d_model {d_model}, {name}: {format_times(values)} target tokens/s, {gain:.2f} times", file=sys.stderr)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measures all widths and prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=positive, default=20)
    parser.add_argument("--widths", type=positive, nargs="+", default=WIDTHS)
    parser.add_argument("--sentences", type=positive, default=64, help="in a batch")
    parser.add_argument("--vocabulary", type=positive, default=8000)
    options = parser.parse_args(argv)
    keep_freed_memory()
    gain = bfloat16_gain(torch.device("cpu"))
    print(f"one product of two square matrices: {gain:.2f} times as fast in bfloat16", file=sys.stderr)
    speeds = {d_model: measure(d_model, options) for d_model in options.widths}
    measured = {"product_gain": round(gain, 2), "tokens_per_second": speeds}
    print_json(circumstances(__file__, argv) | measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
