"""The same model with other numbers for its words: rows of embeddings and of the output change places."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pellucid.config import ModelConfig
from pellucid.config.tables import from_table, to_table
from pellucid.model.families import Model
from pellucid.model.transformer import Transformer
from pellucid.weights.building import build_unfilled
from pellucid.weights.tensors import parameters, set_parameters


def renumbered(
    model: Model, src_ids: Sequence[int | None] | None, tgt_ids: Sequence[int | None] | None, **fields: Any
) -> Model:
    """The model in which word i is what word `src_ids[i]` was, or `tgt_ids[i]` on the target's side.

    None in the place of an id: a new word, of zeros, which must not occur. None in the place of a list: as it was.
    `fields` are those of the config that say the new numbers, and `max_positions`, which may be fewer than before.
    Embeddings that both sides share must have one order.
    """
    config, tensors = model.config, parameters(model)
    sides = {"src_embedding.tokens.": src_ids, "tgt_embedding.tokens.": tgt_ids, "output_projection.": tgt_ids}
    for name, tensor in tensors.items():
        ids = next((ids for before, ids in sides.items() if name.startswith(before)), None)
        if ids is not None:
            tensors[name] = _rows(tensor.detach(), ids)
        elif name.endswith("_embedding.positions.weight"):
            tensors[name] = tensor[: fields.get("max_positions")]
    sizes = {"src_vocab_size": src_ids, "tgt_vocab_size": tgt_ids if isinstance(model, Transformer) else src_ids}
    changed = {name: len(ids) for name, ids in sizes.items() if ids is not None} | fields
    new = build_unfilled(from_table(ModelConfig, to_table(config) | changed, "[model]"))
    set_parameters(new, tensors, "the model")
    return new.eval()


def _rows(table: Tensor, ids: Sequence[int | None]) -> Tensor:
    rows = table.new_zeros(len(ids), *table.shape[1:])
    known = [place for place, number in enumerate(ids) if number is not None]
    rows[known] = table[torch.tensor([number for number in ids if number is not None])]
    return rows
