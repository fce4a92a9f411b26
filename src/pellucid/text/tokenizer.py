"""The tokenizer interface, text to ids and ids to text, and the adapter for custom tokenizers."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, SupportsIndex, TypeVar

from pellucid.errors import CheckpointError, ConfigError, DataError, format_value

Line = TypeVar("Line", str, tuple[str, str])

PAD_ID = 0
BOS_ID = 1
EOS_ID = 2
UNK_ID = 3
SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")
"""The special tokens as they are displayed, in the order of their ids in every tokenizer that is trained here."""
OWN_KIND = "own"
TRIED = "A b,\tc.  1999 ΑΣ é e\u0301 안녕 漢字 かな עברית 😀 \U000f0000 \x00 '' ``"
"""The text with which every external tokenizer is tried before its model is used."""
SMALL = 0.1
"""The share of a text's tokens that may be unknown without a warning."""
LOOKED_AT = 1000
"""The number of first lines that are checked for unknown tokens."""


class Tokenizer(Protocol):
    """Turns text into ids and ids into text: the interface of a custom tokenizer.

        class Letters:
            size, pad_id, bos_id, eos_id, unk_id = 30, 0, 1, 2, 3
            def encode(self, text: str) -> list[int]: ...
            def decode(self, ids: Sequence[int]) -> str: ...

        pellucid.TokenizerPair(Letters())

    Any text can be encoded: text outside the vocabulary becomes `unk_id`, and no text becomes pad, begin or end. The
    optional methods `encode_lines(lines)` and `tokens(ids)`, described in `TokenizerBase`, are used if they exist.
    """

    @property
    def size(self) -> int:
        """Returns the number of ids in the vocabulary, special ids included; every id is below it."""

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
        """Returns the text of any ids below `size`; pad, begin and end are dropped."""


class TokenizerBase(Tokenizer, Protocol):
    """The full interface of Pellucid's tokenizers. Each class documents the text that it does not reproduce exactly.

    An unpaired surrogate is not a Unicode character: it is read as `?` or as unknown.
    """

    @property
    def kind(self) -> str:
        """Returns one of bpe, unigram, words, characters, bytes, spaces; sentencepiece for an imported model; own for a
        custom tokenizer.
        """

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns encode() of each line; faster for many lines."""

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Returns the visible piece of each id; special ids as `<pad>`, `<s>`, `</s>` and `<unk>`."""

    def save(self, path: Path) -> Path:
        """Writes one file named as `path` but with the suffix of its format, and returns its path."""


