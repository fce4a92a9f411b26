"""A tutorial's weights as a model of ours."""

import logging
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from pellucid.config import MAX_POSITIONS, ModelConfig
from pellucid.config.model import Activation
from pellucid.config.tables import from_table
from pellucid.errors import ConfigError, did_you_mean
from pellucid.model.families import SequenceClassifier
from pellucid.model.transformer import Transformer
from pellucid.weights.building import build_unfilled
from pellucid.weights.tensors import set_parameters
from pellucid.weights.tutorials.folding import (
    are_the_papers,
    eps_in_the_root,
    scale_before_norm,
    sinusoids_of_each_column,
)
from pellucid.weights.tutorials.layouts import LAYOUT_NAMES, PYTORCH_TRANSFORMER
from pellucid.weights.tutorials.reading import Reader, count_parts
from pellucid.weights.tutorials.slips import with_masks, write_into_weights
from pellucid.weights.tutorials.source import Source, read_state_dict
from pellucid.weights.tutorials.torch_transformer import Surroundings, import_torch_transformer

log: logging.Logger = logging.getLogger(__name__)

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
    as_written: bool = False,
    norm_first: bool = False,
    activation: Activation = "relu",
    scale_embeddings: bool = True,
    src_embedding: str = "",
    tgt_embedding: str = "",
    output: str = "",
) -> Transformer | SequenceClassifier:
    """Returns the model whose weights somebody trained with the code of a tutorial, in evaluation mode.

    Args:
        state_dict: names with tensors or NumPy arrays; or a whole checkpoint with one under `model_state_dict`. Keras
            weights are named by attribute path, as in `encoder/enc_layers/0/enc_self_attn/W_q/kernel`.
        layout: `annotated-transformer`, `nlp-with-transformers` (a SequenceClassifier), `keras-transformer`,
            `pytorch-seq2seq`, `aladdin-persson` or `pytorch-transformer` (`torch.nn.Transformer` in a module).
        num_heads: how many heads it was trained with; the tensors seldom tell.
        pad_id: the id that fills up sources, which nothing attends to; None: every id is a word.
        tgt_pad_id: the id that fills up targets; None: that of the sources. Targets are padded on the right, where the
            causal mask hides it from every word, so no result depends on it.
        max_positions: how many positions a model gets that computes them, and has none saved.
        as_written: a slip in the tutorial's text is computed as it is written, not as it was meant; where masks take it
            up, an AsWritten comes back.
        norm_first, activation, scale_embeddings: of `pytorch-transformer`, whose tensors do not tell where norms stand,
            which activation there is, and whether embeddings are multiplied by the square root of their width.
        src_embedding, tgt_embedding, output: of `pytorch-transformer`: the names of the embeddings and of the
            projection to the vocabulary, where they are not clear from shapes and names.

    A line on the logger `pellucid` tells each known slip of the text, and how it is read. All sizes are those of the
    tensors. `bos_id` and `eos_id` are nowhere among them: the config has its defaults.

    Raises:
        ConfigError: an unknown layout, a number of heads that the weights cannot have, a pad id outside the vocabulary.
        CheckpointError: tensors that are missing, that the layout does not know, or that are of another shape.
    """
    if layout not in LAYOUT_NAMES:
        raise ConfigError(
            f"unknown layout `{layout}`{did_you_mean(str(layout), LAYOUT_NAMES)}",
            f"choose one of {', '.join(LAYOUT_NAMES)}",
        )
    tensors = read_state_dict(state_dict)
    around = Surroundings(
        norm_first=norm_first, activation=activation, scale_embeddings=scale_embeddings,
        src_embedding=src_embedding, tgt_embedding=tgt_embedding, output=output,
    )  # fmt: skip
    if layout == PYTORCH_TRANSFORMER:
        stacks = import_torch_transformer(tensors, num_heads, pad_id, max_positions, around)
        _check_pad("pad_id", pad_id, stacks.config.src_vocab_size)
        _check_pad("tgt_pad_id", tgt_pad_id, stacks.config.tgt_vocab_size)
        return stacks
    if around != Surroundings():
        raise ConfigError(
            f"`norm_first`, `activation` and the names of parts are for `{PYTORCH_TRANSFORMER}`, not for `{layout}`",
            "leave them out: the tutorial's text tells",
        )
    importer = _Importer(Reader(Source(tensors, layout), num_heads))
    fields = importer.read(max_positions)
    for slip in importer.layout.slips:
        log.warning(slip.told(layout, as_written))
    slips = importer.layout.slips if as_written else ()
    write_into_weights(slips, importer.tensors)
    if {slip.mask for slip in slips} & {"padding is seen", "all is seen"}:
        pad_id = None
    config = from_table(ModelConfig, fields | {"num_heads": num_heads, "pad_id": pad_id}, "[model]")
    _check_pad("pad_id", pad_id, config.src_vocab_size)
    _check_pad("tgt_pad_id", tgt_pad_id, config.tgt_vocab_size)
    model = _with_weights(config, importer.tensors)
    for side, length in importer.position_limits.items():
        getattr(model, f"{side}_embedding").max_positions = length
    return with_masks(slips, model).eval()


