"""Builds the modules of a model from its config, built-in or custom ones.

Only this file selects between Pellucid's modules and custom ones. Modules are made in the order in which they use
random numbers: another order gives other weights for the same seed.
"""

from torch import nn

from pellucid.config import ModelConfig
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.attention_positions import make_distances
from pellucid.model.embeddings import Embeddings
from pellucid.model.feed_forward import FeedForward
from pellucid.model.layers import Decoder, DecoderLayer, Encoder, EncoderLayer
from pellucid.model.norm import make_norm
from pellucid.model.parts import Parts, resolve_parts
from pellucid.model.positions import AbsolutePositions, make_added_positions


class Builder:
    """Builds the embeddings and stacks of one model.

    Raises ConfigError if `parts` is not a Parts, or if one of them does not make a module that a model can call.
    """

    def __init__(self, config: ModelConfig, parts: Parts | None = None) -> None:
        self.config = config
        self.parts: Parts = resolve_parts(parts)

    def embeddings(self, vocab_size: int, name: str = "ids") -> Embeddings:
        """Returns embeddings of `vocab_size` tokens. Their errors use `name`, the model's argument, for the ids."""
        config = self.config
        tokens = nn.Embedding(vocab_size, config.d_model)
        # The type of custom positions determines where they are used. So they are made for each embedding and each
        # stack, and discarded otherwise.
        positions = self.parts.make("positions", config, make_added_positions)
        return Embeddings(
            tokens,
            positions if isinstance(positions, AbsolutePositions) else None,
            nn.Embedding(config.num_segments, config.d_model) if config.num_segments else None,
            self._norm(config) if config.embedding_norm else None,
            config.dropout,
            scaled=config.scale_embeddings,
            max_positions=config.max_positions,
            name=name,
        )

    def encoder(self) -> Encoder:
        """Returns the left stack."""
        relative = self._relative(causal=False)
        layers = [self._encoder_layer() for _ in range(self.config.num_encoder_layers)]
        return Encoder(layers, self._final_norm(), relative)

    def decoder(self, has_memory: bool = True) -> Decoder:
        """Returns the right stack; with `has_memory=False` its layers have no cross-attention."""
        relative = self._relative(causal=True)
        layers = [self._decoder_layer(has_memory) for _ in range(self.config.num_decoder_layers)]
        return Decoder(layers, self._final_norm(), relative)

    def _relative(self, causal: bool) -> nn.Module | None:
        """Returns the positions that act within the attention of a stack; None if they are added to embeddings."""
        made = self.parts.make("positions", self.config, lambda config: make_distances(config, causal))
        return None if isinstance(made, AbsolutePositions) else made

    def _final_norm(self) -> nn.Module | None:
        return self._norm(self.config) if self.config.has_final_norm else None

    def _encoder_layer(self) -> nn.Module:
        return self.parts.make(
            "encoder_layer",
            self.config,
            lambda config: EncoderLayer.from_config(config, self._attention, self._feed_forward, self._norm),
        )

    def _decoder_layer(self, has_memory: bool) -> nn.Module:
        return self.parts.make(
            "decoder_layer",
            self.config,
            lambda config: DecoderLayer.from_config(
                config, has_memory, self._attention, self._feed_forward, self._norm
            ),
        )

    def _attention(self, config: ModelConfig, query_norm: bool = True) -> nn.Module:
        return self.parts.make(
            "attention", config, lambda config: MultiHeadAttention.from_config(config, query_norm=query_norm)
        )

    def _feed_forward(self, config: ModelConfig) -> nn.Module:
        return self.parts.make("feed_forward", config, FeedForward.from_config)

    def _norm(self, config: ModelConfig) -> nn.Module:
        return self.parts.make("norm", config, make_norm)
