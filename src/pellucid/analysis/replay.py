"""Runs the pass of a trace again: its residual stream recorded, places hidden, or token vectors replaced."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from pellucid.errors import DataError, argument, shown
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.embeddings import Embeddings
from pellucid.model.families import DecoderOnly, EncoderOnly, Model, SequenceClassifier
from pellucid.model.layers import Decoder, Encoder
from pellucid.model.masks import causal_mask
from pellucid.model.transformer import Transformer
from pellucid.tasks.encoder import BEGIN_WITH_IT
from pellucid.tasks.task import TextModel
from pellucid.tracing.apart import in_evaluation
from pellucid.tracing.passes import checksum
from pellucid.tracing.recorder import watched
from pellucid.tracing.tokens import Token, tokens_alone
from pellucid.tracing.trace import Trace

Writer = Transformer | DecoderOnly | SequenceClassifier
"""The models that say something: tokens, or a class."""

MOST_NUMBERS = 16_000_000
"""Logits that are held at a time: 64 MB in single precision."""


def reading_embedding(model: Writer) -> Embeddings:
    """Returns the embedding of what is read: the source's, or that of a decoder alone."""
    return model.tgt_embedding if isinstance(model, DecoderOnly) else model.src_embedding


class ResidualSum(NamedTuple):
    """One residual sum of the stack that writes; (L, D) each."""

    place: str
    """The sublayer: "decoder.layers.0.cross_attn"."""
    layer: int
    sublayer: str
    """Its name there: "cross_attn"."""
    norm: nn.Module
    before: Tensor
    added: Tensor
    after: Tensor


class Call(NamedTuple):
    """One attention of the stack that writes."""

    weights_of: tuple[Tensor, Tensor, Tensor | None, Tensor | None]
    """q (1, H, L, K), k (1, H, M, K), mask and bias, as attention_weights() takes them."""
    v: Tensor
    """(H, M, K)."""


@dataclass
class Stream:
    """Holds the residual stream of the stack that writes, from its embedding to what its last layer hands on."""

    embedded: Tensor
    """(L, D)."""
    sums: list[ResidualSum]
    calls: dict[tuple[str, int], Call]
    """The attentions, by their kind and layer."""
    joined: dict[str, Tensor]
    """By an attention's place what its W^O takes in, (L, H * K): zeros where a head is switched off."""
    logits: Tensor
    """(R, V), of the pass itself."""


