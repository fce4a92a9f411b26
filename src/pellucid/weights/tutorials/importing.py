"""Imports a tutorial's weights as a Pellucid model."""

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from pellucid.config import MAX_POSITIONS, ModelConfig
from pellucid.config.model import Activation
from pellucid.config.tables import from_table
from pellucid.errors import ConfigError, did_you_mean
from pellucid.weights.empty_models import build_uninitialised
from pellucid.weights.tensors import set_parameters
from pellucid.weights.tutorials.folding import (
    eps_in_the_root,
    is_sinusoidal_table,
    scale_before_norm,
    sinusoids_of_each_column,
)
from pellucid.weights.tutorials.layouts import LAYOUT_NAMES, LAYOUTS, PYTORCH_TRANSFORMER, Slip
from pellucid.weights.tutorials.reading import Reader, count_parts
from pellucid.weights.tutorials.slips import Asked, Imported, add_masks, choose_slips, write_into_weights
from pellucid.weights.tutorials.source import TutorialTensors, read_state_dict
from pellucid.weights.tutorials.torch_transformer import TorchTransformerOptions, import_torch_transformer

STANDARD_DEVIATION_EPS = 1e-6  # annotated-transformer's LayerNorm
EMBEDDING_NORM_EPS = 1e-12  # nlp-with-transformers' norm on the embeddings


def import_tutorial(
    state_dict: Mapping[str, Any],
    layout: str,
    num_heads: int,
    pad_id: int | None = 0,
    tgt_pad_id: int | None = None,
    max_positions: int = MAX_POSITIONS,
    *,
    as_written: Asked = False,
    norm_first: bool = False,
    activation: Activation | None = None,
    scale_embeddings: bool = True,
    src_embedding: str = "",
    tgt_embedding: str = "",
    output: str = "",
) -> Imported:
    """Returns the model of weights trained with a tutorial's code, in evaluation mode.

    Args:
        state_dict: names with tensors or NumPy arrays; or a whole checkpoint with one under `model_state_dict`. Keras
            weights are named by attribute path, as in `encoder/enc_layers/0/enc_self_attn/W_q/kernel`.
        layout: `annotated-transformer`, `nlp-with-transformers` (a SequenceClassifier), `keras-transformer`,
            `pytorch-seq2seq`, `aladdin-persson` or `pytorch-transformer` (`torch.nn.Transformer` in a module). Decoders
            alone (a DecoderOnly comes back) are `nanogpt`, `llms-from-scratch`, and a `torch.nn.TransformerEncoder`
            without a decoder as `pytorch-transformer`.
        num_heads: the number of attention heads; the tensors seldom determine it.
        pad_id: the padding id of sources, which is masked; None: every id is a word.
        tgt_pad_id: the padding id of targets; None: that of the sources. Targets are padded on the right, where the
            causal mask hides it from every word, so no result depends on it.
        max_positions: the number of positions of a model that computes them and has none saved.
        as_written: the slips of the tutorial's code that are computed as the code is written, not as it was meant: some
            of `output`, `masks`, `cross-attention`; True: all that the layout has; None: the slips that the weights
            show, since a part that was never trained keeps its initialisation. With `masks` an AsWritten may come back.
        norm_first, activation, scale_embeddings: for `pytorch-transformer`, whose tensors do not show whether norms
            come first, the activation (None: relu), and whether embeddings are multiplied by the square root of their
            width. `activation` also applies to decoders alone, if it differs from their code's.
        src_embedding, tgt_embedding, output: for `pytorch-transformer`: the names of the embeddings and of the
            projection to the vocabulary, if shapes and names are ambiguous.

    The logger `pellucid` reports where the weights show a slip, and how it is read. All sizes come from the tensors.
    `bos_id` and `eos_id` are not in them: the config has its defaults.

    Raises:
        ConfigError: an unknown layout or slip, a number of heads that the weights cannot have, a pad id outside the
            vocabulary; with `as_written=None` weights that do not show whether they were trained with a slip.
        CheckpointError: tensors that are missing, that the layout does not know, or that are of another shape.
    """
    if layout not in LAYOUT_NAMES:
        raise ConfigError(
            f"unknown layout `{layout}`{did_you_mean(str(layout), LAYOUT_NAMES)}",
            f"choose one of {', '.join(LAYOUT_NAMES)}",
        )
    tensors = read_state_dict(state_dict)
    slips = choose_slips(as_written, layout, tensors)
    return read_tutorial(
        tensors, layout, num_heads, pad_id, tgt_pad_id, max_positions, slips, norm_first=norm_first,
        activation=activation, scale_embeddings=scale_embeddings, src_embedding=src_embedding,
        tgt_embedding=tgt_embedding, output=output,
    )  # fmt: skip


