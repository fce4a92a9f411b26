"""The settings of a Hugging Face config.json."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pellucid.errors import CheckpointError, format_value
from pellucid.files.reading import (
    ID,
    NOTHING,
    NUMBER,
    POSITIVE,
    SWITCH,
    TABLE,
    TEXT,
    WHOLE,
    Kind,
    check_kinds,
    make_list_kind,
)
from pellucid.text.foreign_files import ForeignFiles

GENERATION = "generation_config.json"

_SPECIAL = ID | Kind("-1", lambda value: value == -1 and type(value) is int) | NOTHING

SEARCH_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("bos_token_id", "pad_token_id", "decoder_start_token_id"), _SPECIAL),
    "eos_token_id": _SPECIAL | make_list_kind(ID),
    "forced_bos_token_id": ID | NOTHING,
    "forced_eos_token_id": ID | NOTHING | make_list_kind(ID),
    **dict.fromkeys(
        ("num_beams", "num_beam_groups", "max_length", "max_new_tokens", "min_length", "min_new_tokens",
         "no_repeat_ngram_size", "encoder_no_repeat_ngram_size"),
        WHOLE | NOTHING,
    ),
    **dict.fromkeys(("length_penalty", "repetition_penalty", "diversity_penalty"), NUMBER | NOTHING),
    **dict.fromkeys(("suppress_tokens", "begin_suppress_tokens"), make_list_kind(ID) | NOTHING),
    "bad_words_ids": make_list_kind(make_list_kind(ID)) | NOTHING,
}  # fmt: skip
"""The kind of each setting of generation_config.json that is read; old folders have them in config.json."""

KINDS: dict[str, Kind] = SEARCH_KINDS | {
    **dict.fromkeys(
        ("d_ff", "d_kv", "d_model", "decoder_attention_heads", "decoder_ffn_dim", "decoder_layers", "dim",
         "encoder_attention_heads", "encoder_ffn_dim", "encoder_layers", "hidden_dim", "hidden_size",
         "intermediate_size", "max_position_embeddings", "n_embd", "n_head", "n_heads", "n_layer", "n_layers",
         "n_positions", "num_attention_heads", "num_heads", "num_hidden_layers", "num_layers",
         "relative_attention_max_distance", "relative_attention_num_buckets", "type_vocab_size", "vocab_size"),
        WHOLE,
    ),
    **dict.fromkeys(
        ("decoder_vocab_size", "head_dim", "max_window_layers", "n_inner", "num_decoder_layers", "num_key_value_heads",
         "sliding_window"),
        WHOLE | NOTHING,
    ),
    **dict.fromkeys(
        ("activation_dropout", "attention_dropout", "attention_probs_dropout_prob", "attn_pdrop", "dropout",
         "dropout_rate", "hidden_dropout_prob", "layer_norm_eps", "layer_norm_epsilon", "resid_pdrop", "rms_norm_eps"),
        NUMBER,
    ),
    "rope_theta": POSITIVE,
    "partial_rotary_factor": NUMBER | NOTHING,
    **dict.fromkeys(
        ("attention_bias", "mlp_bias", "scale_attn_by_inverse_layer_idx", "scale_attn_weights", "scale_embedding",
         "share_encoder_decoder_embeddings", "tie_word_embeddings"),
        SWITCH,
    ),
    **dict.fromkeys(
        ("add_cross_attention", "force_bos_token_to_be_generated", "is_decoder", "scale_decoder_outputs",
         "use_sliding_window"),
        SWITCH | NOTHING,
    ),
    **dict.fromkeys(("activation", "activation_function", "feed_forward_proj", "hidden_act", "model_type"), TEXT),
    **dict.fromkeys(("position_embedding_type", "problem_type"), TEXT | NOTHING),
    "layer_types": make_list_kind(TEXT) | NOTHING,
    **dict.fromkeys(("id2label", "rope_parameters", "rope_scaling"), TABLE | NOTHING),
}  # fmt: skip
"""The kind of each setting of config.json that is read."""

ROPE_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("rope_type", "type"), TEXT),
    **dict.fromkeys(("factor", "high_freq_factor", "low_freq_factor", "rope_theta"), POSITIVE),
    "original_max_position_embeddings": WHOLE,
    "partial_rotary_factor": NUMBER | NOTHING,
}  # fmt: skip
"""The kind of each setting of rotary positions, in the table that holds them."""


class HuggingFaceConfig:
    """The settings of a config.json, with its family's defaults for missing ones.

    Raises CheckpointError for a setting of the wrong kind (`KINDS`), or a required setting that is in neither.
    """

    def __init__(self, path: Path, table: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> None:
        self.path = path
        self.table = table
        self.defaults: Mapping[str, Any] = defaults or {}
        check_kinds(table, KINDS, path)
        for name in ("rope_parameters", "rope_scaling"):
            check_kinds(table.get(name) or {}, ROPE_KINDS, path)

    def __getitem__(self, name: str) -> Any:
        if name in self.table:
            return self.table[name]
        if name in self.defaults:
            return self.defaults[name]
        raise CheckpointError(f"`{self.path}` has no `{name}`", "copy the folder again")

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the setting, or `default` if it is left out."""
        return self.table.get(name, self.defaults.get(name, default))

    def require_id(self, name: str) -> int:
        """Returns an id that the family requires. Raises CheckpointError if it is null or -1."""
        found = self[name]
        if not ID.fits(found):
            raise CheckpointError(f"`{self.path}` has `{name}` = {format_value(found)}; it must be {ID.words}")
        return int(found)

    def refuse(self, name: str, value: Any, reason: str) -> CheckpointError:
        """Returns the error for a setting that cannot be expressed."""
        return CheckpointError(f"`{self.path}` has `{name}` = {format_value(json.dumps(value))}, {reason}")

    def check_only(self, only: Mapping[str, Any]) -> None:
        """Raises CheckpointError for a setting of `only` that is given and has another value."""
        for name, allowed in only.items():
            value = self.get(name, allowed)
            if value is not None and value != allowed:
                if allowed is None:
                    raise self.refuse(name, value, "which Pellucid does not read")
                raise self.refuse(
                    name, value, f"which Pellucid's model does not support; it supports {json.dumps(allowed)}"
                )

    def same(self, first: str, second: str) -> Any:
        """Returns the one value of two settings. Raises CheckpointError if they differ."""
        if self[first] != self[second]:
            raise CheckpointError(
                f"`{self.path}` has `{first}` = {self[first]} and `{second}` = {self[second]}; "
                "Pellucid's two stacks have the same width"
            )
        return self[first]


def read_generation(files: ForeignFiles) -> dict[str, Any]:
    """Returns the settings in generation_config.json, or an empty table if a folder lacks it.

    Raises CheckpointError if it is damaged, or a setting that is read is of the wrong kind (`SEARCH_KINDS`).
    """
    table = files.table(GENERATION)
    check_kinds(table, SEARCH_KINDS, files.folder / GENERATION)
    return table
