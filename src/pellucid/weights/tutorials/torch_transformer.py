"""Weights of PyTorch's own `torch.nn.Transformer`: bare stacks, or with the embeddings and the output around them.

In a state dict only the parts of `torch.nn` have fixed names. The parts around them have their author's names, so they
are found by shape and by the words in their names; if that is ambiguous, the caller must name them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.config import MAX_POSITIONS, ModelConfig
from pellucid.config.model import DROPOUTS, Activation
from pellucid.errors import CheckpointError, ConfigError, did_you_mean
from pellucid.model.build import Builder
from pellucid.model.families import DecoderOnly
from pellucid.model.layers import Decoder, Encoder
from pellucid.model.transformer import Transformer
from pellucid.weights.activations import ACTIVATIONS
from pellucid.weights.empty_models import build_uninitialised
from pellucid.weights.tensors import set_parameters
from pellucid.weights.tutorials.folding import is_sinusoidal_table
from pellucid.weights.tutorials.layouts import PYTORCH_TRANSFORMER
from pellucid.weights.tutorials.reading import check_heads, count_parts
from pellucid.weights.tutorials.source import TutorialTensors, read_state_dict

ENCODER_LAYER = {
    "self_attn.qkv_proj": "self_attn.in_proj_", "self_attn.out_proj": "self_attn.out_proj.",
    "self_attn_norm": "norm1.", "feed_forward.up_proj": "linear1.", "feed_forward.down_proj": "linear2.",
    "feed_forward_norm": "norm2.",
}  # fmt: skip
DECODER_LAYER = ENCODER_LAYER | {
    "cross_attn.qkv_proj": "multihead_attn.in_proj_", "cross_attn.out_proj": "multihead_attn.out_proj.",
    "cross_attn_norm": "norm2.", "feed_forward_norm": "norm3.",
}  # fmt: skip
IN_STACKS = re.compile(r"layers\.\d+\.(self_attn|multihead_attn|linear\d|norm\d)\.|(encoder|decoder)\.norm\.")
"""Names in `torch.nn`."""
SOURCE_WORDS = {"src", "source", "enc", "encoder", "input", "in"}
TARGET_WORDS = {"tgt", "trg", "tar", "target", "dec", "decoder", "output", "out"}
EMBEDDING_WORDS = {"emb", "embed", "embedding", "embeddings", "tok", "lut"}
OUTPUT_WORDS = {"generator", "out", "output", "fc", "linear", "proj", "projection", "head", "predictor", "vocab"}
POSITION_WORDS = {"pos", "pe", "position", "positions", "positional"}
"""Common names of the parts around the stacks."""


@dataclass(frozen=True, kw_only=True)
class TorchTransformerOptions:
    """Facts about a `torch.nn.Transformer` that its tensors do not contain."""

    norm_first: bool = False
    """True if norms precede the sublayers."""
    activation: Activation | None = None
    """The activation of the feed-forward sublayers; None: the default of torch.nn, relu."""
    norm_eps: float = 1e-5
    """The number that the norms add to the variance."""
    scale_embeddings: bool = True
    """True if embeddings are multiplied by the square root of their width, as in PyTorch's translation tutorial."""
    dropout: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(DROPOUTS, 0.1))
    """Probabilities, for further training."""
    src_embedding: str = ""
    """The name of the source's embedding; empty: found."""
    tgt_embedding: str = ""
    """The same for the target."""
    output: str = ""
    """The name of the projection to the vocabulary."""

    def __post_init__(self) -> None:
        if self.activation is not None and self.activation not in ACTIVATIONS:
            raise ConfigError(
                f"unknown `activation` `{self.activation}`{did_you_mean(self.activation, ACTIVATIONS)}",
                f"choose one of {', '.join(ACTIVATIONS)}",
            )


