"""Models on disk: tensors in safetensors files, the model folder, and other people's formats.

`opening` opens a folder of any kind, `folder` is our own format, `hugging_face` and `tutorials` read other people's,
`export` writes them; the page that holds a model is made in `pellucid.views`. Names are imported when they are first
used; each stands three times, as those of `pellucid` do.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pellucid.views.model_page import to_page as to_page
    from pellucid.weights.export.ctranslate2 import to_ctranslate2 as to_ctranslate2
    from pellucid.weights.export.hugging_face import to_hugging_face as to_hugging_face
    from pellucid.weights.export.onnx import to_onnx as to_onnx
    from pellucid.weights.hugging_face.opening import from_hugging_face as from_hugging_face
    from pellucid.weights.tutorials.importing import import_tutorial as import_tutorial
    from pellucid.weights.tutorials.torch_transformer import from_torch as from_torch

__all__ = [
    "from_hugging_face", "from_torch", "import_tutorial", "to_ctranslate2", "to_hugging_face", "to_onnx", "to_page",
]  # fmt: skip

_HOMES = {
    "from_hugging_face": "pellucid.weights.hugging_face.opening",
    "from_torch": "pellucid.weights.tutorials.torch_transformer",
    "import_tutorial": "pellucid.weights.tutorials.importing",
    "to_ctranslate2": "pellucid.weights.export.ctranslate2",
    "to_hugging_face": "pellucid.weights.export.hugging_face",
    "to_onnx": "pellucid.weights.export.onnx",
    "to_page": "pellucid.views.model_page",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            from pellucid.errors import did_you_mean

            raise AttributeError(f"module `pellucid.weights` has no attribute `{name}`{did_you_mean(name, __all__)}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
