"""Translations of lines, combined from the hypotheses of the pieces of each line."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from pellucid.decoding.hypothesis import Hypothesis
from pellucid.tasks.segmentation import Segment, combine_n_best, join_segments
from pellucid.text.tokenizers import TokenizerPair

if TYPE_CHECKING:  # CTranslate2 works without PyTorch
    from pellucid.tasks.confidence import Confidence
    from pellucid.tasks.next_tokens import NextToken
    from pellucid.tasks.quality_flags import Flag


@dataclass(frozen=True)
class Sentence:
    """A sentence of a line and its translation."""

    source: str
    text: str
    score: float
    """The sum of its tokens' log-probabilities, end token included."""
    length: int
    """The number of its source tokens."""
    pieces: list[tuple[list[int], list[int]]] = field(default_factory=list, repr=False, compare=False)
    """The source and target ids of each piece that was translated separately."""


@dataclass(frozen=True)
class MemoryMatch:
    """A unit of a translation memory whose source equals a line, or is similar to it."""

    source: str
    target: str
    similarity: float
    """1: the sources are equal after the tokenizer's normalization; else below 1, by their words."""
    use: Literal["whole", "terms", ""] = ""
    """"whole": it is the translation; "terms": the translation has words of it; "": it is not used."""


@dataclass(frozen=True)
class Translation:
    """One translation of a line."""

    text: str
    """The text: a space replaces each line break of the model's output, and the line breaks of the source stay."""
    score: float
    """The sum of its tokens' log-probabilities, end token included; of several sentences the sum of theirs."""
    tokens: list[str]
    """Its target tokens."""
    alternatives: list["Translation"] = field(default_factory=list, repr=False)
    """The n-best list, with this translation."""
    sentences: list[Sentence] = field(default_factory=list, repr=False)
    """The texts that were translated separately, without protected spans: the line, or its sentences in order; empty
    for an empty line."""
    confidence: "Confidence | None" = field(default=None, repr=False)
    """The confidence of the translation; None if not requested."""
    next_token: "NextToken | None" = field(default=None, repr=False)
    """The token in which it differs from its alternatives, if `next_token_alternatives=` was given."""
    flags: "tuple[Flag, ...]" = field(default=(), repr=False)
    """Its quality flags, with the flags of its confidence. With the flag "spans" or "confidence" the text is the line
    itself, or empty."""
    read: str = field(default="", repr=False)
    """The line as the model read it, if its case, diacritics or spelling were restored."""
    matches: tuple[MemoryMatch, ...] = field(default=(), repr=False)
    """The matches of the line in the memory of `memory=`, the best first."""

    def write_in_capitals(self, kept: Sequence[str] = ()) -> "Translation":
        """Returns the translation in capitals, as the line that it translates; texts in `kept` stay as they are."""
        parts = re.compile("({})".format("|".join(map(re.escape, sorted(kept, key=len, reverse=True))) or "(?!)"))

        def write(text: str) -> str:
            return "".join(part if number % 2 else part.upper() for number, part in enumerate(parts.split(text)))

        return replace(
            self,
            text=write(self.text),
            alternatives=[replace(one, text=write(one.text)) for one in self.alternatives],
            sentences=[replace(one, text=write(one.text)) for one in self.sentences],
        )

    def to_json(self) -> dict[str, Any]:
        """Returns text, score and tokens, the confidence if computed, and several sentences and alternatives."""
        table = self._table() | ({} if self.confidence is None else self.confidence.to_json())
        if self.flags:
            table["flags"] = [{"flag": flag.name, "evidence": flag.evidence} for flag in self.flags]
        if self.matches:
            table["memory"] = [
                {"source": m.source, "target": m.target, "similarity": round(m.similarity, 4), "use": m.use or "none"}
                for m in self.matches
            ]
        if len(self.sentences) > 1:
            table["sentences"] = [
                {"source": s.source, "text": s.text, "score": round(s.score, 5)} for s in self.sentences
            ]
        several = len(self.alternatives) > 1 or self.next_token is not None
        return table | ({"alternatives": [t._table() for t in self.alternatives]} if several else {})

    def _table(self) -> dict[str, Any]:
        branch = (
            {"next_token": self.next_token.token, "next_probability": round(self.next_token.probability, 5)}
            if self.next_token
            else {}
        )
        return {"text": self.text, "score": round(self.score, 5), "tokens": self.tokens} | branch


