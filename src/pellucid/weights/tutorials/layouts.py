"""Tables of how tutorials name the parts of a Transformer, what their texts decide, and where they slip."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from pellucid.config import PRESETS

PYTORCH_TRANSFORMER = "pytorch-transformer"
"""The layout of `torch.nn.Transformer`, whose surroundings have no names of their own: no table can hold it."""


@dataclass(frozen=True, kw_only=True)
class Slip:
    """A place where a tutorial's text computes something else than it means.

    Places where the text ends with an error are none of these: nobody can have trained with them.
    """

    text: str
    """A sentence on what the text does, without its subject: "the text ..."."""
    weights: Literal["", "cross-attention is self-attention", "outputs go through the queries"] = ""
    """The weights that take it up."""
    mask: Literal["", "padding is seen", "all is seen", "sources are hidden"] = ""
    """The masks that take it up: sources alone see padding; targets see what follows as well; targets see of the source
    what stands before their own place."""

    def told(self, layout: str, as_written: bool) -> str:
        """Returns the line that tells a slip, and how it is read."""
        return f"the text of `{layout}` {self.text}; it is read as it {'is written' if as_written else 'was meant'}"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One spelling of a tutorial's names: our module on the left, theirs on the right."""

    config: Mapping[str, Any]
    """Fields of ModelConfig that the text decides."""
    embeddings: Mapping[str, str]
    """Tables of vectors: of tokens, and of learned positions."""
    encoder: str
    """The text before a layer's number, and before a part of it."""
    decoder: str = ""
    encoder_layer: Mapping[str, str]
    decoder_layer: Mapping[str, str]
    ends: Mapping[str, str]
    """The modules outside of the layers."""
    projections: tuple[str, str, str, str]
    """Within an attention: queries, keys, values, output; with {head} where each head has its own."""
    separator: str = "."
    weight: str = "weight"
    """The matrix of a projection: (out, in); a `kernel` is (in, out)."""
    norm: tuple[str, str] = ("weight", "bias")
    unbiased_norm: bool = False
    """The norm divides by the standard deviation of a sample, plus eps."""
    qkv_bias: bool = True
    """False: without biases, unless there are some."""
    shared_by_heads: bool = False
    """A projection may be one of (K, K) for all heads."""
    scores_by_model_width: bool = False
    """Scores are divided by the square root of d_model, not of the head's width."""
    slips: tuple[Slip, ...] = ()
    """The places where the text computes something else than it means."""
    position_tables: tuple[str, str] | None = None
    """The names under which computed positions may have been saved, of the source and of the target."""

    @property
    def token_table(self) -> str:
        """Returns the name of the source's embedding, by which a layout is known."""
        return self.embeddings["src_embedding.tokens"]

    def names(self) -> set[str]:
        """Returns what the modules of a first layer are called, by which two spellings are told apart."""
        layers = [(self.encoder, self.encoder_layer), (self.decoder, self.decoder_layer)]
        names = {f"{before}0{self.separator}{theirs}" for before, table in layers for theirs in table.values()}
        attention = f"{self.encoder}0{self.separator}{self.encoder_layer['self_attn']}"
        return names | {f"{attention}{self.separator}{name.format(head=0)}" for name in self.projections}


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
            text="hands the memory to `self_attn`: `src_attn` is never used, so never trained",
            weights="cross-attention is self-attention",
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
    slips=(Slip(text="hands no mask to the attention: padding is attended to", mask="padding is seen"),),
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
        Slip(text="hides from each target word the source behind the word's own place", mask="sources are hidden"),
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
# The notebooks that this tutorial goes back to call the same parts by other names.
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
            text="sends the output of an attention through `fc_qkv` once more: `fc_o` is never used, so never trained",
            weights="outputs go through the queries",
        ),
        Slip(text="applies no mask: targets see the words that follow, and padding is seen", mask="all is seen"),
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

LAYOUTS: dict[str, tuple[Layout, ...]] = {
    "annotated-transformer": (_ANNOTATED,),
    "nlp-with-transformers": (_NLP_WITH_TRANSFORMERS,),
    "keras-transformer": (_KERAS,),
    "pytorch-seq2seq": (_PYTORCH_SEQ2SEQ, _ONE_PROJECTION, _NOTEBOOK),
    "aladdin-persson": (_ALADDIN_PERSSON,),
}
"""By name, the spellings that occur."""
LAYOUT_NAMES = (*LAYOUTS, PYTORCH_TRANSFORMER)


def find_layout(names: Iterable[str]) -> str | None:
    """Returns the layout that a state dict's names belong to; None where they are of no tutorial."""
    known = set(names)
    if any(name.endswith("layers.0.multihead_attn.in_proj_weight") for name in known):
        return PYTORCH_TRANSFORMER
    return next((layout for layout, (first, *_) in LAYOUTS.items() if first.token_table in known), None)


def nearest_spelling(layout: str, names: Iterable[str]) -> Layout:
    """Returns the spelling of a layout with the most of its modules among `names`."""
    separator = LAYOUTS[layout][0].separator
    modules = {name.rpartition(separator)[0] for name in names}
    return max(LAYOUTS[layout], key=lambda spelling: len({*modules, *_parents(modules, separator)} & spelling.names()))


def _parents(modules: Iterable[str], separator: str) -> set[str]:
    return {module.rpartition(separator)[0] for module in modules}
