"""Segmentation of a line for the model: whole or by sentences, each split into pieces if it is too long."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pellucid.text.sentences import space_between, split_sentences, writes_spaces
from pellucid.text.tokenizer import TokenizerBase
from pellucid.text.training_text import TrainingTextStats

SENTENCE_ENDS = frozenset(".!?…。！？।")
SPACES = ("▁", " ")
"""The characters with which a token begins if it begins a word."""
INNER_BYTES = frozenset(f"<0x{byte:02X}>" for byte in range(0x80, 0xC0))
"""The bytes within a character, as tokens show them."""
LINE_BREAK = "\n"
_BREAK = re.compile(r"(?<!\s)\s*\n\s*")  # begins with a run of white space, which is read once
LEADING_CODE = re.compile(r"\s*>>[^<\s]+<<\s*")
Ids = list[int]
Way = tuple["Way", int] | None
"""The indices chosen from the lists so far, as a linked list with the last one first."""


@dataclass(frozen=True)
class Segment:
    """A sentence of a line, or the whole line."""

    source: str
    pieces: list[Ids]
    """The ids that are translated separately: one piece, or several if the segment exceeds the model's limit."""
    space: str = ""
    """The spaces between this segment and the next, as far as the tokenizer distinguishes them; all of them if they
    contain a line break."""
    before: str = ""
    """The white space before the first segment of a text with line breaks."""

    @property
    def length(self) -> int:
        """The number of its tokens."""
        return sum(map(len, self.pieces))


def split_segments(
    lines: Sequence[str],
    tokenizer: TokenizerBase,
    limit: int,
    text: TrainingTextStats | None,
    language: str = "",
    *,
    led_by_codes: bool = False,
) -> list[list[Segment]]:
    """Returns the segments of each line; none for a line without text.

    A text with line breaks is split there, too, and its segments have the white space around the breaks.

    Args:
        limit: the most tokens of a piece.
        text: statistics of the training text, which determine if a line is split into sentences; None: no splitting.
        language: the language code of the lines; "" if unknown.
        led_by_codes: if True, a line may begin with the code of its target (`>>fra<<`), which is then added to each of
            its sentences.
    """
    rows = [_BREAK.split(line.strip()) if LINE_BREAK in line else [line] for line in lines]
    split = iter(
        _split_rows([row for of_line in rows for row in of_line], tokenizer, limit, text, language, led_by_codes)
    )
    found = []
    for line, of_line in zip(lines, rows, strict=True):
        segments = [next(split) for _ in of_line]
        found.append(_join_rows(line, of_line, segments) if LINE_BREAK in line else segments[0])
    return found


def _join_rows(line: str, rows: Sequence[str], found: Sequence[list[Segment]]) -> list[Segment]:
    """Returns the segments of the rows of a text with line breaks, with the white space between the rows."""
    segments: list[Segment] = []
    place = 0
    for row, of_row in zip(rows, found, strict=True):
        start = line.index(row, place)
        space = line[place:start]
        if segments:
            segments[-1] = replace(segments[-1], space=segments[-1].space + space)
        elif of_row:
            of_row[0] = replace(of_row[0], before=line[:start])
        segments += of_row
        place = start + len(row)
    if not segments:
        return []
    segments[-1] = replace(segments[-1], space=segments[-1].space + line[place:])
    return segments


def _split_rows(
    lines: Sequence[str],
    tokenizer: TokenizerBase,
    limit: int,
    text: TrainingTextStats | None,
    language: str,
    led_by_codes: bool,
) -> list[list[Segment]]:
    """Returns the segments of lines without line breaks; arguments as in split_segments()."""
    found = []
    for line, ids in zip(lines, tokenizer.encode_lines(lines), strict=True):
        parts = split_sentences(line, language) if ids and text is not None and text.is_unlike(len(ids)) else [line]
        if len(parts) == 1:
            found.append([Segment(line, _pieces(ids, tokenizer, limit))] if ids and line.strip() else [])
            continue
        cores = [part.strip() for part in parts]
        if led_by_codes and (code := LEADING_CODE.match(line)):
            cores[1:] = [core and f"{code[0]}{core}" for core in cores[1:]]
        space = [part[len(part.rstrip()) :] for part in parts[:-1]]
        spaces = [*(_spaces(run, tokenizer) for run in space), ""]
        cut_up = zip(cores, tokenizer.encode_lines(cores), spaces, strict=True)
        found.append([Segment(core, _pieces(ids, tokenizer, limit), space) for core, ids, space in cut_up if core])
    return found


