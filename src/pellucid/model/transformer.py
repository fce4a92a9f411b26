"""Figure 1: the Transformer, an encoder and a decoder between embeddings and output projection; and its two halves."""

import torch
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.errors import ConfigError, DataError
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.cache import DecoderCache
from pellucid.model.embeddings import Embeddings, check_ids
from pellucid.model.fast.linear import Linear
from pellucid.model.heads import ClassificationHead
from pellucid.model.masks import causal_mask, padding_mask
from pellucid.model.stacks import Decoder, Encoder


class Transformer(nn.Module):
    """The encoder-decoder of figure 1.

        model = Transformer(ModelConfig.preset("tiny", src_vocab_size=4000, tgt_vocab_size=4000))
        logits = model(src, tgt_in)        # (B, S), (B, T) -> (B, T, V)

    A source's mask comes from `pad_id`; the target's is causal only, since targets are padded on the right.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        if config.family != "encoder-decoder":
            raise ConfigError(
                f"a Transformer has two stacks, but `num_encoder_layers` is {config.num_encoder_layers} and "
                f"`num_decoder_layers` {config.num_decoder_layers}",
                "use EncoderOnly or DecoderOnly for one stack alone",
            )
        self.config = config
        self.src_embedding = Embeddings(config, config.src_vocab_size)
        self.tgt_embedding = Embeddings(config, config.tgt_vocab_size)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.output_projection = Linear(config.d_model, config.tgt_vocab_size, bias=config.output_bias)
        initialise(self, config)
        if config.tie_embeddings != "none":
            self.output_projection.weight = self.tgt_embedding.tokens.weight
        if config.tie_embeddings == "all":
            self.src_embedding.tokens.weight = self.tgt_embedding.tokens.weight

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

        Raises DataError for what are no ids of the model, unequal batches, masks that do not fit, and sequences beyond
        `max_positions`.
        """
        logits: Tensor = self.output_projection(self.states(src, tgt, src_mask, tgt_mask))  # (B, T, V)
        return logits

    def states(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        """What the output projection sees, (B, T, D): for losses that do not want all logits at a time."""
        return self._decoder_states(tgt, self.encode(src, src_mask), src, src_mask, tgt_mask)

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> Tensor:
        """The encoder's output for source ids (B, S): the memory, (B, S, D)."""
        check_ids(src, "src")
        if src_mask is None:
            src_mask = padding_mask(src, self.config.pad_id)
        memory: Tensor = self.encoder(self.src_embedding(src), src_mask)  # (B, S, D)
        return memory

    def decode(
        self, tgt: Tensor, memory: Tensor, src: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        """Logits (B, T, V) for target ids (B, T), given the memory (B, S, D) of `src` (B, S)."""
        logits: Tensor = self.output_projection(self._decoder_states(tgt, memory, src, src_mask, tgt_mask))  # (B, T, V)
        return logits

    def start(self, src: Tensor, beam_size: int = 1) -> DecoderCache:
        """Encodes `src` (B, S) and returns the cache from which `step` continues."""
        src_mask = padding_mask(src, self.config.pad_id)
        memory, num_layers = self.encode(src, src_mask), self.config.num_decoder_layers
        return DecoderCache(src.size(0), num_layers, src.device, beam_size, memory, src_mask)

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

    def _decoder_states(
        self, tgt: Tensor, memory: Tensor, src: Tensor, src_mask: Tensor | None, tgt_mask: Tensor | None
    ) -> Tensor:
        check_ids(src, "src")
        check_ids(tgt, "tgt")
        if not torch.compiler.is_compiling() and src.size(0) != tgt.size(0):
            raise DataError(f"{src.size(0)} sources and {tgt.size(0)} targets: each source needs one target")
        if src_mask is None:
            src_mask = padding_mask(src, self.config.pad_id)
        if tgt_mask is None:
            tgt_mask = causal_mask(tgt.size(1), tgt.device)
        x: Tensor = self.decoder(self.tgt_embedding(tgt), memory, tgt_mask, src_mask)  # (B, T, D)
        return x


class EncoderOnly(nn.Module):
    """The left half of figure 1, as BERT has it: states for each token of a text.

    memory = EncoderOnly(ModelConfig.encoder(vocab_size=4000, num_layers=4))(ids)        # (B, S) -> (B, S, D)
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.src_embedding = Embeddings(config, config.src_vocab_size)
        self.encoder = Encoder(config)
        initialise(self, config)

    def forward(self, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """The states of ids (B, S), after the final norm where there is one: (B, S, D).

        Args:
            segments: (B, S) which segment each is part of, for a model with `num_segments`; None: all of the first.
            mask: bool, True = may attend, broadcastable to (B, H, S, S). None: what is not `pad_id`.
        """
        check_ids(ids)
        if mask is None:
            mask = padding_mask(ids, self.config.pad_id)
        states: Tensor = self.encoder(self.src_embedding(ids, segments=segments), mask)  # (B, S, D)
        return states


class SequenceClassifier(EncoderOnly):
    """An encoder whose first token's state, or the mean of all, decides between classes.

    Raises ConfigError for a config with fewer than two classes.
    """

    def __init__(self, config: ModelConfig) -> None:
        if config.num_classes < 2:
            problem = f"`num_classes` ({config.num_classes}) must be at least 2 for a classifier"
            raise ConfigError(problem, "use EncoderOnly for states")
        super().__init__(config)
        self.head = ClassificationHead(config)
        initialise(self.head, config)

    def forward(self, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Logits of the classes for ids (B, S): (B, C). Arguments as EncoderOnly takes them."""
        states = super().forward(ids, segments, mask)  # (B, S, D)
        logits: Tensor = self.head(states, padding_mask(ids, self.config.pad_id))  # (B, C)
        return logits


class DecoderOnly(nn.Module):
    """The right half of figure 1 without cross-attention, as GPT-2 has it: the next token of a text.

    logits = DecoderOnly(ModelConfig.decoder(vocab_size=4000, num_layers=4))(ids)        # (B, T) -> (B, T, V)
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.tgt_embedding = Embeddings(config, config.tgt_vocab_size)
        self.decoder = Decoder(config, has_memory=False)
        self.output_projection = Linear(config.d_model, config.tgt_vocab_size, bias=config.output_bias)
        initialise(self, config)
        if config.tie_embeddings != "none":
            self.output_projection.weight = self.tgt_embedding.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        """Logits, before the softmax, for each next token of ids (B, T): (B, T, V). Texts are padded on the right."""
        logits: Tensor = self.output_projection(self.states(ids))  # (B, T, V)
        return logits

    def states(self, ids: Tensor) -> Tensor:
        """What the output projection sees, (B, T, D): for losses that do not want all logits at a time."""
        check_ids(ids)
        x: Tensor = self.decoder(self.tgt_embedding(ids), None, causal_mask(ids.size(1), ids.device), None)  # (B, T, D)
        return x

    def start(self, ids: Tensor, beam_size: int = 1) -> DecoderCache:
        """Reads all but the last token of prompts of one length, (B, T); `step` continues with the last.

        The W hypotheses of a prompt share its keys and values.
        """
        cache = DecoderCache(ids.size(0), self.config.num_decoder_layers, ids.device, beam_size)
        if ids.size(1) > 1:
            self.decoder(self.tgt_embedding(ids[:, :-1]), None, cache.fill(ids.size(1) - 1), None, cache)
        return cache

    def step(self, tokens: Tensor, cache: DecoderCache) -> Tensor:
        """Logits (B, W, V) after one more token (B, W) of each hypothesis; the cache grows by one position."""
        x = self.tgt_embedding(tokens, position=cache.length)  # (B, W, D)
        logits: Tensor = self.output_projection(self.decoder(x, None, cache.grow(), None, cache))  # (B, W, V)
        return logits


def initialise(model: nn.Module, config: ModelConfig) -> None:
    """Xavier uniform for matrices, zero biases; embeddings normal with deviation d_model^-0.5.

    That gives embeddings unit variance after the scale of section 3.4, and tied logits too. Without that scale, a
    pre-norm sublayer adds less, by the root of the number of sums in its stack (Radford et al. 2019, section 2.3).
    """
    # Projections packed in one matrix are matrices of their own.
    attentions = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    packed: dict[nn.Module, list[int]] = {attention.qkv_proj: attention.qkv_widths for attention in attentions}
    for module in model.modules():
        if isinstance(module, nn.Linear):
            for block in torch.split(module.weight, packed.get(module, [module.out_features])):
                nn.init.xavier_uniform_(block)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=config.d_model**-0.5)
    for stack in (module for module in model.modules() if isinstance(module, Encoder | Decoder)):
        added = [module for name, module in stack.named_modules() if name.endswith(("out_proj", "down_proj"))]
        for module in added if config.norm == "pre" and not config.scale_embeddings else ():
            module.weight.data *= len(added) ** -0.5


Model = Transformer | EncoderOnly | DecoderOnly


def build_model(config: ModelConfig) -> Model:
    """The model that `config` describes: its layer counts tell the family."""
    if config.family == "encoder":
        return SequenceClassifier(config) if config.num_classes else EncoderOnly(config)
    return DecoderOnly(config) if config.family == "decoder" else Transformer(config)