@dataclass(frozen=True)
class SegmentedLines:
    """Lines split into segments, and these into the pieces of ids that an engine translates separately."""

    lines: list[list[Segment]]
    tokenizers: TokenizerPair

    @cached_property
    def pieces(self) -> list[list[int]]:
        """The ids of all pieces, line by line."""
        return [piece for line in self.lines for segment in line for piece in segment.pieces]

    def read_line(self, line: Sequence[Segment]) -> Iterator[tuple[str, list[int]]]:
        """Yields the text and the ids of each piece of a line."""
        for segment in line:
            for piece in segment.pieces:
                whole = len(segment.pieces) == 1
                yield segment.source if whole else self.tokenizers.source.decode(piece), piece

    def translate(
        self, searched: Iterable[tuple[int, list[Hypothesis]]], length_penalty: float | None = None
    ) -> list[Translation]:
        """Returns the translation of each line, combined as soon as its pieces are found, while the engine continues.

        Args:
            searched: the index of each piece in `pieces` with its hypotheses, best first, in any order.
            length_penalty: combines hypotheses of several pieces by their ranks; None: by their order.
        """
        numbers = iter(range(len(self.pieces)))
        places = [[[next(numbers) for _ in segment.pieces] for segment in line] for line in self.lines]
        line_of = [number for number, of_line in enumerate(places) for of_segment in of_line for _ in of_segment]
        missing = Counter(line_of)
        found: dict[int, list[Hypothesis]] = {}

        def write(number: int) -> Translation:
            here = [[found.pop(place) for place in of_segment] for of_segment in places[number]]
            return self._combine(self.lines[number], here, length_penalty)

        best = {number: write(number) for number in range(len(self.lines)) if number not in missing}
        for place, hypotheses in searched:
            found[place] = hypotheses
            missing[line_of[place]] -= 1
            if not missing[line_of[place]]:
                best[line_of[place]] = write(line_of[place])
        return [best[number] for number in range(len(self.lines))]

    def _combine(
        self, line: list[Segment], found: list[list[list[Hypothesis]]], length_penalty: float | None
    ) -> Translation:
        """Returns a line's translation, with its n-best list, from the n-best list of each piece of each segment."""
        pieces = [hypotheses for of_segment in found for hypotheses in of_segment]
        count = max(map(len, pieces), default=1)
        if count == 1:
            ranked = [self._join(line, [[hypotheses[0] for hypotheses in of_segment] for of_segment in found])]
        else:
            ranks = [
                [-float(i) if length_penalty is None else h.rank(length_penalty) for i, h in enumerate(hypotheses)]
                for hypotheses in pieces
            ]
            ranked = []
            for chosen in combine_n_best(ranks, count):
                best = iter([hypotheses[i] for hypotheses, i in zip(pieces, chosen, strict=True)])
                ranked.append(self._join(line, [[next(best) for _ in of_segment] for of_segment in found]))
        first = ranked[0]
        return Translation(first.text, first.score, first.tokens, ranked, first.sentences)

    def _join(self, line: list[Segment], chosen: list[list[Hypothesis]]) -> Translation:
        target = self.tokenizers.target
        parts = []
        for segment, pieces in zip(line, chosen, strict=True):
            texts = [" ".join(target.decode(h.ids).splitlines()) for h in pieces]
            several = len(texts) > 1
            text = join_segments(texts, [Segment(segment.source, [], " ")] * len(texts)) if several else "".join(texts)
            score = float(sum(h.score for h in pieces))
            ids = [(piece, h.ids) for piece, h in zip(segment.pieces, pieces, strict=True)]
            parts.append(Sentence(segment.source, text, score, segment.length, ids))
        return Translation(
            text=join_segments([part.text for part in parts], line) if parts else "",
            score=float(sum(part.score for part in parts)),
            tokens=[token for pieces in chosen for h in pieces for token in target.tokens(h.ids)],
            sentences=parts,
        )


def keep_distinct(translations: list[Translation]) -> list[Translation]:
    """Returns the first translation of each text: a model can produce one text by several token sequences."""
    found: dict[str, Translation] = {}
    for each in translations:
        found.setdefault(each.text, each)
    return list(found.values())
