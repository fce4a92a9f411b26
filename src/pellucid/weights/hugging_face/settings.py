"""The settings of a foreign config.json."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pellucid.errors import CheckpointError, shown
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
    list_of,
    read_settings,
)

CONFIG = "config.json"
GENERATION = "generation_config.json"

_SPECIAL = ID | Kind("-1", lambda value: value == -1 and type(value) is int) | NOTHING

SEARCH_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("bos_token_id", "pad_token_id", "decoder_start_token_id"), _SPECIAL),
    "eos_token_id": _SPECIAL | list_of(ID),
    "forced_bos_token_id": ID | NOTHING,
    **dict.fromkeys(
        ("num_beams", "num_beam_groups", "max_length", "max_new_tokens", "min_length", "min_new_tokens",
         "no_repeat_ngram_size", "encoder_no_repeat_ngram_size"),
        WHOLE | NOTHING,
    ),
    **dict.fromkeys(("length_penalty", "repetition_penalty", "diversity_penalty"), NUMBER | NOTHING),
    **dict.fromkeys(("suppress_tokens", "begin_suppress_tokens"), list_of(ID) | NOTHING),
    "bad_words_ids": list_of(list_of(ID)) | NOTHING,
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
        ("add_cross_attention", "is_decoder", "scale_decoder_outputs", "use_sliding_window"), SWITCH | NOTHING
    ),
    **dict.fromkeys(("activation", "activation_function", "feed_forward_proj", "hidden_act", "model_type"), TEXT),
    **dict.fromkeys(("position_embedding_type", "problem_type"), TEXT | NOTHING),
    "layer_types": list_of(TEXT) | NOTHING,
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


class Settings:
    """The settings of a config.json, with its family's defaults for what it leaves out.

    Raises CheckpointError for a setting that is of the wrong kind (`KINDS`), or is asked for and is in neither.
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
        """Returns the setting, or `default` where it is left out."""
        return self.table.get(name, self.defaults.get(name, default))

    def needed_id(self, name: str) -> int:
        """Returns an id that the family cannot do without. Raises CheckpointError where it is null or -1."""
        found = self[name]
        if not ID.fits(found):
            raise CheckpointError(f"`{self.path}` has `{name}` = {shown(found)}; it must be {ID.words}")
        return int(found)

    def refuse(self, name: str, value: Any, reason: str) -> CheckpointError:
        """Returns the error for a setting that cannot be expressed."""
        return CheckpointError(f"`{self.path}` has `{name}` = {shown(json.dumps(value))}, {reason}")

    def check_only(self, only: Mapping[str, Any]) -> None:
        """Raises CheckpointError for a setting of `only` that is given and has another value."""
        for name, allowed in only.items():
            value = self.get(name, allowed)
            if value is not None and value != allowed:
                if allowed is None:
                    raise self.refuse(name, value, "which Pellucid does not read")
                raise self.refuse(name, value, f"which Pellucid's model cannot express; it knows {json.dumps(allowed)}")

    def same(self, first: str, second: str) -> Any:
        """Returns the one value of two settings. Raises CheckpointError where they differ."""
        if self[first] != self[second]:
            raise CheckpointError(
                f"`{self.path}` has `{first}` = {self[first]} and `{second}` = {self[second]}; "
                "Pellucid's two stacks are of one width"
            )
        return self[first]


def read_generation(folder: Path) -> dict[str, Any]:
    """Returns the settings in generation_config.json, none where a folder lacks it.

    Raises CheckpointError where it is damaged, or one that is read is of the wrong kind (`SEARCH_KINDS`).
    """
    path = folder / GENERATION
    table = read_settings(path) if path.is_file() else {}
    check_kinds(table, SEARCH_KINDS, path)
    return table