def read_tutorial(
    tensors: Mapping[str, Tensor],
    layout: str,
    num_heads: int,
    pad_id: int | None,
    tgt_pad_id: int | None,
    max_positions: int,
    slips: Collection[Slip],
    **surroundings: Any,
) -> Imported:
    """Returns the model of `import_tutorial`, with the chosen slips; `surroundings` are its other options."""
    around = TorchTransformerOptions(**surroundings)
    activation = around.activation
    if layout == PYTORCH_TRANSFORMER:
        stacks = import_torch_transformer(tensors, num_heads, pad_id, max_positions, around)
        _check_pad("pad_id", pad_id, stacks.config.src_vocab_size)
        _check_pad("tgt_pad_id", tgt_pad_id, stacks.config.tgt_vocab_size)
        return stacks
    is_decoder = LAYOUTS[layout][0].is_decoder
    if around != TorchTransformerOptions(activation=activation if is_decoder else None):
        raise ConfigError(
            f"`norm_first`, `activation` and the names of parts are for `{PYTORCH_TRANSFORMER}`, not for `{layout}`",
            "leave them out: they follow from the tutorial's code",
        )
    importer = _Importer(Reader(TutorialTensors(tensors, layout), num_heads))
    fields = importer.read(max_positions) | ({} if activation is None else {"activation": activation})
    if is_decoder:
        pad_id = tgt_pad_id = None
    write_into_weights(slips, importer.tensors)
    if {slip.mask for slip in slips} & {"padding is seen", "all is seen"}:
        pad_id = None
    config = from_table(ModelConfig, fields | {"num_heads": num_heads, "pad_id": pad_id}, "[model]")
    _check_pad("pad_id", pad_id, config.src_vocab_size)
    _check_pad("tgt_pad_id", tgt_pad_id, config.tgt_vocab_size)
    model = _build_with_weights(config, importer.tensors)
    for side, length in importer.position_limits.items():
        getattr(model, f"{side}_embedding").max_positions = length
    return add_masks(slips, model).eval()


def _build_with_weights(config: ModelConfig, tensors: dict[str, Tensor]) -> Imported:
    model = build_uninitialised(config)
    set_parameters(model, tensors, "the state dict")
    assert isinstance(model, Imported)
    return model


def _check_pad(name: str, pad_id: int | None, vocab_size: int) -> None:
    if pad_id is not None and not 0 <= pad_id < vocab_size:
        raise ConfigError(
            f"`{name}` ({pad_id}) is outside the vocabulary of {vocab_size:,} words", f"use 0 to {vocab_size - 1}"
        )


