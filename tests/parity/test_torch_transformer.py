"""The same weights in nn.Transformer give the same numbers: the stacks, forward and backward."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from pellucid.model.masks import causal_mask, padding_mask
from pellucid.model.transformer import Transformer
from tests.parity.torch_weights import close, copy_weights, pairs, torch_transformer
from tests.tiny_model import SRC_VOCAB_SIZE, TGT_VOCAB_SIZE, padded, tiny_model, words

VARIANTS: list[dict[str, Any]] = [
    {"norm": norm, "activation": activation, "bias": bias, "final_norm": final_norm}
    for norm in ("post", "pre")
    for activation in ("relu", "gelu")
    for bias in (True, False)
    for final_norm in (True, False)
]
VARIANTS += [
    {"activation": "silu"},
    {"norm_eps": 1e-2},
    {"num_encoder_layers": 1, "num_decoder_layers": 3},
    {"num_heads": 1},
]


def name_of(variant: dict[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in variant.items())


def batch() -> tuple[Tensor, Tensor]:
    """Sources and targets, both padded on the right."""
    src = padded(words(SRC_VOCAB_SIZE, 3, 7), [7, 4, 1])
    return src, padded(words(TGT_VOCAB_SIZE, 3, 5), [2, 5, 3])


def masks_of(src: Tensor, length: int, with_masks: bool) -> tuple[dict[str, Tensor | None], dict[str, Tensor]]:
    """Padding and causal masks as our stacks take them, and as nn.Transformer does; or none at all."""
    if not with_masks:
        return {"src": None, "tgt": None}, {}
    theirs = {
        "src_key_padding_mask": src == 0,
        "memory_key_padding_mask": src == 0,
        "tgt_mask": ~causal_mask(length)[0, 0],
    }
    return {"src": padding_mask(src, 0), "tgt": causal_mask(length)}, theirs


@pytest.mark.parametrize("with_masks", [True, False], ids=["masks", "no masks"])
@pytest.mark.parametrize("variant", VARIANTS, ids=name_of)
def test_outputs_and_gradients_of_the_stacks(variant: dict[str, Any], with_masks: bool) -> None:
    model = tiny_model(**variant)
    reference = torch_transformer(model)
    src, tgt = batch()
    ours, theirs = masks_of(src, tgt.size(1), with_masks)
    inputs = [model.src_embedding(src).detach(), model.tgt_embedding(tgt).detach()]
    x, y = (part.clone().requires_grad_() for part in inputs)
    reference_x, reference_y = (part.clone().requires_grad_() for part in inputs)

    states = model.decoder(y, model.encoder(x, ours["src"]), ours["tgt"], ours["src"])
    expected = reference(reference_x, reference_y, **theirs)

    close(states, expected, "output")
    direction = torch.randn_like(states) / states.numel() ** 0.5
    (states * direction).sum().backward()
    (expected * direction).sum().backward()
    close(x.grad, reference_x.grad, "gradient of the source")
    close(y.grad, reference_y.grad, "gradient of the target")
    for name, parameter, counterpart in stack_pairs(model, reference):
        close(parameter.grad, counterpart.grad, name)


def stack_pairs(model: Transformer, reference: torch.nn.Transformer) -> Iterator[tuple[str, Tensor, Tensor]]:
    yield from pairs(model.encoder, reference.encoder)
    yield from pairs(model.decoder, reference.decoder, in_decoder=True)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_logits_from_ids_and_gradients_of_the_embeddings(norm: str) -> None:
    """The masks that the model makes itself: padding of the source, causal for the target, padded or not."""
    model = tiny_model(norm=norm)
    reference = torch_transformer(model)
    src, tgt = batch()
    _, masks = masks_of(src, tgt.size(1), True)
    direction = torch.randn(*tgt.shape, TGT_VOCAB_SIZE) / 16

    logits = model(src, tgt)
    (logits * direction).sum().backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if "embedding" in name or "output" in name}
    model.zero_grad()
    expected = model.output_projection(reference(model.src_embedding(src), model.tgt_embedding(tgt), **masks))
    (expected * direction).sum().backward()

    close(logits, expected, "logits")
    assert set(gradients) == {"src_embedding.tokens.weight", "tgt_embedding.tokens.weight"}
    for name, gradient in gradients.items():
        close(gradient, model.get_parameter(name).grad, name)


def test_the_comparison_would_notice_one_wrong_weight() -> None:
    model = tiny_model()
    reference = torch_transformer(model)
    with torch.no_grad():
        model.decoder.layers[1].cross_attn_norm.bias[0] += 1e-2
    x, y = torch.randn(2, 4, 12), torch.randn(2, 3, 12)
    states = model.decoder(y, model.encoder(x, None), None, None)
    with pytest.raises(AssertionError, match="output"):
        close(states, reference(x, y), "output")
    copy_weights(model.decoder, reference.decoder, in_decoder=True)
    close(states, reference(x, y), "output")
