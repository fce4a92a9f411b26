"""A tokenizer from lines of text."""

import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, dropwhile
from pathlib import Path

from sentencepiece import SentencePieceTrainer

from pellucid.config import DataConfig
from pellucid.errors import ConfigError, DataError, did_you_mean
from pellucid.text.charsmap import with_normalizer
from pellucid.text.normalization import normalize
from pellucid.text.subwords import FOREIGN_KIND, SUBWORD_KINDS, Subwords, escape
from pellucid.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, SPECIAL_TOKENS, UNK_ID, Tokenizer
from pellucid.text.vocabulary import VOCABULARY_KINDS, Vocabulary, cut_text, tokens_before_entries

TOKENIZER_KINDS = (*SUBWORD_KINDS, *VOCABULARY_KINDS)
_APPLIES_TO = {
    "lowercase": ("words", "characters", "spaces"),
    "min_frequency": ("words", "spaces"),
    "byte_fallback": ("bpe", "unigram", "characters"),
}
_PART_LENGTH = 2000
"""Characters of a line that SentencePiece learns from at a time; far fewer than one in its rarest ten-thousandth."""


def train_tokenizer(
    kind: str,
    lines: Iterable[str],
    *,
    vocab_size: int,
    lowercase: bool,
    min_frequency: int,
    byte_fallback: bool,
    normalization: str = "none",
) -> Tokenizer:
    """The tokenizer of a kind, trained on lines, or the SentencePiece model at the path `kind`. Read once, in order.

    `vocab_size` is the most ids there may be, special ids included; a text that gives fewer makes a smaller vocabulary.
    Equal lines and options make an equal tokenizer, byte for byte. `normalization` is one of NORMALIZATIONS; a model at
    a path has its own.

    Raises:
        ConfigError: no such kind; an option that the kind does not have; a `vocab_size` that cannot hold the kind's
            bytes or the text's characters.
        DataError: lines without any text.
        CheckpointError: the file at the path is not a SentencePiece model.
    """
    options = {"lowercase": lowercase, "min_frequency": min_frequency, "byte_fallback": byte_fallback}
    _check_options(kind, options)
    if kind not in TOKENIZER_KINDS:
        if normalization == "nmt_nfkc":
            raise ConfigError(
                f'`normalize = "nmt_nfkc"` means nothing to the SentencePiece model `{kind}`: it has its own',
                "leave it out",
            )
        return _open_model(kind)
    text = (normalize(line, normalization) for line in _text_lines(lines))
    if kind in SUBWORD_KINDS:
        return _train_subwords(kind, text, vocab_size, byte_fallback, normalization)
    return _train_vocabulary(kind, text, vocab_size, lowercase, min_frequency, byte_fallback, normalization)


def _check_options(kind: str, options: Mapping[str, object]) -> None:
    """An option that a kind does not have is an error, unless it is at its default: nobody asked for it then."""
    defaults = DataConfig()
    for option, value in options.items():
        if kind not in _APPLIES_TO[option] and value != getattr(defaults, option):
            raise ConfigError(
                f"`{option} = {json.dumps(value)}` means nothing to the tokenizer `{kind}`",
                f"leave it out, or choose one of {', '.join(_APPLIES_TO[option])}",
            )


def _open_model(kind: str) -> Subwords:
    path = Path(kind)
    if not path.is_file():
        is_path = path.suffix == ".model" or len(path.parts) > 1
        raise ConfigError(
            f"no SentencePiece model at `{kind}`"
            if is_path
            else f"unknown tokenizer `{kind}`{did_you_mean(kind, TOKENIZER_KINDS)}",
            f"choose one of {', '.join(TOKENIZER_KINDS)}, or the path of a SentencePiece model",
        )
    return Subwords(path.read_bytes(), FOREIGN_KIND, name=kind)


def _text_lines(lines: Iterable[str]) -> Iterator[str]:
    """The lines without their ends, as Unicode text. Raises DataError where all are blank."""
    rest = dropwhile(lambda line: not line.strip(), lines)
    first = next(rest, None)
    if first is None:
        raise DataError("the text to train a tokenizer on is empty", "give at least one line with a character in it")
    return (line.rstrip("\r\n").encode("utf-8", "replace").decode("utf-8") for line in chain([first], rest))


