"""What every attention of one pass worked on, beside the tokens that it worked for.

Weights are not kept: queries, keys, mask and bias are, and a head's weights are rebuilt from them when asked for.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from pellucid.errors import DataError

Array = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Token:
    """One place of a sequence."""

    text: str
    """What it stands for, as a reader would write it: "ing", " Hund", "안"."""
    piece: str
    """How its vocabulary spells it: "##ing", "▁Hund", "ìķĪ"."""
    id: int | None = None
    word: int | None = None
    """Which word of the sequence it is a part of, counted from 0; None for a special token."""
    special: bool = False
    segment: int = 0
    """0, or 1 in the second of two texts that were read together."""
    adds: str | None = None
    """What it adds to the text of its word, where that is not `text`: a character that several tokens spell in bytes
    is added by the first of them, and each shows it with its own bytes, as `안[EC 95]`."""

    @property
    def written(self) -> str:
        """Its part of the text that the tokens of a word make up together."""
        return self.text if self.adds is None else self.adds


@dataclass(frozen=True, kw_only=True)
class AttentionTrace:
    """One kind of attention in all layers of a stack. N layers, H heads, L queries, M keys, K the width of a head."""

    name: str
    """"encoder.self", "decoder.self", "cross", or "search.cross" for the steps of a search."""
    queries: str
    """The sequence whose tokens name the rows."""
    keys: str
    """The sequence whose tokens name the columns."""
    q: Array | None = None
    """(N, H, L, K), as attention() saw them: rotary positions have turned them already."""
    k: Array | None = None
    """(N, Hkv, M, K); each key head serves H / Hkv neighbouring query heads."""
    ready: Array | None = None
    """(N, H, L, M): the weights themselves, where they came from elsewhere and there are no queries and keys."""
    mask: npt.NDArray[np.bool_] | None = None
    """(L, M), True = may attend; None: all."""
    bias: Array | None = None
    """What was added to the scores, (1 or N, 1 or H, L, M)."""
    rotary_base: float | None = None
    """Of rotary positions, by which the turn of queries and keys can be undone."""
    value_norms: Array | None = None
    """(N, H, M): how long the vector is that each key's value adds to the output, through the head's part of W^O."""

    def __repr__(self) -> str:
        kind = "ready-made weights" if self.q is None else f"heads of width {self.head_width}"
        if self.num_kv_heads != self.num_heads:
            kind += f", {self.num_kv_heads} of keys"
        (rows, columns), masked = self.size, "" if self.mask is None else ", masked"
        return (
            f"AttentionTrace({self.name}: {self.num_layers} layers x {self.num_heads} heads, {rows} {self.queries} x "
            f"{columns} {self.keys}, {kind}{masked})"
        )

    def weights(self, layer: int, head: int) -> Array:
        """The softmax of a head's scores, (L, M); rows sum to one, or to zero where nothing may be attended to."""
        if self.ready is not None:
            self.check(layer, head)
            given: Array = self.ready[layer, head]
            return given
        scores = self.scores(layer, head)
        exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=np.finfo(np.float32).min))
        sums = exponentials.sum(axis=-1, keepdims=True)
        weights: Array = np.divide(exponentials, sums, out=np.zeros_like(exponentials), where=sums > 0)
        return weights

    def scores(self, layer: int, head: int) -> Array:
        """What the softmax is taken of, (L, M): q k^T / sqrt(K), the bias added, minus infinity where masked.

        Raises DataError for ready-made weights, which have none.
        """
        self.check(layer, head)
        if self.q is None or self.k is None:
            raise DataError(f"`{self.name}` holds ready-made weights: there are no scores, queries or keys")
        q, k = self.q[layer, head], self.k[layer, head // (self.num_heads // self.num_kv_heads)]
        scores: Array = (q.astype(np.float32) * np.float32(self.head_width**-0.5)) @ k.astype(np.float32).T
        if self.bias is not None:
            scores = scores + self.bias[layer % self.bias.shape[0], head % self.bias.shape[1]]
        return scores if self.mask is None else np.where(self.mask, scores, np.float32(-np.inf))

    @property
    def num_layers(self) -> int:
        """N."""
        return self._shape[0]

    @property
    def num_heads(self) -> int:
        """H."""
        return self._shape[1]

    @property
    def num_kv_heads(self) -> int:
        """Hkv; as many as query heads where nothing else is known."""
        return self.num_heads if self.k is None else self.k.shape[1]

    @property
    def head_width(self) -> int:
        """K; 0 for ready-made weights."""
        return 0 if self.q is None else self.q.shape[3]

    @property
    def size(self) -> tuple[int, int]:
        """L and M."""
        keys = self._shape[3] if self.k is None else self.k.shape[2]
        return self._shape[2], keys

    @property
    def _shape(self) -> tuple[int, ...]:
        recorded = self.ready if self.q is None else self.q
        assert recorded is not None, "there are queries and keys, or weights"
        return tuple(recorded.shape)

    def check(self, layer: int, head: int = 0) -> None:
        """Raises DataError for a layer or a head that there is not."""
        for what, number, count in (("layer", layer, self.num_layers), ("head", head, self.num_heads)):
            if isinstance(number, bool) or not isinstance(number, int | np.integer) or not 0 <= number < count:
                raise DataError(
                    f"`{what}` ({number}) of `{self.name}` must be in 0..{count - 1}", "layers and heads count from 0"
                )


Status = Literal["live", "pruned", "finished", "best"]


@dataclass(frozen=True, slots=True)
class SearchNode:
    """One hypothesis of a search after one more token; the root has none."""

    parent: int | None
    """The node it continues."""
    token: Token
    log_prob: float
    """Of this token, in nats."""
    score: float
    """The sum of its tokens' log-probabilities."""
    ranked_by: float
    """Its score / length ** length_penalty."""
    status: Status
    """live: continued; pruned: weighed and dropped; finished: ended; best: the one that was chosen in the end."""
    row: int
    """The row of "search.cross" that tells where the model looked when it wrote this token; 0 for the root."""


@dataclass(frozen=True, slots=True)
class SearchTrace:
    """The tree of a search, parents before their children."""

    beam_size: int
    length_penalty: float
    nodes: tuple[SearchNode, ...]

    def __repr__(self) -> str:
        return f"SearchTrace(beam_size {self.beam_size}, length_penalty {self.length_penalty}, {len(self.nodes)} nodes)"


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One pass of a model over one sentence, or a pair of them."""

    model: Mapping[str, str | int | float]
    """What the model is: `name`, `family` (encoder, decoder, encoder-decoder), `d_model`, `weights` (a checksum)."""
    sequences: Mapping[str, tuple[Token, ...]]
    """By name: "src", "tgt" (what the decoder read), "out" (what it was to write there), "search"."""
    attentions: Mapping[str, AttentionTrace]
    faithfulness: float
    """The largest difference between what the recorded attention gives and what the model computed with. In single
    precision it is the rounding of the last digits, or 0."""
    search: SearchTrace | None = None
    without_weights: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Layers of which nothing is recorded, by the kind of attention, counted in the model from 0: parts of somebody's
    own that do not call `pellucid.attention`. An attention in the trace counts the other layers alone."""
    provenance: Mapping[str, str] = field(default_factory=dict)
    """With what it was recorded: `tool`, `torch`, `device`, `dtype`."""

    def __repr__(self) -> str:
        """A line for the model, each sequence and each attention."""
        about = ", ".join(f"{key} {value}" for key, value in self.model.items() if key in ("family", "d_model"))
        lines = [f"Trace of {self.model.get('name', 'a model')} ({about})"]
        lines += [f"  {name}: {_line(tokens)}" for name, tokens in self.sequences.items()]
        lines += [f"  {one!r}" for one in self.attentions.values()]
        lines += [f"  {name}: no weights of {_numbered(layers)}" for name, layers in self.without_weights.items()]
        lines += [f"  {self.search!r}"] if self.search else []
        return "\n".join([*lines, *([f"  faithfulness {self.faithfulness:.2g}"] if self.is_recorded else [])])

    def __getitem__(self, name: str) -> AttentionTrace:
        """The attention `name`. Raises DataError that lists what there is."""
        if name not in self.attentions and name in self.without_weights:
            raise DataError(
                f"the trace has no weights of `{name}`: none of its layers called attention()",
                "attention of your own is recorded where it calls pellucid.attention(q, k, v, ..., block=self)",
            )
        if name not in self.attentions:
            among = f"choose one of {', '.join(self.attentions)}" if self.attentions else ""
            raise DataError(f"the trace has no attention `{name}`", among)
        return self.attentions[name]

    @property
    def is_recorded(self) -> bool:
        """Whether it was recorded and checked; weights that came from elsewhere were not, and have no faithfulness."""
        return all(attention.ready is None for attention in self.attentions.values())

    def __iter__(self) -> Iterator[str]:
        return iter(self.attentions)

    def save(self, path: str | Path, dtype: Literal["float32", "float16"] = "float32") -> Path:
        """Writes the trace's file (docs/concepts/trace-file.md), and returns its path.

        float32 gives the trace back bit for bit, float16 takes half the room. Equal traces give equal bytes: there is
        no time, path or host in them. Raises DataError for another dtype, numbers beyond float16 or a damaged trace.
        """
        from pellucid.tracing.file import save_trace

        return save_trace(self, path, dtype)


def _numbered(layers: tuple[int, ...]) -> str:
    """Returns the numbers of layers in words."""
    return f"layer{'s' if len(layers) > 1 else ''} {', '.join(map(str, layers))}, which did not call attention()"


def _line(tokens: tuple[Token, ...], most: int = 12) -> str:
    """The first tokens of a sequence, as their vocabulary spells them, and how many there are."""
    spelled = [token.piece if token.piece.isprintable() else ascii(token.piece)[1:-1] for token in tokens[:most]]
    pieces = [piece if len(piece) <= 20 else f"{piece[:19]}…" for piece in spelled]
    return f"{len(tokens)} tokens, {' '.join(pieces)}{' …' if len(tokens) > most else ''}"
