"""The activations of the feed-forward sublayer and their names in other libraries."""

ACTIVATIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "relu": (("relu",), "RELU"),
    "gelu": (("gelu", "gelu_python"), "GELU"),
    "gelu_tanh": (("gelu_pytorch_tanh", "gelu_new", "gelu_fast"), "GELUTanh"),
    "silu": (("silu", "swish"), "SWISH"),
}
"""Pellucid's name to the names in transformers, of which the first is written, and to the name in CTranslate2."""

FROM_HUGGING_FACE = {theirs: ours for ours, (names, _) in ACTIVATIONS.items() for theirs in names}
