"""Maps a file's tensors to Pellucid's parameters, by a family's table of names."""

import re
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from pellucid.errors import CheckpointError, format_value
from pellucid.model.attention import MultiHeadAttention
from pellucid.weights.hugging_face.family import Family, Tensors
from pellucid.weights.tensors import Stored, check_dtype, parameters

LEGACY = {".gamma": ".weight", ".beta": ".bias"}
"""The names of norms in the oldest files."""

BESIDE = ("lm_head.", "final_logits_bias", "classifier.", "pre_classifier.")
"""The modules outside the base model, which have no prefix."""


class ForeignTensors:
    """The tensors of a file under names without the base prefix, and their names in the file."""

    def __init__(self, tensors: Mapping[str, Tensor], prefix: str) -> None:
        self.has_prefix: bool = bool(prefix) and any(name.startswith(prefix) for name in tensors)
        self.prefix: str = prefix if self.has_prefix else ""
        self.tensors: Tensors = {}
        self.names: dict[str, str] = {}
        for name, tensor in tensors.items():
            ours = name.removeprefix(self.prefix)
            for old, new in LEGACY.items():
                ours = ours.removesuffix(old) + new if ours.endswith(old) else ours
            self.tensors[ours] = tensor
            self.names[ours] = name

    def name_in_file(self, name: str) -> str:
        """Returns the name that `name` has, or would have, in the file."""
        return self.names.get(name, name if name.startswith(BESIDE) else f"{self.prefix}{name}")


MOST_COMPUTED = 4
"""The largest allowed ratio of a model's parameters to its file's numbers: missing ones are computed, or are zero."""


def check_used(model: nn.Module, file: ForeignTensors, family: Family, head: bool, origin: str) -> None:
    """Checks the tensors that `model`, which may be on the meta device, takes from the file, before allocating memory.

    Raises CheckpointError for a tensor that is not floating-point, and if the model has far more parameters than the
    file has numbers.
    """
    modules = dict(family.modules) | (dict(family.head) if head else {})
    size = 0
    for name, parameter in parameters(model).items():
        size += 0 if name.endswith("positions.weight") else parameter.numel()  # bounded by themselves, and computed
        for names in foreign_names(name, modules, family.parameters):
            part = _first(file.tensors, names)
            if part in file.tensors:
                check_dtype(file.name_in_file(part), Stored.from_tensor(file.tensors[part]), origin)
    held = sum(tensor.numel() for tensor in file.tensors.values())
    if size > MOST_COMPUTED * held:
        raise CheckpointError(
            f"{origin} hold {held:,} values, but the model of config.json has {size:,}",
            "config.json and the weights must come from the same model",
        )


def convert_tensors(
    model: nn.Module, file: ForeignTensors, family: Family, head: bool, origin: str
) -> dict[str, Tensor]:
    """Returns a tensor for each parameter of `model`; `head`: its classification head's, too.

    Raises CheckpointError that names the first parameter that is missing or of another shape.
    """
    modules = dict(family.modules) | (dict(family.head) if head else {})
    packed = {
        f"{name}.qkv_proj": m.qkv_widths for name, m in model.named_modules() if isinstance(m, MultiHeadAttention)
    }
    found = {}
    for name, parameter in parameters(model).items():
        parts = [_first(file.tensors, names) for names in foreign_names(name, modules, family.parameters)]
        missing = [part for part in parts if part not in file.tensors]
        if missing:
            raise CheckpointError(
                f"{origin} lack `{file.name_in_file(missing[0])}`, which config.json requires",
                "config.json and the weights must come from the same model; copy the whole folder",
            )
        rows = packed.get(name.rpartition(".")[0], []) if len(parts) > 1 else [parameter.size(0)]
        for part, count in zip(parts, rows, strict=True):
            shape = (count, *parameter.shape[1:])
            if file.tensors[part].shape != shape:
                raise CheckpointError(
                    f"{origin}: `{file.name_in_file(part)}` has shape {format_value(tuple(file.tensors[part].shape))}, "
                    f"config.json requires {shape}",
                    "config.json and the weights must come from the same model",
                )
        tensors = [file.tensors[part] for part in parts]
        found[name] = torch.cat(tensors) if len(tensors) > 1 else tensors[0]  # `cat` would copy a single tensor, too
    return found


def foreign_names(
    name: str, modules: Mapping[str, str | tuple[str, ...]], parameters: Mapping[str, str]
) -> list[list[str]]:
    """Returns the sources of the parameter `name`: for each part packed in it, its possible names."""
    if name in parameters:
        return [parameters[name].split("|")]
    module, _, kind = name.rpartition(".")
    layer = re.search(r"layers\.(\d+)", module)
    entry = modules[re.sub(r"layers\.\d+", "layers.{i}", module)]
    parts = entry if isinstance(entry, tuple) else (entry,)
    return [[f"{each.replace('{i}', layer[1] if layer else '')}.{kind}" for each in p.split("|")] for p in parts]


def list_unused_tensors(
    model: nn.Module, file: ForeignTensors, family: Family, head: bool, origin: str
) -> tuple[str, ...]:
    """Returns the poolers and heads of the file that the model does not use, by their names in it.

    Raises CheckpointError for any other tensor that the model lacks.
    """
    modules = dict(family.modules) | (dict(family.head) if head else {})
    used = {
        each
        for name, _ in model.named_parameters(remove_duplicate=False)
        for names in foreign_names(name, modules, family.parameters)
        for each in names
    }
    unused = []
    for name in file.tensors:
        in_file = file.name_in_file(name)
        if name in used or _is_any(name, family.buffers):
            continue
        # Modules next to an encoder read its states and change none.
        beside_it = family.kind == "encoder" and file.has_prefix and not in_file.startswith(file.prefix)
        if not beside_it and not _is_any(name, family.heads):
            raise CheckpointError(
                f"{origin} have `{format_value(in_file)}`, which the model that config.json describes lacks",
                "config.json and the weights must come from the same model",
            )
        unused.append(in_file)
    return tuple(unused)


def _is_any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def _first(tensors: Tensors, names: list[str]) -> str:
    """Returns the first of `names` that exists, else the first."""
    return next((name for name in names if name in tensors), names[0])