class EncoderDecoder(nn.Module):
    """The two stacks of figure 1 without embeddings and output projection, like `torch.nn.Transformer`.

    `config` has vocabularies of one word, which are unused.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        build = Builder(config)
        self.encoder: Encoder = build.encoder()
        self.decoder: Decoder = build.decoder()

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        """Returns the decoder's states (B, T, D) for embedded sources (B, S, D) and targets (B, T, D).

        Args:
            src_mask: which of the source may be attended to, by itself and by the target: bool, True = may attend (in
                `torch.nn` True = may not), broadcastable to (B, H, S, S) and to (B, H, T, S). None: all.
            tgt_mask: the same for the target by itself, broadcastable to (B, H, T, T). None: all, as in `torch.nn`.
        """
        states: Tensor = self.decoder(tgt, self.encoder(src, src_mask), tgt_mask, src_mask)  # (B, T, D)
        return states


def import_torch_transformer(
    tensors: Mapping[str, Tensor],
    num_heads: int,
    pad_id: int | None = 0,
    max_positions: int = MAX_POSITIONS,
    around: TorchTransformerOptions | None = None,
) -> Transformer | DecoderOnly:
    """Returns the model of a state dict: a `torch.nn.Transformer` between embeddings and a projection.

    A `torch.nn.TransformerEncoder` alone between an embedding and a projection to the same words is a language model,
    as in PyTorch's tutorial on them: its mask hides what follows, and a DecoderOnly comes back.

    Positions are a table of the state dict, one for both sides or one for each; a table that is section 3.5's is
    computed, and so are positions that the state dict does not have.

    Raises:
        ConfigError: a number of heads that does not divide the width; an unknown activation.
        CheckpointError: parts that are missing, unknown or of another shape, or whose part in the model is not clear.
    """
    around = around or TorchTransformerOptions()
    source = TutorialTensors(tensors, PYTORCH_TRANSFORMER)
    reader = _Stacks(source)
    check_heads(num_heads, reader.d_model)
    ours, fields = reader.read()
    fields |= _read_ends(source, ours, reader.d_model, around)
    fields |= _read_positions(source, ours, reader.d_model, max_positions)
    if reader.is_encoder_alone:
        ours, fields = _convert_to_decoder(ours, fields)
        pad_id = None
    source.leave_masks(r"(^|[._])mask$")
    source.finish()
    lengths = fields.pop("lengths", {})
    config = ModelConfig(
        **(fields | dict(around.dropout)), num_heads=num_heads, pad_id=pad_id,
        norm="pre" if around.norm_first else "post", activation=around.activation or "relu", norm_eps=around.norm_eps,
        scale_embeddings=around.scale_embeddings,
    )  # fmt: skip
    model = build_uninitialised(config)
    set_parameters(model, ours, "the state dict")
    assert isinstance(model, Transformer | DecoderOnly)
    for side, length in lengths.items():
        getattr(model, f"{side}_embedding").max_positions = length
    return model.eval()


def _convert_to_decoder(
    ours: Mapping[str, Tensor], fields: Mapping[str, Any]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Returns the tensors and the fields of an encoder alone as a decoder's without cross-attention."""
    tensors = {
        f"decoder.{name.removeprefix('encoder.')}" if name.startswith("encoder.") else name: tensor
        for name, tensor in ours.items()
        if not name.startswith("src_embedding.")
    }
    tensors["tgt_embedding.tokens.weight"] = ours["src_embedding.tokens.weight"]
    lengths = {side: length for side, length in fields.get("lengths", {}).items() if side == "tgt"}
    return tensors, dict(fields) | {
        "num_encoder_layers": 0, "num_decoder_layers": fields["num_encoder_layers"], "lengths": lengths,
        "tie_embeddings": "none" if fields["tie_embeddings"] == "none" else "decoder",
    }  # fmt: skip


def from_torch(
    module: nn.Module,
    *,
    pad_id: int | None = 0,
    max_positions: int = MAX_POSITIONS,
    scale_embeddings: bool = True,
    src_embedding: str = "",
    tgt_embedding: str = "",
    output: str = "",
) -> Transformer | DecoderOnly | EncoderDecoder | Encoder | Decoder:
    """Returns a PyTorch Transformer as a Pellucid model, in evaluation mode. Masks are inverted: True = may attend.

    Norms, activation, heads and dropout are read off the module. Ours is batch first, whatever `batch_first` was.

    Args:
        module: a `torch.nn.Transformer` (an EncoderDecoder comes back: embedded sequences in, states out), a
            `torch.nn.TransformerEncoder` or `TransformerDecoder` (that stack alone); or a custom module that holds one
            `torch.nn.Transformer` between embeddings and a projection (a Transformer comes back), or one
            `torch.nn.TransformerEncoder` alone (a DecoderOnly).
        pad_id: the padding id of sources, which is masked; None: every id is a word.
        max_positions: the number of positions of a model that computes them and has none saved.
        scale_embeddings: whether the module multiplies its embeddings by the square root of their width.
        src_embedding, tgt_embedding, output: the names of these parts, if they are ambiguous.

    Raises:
        ConfigError: a module that holds no such stacks, or more than one.
        CheckpointError: what cannot be expressed, with its value; parts that are missing or not clear.
    """
    stacks = module if isinstance(module, nn.TransformerEncoder | nn.TransformerDecoder) else _find_transformer(module)
    told = _read_fields(stacks)
    around = TorchTransformerOptions(
        norm_first=told["norm"] == "pre", activation=told["activation"], norm_eps=told["norm_eps"],
        dropout={name: told[name] for name in DROPOUTS},
        scale_embeddings=scale_embeddings, src_embedding=src_embedding, tgt_embedding=tgt_embedding, output=output,
    )  # fmt: skip
    if stacks is not module:
        return import_torch_transformer(
            read_state_dict(module.state_dict()), told["num_heads"], pad_id, max_positions, around
        )
    reader = _Stacks(TutorialTensors(read_state_dict(module.state_dict()), PYTORCH_TRANSFORMER), whole=False)
    ours, fields = reader.read()
    reader.source.finish()
    fields |= told | {"src_vocab_size": 1, "tgt_vocab_size": 1, "pad_id": None, "max_positions": 1}
    bare = EncoderDecoder(ModelConfig(**{"num_encoder_layers": 1, "num_decoder_layers": 1} | fields))
    if isinstance(module, nn.Transformer):
        set_parameters(bare, ours, "the module")
        return bare.eval()
    side = "encoder" if isinstance(module, nn.TransformerEncoder) else "decoder"
    stack: Encoder | Decoder = getattr(bare, side)
    set_parameters(stack, {name.removeprefix(f"{side}."): tensor for name, tensor in ours.items()}, "the module")
    return stack.eval()


