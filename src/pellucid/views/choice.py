"""What a view shows of a trace: which attention, layer and heads, and what is hidden or merged."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Literal, get_args

import numpy as np

from pellucid.analysis.words import merge_words, word_tokens
from pellucid.errors import ConfigError, DataError
from pellucid.tracing.trace import Array, AttentionTrace, Token, Trace
from pellucid.views.hide import describe_hidden, hide_tokens, shown_tokens
from pellucid.views.thumbnails import layer_weights

Mix = Literal["mean", "max"]
Pair = Literal["aa", "ab", "ba", "bb"]
Heads = int | Sequence[int] | Mix | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What is shown. Layers, heads and rows are counted from 0; None leaves the choice to the view."""

    attention: str | None = None
    """"encoder.self", "decoder.self", "cross" or "search.cross"; None: cross-attention where there is some, else the
    first."""
    layer: int | None = None
    """None: the last."""
    head: Heads = None
    """A head, several, or "mean" or "max" of the layer's; None: all of the layer."""
    words: bool = False
    """Whether the pieces of a word are merged."""
    special: bool = True
    """Whether special tokens are shown."""
    sink: bool = True
    """Whether the first token is shown, which draws weight that no other one wants."""
    pair: Pair | None = None
    """Which of two texts looks at which: "ab" is the first at the second. None: all."""

    def __post_init__(self) -> None:
        if self.pair is not None and self.pair not in get_args(Pair):
            raise ConfigError(f"`pair` {self.pair!r} is unknown", f"choose one of {', '.join(get_args(Pair))}")
        if isinstance(self.head, str) and self.head not in get_args(Mix):
            raise ConfigError(f"`head` {self.head!r} is unknown", 'choose a number, several numbers, "mean" or "max"')
        if isinstance(self.head, Sequence) and not self.head:
            raise ConfigError("`head` is empty: there is none to show", "leave it out to show all of the layer")

    def resolved(self, trace: Trace) -> "Resolved":
        """The same with attention and layer chosen, as the trace has them.

        Raises DataError, with what there is, for an attention, a layer or a head that it has not.
        """
        name = self.attention or ("cross" if "cross" in trace.attentions else next(iter(trace.attentions), ""))
        attention = trace[name]
        layer = attention.num_layers - 1 if self.layer is None else self.layer
        attention.check(layer)
        for head in self.numbers(attention):
            attention.check(layer, head)
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        return Resolved(**given | {"attention": name, "layer": layer})

    def numbers(self, attention: AttentionTrace) -> list[int]:
        """The heads that are chosen; those that are mixed, too."""
        if self.head is None or isinstance(self.head, str):
            return list(range(attention.num_heads))
        # numpy's integers are no int
        return [int(self.head)] if isinstance(self.head, int | Integral) else [int(head) for head in self.head]


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolved(Choice):
    """A choice whose attention and layer are those of a trace."""

    attention: str
    layer: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """Weights as they are drawn."""

    weights: Array
    """(P, L, M), a panel each."""
    heads: list[int]
    """Which head each panel is; a mix stands as one, -1."""
    rows: tuple[Token, ...]
    columns: tuple[Token, ...]
    mask: np.ndarray | None
    """(L, M), True = may attend."""
    note: str
    """What was hidden or merged, in words; or nothing."""


def choose(trace: Trace, choice: Resolved) -> Shown:
    """The chosen heads of a trace, without what is hidden, merged where asked.

    Raises DataError where nothing is left to show, or there is only one text.
    """
    attention = trace[choice.attention]
    rows, columns = trace.sequences[attention.queries], trace.sequences[attention.keys]
    heads = choice.numbers(attention)
    weights = layer_weights(attention, choice.layer)[heads]
    if isinstance(choice.head, str):
        weights, heads = (weights.mean(0) if choice.head == "mean" else weights.max(0))[None], [-1]
    weights, rows, columns, mask, note = _without_hidden(weights, rows, columns, attention.mask, choice)
    weights, rows, columns, mask = _of_pair(weights, rows, columns, mask, choice.pair)
    notes = [note]
    if choice.words:
        mask = None if mask is None else merge_words(mask.astype(np.float32), rows, columns) > 0
        weights, rows, columns = merge_words(weights, rows, columns), word_tokens(rows), word_tokens(columns)
        notes.append("words: the sum over the pieces of a key, the mean over those of a query")
    if choice.pair:
        notes.append(f"sentence {choice.pair[0].upper()} at sentence {choice.pair[1].upper()}")
    return Shown(
        weights=weights, heads=heads, rows=rows, columns=columns, mask=mask, note="; ".join(filter(None, notes))
    )


def read_heads(text: str | None) -> Heads:
    """ "3", "0,3", "mean" or "max" as `Choice.head` has it. Raises ConfigError for anything else."""
    if text is None or text in get_args(Mix):
        return text  # type: ignore[return-value]
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"`head` {text!r} is unknown", 'choose a number, several as 0,3, "mean" or "max"') from None
    return numbers[0] if len(numbers) == 1 else numbers


_Parts = tuple[Array, tuple[Token, ...], tuple[Token, ...], np.ndarray | None]


def _without_hidden(
    weights: Array, rows: tuple[Token, ...], columns: tuple[Token, ...], mask: np.ndarray | None, choice: Choice
) -> tuple[Array, tuple[Token, ...], tuple[Token, ...], np.ndarray | None, str]:
    if choice.special and choice.sink:
        return weights, rows, columns, mask, ""
    of_rows, of_columns = (shown_tokens(side, choice.special, choice.sink) for side in (rows, columns))
    if not (of_rows.any() and of_columns.any()):
        raise DataError("nothing is left to show once these tokens are hidden", "show special tokens, or the sink")
    hidden = hide_tokens(weights, rows, columns, of_rows, of_columns)
    note = describe_hidden([token for token, kept in zip(columns, of_columns, strict=True) if not kept], hidden.share)
    rows, columns = _kept(rows, of_rows), _kept(columns, of_columns)
    return hidden.weights, rows, columns, None if mask is None else mask[of_rows][:, of_columns], note


def _of_pair(
    weights: Array, rows: tuple[Token, ...], columns: tuple[Token, ...], mask: np.ndarray | None, pair: Pair | None
) -> _Parts:
    if pair is None:
        return weights, rows, columns, mask
    of_rows, of_columns = (
        np.array([token.segment == "ab".index(letter) for token in side])
        for side, letter in zip((rows, columns), pair, strict=True)
    )
    if not (of_rows.any() and of_columns.any()):
        raise DataError(f"`pair` {pair!r} needs two texts that were read together; the trace is of one")
    rows, columns = _kept(rows, of_rows), _kept(columns, of_columns)
    return weights[:, of_rows][:, :, of_columns], rows, columns, None if mask is None else mask[of_rows][:, of_columns]


def _kept(tokens: tuple[Token, ...], kept: np.ndarray) -> tuple[Token, ...]:
    return tuple(token for token, keeps in zip(tokens, kept, strict=True) if keeps)
