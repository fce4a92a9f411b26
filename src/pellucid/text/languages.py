"""Codes of languages in the vocabularies of multilingual translators."""

import re
import tomllib
from functools import cache
from importlib import resources

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
    """The codes of a published model (m2m100, wmt21, mbart25, mbart50, nllb200), in the order of their ids."""
    table = tomllib.loads((resources.files("pellucid.text") / "languages.toml").read_text(encoding="utf-8"))
    codes: list[str] = table[model].split()
    return codes


def language_ids(tokenizers: Tokenizers) -> dict[str, int]:
    """The codes of the languages that a vocabulary knows, and their ids; empty for a model of two languages."""
    tokenizer = tokenizers.source
    if not isinstance(tokenizer, HuggingFaceTokenizer | NumberedSubwords):
        return {}
    special = {match[1]: i for token, i in tokenizer.hidden.items() for p in _SPECIAL if (match := p.fullmatch(token))}
    return special or {match[1]: i for token, i in tokenizer.ids.items() if (match := _BEFORE_SOURCE.fullmatch(token))}