def _find_transformer(module: nn.Module) -> nn.Module:
    """Returns the one `torch.nn.Transformer` in a module, or else the one `torch.nn.TransformerEncoder`."""
    if isinstance(module, nn.Transformer):
        return module
    parts = list(module.modules()) if isinstance(module, nn.Module) else []
    found: list[nn.Module] = [part for part in parts if isinstance(part, nn.Transformer)]
    found = found or [part for part in parts if isinstance(part, nn.TransformerEncoder)]
    if len(found) != 1:
        raise ConfigError(
            f"a `{type(module).__name__}` with {len(found)} `torch.nn.Transformer` in it was given, exactly one is "
            "required",
            "pass a torch.nn.Transformer, its encoder or decoder, or a module that holds one",
        )
    return found[0]


def _read_fields(stacks: nn.Module) -> dict[str, Any]:
    """Returns the settings of the stacks' layers that are not in tensors, as fields of a config."""
    kinds = nn.TransformerEncoderLayer | nn.TransformerDecoderLayer
    layers = [layer for layer in stacks.modules() if isinstance(layer, kinds)]
    if not layers:
        raise CheckpointError("the module has no layers of `torch.nn`", "custom layers cannot be imported")
    norms = [norm for norm in stacks.modules() if isinstance(norm, nn.LayerNorm)]
    return {
        "num_heads": _one("nhead", [layer.self_attn.num_heads for layer in layers]),
        "norm": "pre" if _one("norm_first", [layer.norm_first for layer in layers]) else "post",
        "activation": _activation(_one("activation", [layer.activation for layer in layers], by=_activation)),
        "norm_eps": _one("layer_norm_eps", [norm.eps for norm in norms]),
        "dropout": layers[0].dropout1.p,
        "attention_dropout": layers[0].self_attn.dropout,
        "feed_forward_dropout": layers[0].dropout.p,
    }


def _one(name: str, values: list[Any], by: Any = lambda value: value) -> Any:
    """Returns the one value that all layers have. Raises CheckpointError for several."""
    if len(found := {by(value) for value in values}) != 1:
        raise CheckpointError(
            f"the layers differ in `{name}`: {', '.join(sorted(map(str, found)))}",
            "Pellucid has one value for all layers",
        )
    return values[0]


def _activation(function: Any) -> Activation:
    """Returns the config's name of an activation, given as a function or a module."""
    if isinstance(function, nn.GELU):
        return "gelu_tanh" if function.approximate == "tanh" else "gelu"
    if function in (F.relu, torch.relu) or isinstance(function, nn.ReLU):
        return "relu"
    if function in (F.silu,) or isinstance(function, nn.SiLU):
        return "silu"
    if function is F.gelu:
        return "gelu"
    raise CheckpointError(
        f"the activation `{getattr(function, '__name__', type(function).__name__)}` is not supported",
        f"supported are {', '.join(ACTIVATIONS)}",
    )


