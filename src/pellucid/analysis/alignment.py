"""Extracts word alignments from cross-attention, and reads and writes the common alignment formats.

A target token has two rows of weights: of the step that writes it, and of the next step, which reads it. A single head
often aligns better by the second (Chen et al. 2020, "Accurate Word Alignment Induction from Neural Machine
Translation"), the mean of several heads by the first, and so do all heads of the date model of `pellucid demo`
(benchmarks/date_alignment.py). So the first is the default, and the search for the best head tries both.

A file has one line per sentence, `0-0 1-2 2?3`, source before target: `i-j` is a sure link, `i?j` or `ipj` a possible
one. Word indices begin at 0 (Pharaoh, fast_align), or at 1 in some gold sets.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from pellucid.analysis.weights import average_weights, check_fit
from pellucid.errors import ConfigError, DataError, format_value
from pellucid.text.normalization import normalize
from pellucid.tracing.attention import Array
from pellucid.tracing.token_places import fold_text, place_tokens
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace
from pellucid.weights.aligning_head import Row

Link = tuple[int, int]
"""The indices of a source word and of a target word, from 0."""

LINK = re.compile(r"(\d+)([-?p])(\d+)")

Method = Literal["argmax", "mutual", "threshold"]
Level = Literal["words", "tokens"]


@dataclass(frozen=True, slots=True)
class Gold:
    """Holds a manual alignment. Every sure link is also a possible one."""

    sure: frozenset[Link]
    possible: frozenset[Link]


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkExtraction:
    """Defines how links are extracted from weights."""

    method: Method = "argmax"
    """argmax: each target word is linked to the source word with most weight; mutual: only if this holds in both
    directions (the intersection); threshold: to each source word of at least `threshold` weight."""
    threshold: float = 0.2
    """The least weight of a link, 0 to 1, for the method threshold."""
    row: Row = "writes"
    """The step that a target token's weights are taken from: the one that writes it, or the one that reads it."""
    level: Level = "words"
    """Alignment of words (the sum over a source word's tokens, the mean over a target word's) or of tokens."""

    def __post_init__(self) -> None:
        for name, allowed in (("method", Method), ("row", Row), ("level", Level)):
            if getattr(self, name) not in get_args(allowed):
                choices = ", ".join(get_args(allowed))
                raise ConfigError(f"`{name}` {getattr(self, name)!r} is unknown", f"choose one of {choices}")
        if not 0 < self.threshold <= 1:
            raise ConfigError(f"`threshold` ({self.threshold}) must be above 0 and at most 1")


@dataclass(frozen=True, slots=True)
class SoftAlignment:
    """Holds how much each target word attends to each source word."""

    weights: Array
    """(..., targets, sources)."""
    targets: list[int]
    """The index of each row's word (or token) in its sentence."""
    sources: list[int]


def align_trace(
    trace: Trace, layer: int | None = None, head: int | None = None, extraction: LinkExtraction | None = None
) -> frozenset[Link]:
    """Returns the links (source, target) of a head of the trace's cross-attention, or of a mean: see average_weights().

    Raises DataError if there is no cross-attention or no such head, or the tokens form no words.
    """
    how = extraction or LinkExtraction()
    soft = soft_alignment(average_weights(trace["cross"], layer, head), *_sides(trace), how)
    return extract_links(soft, how)


def soft_alignment(
    weights: Array, out: Sequence[Token], src: Sequence[Token], extraction: LinkExtraction
) -> SoftAlignment:
    """Returns cross-attention (..., T, S) between the words or tokens that can be aligned, without special tokens.

    Args:
        weights: row t is from the step that writes `out[t]` after reading the tokens before it.
    """
    check_fit(weights, out, src)
    rows, columns = (_units(tokens, extraction.level) for tokens in (out, src))
    later = 1 if extraction.row == "reads" else 0
    last = len(out) - 1  # without an end token the last token is never read
    by_row = [weights[..., [min(place + later, last) for place in places], :].mean(axis=-2) for places in rows.values()]
    stacked = np.stack(by_row, axis=-2) if by_row else weights[..., :0, :]  # (..., targets, S)
    summed = [stacked[..., places].sum(axis=-1) for places in columns.values()]
    merged = np.stack(summed, axis=-1) if summed else stacked[..., :0]  # (..., targets, sources)
    return SoftAlignment(merged.astype(np.float32), list(rows), list(columns))