class _Importer:
    """Reads all tensors of a model, and the fields of its config."""

    def __init__(self, reader: Reader) -> None:
        self.reader, self.source, self.layout = reader, reader.source, reader.layout
        self.tensors, self.d_model = reader.tensors, reader.d_model
        self.position_limits: dict[str, int] = {}
        """The length of a side's table of positions, if it is the shorter one."""

    def read(self, max_positions: int) -> dict[str, Any]:
        """Reads all tensors; returns the fields of the config that they and the layout decide.

        Raises CheckpointError if some are missing, left over or of another shape.
        """
        fields = dict(self.layout.config) | {"d_model": self.d_model} | self._read_layers()
        fields |= self._read_embeddings() | self._read_ends()
        if self.layout.position_tables is None:
            fields |= self._read_learned_positions()
        else:
            fields |= self._read_computed_positions(max_positions)
        if self.layout.masks:
            self.source.leave_masks(self.layout.masks)
        self.source.finish()
        return fields

    def _read_layers(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"d_ff": self.reader.d_ff, "qkv_bias": self.reader.has_qkv_bias}
        if not self.reader.has_bias:
            fields["bias"] = False
        if self.layout.packed and self.reader.turned:  # transformers' own, whose GELU is the approximation
            fields["activation"] = "gelu_tanh"
        for side, before, table in (
            ("encoder", self.layout.encoder, self.layout.encoder_layer),
            ("decoder", self.layout.decoder, self.layout.decoder_layer),
        ):
            # If all layers are missing, the first layer's tensors are named.
            count = max(1, count_parts(self.source.tensors, before)) if table else 0
            fields[f"num_{side}_layers"] = count
            for number in range(count):
                for ours, theirs in table.items():
                    their_module = f"{before}{number}{self.layout.separator}{theirs}"
                    self.reader.read_part(f"{side}.layers.{number}.{ours}", their_module)
        return fields

    def _read_embeddings(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for side in ("src", "tgt"):
            if name := self.layout.embeddings.get(f"{side}_embedding.tokens"):
                size, _ = self.source.shape(name, 2)
                fields[f"{side}_vocab_size"] = size
                self.tensors[f"{side}_embedding.tokens.weight"] = self.source.take(name, size, self.d_model)
        size = next(iter(fields.values()))
        return {"src_vocab_size": size, "tgt_vocab_size": size} | fields

    def _read_ends(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if self.layout.unbiased_norm:
            fields["norm_eps"] = eps_in_the_root(STANDARD_DEVIATION_EPS, self.d_model)
        for ours, theirs in self.layout.ends.items():
            if ours.endswith("norm"):
                self.reader.read_norm(ours, theirs)
            elif ours == "head.class_projection":
                fields["num_classes"] = self.source.shape(f"{theirs}.weight", 2)[0]
                self.reader.read_linear(ours, theirs, fields["num_classes"], self.d_model)
            else:
                fields |= self._read_output(ours, theirs)
        return fields

    def _read_output(self, ours: str, theirs: str) -> dict[str, Any]:
        """Returns the output projection, which may be the target's embedding; Keras' is then scaled."""
        tokens = self.tensors["tgt_embedding.tokens.weight"]
        size = len(tokens)
        name = f"{theirs}{self.layout.separator}{self.layout.weight}"
        if self.layout.is_decoder:
            return self._read_output_of_decoder(ours, theirs, name, tokens)
        if self.layout.weight != "kernel":
            self.reader.read_linear(ours, theirs, size, self.d_model)
            return {}
        bias = f"{theirs}/bias" in self.source
        if name in self.source:
            self.reader.read_linear(ours, theirs, size, self.d_model, bias)
            return {"tie_embeddings": "none", "scale_embeddings": False, "output_bias": bias}
        if bias:
            self.tensors[f"{ours}.bias"] = self.source.take(f"{theirs}/bias", size)
        return {"output_bias": bias}

    def _read_output_of_decoder(self, ours: str, theirs: str, name: str, tokens: Tensor) -> dict[str, Any]:
        """Returns the output projection: a separate matrix, or the embedding, which may have been saved twice."""
        bias = f"{theirs}.bias" in self.source
        if bias:
            self.tensors[f"{ours}.bias"] = self.source.take(f"{theirs}.bias", len(tokens))
        # transformers saves a matrix that is the embedding only once.
        is_left_out = self.reader.turned and name not in self.source
        matrix = tokens if is_left_out else self.source.take(name, *tokens.shape)
        tied = torch.equal(matrix, tokens)
        if not tied:
            self.tensors[f"{ours}.weight"] = matrix
        return {"tie_embeddings": "decoder" if tied else "none", "output_bias": bias}

    def _read_learned_positions(self) -> dict[str, Any]:
        tables = {}
        for ours, name in self.layout.embeddings.items():
            if ours.endswith("positions"):
                tables[ours.partition("_")[0]] = self.source.take(name, self.source.shape(name, 2)[0], self.d_model)
        if self.layout.config.get("embedding_norm"):
            tokens = self.tensors["src_embedding.tokens.weight"]
            factor = scale_before_norm(tokens, tables["src"], EMBEDDING_NORM_EPS, self.layout.config["norm_eps"])
            self.tensors["src_embedding.tokens.weight"] = tokens * factor
            tables["src"] = tables["src"] * factor
        return self._make_learned(tables)

    def _read_computed_positions(self, max_positions: int) -> dict[str, Any]:
        """Returns the fields of sinusoids: they are computed again unless they differ from the paper's; then their
        table counts as learned.
        """
        saved = {side: self._get_saved_table(name) for side, name in zip(("src", "tgt"), self._tables(), strict=True)}
        tables = {side: table for side, table in saved.items() if table is not None}
        if self.layout.separator == "/" and not tables:
            own = sinusoids_of_each_column(max_positions, self.d_model)
            return self._make_learned({"src": own, "tgt": own})
        if all(is_sinusoidal_table(table) for table in tables.values()):
            return {"max_positions": max([max_positions, *map(len, tables.values())])}
        only = next(iter(tables.values()))
        return self._make_learned({side: tables.get(side, only) for side in saved})

    def _tables(self) -> tuple[str, str]:
        assert self.layout.position_tables is not None
        return self.layout.position_tables

    def _get_saved_table(self, name: str) -> Tensor | None:
        """Returns a saved table of positions (L, D); it may have been saved as (1, L, D) or (L, 1, D)."""
        if name not in self.source:
            return None
        shape = tuple(self.source.tensors[name].shape)
        return self.source.take(name, *shape[:-1], self.d_model).reshape(-1, self.d_model)

    def _make_learned(self, tables: Mapping[str, Tensor]) -> dict[str, Any]:
        """Returns tables of positions as learned ones. Pellucid has one length: the rest of the shorter one is
        unused.
        """
        length = max(map(len, tables.values()))
        for side, table in tables.items():
            rest = table.new_zeros(length - len(table), self.d_model)
            self.tensors[f"{side}_embedding.positions.weight"] = torch.cat([table, rest])
            if len(rest):
                self.position_limits[side] = len(table)
        return {"positions": "learned", "max_positions": length}
