"""Guards: flag the translations of a call by their sources, texts, scores and tokens, without a further pass."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from pellucid.tasks.quality_flags import Flag, find_flags
from pellucid.tasks.translation import Translation
from pellucid.text.sentences import detect_main_script
from pellucid.text.subwords import SUBWORD_KINDS
from pellucid.text.tokenizer import TokenizerBase
from pellucid.text.training_text import TrainingTextStats
from pellucid.text.word_forms import RestoredLine

if TYPE_CHECKING:  # it imports numpy
    from pellucid.evaluation.calibration import Calibration

UNTRANSLATED = frozenset(["spans", "confidence"])
"""The flags of lines that are kept as they are, or left empty."""
UNREAD = 0.4
"""The share of unread tokens from which on a source is flagged."""
_FIRST_BYTES = frozenset(f"<0x{byte:02X}>" for byte in range(256) if not 0x80 <= byte < 0xC0)
"""The tokens of the bytes that begin a character."""
_ALIKE = frozenset(["Han", "Kana"])
"""Scripts of one language: a Japanese line may have Chinese characters alone."""


def flag_text(
    source: str, found: Translation, calibration: "Calibration | None" = None, *, searched: bool
) -> list[Flag]:
    """Returns the quality flags of a translation from its text and its score; arguments as in `find_flags`."""
    pieces = [piece for sentence in found.sentences for piece in sentence.pieces]
    lengths = sum(len(ids) for ids, _ in pieces), sum(len(ids) for _, ids in pieces)
    mean = found.score / (lengths[1] + len(pieces)) if pieces else None
    return find_flags(source, found.text, lengths, mean, calibration, searched=searched)


@dataclass(frozen=True)
class SourceGuard:
    """Flags sources that the model cannot read: characters outside of its vocabulary, another script."""

    tokenizer: TokenizerBase
    script: str = ""
    """The script of the training text; "" if it is unknown or there are several."""

    @classmethod
    def from_text(cls, tokenizer: TokenizerBase, text: TrainingTextStats | None) -> "SourceGuard":
        """Returns the guard of a model with these statistics of its training text."""
        return cls(tokenizer, text.source_script if text is not None and len(text.pairs) < 2 else "")

    def find_flag(self, source: str, ids: Sequence[int]) -> Flag | None:
        """Returns the flag of a source with its token ids; None if the model can read it."""
        unread, words = self._tokens
        count = sum(i in unread for i in ids)
        if count and (share := count / (count + sum(i in words for i in ids))) >= UNREAD:
            return Flag("source", f"{share:.0%} of the tokens are not in the vocabulary")
        if (self.script and not source.isascii()) or self.script not in ("", "Latin"):
            script = detect_main_script(source)
            if script and script != self.script and not {script, self.script} <= _ALIKE:
                return Flag("source", f"the script is {script}, that of the training text {self.script}")
        return None

    @cached_property
    def _tokens(self) -> tuple[frozenset[int], frozenset[int]]:
        """The tokens of unread characters (the unknown token, first bytes), and those with letters or digits."""
        shown = self.tokenizer.tokens(range(self.tokenizer.size))
        unread = {self.tokenizer.unk_id}
        if self.tokenizer.kind in SUBWORD_KINDS:
            unread |= {i for i, token in enumerate(shown) if token in _FIRST_BYTES}
        words = {i for i, token in enumerate(shown) if not token.startswith("<") and any(map(str.isalnum, token))}
        return frozenset(unread), frozenset(words - unread)


def add_flags(
    found: Sequence[Translation],
    sources: Sequence[str],
    guard: SourceGuard,
    calibration: "Calibration | None",
    *,
    searched: bool,
) -> list[Translation]:
    """Returns translations with their flags; those of a confidence are taken from it.

    Args:
        sources: the lines, as the model read them.
        searched: as in `find_flags`.
    """
    flagged = []
    for one, source in zip(found, sources, strict=True):
        ids = [i for sentence in one.sentences for ids, _ in sentence.pieces for i in ids]
        unread = guard.find_flag(source, ids)
        of_text = (
            flag_text(source, one, calibration, searched=searched) if one.confidence is None else one.confidence.flags
        )
        flags = (*([unread] if unread else []), *one.flags, *of_text)
        flagged.append(replace(one, flags=flags) if flags else one)
    return flagged


def withhold_uncertain(
    found: Sequence[Translation], sources: Sequence[str], least: float, below: Literal["source", "empty"]
) -> list[Translation]:
    """Returns translations, and the lines themselves or empty texts for those whose probability is below `least`."""
    kept = []
    for one, source in zip(found, sources, strict=True):
        probability = one.confidence.probability if one.confidence is not None else None
        if probability is None or probability >= least or any(flag.name in UNTRANSLATED for flag in one.flags):
            kept.append(one)
            continue
        done = "the source is kept" if below == "source" else "the translation is left out"
        flag = Flag("confidence", f"the probability {probability:.3g} is below {least:g}: {done}")
        kept.append(replace(one, text=source if below == "source" else "", flags=(*one.flags, flag)))
    return kept


def note_restoration(
    found: Translation, source: str, read: RestoredLine, kept: Sequence[str], *, fixes_output: bool
) -> Translation:
    """Returns the translation of a restored line: flagged for corrected words, and in capitals if the line is.

    Args:
        source: the line as it is written; it also replaces the restored line if that was left untranslated.
        kept: the texts of the line that stay as they are.
        fixes_output: if True, options contain text of the output, and its case stays.
    """
    if read.text != source:
        found = replace(
            found, read=read.text, alternatives=[replace(one, read=read.text) for one in found.alternatives]
        )
    if read.corrected:
        evidence = ", ".join(f"`{word}` read as `{form}`" for word, form in read.corrected)
        found = replace(found, flags=(*found.flags, Flag("spelling", evidence)))
    if any(flag.name in UNTRANSLATED for flag in found.flags):
        return replace(found, text=source) if found.text == read.text else found
    return found.write_in_capitals(kept) if read.is_upper and not fixes_output else found
