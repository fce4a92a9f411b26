"""Trains tokenizers on lines of text."""

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, dropwhile
from pathlib import Path

from sentencepiece import SentencePieceTrainer

from pellucid.config import DataConfig
from pellucid.errors import ConfigError, DataError, did_you_mean, format_quoted
from pellucid.text.character_counts import COVERAGE, MOST, CharacterCounts
from pellucid.text.normalization import SPACE_MARK
from pellucid.text.normalization import normalize as normalized
from pellucid.text.normalization_rules import set_normalizer
from pellucid.text.subwords import ESCAPE, FOREIGN_KIND, SUBWORD_KINDS, SentencePieceTokenizer, escape
from pellucid.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, SPECIAL_TOKENS, UNK_ID, TokenizerBase
from pellucid.text.vocabulary import VOCABULARY_KINDS, Vocabulary, split_entries, tokens_before_entries

TOKENIZER_KINDS = (*SUBWORD_KINDS, *VOCABULARY_KINDS)
_DEFAULTS = DataConfig()
WITH_SYMBOLS = ("bpe", "unigram", "spaces")
_APPLIES_TO = {
    "lowercase": ("words", "characters", "spaces"),
    "min_frequency": ("words", "spaces"),
    "byte_fallback": ("bpe", "unigram", "characters"),
    "symbols": WITH_SYMBOLS,
}
_PART_LENGTH = 2000
"""Characters per part of a long line in SentencePiece's training: the space before each part is then far more frequent
than 1 in 10,000 characters, below which a character gets no piece."""


def train_tokenizer(
    kind: str,
    lines: Iterable[str],
    *,
    vocab_size: int = _DEFAULTS.vocab_size,
    lowercase: bool = _DEFAULTS.lowercase,
    min_frequency: int = _DEFAULTS.min_frequency,
    byte_fallback: bool = _DEFAULTS.byte_fallback,
    normalize: str = _DEFAULTS.normalize,
    symbols: Sequence[str] = _DEFAULTS.symbols,
    log_line: Callable[[str], object] = str,
) -> TokenizerBase:
    """Returns a tokenizer of the given kind, trained on lines of text, or the SentencePiece model at the path `kind`.

        tokenizer = pellucid.train_tokenizer("bpe", lines, vocab_size=8000)
        tokenizer.decode(tokenizer.encode("Ein Hund")) == "Ein Hund"

    Equal lines and options make an equal tokenizer, byte for byte. The options are the settings of a recipe's [data].

    Args:
        kind: bpe, unigram, words, characters, bytes, spaces, or the path of a SentencePiece model.
        lines: the text. For subwords with byte fallback, which read it twice, an iterator is held in memory.
        vocab_size: the largest number of ids, special ids included; a text may give fewer.
        lowercase: lower-case the text (words, characters and spaces only).
        min_frequency: the number of occurrences that a word needs to have an id (words and spaces only).
        byte_fallback: write text outside the vocabulary as bytes (bpe, unigram and characters only). Characters then
            take at most four tenths of a subword vocabulary, and no more than there is room for.
        symbols: words that are never split, such as "<formal>" (bpe, unigram and spaces only).
        normalize: nfc, nmt_nfkc or none: the normalization before segmentation; a model at a path has its own.
        log_line: called with a message if characters are dropped for lack of room.

    Raises:
        ConfigError: an unknown kind; an option that the kind does not have; a `vocab_size` that cannot hold the kind's
            bytes or, without them, the text's characters.
        DataError: lines without any text.
        CheckpointError: the file at the path is not a SentencePiece model.
    """
    symbols = tuple(dict.fromkeys(symbols))
    options = {"lowercase": lowercase, "min_frequency": min_frequency, "byte_fallback": byte_fallback}
    _check_options(kind, options | {"symbols": symbols})
    for symbol in symbols:
        if normalized(symbol, normalize) != symbol or (lowercase and symbol != symbol.lower()):
            raise ConfigError(
                f"`symbols` has {format_quoted(symbol)}, which a text spells differently"
                + (" in lower case" if lowercase else f' with `normalize = "{normalize}"`'),
                "choose a symbol of plain letters",
            )
    if kind not in TOKENIZER_KINDS:
        if normalize == "nmt_nfkc":
            raise ConfigError(
                f'`normalize = "nmt_nfkc"` has no effect on the SentencePiece model `{kind}`, which has its own '
                "normalization",
                "leave it out",
            )
        return _open_model(kind)
    if kind in SUBWORD_KINDS:
        text = _Lines(list(lines) if isinstance(lines, Iterator) else lines, normalize)
        return _train_subwords(kind, text, vocab_size, byte_fallback, symbols, log_line)
    return _train_vocabulary(
        kind, iter(_Lines(lines, normalize)), vocab_size, lowercase, min_frequency, byte_fallback, normalize, symbols
    )


