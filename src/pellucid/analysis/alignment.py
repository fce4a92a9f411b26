"""Reads word alignments off cross-attention, and reads and writes them as the common tools do.

A target token has two rows of weights: those of the step that writes it, and of the next one, which reads it. A single
head often aligns better by the second (Chen et al. 2020, "Accurate Word Alignment Induction from Neural Machine
Translation"), the mean of several by the first, and so does the date model of `pellucid demo` in all of its heads
(benchmarks/date_alignment.py). So the first is taken where nothing is said, and who looks for the best head tries both.

In files an alignment is a line a sentence, `0-0 1-2 2?3`, source before target: `i-j` is a sure link, `i?j` or `ipj` a
possible one. Numbers count words from 0 (Pharaoh, fast_align), or from 1 in some gold sets.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from pellucid.analysis.weights import check_fit, mixed_weights
from pellucid.errors import ConfigError, DataError
from pellucid.tracing.attention import Array
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace

Link = tuple[int, int]
"""The number of a source word and of a target word, from 0."""

LINK = re.compile(r"(\d+)([-?p])(\d+)")

Method = Literal["argmax", "mutual", "threshold"]
Row = Literal["writes", "reads"]
Level = Literal["words", "tokens"]


@dataclass(frozen=True, slots=True)
class Gold:
    """Holds what people say is aligned. Every sure link is a possible one, too."""

    sure: frozenset[Link]
    possible: frozenset[Link]


@dataclass(frozen=True, kw_only=True, slots=True)
class Extraction:
    """Says how links are read off weights."""

    method: Method = "argmax"
    """argmax: each target word to the source word with most weight; mutual: where that holds the other way round, too
    (the intersection); threshold: to each source word of at least so much weight."""
    threshold: float = 0.2
    """The least weight of a link, 0 to 1, for the method of that name."""
    row: Row = "writes"
    """The step whose weights a target token is given: the one that writes it, or the one that reads it."""
    level: Level = "words"
    """Words (the sum over a source word's tokens, the mean over a target word's) or tokens are aligned."""

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
    """The number of each row's word (or token) in its sentence."""
    sources: list[int]


def align_trace(
    trace: Trace, layer: int | None = None, head: int | None = None, extraction: Extraction | None = None
) -> frozenset[Link]:
    """Returns the links (source, target) by a head of the trace's cross-attention, or by a mean: see mixed_weights().

    Raises DataError where there is no cross-attention or no such head, or the tokens make no words.
    """
    how = extraction or Extraction()
    soft = soft_alignment(mixed_weights(trace["cross"], layer, head), *_sides(trace), how)
    return extract_links(soft, how)


def soft_alignment(weights: Array, out: Sequence[Token], src: Sequence[Token], extraction: Extraction) -> SoftAlignment:
    """Returns cross-attention (..., T, S) between the words or tokens that can be aligned: special ones cannot.

    Args:
        weights: row t is of the step that writes `out[t]`, having read those before it.
    """
    check_fit(weights, out, src)
    rows, columns = (_units(tokens, extraction.level) for tokens in (out, src))
    later = 1 if extraction.row == "reads" else 0
    last = len(out) - 1  # a text without an end token is not read to its end
    by_row = [weights[..., [min(place + later, last) for place in places], :].mean(axis=-2) for places in rows.values()]
    stacked = np.stack(by_row, axis=-2) if by_row else weights[..., :0, :]  # (..., targets, S)
    summed = [stacked[..., places].sum(axis=-1) for places in columns.values()]
    merged = np.stack(summed, axis=-1) if summed else stacked[..., :0]  # (..., targets, sources)
    return SoftAlignment(merged.astype(np.float32), list(rows), list(columns))


def extract_links(soft: SoftAlignment, extraction: Extraction) -> frozenset[Link]:
    """Reads the links (source, target) off weights (targets, sources); of equal weights the first counts."""
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
    """Returns the places of each word (or token) by its number."""
    usable = [(place, token) for place, token in enumerate(tokens) if not token.special]
    if level == "tokens":
        return {number: [place] for number, (place, _) in enumerate(usable)}
    units: dict[int, list[int]] = {}
    for place, token in usable:
        if token.word is not None:
            units.setdefault(token.word, []).append(place)
    if usable and not units:
        raise DataError("the tokens make no words to be aligned", "align tokens")
    return units


def write_links(links: Iterable[Link]) -> str:
    """Writes links as `0-0 1-2`, ordered by the target's number, then the source's."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links, key=lambda link: link[::-1]))


def read_gold(lines: Iterable[str], one_based: bool = False) -> Iterator[Gold]:
    """Reads the alignment of each line; a file without possible links has none but the sure ones.

    Raises DataError, with the line's number, for what is not a link, or a 0 where numbers count from 1.
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
    """Reads a link, and tells if it is sure."""
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


def by_spaces(tokens: Sequence[Token], line: str) -> tuple[Token, ...]:
    """Numbers tokens by the word of `line`, as its spaces part it, that each begins in: alignments count these words.

    A tokenizer's own words may be others: it parts punctuation, or knows no spaces. Raises DataError where the tokens
    spell another text than the line, and make another number of words, too.
    """
    number_at = [number for number, word in enumerate(line.split()) for _ in word]
    written = ["".join(token.written.split()) for token in tokens]
    spelled = "".join(text for text, token in zip(written, tokens, strict=True) if not token.special)
    if spelled == "".join(line.split()):
        return _numbered(tokens, written, number_at)
    words = {token.word for token in tokens if token.word is not None}
    if words == set(range(len(line.split()))):  # lower-cased or normalised, or with unknown tokens
        return tuple(tokens)
    raise DataError(
        f"`{line[:60]}` has {len(line.split())} words, but its tokens spell `{spelled[:60]}` in {len(words)} words: "
        "which token is part of which word cannot be told",
        'align tokens (`level="tokens"`), or write a space around each word as the tokenizer knows it',
    )


def _numbered(tokens: Sequence[Token], written: Sequence[str], number_at: Sequence[int]) -> tuple[Token, ...]:
    found, place = [], 0
    for token, text in zip(tokens, written, strict=True):
        if token.special:
            found.append(token)
            continue
        # What adds nothing, as a lone space or a later byte of a character, goes with what stands before it, if any.
        at = min(place, len(number_at) - 1) if text else max(place - 1, 0)
        found.append(replace(token, word=number_at[at] if number_at else None))
        place += len(text)
    return tuple(found)
