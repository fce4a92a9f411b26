"""The special ids of somebody else's tokenizer: what the files of its folder say, else the usual names."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.errors import CheckpointError
from pellucid.files.reading import ID, NOTHING, SWITCH, TABLE, TEXT, Kind, check_kinds, list_of, read_settings

SETTINGS = "tokenizer_config.json"
_TABLES = (SETTINGS, "special_tokens_map.json")  # what the first says holds

_CLEANED = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")

# For each part that a special token may play: its names in the settings, in config.json, and as it is usually written.
_PARTS: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "pad": (("pad_token",), ("pad_token_id",), ("[PAD]", "<pad>")),
    "bos": (
        ("cls_token", "bos_token"),
        ("decoder_start_token_id", "bos_token_id"),
        ("[CLS]", "<s>", "<|endoftext|>", "<pad>"),
    ),
    "eos": (("eos_token", "sep_token"), ("eos_token_id",), ("[SEP]", "</s>", "<|endoftext|>")),
    "unk": (("unk_token",), (), ("[UNK]", "<unk>")),
}

_TOKEN = TEXT | TABLE | NOTHING
KINDS: dict[str, dict[str, Kind]] = {
    SETTINGS: {
        "add_bos_token": SWITCH | NOTHING, "add_prefix_space": SWITCH | NOTHING,
        "clean_up_tokenization_spaces": SWITCH | NOTHING, "do_lower_case": SWITCH,
        "tokenize_chinese_chars": SWITCH, "strip_accents": SWITCH | NOTHING, "language_codes": TEXT,
        "additional_special_tokens": list_of(_TOKEN) | NOTHING,
        "extra_special_tokens": list_of(_TOKEN) | TABLE | NOTHING, "added_tokens_decoder": TABLE | NOTHING,
        "extra_ids": ID, "src_lang": TEXT | NOTHING, "tgt_lang": TEXT | NOTHING,
    },
}  # fmt: skip
"""The kinds of the settings that are read, by file."""


@dataclass(frozen=True)
class SpecialIds:
    """The ids that stand for no text."""

    pad_id: int
    bos_id: int
    eos_id: int
    unk_id: int


def find_special_ids(folder: Path, ids: Mapping[str, int]) -> SpecialIds:
    """Returns the special ids of the tokenizer in a Hugging Face folder, whose vocabulary is `ids`.

    A token begins a text if it is the one for classes, else the begin token, else what a decoder starts with. A model
    without padding (GPT-2) gets its end token for it: nothing is padded with it, since its ModelConfig says so.

    Raises CheckpointError where there is no end token, or a file is damaged.
    """
    settings = [read_json(folder / name) for name in _TABLES]
    config = read_json(folder / "config.json")
    found = {part: _find(part, settings, config, ids) for part in _PARTS}
    eos_id = found["eos"]
    if eos_id is None:
        raise CheckpointError(
            f"the tokenizer in `{folder}` has no end token: neither tokenizer_config.json nor config.json names one",
            "copy the whole folder, or add `eos_token` to tokenizer_config.json",
        )
    pad_id = eos_id if found["pad"] is None else found["pad"]
    return SpecialIds(
        pad_id=pad_id,
        bos_id=pad_id if found["bos"] is None else found["bos"],
        eos_id=eos_id,
        unk_id=pad_id if found["unk"] is None else found["unk"],
    )


def cleans_up(folder: Path) -> bool:
    """Tells whether the tokenizer of a Hugging Face folder removes spaces before marks after decoding."""
    return read_json(folder / SETTINGS).get("clean_up_tokenization_spaces") is True


def clean_up_spaces(text: str) -> str:
    """Returns `text` without the spaces before marks and English endings that transformers' `clean_up_tokenization`
    removes.
    """
    for spaced in _CLEANED:
        text = text.replace(spaced, spaced.strip())
    return text


def _find(part: str, settings: list[dict[str, Any]], config: dict[str, Any], ids: Mapping[str, int]) -> int | None:
    keys, config_keys, usual = _PARTS[part]
    named = (content(table.get(key)) for key in keys for table in settings)
    for token in named:
        if token in ids:
            return ids[token]
    number = next(_numbers(config.get(key) for key in config_keys), None)
    return next((ids[token] for token in usual if token in ids), None) if number is None else number


def _numbers(values: Iterator[Any]) -> Iterator[int]:
    """Yields the ids among the values; of a list of them the first."""
    for value in values:
        first = value[0] if isinstance(value, list) and value else value
        if ID.fits(first):
            yield first


def content(token: Any) -> str:
    """Returns the text of a token as the settings have it: a string, or a table with its `content`; empty: none."""
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else ""


def read_json(path: Path) -> dict[str, Any]:
    """Returns the table in a file, its settings of the kinds in KINDS; empty where there is no file.

    Raises CheckpointError for a damaged file, and names a setting of another kind.
    """
    if not path.is_file():
        return {}
    table = read_settings(path)
    check_kinds(table, KINDS.get(path.name, {}), path)
    return table
