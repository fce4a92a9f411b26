"""Weights of PyTorch's own `torch.nn.Transformer`: bare stacks, or with the embeddings and the output around them.

In a state dict only the parts of `torch.nn` have names of their own. What stands around them is called as its author
liked, so it is found by shape and by the words in its name, and asked for where that is not clear.
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
from pellucid.model.layers import Decoder, Encoder
from pellucid.model.transformer import Transformer
from pellucid.weights.activations import ACTIVATIONS
from pellucid.weights.building import build_unfilled
from pellucid.weights.tensors import set_parameters
from pellucid.weights.tutorials.folding import are_the_papers
from pellucid.weights.tutorials.layouts import PYTORCH_TRANSFORMER
from pellucid.weights.tutorials.reading import check_heads, count_parts
from pellucid.weights.tutorials.source import Source, read_state_dict

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
"""Names of `torch.nn`'s own."""
SOURCE_WORDS = {"src", "source", "enc", "encoder", "input", "in"}
TARGET_WORDS = {"tgt", "trg", "tar", "target", "dec", "decoder", "output", "out"}
EMBEDDING_WORDS = {"emb", "embed", "embedding", "embeddings", "tok", "lut"}
OUTPUT_WORDS = {"generator", "out", "output", "fc", "linear", "proj", "projection", "head", "predictor", "vocab"}
POSITION_WORDS = {"pos", "pe", "position", "positions", "positional"}
"""The names that people give the parts around."""


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """The facts that no tensor of a `torch.nn.Transformer` tells."""

    norm_first: bool = False
    """Norms stand before the sublayers."""
    activation: Activation = "relu"
    """The activation of the feed-forward sublayers."""
    norm_eps: float = 1e-5
    """The number that the norms add to the variance."""
    scale_embeddings: bool = True
    """Embeddings are multiplied by the square root of their width, as PyTorch's translation tutorial does."""
    dropout: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(DROPOUTS, 0.1))
    """Probabilities, for further training."""
    src_embedding: str = ""
    """The name of the source's embedding; empty: found."""
    tgt_embedding: str = ""
    """The same for the target."""
    output: str = ""
    """The name of the projection to the vocabulary."""

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise ConfigError(
                f"unknown `activation` `{self.activation}`{did_you_mean(self.activation, ACTIVATIONS)}",
                f"choose one of {', '.join(ACTIVATIONS)}",
            )


