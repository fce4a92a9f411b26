"""Tables of the models that the classes of transformers can express, in addition to the tables for reading files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pellucid.weights.hugging_face.bart import BART, MARIAN, MBART, OFFSET, PEGASUS
from pellucid.weights.hugging_face.bert import BERT
from pellucid.weights.hugging_face.family import Family
from pellucid.weights.hugging_face.gpt2 import GPT2
from pellucid.weights.hugging_face.llama import LLAMA, QWEN2


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A class of transformers."""

    class_name: str
    model_type: str
    family: Family
    """The table of its settings' and parameters' names."""
    needs: Mapping[str, Any]
    """Fields of ModelConfig, as in `resolved`, with the only value that the class supports."""
    settings: Mapping[str, str]
    """Settings that `family.fields` leaves out, each with its key in `resolved`."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Settings that are the same for all Pellucid models."""
    positions: tuple[str, ...] = ("sinusoidal", "learned")
    """The supported kinds of positions; these two are equivalent for a class that reads its table from the file."""
    scales_embeddings: bool = False
    """True if it can multiply embeddings by sqrt(d_model)."""
    position_offset: int = 0
    """Rows before the first position in the table of positions."""
    has_biases: bool = True
    """True if its projections and norms have biases; zeros are then written for a model without, which is
    equivalent.
    """
    transposed: frozenset[str] = frozenset()
    """Pellucid's modules whose matrix is stored (in, out)."""


_PLAIN = {
    "norm_type": "layer", "gated_feed_forward": False, "num_kv_heads": None, "head_dim": None,
    "qk_norm": False,
}  # fmt: skip
_SPECIAL = {"pad_token_id": "pad_id", "bos_token_id": "bos_id", "eos_token_id": "eos_id"}

_PAIRED_NEEDS = {**_PLAIN, "norm_eps": 1e-5, "num_segments": 0}
_PAIRED_SETTINGS = {
    **_SPECIAL, "decoder_start_token_id": "bos_id", "vocab_size": "src_vocab_size",
    "encoder_ffn_dim": "d_ff", "decoder_ffn_dim": "d_ff",
    "encoder_attention_heads": "num_heads", "decoder_attention_heads": "num_heads",
}  # fmt: skip
_PAIRED_FIXED = {"is_encoder_decoder": True, "forced_eos_token_id": None}

MARIAN_MT = Architecture(
    class_name="MarianMTModel",
    model_type="marian",
    family=MARIAN,
    needs={**_PAIRED_NEEDS, "norm": "post", "final_norm": False, "embedding_norm": False},
    settings={**_PAIRED_SETTINGS, "decoder_vocab_size": "tgt_vocab_size"},
    fixed=_PAIRED_FIXED,
    scales_embeddings=True,
)
PEGASUS_GENERATION = Architecture(
    class_name="PegasusForConditionalGeneration",
    model_type="pegasus",
    family=PEGASUS,
    needs={**_PAIRED_NEEDS, "norm": "pre", "final_norm": True, "embedding_norm": False, "tie_embeddings": "all"},
    settings=_PAIRED_SETTINGS,
    fixed=_PAIRED_FIXED,
    scales_embeddings=True,
)
BART_GENERATION = Architecture(
    class_name="BartForConditionalGeneration",
    model_type="bart",
    family=BART,
    needs={**_PAIRED_NEEDS, "norm": "post", "final_norm": False, "embedding_norm": True, "tie_embeddings": "all"},
    settings=_PAIRED_SETTINGS,
    fixed=_PAIRED_FIXED,
    scales_embeddings=True,
    position_offset=OFFSET,
)
MBART_GENERATION = Architecture(
    class_name="MBartForConditionalGeneration",
    model_type="mbart",
    family=MBART,
    needs={**_PAIRED_NEEDS, "norm": "pre", "final_norm": True, "embedding_norm": True, "tie_embeddings": "all"},
    settings=_PAIRED_SETTINGS,
    fixed=_PAIRED_FIXED,
    scales_embeddings=True,
    position_offset=OFFSET,
)

_BERT_NEEDS = {**_PLAIN, "norm": "post", "final_norm": False, "embedding_norm": True}

BERT_STATES = Architecture(
    class_name="BertModel",
    model_type="bert",
    family=BERT,
    needs={**_BERT_NEEDS, "num_classes": 0},
    settings=_SPECIAL,
)
BERT_CLASSIFIER = Architecture(
    class_name="BertForSequenceClassification",
    model_type="bert",
    family=BERT,
    needs={**_BERT_NEEDS, "classifier_activation": "tanh", "pooling": "first"},
    settings=_SPECIAL,
    fixed={"problem_type": "single_label_classification"},
)
GPT2_GENERATION = Architecture(
    class_name="GPT2LMHeadModel",
    model_type="gpt2",
    family=GPT2,
    needs={
        **_PLAIN, "num_segments": 0, "norm": "pre", "final_norm": True, "embedding_norm": False, "output_bias": False,
    },
    settings={**_SPECIAL, "n_inner": "d_ff", "embd_pdrop": "dropout"},
    transposed=frozenset({"qkv_proj", "out_proj", "up_proj", "down_proj"}),
)  # fmt: skip

_LLAMA_NEEDS = {
    "num_segments": 0, "norm": "pre", "final_norm": True, "norm_type": "rms", "gated_feed_forward": True, "bias": False,
    "embedding_norm": False, "output_bias": False, "qk_norm": False, "rotary_factor": 1.0,
}  # fmt: skip
_LLAMA_SETTINGS = {**_SPECIAL, "num_key_value_heads": "kv_heads", "head_dim": "head_width"}

LLAMA_GENERATION = Architecture(
    class_name="LlamaForCausalLM",
    model_type="llama",
    family=LLAMA,
    needs={**_LLAMA_NEEDS, "qkv_bias": False},
    settings=_LLAMA_SETTINGS,
    fixed={"attention_bias": False, "mlp_bias": False},
    has_biases=False,
    positions=("rotary",),
)
QWEN2_GENERATION = Architecture(
    class_name="Qwen2ForCausalLM",
    model_type="qwen2",
    family=QWEN2,
    needs={**_LLAMA_NEEDS, "qkv_bias": True},
    settings=_LLAMA_SETTINGS,
    fixed={"use_sliding_window": False},
    has_biases=False,
    positions=("rotary",),
)
