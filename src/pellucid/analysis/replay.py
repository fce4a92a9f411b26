"""Reruns the forward pass of a trace: records its residual stream, hides positions, or replaces token vectors."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from pellucid.errors import DataError, format_argument, format_value
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.embeddings import Embeddings
from pellucid.model.families import DecoderOnly, EncoderOnly, Model, SequenceClassifier
from pellucid.model.layers import Decoder, Encoder
from pellucid.model.masks import causal_mask
from pellucid.model.transformer import Transformer
from pellucid.tasks.encoder import BEGIN_WITH_IT
from pellucid.tasks.task import TextModel
from pellucid.tracing.module_copy import copy_in_eval_mode
from pellucid.tracing.recorder import AttentionCall, observe_model
from pellucid.tracing.recording import checksum
from pellucid.tracing.tokens import Token, make_single_tokens
from pellucid.tracing.trace import Trace

Writer = Transformer | DecoderOnly | SequenceClassifier
"""The models with outputs: tokens or a class."""

MOST_NUMBERS = 16_000_000
"""The number of logits that are held at a time: 64 MB in single precision."""


def get_input_embedding(model: Writer) -> Embeddings:
    """Returns the embedding of the input: of the source, or of a decoder-only model's text."""
    return model.tgt_embedding if isinstance(model, DecoderOnly) else model.src_embedding


class ResidualSum(NamedTuple):
    """One residual sum of the output stack; (L, D) each."""

    place: str
    """The sublayer's place in the model: "decoder.layers.0.cross_attn"."""
    layer: int
    sublayer: str
    """Its name in the layer: "cross_attn"."""
    norm: nn.Module
    before: Tensor
    added: Tensor
    after: Tensor


@dataclass
class ResidualStream:
    """Holds the residual stream of the output stack, from its embedding to the output of its last layer."""

    embedded: Tensor
    """(L, D)."""
    sums: list[ResidualSum]
    calls: dict[tuple[str, int], AttentionCall]
    """The attentions by kind and layer."""
    joined: dict[str, Tensor]
    """By an attention's place the input of its W^O, (L, H * K): zeros for a disabled head."""
    logits: Tensor
    """(R, V), of the same forward pass."""


