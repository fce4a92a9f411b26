"""Defines the options of a view, and selects its weights from a trace."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from pellucid.analysis.alignment import Gold, LinkExtraction
from pellucid.analysis.weights import describe_hidden, hide_tokens, make_visible_mask, merge_words, word_tokens
from pellucid.errors import ConfigError, DataError
from pellucid.tracing.attention import Array, AttentionTrace
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace
from pellucid.views.canvas.drawing import picture_width
from pellucid.views.words import name_attention

if TYPE_CHECKING:  # a picture of a saved trace runs no model
    from pellucid.analysis.ablation import Ablation
    from pellucid.analysis.contributions import LogitAttribution
    from pellucid.analysis.evolution import Evolution
    from pellucid.analysis.lens import LogitLens

Mix = Literal["mean", "max"]
Pair = Literal["aa", "ab", "ba", "bb"]
Heads = int | Sequence[int] | Mix | None

OWNERS: Mapping[str, tuple[str, ...]] = {
    "row": ("neuron", "text", "contributions"), "top_k": ("heads",), "pruned": ("beam",), "other": ("compare",),
    "names": ("compare",), "gold": ("alignment",), "extraction": ("alignment",), "evolution": ("evolution",),
    "statistic": ("evolution",), "ablation": ("model",), "lens": ("lens",), "contributions": ("contributions",),
}  # fmt: skip
"""The options that apply only to some views, each with these views."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ViewOptions:
    """Holds the options of a view. Layers, heads and rows are counted from 0; None: the view's default."""

    attention: str | None = None
    """"encoder.self", "decoder.self", "cross" or "search.cross"; None: cross-attention if the trace has it, else the
    first."""
    layer: int | None = None
    """None: the last."""
    head: Heads = None
    """A head, several, or "mean" or "max" over the layer's heads; None: all heads of the layer."""
    merge_words: bool = False
    """If True, merges the tokens of a word."""
    special: bool = True
    """If False, hides special tokens."""
    sink: bool = True
    """If False, hides the first token, which attracts surplus weight (attention sink)."""
    pair: Pair | None = None
    """For a text pair, the query text and the key text: "ab" is the attention of the first to the second. None: all."""

    title: str | None = None
    """The heading; None: a description of the selection."""
    width: str | float | None = None
    """The maximum width of a still picture: "column" or "page" of a journal, or millimeters."""

    row: int | None = None
    """neuron, text, contributions: the row, counted from 0; None: the first that is not a special token."""
    top_k: int | None = None
    """heads: the number of arcs; None: 4,000."""
    pruned: bool | None = None
    """beam: if False, pruned hypotheses are left out; None: they are shown."""
    other: Trace | None = None
    """compare: the trace to compare with."""
    names: tuple[str, str] | None = None
    """compare: the names of the two traces; None: the names of their models."""
    gold: Gold | None = None
    """alignment: the gold links."""
    extraction: LinkExtraction | None = None
    """alignment: the method that extracts links from weights."""
    evolution: "Evolution | None" = None
    """evolution: statistics by checkpoint of a run."""
    statistic: str | None = None
    """evolution: the statistic to show; None: the entropy."""
    ablation: "Ablation | None" = None
    """model: the effect of each head, as an overlay in a page."""
    lens: "LogitLens | None" = None
    """lens: the predictions of each layer, from `pellucid.logit_lens`."""
    contributions: "LogitAttribution | Sequence[LogitAttribution] | None" = None
    """contributions: the contribution of each part to a token, from `pellucid.attribute_logits`; of one row or of
    several."""

    def __post_init__(self) -> None:
        if self.pair is not None and self.pair not in get_args(Pair):
            raise ConfigError(f"`pair` {self.pair!r} is unknown", f"choose one of {', '.join(get_args(Pair))}")
        if isinstance(self.head, str) and self.head not in get_args(Mix):
            raise ConfigError(f"`head` {self.head!r} is unknown", 'choose a number, several numbers, "mean" or "max"')
        if isinstance(self.head, Sequence) and not self.head:
            raise ConfigError("`head` is empty", "leave it out to show all of the layer")

    def check(self, view: str) -> None:
        """Raises ConfigError for an option that has no effect on the view."""
        for field in fields(self):
            owners = OWNERS.get(field.name, (view,))
            if view not in owners and getattr(self, field.name) is not None:
                *others, last = owners
                named = f"the views {', '.join(others)} and {last}" if others else f"the view {last}"
                raise ConfigError(f"`{field.name}` has no effect with the view `{view}`", f"it belongs to {named}")

    @property
    def all_contributions(self) -> "Sequence[LogitAttribution]":
        """Returns the contributions as a sequence, one per row."""
        given = self.contributions
        return given if isinstance(given, Sequence) else [given] if given else []

    def place(self, trace: Trace) -> tuple[AttentionTrace, int]:
        """Returns the selected attention and layer of a trace.

        Raises DataError, which lists the alternatives, for an attention, a layer or a head that the trace does not
        have.
        """
        attention = trace[self.attention or ("cross" if "cross" in trace.attentions else next(iter(trace), ""))]
        layer = attention.num_layers - 1 if self.layer is None else self.layer
        attention.check(layer)
        for head in self.heads(attention):
            attention.check(layer, head)
        return attention, layer

    def heads(self, attention: AttentionTrace) -> list[int]:
        """Returns the selected heads; all heads of a mix."""
        if self.head is None or isinstance(self.head, str):
            return list(range(attention.num_heads))
        # numpy's integers are not int
        return [int(self.head)] if isinstance(self.head, int | Integral) else [int(head) for head in self.head]

    def pixels(self) -> float | None:
        """Returns the width in pixels; None if it is unlimited."""
        return picture_width(self.width)


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectedWeights:
    """Holds the weights of a picture, with their rows, columns and names."""

    title: str
    """The attention, the layer and the heads as text, or the given title."""
    weights: Array
    """(P, L, M), one entry per panel."""
    heads: list[int]
    """The head of each panel; -1 for a mix of all."""
    rows: tuple[Token, ...]
    columns: tuple[Token, ...]
    mask: np.ndarray | None
    """(L, M), True = may attend."""
    note: str
    """A remark on hidden tokens or merged words; may be empty."""


