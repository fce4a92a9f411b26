"""The same weights in `torch.nn`: its modules built from ours, parameter by parameter."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from pellucid.model.transformer import Transformer

# Ours, theirs; the first that fits. Masks are the other way round there: True = blocked.
_ENCODER = {"self_attn_norm": "norm1", "feed_forward_norm": "norm2"}
_DECODER = {"self_attn_norm": "norm1", "cross_attn_norm": "norm2", "feed_forward_norm": "norm3"}
_BOTH = {
    "qkv_proj.": "in_proj_",
    "cross_attn.": "multihead_attn.",
    "feed_forward.up_proj": "linear1",
    "feed_forward.down_proj": "linear2",
}


def torch_name(name: str, in_decoder: bool) -> str:
    """The name in `torch.nn` of one of our parameters, within a layer or a stack."""
    for ours, theirs in ((_DECODER if in_decoder else _ENCODER) | _BOTH).items():
        name = name.replace(ours, theirs)
    return name


def pairs(ours: nn.Module, theirs: nn.Module, in_decoder: bool = False) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Each parameter of `ours` with its name and its counterpart; all of `theirs` must have one."""
    their_parameters = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        yield name, parameter, their_parameters.pop(torch_name(name, in_decoder))
    assert not their_parameters


def copy_weights(ours: nn.Module, theirs: nn.Module, in_decoder: bool = False) -> None:
    """Gives `theirs` the weights of `ours`."""
    with torch.no_grad():
        for _, parameter, counterpart in pairs(ours, theirs, in_decoder):
            counterpart.copy_(parameter)


def torch_transformer(model: Transformer) -> nn.Transformer:
    """The stacks of `model` as `nn.Transformer`, which leaves out embeddings and output projection."""
    config = model.config
    options = {
        "dim_feedforward": config.d_ff,
        "dropout": 0.0,
        "activation": getattr(nn.functional, config.activation),
        "layer_norm_eps": config.norm_eps,
        "batch_first": True,
        "norm_first": config.norm == "pre",
        "bias": config.bias,
    }
    norms = [
        nn.LayerNorm(config.d_model, config.norm_eps, bias=config.bias) if config.has_final_norm else None
        for _ in range(2)
    ]
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(config.d_model, config.num_heads, **options),
        config.num_encoder_layers,
        norms[0],
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(config.d_model, config.num_heads, **options), config.num_decoder_layers, norms[1]
    )
    whole = nn.Transformer(
        config.d_model, config.num_heads, custom_encoder=encoder, custom_decoder=decoder, batch_first=True
    )
    # It has initialised all of its parameters anew.
    copy_weights(model.encoder, encoder)
    copy_weights(model.decoder, decoder, in_decoder=True)
    return whole


def close(actual: Tensor | None, expected: Tensor | None, name: str = "") -> None:
    """Asserts that two tensors agree within 1e-5, absolutely for small numbers."""
    assert actual is not None, name
    assert expected is not None, name
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5, msg=lambda text: f"{name}: {text}")