class Replay:
    """Reruns a trace's forward pass in the model that was traced, in evaluation mode.

    R rows: the output positions, or a single one for a classifier; their outputs are `out`, (R,).
    """

    def __init__(self, model: TextModel[Any] | Model, trace: Trace) -> None:
        """Raises DataError if the model has no output, or the trace is of another model or has no ids."""
        reader = model if isinstance(model, TextModel) else None
        plain: Any = model.model if isinstance(model, TextModel) else model
        if not isinstance(plain, Transformer | DecoderOnly | SequenceClassifier):
            raise DataError(
                f"a model of the class {type(plain).__name__} has no output that could be explained", BEGIN_WITH_IT
            )
        if trace.model.get("weights") != checksum(plain):
            raise DataError(
                "the trace was recorded with another model, or with other weights",
                "trace the text with the given model",
            )
        self.model: Writer = copy_in_eval_mode(plain)
        self.trace = trace
        self._device = next(plain.parameters()).device
        self._tokenizer = None if reader is None else reader.tokenizers.target
        self._labels = (reader and reader.labels) or tuple(map(str, range(plain.config.num_classes)))
        is_decoder = isinstance(plain, DecoderOnly)
        self.src: Tensor | None = None if is_decoder else self._ids("src")
        self.tgt: Tensor | None = None if isinstance(plain, SequenceClassifier) else self._ids("tgt")
        kinds = [[token.segment for token in trace.sequences["src"]]] if self.src is not None else []
        has_segments = plain.config.num_segments > 0 and self.src is not None and not isinstance(plain, Transformer)
        self._segments = torch.tensor(kinds, device=self._device) if has_segments else None
        self.read: tuple[Token, ...] = trace.sequences["tgt" if is_decoder else "src"]
        """The tokens whose influence is measured."""

    def _ids(self, name: str) -> Tensor:
        ids = [token.id for token in self.trace.sequences[name]]
        return torch.tensor([ids], device=self._device)  # (1, L)

    @property
    def writes_classes(self) -> bool:
        """True for a classifier."""
        return isinstance(self.model, SequenceClassifier)

    @cached_property
    def out(self) -> Tensor:
        """Returns the output id of each row, (R,); a classifier's most probable class."""
        if self.writes_classes:
            with torch.no_grad():
                return self.logits()[0].argmax(dim=-1)
        return torch.tensor([token.id for token in self.trace.sequences["out"]], device=self._device)

    @property
    def rows(self) -> tuple[Token, ...]:
        """Returns the output tokens; a classifier's label."""
        return self.label_ids(self.out.tolist()) if self.writes_classes else self.trace.sequences["out"]

    def label_ids(self, ids: Sequence[int]) -> tuple[Token, ...]:
        """Returns each id as a token without a word; the labels for a classifier."""
        if self.writes_classes:
            return tuple(Token(self._labels[i], self._labels[i], i) for i in ids)
        tokens = make_single_tokens(self._tokenizer, set(ids), self.model.config.special_ids)
        return tuple(tokens[i] for i in ids)

    def get_id(self, word: int | str) -> int:
        """Returns the id of a word or class, which may be an id already.

        Raises DataError if the id or label does not exist, or the tokenizer does not encode it as a single token.
        """
        size = self.model.config.num_classes if self.writes_classes else self.model.config.tgt_vocab_size
        if not isinstance(word, str):
            if not 0 <= word < size:
                raise DataError(f"{format_argument('foil', word)} is not an id of the model: the ids are 0..{size - 1}")
            return int(word)
        if self.writes_classes:
            if word not in self._labels:
                raise DataError(
                    f"the model has no label `{format_value(word)}`", f"it has {', '.join(self._labels[:20])}"
                )
            return self._labels.index(word)
        if self._tokenizer is None:
            raise DataError(f"{format_argument('foil', word)} is a text, but the model has no tokenizer", "give an id")
        ids = self._tokenizer.encode(word)
        if len(ids) != 1 or ids[0] == self._tokenizer.unk_id:
            spelled = " ".join(self._tokenizer.tokens(ids))
            raise DataError(
                f"{format_argument('foil', word)} is not one token of the model: it is encoded as {len(ids)} "
                f"({format_value(spelled)})",
                "pass the first of them, or an id",
            )
        return ids[0]

    @property
    def reading_attention(self) -> str:
        """The kind of attention through which the input reaches the output stack."""
        if self.writes_classes:
            return "encoder.self"
        return "cross" if isinstance(self.model, Transformer) else "decoder.self"

    @property
    def stack(self) -> Encoder | Decoder:
        """The output stack: the decoder, or a classifier's encoder."""
        return self.model.encoder if isinstance(self.model, EncoderOnly) else self.model.decoder

    def logits(self, visible: Tensor | None = None, copies: int = 1, model: Writer | None = None) -> Tensor:
        """Returns logits (B, R, V) of the forward pass, or (B, 1, C) for a classifier.

        Args:
            visible: bool (B, M), False = hidden from all positions. In a decoder-only model a position still
                attends to itself. None: all are visible.
            copies: the number B of identical passes, if nothing is hidden.
            model: the model to run; None: the replay's model.
        """
        model = self.model if model is None else model
        if not isinstance(model, SequenceClassifier):
            return model.output_projection(self.states(visible, copies, model))  # (B, T, V)
        assert self.src is not None
        B, mask = _sizes(visible, copies)
        segments = None if self._segments is None else self._segments.expand(B, -1)
        classes: Tensor = model(self.src.expand(B, -1), segments, mask)  # (B, C)
        return classes[:, None]  # (B, 1, C)

    def states(
        self, visible: Tensor | None = None, copies: int = 1, model: Transformer | DecoderOnly | None = None
    ) -> Tensor:
        """Returns the input of the output projection, (B, T, D), with the arguments of `logits`; no classifiers."""
        model = cast(Transformer | DecoderOnly, self.model) if model is None else model
        assert self.tgt is not None
        B, mask = _sizes(visible, copies)
        if isinstance(model, Transformer):
            assert self.src is not None
            return model.states(self.src.expand(B, -1), self.tgt.expand(B, -1), mask)  # (B, T, D)
        T = self.tgt.size(1)
        seen = causal_mask(T, self.tgt.device)  # (1, 1, T, T)
        if mask is not None:
            seen = seen & (mask | torch.eye(T, dtype=torch.bool, device=self.tgt.device))  # (B, 1, T, T)
        states: Tensor = model.decoder(model.tgt_embedding(self.tgt.expand(B, -1)), None, seen, None)  # (B, T, D)
        return states

    def log_probs(self, visible: Tensor) -> Tensor:
        """Returns the log-probability of each row's output in each of B passes, (B, R).

        `visible` is an argument of `logits`.
        """
        with torch.inference_mode():
            some = max(1, MOST_NUMBERS // (len(self.out) * self.width))
            found = [self._select_written(self.logits(part)) for part in torch.split(visible, some)]
            return torch.cat(found)  # (B, R)

    def _select_written(self, logits: Tensor) -> Tensor:
        """(B, R, V) -> (B, R)."""
        out = self.out.expand(len(logits), -1)[..., None]  # (B, R, 1)
        return logits.float().log_softmax(dim=-1).gather(-1, out)[..., 0]

    @property
    def width(self) -> int:
        """The number of logits of a row: vocabulary size, or number of classes."""
        return self.model.config.num_classes if self.writes_classes else self.model.config.tgt_vocab_size

    def readout(self, states: Tensor) -> Tensor:
        """Returns logits (R, V) of a layer's output, (L, D), through the final norm, if there is one."""
        x = states if self.stack.norm is None else self.stack.norm(states)  # (L, D)
        if isinstance(self.model, SequenceClassifier):
            logits: Tensor = self.model.head(x[None])  # (1, C)
            return logits
        return self.model.output_projection(x)  # (L, V)

    @torch.inference_mode()
    def stream(self) -> ResidualStream:
        """Runs the forward pass and records the residual stream of the output stack.

        Raises DataError if a custom layer does not report its residual sums.
        """
        side = "encoder" if self.writes_classes else "decoder"
        sums: list[ResidualSum] = []
        calls: dict[tuple[str, int], AttentionCall] = {}
        joined: dict[str, Tensor] = {}
        embedded: list[Tensor] = []

        def see(call: AttentionCall) -> None:
            calls[call.name, call.layer] = call

        def see_sum(place: str, norm: nn.Module, before: Tensor, added: Tensor, after: Tensor) -> None:
            if place.startswith(f"{side}.layers."):
                _, _, layer, sublayer = place.split(".", 3)
                sums.append(ResidualSum(place, int(layer), sublayer, norm, before[0], added[0], after[0]))

        with observe_model(self.model, see, see_sum) as copied:
            embedding = copied.src_embedding if isinstance(copied, EncoderOnly) else copied.tgt_embedding
            embedding.register_forward_hook(lambda module, given, output: embedded.append(output[0]))
            for place, module in copied.named_modules():
                if isinstance(module, MultiHeadAttention):
                    module.out_proj.register_forward_pre_hook(partial(_keep, joined, place))
            logits = self.logits(model=copied)[0]
            layers = len(copied.encoder.layers if isinstance(copied, EncoderOnly) else copied.decoder.layers)
        told = {one.layer for one in sums}
        if len(told) < layers:
            raise DataError(
                f"{layers - len(told)} of the {layers} layers of the {side} do not report their residual updates",
                "derive a custom layer from pellucid.EncoderLayer or DecoderLayer, and use its `add`",
            )
        return ResidualStream(embedded[0], sums, calls, joined, logits)

    def sublayer(self, place: str) -> nn.Module | None:
        """Returns the module of a sublayer by its place; None if the layer has no sublayer of this name."""
        with suppress(AttributeError):
            return self.model.get_submodule(place)
        return None


def _sizes(visible: Tensor | None, copies: int) -> tuple[int, Tensor | None]:
    """Returns the number of passes, B, and `visible` as a mask (B, 1, 1, M)."""
    return (copies, None) if visible is None else (len(visible), visible[:, None, None, :])


def _keep(joined: dict[str, Tensor], place: str, module: nn.Module, given: tuple[Tensor]) -> None:
    joined[place] = given[0][0]
