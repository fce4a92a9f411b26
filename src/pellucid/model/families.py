"""One stack of figure 1 alone, as in most models after the paper: encoders, classifiers, decoders."""

from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.errors import ConfigError
from pellucid.model.build import Builder
from pellucid.model.cache import DecoderCache
from pellucid.model.checks import check_ids
from pellucid.model.classification import ClassificationHead
from pellucid.model.embeddings import Embeddings
from pellucid.model.fast.linear import Linear
from pellucid.model.incremental import IncrementalModel
from pellucid.model.initialisation import initialise
from pellucid.model.layers import Decoder, Encoder
from pellucid.model.masks import make_marked_causal_mask, padding_mask
from pellucid.model.parts import Parts
from pellucid.model.transformer import Transformer


class EncoderOnly(nn.Module):
    """The left half of figure 1, as in BERT: states for each token of a text.

    memory = EncoderOnly(ModelConfig.encoder(vocab_size=4000, num_layers=4))(ids)        # (B, S) -> (B, S, D)
    """

    def __init__(self, config: ModelConfig, parts: Parts | None = None) -> None:
        super().__init__()
        self.config = config
        self.parts = parts
        build = Builder(config, parts)
        self.src_embedding: Embeddings = build.embeddings(config.src_vocab_size)
        self.encoder: Encoder = build.encoder()
        initialise(self, config)

    def forward(self, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Returns the states of ids (B, S), after the final norm if there is one: (B, S, D).

        Args:
            segments: (B, S) the segment of each token, for a model with `num_segments`; if None, all are of the first.
            mask: bool, True = may attend, broadcastable to (B, H, S, S); if None, all ids except `pad_id`.
        """
        check_ids(ids)
        if mask is None:
            mask = padding_mask(ids, self.config.pad_id)
        return self.encoder(self.src_embedding(ids, segments=segments), mask)  # (B, S, D)


class SequenceClassifier(EncoderOnly):
    """An encoder with a classifier on the first token's state, or on the mean of all.

    Raises ConfigError for a config with fewer than two classes.
    """

    def __init__(self, config: ModelConfig, parts: Parts | None = None) -> None:
        if config.num_classes < 2:
            problem = f"`num_classes` ({config.num_classes}) must be at least 2 for a classifier"
            raise ConfigError(problem, "use EncoderOnly for states")
        super().__init__(config, parts)
        self.head: ClassificationHead = ClassificationHead(config)
        initialise(self.head, config)

    def forward(self, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Returns logits of the classes for ids (B, S): (B, C).

        `segments` and `mask` are as in EncoderOnly. The states of all tokens except `pad_id` are pooled, independent of
        `mask`.
        """
        states = super().forward(ids, segments, mask)  # (B, S, D)
        return self.head(states, padding_mask(ids, self.config.pad_id))  # (B, C)


class DecoderOnly(IncrementalModel):
    """The right half of figure 1 without cross-attention, as in GPT-2: the next token of a text.

    logits = DecoderOnly(ModelConfig.decoder(vocab_size=4000, num_layers=4))(ids)        # (B, T) -> (B, T, V)
    """

    def __init__(self, config: ModelConfig, parts: Parts | None = None) -> None:
        super().__init__()
        self.config = config
        self.parts = parts
        build = Builder(config, parts)
        self.tgt_embedding: Embeddings = build.embeddings(config.tgt_vocab_size)
        self.decoder: Decoder = build.decoder(has_memory=False)
        self.output_projection: Linear = Linear(config.d_model, config.tgt_vocab_size, bias=config.output_bias)
        initialise(self, config)
        if config.tie_embeddings != "none":
            self.output_projection.weight = self.tgt_embedding.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        """Returns logits, before the softmax, for each next token of ids (B, T), padded on the right: (B, T, V)."""
        return self.output_projection(self.states(ids))  # (B, T, V)

    def states(self, ids: Tensor) -> Tensor:
        """Returns the input of the output projection, (B, T, D): for losses that avoid computing all logits at once."""
        check_ids(ids)
        return self.decoder(
            self.tgt_embedding(ids), None, make_marked_causal_mask(ids.size(1), ids.device), None
        )  # (B, T, D)

    def start(self, ids: Tensor, beam_size: int = 1) -> DecoderCache:
        """Encodes all but the last token of prompts of equal length, (B, T); `step` continues with the last."""
        cache = DecoderCache(ids.size(0), self.config.num_decoder_layers, ids.device, beam_size)
        read = ids[:, :-1]
        if self.parts is not None and (self.parts.attention or self.parts.decoder_layer):
            # Custom attention is written for steps of one token: it processes the prompt token by token as well.
            for tokens in read.unbind(dim=1):
                self.step_states(tokens[:, None].expand(-1, beam_size), cache)
        elif read.size(1):
            self.decoder(self.tgt_embedding(read), None, cache.fill(read.size(1)), None, cache)
        return cache


Model = Transformer | EncoderOnly | DecoderOnly


def build_model(config: ModelConfig, parts: Parts | None = None) -> Model:
    """Returns a new model for `config`, with custom `parts`, if given.

    The layer counts determine the family.
    """
    if config.family == "encoder":
        return SequenceClassifier(config, parts) if config.num_classes else EncoderOnly(config, parts)
    return DecoderOnly(config, parts) if config.family == "decoder" else Transformer(config, parts)
