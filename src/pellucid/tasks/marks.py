"""Translates texts with marks: marks in, marks out, as many as before and nested as before (see `mark_placement`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, Unpack

from pellucid.config import DecodeConfig
from pellucid.tasks.mark_placement import (
    Mark,
    MarkedText,
    MarkedTranslation,
    check_marks,
    needs_alignment,
    place_marks,
)
from pellucid.tasks.search_options import SearchOptions, TranslateOptions
from pellucid.tasks.translation import Translation
from pellucid.tasks.word_alignment import Aligner, WordAlignment

__all__ = ["Mark", "MarkTranslator", "MarkedText", "MarkedTranslation", "translate_marked"]


class MarkTranslator(Protocol):
    """The members of `Translator` that marks and documents use."""

    @property
    def translate(self) -> Callable[..., list[Translation]]: ...

    @property
    def configure(self) -> Callable[..., DecodeConfig]: ...

    @property
    def aligner(self) -> Aligner: ...

    @property
    def languages(self) -> Mapping[str, int]: ...

    @property
    def pairs(self) -> tuple[str, ...]: ...


def translate_marked(
    translator: MarkTranslator, texts: Sequence[MarkedText], **options: Unpack[TranslateOptions]
) -> list[MarkedTranslation]:
    """Translates texts and places their marks in the translations.

        bold = MarkedText("Ein roter Hut.", (Mark(4, 9),))
        translate_marked(translator, [bold])                                # "A red hat.", with the mark (2, 5)

    Takes the options of `Translator.translate`. A translation without room for its marks, as an empty one, is replaced
    by its source, and flagged. An engine without traces (CTranslate2, an ensemble) places marks by relative positions,
    which is flagged, as are translations with quality flags.

    Raises DataError for marks that are outside of their text, overlap, or are in another order; and the errors of
    `Translator.translate`.
    """
    for number, text in enumerate(texts, start=1):
        check_marks(text, number)
    found = translator.translate([text.text for text in texts], **options)
    decode = translator.configure(SearchOptions(**options))
    to_align = [
        (text.text, one)
        for text, one in zip(texts, found, strict=True)
        if one.text != text.text and needs_alignment(text)
    ]
    alignments = iter(translator.aligner.align_all(to_align, decode) if to_align else ())
    placed = []
    for text, translation in zip(texts, found, strict=True):
        said = tuple(f"{flag.name}: {flag.evidence}" for flag in translation.flags)
        if translation.text == text.text:
            placed.append(MarkedTranslation(text.text, text.marks, said))
            continue
        alignment = next(alignments) if needs_alignment(text) else WordAlignment()
        one = place_marks(text, translation.text, alignment)
        placed.append(replace(one, flags=(*said, *one.flags)))
    return placed