def select(trace: Trace, choice: ViewOptions) -> SelectedWeights:
    """Selects heads of a trace, hides tokens, and merges words, according to the options.

    Raises DataError if the trace lacks the selection, if nothing is left to show, or if a pair is set for a single
    text.
    """
    attention, layer = choice.place(trace)
    rows, columns = trace.sequences[attention.queries], trace.sequences[attention.keys]
    heads, mask, notes = choice.heads(attention), attention.mask, []
    title = format_title(attention.name, layer, heads)
    weights = attention.layer_weights(layer)[heads]
    if isinstance(choice.head, str):
        weights, heads = (weights.mean(0) if choice.head == "mean" else weights.max(0))[None], [-1]
        title = f"{format_title(attention.name, layer)}, {choice.head} of its heads"
    if not (choice.special and choice.sink):
        # The sink is a key; in cross-attention the first row is a different token.
        own = attention.queries == attention.keys
        of_rows = make_visible_mask(rows, choice.special, choice.sink or not own)
        of_columns = make_visible_mask(columns, choice.special, choice.sink)
        if not (of_rows.any() and of_columns.any()):
            raise DataError("no token is left to show if these tokens are hidden", "show special tokens, or the sink")
        weights, share = hide_tokens(weights, rows, columns, of_rows, of_columns)
        notes.append(describe_hidden(_keep_tokens(columns, ~of_columns), share))
        rows, columns, mask = (
            _keep_tokens(rows, of_rows),
            _keep_tokens(columns, of_columns),
            _keep_mask(mask, of_rows, of_columns),
        )
    if choice.pair:
        of_rows, of_columns = (
            np.array([token.segment == "ab".index(letter) for token in side])
            for side, letter in zip((rows, columns), choice.pair, strict=True)
        )
        if not (of_rows.any() and of_columns.any()):
            raise DataError(
                f"`pair` {choice.pair!r} requires two texts that were encoded together; the trace is of one"
            )
        weights = weights[:, of_rows][:, :, of_columns]
        rows, columns, mask = (
            _keep_tokens(rows, of_rows),
            _keep_tokens(columns, of_columns),
            _keep_mask(mask, of_rows, of_columns),
        )
    if choice.merge_words:
        mask = None if mask is None else merge_words(mask.astype(np.float32), rows, columns) > 0
        weights, rows, columns = merge_words(weights, rows, columns), word_tokens(rows), word_tokens(columns)
        notes.append("words: the sum over the pieces of a key, the mean over those of a query")
    if choice.pair:
        notes.append(f"sentence {choice.pair[0].upper()} at sentence {choice.pair[1].upper()}")
    return SelectedWeights(
        title=choice.title or title, weights=weights, heads=heads, rows=rows, columns=columns, mask=mask,
        note="; ".join(filter(None, notes)),
    )  # fmt: skip


def format_title(attention: str, layer: int, heads: Sequence[int] = ()) -> str:
    """Returns the name of an attention, its layer, and the head if there is a single one, as text."""
    name = name_attention(attention, layer, heads[0] if len(heads) == 1 else None)
    return f"{name[0].upper()}{name[1:]}"


def read_heads(text: str | None) -> Heads:
    """Parses "3", "0,3", "mean" or "max" into `ViewOptions.head`. Raises ConfigError for anything else."""
    if text is None or text in get_args(Mix):
        return text  # type: ignore[return-value]
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"`head` {text!r} is unknown", 'choose a number, several as 0,3, "mean" or "max"') from None
    return numbers[0] if len(numbers) == 1 else numbers


def _keep_tokens(tokens: tuple[Token, ...], kept: np.ndarray) -> tuple[Token, ...]:
    return tuple(token for token, keeps in zip(tokens, kept, strict=True) if keeps)


def _keep_mask(mask: np.ndarray | None, rows: np.ndarray, columns: np.ndarray) -> np.ndarray | None:
    return None if mask is None else mask[rows][:, columns]