class Replay:
    """A trace's pass of the model that it was recorded of, in evaluation mode.

    R rows: the places that were written, or one of a classifier; what they wrote is `out`, (R,).
    """

    def __init__(self, model: TextModel[Any] | Model, trace: Trace) -> None:
        """Raises DataError where the model wrote nothing, or the trace is of another model or has no ids."""
        reader = model if isinstance(model, TextModel) else None
        plain: Any = model.model if isinstance(model, TextModel) else model
        if not isinstance(plain, Transformer | DecoderOnly | SequenceClassifier):
            raise DataError(
                f"a model of the class {type(plain).__name__} says nothing that could be explained", BEGIN_WITH_IT
            )
        if trace.model.get("weights") != checksum(plain):
            raise DataError(
                "the trace was recorded of another model, or of other weights",
                "trace the text with the model that you give",
            )
        self.model: Writer = in_evaluation(plain)
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
        """The tokens whose influence is asked for."""

    def _ids(self, name: str) -> Tensor:
        ids = [token.id for token in self.trace.sequences[name]]
        return torch.tensor([ids], device=self._device)  # (1, L)

    @property
    def writes_classes(self) -> bool:
        """True of a classifier."""
        return isinstance(self.model, SequenceClassifier)

    @cached_property
    def out(self) -> Tensor:
        """The id that each row wrote, (R,); of a classifier its most probable class."""
        if self.writes_classes:
            with torch.no_grad():
                return self.logits()[0].argmax(dim=-1)
        return torch.tensor([token.id for token in self.trace.sequences["out"]], device=self._device)

    @property
    def rows(self) -> tuple[Token, ...]:
        """The tokens that were written; of a classifier its label."""
        return self.named(self.out.tolist()) if self.writes_classes else self.trace.sequences["out"]

    def named(self, ids: Sequence[int]) -> tuple[Token, ...]:
        """Returns each id as a token that stands by itself; of a classifier the labels."""
        if self.writes_classes:
            return tuple(Token(self._labels[i], self._labels[i], i) for i in ids)
        tokens = tokens_alone(self._tokenizer, set(ids), self.model.config.special_ids)
        return tuple(tokens[i] for i in ids)

    def id_of(self, word: int | str) -> int:
        """Returns the id of a word or class, which may be given as one.

        Raises DataError where there is no such id or label, or the tokenizer does not make a single token of it.
        """
        size = self.model.config.num_classes if self.writes_classes else self.model.config.tgt_vocab_size
        if not isinstance(word, str):
            if not 0 <= word < size:
                raise DataError(f"{argument('against', word)} is no id of the model's: they are 0..{size - 1}")
            return int(word)
        if self.writes_classes:
            if word not in self._labels:
                raise DataError(f"the model has no label `{shown(word)}`", f"it has {', '.join(self._labels[:20])}")
            return self._labels.index(word)
        if self._tokenizer is None:
            raise DataError(
                f"{argument('against', word)} is a text, and the model came without a tokenizer", "give an id"
            )
        ids = self._tokenizer.encode(word)
        if len(ids) != 1 or ids[0] == self._tokenizer.unk_id:
            spelled = " ".join(self._tokenizer.tokens(ids))
            raise DataError(
                f"{argument('against', word)} is not one token that the model knows: it is read as {len(ids)} "
                f"({shown(spelled)})",
                "give the first of them, or an id",
            )
        return ids[0]

    @property
    def reading_attention(self) -> str:
        """The kind of attention by which what was read comes to the stack that writes."""
        if self.writes_classes:
            return "encoder.self"
        return "cross" if isinstance(self.model, Transformer) else "decoder.self"

    @property
    def stack(self) -> Encoder | Decoder:
        """The stack that writes: the decoder, or a classifier's encoder."""
        return self.model.encoder if isinstance(self.model, EncoderOnly) else self.model.decoder

    def logits(self, visible: Tensor | None = None, copies: int = 1, model: Writer | None = None) -> Tensor:
        """Returns logits (B, R, V) of the pass, or (B, 1, C) of a classifier.

        Args:
            visible: bool (B, M), False = nobody attends to this place of what is read. In a decoder alone a place still
                attends to itself. None: all.
            copies: the number B of equal passes, where nothing is hidden.
            model: whose pass it is; None: the replay's own.
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
        """Returns what the output projection sees, (B, T, D), with the arguments of `logits`; not of a classifier."""
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
        """Returns the log-probability that each of B passes gives to what the rows wrote, (B, R).

        `visible` is as `logits` takes it.
        """
        with torch.inference_mode():
            some = max(1, MOST_NUMBERS // (len(self.out) * self.width))
            found = [self._chosen(self.logits(part)) for part in torch.split(visible, some)]
            return torch.cat(found)  # (B, R)

    def _chosen(self, logits: Tensor) -> Tensor:
        """(B, R, V) -> (B, R)."""
        out = self.out.expand(len(logits), -1)[..., None]  # (B, R, 1)
        return logits.float().log_softmax(dim=-1).gather(-1, out)[..., 0]

    @property
    def width(self) -> int:
        """The number of logits of a row: words, or classes."""
        return self.model.config.num_classes if self.writes_classes else self.model.config.tgt_vocab_size

    def readout(self, states: Tensor) -> Tensor:
        """Returns logits (R, V) of what a layer hands on, (L, D): by way of the final norm, where there is one."""
        x = states if self.stack.norm is None else self.stack.norm(states)  # (L, D)
        if isinstance(self.model, SequenceClassifier):
            logits: Tensor = self.model.head(x[None])  # (1, C)
            return logits
        return self.model.output_projection(x)  # (L, V)

    @torch.inference_mode()
    def stream(self) -> Stream:
        """Runs the pass and records the residual stream of the stack that writes.

        Raises DataError where a layer of somebody's own does not tell of its sums.
        """
        side = "encoder" if self.writes_classes else "decoder"
        sums: list[ResidualSum] = []
        calls: dict[tuple[str, int], Call] = {}
        joined: dict[str, Tensor] = {}
        embedded: list[Tensor] = []

        def see(name: str, layer: int, block: nn.Module, *seen: Any) -> None:
            q, k, v, mask, bias, _ = seen
            calls[name, layer] = Call((q, k, mask, bias), v[0])

        def see_sum(place: str, norm: nn.Module, before: Tensor, added: Tensor, after: Tensor) -> None:
            if place.startswith(f"{side}.layers."):
                _, _, layer, sublayer = place.split(".", 3)
                sums.append(ResidualSum(place, int(layer), sublayer, norm, before[0], added[0], after[0]))

        with watched(self.model, see, see_sum) as copied:
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
                f"{layers - len(told)} of the {layers} layers of the {side} do not tell what they add to what comes in",
                "let a layer of your own derive from pellucid.EncoderLayer or DecoderLayer, and use its `add`",
            )
        return Stream(embedded[0], sums, calls, joined, logits)

    def sublayer(self, place: str) -> nn.Module | None:
        """Returns the module of a sublayer by its place; None where a layer has none of this name."""
        with suppress(AttributeError):
            return self.model.get_submodule(place)
        return None


def _sizes(visible: Tensor | None, copies: int) -> tuple[int, Tensor | None]:
    """Returns the number of passes, B, and what is visible as a mask (B, 1, 1, M)."""
    return (copies, None) if visible is None else (len(visible), visible[:, None, None, :])


def _keep(joined: dict[str, Tensor], place: str, module: nn.Module, given: tuple[Tensor]) -> None:
    joined[place] = given[0][0]
