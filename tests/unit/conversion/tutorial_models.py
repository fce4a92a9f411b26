"""Models as somebody trained them with a tutorial's code, of random weights, and their vocabularies as text files."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tests.parity.tutorials import keras
from tests.parity.tutorials.annotated import Annotated
from tests.parity.tutorials.einsum import Einsum
from tests.parity.tutorials.seq2seq import Seq2Seq
from tests.parity.tutorials.torch_module import TorchSeq2Seq

SIZES = (1, 16, 24, 2)
SOURCE = ["<unk>", "<pad>", "<sos>", "<eos>", *"abcdefghijk"]
TARGET = ["A", "B", "[PAD]", "C", "<s>", "D", "E", "</S>", "F", "<UNK>", "G", "H", "I"]
"""Special tokens in other places, by other names."""
LINES = ["a b c", "k", "d d d z e f g", "j i h g f e d c b a"]

Logits = Callable[[Tensor, Tensor], Tensor]


def write(path: Path, lines: Sequence[str]) -> str:
    """Writes lines; returns the path."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def write_vocabularies(folder: Path) -> dict[str, str]:
    """Writes both lists; returns the options that name them."""
    return {"src_vocab": write(folder / "src.txt", SOURCE), "tgt_vocab": write(folder / "tgt.txt", TARGET)}


def tutorial(layout: str) -> tuple[Mapping[str, Any], Logits]:
    """A model of random weights: its state dict, and its logits for ids of its own."""
    torch.manual_seed(11)
    sizes = len(SOURCE), len(TARGET), *SIZES
    if layout == "keras-transformer":
        weights = keras.random_weights(2, *sizes[:-1], shared=True)

        def of_keras(src: Tensor, tgt: Tensor) -> Tensor:
            return torch.from_numpy(keras.logits(weights, SIZES[-1], src.numpy(), tgt.numpy(), 1))

        return weights, of_keras
    makers: dict[str, Callable[[], nn.Module]] = {
        "annotated-transformer": lambda: Annotated(*sizes, length=100),
        "pytorch-seq2seq": lambda: Seq2Seq(*sizes, lengths=(100, 80)),
        "aladdin-persson": lambda: Einsum(*sizes),
        "pytorch-transformer": lambda: TorchSeq2Seq(*sizes),
    }
    model = makers[layout]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.4 * torch.randn_like(parameter)
    return model.state_dict(), lambda src, tgt: model(src, tgt, 1, 2)
