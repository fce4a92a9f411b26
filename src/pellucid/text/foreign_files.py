"""The files of a Hugging Face model folder except its weights; each file is read once."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pellucid.errors import CheckpointError, format_value
from pellucid.files.budget import MOST_TOKENIZER_BYTES, read_bytes
from pellucid.files.reading import ID, NOTHING, SWITCH, TABLE, TEXT, Kind, check_kinds, make_list_kind, read_settings

CONFIG, SETTINGS, SPECIAL_TOKENS = "config.json", "tokenizer_config.json", "special_tokens_map.json"

_TOKEN = TEXT | TABLE | NOTHING
KINDS: dict[str, Kind] = {
    "add_bos_token": SWITCH | NOTHING, "add_prefix_space": SWITCH | NOTHING,
    "clean_up_tokenization_spaces": SWITCH | NOTHING, "do_lower_case": SWITCH,
    "tokenize_chinese_chars": SWITCH, "strip_accents": SWITCH | NOTHING, "language_codes": TEXT,
    "additional_special_tokens": make_list_kind(_TOKEN) | NOTHING,
    "extra_special_tokens": make_list_kind(_TOKEN) | TABLE | NOTHING, "added_tokens_decoder": TABLE | NOTHING,
    "extra_ids": ID, "src_lang": TEXT | NOTHING, "tgt_lang": TEXT | NOTHING,
    "source_lang": TEXT | NOTHING, "target_lang": TEXT | NOTHING,
    "legacy_behaviour": SWITCH | NOTHING, "add_eos_token": SWITCH | NOTHING,
}  # fmt: skip
"""The value types of the settings in tokenizer_config.json that are read."""


@dataclass(frozen=True)
class ForeignFiles:
    """The files of a Hugging Face model folder. A file is read when it is first needed, and then cached.

    Raises CheckpointError for a file that is damaged, is not a regular file in the folder, or is larger than
    `files.budget` allows, and for a setting whose type differs from `KINDS`.
    """

    folder: Path
    _read: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all files; empty if the folder does not exist."""
        return frozenset(path.name for path in self.folder.iterdir()) if self.folder.is_dir() else frozenset()

    @cached_property
    def config(self) -> dict[str, Any]:
        """The table in config.json; empty if the file is missing."""
        return self.table(CONFIG)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The settings of the tokenizer, in tokenizer_config.json; empty if the file is missing."""
        found = self.table(SETTINGS)
        check_kinds(found, KINDS, self.folder / SETTINGS)
        return found

    @cached_property
    def special_tokens(self) -> dict[str, Any]:
        """The table in special_tokens_map.json; empty if the file is missing. `settings` take precedence."""
        return self.table(SPECIAL_TOKENS)

    @cached_property
    def added_tokens_decoder(self) -> dict[int, Any]:
        """The tokens of `added_tokens_decoder` in the settings, by their ids."""
        listed = self.settings.get("added_tokens_decoder") or {}
        if odd := [i for i in listed if not (i.isdecimal() and ID.fits(int(i[:9])))]:
            raise CheckpointError(
                f"`{self.folder / SETTINGS}` has `added_tokens_decoder` with `{format_value(odd[0])}`; it must be "
                f"{ID.words}",
                "copy the folder again",
            )
        return {int(i): token for i, token in listed.items()}

    @property
    def tokenizer_class(self) -> str:
        """The name of the tokenizer's class in transformers, without `Fast`; "" if none is named."""
        named = (table.get("tokenizer_class") for table in (self.settings, self.config))
        return next((name.removesuffix("Fast") for name in named if isinstance(name, str)), "")

    @property
    def cleans_up(self) -> bool:
        """True if the tokenizer removes spaces before marks after decoding."""
        return self.settings.get("clean_up_tokenization_spaces") is True

    def has(self, name: str) -> bool:
        """Returns True if there is a file of this name."""
        return (self.folder / name).is_file()

    def table(self, name: str) -> dict[str, Any]:
        """Returns the table in a JSON file of settings, without the cache; empty if the file is missing."""
        return read_settings(self.folder / name) if self.has(name) else {}

    def read(self, name: str) -> bytes:
        """Returns the content of a file of the tokenizer, which must exist."""
        if name not in self._read:
            self._read[name] = read_bytes(self.folder / name, MOST_TOKENIZER_BYTES)
        return self._read[name]


def get_token_content(token: Any) -> str:
    """Returns the text of a token in the settings, which is a string or a table with `content`; "" if there is none."""
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else ""
