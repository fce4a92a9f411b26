"""A line as the model reads it: whole or sentence by sentence, each in as many pieces as its length asks for."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pellucid.text.sentences import sentences, space_between, writes_spaces
from pellucid.text.tokenizer import CompleteTokenizer
from pellucid.text.training_text import TrainingText

SENTENCE_ENDS = frozenset(".!?…。！？।")
SPACES = ("▁", " ")
"""The characters by which a token shows that a word begins."""
INNER_BYTES = frozenset(f"<0x{byte:02X}>" for byte in range(0x80, 0xC0))
"""The bytes within a character, as tokens show them."""
_LEADING_CODE = re.compile(r"\s*>>[^<\s]+<<\s*")
Ids = list[int]
Way = tuple["Way", int] | None
"""The places chosen of the lists so far, the last one outermost."""


@dataclass(frozen=True)
class Segment:
    """A sentence of a line, or all of the line."""

    source: str
    pieces: list[Ids]
    """The ids that are translated by themselves: one piece, or more where the model does not take so much at once."""
    behind: str = ""
    """The spaces between it and the next one, as far as the tokenizer tells them apart."""

    @property
    def length(self) -> int:
        """Its tokens."""
        return sum(map(len, self.pieces))


def segments_of(
    lines: Sequence[str],
    tokenizer: CompleteTokenizer,
    limit: int,
    text: TrainingText | None,
    language: str = "",
    *,
    led_by_codes: bool = False,
) -> list[list[Segment]]:
    """Returns the segments of each line; none for a line without text.

    Args:
        limit: the most tokens of a piece.
        text: what the model was trained on, by which lines are cut into sentences; None: they are not.
        language: a code of what the lines are in; "" where that is not known.
        led_by_codes: whether a line may begin with the code of its target (`>>fra<<`), which is then that of each of
            its sentences.
    """
    found = []
    for line, ids in zip(lines, tokenizer.encode_lines(lines), strict=True):
        parts = sentences(line, language) if ids and text is not None and text.is_unlike(len(ids)) else [line]
        if len(parts) == 1:
            found.append([Segment(line, _pieces(ids, tokenizer, limit))] if ids and line.strip() else [])
            continue
        cores = [part.strip() for part in parts]
        if led_by_codes and (code := _LEADING_CODE.match(line)):
            cores[1:] = [core and f"{code[0]}{core}" for core in cores[1:]]
        behind = [part[len(part.rstrip()) :] for part in parts[:-1]]
        spaces = [*(_spaces(run, tokenizer) for run in behind), ""]
        cut_up = zip(cores, tokenizer.encode_lines(cores), spaces, strict=True)
        found.append([Segment(core, _pieces(ids, tokenizer, limit), space) for core, ids, space in cut_up if core])
    return found


def joined(texts: Sequence[str], segments: Sequence[Segment]) -> str:
    """Returns the translations of a line's segments as one line: joined as the segments stood.

    Where the target writes no spaces there are none; where the source writes none and the target does, there is one.
    """
    if len(texts) == 1:
        return texts[0]
    line, behind = "", ""
    for text, segment in zip(texts, segments, strict=True):
        if core := text.strip():
            line += (_space(behind, line, core) if line else "") + core
            behind = ""
        behind = behind or (segment.behind if writes_spaces(segment.source) else "")
    return line


def ranked_together(ranks: Sequence[Sequence[float]], count: int) -> list[list[int]]:
    """Returns the `count` best ways to choose one of each list, the best first, by the sum of what is chosen.

    Each list falls. The sentences of a line do not depend on one another, so the sums of their ranks are compared; of
    equal ones the way that takes the better of an earlier sentence comes first.
    """
    best: list[tuple[float, Way]] = [(0.0, None)]
    for falling in ranks:
        ways: list[tuple[float, Way]] = [
            (total + rank, (way, i)) for total, way in best for i, rank in enumerate(falling[:count])
        ]
        best = sorted(ways, key=lambda entry: -entry[0])[:count]
    return [_chosen(way) for _, way in best]


def _chosen(way: Way) -> list[int]:
    found = []
    while way is not None:
        way, number = way
        found.append(number)
    return found[::-1]


def _pieces(ids: Ids, tokenizer: CompleteTokenizer, limit: int) -> list[Ids]:
    if len(ids) <= limit:
        return [ids] if ids else []
    return [piece for piece in cut(ids, tokenizer.tokens(ids), limit) if tokenizer.decode(piece).strip()]


def _spaces(run: str, tokenizer: CompleteTokenizer) -> str:
    """Returns spaces as they stood, but one where the model reads no more than that; never what ends a line."""
    run = " ".join(run.splitlines()) or " " * bool(run)
    return " " if run and tokenizer.encode(f"a{run}a") == tokenizer.encode("a a") else run


def _space(behind: str, before: str, after: str) -> str:
    return behind or " " if space_between(before, after) else ""


def cut(ids: Sequence[int], tokens: Sequence[str], limit: int) -> list[list[int]]:
    """Pieces of at most `limit` ids, each cut within the second half of what fits.

    The cut is behind the last sentence's end there, else between words, else between characters.
    """
    pieces, start = [], 0
    while len(ids) - start > limit:
        end = _cut_place(tokens[start : start + limit + 1]) + start
        pieces.append(list(ids[start:end]))
        start = end
    return [*pieces, list(ids[start:])]


def _cut_place(tokens: Sequence[str]) -> int:
    """Returns the best place among the tokens to cut before; the last token is the first that does not fit."""
    places = range(len(tokens) - 1, len(tokens) // 2, -1)
    behind_sentences = (place for place in places if tokens[place - 1][-1:] in SENTENCE_ENDS)
    between_words = (place for place in places if tokens[place].startswith(SPACES))
    between_characters = (place for place in places if tokens[place] not in INNER_BYTES)
    for candidates in (behind_sentences, between_words, between_characters):
        if (place := next(candidates, None)) is not None:
            return place
    return len(tokens) - 1
