"""The languages that a multilingual model translates from and to: where their codes stand."""

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.errors import ConfigError
from pellucid.text.language_codes import with_codes
from pellucid.text.tokenizers import Tokenizers

_SHOWN = 12  # codes that an error lists


def speaking(
    decode: DecodeConfig,
    model: ModelConfig,
    tokenizers: Tokenizers,
    languages: Mapping[str, int],
    source_language: str | None,
    target_language: str | None,
) -> DecodeConfig:
    """Returns `decode` for a translation between two languages; None: as it is.

    | model | the source's code | the target's code |
    | --- | --- | --- |
    | M2M-100, NLLB, mBART-50 | before the source | the first token of the output |
    | mBART, whose decoder starts with a code | behind the source's end | the start token, which is fixed |
    | OPUS-MT (`>>fra<<`) | none | before the source |

    Raises ConfigError for a code that the model does not know, naming near ones, or has no use for.
    """
    given = {"source_language": source_language, "target_language": target_language}
    ids = {name: _id_of(code, name, languages) for name, code in given.items() if code is not None}
    if not ids:
        return decode
    source, target = ids.get("source_language"), ids.get("target_language")
    if codes_before_source(tokenizers, languages):
        if source is not None or target is None:
            raise ConfigError(
                f"`source_language` (`{source_language}`) means nothing to this model: its codes are for the target",
                "name `target_language` alone",
            )
        return replace(decode, source_prefix=(target,))
    if model.bos_id in languages.values() and target not in (None, model.bos_id):
        written = next(code for code, i in languages.items() if i == model.bos_id)
        raise ConfigError(
            f"this model writes `{written}` alone, not `{target_language}`", f"use `{written}`, or another model"
        )
    return with_codes(decode, model.bos_id, languages, source, target)


def check_languages(
    decode: DecodeConfig, model: ModelConfig, tokenizers: Tokenizers, languages: Mapping[str, int]
) -> None:
    """Raises ConfigError where a model of many languages has not been told which ones to translate between."""
    codes = set(languages.values())
    if not codes or codes_before_source(tokenizers, languages):  # a code may stand in the text
        return
    if model.bos_id in codes:
        missing = [] if codes & set(decode.source_suffix) else ["source_language"]
    else:
        sides = {"source_language": decode.source_prefix, "target_language": decode.target_prefix}
        missing = [name for name, prefix in sides.items() if not codes & set(prefix)]
    if missing:
        raise ConfigError(
            f"this model translates between {len(codes)} languages, and `{'` and `'.join(missing)}` "
            f"{'is' if len(missing) == 1 else 'are'} not given",
            f"codes: {_listed(list(languages))}",
        )


def spoken_in(decode: DecodeConfig, tokenizers: Tokenizers, languages: Mapping[str, int]) -> str:
    """Returns the code of the language that sources are in, where the model is told one; else ""."""
    if codes_before_source(tokenizers, languages):  # those name the target
        return ""
    around = {*decode.source_prefix, *decode.source_suffix}
    return next((code for code, number in languages.items() if number in around), "")


def _id_of(code: str, name: str, languages: Mapping[str, int]) -> int:
    if not languages:
        raise ConfigError(f"`{name}` (`{code}`) means nothing to this model: it has no language codes", "leave it out")
    if code not in languages:
        near = [known for known in languages if known.lower().startswith(code.lower())]
        near = near or get_close_matches(code, list(languages), n=_SHOWN, cutoff=0.5)
        raise ConfigError(
            f"unknown `{name}` `{code}`" + (f"; near it are {_listed(near)}" if near else ""),
            f"the model's {len(languages)} codes: {_listed(list(languages))}",
        )
    return languages[code]


def codes_before_source(tokenizers: Tokenizers, languages: Mapping[str, int]) -> bool:
    """Tells whether the codes are OPUS-MT's, which stand before the source and name the target."""
    code, i = next(iter(languages.items()), ("", 0))
    return bool(code) and tokenizers.source.tokens([i]) == [f">>{code}<<"]


def _listed(codes: list[str]) -> str:
    return ", ".join(codes[:_SHOWN]) + (", ..." if len(codes) > _SHOWN else "")
