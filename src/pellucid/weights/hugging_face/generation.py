"""The special tokens and search settings of a Hugging Face model."""

import logging
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any

from pellucid.config import DecodeConfig
from pellucid.errors import CheckpointError, ConfigError, format_value
from pellucid.text.foreign_files import ForeignFiles
from pellucid.text.language_codes import set_language_codes
from pellucid.text.template import Template
from pellucid.text.tokenizers import TokenizerPair
from pellucid.weights.hugging_face.family import Family
from pellucid.weights.hugging_face.settings import HuggingFaceConfig

log: logging.Logger = logging.getLogger(__name__)

MOST_NAMED = 20
"""The most ignored settings that a warning names."""

NEUTRAL: dict[str, tuple[object, ...]] = {
    # Features of transformers' search that Pellucid lacks.
    **dict.fromkeys(("encoder_no_repeat_ngram_size", "assistant_early_exit", "prompt_lookup_num_tokens"), (0,)),
    **dict.fromkeys(
        ("repetition_penalty", "encoder_repetition_penalty", "temperature", "top_p", "typical_p", "guidance_scale",
         "num_beam_groups", "num_return_sequences", "top_h"),
        (1,),
    ),
    **dict.fromkeys(("diversity_penalty", "epsilon_cutoff", "eta_cutoff", "min_p", "penalty_alpha"), (0,)),
    "top_k": (0, 50),  # 50 is transformers' default; it only has an effect on sampling
    **dict.fromkeys(
        ("do_sample", "early_stopping", "renormalize_logits", "remove_invalid_values", "token_healing", "use_mtp"),
        (False,),
    ),
    **dict.fromkeys(("begin_suppress_tokens", "forced_decoder_ids", "sequence_bias", "force_words_ids"), ([], {})),
    **dict.fromkeys(
        ("constraints", "dola_layers", "exponential_decay_length_penalty", "max_time", "stop_strings",
         "watermarking_config"),
        ([], ""),
    ),
}  # fmt: skip
"""Settings of transformers' search without a counterpart here, with the values, besides null, that have no effect."""

USED = (
    "bad_words_ids", "bos_token_id", "decoder_start_token_id", "eos_token_id", "forced_bos_token_id",
    "forced_eos_token_id", "length_penalty", "max_length", "max_new_tokens", "min_length", "min_new_tokens",
    "no_repeat_ngram_size", "num_beams", "pad_token_id", "suppress_tokens",
)  # fmt: skip
"""Settings of generation_config.json that are read."""

WITHOUT_EFFECT = (
    # how it computes
    "assistant_confidence_threshold", "assistant_ensemble_weight", "assistant_lookbehind", "cache_config",
    "cache_implementation", "compile_config", "continuous_batching_config", "disable_compile", "is_assistant",
    "low_memory", "max_cache_len", "max_matching_ngram_size", "num_assistant_tokens", "num_assistant_tokens_schedule",
    "prefill_chunk_size", "speculation_type", "target_lookbehind", "use_cache",
    # outputs, and origin of the file
    "output_attentions", "output_hidden_states", "output_logits", "output_scores", "return_dict_in_generate",
    "return_legacy_cache", "generation_kwargs", "transformers_version", "_from_model_config", "_commit_hash",
)  # fmt: skip
"""Settings of generation_config.json that change no output."""


def special_ids(
    settings: HuggingFaceConfig,
    generation: Mapping[str, Any],
    family: Family,
    tokenizers: TokenizerPair | None,
    template: Template | None = None,
) -> dict[str, Any]:
    """Returns the fields `bos_id` and `eos_id`, and `pad_id` of a decoder alone, if each id is in the vocabulary.

    An encoder-decoder's `bos_id` is its decoder's start token, an encoder's the token before a text. Of several end
    tokens `eos_id` is the tokenizer's, if that is one of them.
    """
    bos, eos = _get_setting("bos_token_id", settings, generation), _get_setting("eos_token_id", settings, generation)
    if isinstance(eos, list):
        likely = (None if tokenizers is None else tokenizers.target.eos_id, settings.get("eos_token_id"))
        eos = next((i for i in likely if i in eos), eos[0] if eos else None)
    if family.kind == "encoder-decoder":
        start = _get_setting("decoder_start_token_id", settings, generation)
        bos = start if start is not None else settings[family.decoder_start]
    if family.kind == "encoder" and tokenizers is not None:
        bos, eos = tokenizers.source.bos_id, tokenizers.source.eos_id
        if template is not None and len(template.before) == len(template.after) == 1:
            (bos,), (eos,) = template.before, template.after
        elif template is not None:
            log.warning(
                "`%s`: its tokenizer puts %s before and %s after a text; a classifier of Pellucid reads it between %d "
                "and %d", settings.path.parent, list(template.before), list(template.after), bos, eos,
            )  # fmt: skip
    eos = settings.defaults["eos_token_id"] if eos is None else eos
    bos = settings.defaults["bos_token_id"] if bos is None else bos
    if family.kind == "decoder" and bos >= settings["vocab_size"]:
        bos = eos  # the family's usual token, in a smaller vocabulary that lacks it
    return {"bos_id": bos, "eos_id": eos} | ({"pad_id": None} if family.kind == "decoder" else {})


