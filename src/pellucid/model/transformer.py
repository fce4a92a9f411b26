"""Figure 1: the Transformer, an encoder and a decoder between embeddings and output projection."""

from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.model.cache import DecoderCache
from pellucid.model.embeddings import Embeddings
from pellucid.model.layers import DecoderLayer, EncoderLayer
from pellucid.model.linear import Linear
from pellucid.model.masks import causal_mask, padding_mask


class Transformer(nn.Module):
    """The encoder-decoder of figure 1.

        model = Transformer(ModelConfig.preset("tiny", src_vocab_size=4000, tgt_vocab_size=4000))
        logits = model(src, tgt_in)        # (B, S), (B, T) -> (B, T, V)

    A source's mask comes from `pad_id`; the target's is causal only, since targets are padded on the right.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.src_embedding = Embeddings(config, config.src_vocab_size)
        self.tgt_embedding = Embeddings(config, config.tgt_vocab_size)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.output_projection = Linear(config.d_model, config.tgt_vocab_size, bias=config.output_bias)
        self._initialise()
        self._tie()

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        """Logits, before the softmax, for each next target token.

        Args:
            src: (B, S) source ids. tgt: (B, T) target ids, starting with the start token.
            src_mask: which of the source may be attended to, by itself and by the target: bool, True = may attend,
                broadcastable to (B, H, S, S) and to (B, H, T, S). None: what is not `pad_id`.
            tgt_mask: the same for the target by itself, broadcastable to (B, H, T, T). None: causal; another one is
                taken as it is, so it should be causal as well.

        Returns: (B, T, V).
        """
        logits: Tensor = self.output_projection(self.states(src, tgt, src_mask, tgt_mask))  # (B, T, V)
        return logits

    def states(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        """What the output projection sees, (B, T, D): for losses that do not want all logits at a time."""
        if src_mask is None:
            src_mask = padding_mask(src, self.config.pad_id)
        memory = self.encode(src, src_mask)
        return self._decoder_states(tgt, memory, src_mask, tgt_mask)

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> Tensor:
        """The encoder's output for source ids (B, S): the memory, (B, S, D)."""
        if src_mask is None:
            src_mask = padding_mask(src, self.config.pad_id)
        memory: Tensor = self.encoder(self.src_embedding(src), src_mask)  # (B, S, D)
        return memory

    def decode(
        self,
        tgt: Tensor,
        memory: Tensor,
        src: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
    ) -> Tensor:
        """Logits (B, T, V) for target ids (B, T), given the memory (B, S, D) of `src` (B, S)."""
        if src_mask is None:
            src_mask = padding_mask(src, self.config.pad_id)
        logits: Tensor = self.output_projection(self._decoder_states(tgt, memory, src_mask, tgt_mask))  # (B, T, V)
        return logits

    def start(self, src: Tensor, beam_size: int = 1) -> DecoderCache:
        """Encodes `src` (B, S) and returns the cache from which `step` continues."""
        src_mask = padding_mask(src, self.config.pad_id)
        return DecoderCache(self.encode(src, src_mask), src_mask, self.config.num_decoder_layers, beam_size)

    def step(self, tokens: Tensor, cache: DecoderCache) -> Tensor:
        """Logits (B, W, V) after one more token for each of the W hypotheses of each sentence.

        The hypotheses of a sentence stand side by side where the positions of a target usually do, and the cache's mask
        lets each see its own past alone: so the memory is attended to once a sentence, whatever W is.

        Args:
            tokens: (B, W) the last token of each hypothesis. cache: from `start`; it grows by one position.
        """
        x = self.tgt_embedding(tokens, position=cache.length)  # (B, W, D)
        x = self.decoder(x, cache.memory, cache.grow(), cache.memory_mask, cache)
        logits: Tensor = self.output_projection(x)  # (B, W, V)
        return logits

    def _decoder_states(self, tgt: Tensor, memory: Tensor, src_mask: Tensor | None, tgt_mask: Tensor | None) -> Tensor:
        if tgt_mask is None:
            tgt_mask = causal_mask(tgt.size(1), tgt.device)
        x: Tensor = self.decoder(self.tgt_embedding(tgt), memory, tgt_mask, src_mask)  # (B, T, D)
        return x

    def _initialise(self) -> None:
        """Xavier uniform for matrices, zero biases; embeddings normal with deviation d_model^-0.5.

        The embeddings' deviation gives unit variance after the scale of section 3.4, and logits of unit variance when
        they are tied (docs/decisions/0004-initialisation.md has the measurement).
        """
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                # The three projections packed in one matrix are square matrices of their own.
                for block in module.weight.chunk(3 if name.endswith("qkv_proj") else 1):
                    nn.init.xavier_uniform_(block)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.d_model**-0.5)

    def _tie(self) -> None:
        if self.config.tie_embeddings != "none":
            self.output_projection.weight = self.tgt_embedding.tokens.weight
        if self.config.tie_embeddings == "all":
            self.src_embedding.tokens.weight = self.tgt_embedding.tokens.weight


class Encoder(nn.Module):
    """The left stack of figure 1: N layers, and a final norm where there is one."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer.from_config(config) for _ in range(config.num_encoder_layers))
        self.norm = nn.LayerNorm(config.d_model, config.norm_eps, bias=config.bias) if config.has_final_norm else None

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(B, S, D) -> (B, S, D). `mask` is broadcastable to (B, H, S, S)."""
        for layer in self.layers:
            x = layer(x, mask)
        return x if self.norm is None else self.norm(x)


class Decoder(nn.Module):
    """The right stack of figure 1: N layers, and a final norm where there is one."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer.from_config(config) for _ in range(config.num_decoder_layers))
        self.norm = nn.LayerNorm(config.d_model, config.norm_eps, bias=config.bias) if config.has_final_norm else None

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None,
        memory_mask: Tensor | None,
        cache: DecoderCache | None = None,
    ) -> Tensor:
        """(B, T, D), (B, S, D) -> (B, T, D). `mask` is broadcastable to (B, H, T, T), `memory_mask` to (B, H, T, S)."""
        for index, layer in enumerate(self.layers):
            x = layer(x, memory, mask, memory_mask, None if cache is None else cache.layers[index])
        return x if self.norm is None else self.norm(x)
