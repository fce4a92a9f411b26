"""One pass of a model over one sequence, or a pair of them, with all of its attentions recorded."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from typing import Literal

import torch
from torch import Tensor, nn

from pellucid.errors import DataError
from pellucid.model.embeddings import Embeddings
from pellucid.model.families import EncoderOnly, Model, SequenceClassifier
from pellucid.model.relative import RotaryPositions
from pellucid.model.transformer import Transformer
from pellucid.tracing.attention import Array, AttentionTrace
from pellucid.tracing.predictions import MOST_PROBABLE
from pellucid.tracing.recorder import Recorder, watched

SAMPLED = 256  # numbers of each parameter that its checksum is made of
MOST_LOGITS = 4_000_000
"""Logits that are computed at a time: 16 MB in single precision."""


@dataclass(frozen=True)
class Pass:
    """A recorded pass."""

    attentions: dict[str, AttentionTrace]
    faithfulness: float
    out: list[int]
    """The ids that the decoder was to write; of an encoder none."""
    guesses: list[tuple[float, list[int], list[float]]]
    """The log-probability of each of them, and the most probable ids in its place with theirs."""
    classes: list[float]
    """The probabilities of a classifier's classes."""
    residual: dict[str, Array]
    """The stream behind each embedding and sublayer, (L, D), by its place; empty unless it was asked for."""
    without_weights: dict[str, tuple[int, ...]]
    """The layers of each kind of attention of which nothing was recorded, since they do not call attention()."""


@torch.inference_mode()
def record_pass(
    model: Model,
    src: Sequence[int] = (),
    tgt: Sequence[int] = (),
    segments: Sequence[int] | None = None,
    out: Sequence[int] | None = None,
    residual: bool = False,
) -> Pass:
    """Records a pass over the ids that the encoder reads, the decoder reads, or both, in evaluation mode.

    `out` is what the decoder was to write; None: the target moved on by one, with what it finds most probable behind
    its last token. Raises DataError for no ids, ids outside of the vocabulary, and sequences beyond `max_positions`.
    """
    recorder, stream = Recorder(model), Stream()
    states: Tensor | None = None
    classes: list[float] = []
    with watched(model, recorder.see, stream.see if residual else None) as model:
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
    attentions = recorder.attentions(rotary_base_of(model))
    return Pass(
        attentions, recorder.faithfulness, written, guesses, classes, stream.found, recorder.without_weights
    )  # fmt: skip


def _guesses(
    model: Model, states: Tensor, tgt: Sequence[int], out: Sequence[int] | None
) -> tuple[list[int], list[tuple[float, list[int], list[float]]]]:
    """Reads off the states (T, D) what was written at each place, and what the model found probable there."""
    assert not isinstance(model, EncoderOnly)
    written = list(tgt[1:]) if out is None else list(out)
    guesses: list[tuple[float, list[int], list[float]]] = []
    for some in torch.split(states, max(1, MOST_LOGITS // model.config.tgt_vocab_size)):
        logits = model.output_projection(some)  # (a part of T, V)
        here = written[len(guesses) : len(guesses) + len(some)]
        if len(here) < len(some):  # behind the last token
            here.append(int(logits[-1].argmax()))
            written.append(here[-1])
        log_probs = logits.float().log_softmax(dim=-1)
        chosen = log_probs.gather(-1, torch.tensor(here, device=states.device)[:, None])[:, 0]
        best = log_probs.topk(min(MOST_PROBABLE, log_probs.size(-1)))
        guesses += zip(chosen.tolist(), best.indices.tolist(), best.values.tolist(), strict=True)
    return written, guesses


class Stream:
    """Files what goes on behind each embedding and each residual sum of a pass."""

    def __init__(self) -> None:
        self.found: dict[str, Array] = {}

    def see(self, place: str, norm: nn.Module, before: Tensor, added: Tensor, after: Tensor) -> None:
        """Keeps what goes on behind a sublayer. It is told by `watched`."""
        self.found[place] = after[0].float().cpu().numpy().copy()

    def watch_embeddings(self, model: Model) -> None:
        """Hooks itself into the embeddings of a copy."""
        for name, module in model.named_children():
            if isinstance(module, Embeddings):
                module.register_forward_hook(partial(self._embedded, name))

    def _embedded(self, name: str, module: nn.Module, given: object, output: Tensor) -> None:
        self.found[name] = output[0].float().cpu().numpy().copy()


def rotary_base_of(model: Model) -> float | None:
    """Returns the base of a model's rotary positions; None where it has others."""
    stack = model.encoder if isinstance(model, Transformer | EncoderOnly) else model.decoder
    return stack.relative.base if isinstance(stack.relative, RotaryPositions) else None


def describe(model: Model) -> dict[str, str | int | float]:
    """Returns what a trace says of its model."""
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
