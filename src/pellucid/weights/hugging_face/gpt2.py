"""GPT-2: a decoder alone with pre-norm and learned positions, its matrices stored transposed."""

import re
from typing import Any

from pellucid.weights.hugging_face.family import Family, Tensors
from pellucid.weights.hugging_face.settings import HuggingFaceConfig

LAYER = "decoder.layers.{i}"


def _shape(settings: HuggingFaceConfig, tensors: Tensors) -> dict[str, Any]:
    return {"d_ff": settings["n_inner"] or 4 * settings["n_embd"]}


def _arithmetic(settings: HuggingFaceConfig, tensors: Tensors) -> Tensors:
    """Returns matrices transposed to (out, in); a score scale other than K^-0.5 multiplied into the rows of the
    queries.
    """
    found = {name: tensors[name].t() for name in tensors if re.fullmatch(r"h\.\d+\.(attn|mlp)\.c_\w+\.weight", name)}
    width = settings["n_embd"]
    for layer in range(settings["n_layer"]):
        scale = 1.0 if settings["scale_attn_weights"] else (width // settings["n_head"]) ** 0.5
        scale /= layer + 1 if settings["scale_attn_by_inverse_layer_idx"] else 1
        for kind in ("weight", "bias"):
            name = f"h.{layer}.attn.c_attn.{kind}"
            if scale != 1.0 and name in tensors:
                found[name] = found.get(name, tensors[name]).clone()
                found[name][:width] *= scale
    return found


GPT2 = Family(
    kind="decoder",
    prefix="transformer.",
    fields={
        "d_model": "n_embd", "num_heads": "n_head", "num_decoder_layers": "n_layer", "src_vocab_size": "vocab_size",
        "tgt_vocab_size": "vocab_size", "max_positions": "n_positions", "activation": "activation_function",
        "norm_eps": "layer_norm_epsilon", "dropout": "resid_pdrop", "attention_dropout": "attn_pdrop",
    },
    fixed={
        "num_encoder_layers": 0, "norm": "pre", "final_norm": True, "positions": "learned", "scale_embeddings": False,
    },
    defaults={
        "n_embd": 768, "n_head": 12, "n_layer": 12, "n_inner": None, "vocab_size": 50257, "n_positions": 1024,
        "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "resid_pdrop": 0.1, "attn_pdrop": 0.1,
        "scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "tie_word_embeddings": True,
        "bos_token_id": 50256, "eos_token_id": 50256,
    },
    only={"add_cross_attention": False},
    modules={
        "tgt_embedding.tokens": "wte",
        "tgt_embedding.positions": "wpe",
        f"{LAYER}.self_attn_norm": "h.{i}.ln_1",
        f"{LAYER}.self_attn.qkv_proj": "h.{i}.attn.c_attn",
        f"{LAYER}.self_attn.out_proj": "h.{i}.attn.c_proj",
        f"{LAYER}.feed_forward_norm": "h.{i}.ln_2",
        f"{LAYER}.feed_forward.up_proj": "h.{i}.mlp.c_fc",
        f"{LAYER}.feed_forward.down_proj": "h.{i}.mlp.c_proj",
        "decoder.norm": "ln_f",
        "output_projection": "lm_head",
    },
    heads=(r"score\..*", r"multiple_choice_head\..*", r"classifier\..*", r"qa_outputs\..*", r"v_head\..*"),
    buffers=(r"h\.\d+\.attn\.(bias|masked_bias)",),
    shape=_shape,
    arithmetic=_arithmetic,
)  # fmt: skip
