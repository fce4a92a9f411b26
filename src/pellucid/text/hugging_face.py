"""Tokenizers in a `tokenizer.json`, run by the library `tokenizers` (extra `hf`)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from pellucid.errors import CheckpointError, ConfigError, format_install_command, format_value
from pellucid.files.reading import MOST_ID, parse_json
from pellucid.text.special_ids import SpecialIds, clean_up_spaces
from pellucid.text.tokenizer import TRIED
from pellucid.text.tokenizer_json_checks import find_unsafe_content

HUGGING_FACE_KIND = "tokenizer.json"
_ANOTHER = "copy the file again, or upgrade tokenizers; if that does not help, its author must repair it"


class HuggingFaceTokenizer:
    """A tokenizer from a `tokenizer.json`.

    Encodes as the library does, without truncation and padding. A special token that is spelled in a text is split like
    any other text, as with `split_special_tokens` in transformers. Decoding drops all special tokens, `unk` and
    language codes included. `tokens` shows special tokens by their names, and byte-level pieces as the characters that
    they represent.
    """

    kind = HUGGING_FACE_KIND

    def __init__(
        self,
        data: bytes,
        find_special: Callable[[Mapping[str, int]], SpecialIds],
        clean_up: bool = False,
        name: str = HUGGING_FACE_KIND,
    ) -> None:
        """Reads the bytes of a file and encodes a test text.

        Args:
            data: the bytes of the file.
            find_special: called with the ids of all tokens; returns the special ids.
            clean_up: if True, spaces before marks are removed after decoding.
            name: the name of the file in errors.

        Raises ConfigError if the library is not installed, CheckpointError for other bytes, for a file with content
        that is not allowed (`tokenizer_json_checks`), and for a tokenizer that fails on the test text.
        """
        self.data = data
        self.clean_up = clean_up
        self._name = name
        self._tokenizer = _parse(data, name)
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
        self.around()

    def encode(self, text: str) -> list[int]:
        with self._convert_errors(text):
            ids = self._tokenizer.encode(_sound(text), add_special_tokens=False).ids
        return self._remap_special(ids)

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns encode() of each line, on all cores. Raises CheckpointError with the line on which it fails."""
        try:
            with self._convert_errors(""):
                found = self._tokenizer.encode_batch_fast([_sound(line) for line in lines], add_special_tokens=False)
        except CheckpointError:
            return [self.encode(line) for line in lines]
        return [self._remap_special(encoding.ids) for encoding in found]

    def decode(self, ids: Sequence[int]) -> str:
        known = [int(i) for i in ids if int(i) not in self._silent]
        with self._convert_errors(known):
            text: str = self._tokenizer.decode(known, skip_special_tokens=True)
        return clean_up_spaces(text) if self.clean_up else text

    @contextmanager
    def _convert_errors(self, given: object) -> Iterator[None]:
        """Converts the library's exceptions to CheckpointError, so that only the line that failed is lost."""
        with convert_library_errors(f"the tokenizer `{self._name}` fails on `{format_value(given)}`"):
            yield

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._visible(self._tokenizer.id_to_token(int(i)), int(i)) for i in ids]

    def names(self) -> list[str]:
        """Returns each id's token as in the file, with characters for bytes; an id without a token gives `<id>`."""
        return [self._tokenizer.id_to_token(i) or f"<{i}>" for i in range(self.size)]

    def around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Returns the ids before and after every text that the file's tokenizer encodes with special tokens."""
        with self._convert_errors("a"):
            found = self._tokenizer.encode("a", add_special_tokens=True)
        words = [place for place, added in enumerate(found.special_tokens_mask) if not added]
        return (tuple(found.ids[: words[0]]), tuple(found.ids[words[-1] + 1 :])) if words else ((), ())

    def save(self, path: Path) -> Path:
        """Writes the original bytes of the file."""
        file = path.with_suffix(".json")
        file.write_bytes(self.data)
        return file

    def options(self) -> dict[str, Any]:
        """Returns the settings that the file does not contain, for from_options()."""
        return asdict(self.special) | {"clean_up": self.clean_up}

    @classmethod
    def from_options(cls, data: bytes, options: Any, name: str) -> "HuggingFaceTokenizer":
        """Returns the tokenizer of a file and the table from options(). Raises CheckpointError for other options."""
        known = {field.name for field in fields(SpecialIds)}
        ids = {key: value for key, value in options.items() if key in known} if isinstance(options, dict) else {}
        if set(ids) != known or not all(type(i) is int and 0 <= i < MOST_ID for i in ids.values()):
            raise CheckpointError(
                f"the options of the tokenizer `{name}` do not name its ids {', '.join(sorted(known))}",
                "copy the model's folder again",
            )
        return cls(data, lambda _: SpecialIds(**ids), options.get("clean_up") is True, name)

    def _remap_special(self, ids: list[int]) -> list[int]:
        """Returns the ids with special tokens that the model's vocabulary also lists as pieces spelled out."""
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
    """Returns the library `tokenizers`. Raises ConfigError with the name of the extra if it is not installed."""
    try:
        return import_module("tokenizers")
    except ImportError as error:
        raise ConfigError(
            "this tokenizer requires the library `tokenizers`, which is not installed",
            f"install the extra `hf`: {format_install_command('hf')}",
        ) from error


def _parse(data: bytes, name: str) -> Any:
    library = import_tokenizers()
    failure = (
        f"`{name}` ({len(data):,} bytes) is not a tokenizer that Pellucid can run with `tokenizers` "
        f"{library.__version__}"
    )
    if problem := find_unsafe_content(data):
        raise CheckpointError(f"{failure}: {problem}", _ANOTHER)
    with convert_library_errors(failure):
        tokenizer = library.Tokenizer.from_str(data.decode("utf-8"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


@contextmanager
def convert_library_errors(failure: str) -> Iterator[None]:
    """Converts the library's exceptions to a CheckpointError that begins with `failure`.

    The library raises Exception itself, and for a panic in Rust a PanicException, which `except Exception` does not
    catch.
    """
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise CheckpointError(f"{failure}: {format_value(str(error))}", _ANOTHER) from error


def _has_decoder(data: bytes, kind: str) -> bool:
    decoder = parse_json(data).get("decoder") or {}
    return any(part.get("type") == kind for part in [decoder, *decoder.get("decoders", [])])


def byte_characters() -> dict[str, int]:
    """Returns the byte that each character of byte-level pieces represents.

    Source: GPT-2's encoder. A printable character of Latin-1 represents itself; the other bytes, in order, are written
    as the characters from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + n): byte for n, byte in enumerate(others)}


def _sound(text: str) -> str:
    """Returns `text` with unpaired surrogates replaced by `?`, since the library accepts only valid Unicode."""
    return text.encode("utf-8", "replace").decode("utf-8")