class TokenizerAdapter:
    """Adapts a custom tokenizer to `TokenizerBase`, and checks the ids that it returns."""

    kind = OWN_KIND
    size: int
    pad_id: int
    bos_id: int
    eos_id: int
    unk_id: int

    def __init__(self, own: Tokenizer) -> None:
        """Raises ConfigError if the object lacks a method or attribute, has invalid ids, or fails on a text."""
        self.own = own
        if isinstance(own, type):
            raise ConfigError(
                f"the tokenizer is the class `{own.__qualname__}`, not an object of it",
                f"pass {own.__name__}(...)",
            )
        self.name: str = f"{type(own).__module__}.{type(own).__qualname__}"
        needed = ("encode", "decode", *_NUMBERS)
        if lacking := [name for name in needed if not hasattr(own, name)]:
            raise ConfigError(
                f"the tokenizer `{self.name}` has no `{lacking[0]}`", f"a tokenizer must have {', '.join(needed)}"
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
                f"the tokenizer `{self.name}` fails on `{format_value(TRIED)}`: {type(error).__name__}: "
                f"{format_value(str(error))}",
                "encode characters outside of the vocabulary as `unk_id`",
            ) from error
        if tried != again:
            raise ConfigError(
                f"the tokenizer `{self.name}` encodes `{format_value(TRIED)}` differently the second time",
                "switch off its random sampling: a model requires the tokenizer that it was trained with",
            )
        if not isinstance(text, str):
            raise ConfigError(
                f"the tokenizer `{self.name}` decodes to {type(text).__name__}, not to str", "return a str"
            )

    def encode(self, text: str) -> list[int]:
        return self._check_ids(self.own.encode(text), text)

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        own = getattr(self.own, "encode_lines", None)
        found = [self.own.encode(line) for line in lines] if own is None else own(lines)
        return [self._check_ids(ids, line) for ids, line in zip(found, lines, strict=True)]

    def decode(self, ids: Sequence[int]) -> str:
        return self.own.decode([int(i) for i in ids if int(i) not in (self.pad_id, self.bos_id, self.eos_id)])

    def tokens(self, ids: Sequence[int]) -> list[str]:
        own = getattr(self.own, "tokens", None)
        if own is not None:
            return list(own(ids))
        return [self._special.get(int(i)) or self.own.decode([int(i)]).replace(" ", "▁") or f"<{i}>" for i in ids]

    def save(self, path: Path) -> Path:
        """Raises ConfigError: a folder only records a custom tokenizer, which must be passed again to load it."""
        raise ConfigError(
            f"the tokenizer `{self.name}` is custom, so it is not saved", "pass it when you load the model"
        )

    def record(self) -> dict[str, Any]:
        """Returns the folder's record of the tokenizer: its class, its special ids, and the ids of a fixed text."""
        return {"class": self.name, **{name: getattr(self, name) for name in _NUMBERS}, "tried": self.encode(TRIED)}

    def check(self, record: Mapping[str, Any]) -> None:
        """Raises CheckpointError if the tokenizer differs from the `record` of the saved one; the class may differ."""
        for name, value in self.record().items():
            if name != "class" and record.get(name) != value:
                raise CheckpointError(
                    f"the tokenizer `{self.name}` is not that of the saved model, "
                    f"`{format_value(str(record.get('class')))}`: "
                    + (
                        f"it encodes `{format_value(TRIED)}` differently"
                        if name == "tried"
                        else f"its `{name}` is {value}, not {format_value(record.get(name))}"
                    ),
                    "pass the tokenizer that the model was trained with",
                )

    def _check_ids(self, ids: Sequence[int], text: str) -> list[int]:
        found = [int(i) for i in ids]
        if found and not 0 <= min(found) <= max(found) < self.size:
            odd = min(found) if min(found) < 0 else max(found)
            raise DataError(
                f"the tokenizer `{self.name}` encodes `{format_value(text)}` with the id {odd}; ids are from 0 to "
                f"{self.size - 1}",
                "return a `size` above all ids",
            )
        return found


_NUMBERS = ("size", "pad_id", "bos_id", "eos_id", "unk_id")


def adapt_tokenizer(tokenizer: Tokenizer) -> TokenizerBase:
    """Returns the tokenizer itself if it has the methods of `TokenizerBase`, else a `TokenizerAdapter` around it."""
    needed = ("kind", "encode_lines", "tokens", "save")
    if all(hasattr(tokenizer, name) for name in needed):
        return tokenizer  # type: ignore[return-value]  # it has all methods of TokenizerBase
    return TokenizerAdapter(tokenizer)


class UnknownTokenMonitor:
    """Warns once if more than a small share of the tokens is unknown to a tokenizer."""

    def __init__(self, tokenizer: TokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._lines_left = LOOKED_AT
        self._tokens = self._unknown = 0

    def monitor(self, chunks: Iterable[tuple[int, list[Line]]]) -> Iterator[tuple[int, list[Line]]]:
        """Yields the chunks of a stream (index and lines, or pairs whose first item is a line), each checked before."""
        for place, lines in chunks:
            self.look_at([line if isinstance(line, str) else line[0] for line in lines])
            yield place, lines

    def look_at(self, lines: Sequence[str]) -> None:
        """Counts the unknown tokens of more lines, and warns if their share exceeds `SMALL`."""
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
                "is unknown to the model's vocabulary and read as <unk>: check that language, case and spelling are "
                "those of the training text",
                stacklevel=2,
            )
