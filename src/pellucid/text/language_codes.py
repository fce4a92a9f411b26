"""Codes of languages in the vocabularies of multilingual translators."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import resources

from pellucid.config import DecodeConfig
from pellucid.text.hugging_face import HuggingFaceTokenizer
from pellucid.text.numbered import NumberedSubwords
from pellucid.text.tokenizers import Tokenizers

_SPECIAL = (
    re.compile(r"__([a-z]{2,3})__"),  # M2M-100
    re.compile(r"([a-z]{2}_[A-Z]{2})"),  # mBART
    re.compile(r"([a-z]{3}_[A-Z][a-z]{3})"),  # NLLB
)
_BEFORE_SOURCE = re.compile(r">>([^<]+)<<")  # OPUS-MT: an ordinary entry of the vocabulary


@cache
def language_codes(model: str) -> list[str]:
    """Returns the codes of a published model (m2m100, wmt21, mbart25, mbart50, nllb200), in the order of their ids."""
    table = tomllib.loads((resources.files("pellucid.text") / "languages.toml").read_text(encoding="utf-8"))
    codes: list[str] = table[model].split()
    return codes


def with_codes(
    decode: DecodeConfig, start_id: int, languages: Mapping[str, int], source: int | None, target: int | None
) -> DecodeConfig:
    """Returns `decode` for a translation between two languages, by the ids of their codes, which are special tokens.

    They stand before the source and as first token of the output (M2M-100, NLLB, mBART-50); where the decoder starts
    with a code (`start_id`; mBART), the target is fixed, and the source's stands behind its end.
    """
    if start_id in languages.values():
        return decode if source is None else replace(decode, source_suffix=(source,))
    if source is not None:
        decode = replace(decode, source_prefix=(source,))
    return decode if target is None else replace(decode, target_prefix=(target,))


def codes_are_special(tokenizers: Tokenizers, languages: Mapping[str, int]) -> bool:
    """Tells whether there are codes, and they are special tokens; those of OPUS-MT, and tags, stand in the text."""
    hidden, tags = getattr(tokenizers.source, "hidden", {}), getattr(tokenizers.source, "tags", ())
    return bool(languages) and set(languages.values()) <= {i for token, i in hidden.items() if token not in tags}


def language_ids(tokenizers: Tokenizers) -> dict[str, int]:
    """Returns the codes of the languages that a vocabulary knows, and their ids; empty for a model of two languages."""
    tokenizer = tokenizers.source
    if not isinstance(tokenizer, HuggingFaceTokenizer | NumberedSubwords):
        return {}
    special = {match[1]: i for token, i in tokenizer.hidden.items() for p in _SPECIAL if (match := p.fullmatch(token))}
    return special or {match[1]: i for token, i in tokenizer.ids.items() if (match := _BEFORE_SOURCE.fullmatch(token))}
