"""Models on disk: tensors in safetensors files, the model folder, and other people's formats.

Names are imported when they are first used.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "from_hugging_face": "pellucid.weights.hugging_face.opening",
    "from_torch": "pellucid.weights.tutorials.torch_transformer",
    "import_tutorial": "pellucid.weights.tutorials.importing",
    "to_ctranslate2": "pellucid.weights.export.ctranslate2",
    "to_hugging_face": "pellucid.weights.export.hugging_face",
    "to_onnx": "pellucid.weights.export.onnx",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module `pellucid.weights` has no attribute `{name}`")
    return getattr(import_module(_HOMES[name]), name)