class _Stacks:
    """The layers of `torch.nn` in a state dict: their prefixes, their sizes, their tensors by Pellucid's names.

    `whole`: both stacks are needed, not one of them.
    """

    def __init__(self, source: TutorialTensors, whole: bool = True) -> None:
        self.source = source
        first = re.compile(r"(.*?)layers\.0\.self_attn\.in_proj_weight$")
        places = [match[1] for name in source.tensors if (match := first.match(name))]
        decoders = [place for place in places if f"{place}layers.0.multihead_attn.in_proj_weight" in source]
        encoders = [place for place in places if place not in decoders]
        if max(len(encoders), len(decoders)) > 1 or not places or (whole and not encoders):
            raise CheckpointError(
                f"the state dict has {len(encoders)} encoders and {len(decoders)} decoders of `torch.nn`, "
                "but a Transformer has one each, and a language model one encoder",
                "save the state dict of the module that holds one torch.nn.Transformer, or one TransformerEncoder",
            )
        self.is_encoder_alone: bool = whole and not decoders
        self.places = dict(zip(("encoder", "decoder"), (encoders, decoders), strict=True))
        rows, self.d_model = source.shape(f"{places[0]}layers.0.self_attn.in_proj_weight", 2)
        if rows != 3 * self.d_model:
            raise CheckpointError(
                f"`{places[0]}layers.0.self_attn.in_proj_weight` has {rows} rows, not 3 x its columns"
            )
        self.d_ff = source.shape(f"{places[0]}layers.0.linear1.weight", 2)[0]
        self.bias = f"{places[0]}layers.0.linear1.bias" in source

    def read(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Returns the tensors of the stacks by Pellucid's names, and the config fields that follow from them."""
        ours: dict[str, Tensor] = {}
        fields: dict[str, Any] = {"d_model": self.d_model, "d_ff": self.d_ff, "bias": self.bias}
        final_norms = set()
        for side, places in self.places.items():
            for place in places:
                count = count_parts(self.source.tensors, f"{place}layers.")
                fields[f"num_{side}_layers"] = count
                for number in range(count):
                    self._read_layer(ours, side, place, number)
                final_norms.add(f"{place}norm.weight" in self.source)
                if f"{place}norm.weight" in self.source:
                    self._take(ours, f"{side}.norm", f"{place}norm.", (self.d_model,))
        if len(final_norms) > 1:
            raise CheckpointError(
                "only one of the two stacks ends with a norm", "Pellucid has a final norm in both stacks or in neither"
            )
        return ours, fields | {"final_norm": final_norms.pop()}

    def _read_layer(self, ours: dict[str, Tensor], side: str, place: str, number: int) -> None:
        for part, theirs in (ENCODER_LAYER if side == "encoder" else DECODER_LAYER).items():
            shape: tuple[int, ...] = (self.d_model,)
            if part.endswith("qkv_proj"):
                shape = (3 * self.d_model, self.d_model)
            elif part.endswith("_proj"):
                shape = {"up_proj": (self.d_ff, self.d_model), "down_proj": (self.d_model, self.d_ff)}.get(
                    part.rpartition(".")[2], (self.d_model, self.d_model)
                )
            self._take(ours, f"{side}.layers.{number}.{part}", f"{place}layers.{number}.{theirs}", shape)

    def _take(self, ours: dict[str, Tensor], part: str, theirs: str, shape: tuple[int, ...]) -> None:
        ours[f"{part}.weight"] = self.source.take(f"{theirs}weight", *shape)
        if self.bias:
            ours[f"{part}.bias"] = self.source.take(f"{theirs}bias", shape[0])


def _read_ends(
    source: TutorialTensors, ours: dict[str, Tensor], d_model: int, around: TorchTransformerOptions
) -> dict[str, Any]:
    """Reads the embeddings and the output into `ours`, and returns the config fields that follow from them."""
    outside = {name: tensor for name, tensor in source.tensors.items() if not IN_STACKS.search(name)}
    src, tgt, output = _ends(outside, d_model, around)
    fields: dict[str, Any] = {"output_bias": False}
    for side, name in (("src", src), ("tgt", tgt)):
        fields[f"{side}_vocab_size"] = size = len(outside[name])
        ours[f"{side}_embedding.tokens.weight"] = source.take(name, size, d_model)
    if (
        output is not None
        and src == tgt
        and len(outside[output]) != size
        and not any(".multihead_attn." in name for name in source.tensors)
    ):
        raise CheckpointError(
            f"it looks like an encoder of `torch.nn` that ends in {len(outside[output])} numbers (`{output}`) for "
            f"{size:,} words (`{src}`): a classifier or a tagger",
            "single encoders are imported if their output has the size of the vocabulary: language models",
        )
    if output is not None:
        fields["tie_embeddings"] = "none"
        ours["output_projection.weight"] = source.take(output, size, d_model)
        bias = f"{output.removesuffix('weight')}bias"
    else:
        fields["tie_embeddings"] = "all" if src == tgt else "decoder"
        if src == tgt:
            del ours["tgt_embedding.tokens.weight"]
        bias = next((name for name in outside if name.endswith("bias") and outside[name].shape == (size,)), "")
    if bias in source:
        fields["output_bias"] = True
        ours["output_projection.bias"] = source.take(bias, size)
    return fields


def _ends(outside: Mapping[str, Tensor], d_model: int, around: TorchTransformerOptions) -> tuple[str, str, str | None]:
    """Returns the names of the source's embedding, the target's (the same if they share one), and the output.

    The output is None if it is missing: then the target's embedding is used. A projection is recognized by its bias or
    a word in its name, the side of an embedding by a word in its name.

    Raises CheckpointError with all candidates if that is ambiguous.
    """
    matrices = {
        name: tuple(tensor.shape)
        for name, tensor in outside.items()
        if tensor.dim() == 2 and tensor.size(1) == d_model and not _words(name) & POSITION_WORDS
    }
    listed = ", ".join(f"`{name}` {shape}" for name, shape in matrices.items()) or "none"

    def get_given(option: str) -> str | None:
        name = getattr(around, option)
        found = next((full for full in (name, f"{name}.weight") if full in matrices), None)
        if name and found is None:
            raise CheckpointError(
                f"`{option}` is `{name}`, but no matrix of {d_model} columns has this name", f"candidates: {listed}"
            )
        return found

    def one(option: str, candidates: list[str]) -> str:
        if len(candidates) != 1:
            could_be = ", ".join(f"`{name}`" for name in candidates) or "none"
            raise CheckpointError(
                f"it is not clear which matrix is the `{option}`; it could be: {could_be}",
                f"give its name as `{option}`; candidates: {listed}",
            )
        return candidates[0]

    src, tgt, output = get_given("src_embedding"), get_given("tgt_embedding"), get_given("output")
    rest = [name for name in matrices if name not in (src, tgt, output)]
    if output is None:
        projections = [name for name in rest if f"{name.removesuffix('weight')}bias" in outside]
        projections = projections or [
            name for name in rest if _words(name) & OUTPUT_WORDS and not _words(name) & EMBEDDING_WORDS
        ]
        output = one("output", projections) if projections else None
    rest = [name for name in rest if name != output]
    if src is None and tgt is None and len(rest) == 1:
        return rest[0], rest[0], output
    of_src, of_tgt = ([name for name in rest if _words(name) & words] for words in (SOURCE_WORDS, TARGET_WORDS))
    if src is None:
        src = one("src_embedding", of_src or [name for name in rest if name not in of_tgt])
    if tgt is None:
        tgt = one("tgt_embedding", [name for name in of_tgt or rest if name != src])
    return src, tgt, output


def _words(name: str) -> set[str]:
    """Returns the words of a name, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def _read_positions(
    source: TutorialTensors, ours: dict[str, Tensor], d_model: int, max_positions: int
) -> dict[str, Any]:
    """Reads tables of positions, (L, D) or (1, L, D) or (L, 1, D): computed where section 3.5's, else learned."""
    tables: dict[str, Tensor] = {}
    for name in [name for name in source.tensors if not IN_STACKS.search(name) and _words(name) & POSITION_WORDS]:
        shape = tuple(source.tensors[name].shape)
        if shape[-1] == d_model and len(shape) >= 2 and np.prod(shape[:-1]) == max(shape[:-1]):
            tables[name] = source.take(name, *shape).reshape(-1, d_model)
    if all(is_sinusoidal_table(table) for table in tables.values()):
        return {"max_positions": max([max_positions, *map(len, tables.values())])}
    if len(tables) > 2:
        raise CheckpointError(
            f"{len(tables)} tables of positions are too many: {', '.join(f'`{name}`' for name in tables)}",
            "a model has one table, or one per side",
        )
    names = list(tables)
    src = next((name for name in names if _words(name) & SOURCE_WORDS), names[0])
    tgt = next((name for name in names if name != src), src)
    lengths = {"src": len(tables[src]), "tgt": len(tables[tgt])}
    most = max(lengths.values())
    for side, name in (("src", src), ("tgt", tgt)):  # Pellucid has one length: the rest of the shorter one is unused
        ours[f"{side}_embedding.positions.weight"] = F.pad(tables[name], (0, 0, 0, most - lengths[side]))
    return {"positions": "learned", "max_positions": most, "lengths": lengths}
