"""Claim: at nanoGPT's published CPU setting, the recipe `tiny-shakespeare` reaches the loss of a plain loop, sooner.

    python benchmarks/tiny_shakespeare.py --data-dir DATA > tiny_shakespeare.json

The plain loop is nanoGPT's: a GPT-2 block in torch.nn terms, normal weights of deviation 0.02, batches of 12 blocks at
random places, AdamW, cosine from 1e-3 to 1e-4. Both train 2,000 steps; then the loss over the whole validation split
(the last tenth, in blocks of 64) is taken by one function. Nothing else should run on the machine.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from report import circumstances, positive, print_json, refusals_in_words
from torch import Tensor, nn

from pellucid.data.lines import read_lines
from pellucid.run.run import train
from pellucid.tasks.language_model import LanguageModel

BLOCK, BATCH, WIDTH, HEADS, LAYERS = 64, 12, 128, 4, 4
RATE, FINAL_RATE, WARMUP = 1e-3, 1e-4, 100


class Block(nn.Module):
    """Pre-norm attention and a feed-forward sublayer, without biases."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH, bias=False) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(self.norms[0](x)).chunk(3, dim=-1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class PlainGPT(nn.Module):
    """The whole model, its output tied to its embedding."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab_size, WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.blocks, self.norm = nn.Sequential(*(Block() for _ in range(LAYERS))), nn.LayerNorm(WIDTH, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * LAYERS) if residual else 0.02)

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) -> (B, T, V)."""
        x = self.tokens(ids) + self.positions.weight[: ids.size(1)]
        return F.linear(self.norm(self.blocks(x)), self.tokens.weight)


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Trains both, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help="the folder that holds tinyshakespeare/")
    parser.add_argument("--out", type=Path, default=Path("runs/tiny-shakespeare"), help="the run folder")
    parser.add_argument("--steps", type=positive, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    text = "".join(f"{line}\n" for line in read_lines(options.data_dir / "tinyshakespeare" / "input.txt"))
    found = {"ours": ours(options, text), "plain": plain(options, text)}
    print_json(circumstances(__file__, argv) | {"steps": options.steps, **found})
    return 0


def ours(options: argparse.Namespace, text: str) -> dict[str, Any]:
    """The recipe as it is shipped, all of its command counted."""
    settings = [f"train.steps={options.steps}", f"train.seed={options.seed}"]
    started = time.perf_counter()
    train("tiny-shakespeare", options.out, overrides=settings, data_dir=options.data_dir, fresh=True, device="cpu")
    seconds = time.perf_counter() - started
    model = LanguageModel.load(options.out, "cpu")
    ids = torch.tensor(model.tokenizer.encode(held_out(text)))
    return {"validation_loss": validation_loss(model.model, ids), "seconds": round(seconds, 1)}


def plain(options: argparse.Namespace, text: str) -> dict[str, Any]:
    """nanoGPT's loop; its validations are left out."""
    numbers = {character: number for number, character in enumerate(sorted(set(text)))}
    ids = torch.tensor([numbers[character] for character in text[: int(0.9 * len(text))]])
    torch.manual_seed(options.seed)
    started = time.perf_counter()
    model = PlainGPT(len(numbers))
    groups = [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.99))
    for step in range(options.steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, options.steps)
        places = torch.randint(len(ids) - BLOCK, (BATCH,))
        batch = torch.stack([ids[place : place + BLOCK + 1] for place in places.tolist()])
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    seconds = time.perf_counter() - started
    rest = torch.tensor([numbers[character] for character in held_out(text)])
    return {"validation_loss": validation_loss(model, rest), "seconds": round(seconds, 1)}


def rate(step: int, steps: int) -> float:
    """nanoGPT's learning rate of `step`, counted from 0."""
    if step < WARMUP:
        return RATE * (step + 1) / (WARMUP + 1)
    done = (step - WARMUP) / (steps - WARMUP)
    return FINAL_RATE + (RATE - FINAL_RATE) * (1 + math.cos(math.pi * done)) / 2


def held_out(text: str) -> str:
    """The last tenth."""
    return text[int(0.9 * len(text)) :]


@torch.no_grad()
def validation_loss(model: Callable[[Tensor], Tensor], ids: Tensor) -> float:
    """Nats a token over all of the text, in blocks that do not overlap."""
    total = 0.0
    for start in range(0, len(ids) - 1, BLOCK):
        block = ids[None, start : start + BLOCK + 1]
        total += float(F.cross_entropy(model(block[:, :-1])[0], block[0, 1:], reduction="sum"))
    return round(total / (len(ids) - 1), 4)


if __name__ == "__main__":
    sys.exit(main())
