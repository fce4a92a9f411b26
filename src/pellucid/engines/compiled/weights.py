"""Decides which models the compiled functions know, and packs the weights of a model for them.

`find_obstacle` decides alone: it returns the reason why a model is computed by its modules, or an empty string.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules import module as global_hooks

from pellucid.engines.compiled import layout
from pellucid.engines.compiled.layout import ALIGNMENT, COLUMNS, GAP, Model, Sizes, align
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.attention_positions import RelativePositions, RotaryPositions, compute_rotary
from pellucid.model.embeddings import Embeddings
from pellucid.model.families import DecoderOnly
from pellucid.model.fast.dropout import Dropout
from pellucid.model.fast.linear import Linear
from pellucid.model.feed_forward import ACTIVATIONS, FeedForward
from pellucid.model.layers import Decoder, DecoderLayer, Encoder, EncoderLayer
from pellucid.model.observers import is_observed
from pellucid.model.positions import LearnedPositions, SinusoidalPositions
from pellucid.model.transformer import Transformer

KNOWN = {
    Transformer, DecoderOnly, Encoder, EncoderLayer, Decoder, DecoderLayer, Embeddings, nn.Embedding,
    SinusoidalPositions, LearnedPositions, RotaryPositions, RelativePositions, MultiHeadAttention, FeedForward, Linear,
    Dropout, nn.ModuleList, nn.LayerNorm, nn.RMSNorm, nn.Identity,
}  # fmt: skip
"""The modules whose computation the compiled functions repeat; no subclasses, which may compute something else."""
METHODS = "forward", "encode", "start", "step", "step_states", "states", "project", "keys_and_values", "_call_impl"
"""A module with one of these among its own attributes computes something else, too."""
_METHODS = frozenset(METHODS)
SETTINGS = "activation", "eps", "norm_first", "scale"
"""The attributes of modules, beside their tensors and classes, that a search depends on and that may change."""
SAMPLE = 16
"""The numbers of a tensor that show a change which PyTorch does not count."""


def find_obstacle(model: Any) -> str:
    """Returns the reason why the compiled functions cannot compute a model now; empty if they can.

    They can if all modules are Pellucid's own, in evaluation, unobserved and without hooks, and all weights are on the
    CPU in single precision.
    """
    if type(model) not in (Transformer, DecoderOnly):
        return f"{type(model).__name__} is not a Transformer or DecoderOnly of Pellucid"
    if reason := explain_mode():
        return reason
    for name, module in model.named_modules():
        place = f"`{name}`" if name else "the model"
        if type(module) not in KNOWN:
            return f"{place} is a {type(module).__name__}, which is not a module of Pellucid"
        if module.training:
            return f"{place} is in training mode"
        if module._forward_hooks or module._forward_pre_hooks:
            return f"{place} has a hook"
        if odd := [method for method in METHODS if method in module.__dict__]:
            return f"{place} has another `{odd[0]}`"
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if not tensor.is_cpu or tensor.dtype != torch.float32:
            return f"`{name}` is {str(tensor.dtype).removeprefix('torch.')} on {tensor.device}, not float32 on a CPU"
        if type(tensor) not in (nn.Parameter, Tensor) or tensor.layout != torch.strided or tensor.is_inference():
            return f"`{name}` is a tensor of a special kind"
    return _find_odd_shape(model)


def explain_mode() -> str:
    """Returns the reason why every model is computed by its modules at the moment; empty if there is none."""
    if is_observed():
        return "its attention or residual sums are observed"
    if torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return "torch.compile or autocast is active"
    is_hooked = global_hooks._global_forward_hooks or global_hooks._global_forward_pre_hooks
    return "PyTorch has a hook for all modules" if is_hooked else ""


def _find_odd_shape(model: Transformer | DecoderOnly) -> str:
    """Returns the reason why the shape of a model of known modules is not supported; empty if it is."""
    for embeddings in (each for each in model.modules() if isinstance(each, Embeddings)):
        if embeddings.segments is not None:
            return "it has segment embeddings"
    for norm in (each for each in model.modules() if isinstance(each, nn.LayerNorm | nn.RMSNorm)):
        if norm.weight is None or len(norm.normalized_shape) != 1:
            return "a norm has no weights"
    blocks = [each for each in model.modules() if isinstance(each, MultiHeadAttention)]
    if len({(b.d_model, b.num_heads, b.head_width, b.q_width, b.kv_width) for b in blocks}) != 1:
        return "its attention differs from layer to layer"
    layers = [*_stack(model, "encoder"), *_stack(model, "decoder")]
    if any(type(layer) not in (EncoderLayer, DecoderLayer) for layer in layers):
        return "its layers are of another kind"
    networks = [layer.feed_forward for layer in layers]
    if len({(each.up_proj.weight.shape, _activation(each)) for each in networks}) != 1:
        return "its feed-forward networks differ from layer to layer"
    if not _activation(networks[0]):
        return "its activation is not known"
    if len({layer.norm_first for layer in layers}) != 1:
        return "its layers differ"
    has_memory = isinstance(model, Transformer)
    if any((layer.cross_attn is not None) != has_memory for layer in _stack(model, "decoder")):
        return "its layers differ"
    return ""


def _stack(model: Transformer | DecoderOnly, name: str) -> list[Any]:
    stack = getattr(model, name, None)
    return [] if stack is None else list(stack.layers)


def _activation(network: FeedForward) -> str:
    """Returns the name of a network's activation; empty if the compiled functions do not know it."""
    return next((name for name in layout.ACTIVATIONS if ACTIVATIONS[name] is network.activation), "")


