"""One pass of a model over one sequence, or a pair of them, with all of its attentions recorded."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from typing import Literal

import torch
from torch import Tensor, nn

from pellucid.errors import DataError
from pellucid.model.families import EncoderOnly, Model
from pellucid.model.relative import RotaryPositions
from pellucid.model.transformer import Transformer
from pellucid.tracing.attention import AttentionTrace
from pellucid.tracing.recorder import Recorder, watched

SAMPLED = 256  # numbers of each parameter that its checksum is made of


@dataclass(frozen=True)
class Pass:
    """A recorded pass."""

    attentions: dict[str, AttentionTrace]
    faithfulness: float
    next_id: int | None
    """The token that the decoder found most probable behind the last one; None for an encoder alone."""
    without_weights: dict[str, tuple[int, ...]]
    """The layers of each kind of attention of which nothing was recorded, since they do not call attention()."""


@torch.inference_mode()
def record_pass(
    model: Model, src: Sequence[int] = (), tgt: Sequence[int] = (), segments: Sequence[int] | None = None
) -> Pass:
    """Records a pass over the ids that the encoder reads, the decoder reads, or both, in evaluation mode.

    Raises DataError for no ids, ids outside of the vocabulary, and sequences beyond `max_positions`.
    """
    recorder = Recorder(model)
    logits: Tensor | None = None
    with watched(model, recorder.see) as model:
        if isinstance(model, Transformer):
            src_ids, tgt_ids = ids_tensor(model, src, "src"), ids_tensor(model, tgt, "tgt")
            logits = model.output_projection(model.states(src_ids, tgt_ids)[:, -1])  # (1, V)
        elif isinstance(model, EncoderOnly):
            kinds = None if segments is None else torch.tensor([segments], device=_device(model))
            model(ids_tensor(model, src, "src"), kinds)
        else:
            logits = model.output_projection(model.states(ids_tensor(model, tgt, "tgt"))[:, -1])  # (1, V)
    next_id = None if logits is None else int(logits.argmax(dim=-1))
    attentions = recorder.attentions(rotary_base_of(model))
    return Pass(attentions, recorder.faithfulness, next_id, recorder.without_weights)


def rotary_base_of(model: Model) -> float | None:
    """Returns the base of a model's rotary positions; None where it has others."""
    stack = model.encoder if isinstance(model, Transformer | EncoderOnly) else model.decoder
    return stack.relative.base if isinstance(stack.relative, RotaryPositions) else None


def describe(model: Model) -> dict[str, str | int | float]:
    """Returns what a trace says of its model."""
    config = model.config
    return {
        "name": type(model).__name__,
        "family": config.family,
        "d_model": config.d_model,
        "weights": checksum(model),
    }


def provenance(model: nn.Module) -> dict[str, str]:
    """Returns what a trace is recorded with; no time, path or host."""
    parameter = next(model.parameters())
    return {
        "tool": f"pellucid {version('pellucid')}",
        "torch": torch.__version__,
        "device": parameter.device.type,
        "dtype": str(parameter.dtype).removeprefix("torch."),
    }


def checksum(model: nn.Module) -> str:
    """Returns a number that tells two models apart, made of each parameter's name, shape and 256 numbers or fewer.

    Hashing all of a large model would take as long as its pass; a training step changes every number.
    """
    digest = sha256()
    for name, parameter in model.named_parameters():
        digest.update(f"{name} {tuple(parameter.shape)}".encode())
        # An odd step comes to other columns in each row.
        digest.update(parameter.detach().flatten()[:: parameter.numel() // SAMPLED | 1].float().cpu().numpy().tobytes())
    return digest.hexdigest()


def ids_tensor(model: Model, ids: Sequence[int], side: Literal["src", "tgt"]) -> Tensor:
    """Returns ids for one side of the model as a batch of one, (1, L). Raises DataError where it cannot read them."""
    config = model.config
    what = {"src": "the source", "tgt": "the target"}[side] if config.family == "encoder-decoder" else "the text"
    size = config.src_vocab_size if side == "src" else config.tgt_vocab_size
    if not ids:
        raise DataError(f"{what} holds no ids: there is nothing to attend to")
    for place, i in enumerate(ids):
        if not 0 <= i < size:
            raise DataError(f"{what} holds the id {i} at place {place}; the model's ids are 0..{size - 1}")
    if len(ids) > config.max_positions:
        raise DataError(
            f"{what} has {len(ids):,} tokens, the model `max_positions` ({config.max_positions:,})", "cut the text"
        )
    return torch.tensor([list(ids)], device=_device(model))


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device