def _check_options(kind: str, options: Mapping[str, object]) -> None:
    """Raises ConfigError for an option that a kind does not have, unless it has its default value."""
    for option, value in options.items():
        if kind not in _APPLIES_TO[option] and value != getattr(_DEFAULTS, option):
            raise ConfigError(
                f"`{option} = {json.dumps(value)}` has no effect on the tokenizer `{kind}`",
                f"leave it out, or choose one of {', '.join(_APPLIES_TO[option])}",
            )


def _open_model(kind: str) -> SentencePieceTokenizer:
    path = Path(kind)
    if not path.is_file():
        is_path = path.suffix == ".model" or len(path.parts) > 1
        raise ConfigError(
            f"no SentencePiece model at `{kind}`"
            if is_path
            else f"unknown tokenizer `{kind}`{did_you_mean(kind, TOKENIZER_KINDS)}",
            f"choose one of {', '.join(TOKENIZER_KINDS)}, or the path of a SentencePiece model",
        )
    return SentencePieceTokenizer(path.read_bytes(), FOREIGN_KIND, name=kind)


@dataclass(frozen=True)
class _Lines:
    """The lines without line ends, as normalized Unicode text. Raises DataError if all are blank."""

    lines: Iterable[str]
    normalization: str

    def __iter__(self) -> Iterator[str]:
        rest = dropwhile(lambda line: not line.strip(), self.lines)
        first = next(rest, None)
        if first is None:
            raise DataError("the training text of the tokenizer is empty", "use at least one line that is not empty")
        for line in chain([first], rest):
            text = line.rstrip("\r\n").encode("utf-8", "replace").decode("utf-8")
            yield normalized(text, self.normalization)


def _train_vocabulary(
    kind: str,
    lines: Iterator[str],
    vocab_size: int,
    lowercase: bool,
    min_frequency: int,
    byte_fallback: bool,
    normalization: str,
    symbols: Sequence[str],
) -> Vocabulary:
    """Returns the vocabulary of the most frequent entries; ties are in alphabetical order."""
    has_bytes = kind == "bytes" or (kind == "characters" and byte_fallback)
    places = vocab_size - len(tokens_before_entries(has_bytes))
    wanted = 0 if kind == "bytes" else 1 + len(symbols)
    if places < wanted:
        least = vocab_size - places + wanted
        raise ConfigError(f"`vocab_size` ({vocab_size}) must be at least {least} for the tokenizer `{kind}`")
    if kind == "bytes":
        next(lines)  # nothing is learned, but the text must not be empty
        return Vocabulary(kind, (), byte_fallback=True, normalization=normalization)
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(split_entries(kind, line.lower() if lowercase else line))
    for symbol in symbols:
        del counts[symbol]
    ranked = sorted(counts, key=lambda entry: (-counts[entry], entry))
    entries = tuple(entry for entry in ranked[: places - len(symbols)] if counts[entry] >= min_frequency)
    if not entries:
        raise ConfigError(
            f"`min_frequency` ({min_frequency}) removes all words: the most frequent one occurs {counts[ranked[0]]} "
            "times"
        )
    return Vocabulary(kind, (*symbols, *entries), lowercase, has_bytes, normalization)


