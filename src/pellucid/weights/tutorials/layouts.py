"""Tables of the tutorials' names for the parts of a Transformer, of their fixed settings and their slips."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from pellucid.config import PRESETS

PYTORCH_TRANSFORMER = "pytorch-transformer"
"""The layout of `torch.nn.Transformer`, whose embeddings and output have no fixed names, so that no table can hold
it.
"""


SlipName = Literal["output", "masks", "cross-attention"]
"""The slips that a tutorial's code may have, by the part that it computes differently."""
SLIP_NAMES: tuple[SlipName, ...] = get_args(SlipName)


@dataclass(frozen=True, kw_only=True)
class Slip:
    """A place where a tutorial's code computes something other than intended.

    Places where the code ends with an error do not count: no model can have been trained with them.
    """

    name: SlipName
    text: str
    """The predicate of a sentence whose subject is the code."""
    unused: str = ""
    """The module that the code defines and never uses, so that it keeps its initialization; empty: all are used."""
    used: str = ""
    """The module that the code uses instead."""
    mask: Literal["", "padding is seen", "all is seen", "sources are hidden"] = ""
    """The masks of `masks`: only sources see padding; targets also see all later words; targets see only the source
    positions up to their own.
    """


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One spelling of a tutorial's names: Pellucid's module on the left, the tutorial's on the right."""

    config: Mapping[str, Any]
    """Fields of ModelConfig that the code decides."""
    embeddings: Mapping[str, str]
    """Tables of vectors: of tokens, and of learned positions."""
    encoder: str = ""
    """The text before a layer's number, and before a part of it."""
    decoder: str = ""
    encoder_layer: Mapping[str, str] = field(default_factory=dict)
    """The parts of a layer; empty if there is no such stack."""
    decoder_layer: Mapping[str, str] = field(default_factory=dict)
    ends: Mapping[str, str]
    """The modules outside the layers."""
    projections: tuple[str, str, str, str]
    """Within an attention: queries, keys, values, output; with {head} if each head has its own."""
    separator: str = "."
    weight: str = "weight"
    """The matrix of a projection: (out, in); a `kernel` is (in, out)."""
    norm: tuple[str, str] = ("weight", "bias")
    unbiased_norm: bool = False
    """The norm divides by the standard deviation of a sample, plus eps."""
    qkv_bias: bool = True
    """If False, there are no biases unless the file has some."""
    biases_may_lack: bool = False
    """True if the layers may have no biases at all, norms included."""
    packed: bool = False
    """True if one projection makes queries, keys and values, in this order; it may be (in, out), as transformers'
    Conv1D.
    """
    masks: str = ""
    """A pattern of the names under which causal masks may have been saved."""
    shared_by_heads: bool = False
    """True if a projection may be one of (K, K) for all heads."""
    scores_by_model_width: bool = False
    """True if scores are divided by the square root of d_model, not of the head's width."""
    slips: tuple[Slip, ...] = ()
    """The places where the code computes something other than intended."""
    position_tables: tuple[str, str] | None = None
    """The names under which computed positions may have been saved, of the source and of the target."""

    @property
    def token_table(self) -> str:
        """Returns the name of the source's embedding, or the only one, which identifies a layout."""
        return next(iter(self.embeddings.values()))

    @property
    def is_decoder(self) -> bool:
        """Returns True if there is a decoder alone: a language model."""
        return not self.encoder_layer

    @property
    def first_attention(self) -> str:
        """Returns the name of the first layer's self-attention, with a separator after it."""
        before, table = (self.decoder, self.decoder_layer) if self.is_decoder else (self.encoder, self.encoder_layer)
        return f"{before}0{self.separator}{table['self_attn']}{self.separator}"

    @property
    def first_inner(self) -> str:
        """Returns the name of the first layer's projection to the inner width."""
        before, table = (self.decoder, self.decoder_layer) if self.is_decoder else (self.encoder, self.encoder_layer)
        return f"{before}0{self.separator}{table['feed_forward.up_proj']}"

    def names(self) -> set[str]:
        """Returns the names of a first layer's modules, which distinguish two spellings."""
        layers = [(self.encoder, self.encoder_layer), (self.decoder, self.decoder_layer)]
        names = {f"{before}0{self.separator}{theirs}" for before, table in layers for theirs in table.values()}
        return names | {f"{self.first_attention}{name.format(head=0)}" for name in self.projections}


