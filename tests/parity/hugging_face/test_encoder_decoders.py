"""MarianMT, BART, mBART, M2M-100 and NLLB, T5, mT5: memory, logits, greedy outputs, with the cache and without."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.parity.hugging_face.outside import close, greedy, greedy_outside, opened, padded_ids, random_outside

pytestmark = pytest.mark.foreign

VOCAB = 37
BART_SIZES: dict[str, Any] = {
    "vocab_size": VOCAB, "d_model": 12, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 3,
    "decoder_attention_heads": 3, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "max_position_embeddings": 32,
}  # fmt: skip
OTHER_SIZES: list[dict[str, Any]] = [
    {"d_model": 15, "encoder_attention_heads": 5, "decoder_attention_heads": 5, "encoder_layers": 1},
    {"decoder_layers": 3, "encoder_ffn_dim": 7, "scale_embedding": True, "activation_function": "relu"},
    {"decoder_ffn_dim": 9, "scale_embedding": False, "activation_function": "swish", "encoder_attention_heads": 1,
     "decoder_attention_heads": 1},
    {"tie_word_embeddings": False, "activation_function": "gelu_new"},
]  # fmt: skip
MARIAN = {"pad_token_id": VOCAB - 1, "decoder_start_token_id": VOCAB - 1, "eos_token_id": 0, "forced_eos_token_id": 0}
SHARED = {"decoder_vocab_size": VOCAB} | MARIAN
APART = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 41} | MARIAN
CASES: list[tuple[str, dict[str, Any]]] = [
    *[("MarianMTModel", BART_SIZES | SHARED | sizes) for sizes in [{}, *OTHER_SIZES]],
    *[("MarianMTModel", BART_SIZES | APART | sizes) for sizes in [{}, *OTHER_SIZES]],
    *[
        ("PegasusForConditionalGeneration", BART_SIZES | {"pad_token_id": 0, "eos_token_id": 1} | s)
        for s in OTHER_SIZES
    ],
    *[("BartForConditionalGeneration", BART_SIZES | sizes) for sizes in [{}, *OTHER_SIZES]],
    *[("M2M100ForConditionalGeneration", BART_SIZES | sizes) for sizes in [{}, {"pad_token_id": 4}, *OTHER_SIZES]],
    *[("MBartForConditionalGeneration", BART_SIZES | {"decoder_start_token_id": 9} | s) for s in [{}, *OTHER_SIZES]],
]
T5_SIZES: dict[str, Any] = {
    "vocab_size": VOCAB, "d_model": 12, "d_ff": 20, "d_kv": 5, "num_heads": 3, "num_layers": 2,
    "num_decoder_layers": 2, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12,
    "decoder_start_token_id": 0,
}  # fmt: skip
CASES += [
    ("T5ForConditionalGeneration", T5_SIZES | more)
    for more in [
        {},
        {"num_decoder_layers": 3, "d_kv": 8, "num_heads": 1, "dropout_rate": 0.3},
        {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        {
            "feed_forward_proj": "gated-silu",
            "num_layers": 1,
            "relative_attention_num_buckets": 32,
            "relative_attention_max_distance": 20,
        },
        {"feed_forward_proj": "gelu", "layer_norm_epsilon": 1e-3, "d_model": 15},
    ]
]
CASES += [
    ("MT5ForConditionalGeneration", T5_SIZES | more)
    for more in [{}, {"feed_forward_proj": "relu", "num_decoder_layers": 3, "num_heads": 2, "d_kv": 8}]
]


def ids_of(case: tuple[str, dict[str, Any]]) -> str:
    usual = BART_SIZES | T5_SIZES
    return " ".join([case[0], *(f"{key}={value}" for key, value in case[1].items() if usual.get(key) != value)])


@pytest.mark.parametrize("case", CASES, ids=ids_of)
def test_an_encoder_decoder(case: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    name, settings = case
    theirs = random_outside(name, **settings)
    if "final_logits_bias" in dict(theirs.named_buffers()):
        theirs.final_logits_bias.normal_()
    ours = opened(theirs, tmp_path)
    pad_id = theirs.config.pad_token_id
    src, real = padded_ids(VOCAB, [9, 4, 1], pad_id)
    tgt, tgt_real = padded_ids(VOCAB, [3, 5, 2], pad_id)
    tgt[:, 0] = ours.config.bos_id
    with torch.inference_mode():
        out = theirs(input_ids=src, attention_mask=real.long(), decoder_input_ids=tgt)
        close(ours.encode(src), out.encoder_last_hidden_state, real)
        close(ours(src, tgt), out.logits, tgt_real)
        close(ours(src[:1], tgt[:1]), theirs(input_ids=src[:1], decoder_input_ids=tgt[:1]).logits, tgt_real[:1])
    for row, length in ((0, 9), (1, 4)):
        source = src[row : row + 1, :length]
        # A pad id within an output moves the positions of M2M-100, but not of the model that was trained.
        expected = greedy_outside(theirs, source, 8, suppress_tokens=[pad_id], forced_eos_token_id=None)
        assert greedy(ours, source, 8, banned=pad_id) == expected