def _train_subwords(
    kind: str,
    lines: _Lines,
    vocab_size: int,
    byte_fallback: bool,
    symbols: Sequence[str],
    log_line: Callable[[str], object],
) -> SentencePieceTokenizer:
    # A normalized text contains no space mark.
    text = _Sentences(lines, escaped=byte_fallback and lines.normalization == "none")
    if byte_fallback:
        text = replace(text, rare=_rare(text, vocab_size - len(symbols), log_line))
    model, failures = io.BytesIO(), list[BaseException]()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=text.read(failures),
            model_writer=model,
            model_type=kind,
            # SentencePiece allocates for all at once; far beyond this its 32-bit sizes overflow and it never ends.
            vocab_size=min(vocab_size, 10**7),
            hard_vocab_limit=False,
            pad_id=PAD_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            unk_id=UNK_ID,
            unk_surface=SPECIAL_TOKENS[UNK_ID],
            user_defined_symbols=list(symbols),
            # The lines are already normalized; the normalization rules are added to the file afterwards.
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            byte_fallback=byte_fallback,
            character_coverage=COVERAGE if byte_fallback and not text.rare else 1.0,
            max_sentence_length=4 * _PART_LENGTH + 1,
            # More threads would add numbers in another order, so the file would differ between machines.
            num_threads=1,
            minloglevel=2,
        )
    except (RuntimeError, SystemError) as error:
        if failures:
            raise failures[0] from None
        if least := re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error)):
            one = len(tokens_before_entries(byte_fallback)) + len(symbols) + 1
            raise _too_small(vocab_size, one if byte_fallback else int(least[1]), byte_fallback) from error
        raise DataError(
            f"SentencePiece cannot train `{kind}` on this text: {error}", "try the tokenizer `characters` or `bytes`"
        ) from error
    return SentencePieceTokenizer(set_normalizer(model.getvalue(), lines.normalization), kind)


@dataclass(frozen=True)
class _Sentences:
    """The lines as input for SentencePiece's training.

    SentencePiece drops a line with its mark for unknown text, U+2585, so that mark becomes a space. It cannot count
    over very long words, and in a long text without spaces finds the space too rare for a piece, so long lines are
    split.
    """

    lines: Iterable[str]
    escaped: bool
    rare: str = ""
    """Characters that get no piece: they are replaced by NUL, since SentencePiece accepts no coverage below 0.98. It
    neither counts NUL nor learns a piece across it, as for characters that it drops itself."""

    def __iter__(self) -> Iterator[str]:
        blank = str.maketrans(dict.fromkeys(self.rare, "\0") | {"\u2585": " "})
        for line in self.lines:
            sentence = line.translate(blank) if self.rare else line.replace("\u2585", " ")
            sentence = escape(sentence) if self.escaped else sentence
            yield from (sentence[i : i + _PART_LENGTH] for i in range(0, len(sentence), _PART_LENGTH))

    def read(self, failures: list[BaseException]) -> Iterator[str]:
        """Yields the lines to SentencePiece. It replaces exceptions by its own, so they are saved in `failures`."""
        try:
            yield from self
        except (Exception, KeyboardInterrupt) as failure:
            failures.append(failure)
            raise


def _rare(text: _Sentences, vocab_size: int, log_line: Callable[[str], object]) -> str:
    """Returns the characters to write as bytes because others need the room; "" if SentencePiece's own choice fits."""
    inventory = CharacterCounts.from_lines(text)
    most = min(int(MOST * vocab_size), vocab_size - len(tokens_before_entries(byte_fallback=True)))
    if most < 1 or inventory.count_for_coverage(COVERAGE) < most or len(inventory) <= most:
        return ""
    ranked = inventory.ranked
    # The space mark and the escape character are always needed.
    needed = [character for character in (SPACE_MARK, ESCAPE) if character in inventory.counts]
    kept = {*needed, *[character for character in ranked if character not in needed][: most - len(needed)]}
    log_line(
        f"{len(kept):,} of {len(ranked):,} characters have their own piece, {inventory.share(len(kept)):.1%} of the "
        "text; the others are written as bytes"
    )
    return "".join(character for character in ranked if character not in kept)


def _too_small(vocab_size: int, least: int, byte_fallback: bool) -> ConfigError:
    taken_by = "the bytes, a character and `symbols`" if byte_fallback else "the characters of the text"
    otherwise = "" if byte_fallback else ", or let `byte_fallback` write rare characters as bytes"
    return ConfigError(
        f"`vocab_size` ({vocab_size}) is too small: {taken_by} take {least} ids",
        f"use at least {least}, better a few thousand{otherwise}",
    )