_ANNOTATED = Layout(
    config=PRESETS["annotated"],
    embeddings={"src_embedding.tokens": "src_embed.0.lut.weight", "tgt_embedding.tokens": "tgt_embed.0.lut.weight"},
    encoder="encoder.layers.",
    decoder="decoder.layers.",
    encoder_layer={
        "self_attn": "self_attn", "self_attn_norm": "sublayer.0.norm",
        "feed_forward.up_proj": "feed_forward.w_1", "feed_forward.down_proj": "feed_forward.w_2",
        "feed_forward_norm": "sublayer.1.norm",
    },
    decoder_layer={
        "self_attn": "self_attn", "self_attn_norm": "sublayer.0.norm",
        "cross_attn": "src_attn", "cross_attn_norm": "sublayer.1.norm",
        "feed_forward.up_proj": "feed_forward.w_1", "feed_forward.down_proj": "feed_forward.w_2",
        "feed_forward_norm": "sublayer.2.norm",
    },
    ends={"encoder.norm": "encoder.norm", "decoder.norm": "decoder.norm", "output_projection": "generator.proj"},
    projections=("linears.0", "linears.1", "linears.2", "linears.3"),
    norm=("a_2", "b_2"),
    unbiased_norm=True,
    slips=(
        Slip(
            name="cross-attention",
            text="attends to the encoder's output with `self_attn`, and never uses `src_attn`",
            unused="src_attn",
            used="self_attn",
        ),
    ),
    position_tables=("src_embed.1.pe", "tgt_embed.1.pe"),
)  # fmt: skip

_NLP_WITH_TRANSFORMERS = Layout(
    config={
        "num_decoder_layers": 0, "norm": "pre", "final_norm": False, "embedding_norm": True, "norm_eps": 1e-5,
        "positions": "learned", "activation": "gelu", "scale_embeddings": False,
    },
    embeddings={
        "src_embedding.tokens": "encoder.embeddings.token_embeddings.weight",
        "src_embedding.positions": "encoder.embeddings.position_embeddings.weight",
    },
    encoder="encoder.layers.",
    encoder_layer={
        "self_attn": "attention", "self_attn_norm": "layer_norm_1",
        "feed_forward.up_proj": "feed_forward.linear_1", "feed_forward.down_proj": "feed_forward.linear_2",
        "feed_forward_norm": "layer_norm_2",
    },
    decoder_layer={},
    ends={"src_embedding.norm": "encoder.embeddings.layer_norm", "head.class_projection": "classifier"},
    projections=("heads.{head}.q", "heads.{head}.k", "heads.{head}.v", "output_linear"),
    slips=(
        Slip(
            name="masks", text="gives the attention no mask, so that padding is attended to", mask="padding is seen"
        ),
    ),
)  # fmt: skip

_KERAS = Layout(
    config=PRESETS["keras-transformer"],
    embeddings={"src_embedding.tokens": "enc_emb/embeddings", "tgt_embedding.tokens": "dec_emb/embeddings"},
    encoder="encoder/enc_layers/",
    decoder="decoder/dec_layers/",
    encoder_layer={
        "self_attn": "enc_self_attn", "self_attn_norm": "norm_1",
        "feed_forward.up_proj": "ffn/w_1", "feed_forward.down_proj": "ffn/w_2", "feed_forward_norm": "norm_2",
    },
    decoder_layer={
        "self_attn": "dec_self_attn", "self_attn_norm": "norm_1", "cross_attn": "enc_dec_attn",
        "cross_attn_norm": "norm_2", "feed_forward.up_proj": "ffn/w_1", "feed_forward.down_proj": "ffn/w_2",
        "feed_forward_norm": "norm_3",
    },
    ends={"output_projection": "fc"},
    projections=("W_q", "W_k", "W_v", "linear"),
    separator="/",
    weight="kernel",
    norm=("gamma", "beta"),
    slips=(
        Slip(
            name="masks",
            text="hides from the target word at position t all source words after position t",
            mask="sources are hidden",
        ),
    ),
    position_tables=("pos_encoding", "pos_encoding"),
)  # fmt: skip