def get_state(model: nn.Module) -> tuple[Any, ...] | None:
    """Returns all that a packed model depends on: modules, their settings, where tensors lie, and their versions.

    Returns None if a module is unknown, in training mode or has hooks. It is called before each search, so it takes one
    pass over the modules. PyTorch does not count changes through `tensor.data`: `WeightSample` sees them.
    """
    found: list[Any] = []
    modules = [model]
    for module in modules:  # the list grows
        own = module.__dict__
        if type(module) not in KNOWN or own["training"] or own["_forward_hooks"] or own["_forward_pre_hooks"]:
            return None
        if not _METHODS.isdisjoint(own):
            return None
        found.append((id(module), *map(own.get, SETTINGS)))
        try:
            for tensor in (*own["_parameters"].values(), *own["_buffers"].values()):
                if tensor is not None:
                    found.append((id(tensor), tensor.data_ptr(), tensor._version))
        except RuntimeError:  # a tensor of inference mode has no version
            return None
        modules += filter(None, own["_modules"].values())
    return tuple(found)


class WeightSample:
    """Some numbers of each tensor of a model, which show a change through `tensor.data` that PyTorch does not count."""

    def __init__(self, model: nn.Module) -> None:
        flat = [_numpy(tensor).reshape(-1) for tensor in (*model.parameters(), *model.buffers())]
        self._views = [numbers[:: max(1, len(numbers) // SAMPLE)] for numbers in flat if len(numbers)]
        self._before = self._read()

    def has_changed(self) -> bool:
        """Returns True if one of the numbers is another one than before."""
        return self._read() != self._before

    def _read(self) -> bytes:
        return np.concatenate(self._views).tobytes()


class _WeightPacking:
    """Weights one after the other in one array, each at a multiple of ALIGNMENT bytes."""

    def __init__(self, lanes: int, tile: int) -> None:
        self.lanes = lanes
        self.tile = tile
        self.pieces: list[Any] = []
        self.used: int = layout.FIRST

    def add(self, numbers: Any) -> int:
        """Adds an array; returns its offset."""
        flat = np.ascontiguousarray(numbers, np.float32).reshape(-1)
        offset, step = self.used, ALIGNMENT // 4
        self.pieces.append((offset, flat))
        self.used += -(-len(flat) // step) * step
        return offset

    def add_matrix(self, weight: Any) -> int:
        """Adds a matrix (N, K) as panels (N / TILE, K, TILE), filled up with zeros."""
        rows = -(-len(weight) // COLUMNS) * COLUMNS
        filled = np.zeros((rows, weight.shape[1]), np.float32)
        filled[: len(weight)] = weight
        return self.add(filled.reshape(-1, self.tile, weight.shape[1]).transpose(0, 2, 1))

    def add_vector(self, values: Any, filling: float = 0.0) -> int:
        """Adds a vector, filled up to a multiple of COLUMNS."""
        filled = np.full(-(-len(values) // COLUMNS) * COLUMNS, filling, np.float32)
        filled[: len(values)] = values
        return self.add(filled)

    def add_linear(self, weight: Tensor, bias: Tensor | None, filling: float = 0.0) -> tuple[int, int]:
        """Adds a matrix and its bias, zeros if there is none; returns both offsets."""
        values = np.zeros(len(weight), np.float32) if bias is None else _numpy(bias)
        return self.add_matrix(_numpy(weight)), self.add_vector(values, filling)

    def add_norm(self, norm: nn.Module | None) -> int:
        """Adds a norm; returns its offset, or -1 for none."""
        if not isinstance(norm, nn.LayerNorm | nn.RMSNorm):
            return -1
        bias = norm.bias if isinstance(norm, nn.LayerNorm) else None
        eps = torch.finfo(torch.float32).eps if norm.eps is None else norm.eps
        weight = _numpy(norm.weight)
        offset = self.add(np.array([eps, isinstance(norm, nn.RMSNorm)] + [0.0] * (GAP - 2), np.float32))
        self.add_vector(weight)
        self.add_vector(np.zeros_like(weight) if bias is None else _numpy(bias))
        return offset

    def concatenate(self) -> Any:
        """Returns the array."""
        joined = align(np.zeros(self.used, np.float32))
        for offset, flat in self.pieces:
            joined[offset : offset + len(flat)] = flat
        return joined


def pack(model: Transformer | DecoderOnly, lanes: int, tile: int) -> Model:
    """Returns a model as arrays, for vectors of `lanes` numbers and tiles of `tile` columns.

    The tables of embeddings and positions are the model's own tensors, all else is copied. Rotations are added by
    `add_rotations`.
    """
    block = next(each for each in model.modules() if isinstance(each, MultiHeadAttention))
    layers = [*_stack(model, "encoder"), *_stack(model, "decoder")]
    network = layers[0].feed_forward
    step = -(-block.head_width // lanes) * lanes
    sizes = Sizes(
        block.d_model, len(network.up_proj.weight), block.num_heads, block.kv_width // block.head_width,
        block.head_width, step, len(_stack(model, "encoder")), len(_stack(model, "decoder")),
        len(model.output_projection.weight), int(layers[0].norm_first), layout.ACTIVATIONS[_activation(network)],
    )  # fmt: skip
    packing = _WeightPacking(lanes, tile)
    table = np.array([_pack_layer(packing, layer, step) for layer in layers], np.int64)
    others = np.full(layout.OTHERS, -1, np.int64)
    target = model.tgt_embedding
    source = model.src_embedding if isinstance(model, Transformer) else target
    others[layout.TARGET_NORM] = packing.add_norm(target.norm)
    others[layout.DECODER_NORM] = packing.add_norm(model.decoder.norm)
    if isinstance(model, Transformer):
        others[layout.SOURCE_NORM] = packing.add_norm(source.norm)
        others[layout.ENCODER_NORM] = packing.add_norm(model.encoder.norm)
    vocabulary = model.output_projection
    others[layout.VOCABULARY], others[layout.VOCABULARY_BIAS] = packing.add_linear(
        vocabulary.weight, vocabulary.bias, filling=-np.inf
    )
    weights = packing.concatenate()
    weights[layout.SOURCE_SCALE], weights[layout.TARGET_SCALE] = source.scale, target.scale
    encoder = model.encoder.relative if isinstance(model, Transformer) else None
    return Model(
        sizes, weights, table, others, _numpy(source.tokens.weight), _numpy(target.tokens.weight),
        _positions(source), _positions(target), np.zeros((0, block.head_width), np.float32),
        _biases(encoder, sizes.heads, model.config.max_positions, both=True),
        _biases(model.decoder.relative, sizes.heads, model.config.max_positions, both=False),
    )  # fmt: skip


def add_rotations(packed: Model, model: Transformer | DecoderOnly, positions: int) -> Model:
    """Returns a packed model with rotations for at least `positions` positions, if it has rotary positions."""
    rotary = model.decoder.relative
    if not isinstance(rotary, RotaryPositions) or len(packed.turn) >= positions:
        return packed
    count = max(positions, min(2 * len(packed.turn), model.config.max_positions))
    angles = rotary.head_width, rotary.base, rotary.factor, rotary.wavelengths
    cos, sin = compute_rotary(torch.arange(count), *angles)  # (positions, K), the second half as the first
    half = rotary.head_width // 2
    return packed._replace(turn=np.ascontiguousarray(torch.cat([cos[:, :half], sin[:, :half]], dim=1).numpy()))


def _pack_layer(packing: _WeightPacking, layer: Any, step: int) -> list[int]:
    """Adds the weights of a layer; returns its row of the table of offsets."""
    row, own, network = [-1] * layout.OFFSETS, layer.self_attn, layer.feed_forward
    weight, bias = _pad_heads(own, slice(None), step)
    row[layout.QKV], row[layout.QKV_BIAS] = packing.add_linear(weight, bias)
    row[layout.OUT], row[layout.OUT_BIAS] = packing.add_linear(_pad_joined(own, step), own.out_proj.bias)
    row[layout.Q_NORM], row[layout.K_NORM] = packing.add_norm(own.q_norm), packing.add_norm(own.k_norm)
    row[layout.SELF_NORM] = packing.add_norm(layer.self_attn_norm)
    if (cross := getattr(layer, "cross_attn", None)) is not None:
        row[layout.CROSS_Q], row[layout.CROSS_Q_BIAS] = packing.add_linear(
            *_pad_heads(cross, slice(cross.q_width), step)
        )
        row[layout.CROSS_KV], row[layout.CROSS_KV_BIAS] = packing.add_linear(
            *_pad_heads(cross, slice(cross.q_width, None), step)
        )
        row[layout.CROSS_OUT], row[layout.CROSS_OUT_BIAS] = packing.add_linear(
            _pad_joined(cross, step), cross.out_proj.bias
        )
        row[layout.CROSS_Q_NORM] = packing.add_norm(cross.q_norm)
        row[layout.CROSS_K_NORM] = packing.add_norm(cross.k_norm)
        row[layout.CROSS_NORM] = packing.add_norm(layer.cross_attn_norm)
    for projection, at, of_bias in (
        (network.up_proj, layout.UP, layout.UP_BIAS),
        (network.gate_proj, layout.GATE, layout.GATE_BIAS),
        (network.down_proj, layout.DOWN, layout.DOWN_BIAS),
    ):
        if projection is not None:
            row[at], row[of_bias] = packing.add_linear(projection.weight, projection.bias)
    row[layout.FEED_FORWARD_NORM] = packing.add_norm(layer.feed_forward_norm)
    return row


def _pad_heads(block: MultiHeadAttention, rows: slice, step: int) -> tuple[Tensor, Tensor | None]:
    """Returns rows of a packed projection, each head filled up with zeros to `step` rows."""

    def fill(tensor: Tensor) -> Tensor:
        chosen = tensor.detach()[rows]
        heads = chosen.reshape(-1, block.head_width, *chosen.shape[1:])  # (heads, K, ...)
        filled = heads.new_zeros(len(heads), step, *heads.shape[2:])
        filled[:, : block.head_width] = heads
        return filled.flatten(0, 1)

    bias = block.qkv_proj.bias
    return fill(block.qkv_proj.weight), None if bias is None else fill(bias)


def _pad_joined(block: MultiHeadAttention, step: int) -> Tensor:
    """Returns the output projection (D, H * K) with columns for heads of `step` numbers: (D, H * step)."""
    weight = block.out_proj.weight.detach()
    heads = weight.reshape(len(weight), -1, block.head_width)  # (D, H, K)
    filled = heads.new_zeros(*heads.shape[:2], step)
    filled[:, :, : block.head_width] = heads
    return filled.flatten(1)


def _positions(embeddings: Embeddings) -> Any:
    """Returns the vectors that are added by position; without rows if there are none."""
    added = embeddings.positions
    if isinstance(added, SinusoidalPositions):
        return _numpy(added.table)
    if isinstance(added, LearnedPositions):
        return _numpy(added.weight)
    return np.zeros((0, embeddings.tokens.embedding_dim), np.float32)


def _biases(relative: nn.Module | None, heads: int, max_positions: int, *, both: bool) -> Any:
    """Returns the learned number of each head for key - query from -R to R, or to 0: (H, offsets)."""
    if not isinstance(relative, RelativePositions):
        return np.zeros((0, 1), np.float32)
    reach = min(relative.max_distance, max_positions)  # beyond it no distance differs from another
    offsets = torch.arange(-reach, reach + 1 if both else 1)
    with torch.no_grad():
        return np.ascontiguousarray(_numpy(relative.bias(relative.buckets(offsets))).T)


def _numpy(tensor: Tensor) -> Any:
    """Returns a tensor as a contiguous array, of the same memory if it is contiguous."""
    return np.ascontiguousarray(tensor.detach().numpy())
