"""Decoding a token at a time: the same decoder, with a cache of what it has computed before."""

from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.model.cache import DecoderCache
from pellucid.model.embeddings import Embeddings
from pellucid.model.fast.linear import Linear
from pellucid.model.layers import Decoder


class StepByStep(nn.Module):
    """A model that ends in a decoder and a projection, and can write what it writes token by token.

    cache = model.start(ids, beam_size)        # a source to translate, or prompts to continue
    logits = model.step(tokens, cache)         # (B, W) -> (B, W, V), as often as there are tokens
    """

    config: ModelConfig
    tgt_embedding: Embeddings
    decoder: Decoder
    output_projection: Linear

    def start(self, ids: Tensor, beam_size: int = 1) -> DecoderCache:
        """Returns the cache from which `step` continues, with room for `beam_size` hypotheses a row of `ids`."""
        raise NotImplementedError

    def step(self, tokens: Tensor, cache: DecoderCache) -> Tensor:
        """Returns logits (B, W, V) after one more token for each of the W hypotheses of each sentence.

        The hypotheses of a sentence stand side by side where the positions of a target usually do, and the cache's mask
        lets each see its own past alone: so the keys of the memory are kept once a sentence, whatever W is.

        Args:
            tokens: (B, W) the last token of each hypothesis. cache: from `start`; it grows by one position.
        """
        return self.output_projection(self.step_states(tokens, cache))  # (B, W, V)

    def step_states(self, tokens: Tensor, cache: DecoderCache) -> Tensor:
        """Returns what the output projection sees of a `step`, (B, W, D)."""
        x = self.tgt_embedding(tokens, position=cache.length)  # (B, W, D)
        own_past = cache.grow()  # (B, 1, W, M); the length grows by one, so `x` has read it before
        if cache.plain is not None and cache.plain.may_step():
            return cache.plain.step(x, own_past, cache)  # (B, W, D)
        return self.decoder(x, cache.memory, own_past, cache.memory_mask, cache)  # (B, W, D)
