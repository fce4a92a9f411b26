"""Coverage: flags translations that leave out words of the source, by the attention of the head that aligns words.

In a complete translation each word of the source is attended to by the words that translate it. The words of a clause
that is left out receive hardly any attention in total.
"""

from collections.abc import Sequence
from dataclasses import replace

from pellucid.config import DecodeConfig
from pellucid.tasks.quality_flags import Flag
from pellucid.tasks.translation import Translation
from pellucid.tasks.word_alignment import Aligner, WordAlignment

LEAST_ATTENTION = 0.1
"""The attention, summed over the written words, below which a word of the source is not covered."""
UNCOVERED, LEAST_WORDS = 0.25, 2
"""The share of uncovered words, and their number, from which on a translation is flagged (docs/guides/how-sure.md)."""
MOST_NAMED = 8
"""The most uncovered words that the evidence names."""


def find_uncovered(line: str, text: str, alignment: WordAlignment) -> list[str]:
    """Returns the words of a line that no word of its translation attends to, without marks and unaligned parts."""
    found = []
    for part in alignment.parts:
        if not part.known or not part.targets:
            continue
        written = [number for number, (a, b) in enumerate(part.targets) if _is_word(text[a:b])]
        received = part.weights[written].sum(axis=0)
        found += [
            line[a:b]
            for (a, b), weight in zip(part.sources, received, strict=True)
            if _is_word(line[a:b]) and weight < LEAST_ATTENTION
        ]
    return found


def find_coverage_flag(line: str, text: str, alignment: WordAlignment) -> Flag | None:
    """Returns the flag of a translation that leaves out words; None if it covers its line."""
    words = sum(_is_word(line[a:b]) for part in alignment.parts if part.known for a, b in part.sources)
    uncovered = find_uncovered(line, text, alignment)
    if len(uncovered) < LEAST_WORDS or len(uncovered) < UNCOVERED * words:
        return None
    more = f" and {len(uncovered) - MOST_NAMED} more" if len(uncovered) > MOST_NAMED else ""
    return Flag(
        "coverage", f"no word attends to {len(uncovered)} of {words} words: {', '.join(uncovered[:MOST_NAMED])}{more}"
    )


def flag_coverage(
    aligner: Aligner, found: Sequence[Translation], sources: Sequence[str], decode: DecodeConfig
) -> list[Translation]:
    """Returns translations with the flag "coverage" where words of the source are left out.

    It takes a forward pass per line, in batches. Without a head that aligns, or without attention, nothing is flagged.
    """
    if aligner.head is None or "trace" in aligner.engine.lacks:
        return list(found)
    flagged = []
    alignments = iter(
        aligner.align_all([pair for pair in zip(sources, found, strict=True) if pair[1].text.strip()], decode)
    )
    for one, line in zip(found, sources, strict=True):
        flag = find_coverage_flag(line, one.text, next(alignments)) if one.text.strip() else None
        flagged.append(replace(one, flags=(*one.flags, flag)) if flag else one)
    return flagged


def _is_word(text: str) -> bool:
    return any(map(str.isalnum, text))
