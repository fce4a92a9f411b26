"""The alignment of a translation's words with the words of its line, from the model's cross-attention.

Words are character ranges of the line and of the translation as they are written, so that marks and spans of a text can
be placed in its translation. The attention is that of the aligning head of the model's folder, or the mean of all heads
if the folder names none. The parts of a line that are translated separately are aligned separately.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, takewhile

import numpy as np
import numpy.typing as npt

from pellucid.config import DecodeConfig
from pellucid.engines.engine import Engine, Weights
from pellucid.tasks.segmentation import LEADING_CODE
from pellucid.tasks.translation import Sentence, Translation
from pellucid.text.sentences import writes_spaces
from pellucid.text.tokenizer import TokenizerBase
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.words import is_combining, word_spans
from pellucid.tracing.token_places import fold_text, place_tokens
from pellucid.tracing.tokens import make_tokens
from pellucid.weights.aligning_head import AligningHead

Span = tuple[int, int]
"""The start and end of a word or a part in its text."""
TOGETHER = 256
"""Passes that are recorded in one call."""
_CHUNK = re.compile(r"\S+")
MOST_WORDS = 500
"""The most words of a part that is aligned without attention, which bounds the size of its weights."""


@dataclass(frozen=True)
class PartAlignment:
    """The alignment of a part of a line that is translated separately."""

    sources: list[Span]
    """The words of the part, in order, as ranges of the whole line."""
    targets: list[Span]
    """The words of its translation, in order, as ranges of the whole translation."""
    weights: Weights
    """(targets, sources): the attention of each target word to each source word."""
    known: bool = True
    """If False, the model's attention is unknown, and the weights link words of equal relative position."""


@dataclass(frozen=True)
class WordAlignment:
    """The alignment of a line with its translation: that of each part, in order."""

    parts: list[PartAlignment] = field(default_factory=list)


@dataclass(frozen=True)
class Aligner:
    """Aligns translations with their lines."""

    engine: Engine
    tokenizers: TokenizerPair
    head: AligningHead | None
    """The head of the cross-attention that aligns words; None: the mean of all heads."""

    def align(self, line: str, found: Translation, decode: DecodeConfig) -> WordAlignment:
        """Returns the alignment of a translation with its line; `decode` has the settings of its search."""
        return self.align_all([(line, found)], decode)[0]

    def align_all(self, lines: Sequence[tuple[str, Translation]], decode: DecodeConfig) -> list[WordAlignment]:
        """Returns the alignment of each translation with its line, in batches; each as `align` returns it."""
        each = [
            [_Located(self, (found.read or line, source), (found.text, target), sentence)
             for sentence, source, target in _locate_sentences(found.read or line, found)]
            for line, found in lines
        ]  # fmt: skip
        known = [one for sentences in each for one in sentences if one.is_known]
        pieces = [piece for one in known for piece in one.sentence.pieces]
        recorded = self._attention(pieces, decode) if pieces else []
        if recorded is not None:
            rest = iter(recorded)
            for one in known:
                one.weights = [next(rest) for _ in one.sentence.pieces]
        aligned = [[part for one in sentences for part in one.align()] for sentences in each]
        return [
            WordAlignment(_move_sources(parts, found.read, line) if found.read else parts)
            for parts, (line, found) in zip(aligned, lines, strict=True)
        ]

    def _attention(self, pieces: Sequence[tuple[list[int], list[int]]], decode: DecodeConfig) -> list[Weights] | None:
        """Returns the attention (T, S) of target tokens to source tokens, for each piece; None if there is none."""
        from pellucid.decoding.ids import add_special_ids

        config, head = self.engine.config, self.head
        watched = None if head is None else (head.layer, head.head)
        passes = [
            (add_special_ids(source, config, decode), [config.bos_id, *decode.target_prefix, *target])
            for source, target in pieces
        ]
        first = len(decode.target_prefix) + (head is not None and head.row == "reads")
        column = len(decode.source_prefix)
        found: list[Weights] = []
        for start in range(0, len(passes), TOGETHER):
            if (recorded := self.engine.cross_weights(passes[start : start + TOGETHER], watched)) is None:
                return None
            for (source, target), weights in zip(pieces[start:], recorded, strict=False):
                rows = [min(first + place, len(weights) - 1) for place in range(len(target))]
                found.append(weights[rows][:, column : column + len(source)])
        return found


class _Located:
    """A sentence of a translation, with the places of its words and tokens; `weights` is set if they are known."""

    def __init__(
        self, aligner: Aligner, source: tuple[str, Span], target: tuple[str, Span], sentence: Sentence
    ) -> None:
        self.sentence, self.source, self.target = sentence, source, target
        self.weights: list[Weights] | None = None
        self.read = self.written = None
        if "trace" not in aligner.engine.lacks:
            self.read = _locate_tokens(aligner.tokenizers.source, sentence, 0, source[1][0])
            self.written = _locate_tokens(aligner.tokenizers.target, sentence, 1, target[1][0])

    @property
    def is_known(self) -> bool:
        """False without attention, or if the tokens spell no text."""
        return self.read is not None and self.written is not None

    def align(self) -> list[PartAlignment]:
        """Returns the alignment of each piece; by the positions of the words if there are no weights."""
        if self.weights is None or self.read is None or self.written is None:
            return align_by_position(self.source[0], self.target[0], self.source[1], self.target[1])
        parts = []
        for number, (weights, by_source, by_target) in enumerate(
            zip(self.weights, self.read, self.written, strict=True)
        ):
            sides = []
            for (text, whole), of_pieces in ((self.source, self.read), (self.target, self.written)):
                start = whole[0] if number == 0 else _first(of_pieces[number], whole[1])
                end = whole[1] if number == len(self.read) - 1 else _first(of_pieces[number + 1], whole[1])
                sides.append(split_words(text, (start, max(start, end)), of_pieces[number]))
            sources, targets = sides
            columns, rows = _overlap(sources, by_source), _overlap(targets, by_target)
            columns /= np.maximum(columns.sum(axis=0, keepdims=True), 1)  # the share of each token that is in a word
            rows /= np.maximum(rows.sum(axis=1, keepdims=True), 1)  # the mean over the tokens of a word
            parts.append(PartAlignment(sources, targets, (rows @ weights @ columns.T).astype(np.float32)))
        return parts


