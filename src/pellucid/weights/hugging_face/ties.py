"""Finds which of a foreign model's embeddings and output projection are one, by its settings and its tensors."""

import torch

from pellucid.weights.hugging_face.family import Family
from pellucid.weights.hugging_face.names import ForeignTensors
from pellucid.weights.hugging_face.settings import Settings

OUTPUT = "lm_head.weight"


def find_ties(settings: Settings, file: ForeignTensors, family: Family) -> dict[str, str]:
    """Returns our field `tie_embeddings`; a file that keeps one of several equal tensors gets the embedding's name for
    it.

    Tensors that are stored apart and differ are not tied, whatever the settings say; transformers reads them so, too.
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
    if not tied:
        return {"tie_embeddings": "none"}
    file.tensors.pop(OUTPUT, None)
    if family.kind == "decoder":
        return {"tie_embeddings": "decoder"}
    source = _present(tensors, family, "src_embedding.tokens")
    one = source == target or (source and target and torch.equal(tensors[source], tensors[target]))
    return {"tie_embeddings": "all" if one else "decoder"}


def _present(tensors: dict[str, torch.Tensor], family: Family, module: str) -> str | None:
    """Returns the first name of a module's weight that the file has."""
    names = [f"{name}.weight" for name in str(family.modules[module]).split("|")]
    return next((name for name in names if name in tensors), None)
