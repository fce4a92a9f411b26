"""Models on disk: tensors in safetensors files, the model folder, and the formats of other libraries.

`opening` opens a folder of any kind, `folder` is Pellucid's format, `hugging_face` and `tutorials` read other formats,
`export` writes them; `pellucid.views` makes the page that holds a model.
"""

from pellucid.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__)
