"""Tokenizers in a `tokenizer.json`, run by the library `tokenizers` (extra `hf`)."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from pellucid.errors import CheckpointError, ConfigError, install, shown
from pellucid.files.reading import MOST_ID
from pellucid.text.special_ids import SpecialIds, clean_up_spaces
from pellucid.text.tokenizer import TRIED
from pellucid.text.tokenizer_json_checks import problem_of

HUGGING_FACE_KIND = "tokenizer.json"
_ANOTHER = "copy the file again, or upgrade tokenizers; where that does not help, its author has to mend it"


class HuggingFaceTokenizer:
    """Somebody else's `tokenizer.json` as a tokenizer.

    Cuts as the library does, without its truncation and padding. A special token that stands in a text is text: it is
    cut like any other, as with `split_special_tokens` in transformers. Decoding leaves out all special tokens, `unk`
    and language codes included. `tokens` shows special tokens by their own names, and byte-level pieces as the
    characters they stand for.
    """

    kind = HUGGING_FACE_KIND

    def __init__(
        self,
        data: bytes,
        find_special: Callable[[Mapping[str, int]], SpecialIds],
        clean_up: bool = False,
        name: str = HUGGING_FACE_KIND,
    ) -> None:
        """Reads the bytes of a file and tries it.

        Args:
            data: the bytes of the file.
            find_special: tells the special ids, given the ids of all tokens.
            clean_up: remove spaces before marks after decoding.
            name: what an error calls the file.

        Raises ConfigError where the library is missing, CheckpointError for other bytes, and for a file that asks for
        what is not run (`tokenizer_json`) or fails on a text that all others cut.
        """
        self.data = data
        self.clean_up = clean_up
        self._name = name
        self._tokenizer = _parsed(data, name)
        self.ids: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=True)
        special = find_special(self.ids)
        self.special: SpecialIds = special
        self.pad_id: int = special.pad_id
        self.bos_id: int = special.bos_id
        self.eos_id: int = special.eos_id
        self.unk_id: int = special.unk_id
        self.size: int = max([*self.ids.values(), *asdict(special).values()]) + 1
        self.hidden: dict[str, int] = {
            token.content: i for i, token in self._tokenizer.get_added_tokens_decoder().items() if token.special
        }
        """The special tokens and their ids."""
        self._silent = {*asdict(special).values(), *self.hidden.values()}
        self._never = {special.pad_id, special.bos_id, special.eos_id}
        self._bytes = byte_characters() if _has_decoder(data, "ByteLevel") else None
        self.decode(self.encode(TRIED))
        self.starting_ids()

    def encode(self, text: str) -> list[int]:
        with self._working_on(text):
            ids = self._tokenizer.encode(_sound(text), add_special_tokens=False).ids
        return self._as_text(ids)

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns encode() of each line, on all cores. Raises CheckpointError that names the line which it fails on."""
        try:
            with self._working_on(""):
                found = self._tokenizer.encode_batch_fast([_sound(line) for line in lines], add_special_tokens=False)
        except CheckpointError:
            return [self.encode(line) for line in lines]
        return [self._as_text(encoding.ids) for encoding in found]

    def decode(self, ids: Sequence[int]) -> str:
        known = [int(i) for i in ids if int(i) not in self._silent]
        with self._working_on(known):
            text: str = self._tokenizer.decode(known, skip_special_tokens=True)
        return clean_up_spaces(text) if self.clean_up else text

    @contextmanager
    def _working_on(self, given: object) -> Iterator[None]:
        """Turns what the library raises into a CheckpointError, so that a line which it fails on costs that line."""
        with calling_the_library(f"the tokenizer `{self._name}` fails on `{shown(given)}`"):
            yield

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._visible(self._tokenizer.id_to_token(int(i)), int(i)) for i in ids]

    def starting_ids(self) -> tuple[int, ...]:
        """Returns what the file has the library put before every text that is encoded with its special tokens."""
        with self._working_on("a"):
            found = self._tokenizer.encode("a", add_special_tokens=True)
        words = [place for place, added in enumerate(found.special_tokens_mask) if not added]
        return tuple(found.ids[: words[0]]) if words else ()

    def save(self, path: Path) -> Path:
        """Writes the file as it came."""
        file = path.with_suffix(".json")
        file.write_bytes(self.data)
        return file

    def options(self) -> dict[str, Any]:
        """Returns what the file does not say, as from_options() takes it."""
        return asdict(self.special) | {"clean_up": self.clean_up}

    @classmethod
    def from_options(cls, data: bytes, options: Any, name: str) -> "HuggingFaceTokenizer":
        """Returns the tokenizer of a file and of what options() said. Raises CheckpointError for anything else."""
        known = {field.name for field in fields(SpecialIds)}
        ids = {key: value for key, value in options.items() if key in known} if isinstance(options, dict) else {}
        if set(ids) != known or not all(type(i) is int and 0 <= i < MOST_ID for i in ids.values()):
            raise CheckpointError(
                f"the options of the tokenizer `{name}` do not name its ids {', '.join(sorted(known))}",
                "copy the model's folder again",
            )
        return cls(data, lambda _: SpecialIds(**ids), options.get("clean_up") is True, name)

    def _as_text(self, ids: list[int]) -> list[int]:
        """Returns the ids where special tokens that the model's vocabulary lists as pieces are spelled out."""
        if self._never.isdisjoint(ids):
            return ids
        found: list[int] = []
        for i in ids:
            if i in self._never:
                found += [self.ids.get(character, self.unk_id) for character in self._tokenizer.id_to_token(i)]
            else:
                found.append(i)
        return found

    def _visible(self, token: str | None, i: int) -> str:
        if token is None:
            return "<unk>"
        if self._bytes is None or i in self._silent or not set(token) <= set(self._bytes):
            return token
        data = bytes(self._bytes[character] for character in token)
        try:
            return data.decode("utf-8").replace(" ", "▁")
        except UnicodeDecodeError:
            return "".join(chr(byte) if 0x20 < byte < 0x7F else f"<0x{byte:02X}>" for byte in data)