def extract_links(soft: SoftAlignment, extraction: LinkExtraction) -> frozenset[Link]:
    """Extracts the links (source, target) from weights (targets, sources); the first of equal weights counts."""
    weights = soft.weights
    if not weights.size:
        return frozenset()
    if extraction.method == "threshold":
        chosen = weights >= extraction.threshold
    else:
        best = weights.argmax(axis=1)
        chosen = np.arange(weights.shape[1]) == best[:, None]
        if extraction.method == "mutual":
            chosen &= np.arange(weights.shape[0])[:, None] == weights.argmax(axis=0)
    return frozenset((soft.sources[j], soft.targets[i]) for i, j in np.argwhere(chosen))


def _sides(trace: Trace) -> tuple[Sequence[Token], Sequence[Token]]:
    cross = trace["cross"]
    return trace.sequences[cross.queries], trace.sequences[cross.keys]


def _units(tokens: Sequence[Token], level: Level) -> dict[int, list[int]]:
    """Returns the positions of each word (or token) by its index."""
    usable = [(place, token) for place, token in enumerate(tokens) if not token.special]
    if level == "tokens":
        return {number: [place] for number, (place, _) in enumerate(usable)}
    units: dict[int, list[int]] = {}
    for place, token in usable:
        if token.word is not None:
            units.setdefault(token.word, []).append(place)
    if usable and not units:
        raise DataError("the tokens form no words that can be aligned", "align tokens")
    return units


def write_links(links: Iterable[Link]) -> str:
    """Returns links as `0-0 1-2`, ordered by target index, then source index."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links, key=lambda link: link[::-1]))


def read_gold(lines: Iterable[str], one_based: bool = False) -> Iterator[Gold]:
    """Reads the alignment of each line; without possible links in a file, the sure links are the possible ones.

    Raises DataError, with the line number, for an invalid link, or for a 0 if indices begin at 1.
    """
    for number, line in enumerate(lines, start=1):
        sure, possible = set(), set()
        for text in line.split():
            link, is_sure = _link(text, number, int(one_based))
            possible.add(link)
            if is_sure:
                sure.add(link)
        yield Gold(frozenset(sure), frozenset(possible))


def _link(text: str, line: int, first: int) -> tuple[Link, bool]:
    """Returns a link, and True if it is sure."""
    match = LINK.fullmatch(text)
    if match is None:
        raise DataError(
            f"line {line} of the alignments holds `{text[:40]}`, which is not a link",
            "links are `i-j` (sure) or `i?j` (possible), with a space between them",
        )
    i, j = int(match[1]) - first, int(match[3]) - first
    if min(i, j) < 0:
        raise DataError(f"line {line} of the alignments holds `{text}`, but its words count from 1")
    return (i, j), match[2] == "-"


def words_of_line(line: str) -> list[str]:
    """Returns the words that alignments count, separated by spaces in the normalized line (form `nfc`).

    A line in another spelling (decomposed, with soft hyphens or zero-width characters) has the same words.
    """
    return normalize(line, "nfc").split()


def assign_words(tokens: Sequence[Token], line: str) -> tuple[Token, ...]:
    """Assigns each token to the word of words_of_line(line) that it begins in.

    A tokenizer may split words differently: at punctuation, or without spaces. Its text may differ in case, accents and
    compatibility forms, and have unknown tokens. Raises DataError if the tokens spell a different text than the line
    and also form a different number of words.
    """
    words = words_of_line(line)
    number_at = [number for number, word in enumerate(words) for _ in fold_text(word)]
    places = place_tokens(tokens, "".join(map(fold_text, words)))
    if places is not None and number_at:
        return tuple(
            token if place is None else replace(token, word=number_at[min(place, len(number_at) - 1)])
            for token, place in zip(tokens, places, strict=True)
        )
    own = {token.word for token in tokens if token.word is not None}
    if words and own == set(range(len(words))):
        return tuple(tokens)
    spelled = "".join("".join(token.text_in_word.split()) for token in tokens if not token.special)
    raise DataError(
        f"`{format_value(line)}` has {len(words)} words, but its tokens spell `{format_value(spelled)}` in "
        f"{len(own)} words: the tokens cannot be assigned to words",
        'align tokens (`level="tokens"`), or write spaces between the words of the tokenizer',
    )