class EncoderDecoder(nn.Module):
    """The two stacks of figure 1 without embeddings and output projection: what `torch.nn.Transformer` is.

    `config` has vocabularies of one word, which nothing reads.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder: Encoder = Encoder(config)
        self.decoder: Decoder = Decoder(config)

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
    around: Surroundings | None = None,
) -> Transformer:
    """Returns the model of a state dict: a `torch.nn.Transformer` between embeddings and a projection.

    Positions are a table of the state dict, one for both sides or one for each; a table that is section 3.5's is
    computed, and so are positions that the state dict does not have.

    Raises:
        ConfigError: a number of heads that does not divide the width; an unknown activation.
        CheckpointError: parts that are missing, unknown or of another shape, or whose part in the model is not clear.
    """
    around = around or Surroundings()
    source = Source(tensors, PYTORCH_TRANSFORMER)
    reader = _Stacks(source)
    check_heads(num_heads, reader.d_model)
    ours, fields = reader.read()
    fields |= _read_ends(source, ours, reader.d_model, around)
    fields |= _read_positions(source, ours, reader.d_model, max_positions)
    source.finish()
    lengths = fields.pop("lengths", {})
    config = ModelConfig(
        **(fields | dict(around.dropout)), num_heads=num_heads, pad_id=pad_id,
        norm="pre" if around.norm_first else "post", activation=around.activation, norm_eps=around.norm_eps,
        scale_embeddings=around.scale_embeddings,
    )  # fmt: skip
    model = build_unfilled(config)
    set_parameters(model, ours, "the state dict")
    assert isinstance(model, Transformer)
    for side, length in lengths.items():
        getattr(model, f"{side}_embedding").max_positions = length
    return model.eval()


def from_torch(
    module: nn.Module,
    *,
    pad_id: int | None = 0,
    max_positions: int = MAX_POSITIONS,
    scale_embeddings: bool = True,
    src_embedding: str = "",
    tgt_embedding: str = "",
    output: str = "",
) -> Transformer | EncoderDecoder | Encoder | Decoder:
    """Returns a PyTorch Transformer's weights as ours, in evaluation mode. Masks are the other way round: True = may.

    Norms, activation, heads and dropout are read off the module. Ours is batch first, whatever `batch_first` was.

    Args:
        module: a `torch.nn.Transformer` (an EncoderDecoder comes back: embedded sequences in, states out), a
            `torch.nn.TransformerEncoder` or `TransformerDecoder` (that stack alone); or a module of somebody's own that
            holds one `torch.nn.Transformer` between embeddings and a projection (a Transformer comes back).
        pad_id: the id that fills up sources, which nothing attends to; None: every id is a word.
        max_positions: how many positions a model gets that computes them, and has none saved.
        scale_embeddings: whether the module multiplies its embeddings by the square root of their width.
        src_embedding, tgt_embedding, output: the names of these parts, where they are not clear.

    Raises:
        ConfigError: a module that holds no such stacks, or more than one.
        CheckpointError: what cannot be expressed, with its value; parts that are missing or not clear.
    """
    stacks = module if isinstance(module, nn.TransformerEncoder | nn.TransformerDecoder) else _held(module)
    told = _told(stacks)
    around = Surroundings(
        norm_first=told["norm"] == "pre", activation=told["activation"], norm_eps=told["norm_eps"],
        dropout={name: told[name] for name in DROPOUTS},
        scale_embeddings=scale_embeddings, src_embedding=src_embedding, tgt_embedding=tgt_embedding, output=output,
    )  # fmt: skip
    if stacks is not module:
        return import_torch_transformer(
            read_state_dict(module.state_dict()), told["num_heads"], pad_id, max_positions, around
        )
    reader = _Stacks(Source(read_state_dict(module.state_dict()), PYTORCH_TRANSFORMER), whole=False)
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


def _held(module: nn.Module) -> nn.Transformer:
    """Returns the one `torch.nn.Transformer` in a module."""
    if isinstance(module, nn.Transformer):
        return module
    found = (
        [part for part in module.modules() if isinstance(part, nn.Transformer)] if isinstance(module, nn.Module) else []
    )
    if len(found) != 1:
        raise ConfigError(
            f"a `{type(module).__name__}` with {len(found)} `torch.nn.Transformer` in it was given, one is needed",
            "hand over a torch.nn.Transformer, its encoder or decoder, or a module that holds one",
        )
    return found[0]


def _told(stacks: nn.Module) -> dict[str, Any]:
    """Returns what the layers of the stacks tell besides their tensors, as fields of a config."""
    kinds = nn.TransformerEncoderLayer | nn.TransformerDecoderLayer
    layers = [layer for layer in stacks.modules() if isinstance(layer, kinds)]
    if not layers:
        raise CheckpointError("the module has no layers of `torch.nn`", "layers of your own cannot be read")
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
            f"the layers differ in `{name}`: {', '.join(sorted(map(str, found)))}", "ours have one value in all layers"
        )
    return values[0]


def _activation(function: Any) -> Activation:
    """Returns what our config calls an activation, given as a function or a module."""
    if isinstance(function, nn.GELU):
        return "gelu_tanh" if function.approximate == "tanh" else "gelu"
    if function in (F.relu, torch.relu) or isinstance(function, nn.ReLU):
        return "relu"
    if function in (F.silu,) or isinstance(function, nn.SiLU):
        return "silu"
    if function is F.gelu:
        return "gelu"
    raise CheckpointError(
        f"the activation `{getattr(function, '__name__', type(function).__name__)}` cannot be expressed",
        f"ours are {', '.join(ACTIVATIONS)}",
    )


class _Stacks:
    """The layers of `torch.nn` in a state dict: where they stand, their sizes, their tensors by our names.

    `whole`: both stacks are needed, not one of them.
    """

    def __init__(self, source: Source, whole: bool = True) -> None:
        self.source = source
        first = re.compile(r"(.*?)layers\.0\.self_attn\.in_proj_weight$")
        places = [match[1] for name in source.tensors if (match := first.match(name))]
        decoders = [place for place in places if f"{place}layers.0.multihead_attn.in_proj_weight" in source]
        encoders = [place for place in places if place not in decoders]
        if max(len(encoders), len(decoders)) > 1 or not places or (whole and len(places) < 2):
            raise CheckpointError(
                f"the state dict has {len(encoders)} encoders and {len(decoders)} decoders of `torch.nn`, "
                "but a Transformer has one each",
                "save the state dict of the module that holds one torch.nn.Transformer",
            )
        self.places = dict(zip(("encoder", "decoder"), (encoders, decoders), strict=True))
        rows, self.d_model = source.shape(f"{places[0]}layers.0.self_attn.in_proj_weight", 2)
        if rows != 3 * self.d_model:
            raise CheckpointError(
                f"`{places[0]}layers.0.self_attn.in_proj_weight` has {rows} rows, not 3 x its columns"
            )
        self.d_ff = source.shape(f"{places[0]}layers.0.linear1.weight", 2)[0]
        self.bias = f"{places[0]}layers.0.linear1.bias" in source

    def read(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Returns the tensors of the stacks by our names, and the fields that they tell."""
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
                "one of the two stacks ends with a norm, the other does not", "ours have it both or neither"
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


