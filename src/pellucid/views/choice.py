"""Says what a view shows of a trace, and takes the weights for it out of the trace."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Literal, get_args

import numpy as np

from pellucid.analysis.ablation import Ablation
from pellucid.analysis.alignment import Extraction, Gold
from pellucid.analysis.contributions import Contributions
from pellucid.analysis.evolution import Evolution
from pellucid.analysis.lens import Lens
from pellucid.analysis.weights import describe_hidden, hide_tokens, kept_tokens, merge_words, word_tokens
from pellucid.errors import ConfigError, DataError
from pellucid.tracing.attention import Array, AttentionTrace
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace
from pellucid.views.canvas.drawing import picture_width

Mix = Literal["mean", "max"]
Pair = Literal["aa", "ab", "ba", "bb"]
Heads = int | Sequence[int] | Mix | None

IN_WORDS = {
    "encoder.self": "encoder: self-attention",
    "decoder.self": "decoder: self-attention",
    "cross": "decoder: cross-attention",
    "search.cross": "search: cross-attention",
}
OWNERS: Mapping[str, tuple[str, ...]] = {
    "row": ("neuron", "text", "contributions"), "top_k": ("heads",), "pruned": ("beam",), "other": ("compare",),
    "names": ("compare",), "gold": ("alignment",), "extraction": ("alignment",), "evolution": ("evolution",),
    "statistic": ("evolution",), "ablation": ("model",), "lens": ("lens",), "contributions": ("contributions",),
}  # fmt: skip
"""The options that mean something to few views, each with those."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """Says what a view shows. Layers, heads and rows are counted from 0; None leaves the choice to the view."""

    attention: str | None = None
    """"encoder.self", "decoder.self", "cross" or "search.cross"; None: cross-attention where there is some, else the
    first."""
    layer: int | None = None
    """None: the last."""
    head: Heads = None
    """A head, several, or "mean" or "max" of the layer's; None: all of the layer."""
    words: bool = False
    """True merges the pieces of a word."""
    special: bool = True
    """False hides special tokens."""
    sink: bool = True
    """False hides the first token, which draws weight that no other one wants."""
    pair: Pair | None = None
    """The two of several texts of which one looks at the other: "ab" is the first at the second. None: all."""

    title: str | None = None
    """The line above; None: what is shown, in words."""
    width: str | float | None = None
    """The most that a still picture is to take: "column" or "page" of a journal, or millimetres."""

    row: int | None = None
    """neuron, text, contributions: the row, counted from 0; None: the first that is not a special token."""
    top_k: int | None = None
    """heads: the number of arcs; None: 4,000."""
    pruned: bool | None = None
    """beam: False leaves hypotheses out that were dropped; None: they are shown."""
    other: Trace | None = None
    """compare: the trace to compare with."""
    names: tuple[str, str] | None = None
    """compare: the names of the two; None: those of their models."""
    gold: Gold | None = None
    """alignment: the links that people say are right."""
    extraction: Extraction | None = None
    """alignment: how links are read off weights."""
    evolution: Evolution | None = None
    """evolution: the statistics of a run's checkpoints."""
    statistic: str | None = None
    """evolution: the one that is shown; None: the entropy."""
    ablation: Ablation | None = None
    """model: what heads are worth, which a page lays over them."""
    lens: Lens | None = None
    """lens: what each layer would write, as `pellucid.lens` finds it."""
    contributions: Contributions | Sequence[Contributions] | None = None
    """contributions: what each part adds to a word, as `pellucid.contributions` finds it; of one row, or of several."""

    def __post_init__(self) -> None:
        if self.pair is not None and self.pair not in get_args(Pair):
            raise ConfigError(f"`pair` {self.pair!r} is unknown", f"choose one of {', '.join(get_args(Pair))}")
        if isinstance(self.head, str) and self.head not in get_args(Mix):
            raise ConfigError(f"`head` {self.head!r} is unknown", 'choose a number, several numbers, "mean" or "max"')
        if isinstance(self.head, Sequence) and not self.head:
            raise ConfigError("`head` is empty: there is none to show", "leave it out to show all of the layer")

    def check(self, view: str) -> None:
        """Raises ConfigError for an option that means nothing to the view."""
        for field in fields(self):
            owners = OWNERS.get(field.name, (view,))
            if view not in owners and getattr(self, field.name) is not None:
                *others, last = owners
                named = f"the views {', '.join(others)} and {last}" if others else f"the view {last}"
                raise ConfigError(f"`{field.name}` means nothing to the view `{view}`", f"it belongs to {named}")

    @property
    def all_contributions(self) -> Sequence[Contributions]:
        """Returns the contributions of all rows that they are given of."""
        given = self.contributions
        return [given] if isinstance(given, Contributions) else given or []

    def place(self, trace: Trace) -> tuple[AttentionTrace, int]:
        """Returns the attention and the layer that are chosen of a trace.

        Raises DataError, which lists what there is, for an attention, a layer or a head that the trace does not have.
        """
        attention = trace[self.attention or ("cross" if "cross" in trace.attentions else next(iter(trace), ""))]
        layer = attention.num_layers - 1 if self.layer is None else self.layer
        attention.check(layer)
        for head in self.heads(attention):
            attention.check(layer, head)
        return attention, layer

    def heads(self, attention: AttentionTrace) -> list[int]:
        """Returns the heads that are chosen, those that are mixed included."""
        if self.head is None or isinstance(self.head, str):
            return list(range(attention.num_heads))
        # numpy's integers are not int
        return [int(self.head)] if isinstance(self.head, int | Integral) else [int(head) for head in self.head]

    def pixels(self) -> float | None:
        """Returns the width in pixels; None where it is open."""
        return picture_width(self.width)


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Holds the weights that a picture draws, with their rows, columns and names."""

    title: str
    """The attention, the layer and the heads in words, unless a title was chosen."""
    weights: Array
    """(P, L, M), a panel each."""
    heads: list[int]
    """The head of each panel; a mix of all stands as one, -1."""
    rows: tuple[Token, ...]
    columns: tuple[Token, ...]
    mask: np.ndarray | None
    """(L, M), True = may attend."""
    note: str
    """A remark on what was hidden or merged; or nothing."""


def select(trace: Trace, choice: Choice) -> Selection:
    """Takes the chosen heads out of a trace, hides what is not wanted, and merges words where asked.

    Raises DataError for what the trace does not have, where nothing is left to show, or for a pair of a single text.
    """
    attention, layer = choice.place(trace)
    rows, columns = trace.sequences[attention.queries], trace.sequences[attention.keys]
    heads, mask, notes = choice.heads(attention), attention.mask, []
    title = title_of(attention.name, layer, heads)
    weights = attention.layer_weights(layer)[heads]
    if isinstance(choice.head, str):
        weights, heads = (weights.mean(0) if choice.head == "mean" else weights.max(0))[None], [-1]
        title = f"{title_of(attention.name, layer)}, {choice.head} of its heads"
    if not (choice.special and choice.sink):
        # The first token is one that is looked at; the first row of cross-attention is another one.
        own = attention.queries == attention.keys
        of_rows = kept_tokens(rows, choice.special, choice.sink or not own)
        of_columns = kept_tokens(columns, choice.special, choice.sink)
        if not (of_rows.any() and of_columns.any()):
            raise DataError("nothing is left to show once these tokens are hidden", "show special tokens, or the sink")
        weights, share = hide_tokens(weights, rows, columns, of_rows, of_columns)
        notes.append(describe_hidden(_kept(columns, ~of_columns), share))
        rows, columns, mask = _kept(rows, of_rows), _kept(columns, of_columns), _kept_mask(mask, of_rows, of_columns)
    if choice.pair:
        of_rows, of_columns = (
            np.array([token.segment == "ab".index(letter) for token in side])
            for side, letter in zip((rows, columns), choice.pair, strict=True)
        )
        if not (of_rows.any() and of_columns.any()):
            raise DataError(f"`pair` {choice.pair!r} needs two texts that were read together; the trace is of one")
        weights = weights[:, of_rows][:, :, of_columns]
        rows, columns, mask = _kept(rows, of_rows), _kept(columns, of_columns), _kept_mask(mask, of_rows, of_columns)
    if choice.words:
        mask = None if mask is None else merge_words(mask.astype(np.float32), rows, columns) > 0
        weights, rows, columns = merge_words(weights, rows, columns), word_tokens(rows), word_tokens(columns)
        notes.append("words: the sum over the pieces of a key, the mean over those of a query")
    if choice.pair:
        notes.append(f"sentence {choice.pair[0].upper()} at sentence {choice.pair[1].upper()}")
    return Selection(
        title=choice.title or title, weights=weights, heads=heads, rows=rows, columns=columns, mask=mask,
        note="; ".join(filter(None, notes)),
    )  # fmt: skip


def title_of(attention: str, layer: int, heads: Sequence[int] = ()) -> str:
    """Names an attention, its layer, and the head where there is a single one, in words."""
    name = IN_WORDS.get(attention, attention)
    of = f", head {heads[0]}" if len(heads) == 1 else ""
    return f"{name[0].upper()}{name[1:]}, layer {layer}{of}"


def read_heads(text: str | None) -> Heads:
    """Reads "3", "0,3", "mean" or "max" as `Choice.head` has it. Raises ConfigError for anything else."""
    if text is None or text in get_args(Mix):
        return text  # type: ignore[return-value]
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"`head` {text!r} is unknown", 'choose a number, several as 0,3, "mean" or "max"') from None
    return numbers[0] if len(numbers) == 1 else numbers


def _kept(tokens: tuple[Token, ...], kept: np.ndarray) -> tuple[Token, ...]:
    return tuple(token for token, keeps in zip(tokens, kept, strict=True) if keeps)


def _kept_mask(mask: np.ndarray | None, rows: np.ndarray, columns: np.ndarray) -> np.ndarray | None:
    return None if mask is None else mask[rows][:, columns]