_PYTORCH_SEQ2SEQ = Layout(
    config=PRESETS["pytorch-seq2seq"],
    embeddings={
        "src_embedding.tokens": "encoder.tok_embedding.weight",
        "src_embedding.positions": "encoder.pos_embedding.weight",
        "tgt_embedding.tokens": "decoder.tok_embedding.weight",
        "tgt_embedding.positions": "decoder.pos_embedding.weight",
    },
    encoder="encoder.layers.",
    decoder="decoder.layers.",
    encoder_layer={
        "self_attn": "self_attention_layer", "self_attn_norm": "self_attention_norm",
        "feed_forward.up_proj": "position_wise_ff_layer.fc1", "feed_forward.down_proj": "position_wise_ff_layer.fc2",
        "feed_forward_norm": "position_wise_ff_norm",
    },
    decoder_layer={
        "self_attn": "self_attention_layer", "self_attn_norm": "self_attention_norm",
        "cross_attn": "encoder_attention", "cross_attn_norm": "encoder_norm",
        "feed_forward.up_proj": "position_wise_ff_layer.fc1", "feed_forward.down_proj": "position_wise_ff_layer.fc2",
        "feed_forward_norm": "position_wise_ff_norm",
    },
    ends={"output_projection": "decoder.fc_out"},
    projections=("fc_q", "fc_k", "fc_v", "fc_o"),
)  # fmt: skip
# The notebooks on which this tutorial is based use other names for the same parts.
_NOTEBOOK_LAYER = {
    "self_attn": "self_attention", "self_attn_norm": "self_attn_layer_norm",
    "feed_forward.up_proj": "positionwise_feedforward.fc_1", "feed_forward.down_proj": "positionwise_feedforward.fc_2",
    "feed_forward_norm": "ff_layer_norm",
}  # fmt: skip
_NOTEBOOK = replace(
    _PYTORCH_SEQ2SEQ,
    encoder_layer=_NOTEBOOK_LAYER,
    decoder_layer=_NOTEBOOK_LAYER | {"cross_attn": "encoder_attention", "cross_attn_norm": "enc_attn_layer_norm"},
)
_ONE_PROJECTION = replace(
    _PYTORCH_SEQ2SEQ,
    projections=("fc_qkv", "fc_qkv", "fc_qkv", "fc_o"),
    slips=(
        Slip(
            name="output",
            text="sends the output of an attention through `fc_qkv` a second time, and never uses `fc_o`",
            unused="fc_o",
            used="fc_qkv",
        ),
        Slip(
            name="masks",
            text="applies no mask, so that target words see the words after them, and padding is attended to",
            mask="all is seen",
        ),
    ),
)

_ALADDIN_PERSSON = Layout(
    config=PRESETS["aladdin-persson"],
    embeddings={
        "src_embedding.tokens": "encoder.word_embedding.weight",
        "src_embedding.positions": "encoder.position_embedding.weight",
        "tgt_embedding.tokens": "decoder.word_embedding.weight",
        "tgt_embedding.positions": "decoder.position_embedding.weight",
    },
    encoder="encoder.layers.",
    decoder="decoder.layers.",
    encoder_layer={
        "self_attn": "attention", "self_attn_norm": "norm1",
        "feed_forward.up_proj": "feed_forward.0", "feed_forward.down_proj": "feed_forward.2",
        "feed_forward_norm": "norm2",
    },
    decoder_layer={
        "self_attn": "attention", "self_attn_norm": "norm",
        "cross_attn": "transformer_block.attention", "cross_attn_norm": "transformer_block.norm1",
        "feed_forward.up_proj": "transformer_block.feed_forward.0",
        "feed_forward.down_proj": "transformer_block.feed_forward.2",
        "feed_forward_norm": "transformer_block.norm2",
    },
    ends={"output_projection": "decoder.fc_out"},
    projections=("queries", "keys", "values", "fc_out"),
    qkv_bias=False,
    shared_by_heads=True,
    scores_by_model_width=True,
)  # fmt: skip

