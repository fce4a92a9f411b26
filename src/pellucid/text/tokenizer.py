"""A tokenizer turns text into ids and ids into text; one of your own is given what it lacks here."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, SupportsIndex, TypeVar

from pellucid.errors import CheckpointError, ConfigError, DataError, shown

Line = TypeVar("Line", str, tuple[str, str])

PAD_ID = 0
BOS_ID = 1
EOS_ID = 2
UNK_ID = 3
SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")
"""The special tokens as they are shown, by id in every tokenizer that is trained here."""
OWN_KIND = "own"
TRIED = "A b,\tc.  1999 ΑΣ é e\u0301 안녕 漢字 かな עברית 😀 \U000f0000 \x00 '' ``"
"""The text that every tokenizer from elsewhere is tried with before its model is used."""
SMALL = 0.1
"""The part of a text's tokens that may be unknown without a word."""
LOOKED_AT = 1000
"""Lines that are looked at for unknown tokens, from the first on."""


class Tokenizer(Protocol):
    """Turns text into ids and ids into text: what a tokenizer of your own has to have.

        class Letters:
            size, pad_id, bos_id, eos_id, unk_id = 30, 0, 1, 2, 3
            def encode(self, text: str) -> list[int]: ...
            def decode(self, ids: Sequence[int]) -> str: ...

        pellucid.Tokenizers(Letters())

    Any text can be encoded: what the vocabulary does not have becomes `unk_id`, and no text becomes pad, begin or end.
    `encode_lines(lines)` and `tokens(ids)` are used where it has them, as `CompleteTokenizer` describes them.
    """

    @property
    def size(self) -> int:
        """Returns how many ids are in the vocabulary, special ids included; an id is below it."""

    @property
    def pad_id(self) -> int: ...

    @property
    def bos_id(self) -> int: ...

    @property
    def eos_id(self) -> int: ...

    @property
    def unk_id(self) -> int: ...

    def encode(self, text: str) -> list[int]:
        """Returns the ids of `text`, without begin and end; no text encodes to pad, begin or end."""

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of any ids below `size`; pad, begin and end are left out."""


class CompleteTokenizer(Tokenizer, Protocol):
    """Has all that Pellucid's own tokenizers have. What one of them does not write exactly, its class says.

    Half of a surrogate pair is not a Unicode character: it is read as `?` or as unknown.
    """

    @property
    def kind(self) -> str:
        """Returns one of bpe, unigram, words, characters, bytes, spaces; sentencepiece for a model that came from
        elsewhere; own.
        """

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns encode() of each line; the fast way for many."""

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Returns the visible piece of each id; special ids as `<pad>`, `<s>`, `</s>` and `<unk>`."""

    def save(self, path: Path) -> Path:
        """Writes one file named as `path` but with the suffix of its format, and returns its path."""


class OwnTokenizer:
    """Completes a tokenizer of one's own, and checks the ids that come from it."""

    kind = OWN_KIND
    size: int
    pad_id: int
    bos_id: int
    eos_id: int
    unk_id: int

    def __init__(self, own: Tokenizer) -> None:
        """Raises ConfigError for an object that lacks something, has impossible ids, or fails on a text."""
        self.own = own
        if isinstance(own, type):
            raise ConfigError(
                f"the tokenizer is the class `{own.__qualname__}`, not an object of it",
                f"hand over {own.__name__}(...)",
            )
        self.name: str = f"{type(own).__module__}.{type(own).__qualname__}"
        needed = ("encode", "decode", *_NUMBERS)
        if lacking := [name for name in needed if not hasattr(own, name)]:
            raise ConfigError(
                f"the tokenizer `{self.name}` has no `{lacking[0]}`", f"a tokenizer has {', '.join(needed)}"
            )
        for name in _NUMBERS:
            if not isinstance(value := getattr(own, name), SupportsIndex):
                raise ConfigError(
                    f"the tokenizer `{self.name}` has a {type(value).__name__} for its `{name}`", "it must be a number"
                )
        self.size, self.pad_id, self.bos_id, self.eos_id, self.unk_id = (int(getattr(own, name)) for name in _NUMBERS)
        for name in _NUMBERS[1:]:
            if not 0 <= getattr(self, name) < self.size:
                raise ConfigError(
                    f"the tokenizer `{self.name}` has `{name}` = {getattr(self, name)}; it must be from 0 to "
                    f"{self.size - 1}, below its `size`"
                )
        self._special = dict(zip((self.pad_id, self.bos_id, self.eos_id, self.unk_id), SPECIAL_TOKENS, strict=True))
        try:
            tried, again = self.encode(TRIED), self.encode(TRIED)
            text = self.decode(tried)
        except DataError:
            raise
        except Exception as error:
            raise ConfigError(
                f"the tokenizer `{self.name}` fails on `{shown(TRIED)}`: {type(error).__name__}: {shown(str(error))}",
                "encode what the vocabulary does not have as `unk_id`",
            ) from error
        if tried != again:
            raise ConfigError(
                f"the tokenizer `{self.name}` reads `{shown(TRIED)}` as other ids the second time",
                "switch off what it draws at random: a model is opened with the tokenizer that it was trained with",
            )
        if not isinstance(text, str):
            raise ConfigError(
                f"the tokenizer `{self.name}` decodes to {type(text).__name__}, not to a text", "return a str"
            )

    def encode(self, text: str) -> list[int]:
        return self._checked(self.own.encode(text), text)

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        own = getattr(self.own, "encode_lines", None)
        found = [self.own.encode(line) for line in lines] if own is None else own(lines)
        return [self._checked(ids, line) for ids, line in zip(found, lines, strict=True)]

    def decode(self, ids: Sequence[int]) -> str:
        return self.own.decode([int(i) for i in ids if int(i) not in (self.pad_id, self.bos_id, self.eos_id)])

    def tokens(self, ids: Sequence[int]) -> list[str]:
        own = getattr(self.own, "tokens", None)
        if own is not None:
            return list(own(ids))
        return [self._special.get(int(i)) or self.own.decode([int(i)]).replace(" ", "▁") or f"<{i}>" for i in ids]

    def save(self, path: Path) -> Path:
        """Raises ConfigError: a folder records such a tokenizer, and it is handed over again when that is opened."""
        raise ConfigError(
            f"the tokenizer `{self.name}` is of your own, and is not written to a file", "hand it over when you load"
        )

    def record(self) -> dict[str, Any]:
        """Returns what a folder says of the tokenizer: its name, its ids, and how it reads a text."""
        return {"class": self.name, **{name: getattr(self, name) for name in _NUMBERS}, "tried": self.encode(TRIED)}

    def check(self, record: Mapping[str, Any]) -> None:
        """Raises CheckpointError where the tokenizer is not, as far as can be told, the one that record() was of."""
        for name, value in self.record().items():
            if name != "class" and record.get(name) != value:
                raise CheckpointError(
                    f"the tokenizer `{self.name}` is not that of the saved model, `{shown(str(record.get('class')))}`: "
                    + (
                        f"it reads `{shown(TRIED)}` as other ids"
                        if name == "tried"
                        else f"its `{name}` is {value}, not {shown(record.get(name))}"
                    ),
                    "hand over the tokenizer that the model was trained with",
                )

    def _checked(self, ids: Sequence[int], text: str) -> list[int]:
        found = [int(i) for i in ids]
        if found and not 0 <= min(found) <= max(found) < self.size:
            odd = min(found) if min(found) < 0 else max(found)
            raise DataError(
                f"the tokenizer `{self.name}` reads `{shown(text)}` as the id {odd}; ids are from 0 to {self.size - 1}",
                "give its `size` as many ids as it writes",
            )
        return found