def _read_ends(source: Source, ours: dict[str, Tensor], d_model: int, around: Surroundings) -> dict[str, Any]:
    """Reads the embeddings and the output into `ours`, and returns the fields that they tell."""
    outside = {name: tensor for name, tensor in source.tensors.items() if not IN_STACKS.search(name)}
    src, tgt, output = _ends(outside, d_model, around)
    fields: dict[str, Any] = {"output_bias": False}
    for side, name in (("src", src), ("tgt", tgt)):
        fields[f"{side}_vocab_size"] = size = len(outside[name])
        ours[f"{side}_embedding.tokens.weight"] = source.take(name, size, d_model)
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


def _ends(outside: Mapping[str, Tensor], d_model: int, around: Surroundings) -> tuple[str, str, str | None]:
    """Returns the names of the source's embedding, the target's (the same where one serves both), and the output.

    The output is None where there is none: then the target's embedding is used. A projection has a bias beside it, or
    a word in its name that says so; an embedding of two has a word that tells its side.

    Raises CheckpointError where that does not decide, with all that it could be.
    """
    matrices = {
        name: tuple(tensor.shape)
        for name, tensor in outside.items()
        if tensor.dim() == 2 and tensor.size(1) == d_model and not _words(name) & POSITION_WORDS
    }
    listed = ", ".join(f"`{name}` {shape}" for name, shape in matrices.items()) or "none"

    def given(option: str) -> str | None:
        name = getattr(around, option)
        found = next((full for full in (name, f"{name}.weight") if full in matrices), None)
        if name and found is None:
            raise CheckpointError(
                f"`{option}` is `{name}`, but no matrix of {d_model} columns has this name", f"there are: {listed}"
            )
        return found

    def one(option: str, candidates: list[str]) -> str:
        if len(candidates) != 1:
            could_be = ", ".join(f"`{name}`" for name in candidates) or "none"
            raise CheckpointError(
                f"it is not clear which matrix is the `{option}`; it could be: {could_be}",
                f"give its name as `{option}`; there are: {listed}",
            )
        return candidates[0]

    src, tgt, output = given("src_embedding"), given("tgt_embedding"), given("output")
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


def _read_positions(source: Source, ours: dict[str, Tensor], d_model: int, max_positions: int) -> dict[str, Any]:
    """Reads tables of positions, (L, D) or (1, L, D) or (L, 1, D): computed where section 3.5's, else learned."""
    tables: dict[str, Tensor] = {}
    for name in [name for name in source.tensors if not IN_STACKS.search(name) and _words(name) & POSITION_WORDS]:
        shape = tuple(source.tensors[name].shape)
        if shape[-1] == d_model and len(shape) >= 2 and np.prod(shape[:-1]) == max(shape[:-1]):
            tables[name] = source.take(name, *shape).reshape(-1, d_model)
    if all(are_the_papers(table) for table in tables.values()):
        return {"max_positions": max([max_positions, *map(len, tables.values())])}
    if len(tables) > 2:
        raise CheckpointError(
            f"{len(tables)} tables of positions are too many: {', '.join(f'`{name}`' for name in tables)}",
            "a model has one, or one for each side",
        )
    names = list(tables)
    src = next((name for name in names if _words(name) & SOURCE_WORDS), names[0])
    tgt = next((name for name in names if name != src), src)
    lengths = {"src": len(tables[src]), "tgt": len(tables[tgt])}
    most = max(lengths.values())
    for side, name in (("src", src), ("tgt", tgt)):  # ours have one length: the shorter one's rest stays out of reach
        ours[f"{side}_embedding.positions.weight"] = F.pad(tables[name], (0, 0, 0, most - lengths[side]))
    return {"positions": "learned", "max_positions": most, "lengths": lengths}