def _move_sources(parts: Sequence[PartAlignment], read: str, line: str) -> list[PartAlignment]:
    """Returns parts with the source words as ranges of the line, not of its restored form, which has equal spaces."""
    chunks = list(zip(*map(_CHUNK.finditer, (read, line)), strict=True))
    starts = [chunk.start() for chunk, _ in chunks]

    def move(span: Span) -> Span:
        chunk, written = chunks[bisect_right(starts, span[0]) - 1]
        pairs = zip(chunk[0][::-1].lower(), written[0][::-1].lower(), strict=False)
        behind = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))  # equal letters at the ends
        first, last = (
            written.end() - (chunk.end() - place) if chunk.end() - place <= behind else
            written.start() + min(place - chunk.start(), len(written[0]) - behind)
            for place in span
        )  # fmt: skip
        return first, last

    return [replace(part, sources=[*map(move, part.sources)]) for part in parts]


def align_by_position(line: str, text: str, source: Span, target: Span) -> list[PartAlignment]:
    """Returns the alignment of the words of two ranges by their relative positions."""
    sources, targets = split_words(line, source), split_words(text, target)
    count = -(-max(len(sources), len(targets)) // MOST_WORDS)
    parts = []
    for number in range(count):
        src, tgt = (
            side[len(side) * number // count : len(side) * (number + 1) // count] for side in (sources, targets)
        )
        weights = np.zeros((len(tgt), len(src)), dtype=np.float32)
        if src:
            for row in range(len(tgt)):
                weights[row, (2 * row + 1) * len(src) // (2 * len(tgt))] = 1
        parts.append(PartAlignment(src, tgt, weights, known=False))
    return parts


def split_words(text: str, part: Span, tokens: Sequence[Span] = ()) -> list[Span]:
    """Returns the words and single marks of a part of a text; where a script has no spaces, the parts of its tokens."""
    words = [(part[0] + a, part[0] + b) for a, b in word_spans(text[part[0] : part[1]])]
    if writes_spaces(text[part[0] : part[1]]):
        return words
    cuts = {a for a, _ in tokens if a < len(text) and not is_combining(text[a])}
    found: list[Span] = []
    for a, b in words:
        here = [a, *sorted(cut for cut in cuts if a < cut < b), b]
        found += pairwise(here)
    return found


def _locate_sentences(line: str, found: Translation) -> Iterator[tuple[Sentence, Span, Span]]:
    """Yields the sentences of a translation with their ranges in the line and in the translation."""
    here = there = 0
    for sentence in found.sentences:
        written, text = _text_of(sentence, 0), _text_of(sentence, 1)
        start, place = line.find(written, here), found.text.find(text, there)
        if start < 0 or place < 0:  # never seen; its words remain without a link
            continue
        here, there = start + len(written), place + len(text)
        yield sentence, (start, here), (place, there)


def _text_of(sentence: Sentence, side: int) -> str:
    """Returns the source (0) or the translation (1) of a sentence without the code and the spaces around it."""
    return (LEADING_CODE.sub("", sentence.source, count=1) if side == 0 else sentence.text).strip()


def _first(tokens: Sequence[Span], default: int) -> int:
    return tokens[0][0] if tokens else default


def _locate_tokens(tokenizer: TokenizerBase, sentence: Sentence, side: int, start: int) -> list[list[Span]] | None:
    """Returns the ranges of the tokens of each piece of a sentence, which begins at `start`; None if unknown."""
    text = _text_of(sentence, side)
    pieces = [make_tokens(tokenizer, piece[side]) for piece in sentence.pieces]
    folded = [fold_text(character) for character in text]
    places = place_tokens([token for tokens in pieces for token in tokens], "".join(folded))
    if places is None:
        return None
    # The character that each folded character is a part of, then the end of the text.
    characters = [*(number for number, part in enumerate(folded) for _ in part), len(text)]
    spans: list[Span] = []
    begin = end = len(text)
    for place in reversed(places):  # a token ends where the next one begins, unless both are of one character
        here = begin if place is None else characters[min(place, len(characters) - 1)]
        if here < begin:
            begin, end = here, begin
        stop = here if place is None else here + len(text[here:end].rstrip())
        spans.append((start + here, start + stop))
    spans.reverse()
    rest = iter(spans)
    return [[next(rest) for _ in tokens] for tokens in pieces]


def _overlap(words: Sequence[Span], tokens: Sequence[Span]) -> npt.NDArray[np.float64]:
    """Returns the number of characters that each word shares with each token, (words, tokens)."""
    a, b = (np.array(side, dtype=np.float64).reshape(-1, 2) for side in (words, tokens))
    return np.maximum(0, np.minimum(a[:, None, 1], b[None, :, 1]) - np.maximum(a[:, None, 0], b[None, :, 0]))
