"""The start, the end and the search of a foreign model: its special tokens and generation settings."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pellucid.config import DecodeConfig
from pellucid.errors import CheckpointError, ConfigError, shown
from pellucid.text.language_codes import with_codes
from pellucid.text.special_ids import SETTINGS as TOKENIZER
from pellucid.text.special_ids import read_json
from pellucid.text.tokenizers import Tokenizers
from pellucid.weights.hugging_face.family import Family
from pellucid.weights.hugging_face.settings import Settings

log: logging.Logger = logging.getLogger(__name__)

NEUTRAL: dict[str, object] = {
    "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "min_length": 0, "min_new_tokens": 0,
    "repetition_penalty": 1.0, "num_beam_groups": 1, "diversity_penalty": 0.0, "begin_suppress_tokens": [],
}  # fmt: skip
"""Settings that our search has no counterpart for, with the value that does nothing."""


def special_ids(
    settings: Settings, generation: Mapping[str, Any], family: Family, tokenizers: Tokenizers | None
) -> dict[str, Any]:
    """Returns our fields `bos_id` and `eos_id`, and `pad_id` of a decoder alone, where each id is a word.

    An encoder-decoder's `bos_id` is what its decoder starts with, an encoder's what stands before a text.
    """
    bos, eos = _setting("bos_token_id", settings, generation), _setting("eos_token_id", settings, generation)
    if isinstance(eos, list):
        if len(eos) > 1:
            log.warning("`%s` ends a text at any of %s; here it ends at %s alone", settings.path, shown(eos), eos[0])
        eos = eos[0] if eos else None
    if family.kind == "encoder-decoder":
        start = _setting("decoder_start_token_id", settings, generation)
        bos = start if start is not None else settings[family.decoder_start]
    if family.kind == "encoder" and tokenizers is not None:
        bos, eos = tokenizers.source.bos_id, tokenizers.source.eos_id
    eos = settings.defaults["eos_token_id"] if eos is None else eos
    bos = settings.defaults["bos_token_id"] if bos is None else bos
    if family.kind == "decoder" and bos >= settings["vocab_size"]:
        bos = eos  # the family's usual one, in a smaller vocabulary that has none
    return {"bos_id": bos, "eos_id": eos} | ({"pad_id": None} if family.kind == "decoder" else {})


def decode_settings(
    settings: Settings,
    generation: Mapping[str, Any],
    family: Family,
    start: tuple[int, ...] = (),
    language_first: bool = False,
) -> DecodeConfig:
    """Returns how the model's authors search with it; what they do not say is as in our own models.

    Args:
        start: of a decoder alone: what stands before every text.
        language_first: outputs begin with the code of a language, even where no setting says which.

    Raises CheckpointError for a value that cannot be.
    """

    def setting(name: str) -> Any:
        return _setting(name, settings, generation)

    given: dict[str, Any] = {"beam_size": setting("num_beams"), "length_penalty": setting("length_penalty")}
    given = {name: value for name, value in given.items() if value is not None}
    if "length_penalty" in given:
        given["length_penalty"] = float(given["length_penalty"])
    forced = setting("forced_bos_token_id")
    if forced is not None:
        given["target_prefix"] = (forced,)
    not_words = 1 + (forced is not None or language_first)  # theirs counts the end, and what is forced, too
    if setting("max_new_tokens") is not None:
        given["max_length"] = max(1, setting("max_new_tokens") - not_words)
    elif setting("max_length") is not None:
        given["max_length"] = max(1, setting("max_length") - 1 - not_words)  # and the start
    if suppress := {*(setting("suppress_tokens") or []), *(ids[0] for ids in _banned(setting) if len(ids) == 1)}:
        given["suppress"] = tuple(sorted(suppress))
    if family.kind == "decoder":
        given |= {"source_prefix": start, "source_end": False}
    elif family.source_start is not None and settings[family.source_start] is not None:
        given["source_prefix"] = (settings[family.source_start],)
    _warn_of_ignored(settings, setting)
    try:
        return DecodeConfig(**given)
    except ConfigError as error:
        raise CheckpointError(f"`{settings.path.parent}` asks for a search that cannot be: {error}") from error


def with_default_languages(
    decode: DecodeConfig, folder: Path, start_id: int, languages: Mapping[str, int]
) -> DecodeConfig:
    """Returns `decode` between the languages that the tokenizer's settings name; a forced first token stays."""
    table = read_json(folder / TOKENIZER)
    source, target = (languages.get(str(table.get(key))) for key in ("src_lang", "tgt_lang"))
    return with_codes(decode, start_id, languages, source, None if decode.target_prefix else target)


def _warn_of_ignored(settings: Settings, setting: Callable[[str], Any]) -> None:
    """Says what the settings ask for and our search lacks."""
    ignored = {name: setting(name) for name, neutral in NEUTRAL.items() if setting(name) not in (None, neutral)}
    if several := [ids for ids in _banned(setting) if len(ids) > 1]:
        ignored["bad_words_ids"] = several
    if ignored:
        told = ", ".join(f"`{name}` = {shown(value)}" for name, value in ignored.items())
        log.warning("`%s` asks for what Pellucid's search does not do: %s", settings.path.parent, told)


def _banned(setting: Callable[[str], Any]) -> list[list[int]]:
    """Returns the sequences of ids that may not be written."""
    return setting("bad_words_ids") or []


def _setting(name: str, settings: Settings, generation: Mapping[str, Any]) -> Any:
    """Returns a setting of generation_config.json, or else of config.json."""
    value = generation.get(name)
    return settings.table.get(name, settings.defaults.get(name)) if value is None else value