_DECODER: Mapping[str, Any] = {
    "num_encoder_layers": 0, "norm": "pre", "positions": "learned", "activation": "gelu", "norm_eps": 1e-5,
    "scale_embeddings": False,
}  # fmt: skip
_NANOGPT = Layout(
    config=_DECODER,
    embeddings={
        "tgt_embedding.tokens": "transformer.wte.weight", "tgt_embedding.positions": "transformer.wpe.weight",
    },
    decoder="transformer.h.",
    decoder_layer={
        "self_attn": "attn", "self_attn_norm": "ln_1",
        "feed_forward.up_proj": "mlp.c_fc", "feed_forward.down_proj": "mlp.c_proj", "feed_forward_norm": "ln_2",
    },
    ends={"decoder.norm": "transformer.ln_f", "output_projection": "lm_head"},
    projections=("c_attn", "c_attn", "c_attn", "c_proj"),
    biases_may_lack=True,
    packed=True,
    masks=r"attn\.(bias|masked_bias)$",
)  # fmt: skip
_BARE_GPT = replace(  # transformers' model without its head
    _NANOGPT,
    embeddings={"tgt_embedding.tokens": "wte.weight", "tgt_embedding.positions": "wpe.weight"},
    decoder="h.",
    ends={"decoder.norm": "ln_f"},
)
_LECTURE = Layout(  # the lecture on which it is based
    config={**_DECODER, "activation": "relu"},
    embeddings={
        "tgt_embedding.tokens": "token_embedding_table.weight",
        "tgt_embedding.positions": "position_embedding_table.weight",
    },
    decoder="blocks.",
    decoder_layer={
        "self_attn": "sa", "self_attn_norm": "ln1",
        "feed_forward.up_proj": "ffwd.net.0", "feed_forward.down_proj": "ffwd.net.2", "feed_forward_norm": "ln2",
    },
    ends={"decoder.norm": "ln_f", "output_projection": "lm_head"},
    projections=("heads.{head}.query", "heads.{head}.key", "heads.{head}.value", "proj"),
    qkv_bias=False,
    masks=r"\.tril$",
)  # fmt: skip
_LLMS_FROM_SCRATCH = Layout(
    config={**_DECODER, "activation": "gelu_tanh"},
    embeddings={"tgt_embedding.tokens": "tok_emb.weight", "tgt_embedding.positions": "pos_emb.weight"},
    decoder="trf_blocks.",
    decoder_layer={
        "self_attn": "att", "self_attn_norm": "norm1",
        "feed_forward.up_proj": "ff.layers.0", "feed_forward.down_proj": "ff.layers.2", "feed_forward_norm": "norm2",
    },
    ends={"decoder.norm": "final_norm", "output_projection": "out_head"},
    projections=("W_query", "W_key", "W_value", "out_proj"),
    norm=("scale", "shift"),
    qkv_bias=False,
    masks=r"\.att\.mask$",
)  # fmt: skip

LAYOUTS: dict[str, tuple[Layout, ...]] = {
    "annotated-transformer": (_ANNOTATED,),
    "nlp-with-transformers": (_NLP_WITH_TRANSFORMERS,),
    "keras-transformer": (_KERAS,),
    "pytorch-seq2seq": (_PYTORCH_SEQ2SEQ, _ONE_PROJECTION, _NOTEBOOK),
    "aladdin-persson": (_ALADDIN_PERSSON,),
    "nanogpt": (_NANOGPT, _BARE_GPT, _LECTURE),
    "llms-from-scratch": (_LLMS_FROM_SCRATCH,),
}
"""The known spellings by layout name."""
LAYOUT_NAMES = (*LAYOUTS, PYTORCH_TRANSFORMER)


def find_layout(names: Iterable[str]) -> str | None:
    """Returns the layout of a state dict's names, or None if they belong to no tutorial."""
    known = set(names)
    if any(name.endswith("layers.0.self_attn.in_proj_weight") for name in known):
        return PYTORCH_TRANSFORMER
    return next(
        (layout for layout, spellings in LAYOUTS.items() if any(one.token_table in known for one in spellings)), None
    )


def nearest_spelling(layout: str, names: Iterable[str]) -> Layout:
    """Returns the spelling of a layout with the most of its modules among `names`."""
    separator = LAYOUTS[layout][0].separator
    modules = {name.rpartition(separator)[0] for name in names}
    there = {*modules, *_parents(modules, separator)}
    return max(LAYOUTS[layout], key=lambda spelling: len(there & spelling.names()))


def _parents(modules: Iterable[str], separator: str) -> set[str]:
    return {module.rpartition(separator)[0] for module in modules}