def _with_weights(config: ModelConfig, tensors: dict[str, Tensor]) -> Transformer | SequenceClassifier:
    model = build_unfilled(config)
    set_parameters(model, tensors, "the state dict")
    assert isinstance(model, Transformer | SequenceClassifier)
    return model


def _check_pad(name: str, pad_id: int | None, vocab_size: int) -> None:
    if pad_id is not None and not 0 <= pad_id < vocab_size:
        raise ConfigError(
            f"`{name}` ({pad_id}) is outside the vocabulary of {vocab_size:,} words", f"use 0 to {vocab_size - 1}"
        )


class _Importer:
    """Reads all of a model, and what its config says."""

    def __init__(self, reader: Reader) -> None:
        self.reader, self.source, self.layout = reader, reader.source, reader.layout
        self.tensors, self.d_model = reader.tensors, reader.d_model
        self.position_limits: dict[str, int] = {}
        """The length of a side's table of positions, where that is the shorter one."""

    def read(self, max_positions: int) -> dict[str, Any]:
        """Reads all tensors; returns the fields of the config that they and the layout decide.

        Raises CheckpointError where some are missing, left over or of another shape.
        """
        fields = dict(self.layout.config) | {"d_model": self.d_model} | self._read_layers()
        fields |= self._read_embeddings() | self._read_ends()
        if self.layout.position_tables is None:
            fields |= self._read_learned_positions()
        else:
            fields |= self._read_computed_positions(max_positions)
        self.source.finish()
        return fields

    def _read_layers(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"d_ff": self.reader.d_ff, "qkv_bias": self.reader.has_qkv_bias}
        for side, before, table in (
            ("encoder", self.layout.encoder, self.layout.encoder_layer),
            ("decoder", self.layout.decoder, self.layout.decoder_layer),
        ):
            # Where all layers are missing, those of the first are named.
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
        fields.setdefault("tgt_vocab_size", fields["src_vocab_size"])
        return fields

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
        """Returns the output projection; Keras' may be the target's embedding, which is then scaled."""
        size = len(self.tensors["tgt_embedding.tokens.weight"])
        name = f"{theirs}{self.layout.separator}{self.layout.weight}"
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
        return self._learned(tables)

    def _read_computed_positions(self, max_positions: int) -> dict[str, Any]:
        """Returns the fields of sinusoids: they are computed again, unless they are not the paper's; then their table
        counts as learned.
        """
        saved = {side: self._saved_table(name) for side, name in zip(("src", "tgt"), self._tables(), strict=True)}
        tables = {side: table for side, table in saved.items() if table is not None}
        if self.layout.separator == "/" and not tables:
            own = sinusoids_of_each_column(max_positions, self.d_model)
            return self._learned({"src": own, "tgt": own})
        if all(are_the_papers(table) for table in tables.values()):
            return {"max_positions": max([max_positions, *map(len, tables.values())])}
        only = next(iter(tables.values()))
        return self._learned({side: tables.get(side, only) for side in saved})

    def _tables(self) -> tuple[str, str]:
        assert self.layout.position_tables is not None
        return self.layout.position_tables

    def _saved_table(self, name: str) -> Tensor | None:
        """Returns a saved table of positions (L, D); it may have been saved as (1, L, D) or (L, 1, D)."""
        if name not in self.source:
            return None
        shape = tuple(self.source.tensors[name].shape)
        return self.source.take(name, *shape[:-1], self.d_model).reshape(-1, self.d_model)

    def _learned(self, tables: Mapping[str, Tensor]) -> dict[str, Any]:
        """Returns tables of positions as learned ones. Ours have one length: the shorter one's rest is out of reach."""
        length = max(map(len, tables.values()))
        for side, table in tables.items():
            rest = table.new_zeros(length - len(table), self.d_model)
            self.tensors[f"{side}_embedding.positions.weight"] = torch.cat([table, rest])
            if len(rest):
                self.position_limits[side] = len(table)
        return {"positions": "learned", "max_positions": length}
