"""GPT-2, Llama, Mistral, Qwen2, Qwen3: logits, greedy outputs, with the cache and without."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.parity.hugging_face.outside import close, greedy, greedy_outside, opened, random_outside

pytestmark = pytest.mark.foreign

VOCAB = 37
GPT2: dict[str, Any] = {
    "vocab_size": VOCAB, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 32, "bos_token_id": 36,
    "eos_token_id": 36,
}  # fmt: skip
LLAMA: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 3,
    "num_key_value_heads": 3, "max_position_embeddings": 32, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
GROUPED = {"hidden_size": 24, "num_attention_heads": 6, "num_key_value_heads": 2, "num_hidden_layers": 3}
LLAMA_3 = {
    "rope_type": "llama3", "rope_theta": 100.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 48,
}  # fmt: skip
"""Waves of 6, 16, 42 and 112 tokens (of a head of 8): kept, in between, and divided."""
WIDE = {"hidden_size": 24, "num_attention_heads": 3}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("GPT2LMHeadModel", GPT2),
    ("GPT2LMHeadModel", GPT2 | {"n_embd": 15, "n_head": 5, "n_inner": 7, "n_layer": 3, "activation_function": "relu"}),
    ("GPT2LMHeadModel", GPT2 | {"tie_word_embeddings": False, "layer_norm_epsilon": 1e-3}),
    ("GPT2LMHeadModel", GPT2 | {"scale_attn_by_inverse_layer_idx": True, "n_layer": 3}),
    ("GPT2LMHeadModel", GPT2 | {"scale_attn_weights": False, "reorder_and_upcast_attn": True}),
    ("GPT2Model", GPT2),
    ("LlamaForCausalLM", LLAMA),
    ("LlamaForCausalLM", LLAMA | GROUPED | {"tie_word_embeddings": True, "rms_norm_eps": 1e-3}),
    ("LlamaForCausalLM", LLAMA | {"num_key_value_heads": 1, "head_dim": 6, "attention_bias": True}),
    ("LlamaForCausalLM", LLAMA | {"mlp_bias": True, "hidden_act": "gelu"}),
    ("LlamaForCausalLM", LLAMA | {"mlp_bias": True, "attention_bias": True}),
    ("LlamaForCausalLM", LLAMA | {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}),
    ("LlamaForCausalLM", LLAMA | {"rope_parameters": {"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0}}),
    ("LlamaForCausalLM", LLAMA | WIDE | {"rope_parameters": LLAMA_3}),
    ("LlamaForCausalLM", LLAMA | WIDE | {"rope_parameters": LLAMA_3 | {"factor": 2.5, "low_freq_factor": 2.0}}),
    ("MistralForCausalLM", LLAMA | {"sliding_window": None}),
    ("MistralForCausalLM", LLAMA | GROUPED | {"sliding_window": 32, "head_dim": 6, "tie_word_embeddings": True}),
    ("Qwen2ForCausalLM", LLAMA),
    ("Qwen2ForCausalLM", LLAMA | GROUPED | {"tie_word_embeddings": True}),
    ("Qwen2ForCausalLM", LLAMA | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}),
    ("Qwen3ForCausalLM", LLAMA | {"head_dim": 6}),
    ("Qwen3ForCausalLM", LLAMA | GROUPED | {"head_dim": 8, "tie_word_embeddings": True, "rms_norm_eps": 1e-3}),
    ("Qwen3ForCausalLM", LLAMA | {"head_dim": 4, "attention_bias": True}),
    ("Qwen2ForCausalLM", LLAMA | {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 2}),
]


def ids_of(case: tuple[str, dict[str, Any]]) -> str:
    usual = GPT2 | LLAMA
    return " ".join([case[0], *(f"{key}={value}" for key, value in case[1].items() if usual.get(key) != value)])


@pytest.mark.parametrize("case", CASES, ids=ids_of)
def test_a_decoder(case: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    name, settings = case
    theirs = random_outside(name, **settings)
    ours = opened(theirs, tmp_path)
    ids = torch.randint(0, VOCAB, (3, 9))  # no id is a pad
    with torch.inference_mode():
        out = theirs(ids, output_hidden_states=True)
        close(ours.states(ids), out.hidden_states[-1])
        if not hasattr(out, "logits"):
            return
        close(ours(ids), out.logits)
    start = torch.tensor([[ours.config.bos_id]])
    for prompt in (start, ids[:1], ids[1:2, :4]):
        expected = greedy_outside(theirs, prompt, 8, pad_token_id=0)
        assert greedy(ours, prompt, 8) == expected
