"""The special ids of a Hugging Face tokenizer: from the files of its folder, else by the usual names."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pellucid.errors import CheckpointError
from pellucid.files.reading import ID
from pellucid.text.foreign_files import ForeignFiles, get_token_content

CLEANED = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")
"""The strings that clean-up replaces by their form without the spaces."""

# For each role of a special token: its keys in the settings and in config.json, and its usual spellings.
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


@dataclass(frozen=True)
class SpecialIds:
    """The ids that represent no text."""

    pad_id: int
    bos_id: int
    eos_id: int
    unk_id: int

    @property
    def ids(self) -> frozenset[int]:
        """Returns all special ids."""
        return frozenset({self.pad_id, self.bos_id, self.eos_id, self.unk_id})


def find_special_ids(files: ForeignFiles, ids: Mapping[str, int]) -> SpecialIds:
    """Returns the special ids of the tokenizer in a Hugging Face folder, whose vocabulary is `ids`.

    The begin token is the class token if there is one, else the begin token of the settings, else the decoder's start
    token. A model without padding (GPT-2) has its end token as `pad_id`; it is not treated as padding, since its
    ModelConfig says so.

    Raises CheckpointError if there is no end token, or a file is damaged.
    """
    settings = [files.settings, files.special_tokens]  # the first takes precedence
    found = {part: _find(part, settings, files.config, ids) for part in _PARTS}
    eos_id = found["eos"]
    if eos_id is None:
        raise CheckpointError(
            f"the tokenizer in `{files.folder}` has no end token: neither tokenizer_config.json nor config.json names "
            "one",
            "copy the whole folder, or add `eos_token` to tokenizer_config.json",
        )
    pad_id = eos_id if found["pad"] is None else found["pad"]
    return SpecialIds(
        pad_id=pad_id,
        bos_id=pad_id if found["bos"] is None else found["bos"],
        eos_id=eos_id,
        unk_id=pad_id if found["unk"] is None else found["unk"],
    )


def clean_up_spaces(text: str) -> str:
    """Returns `text` without the spaces before marks and English endings that transformers' `clean_up_tokenization`
    removes.
    """
    for spaced in CLEANED:
        text = text.replace(spaced, spaced.strip())
    return text


def _find(part: str, settings: list[dict[str, Any]], config: dict[str, Any], ids: Mapping[str, int]) -> int | None:
    keys, config_keys, usual = _PARTS[part]
    named = (get_token_content(table.get(key)) for key in keys for table in settings)
    for token in named:
        if token in ids:
            return ids[token]
    # A decoder may start with a token that only the target vocabulary has.
    known = set(ids.values()) if part == "bos" else None
    numbers = _numbers(config.get(key) for key in config_keys)
    number = next((i for i in numbers if known is None or i in known), None)
    return next((ids[token] for token in usual if token in ids), None) if number is None else number


def _numbers(values: Iterator[Any]) -> Iterator[int]:
    """Yields the valid ids among the values; for a list, its first id."""
    for value in values:
        first = value[0] if isinstance(value, list) and value else value
        if ID.fits(first):
            yield first
