"""A task that a small translator learns in a hundred steps, for models that are trained with a tutorial's code."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD, START, END = 1, 2, 3
WORDS = 8
VOCABULARY = ["<unk>", "<pad>", "<sos>", "<eos>", *"abcdefgh"]
LENGTH = 4


def translation(words: Tensor) -> Tensor:
    """Each word has one translation, and all stand in the source's order."""
    return (words * 3 + 1) % WORDS


def batch(size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sources and targets with start and end, (B, L + 2), padded on the right."""
    words = torch.randint(0, WORDS, (size, LENGTH), generator=generator)
    lengths = torch.randint(1, LENGTH + 1, (size,), generator=generator)
    rows = []
    for side in (words, translation(words)):
        row = torch.full((size, LENGTH + 2), PAD)
        row[:, 0], row[:, 1:-1] = START, side + len(VOCABULARY) - WORDS
        for one, length in zip(row, lengths.tolist(), strict=True):
            one[length + 1 :] = PAD
            one[length + 1] = END
        rows.append(row)
    return rows[0], rows[1]


def train(model: nn.Module, steps: int, learning_rate: float = 3e-3) -> nn.Module:
    """Trains with Adam on random pairs, always the same ones."""
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    for _ in range(steps):
        src, tgt = batch(32, generator)
        logits = model(src, tgt[:, :-1], PAD, PAD)
        loss = F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def line(words: Tensor) -> str:
    return " ".join(VOCABULARY[int(word) + len(VOCABULARY) - WORDS] for word in words)
