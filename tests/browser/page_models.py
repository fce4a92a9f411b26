"""Small random models of every shape, what Python computes of them, and the script by which Node opens them."""

import base64
import random
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.config.tables import to_table
from pellucid.model.families import DecoderOnly, Model, build_model
from pellucid.model.masks import causal_mask, padding_mask
from pellucid.model.observers import observe_attention
from pellucid.model.transformer import Transformer
from pellucid.weights.export.page_weights import PageWeights, page_weights

OPEN = """
const { readWeights } = await viewer("model/tensors.js"), { buildModel } = await viewer("model/families.js");
const open = (one) => buildModel(one.config, readWeights(new Uint8Array(Buffer.from(one.weights, "base64"))));
"""
"""`open(a)` is the model of a `Case`."""

CHOICES: dict[str, list[Any]] = {
    "src_vocab_size": [23, 31], "tgt_vocab_size": [23, 19], "d_model": [12, 16, 24], "d_ff": [20, 9],
    "num_heads": [4, 2, 1], "num_kv_heads": [None, 1, 2], "head_dim": [None, 6, 5],
    "num_encoder_layers": [2, 1, 3], "num_decoder_layers": [2, 3, 1], "num_classes": [3, 0],
    "classifier_activation": ["none", "tanh", "relu"], "pooling": ["first", "mean"],
    "dropout": [0.0, 0.5], "attention_dropout": [0.0, 0.5], "feed_forward_dropout": [0.0, 0.5],
    "norm": ["post", "pre"], "final_norm": [None, True, False], "embedding_norm": [False, True],
    "norm_type": ["layer", "rms"], "norm_eps": [1e-5, 0.1],
    "positions": ["sinusoidal", "learned", "rotary", "relative"], "rotary_base": [10000.0, 100.0],
    "rotary_factor": [1.0, 3.0], "rotary_wavelengths": [(), (9.0, 30.0)], "relative_num_buckets": [32, 8, 5],
    "relative_max_distance": [128, 20], "max_positions": [48, 5000], "activation": ["relu", "gelu", "gelu_tanh",
    "silu"],
    "gated_feed_forward": [False, True], "bias": [True, False], "qkv_bias": [None, True, False],
    "qk_norm": [False, True], "cross_query_norm": [True, False],
    "output_bias": [False, True], "scale_embeddings": [True, False], "num_segments": [0, 2],
    "tie_embeddings": ["decoder", "all", "none"], "pad_id": [0, None, 5], "bos_id": [1, 7], "eos_id": [2, 8],
}  # fmt: skip
"""What each field of a config may be here."""
FAMILIES = ("encoder-decoder", "encoder", "decoder")

Numbers = npt.NDArray[np.float32]


