"""The languages that a multilingual model translates from and to: where their codes stand."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from pellucid.config import DataConfig, DecodeConfig, ModelConfig
from pellucid.config.data import language_tag
from pellucid.errors import ConfigError, argument
from pellucid.text.language_codes import with_codes
from pellucid.text.tokenizers import Tokenizers


class ZeroShot(UserWarning):
    """A model is asked to translate between two languages that it never saw together."""


_SHOWN = 12  # codes that an error lists


def speaking(
    decode: DecodeConfig,
    model: ModelConfig,
    tokenizers: Tokenizers,
    languages: Mapping[str, int],
    source_language: str | None,
    target_language: str | None,
    pairs: Sequence[str] = (),
    *,
    stacklevel: int = 3,
) -> DecodeConfig:
    """Returns `decode` for a translation between two languages; None: as it is.

    | model | the source's code | the target's code |
    | --- | --- | --- |
    | M2M-100, NLLB, mBART-50 | before the source | the first token of the output |
    | mBART, whose decoder starts with a code | behind the source's end | the start token, which is fixed |
    | OPUS-MT (`>>fra<<`) | none | before the source |
    | Pellucid's own (`<2fr>`) | none; it is one that was trained on | before the source |

    `pairs` are those that a model of our own was trained on, as in "de-en". Warns with ZeroShot,
    `stacklevel` calls up, of a pair that was not among them.

    Raises ConfigError for a code that the model does not know, naming near ones, or has no use for.
    """
    if are_own_tags(tokenizers, languages):
        if source_language is not None:
            _check_source(source_language, target_language, languages, pairs, stacklevel + 1)
        if target_language is None:
            return decode
        _id_of(target_language, "target_language", languages)
        return in_language(decode, tokenizers, target_language)
    given = {"source_language": source_language, "target_language": target_language}
    ids = {name: _id_of(code, name, languages) for name, code in given.items() if code is not None}
    if not ids:
        return decode
    source, target = ids.get("source_language"), ids.get("target_language")
    if codes_before_source(tokenizers, languages):
        if source is not None or target is None:
            raise ConfigError(
                f"{argument('source_language', source_language)} means nothing to this model: its codes are for the "
                "target",
                "name `target_language=` alone",
            )
        return replace(decode, source_prefix=(target,))
    if model.bos_id in languages.values() and target not in (None, model.bos_id):
        written = next(code for code, i in languages.items() if i == model.bos_id)
        raise ConfigError(
            f"this model writes `{written}` alone, not `{target_language}`", f"use `{written}`, or another model"
        )
    return with_codes(decode, model.bos_id, languages, source, target)


def in_language(decode: DecodeConfig, tokenizers: Tokenizers, code: str) -> DecodeConfig:
    """Returns `decode` with the tag of a language before each source, as training puts it into the text."""
    return replace(decode, source_prefix=tuple(tokenizers.source.encode(language_tag(code))))


def check_languages(
    decode: DecodeConfig, model: ModelConfig, tokenizers: Tokenizers, languages: Mapping[str, int]
) -> None:
    """Raises ConfigError where a model of many languages has not been told which ones to translate between."""
    codes = set(languages.values())
    if are_own_tags(tokenizers, languages) and not codes & set(decode.source_prefix):
        raise ConfigError(
            f"this model writes {len(codes)} languages, and `target_language=` is not given",
            f"name one of {_listed(list(languages))}",
        )
    if not codes or codes_before_source(tokenizers, languages):  # a code may stand in the text
        return
    if model.bos_id in codes:
        missing = [] if codes & set(decode.source_suffix) else ["source_language="]
    else:
        sides = {"source_language=": decode.source_prefix, "target_language=": decode.target_prefix}
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
        raise ConfigError(
            f"{argument(name, code)} means nothing to this model: it has no language codes", "leave it out"
        )
    if code not in languages:
        near = [known for known in languages if known.lower().startswith(code.lower())]
        near = near or get_close_matches(code, list(languages), n=_SHOWN, cutoff=0.5)
        raise ConfigError(
            f"unknown {argument(name, code)}" + (f"; near it are {_listed(near)}" if near else ""),
            f"the model's {len(languages)} codes: {_listed(list(languages))}",
        )
    return languages[code]


def codes_before_source(tokenizers: Tokenizers, languages: Mapping[str, int]) -> bool:
    """Tells whether the codes stand before the source and name the target: OPUS-MT's, and our own."""
    code, i = next(iter(languages.items()), ("", 0))
    return bool(code) and tokenizers.source.tokens([i]) in ([f">>{code}<<"], [language_tag(code)])


def own_languages(data: DataConfig, tokenizers: Tokenizers, known: Mapping[str, int]) -> dict[str, int]:
    """Returns the ids of the tags of the languages that a training writes, behind those that its start knows.

    Raises ConfigError where the tokenizer does not keep a tag whole, or the start has codes of another kind.
    """
    if known and not are_own_tags(tokenizers, known):
        raise ConfigError(
            f"`data.tgt_lang` ({', '.join(data.files('tgt_lang'))}) is for models that know no languages yet; the one "
            f"to start from has {len(known)} codes of its own: {_listed(list(known))}",
            "leave it out, and name both by `source_language=` and `target_language=`",
        )
    found = dict(known)
    for code in dict.fromkeys(data.files("tgt_lang")):
        tag = language_tag(code)
        ids = tokenizers.source.encode(tag)
        if not ids or tokenizers.source.tokens(ids[-1:]) != [tag]:
            cut = " ".join(tokenizers.source.tokens(ids))
            raise ConfigError(
                f"the tokenizer does not keep `{tag}`, the tag of `data.tgt_lang`, whole: it reads `{cut}`",
                "use `data.tokenizer` bpe, unigram or spaces, trained on these texts; a model to start from must know "
                "the language already",
            )
        found[code] = ids[-1]
    return found


def are_own_tags(tokenizers: Tokenizers, languages: Mapping[str, int]) -> bool:
    """Tells whether the codes are tags of Pellucid's own, like `<2fr>`, which stand in the text."""
    code, i = next(iter(languages.items()), ("", 0))
    return bool(code) and tokenizers.source.tokens([i]) == [language_tag(code)]


def _check_source(
    source: str, target: str | None, languages: Mapping[str, int], pairs: Sequence[str], stacklevel: int
) -> None:
    """Raises ConfigError for a source language that the model never read. Warns of a pair that it never saw."""
    sources = list(dict.fromkeys(pair.partition("-")[0] for pair in pairs))
    if source not in sources:
        near = get_close_matches(source, sources, n=_SHOWN, cutoff=0.5)
        raise ConfigError(
            f"`source_language={source}` is not a language that the model reads"
            + (f"; near it are {_listed(near)}" if near else ""),
            f"it reads {_listed(sources)}" if sources else "leave it out: the model does not say what it reads",
        )
    written = target if target is not None else next(iter(languages)) if len(languages) == 1 else None
    if written in languages and f"{source}-{written}" not in pairs:
        warnings.warn(
            f"`{source}` to `{written}` is zero-shot: the model was never trained on this pair, but on "
            f"{_listed(list(pairs))}",
            ZeroShot,
            stacklevel=stacklevel,
        )


def _listed(codes: list[str]) -> str:
    return ", ".join(codes[:_SHOWN]) + (", ..." if len(codes) > _SHOWN else "")