def decode_settings(
    settings: HuggingFaceConfig,
    generation: Mapping[str, Any],
    family: Family,
    eos_id: int,
    template: Template | None = None,
    language_first: bool = False,
) -> DecodeConfig:
    """Returns the search settings of the model's authors, with Pellucid's defaults for the others.

    Args:
        eos_id: the model's end token.
        template: the special tokens that the folder's tokenizer adds to a text; None: the family's usual ones.
        language_first: True if outputs begin with a language code, even if no setting names one.

    Raises CheckpointError for an invalid value.
    """

    def get_setting(name: str) -> Any:
        return _get_setting(name, settings, generation)

    given: dict[str, Any] = {"beam_size": get_setting("num_beams"), "length_penalty": get_setting("length_penalty")}
    given = {name: value for name, value in given.items() if value is not None}
    if "length_penalty" in given:
        given["length_penalty"] = float(given["length_penalty"])
    forced = get_setting("forced_bos_token_id")
    if forced is None and settings.get("force_bos_token_to_be_generated") is True:  # BART before transformers 4.10
        forced = settings["bos_token_id"]
    if forced is not None:
        given["target_prefix"] = (forced,)
    not_words = 1 + (forced is not None or language_first)  # transformers counts the end and forced tokens, too
    if get_setting("max_new_tokens") is not None:
        given["max_length"] = max(1, get_setting("max_new_tokens") - not_words)
    elif get_setting("max_length") is not None:
        given["max_length"] = max(1, get_setting("max_length") - 1 - not_words)  # and the start
    ends = get_setting("eos_token_id")
    ends = {*(ends if isinstance(ends, list) else ()), eos_id}
    if len(ends) > 1:
        given["end_ids"] = tuple(sorted(ends - {eos_id}))
    banned = [tuple(ids) for ids in get_setting("bad_words_ids") or ()]
    single = {ids[0] for ids in banned if len(ids) == 1} - ends  # as transformers, which lets a text end
    if suppress := {*(get_setting("suppress_tokens") or ()), *single}:
        given["suppress_tokens"] = tuple(sorted(suppress))
    if several := tuple(dict.fromkeys(ids for ids in banned if len(ids) > 1)):
        given["banned"] = several
    if get_setting("no_repeat_ngram_size"):
        given["no_repeat_ngram_size"] = get_setting("no_repeat_ngram_size")
    least = [get_setting("min_new_tokens") or 0]
    if family.kind != "decoder":  # transformers counts the start, too; for a decoder the prompt, which is named below
        least.append((get_setting("min_length") or 0) - 1)
    if (words := max(least) - (forced is not None or language_first)) > 0:
        given["min_length"] = words
    if family.kind == "decoder":
        given |= {"source_prefix": template.before if template is not None else (), "add_source_eos": False}
        if template is not None and template.after:
            log.warning(
                "`%s`: its tokenizer appends %s to a prompt; it is omitted, since the model continues the prompt",
                settings.path.parent, list(template.after),
            )  # fmt: skip
    elif family.kind == "encoder-decoder" and template is not None:
        ended = template.after[:1] == (eos_id,)
        given |= {"source_prefix": template.before, "add_source_eos": ended, "source_suffix": template.after[ended:]}
    elif family.source_start is not None and settings[family.source_start] is not None:
        given["source_prefix"] = (settings[family.source_start],)
    if family.kind != "encoder":
        _warn_of_ignored(settings, generation, ends, counts_prompt=family.kind == "decoder")
    try:
        return DecodeConfig(**given)
    except ConfigError as error:
        raise CheckpointError(f"`{settings.path.parent}` has invalid search options: {error}") from error


def set_default_target(
    decode: DecodeConfig, files: ForeignFiles, start_id: int, languages: Mapping[str, int]
) -> DecodeConfig:
    """Returns `decode` with the target language in the tokenizer's settings; a forced first token stays."""
    target = languages.get(str(files.settings.get("tgt_lang")))
    return set_language_codes(decode, start_id, languages, None, None if decode.target_prefix else target)


def _warn_of_ignored(
    settings: HuggingFaceConfig, generation: Mapping[str, Any], ends: Collection[int], *, counts_prompt: bool
) -> None:
    """Warns once of all settings that Pellucid's search ignores.

    In config.json the names of transformers' search settings are checked, in generation_config.json all names.

    Args:
        ends: the end tokens.
        counts_prompt: `min_length` counts the tokens of a prompt.
    """
    neutral = NEUTRAL | ({"min_length": (0,)} if counts_prompt else {}) | {"forced_eos_token_id": (*ends, [*ends])}
    known = {*USED, *WITHOUT_EFFECT} - set(neutral)
    asked = {name: value for name, value in settings.table.items() if name in neutral} | dict(generation)
    ignored = {
        name: value
        for name, value in asked.items()
        if value is not None and name not in known and value not in neutral.get(name, (False, [], {}, ""))
    }
    if ignored:
        told = ", ".join(
            f"`{format_value(name)}` = {format_value(value)}" for name, value in islice(ignored.items(), MOST_NAMED)
        )
        if len(ignored) > MOST_NAMED:
            told += f" and {len(ignored) - MOST_NAMED} more"
        log.warning("`%s` has search options that Pellucid does not support: %s", settings.path.parent, told)


def _get_setting(name: str, settings: HuggingFaceConfig, generation: Mapping[str, Any]) -> Any:
    """Returns a setting of generation_config.json, or else of config.json."""
    value = generation.get(name)
    return settings.table.get(name, settings.defaults.get(name)) if value is None else value
