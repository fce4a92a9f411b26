"""The source and target languages of a multilingual model: the positions of their codes."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from pellucid.config import DataConfig, DecodeConfig, ModelConfig
from pellucid.config.data import language_tag
from pellucid.errors import ConfigError, format_argument
from pellucid.text.language_codes import set_language_codes
from pellucid.text.tokenizers import TokenizerPair


class ZeroShotWarning(UserWarning):
    """A multilingual model translates between two languages that were not a pair in its training."""


_SHOWN = 12  # codes that an error lists


def set_languages(
    decode: DecodeConfig,
    model: ModelConfig,
    tokenizers: TokenizerPair,
    languages: Mapping[str, int],
    source_language: str | None,
    target_language: str | None,
    pairs: Sequence[str] = (),
    *,
    stacklevel: int = 3,
) -> DecodeConfig:
    """Returns a copy of `decode` with the codes of a translation direction. A language that is None is unchanged.

    | model | the source's code | the target's code |
    | --- | --- | --- |
    | M2M-100, NLLB, mBART-50 | before the source | the first token of the output |
    | mBART, whose decoder starts with a code | after the source's end | the start token, which is fixed |
    | OPUS-MT (`>>fra<<`) | none | before the source |
    | Pellucid (`<2fr>`) | none; it must be a language of the training | before the source |

    `pairs` are the language pairs of a Pellucid model's training, as in "de-en". Warns with ZeroShotWarning,
    `stacklevel` calls up, of a pair that is not among them.

    Raises ConfigError for a code that the model lacks, naming similar ones, or that has no effect.
    """
    if uses_language_tags(tokenizers, languages):
        if source_language is not None:
            _check_source(source_language, target_language, languages, pairs, stacklevel + 1)
        if target_language is None:
            return decode
        _get_id(target_language, "target_language", languages)
        return set_target_language(decode, tokenizers, target_language)
    given = {"source_language": source_language, "target_language": target_language}
    ids = {name: _get_id(code, name, languages) for name, code in given.items() if code is not None}
    if not ids:
        return decode
    source, target = ids.get("source_language"), ids.get("target_language")
    if codes_before_source(tokenizers, languages):
        if source is not None or target is None:
            raise ConfigError(
                f"{format_argument('source_language', source_language)} has no effect on this model, whose codes are "
                "for the target",
                "set `target_language=` alone",
            )
        return replace(decode, source_prefix=(target,))
    if model.bos_id in languages.values() and target not in (None, model.bos_id):
        written = next(code for code, i in languages.items() if i == model.bos_id)
        raise ConfigError(
            f"this model translates into `{written}` only, not into `{target_language}`",
            f"use `{written}`, or another model",
        )
    return set_language_codes(decode, model.bos_id, languages, source, target)


def set_target_language(decode: DecodeConfig, tokenizers: TokenizerPair, code: str) -> DecodeConfig:
    """Returns a copy of `decode` with the tag of a language before each source, as in training."""
    return replace(decode, source_prefix=tuple(tokenizers.source.encode(language_tag(code))))


def check_languages(
    decode: DecodeConfig, model: ModelConfig, tokenizers: TokenizerPair, languages: Mapping[str, int]
) -> None:
    """Raises ConfigError if a multilingual model lacks its source or target language."""
    codes = set(languages.values())
    if uses_language_tags(tokenizers, languages) and not codes & set(decode.source_prefix):
        raise ConfigError(
            f"this model translates into {len(codes)} languages, and `target_language=` is not given",
            f"name one of {_format_codes(list(languages))}",
        )
    if not codes or codes_before_source(tokenizers, languages):  # the text may have a code
        return
    sides = {"source_language=": (*decode.source_prefix, *decode.source_suffix)}
    if model.bos_id not in codes:
        sides["target_language="] = decode.target_prefix
    missing = [name for name, around in sides.items() if not codes & {*around}]
    if missing:
        raise ConfigError(
            f"this model translates between {len(codes)} languages, and `{'` and `'.join(missing)}` "
            f"{'is' if len(missing) == 1 else 'are'} not given",
            f"codes: {_format_codes(list(languages))}",
        )


def find_source_language(decode: DecodeConfig, tokenizers: TokenizerPair, languages: Mapping[str, int]) -> str:
    """Returns the code of the source language, if the settings have one; else ""."""
    if codes_before_source(tokenizers, languages):  # these codes name the target
        return ""
    around = {*decode.source_prefix, *decode.source_suffix}
    return next((code for code, number in languages.items() if number in around), "")


def find_direction(
    decode: DecodeConfig, tokenizers: TokenizerPair, languages: Mapping[str, int], pairs: Sequence[str]
) -> tuple[str, str]:
    """Returns the codes of the source and the target language; "" for one that the settings do not name.

    Those of a model without codes are the only one of `pairs`, as in "de-en".
    """
    if not languages:
        source, _, target = pairs[0].partition("-") if len(pairs) == 1 else ("", "", "")
        return source, target
    around = decode.source_prefix if codes_before_source(tokenizers, languages) else decode.target_prefix
    target = next((code for code, number in languages.items() if number in around), "")
    return find_source_language(decode, tokenizers, languages), target


def _get_id(code: str, name: str, languages: Mapping[str, int]) -> int:
    if not languages:
        raise ConfigError(
            f"{format_argument(name, code)} has no effect on this model, which has no language codes", "leave it out"
        )
    if code not in languages:
        near = [known for known in languages if known.lower().startswith(code.lower())]
        near = near or get_close_matches(code, list(languages), n=_SHOWN, cutoff=0.5)
        raise ConfigError(
            f"unknown {format_argument(name, code)}" + (f"; similar codes are {_format_codes(near)}" if near else ""),
            f"the model's {len(languages)} codes: {_format_codes(list(languages))}",
        )
    return languages[code]


def codes_before_source(tokenizers: TokenizerPair, languages: Mapping[str, int]) -> bool:
    """Returns True if the codes precede the source and name the target, as in OPUS-MT and Pellucid."""
    code, i = next(iter(languages.items()), ("", 0))
    return bool(code) and tokenizers.source.tokens([i]) in ([f">>{code}<<"], [language_tag(code)])


def find_language_tag_ids(data: DataConfig, tokenizers: TokenizerPair, known: Mapping[str, int]) -> dict[str, int]:
    """Returns the ids of the initial model's language tags, followed by the tags of a training's target languages.

    Raises ConfigError if the tokenizer splits a tag, or the initial model has codes of another kind.
    """
    if known and not uses_language_tags(tokenizers, known):
        raise ConfigError(
            f"`data.tgt_lang=` ({', '.join(data.files('tgt_lang'))}) is for models without language codes; the "
            f"initial model has {len(known)} codes: {_format_codes(list(known))}",
            "leave it out, and set `source_language=` and `target_language=`",
        )
    found = dict(known)
    for code in dict.fromkeys(data.files("tgt_lang")):
        tag = language_tag(code)
        ids = tokenizers.source.encode(tag)
        if not ids or tokenizers.source.tokens(ids[-1:]) != [tag]:
            cut = " ".join(tokenizers.source.tokens(ids))
            raise ConfigError(
                f"the tokenizer splits `{tag}`, the tag of `data.tgt_lang=`, into `{cut}`",
                "use `data.tokenizer` bpe, unigram or spaces, trained on these texts; an initial model must have the "
                "language already",
            )
        found[code] = ids[-1]
    return found


def uses_language_tags(tokenizers: TokenizerPair, languages: Mapping[str, int]) -> bool:
    """Returns True if the codes are Pellucid's tags, like `<2fr>`, which are part of the text."""
    code, i = next(iter(languages.items()), ("", 0))
    return bool(code) and tokenizers.source.tokens([i]) == [language_tag(code)]


def _check_source(
    source: str, target: str | None, languages: Mapping[str, int], pairs: Sequence[str], stacklevel: int
) -> None:
    """Raises ConfigError for a source language outside of the training. Warns of an unseen pair."""
    sources = list(dict.fromkeys(pair.partition("-")[0] for pair in pairs))
    if source not in sources:
        near = get_close_matches(source, sources, n=_SHOWN, cutoff=0.5)
        raise ConfigError(
            f"`source_language={source}` is not a source language of the model"
            + (f"; similar codes are {_format_codes(near)}" if near else ""),
            f"its source languages are {_format_codes(sources)}"
            if sources
            else "leave it out: the model has no list of source languages",
        )
    written = target if target is not None else next(iter(languages)) if len(languages) == 1 else None
    if written in languages and f"{source}-{written}" not in pairs:
        warnings.warn(
            f"`{source}` to `{written}` is zero-shot: the model was never trained on this pair, but on "
            f"{_format_codes(list(pairs))}",
            ZeroShotWarning,
            stacklevel=stacklevel,
        )


def _format_codes(codes: list[str]) -> str:
    return ", ".join(codes[:_SHOWN]) + (", ..." if len(codes) > _SHOWN else "")
