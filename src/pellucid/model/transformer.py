"""Figure 1: the Transformer, an encoder and a decoder between embeddings and output projection."""

from torch import Tensor

from pellucid.config import ModelConfig
from pellucid.errors import ConfigError
from pellucid.model.cache import DecoderCache
from pellucid.model.checks import check_ids, check_pairs
from pellucid.model.embeddings import Embeddings
from pellucid.model.fast.decoder import PlainDecoder
from pellucid.model.fast.linear import Linear
from pellucid.model.initialisation import initialise
from pellucid.model.layers import Decoder, Encoder
from pellucid.model.masks import own_causal_mask, padding_mask
from pellucid.model.parts import Parts, parts_or_ours
from pellucid.model.steps import StepByStep


class Transformer(StepByStep):
    """The encoder-decoder of figure 1.

        model = Transformer(ModelConfig.preset("tiny", src_vocab_size=4000, tgt_vocab_size=4000))
        logits = model(src, tgt_in)        # (B, S), (B, T) -> (B, T, V)

    A source's mask comes from `pad_id`; the target's is causal only, since targets are padded on the right. `parts`
    makes modules of your own in place of Pellucid's. Its base, in steps.py, decodes a token at a time, by `start` and
    `step`; figure 1 needs neither.
    """

    def __init__(self, config: ModelConfig, parts: Parts | None = None) -> None:
        super().__init__()
        if config.family != "encoder-decoder":
            raise ConfigError(
                f"a Transformer has two stacks, but `num_encoder_layers` is {config.num_encoder_layers} and "
                f"`num_decoder_layers` {config.num_decoder_layers}",
                "use EncoderOnly or DecoderOnly for one stack alone",
            )
        self.config = config
        self.parts = parts
        parts = parts_or_ours(parts)
        self.src_embedding: Embeddings = Embeddings(config, config.src_vocab_size, parts, "src")
        self.tgt_embedding: Embeddings = Embeddings(config, config.tgt_vocab_size, parts, "tgt")
        self.encoder: Encoder = Encoder(config, parts)
        self.decoder: Decoder = Decoder(config, parts)
        self.output_projection: Linear = Linear(config.d_model, config.tgt_vocab_size, bias=config.output_bias)
        initialise(self, config)
        # Section 3.4: one matrix for the embeddings and the linear layer before the softmax. It is shared after
        # initialise, so that it begins as an embedding.
        if config.tie_embeddings != "none":
            self.output_projection.weight = self.tgt_embedding.tokens.weight
        if config.tie_embeddings == "all":
            self.src_embedding.tokens.weight = self.tgt_embedding.tokens.weight

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        """Returns logits, before the softmax, for each next target token: (B, T, V).

        Args:
            src: (B, S) source ids. tgt: (B, T) target ids, starting with the start token.
            src_mask: which of the source may be attended to, by itself and by the target: bool, True = may attend,
                broadcastable to (B, H, S, S) and to (B, H, T, S), as (B, 1, 1, S) is. None: everything but `pad_id`.
            tgt_mask: the same for the target by itself, broadcastable to (B, H, T, T). None: causal; another one is
                taken as it is, so it should be causal as well.

        Raises DataError for ids that are not the model's (a GPU has an error of its own for those), unequal batches,
        masks that do not fit, and sequences beyond `max_positions`.
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

        Where the `memory` of `src` is given, the source is not encoded again. A loss that does not want all logits at a
        time begins here, too.
        """
        check_ids(src, "src")
        check_ids(tgt, "tgt")
        check_pairs(src, tgt, memory, self.config.d_model)
        if src_mask is None:
            src_mask = padding_mask(src, self.config.pad_id)
        if tgt_mask is None:
            tgt_mask = own_causal_mask(tgt.size(1), tgt.device)
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

        Of `src`, its shape is checked, and its padding is not attended to where no `src_mask` is given.
        """
        return self.output_projection(self.states(src, tgt, src_mask, tgt_mask, memory))  # (B, T, V)

    def start(self, ids: Tensor, beam_size: int = 1) -> DecoderCache:
        """Encodes the source `ids` (B, S), and returns the cache from which `step` continues."""
        check_ids(ids)
        src_mask = padding_mask(ids, self.config.pad_id)
        memory, num_layers = self.encode(ids, src_mask), self.config.num_decoder_layers
        cache = DecoderCache(ids.size(0), num_layers, ids.device, beam_size, memory, src_mask)
        cache.plain = PlainDecoder.of(self.decoder, cache)
        return cache
