"""Runs a forward pass of a model over a sequence or a pair of sequences and records all of its attentions."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from typing import Literal

import torch
from torch import Tensor, nn

from pellucid.errors import DataError
from pellucid.model.attention_positions import RotaryPositions
from pellucid.model.embeddings import Embeddings
from pellucid.model.families import EncoderOnly, Model, SequenceClassifier
from pellucid.model.transformer import Transformer
from pellucid.tracing.attention import Array, AttentionTrace
from pellucid.tracing.predictions import MOST_PROBABLE
from pellucid.tracing.recorder import Recorder, observe_model

SAMPLED = 256  # numbers of each parameter that enter the checksum
MOST_LOGITS = 4_000_000
"""The number of logits that are computed at a time: 16 MB in single precision."""


@dataclass(frozen=True)
class RecordedPass:
    """A recorded pass."""

    attentions: dict[str, AttentionTrace]
    faithfulness: float
    out: list[int]
    """The ids that the decoder should write; empty for an encoder."""
    guesses: list[tuple[float, list[int], list[float]]]
    """The log-probability of each of these ids, and the most probable ids there with their log-probabilities."""
    classes: list[float]
    """A classifier's probabilities of the classes."""
    residual: dict[str, Array]
    """The residual stream after each embedding and sublayer, (L, D), by its place; empty unless requested."""
    without_weights: dict[str, tuple[int, ...]]
    """The layers of each kind of attention without a recording, since they do not call attention()."""


@torch.inference_mode()
def record_pass(
    model: Model,
    src: Sequence[int] = (),
    tgt: Sequence[int] = (),
    segments: Sequence[int] | None = None,
    out: Sequence[int] | None = None,
    residual: bool = False,
) -> RecordedPass:
    """Records a forward pass in evaluation mode over the ids that the encoder reads, the decoder reads, or both.

    `out` is the expected output of the decoder; None: the target shifted by one, followed by the most probable id after
    its last token. Raises DataError for no ids, ids outside of the vocabulary, and sequences beyond `max_positions`.
    """
    recorder, stream = Recorder(model), ResidualRecorder()
    states: Tensor | None = None
    classes: list[float] = []
    with observe_model(model, recorder.see, stream.see if residual else None) as model:
        if residual:
            stream.watch_embeddings(model)
        if isinstance(model, Transformer):
            states = model.states(ids_tensor(model, src, "src"), ids_tensor(model, tgt, "tgt"))[0]  # (T, D)
        elif isinstance(model, EncoderOnly):
            kinds = None if segments is None else torch.tensor([segments], device=_device(model))
            found = model(ids_tensor(model, src, "src"), kinds)
            if isinstance(model, SequenceClassifier):
                classes = found[0].double().softmax(dim=-1).tolist()
        else:
            states = model.states(ids_tensor(model, tgt, "tgt"))[0]  # (T, D)
        written, guesses = ([], []) if states is None else _guesses(model, states, tgt, out)
    attentions = recorder.attentions(get_rotary_base(model))
    return RecordedPass(
        attentions, recorder.faithfulness, written, guesses, classes, stream.found, recorder.without_weights
    )  # fmt: skip


def _guesses(
    model: Model, states: Tensor, tgt: Sequence[int], out: Sequence[int] | None
) -> tuple[list[int], list[tuple[float, list[int], list[float]]]]:
    """Returns, from the states (T, D), the output ids and the model's predictions at each position."""
    assert not isinstance(model, EncoderOnly)
    written = list(tgt[1:]) if out is None else list(out)
    guesses: list[tuple[float, list[int], list[float]]] = []
    for some in torch.split(states, max(1, MOST_LOGITS // model.config.tgt_vocab_size)):
        logits = model.output_projection(some)  # (a part of T, V)
        here = written[len(guesses) : len(guesses) + len(some)]
        if len(here) < len(some):  # after the last token
            here.append(int(logits[-1].argmax()))
            written.append(here[-1])
        log_probs = logits.float().log_softmax(dim=-1)
        chosen = log_probs.gather(-1, torch.tensor(here, device=states.device)[:, None])[:, 0]
        best = log_probs.topk(min(MOST_PROBABLE, log_probs.size(-1)))
        guesses += zip(chosen.tolist(), best.indices.tolist(), best.values.tolist(), strict=True)
    return written, guesses


class ResidualRecorder:
    """Stores the residual stream after each embedding and each residual sum of a forward pass."""

    def __init__(self) -> None:
        self.found: dict[str, Array] = {}

    def see(self, place: str, norm: nn.Module, before: Tensor, added: Tensor, after: Tensor) -> None:
        """Stores the residual stream after a sublayer; observe_model() calls it."""
        self.found[place] = after[0].float().cpu().numpy().copy()

    def watch_embeddings(self, model: Model) -> None:
        """Adds forward hooks to the embeddings of a copy."""
        for name, module in model.named_children():
            if isinstance(module, Embeddings):
                module.register_forward_hook(partial(self._record_embedding, name))

    def _record_embedding(self, name: str, module: nn.Module, given: object, output: Tensor) -> None:
        self.found[name] = output[0].float().cpu().numpy().copy()


def get_rotary_base(model: Model) -> float | None:
    """Returns the base of a model's rotary positions, or None if it has other positions."""
    stack = model.encoder if isinstance(model, Transformer | EncoderOnly) else model.decoder
    return stack.relative.base if isinstance(stack.relative, RotaryPositions) else None


def describe(model: Model) -> dict[str, str | int | float]:
    """Returns the description of a model in its trace."""
    config = model.config
    about: dict[str, str | int | float] = {
        "name": type(model).__name__,
        "family": config.family,
        "d_model": config.d_model,
        "weights": checksum(model),
    }
    if config.positions == "rotary" and config.rotary_factor != 1:
        about["rotary_factor"] = config.rotary_factor
    return about


def provenance(model: nn.Module) -> dict[str, str]:
    """Returns the software, device and dtype of a recording, without time, path or host."""
    parameter = next(model.parameters())
    return {
        "tool": f"pellucid {version('pellucid')}",
        "torch": torch.__version__,
        "device": parameter.device.type,
        "dtype": str(parameter.dtype).removeprefix("torch."),
    }


def checksum(model: nn.Module) -> str:
    """Returns a checksum that distinguishes models: of each parameter's name, shape and at most 256 numbers.

    Hashing all of a large model would take as long as its pass; a training step changes every number.
    """
    digest = sha256()
    for name, parameter in model.named_parameters():
        digest.update(f"{name} {tuple(parameter.shape)}".encode())
        # An odd step reaches different columns in each row.
        digest.update(parameter.detach().flatten()[:: parameter.numel() // SAMPLED | 1].float().cpu().numpy().tobytes())
    return digest.hexdigest()


def ids_tensor(model: Model, ids: Sequence[int], side: Literal["src", "tgt"]) -> Tensor:
    """Returns ids as a batch of one for either side, (1, L). Raises DataError if the model cannot read them."""
    config = model.config
    what = {"src": "the source", "tgt": "the target"}[side] if config.family == "encoder-decoder" else "the text"
    size = config.src_vocab_size if side == "src" else config.tgt_vocab_size
    if not ids:
        raise DataError(f"{what} has no ids")
    for place, i in enumerate(ids):
        if not 0 <= i < size:
            raise DataError(f"{what} has the id {i} at position {place}; the model's ids are 0..{size - 1}")
    if len(ids) > config.max_positions:
        raise DataError(
            f"{what} has {len(ids):,} tokens, but the model has `max_positions` ({config.max_positions:,})",
            "shorten the text",
        )
    return torch.tensor([list(ids)], device=_device(model))


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device
