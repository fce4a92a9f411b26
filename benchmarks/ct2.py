"""A peer in decoding: CTranslate2 with the weights of a Pellucid model."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import numpy.typing as npt
from ctranslate2.specs.transformer_spec import TransformerSpec
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.model.transformer import Transformer


def to_ctranslate2(model: Transformer, unk_id: int, folder: Path, threads: int) -> Any:
    """The CTranslate2 translator that computes what `model` does, in single precision; its words are the ids as text.

    The specification is written here, since the package's Marian converter starts from a zero embedding instead of
    the start token. For a model of the shape that marian.check_shape demands.
    """
    config = model.config
    spec = TransformerSpec.from_config(
        (config.num_encoder_layers, config.num_decoder_layers), config.num_heads, pre_norm=False
    )
    for stack, part in ((model.encoder, spec.encoder), (model.decoder, spec.decoder)):
        part.scale_embeddings = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        part.position_encodings.encodings = _array(model.get_buffer("tgt_embedding.positions.table"))
        for layer, target in zip(stack.layers, part.layer, strict=True):
            _set_layer(layer, target)
    spec.encoder.embeddings[0].weight = _array(model.src_embedding.tokens.weight)
    spec.decoder.embeddings.weight = spec.decoder.projection.weight = _array(model.output_projection.weight)
    words = [str(i) for i in range(config.tgt_vocab_size)]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.bos_token = spec.config.decoder_start_token = words[config.bos_id]
    spec.config.eos_token, spec.config.unk_token = words[config.eos_id], words[unk_id]
    spec.config.layer_norm_epsilon = config.norm_eps
    spec.validate()
    spec.optimize(quantization=None)
    folder.mkdir()
    spec.save(str(folder))
    return ctranslate2.Translator(str(folder), compute_type="float32", inter_threads=1, intra_threads=threads)


def translate(
    translator: Any, config: ModelConfig, sources: Sequence[Sequence[int]], beam_size: int
) -> list[list[int]]:
    """The best output for each source, in one batch, as ids without start and end."""
    longest = max(len(source) for source in sources)
    results = translator.translate_batch(
        [_words(source, config) for source in sources], beam_size=beam_size, length_penalty=1.0,
        max_decoding_length=min(2 * longest + 50, config.max_positions - 1),
    )  # fmt: skip
    return [[int(word) for word in result.hypotheses[0]] for result in results]


def score(
    translator: Any, config: ModelConfig, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> list[float]:
    """The log-probability of each target, end included: what proves that the weights are the same."""
    words = [[str(i) for i in target] for target in targets]
    results = translator.score_batch([_words(source, config) for source in sources], words)
    return [sum(result.log_probs) for result in results]


def _words(source: Sequence[int], config: ModelConfig) -> list[str]:
    return [str(i) for i in (*source, config.eos_id)]


def _set_layer(layer: nn.Module, target: Any) -> None:
    _set_attention(layer.get_submodule("self_attn"), target.self_attention, packed=(3,))
    _set_norm(layer.get_submodule("self_attn_norm"), target.self_attention.layer_norm)
    if hasattr(layer, "cross_attn"):
        _set_attention(layer.get_submodule("cross_attn"), target.attention, packed=(1, 2))
        _set_norm(layer.get_submodule("cross_attn_norm"), target.attention.layer_norm)
    _set_linear(layer.get_submodule("feed_forward.up_proj"), target.ffn.linear_0)
    _set_linear(layer.get_submodule("feed_forward.down_proj"), target.ffn.linear_1)
    _set_norm(layer.get_submodule("feed_forward_norm"), target.ffn.layer_norm)


def _set_attention(attention: nn.Module, target: Any, packed: tuple[int, ...]) -> None:
    """`packed`: how many of query, key and value each of the target's matrices holds."""
    packing = attention.get_submodule("qkv_proj")
    width, start = packing.get_parameter("weight").size(1), 0
    for linear, count in zip(target.linear, packed, strict=False):
        rows = slice(start * width, (start + count) * width)
        linear.weight = _array(packing.get_parameter("weight")[rows])
        linear.bias = _array(packing.get_parameter("bias")[rows])
        start += count
    _set_linear(attention.get_submodule("out_proj"), target.linear[-1])


def _set_linear(linear: nn.Module, target: Any) -> None:
    target.weight, target.bias = _array(linear.get_parameter("weight")), _array(linear.get_parameter("bias"))


def _set_norm(norm: nn.Module, target: Any) -> None:
    target.gamma, target.beta = _array(norm.get_parameter("weight")), _array(norm.get_parameter("bias"))


def _array(tensor: Tensor) -> npt.NDArray[np.float32]:
    """A copy: CTranslate2 may change what it is given in place."""
    return tensor.detach().float().numpy().copy()
