"""Repairs translations: of sentences that repeat themselves, or are longer than nearly all training lines.

A translation that repeats itself is searched again, and no run of tokens may occur for the third time in a row. If it
then repeats itself still, or has no end, or if the sentence is longer than nearly all training lines, the source is
probably several sentences without full stops. It is cut at the place whose halves the model translates with the highest
probability, and each half is translated; halves that are too long are cut again. A sentence that is only long keeps its
first translation if that has the higher probability per token.

Other sentences cost nothing, and a line's translation depends on the line alone.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pellucid.tasks.quality_flags import Flag, Repeated, find_loop
from pellucid.tasks.search import TranslationSearch
from pellucid.tasks.segmentation import LEADING_CODE, Segment, find_cuts, join_segments
from pellucid.tasks.translation import SegmentedLines, Sentence, Translation

MOST_PLACES = 12
"""The most places of a source at which a cut is tried."""
MOST_ROUNDS = 4
"""The most rounds of cuts: up to 16 parts."""
FEWEST_TOKENS = 3
"""The fewest tokens of a part."""
TIMES = 2
"""The times that a run of tokens may occur in a row in the second search."""


@dataclass
class _Repair:
    """A sentence with the repair of its translation."""

    line: int
    place: int
    """The index of the sentence in its line."""
    segment: Segment
    first: Sentence
    """Its first translation."""
    found: Sentence
    """Its translation so far."""
    loop: Repeated | None

    @property
    def is_better(self) -> bool:
        """True if the repair replaces the first translation."""
        return self.loop is not None or _rate_sentence(self.found) > _rate_sentence(self.first)

    def explain(self) -> Flag:
        """Returns the flag that says what was wrong, and what was done."""
        count = len(self.segment.pieces)
        parts = f"translated in {count} parts"
        if self.loop is None:
            return Flag("parts", f"{self.segment.length} tokens, more than nearly all training lines have: {parts}")
        done = parts if count > 1 else "searched again without it"
        return Flag("loop", f'"{self.loop.text}" {self.loop.times} times in a row: {done}')


def can_repair(search: TranslationSearch) -> bool:
    """Returns True if translations of a search can be repaired: of a beam search of a model trained on sentences.

    A forced prefix or required terms belong to a whole line, and alternatives to one search.
    """
    given, text = search.options, search.segmenter.text
    others = (
        given.search,
        given.next_token_alternatives,
        given.prefixes,
        given.constraints,
        given.beam_groups,
        given.rerank,
    )
    return (
        given.repair != "off"
        and search.config.segment == "auto"
        and search.config.n_best == 1
        and text is not None
        and text.is_known
        and text.is_sentences
        and all(value is None for value in others)
        and "constraints" not in search.segmenter.engine.lacks
    )


def repair_translations(search: TranslationSearch, found: Sequence[Translation]) -> list[Translation]:
    """Returns the translations of a search; repaired ones are flagged with "loop" or "parts"."""
    begun: list[_Repair] = []
    for number, (line, one) in enumerate(zip(search.lines.lines, found, strict=True)):
        for place, (segment, sentence) in enumerate(zip(line, one.sentences, strict=True)):
            loop = find_loop(sentence.source, sentence.text) if _may_repeat(sentence) else None
            if loop or any(_is_too_long(search, piece) for piece in segment.pieces):
                begun.append(_Repair(number, place, segment, sentence, sentence, loop))
    repaired = list(found)
    if not begun:
        return repaired
    _search_again(search, [each for each in begun if each.loop])
    for _ in range(MOST_ROUNDS):
        if not _split_pieces(search, begun):
            break
    for number in dict.fromkeys(each.line for each in begun):
        if of_line := [each for each in begun if each.line == number and each.is_better]:
            repaired[number] = _replace_sentences(search, number, found[number], of_line)
    return repaired


def _is_too_long(search: TranslationSearch, piece: Sequence[int]) -> bool:
    text = search.segmenter.text
    return text is not None and text.is_too_long(len(piece))


def _may_repeat(sentence: Sentence) -> bool:
    """Returns False if no token occurs often enough for a loop, as in most translations."""
    return any(ids and max(Counter(ids).values()) > TIMES for _, ids in sentence.pieces)


def _search_again(search: TranslationSearch, repairs: Sequence[_Repair]) -> None:
    """Translates the segments again, those whose translation repeats itself without repetitions."""
    _search(search, [each for each in repairs if not each.loop], 0)
    for each in repairs:
        each.loop = each.loop or find_loop(each.found.source, each.found.text)
    _search(search, [each for each in repairs if each.loop], TIMES)


def _search(search: TranslationSearch, repairs: Sequence[_Repair], times: int) -> None:
    if not repairs:
        return
    lines = SegmentedLines([[replace(each.segment, space="", before="")] for each in repairs], search.lines.tokenizers)
    found, _ = replace(search, lines=lines, max_repeats=times).run()
    for each, one in zip(repairs, found, strict=True):
        each.found = one.sentences[0]


def _split_pieces(search: TranslationSearch, repairs: Sequence[_Repair]) -> bool:
    """Cuts the pieces that are too long, and the longest one of a translation that repeats itself or has no end.

    The cut pieces are translated. Returns False if there was nothing to cut.
    """
    tried: list[tuple[int, int, int]] = []
    halves: list[list[int]] = []
    for number, each in enumerate(repairs):
        for place in _find_pieces_to_cut(search, each):
            piece = list(each.segment.pieces[place])
            for cut in _find_places(search, piece):
                tried.append((number, place, cut))
                halves += [piece[:cut], piece[cut:]]
    if not tried:
        return False
    values = _rate(search, _read(search, halves))
    best: dict[tuple[int, int], tuple[float, int]] = {}
    for (number, place, cut), left, right in zip(tried, values[::2], values[1::2], strict=True):
        best[number, place] = max(best.get((number, place), (left + right, cut)), (left + right, cut))
    for (number, place), (_, cut) in sorted(best.items(), reverse=True):  # from the end, so that places stay
        segment = repairs[number].segment
        piece = list(segment.pieces[place])
        pieces = [*segment.pieces[:place], *_read(search, [piece[:cut], piece[cut:]]), *segment.pieces[place + 1 :]]
        repairs[number].segment = replace(segment, pieces=pieces)
    _search_again(search, [repairs[number] for number in dict.fromkeys(number for number, _ in sorted(best))])
    return True


def _find_pieces_to_cut(search: TranslationSearch, repair: _Repair) -> list[int]:
    """Returns the indices of the pieces of a segment to be cut."""
    pieces = repair.segment.pieces
    if LEADING_CODE.match(repair.segment.source):  # the second part would lack it
        return []
    if long := [place for place, piece in enumerate(pieces) if _is_too_long(search, piece)]:
        return long
    endless = any(_has_no_end(search, piece, ids) for piece, ids in repair.found.pieces)
    if repair.loop and (endless or find_loop(repair.found.source, repair.found.text)):
        return [max(range(len(pieces)), key=lambda place: len(pieces[place]))]
    return []


def _find_places(search: TranslationSearch, piece: Sequence[int]) -> list[int]:
    """Returns at most MOST_PLACES places to cut a piece, evenly spread."""
    tokens = search.lines.tokenizers.source.tokens(piece)
    places = [cut for cut in find_cuts(tokens) if FEWEST_TOKENS <= cut <= len(piece) - FEWEST_TOKENS]
    count = min(MOST_PLACES, len(places))
    return [places[(2 * number + 1) * len(places) // (2 * count)] for number in range(count)]


def _read(search: TranslationSearch, pieces: list[list[int]]) -> list[list[int]]:
    """Returns pieces as the engine reads them."""
    tokenizer = search.lines.tokenizers.source
    return search.segmenter.engine.read(pieces, [tokenizer.decode(piece) for piece in pieces])


def _rate(search: TranslationSearch, pieces: list[list[int]]) -> list[float]:
    """Returns the log-probability per token of the greedy translation of each piece; one without end is worst."""
    config = replace(search.config, beam_size=1)
    found = [best for best, *_ in search.segmenter.engine.search_all(pieces, config, None, None)]
    return [
        -math.inf if _has_no_end(search, piece, best.ids) else best.score / (len(best.ids) + 1)
        for piece, best in zip(pieces, found, strict=True)
    ]


def _has_no_end(search: TranslationSearch, piece: Sequence[int], ids: Sequence[int]) -> bool:
    return len(ids) >= search.segmenter.limit(list(piece), search.config) - 1


def _rate_sentence(found: Sentence) -> float:
    return found.score / sum(len(ids) + 1 for _, ids in found.pieces)


def _replace_sentences(
    search: TranslationSearch, number: int, before: Translation, repairs: Sequence[_Repair]
) -> Translation:
    """Returns the translation of a line with repaired sentences, and the flags that explain them."""
    sentences, line = list(before.sentences), list(search.lines.lines[number])
    for each in repairs:
        sentences[each.place] = each.found
    target = search.lines.tokenizers.target
    found = Translation(
        text=join_segments([sentence.text for sentence in sentences], line),
        score=float(sum(sentence.score for sentence in sentences)),
        tokens=[token for sentence in sentences for _, ids in sentence.pieces for token in target.tokens(ids)],
        sentences=sentences,
    )
    return replace(found, alternatives=[found], flags=tuple(dict.fromkeys(each.explain() for each in repairs)))