_NUMBERS = ("size", "pad_id", "bos_id", "eos_id", "unk_id")


def completed(tokenizer: Tokenizer) -> CompleteTokenizer:
    """Returns the tokenizer itself where it has all that Pellucid's have, else an OwnTokenizer of it."""
    needed = ("kind", "encode_lines", "tokens", "save")
    if all(hasattr(tokenizer, name) for name in needed):
        return tokenizer  # type: ignore[return-value]  # it has what was asked for
    return OwnTokenizer(tokenizer)


class UnknownShare:
    """Warns once where more than a small part of the lines is unknown to a tokenizer."""

    def __init__(self, tokenizer: CompleteTokenizer) -> None:
        self._tokenizer = tokenizer
        self._lines_left = LOOKED_AT
        self._tokens = self._unknown = 0

    def passing(self, stretches: Iterable[tuple[int, list[Line]]]) -> Iterator[tuple[int, list[Line]]]:
        """Yields the stretches of a stream, having looked at each: its place and its lines, or pairs that begin so."""
        for place, lines in stretches:
            self.look_at([line if isinstance(line, str) else line[0] for line in lines])
            yield place, lines

    def look_at(self, lines: Sequence[str]) -> None:
        """Takes some more lines into account, and warns if they make it more than a small part."""
        if not self._lines_left:
            return
        lines = lines[: self._lines_left]
        self._lines_left -= len(lines)
        for ids in self._tokenizer.encode_lines(lines):
            self._tokens += len(ids)
            self._unknown += ids.count(self._tokenizer.unk_id)
        if self._unknown > SMALL * self._tokens:
            self._lines_left = 0
            warnings.warn(
                f"{self._unknown / self._tokens:.0%} of the text ({self._unknown:,} of {self._tokens:,} tokens so far) "
                "is unknown to the model's vocabulary and read as <unk>: is it the language, the case and the spelling "
                "that the model was trained on?",
                stacklevel=2,
            )
