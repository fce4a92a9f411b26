"""The activations of the feed-forward sublayer, and what other programs call them."""

ACTIVATIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "relu": (("relu",), "RELU"),
    "gelu": (("gelu", "gelu_python"), "GELU"),
    "gelu_tanh": (("gelu_pytorch_tanh", "gelu_new", "gelu_fast"), "GELUTanh"),
    "silu": (("silu", "swish"), "SWISH"),
}
"""Our name to those of transformers, of which the first is written, and to that of CTranslate2."""

FROM_HUGGING_FACE = {theirs: ours for ours, (names, _) in ACTIVATIONS.items() for theirs in names}
