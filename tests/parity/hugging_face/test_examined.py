"""Imported families raise no alarm, and a folder whose weights are not its own any more does."""

from pathlib import Path
from typing import Any

import pytest

import pellucid
from tests.parity.hugging_face.outside import random_outside

pytestmark = pytest.mark.foreign

SMALL: dict[str, dict[str, Any]] = {
    "BertModel": {"vocab_size": 120, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
                  "intermediate_size": 16, "max_position_embeddings": 32},
    "GPT2LMHeadModel": {"vocab_size": 40, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32,
                        "bos_token_id": 1, "eos_token_id": 2},
    "LlamaForCausalLM": {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
                         "num_key_value_heads": 1, "intermediate_size": 16, "max_position_embeddings": 32,
                         "bos_token_id": 1, "eos_token_id": 2},
    "T5ForConditionalGeneration": {"vocab_size": 40, "d_model": 16, "d_kv": 8, "num_layers": 2, "num_heads": 2,
                                   "d_ff": 16, "decoder_start_token_id": 0},
    "MarianMTModel": {"vocab_size": 40, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
                      "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 16,
                      "decoder_ffn_dim": 16, "max_position_embeddings": 32, "pad_token_id": 39, "eos_token_id": 2,
                      "decoder_start_token_id": 39},
    "BartForConditionalGeneration": {"vocab_size": 40, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
                                     "encoder_attention_heads": 2, "decoder_attention_heads": 2,
                                     "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "max_position_embeddings": 32,
                                     "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2,
                                     "decoder_start_token_id": 2, "forced_eos_token_id": 2},
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_an_imported_family_raises_no_alarm(name: str, tmp_path: Path) -> None:
    random_outside(name, **SMALL[name]).save_pretrained(tmp_path)
    checks = pellucid.examine(tmp_path)
    assert [check.text for check in checks if check.level == "BAD"] == []
    compared = checks[-1].text
    assert compared.startswith("conversions: ")
    assert "transformers, which reads the same folder" in compared
