"""Finds which embeddings and output projection of a Hugging Face model are tied, by its settings and tensors."""

import logging

import torch

from pellucid.weights.hugging_face.family import Family
from pellucid.weights.hugging_face.names import ForeignTensors
from pellucid.weights.hugging_face.settings import HuggingFaceConfig

log: logging.Logger = logging.getLogger(__name__)

OUTPUT = "lm_head.weight"


def find_ties(settings: HuggingFaceConfig, file: ForeignTensors, family: Family) -> dict[str, str]:
    """Returns the field `tie_embeddings`; if a file stores one of several equal tensors, it gets the embedding's name.

    Tensors that are stored separately and differ are not tied, whatever the settings say, as in transformers.
    """
    if family.kind == "encoder":
        return {}
    tensors, output = file.tensors, file.tensors.get(OUTPUT)
    target = _present(tensors, family, "tgt_embedding.tokens")
    tied = bool(settings["tie_word_embeddings"])
    if output is not None and target is None and tied:
        target = str(family.modules["tgt_embedding.tokens"]).split("|")[-1] + ".weight"
        tensors[target] = output
    if tied and output is not None and target is not None and not torch.equal(output, tensors[target]):
        tied = False
        _warn(settings, file.name_in_file(target), file.name_in_file(OUTPUT))
    if not tied:
        return {"tie_embeddings": "none"}
    file.tensors.pop(OUTPUT, None)
    if family.kind == "decoder":
        return {"tie_embeddings": "decoder"}
    source = _present(tensors, family, "src_embedding.tokens")
    if source and target and source != target and not torch.equal(tensors[source], tensors[target]):
        _warn(settings, file.name_in_file(source), file.name_in_file(target))
    one = source == target or (source and target and torch.equal(tensors[source], tensors[target]))
    return {"tie_embeddings": "all" if one else "decoder"}


def _warn(settings: HuggingFaceConfig, first: str, second: str) -> None:
    """Warns that two tensors differ although the settings tie them."""
    log.warning(
        "`%s` has `tie_word_embeddings` = true, but its `%s` and `%s` differ; each is used as it is in the file",
        settings.path.parent, first, second,
    )  # fmt: skip


def _present(tensors: dict[str, torch.Tensor], family: Family, module: str) -> str | None:
    """Returns the first name of a module's weight that the file has."""
    names = [f"{name}.weight" for name in str(family.modules[module]).split("|")]
    return next((name for name in names if name in tensors), None)