def _train_vocabulary(
    kind: str,
    lines: Iterator[str],
    vocab_size: int,
    lowercase: bool,
    min_frequency: int,
    byte_fallback: bool,
    normalization: str,
) -> Vocabulary:
    """The most frequent entries, the alphabet deciding between equals."""
    has_bytes = kind == "bytes" or (kind == "characters" and byte_fallback)
    places = vocab_size - len(tokens_before_entries(has_bytes))
    wanted = 0 if kind == "bytes" else 1
    if places < wanted:
        least = vocab_size - places + wanted
        raise ConfigError(f"`vocab_size` ({vocab_size}) must be at least {least} for the tokenizer `{kind}`")
    if kind == "bytes":
        return Vocabulary(kind, (), byte_fallback=True, normalization=normalization)
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(cut_text(kind, line.lower() if lowercase else line))
    ranked = sorted(counts, key=lambda entry: (-counts[entry], entry))
    entries = tuple(entry for entry in ranked[:places] if counts[entry] >= min_frequency)
    if not entries:
        raise ConfigError(
            f"`min_frequency` ({min_frequency}) leaves no word: the most frequent occurs {counts[ranked[0]]} times"
        )
    return Vocabulary(kind, entries, lowercase, has_bytes, normalization)


def _train_subwords(
    kind: str, lines: Iterator[str], vocab_size: int, byte_fallback: bool, normalization: str
) -> Subwords:
    model, failures = io.BytesIO(), list[BaseException]()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=_sentences(lines, byte_fallback and normalization == "none", failures),
            model_writer=model,
            model_type=kind,
            # It makes room for all of them at once; far beyond this its 32 bits overflow and it never ends.
            vocab_size=min(vocab_size, 10**7),
            hard_vocab_limit=False,
            pad_id=PAD_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            unk_id=UNK_ID,
            unk_surface=SPECIAL_TOKENS[UNK_ID],
            # The lines are normalised already; the rules that do it come into the file afterwards.
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            byte_fallback=byte_fallback,
            # The rarest characters, a ten-thousandth of the text together, are better written as bytes.
            character_coverage=0.9999 if byte_fallback else 1.0,
            max_sentence_length=4 * _PART_LENGTH + 1,
            # More threads would add up the same numbers in another order: another file on another machine.
            num_threads=1,
            minloglevel=2,
        )
    except (RuntimeError, SystemError) as error:
        if failures:
            raise failures[0] from None
        if least := re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error)):
            raise _too_small(vocab_size, int(least[1]), byte_fallback) from error
        raise DataError(
            f"SentencePiece cannot learn `{kind}` from this text: {error}", "try the tokenizer `characters` or `bytes`"
        ) from error
    return Subwords(with_normalizer(model.getvalue(), normalization), kind)


def _sentences(lines: Iterator[str], escaped: bool, failures: list[BaseException]) -> Iterator[str]:
    """The lines as SentencePiece takes them.

    It drops a line with its own mark for the unknown, U+2585, so that becomes a space. It cannot count over very long
    words, and in a long text without any space finds the space too rare for a piece, so long lines come in parts. It
    hides an exception of the reader behind one of its own, so that is kept in `failures`.
    """
    try:
        for line in lines:
            sentence = line.replace("\u2585", " ")
            sentence = escape(sentence) if escaped else sentence
            yield from (sentence[i : i + _PART_LENGTH] for i in range(0, len(sentence), _PART_LENGTH))
    except (Exception, KeyboardInterrupt) as failure:
        failures.append(failure)
        raise


def _too_small(vocab_size: int, least: int, byte_fallback: bool) -> ConfigError:
    taken_by = "the bytes and the characters of the text" if byte_fallback else "the characters of the text"
    otherwise = "" if byte_fallback else ", or let `byte_fallback` write rare characters as bytes"
    return ConfigError(
        f"`vocab_size` ({vocab_size}) is too small: {taken_by} take {least} ids",
        f"use at least {least}, better a few thousand{otherwise}",
    )