def drawn_config(family: str, seed: int) -> ModelConfig:
    """A config of a family in which every field is drawn from its choices."""
    draw = random.Random(f"{family} {seed}")
    chosen = {name: draw.choice(values) for name, values in CHOICES.items()}
    if family != "encoder":
        chosen["num_classes"] = 0
    if family == "encoder":
        chosen["num_decoder_layers"] = 0
    if family == "decoder":
        chosen["num_encoder_layers"] = 0
    if chosen["num_heads"] == 1:
        chosen["num_kv_heads"] = draw.choice([None, 1])
    if chosen["positions"] == "rotary" and (chosen["head_dim"] or chosen["d_model"] // chosen["num_heads"]) % 2:
        chosen["head_dim"] = 6
    if chosen["positions"] == "relative" and chosen["relative_num_buckets"] == 32:
        chosen["relative_max_distance"] = 128
    if chosen["tie_embeddings"] == "all":
        chosen["tgt_vocab_size"] = chosen["src_vocab_size"]
    return ModelConfig(**chosen)


def never_drawn(configs: list[ModelConfig]) -> dict[str, list[Any]]:
    """Of each field the choices that no config has."""
    seen = {field.name: {getattr(config, field.name) for config in configs} for field in fields(ModelConfig)}
    left = {name: [one for one in values if one not in seen[name]] for name, values in CHOICES.items()}
    return {name: values for name, values in left.items() if values}


def random_model(config: ModelConfig, seed: int = 0) -> Model:
    """A model in eval mode; biases and norms are random, too, so that a wrong one shows."""
    torch.manual_seed(seed)
    model = build_model(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1 or name.endswith("relative.bias.weight"):
                parameter.add_(torch.randn_like(parameter), alpha=0.5)
    return model


def random_ids(vocab_size: int, length: int, seed: int) -> list[int]:
    """Ids of the whole vocabulary, padding among them."""
    draw = random.Random(seed)
    return [draw.randrange(vocab_size) for _ in range(length)]


def opened(model: Model, weights: PageWeights = "float32") -> dict[str, Any]:
    """What `open` in Node takes."""
    packed = base64.b64encode(page_weights(model, weights)).decode()
    return {"config": to_table(model.config), "weights": packed}


@dataclass
class Pass:
    """What a model gives, and what each of its modules worked on, by place: field to numbers."""

    output: Numbers
    told: dict[str, dict[str, Numbers]]


@torch.no_grad()
def run(model: Model, src: list[int], tgt: list[int], hidden: tuple[int, ...] = (), **more: Any) -> Numbers:
    """The logits, states or classes of one sentence; a decoder alone reads `tgt`."""
    of_src, of_tgt = torch.tensor([src]), torch.tensor([tgt])
    if isinstance(model, DecoderOnly):
        if not hidden:
            return _numbers(model(of_tgt))
        mask = causal_mask(len(tgt))
        for place in hidden:
            mask[..., place + 1 :, place] = False
        states = model.decoder(model.tgt_embedding(of_tgt), None, mask, None)
        return _numbers(model.output_projection(states))
    mask_of_src = torch.ones(1, 1, 1, len(src), dtype=torch.bool)
    if (padding := padding_mask(of_src, model.config.pad_id)) is not None:
        mask_of_src = padding.clone()
    mask_of_src[..., list(hidden)] = False
    if isinstance(model, Transformer):
        return _numbers(model(of_src, of_tgt, mask_of_src))
    segments = torch.tensor([more["segments"]]) if model.config.num_segments else None
    return _numbers(model(of_src, segments, mask_of_src))


@torch.no_grad()
def observed(model: Model, src: list[int], tgt: list[int], **more: Any) -> Pass:
    """A pass, with inputs and outputs of all modules, and q, k, v, weights of attention."""
    told: dict[str, dict[str, Numbers]] = {}
    attentions: list[dict[str, Numbers]] = []

    def keep(place: str) -> Callable[..., None]:
        def hook(module: nn.Module, given: tuple[Tensor, ...], returned: Any) -> None:
            if isinstance(returned, Tensor) and returned.dim() >= 2:
                told[place] = {"output": _numbers(returned)}
                if isinstance(given[0], Tensor) and given[0].is_floating_point():
                    told[place]["input"] = _numbers(given[0])

        return hook

    def observer(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, output: Tensor) -> None:
        scores = q @ k.transpose(-2, -1) * q.size(-1) ** -0.5
        if bias is not None:
            scores = scores + bias
        weights = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
        weights = weights.softmax(-1).nan_to_num(0.0)
        whole = torch.ones(scores.shape[-2:], dtype=torch.bool) if mask is None else mask.expand(scores.shape)[0, 0]
        attentions.append(
            {"q": _numbers(q), "k": _numbers(k), "v": _numbers(v), "scores": _numbers(scores)}
            | {"weights": _numbers(weights), "mask": whole.numpy().astype(np.float32)}
        )

    hooks = [module.register_forward_hook(keep(name)) for name, module in model.named_modules() if name]
    try:
        with observe_attention(observer, model):
            output = run(model, src, tgt, **more)
    finally:
        for hook in hooks:
            hook.remove()
    places = [name for name in told if name.endswith("_attn")]
    for name, attention in zip(places, attentions, strict=True):
        # k and v of all heads of queries: those that share one have the same.
        told[name] |= attention
    return Pass(output, told)


@torch.no_grad()
def stepped(model: Model, ids: list[int], moves: list[tuple[list[int], list[int]]]) -> list[Numbers]:
    """The logits of steps by Python's cache: after each step of (tokens, parents) hypotheses are chosen by parents."""
    assert isinstance(model, Transformer | DecoderOnly)
    cache = model.start(torch.tensor([ids]), len(moves[0][0]))
    found = []
    for tokens, parents in moves:
        found.append(_numbers(model.step(torch.tensor([tokens]), cache)))
        cache.reorder(torch.tensor([parents]))
    return found


def compared(found: list[float], exact: Numbers) -> float:
    """The largest difference; the sizes must be the same."""
    numbers = np.array(found, dtype=np.float64)
    assert numbers.size == exact.size, (numbers.size, exact.shape)
    assert bool(np.isfinite(numbers).all())
    return float(np.abs(numbers - exact.ravel()).max())


def _numbers(tensor: Tensor) -> Numbers:
    return tensor.detach()[0].numpy().astype(np.float32)
