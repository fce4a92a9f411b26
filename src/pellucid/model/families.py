"""One stack of figure 1 alone, as most of what came after the paper has it: encoders, classifiers, decoders."""

from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.errors import ConfigError
from pellucid.model.cache import DecoderCache
from pellucid.model.checks import check_ids
from pellucid.model.classification import ClassificationHead
from pellucid.model.embeddings import Embeddings
from pellucid.model.fast.decoder import PlainDecoder
from pellucid.model.fast.linear import Linear
from pellucid.model.initialisation import initialise
from pellucid.model.layers import Decoder, Encoder
from pellucid.model.masks import own_causal_mask, padding_mask
from pellucid.model.parts import Parts, parts_or_ours
from pellucid.model.steps import StepByStep
from pellucid.model.transformer import Transformer


class EncoderOnly(nn.Module):
    """The left half of figure 1, as BERT has it: states for each token of a text.

    memory = EncoderOnly(ModelConfig.encoder(vocab_size=4000, num_layers=4))(ids)        # (B, S) -> (B, S, D)
    """

    def __init__(self, config: ModelConfig, parts: Parts | None = None) -> None:
        super().__init__()
        self.config = config
        self.parts = parts
        parts = parts_or_ours(parts)
        self.src_embedding: Embeddings = Embeddings(config, config.src_vocab_size, parts)
        self.encoder: Encoder = Encoder(config, parts)
        initialise(self, config)

    def forward(self, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Returns the states of ids (B, S), after the final norm where there is one: (B, S, D).

        Args:
            segments: (B, S) which segment each is part of, for a model with `num_segments`; None: all of the first.
            mask: bool, True = may attend, broadcastable to (B, H, S, S). None: everything but `pad_id`.
        """
        check_ids(ids)
        if mask is None:
            mask = padding_mask(ids, self.config.pad_id)
        return self.encoder(self.src_embedding(ids, segments=segments), mask)  # (B, S, D)


class SequenceClassifier(EncoderOnly):
    """An encoder whose first token's state, or the mean of all, decides between classes.

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

        `segments` and `mask` are as in EncoderOnly. The states of all tokens but `pad_id` are pooled, whatever `mask`
        says.
        """
        states = super().forward(ids, segments, mask)  # (B, S, D)
        return self.head(states, padding_mask(ids, self.config.pad_id))  # (B, C)


class DecoderOnly(StepByStep):
    """The right half of figure 1 without cross-attention, as GPT-2 has it: the next token of a text.

    logits = DecoderOnly(ModelConfig.decoder(vocab_size=4000, num_layers=4))(ids)        # (B, T) -> (B, T, V)
    """

    def __init__(self, config: ModelConfig, parts: Parts | None = None) -> None:
        super().__init__()
        self.config = config
        self.parts = parts
        parts = parts_or_ours(parts)
        self.tgt_embedding: Embeddings = Embeddings(config, config.tgt_vocab_size, parts)
        self.decoder: Decoder = Decoder(config, parts, has_memory=False)
        self.output_projection: Linear = Linear(config.d_model, config.tgt_vocab_size, bias=config.output_bias)
        initialise(self, config)
        if config.tie_embeddings != "none":
            self.output_projection.weight = self.tgt_embedding.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        """Returns logits, before the softmax, for each next token of ids (B, T), padded on the right: (B, T, V)."""
        return self.output_projection(self.states(ids))  # (B, T, V)

    def states(self, ids: Tensor) -> Tensor:
        """Returns what the output projection sees, (B, T, D): for losses that do not want all logits at a time."""
        check_ids(ids)
        return self.decoder(self.tgt_embedding(ids), None, own_causal_mask(ids.size(1), ids.device), None)  # (B, T, D)

    def start(self, ids: Tensor, beam_size: int = 1) -> DecoderCache:
        """Reads all but the last token of prompts of one length, (B, T); `step` continues with the last."""
        cache, read = DecoderCache(ids.size(0), self.config.num_decoder_layers, ids.device, beam_size), ids[:, :-1]
        if self.parts is not None and (self.parts.attention or self.parts.decoder_layer):
            # Attention of your own is written for steps of a token: it reads the prompt token by token as well.
            for tokens in read.unbind(dim=1):
                self.step_states(tokens[:, None].expand(-1, beam_size), cache)
        elif read.size(1):
            self.decoder(self.tgt_embedding(read), None, cache.fill(read.size(1)), None, cache)
        cache.plain = PlainDecoder.of(self.decoder, cache)
        return cache


Model = Transformer | EncoderOnly | DecoderOnly


def build_model(config: ModelConfig, parts: Parts | None = None) -> Model:
    """Returns a new model that `config` describes, of `parts` of your own where there are some.

    The layer counts tell the family.
    """
    if config.family == "encoder":
        return SequenceClassifier(config, parts) if config.num_classes else EncoderOnly(config, parts)
    return DecoderOnly(config, parts) if config.family == "decoder" else Transformer(config, parts)
