"""Figure 1: the Transformer, an encoder and a decoder between embeddings and output projection."""

from torch import Tensor

from pellucid.config import ModelConfig
from pellucid.errors import ConfigError
from pellucid.model.build import Builder
from pellucid.model.cache import DecoderCache
from pellucid.model.checks import check_ids, check_pairs
from pellucid.model.embeddings import Embeddings
from pellucid.model.fast.linear import Linear
from pellucid.model.incremental import IncrementalModel
from pellucid.model.initialisation import initialise
from pellucid.model.layers import Decoder, Encoder
from pellucid.model.masks import make_marked_causal_mask, padding_mask
from pellucid.model.parts import Parts


class Transformer(IncrementalModel):
    """The encoder-decoder of figure 1.

        model = Transformer(ModelConfig.preset("tiny", src_vocab_size=4000, tgt_vocab_size=4000))
        logits = model(src, tgt_in)        # (B, S), (B, T) -> (B, T, V)

    A source's mask follows from `pad_id`; the target's is only causal, since targets are padded on the right. `parts`
    has the factories of custom modules. The base class, in incremental.py, decodes one token per call, by `start` and
    `step`; figure 1 needs neither.
    """

    def __init__(self, config: ModelConfig, parts: Parts | None = None) -> None:
        super().__init__()
        if config.family != "encoder-decoder":
            raise ConfigError(
                f"a Transformer has two stacks, but `num_encoder_layers` is {config.num_encoder_layers} and "
                f"`num_decoder_layers` {config.num_decoder_layers}",
                "use EncoderOnly or DecoderOnly for a single stack",
            )
        self.config = config
        self.parts = parts
        build = Builder(config, parts)
        self.src_embedding: Embeddings = build.embeddings(config.src_vocab_size, name="src")
        self.tgt_embedding: Embeddings = build.embeddings(config.tgt_vocab_size, name="tgt")
        self.encoder: Encoder = build.encoder()
        self.decoder: Decoder = build.decoder()
        self.output_projection: Linear = Linear(config.d_model, config.tgt_vocab_size, bias=config.output_bias)
        initialise(self, config)
        # Section 3.4: one matrix for the embeddings and the linear layer before the softmax. It is shared after
        # initialise, so that it is initialized as an embedding.
        if config.tie_embeddings != "none":
            self.output_projection.weight = self.tgt_embedding.tokens.weight
        if config.tie_embeddings == "all":
            self.src_embedding.tokens.weight = self.tgt_embedding.tokens.weight

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        """Returns logits, before the softmax, for each next target token: (B, T, V).

        Args:
            src: (B, S) source ids.
            tgt: (B, T) target ids, starting with the start token.
            src_mask: the source positions that source and target may attend to: bool, True = may attend, broadcastable
                to (B, H, S, S) and to (B, H, T, S), as (B, 1, 1, S) is; if None, all except `pad_id`.
            tgt_mask: the same for the target's self-attention, broadcastable to (B, H, T, T); if None, causal. A custom
                mask is used unchanged, so it should be causal as well.

        Raises DataError for ids outside of the vocabulary (a GPU raises its own error), unequal batches, masks that do
        not fit, and sequences beyond `max_positions`.
        """
        return self.output_projection(self.states(src, tgt, src_mask, tgt_mask))  # (B, T, V)

    def states(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory: Tensor | None = None,
    ) -> Tensor:
        """Returns figure 1 up to the output projection, (B, T, D): embeds, encodes, decodes.

        If the `memory` of `src` is given, the source is not encoded again. A loss that avoids computing all logits at
        once calls this, too.
        """
        check_ids(src, "src")
        check_ids(tgt, "tgt")
        check_pairs(src, tgt, memory, self.config.d_model)
        if src_mask is None:
            src_mask = padding_mask(src, self.config.pad_id)
        if tgt_mask is None:
            tgt_mask = make_marked_causal_mask(tgt.size(1), tgt.device)
        if memory is None:
            memory = self.encode(src, src_mask)  # (B, S, D)
        return self.decoder(self.tgt_embedding(tgt), memory, tgt_mask, src_mask)  # (B, T, D)

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> Tensor:
        """Returns the encoder's output for source ids (B, S): the memory, (B, S, D)."""
        check_ids(src, "src")
        if src_mask is None:
            src_mask = padding_mask(src, self.config.pad_id)
        return self.encoder(self.src_embedding(src), src_mask)  # (B, S, D)

    def decode(
        self, tgt: Tensor, memory: Tensor, src: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        """Returns logits (B, T, V) for target ids (B, T), given the memory (B, S, D) of `src` (B, S).

        The shape of `src` is checked, and its padding is masked if no `src_mask` is given.
        """
        return self.output_projection(self.states(src, tgt, src_mask, tgt_mask, memory))  # (B, T, V)

    def start(self, ids: Tensor, beam_size: int = 1) -> DecoderCache:
        """Encodes the source `ids` (B, S), and returns the cache from which `step` continues."""
        check_ids(ids)
        src_mask = padding_mask(ids, self.config.pad_id)
        memory = self.encode(ids, src_mask)  # (B, S, D)
        return DecoderCache(ids.size(0), self.config.num_decoder_layers, ids.device, beam_size, memory, src_mask)
