"""Language codes in the vocabularies of multilingual translators."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import resources

from pellucid.config import DecodeConfig
from pellucid.text.hugging_face import HuggingFaceTokenizer
from pellucid.text.remapped_sentencepiece import RemappedSentencePiece
from pellucid.text.tokenizers import TokenizerPair

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


def is_code(token: str) -> bool:
    """Returns True if a token is spelled like a language code that is a special token."""
    return any(pattern.fullmatch(token) for pattern in _SPECIAL)


def set_language_codes(
    decode: DecodeConfig, start_id: int, languages: Mapping[str, int], source: int | None, target: int | None
) -> DecodeConfig:
    """Returns `decode` for a translation between two languages, by the ids of their codes, which are special tokens.

    The source code replaces the code that `decode` has around a source. If there is none, the source code is put before
    the source, or, if the decoder starts with a code (`start_id`; mBART), after its end. The target code is the first
    token of the output, unless the decoder starts with a code: then the target is fixed.
    """
    codes = set(languages.values())
    if source is not None:
        before, suffix = decode.source_prefix, decode.source_suffix
        if codes & {*before, *suffix}:
            before, suffix = (tuple(source if i in codes else i for i in ids) for ids in (before, suffix))
            decode = replace(decode, source_prefix=before, source_suffix=suffix)
        elif start_id in codes:
            decode = replace(decode, source_suffix=(*decode.source_suffix, source))
        else:
            decode = replace(decode, source_prefix=(source, *decode.source_prefix))
    return decode if target is None or start_id in codes else replace(decode, target_prefix=(target,))


def codes_are_special(tokenizers: TokenizerPair, languages: Mapping[str, int]) -> bool:
    """Returns True if there are language codes, all of them special tokens; OPUS-MT codes and tags are plain text."""
    hidden, tags = getattr(tokenizers.source, "hidden", {}), getattr(tokenizers.source, "tags", ())
    return bool(languages) and set(languages.values()) <= {i for token, i in hidden.items() if token not in tags}


def language_ids(tokenizers: TokenizerPair) -> dict[str, int]:
    """Returns the language codes in a vocabulary and their ids; empty for a bilingual model."""
    tokenizer = tokenizers.source
    if not isinstance(tokenizer, HuggingFaceTokenizer | RemappedSentencePiece):
        return {}
    special = {match[1]: i for token, i in tokenizer.hidden.items() for p in _SPECIAL if (match := p.fullmatch(token))}
    return special or {match[1]: i for token, i in tokenizer.ids.items() if (match := _BEFORE_SOURCE.fullmatch(token))}