def join_segments(texts: Sequence[str], segments: Sequence[Segment]) -> str:
    """Returns the translations of a line's segments as one line, with the spaces of the source between them.

    If the target script has no spaces, there are none; if only the source script has none, there is one. Line breaks
    stay, with the white space around them.
    """
    broken = any(LINE_BREAK in segment.before or LINE_BREAK in segment.space for segment in segments)
    if len(texts) == 1 and not broken:
        return texts[0]
    line, space = "", ""
    before = segments[0].before if segments else ""
    for text, segment in zip(texts, segments, strict=True):
        if core := text.strip():
            if LINE_BREAK not in space:
                space = _space(space, line, core) if line else ""
            line += space + core
            space = ""
        if LINE_BREAK in space or LINE_BREAK in segment.space:
            space += segment.space
        else:
            space = space or (segment.space if writes_spaces(segment.source) else "")
    return before + line + (space if broken else "")


def combine_n_best(ranks: Sequence[Sequence[float]], count: int) -> list[list[int]]:
    """Returns the `count` best combinations of one element per list, as indices, the best sum first.

    Each list is in descending order. The sentences of a line are independent, so the sums of their ranks are compared;
    on ties the combination with the better element of an earlier sentence comes first.
    """
    best: list[tuple[float, Way]] = [(0.0, None)]
    for falling in ranks:
        ways: list[tuple[float, Way]] = [
            (total + rank, (way, i)) for total, way in best for i, rank in enumerate(falling[:count])
        ]
        best = sorted(ways, key=lambda entry: -entry[0])[:count]
    return [_list_choices(way) for _, way in best]


def _list_choices(way: Way) -> list[int]:
    found = []
    while way is not None:
        way, number = way
        found.append(number)
    return found[::-1]


def _pieces(ids: Ids, tokenizer: TokenizerBase, limit: int) -> list[Ids]:
    if len(ids) <= limit:
        return [ids] if ids else []
    return [piece for piece in split_ids(ids, tokenizer.tokens(ids), limit) if tokenizer.decode(piece).strip()]


def _spaces(run: str, tokenizer: TokenizerBase) -> str:
    """Returns spaces unchanged, or one space if the tokenizer does not distinguish them; never a line break."""
    run = " ".join(run.splitlines()) or " " * bool(run)
    return " " if run and tokenizer.encode(f"a{run}a") == tokenizer.encode("a a") else run


def _space(space: str, before: str, after: str) -> str:
    return space or " " if space_between(before, after) else ""


def split_ids(ids: Sequence[int], tokens: Sequence[str], limit: int) -> list[list[int]]:
    """Splits ids into pieces of at most `limit` ids, each cut within its second half.

    The cut is after the last sentence end there, else between words, else between characters.
    """
    pieces, start = [], 0
    while len(ids) - start > limit:
        end = _find_cut(tokens[start : start + limit + 1]) + start
        pieces.append(list(ids[start:end]))
        start = end
    return [*pieces, list(ids[start:])]


def find_cuts(tokens: Sequence[str]) -> list[int]:
    """Returns the indices before which a text can be cut: between its words, else between its characters."""
    places = range(1, len(tokens))
    return [place for place in places if tokens[place].startswith(SPACES)] or [
        place for place in places if tokens[place] not in INNER_BYTES
    ]


def _find_cut(tokens: Sequence[str]) -> int:
    """Returns the best index to cut before; the last token is the first one that exceeds the limit."""
    places = range(len(tokens) - 1, len(tokens) // 2, -1)
    after_sentences = (place for place in places if tokens[place - 1][-1:] in SENTENCE_ENDS)
    between_words = (place for place in places if tokens[place].startswith(SPACES))
    between_characters = (place for place in places if tokens[place] not in INNER_BYTES)
    for candidates in (after_sentences, between_words, between_characters):
        if (place := next(candidates, None)) is not None:
            return place
    return len(tokens) - 1