def import_tokenizers() -> ModuleType:
    """Returns the library `tokenizers`. Raises ConfigError that names the extra where it is not installed."""
    try:
        return import_module("tokenizers")
    except ImportError as error:
        raise ConfigError(
            "this tokenizer needs the library `tokenizers`, which is not installed",
            f"install the extra `hf`: {install('hf')}",
        ) from error


def _parsed(data: bytes, name: str) -> Any:
    library = import_tokenizers()
    failure = (
        f"`{name}` ({len(data):,} bytes) is not a tokenizer that Pellucid runs by `tokenizers` {library.__version__}"
    )
    if problem := problem_of(data):
        raise CheckpointError(f"{failure}: {problem}", _ANOTHER)
    with calling_the_library(failure):
        tokenizer = library.Tokenizer.from_str(data.decode("utf-8"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


@contextmanager
def calling_the_library(failure: str) -> Iterator[None]:
    """Turns what the library raises within it into a CheckpointError that begins with `failure`.

    It raises Exception itself, and where its Rust gave up a PanicException, which no `except Exception` catches.
    """
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise CheckpointError(f"{failure}: {shown(str(error))}", _ANOTHER) from error


def _has_decoder(data: bytes, kind: str) -> bool:
    decoder = json.loads(data).get("decoder") or {}
    return any(part.get("type") == kind for part in [decoder, *decoder.get("decoders", [])])


def byte_characters() -> dict[str, int]:
    """Returns the bytes that the characters of byte-level pieces stand for.

    Source: GPT-2's encoder. A printable character of Latin-1 stands for itself; the other bytes, in their order, are
    written as the characters from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + n): byte for n, byte in enumerate(others)}


def _sound(text: str) -> str:
    """Returns `text` in which half of a surrogate pair is `?`: the library takes Unicode alone."""
    return text.encode("utf-8", "replace").decode("utf-8")
