"""Incremental decoding, one token per call: the same decoder, with a cache of keys and values."""

from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.model.cache import DecoderCache
from pellucid.model.embeddings import Embeddings
from pellucid.model.fast.linear import Linear
from pellucid.model.layers import Decoder


class IncrementalModel(nn.Module):
    """A model that ends in a decoder and a projection, and can decode token by token.

    cache = model.start(ids, beam_size)        # a source to translate, or prompts to continue
    logits = model.step(tokens, cache)         # (B, W) -> (B, W, V), as often as there are tokens
    """

    config: ModelConfig
    tgt_embedding: Embeddings
    decoder: Decoder
    output_projection: Linear

    def start(self, ids: Tensor, beam_size: int = 1) -> DecoderCache:
        """Returns the cache from which `step` continues, for `beam_size` hypotheses per row of `ids`."""
        raise NotImplementedError

    def step(self, tokens: Tensor, cache: DecoderCache) -> Tensor:
        """Returns logits (B, W, V) after one more token for each of the W hypotheses of each sentence.

        The hypotheses of a sentence are in the dimension of the target's positions, and the cache's mask restricts each
        to its own past: so the keys of the memory are stored once per sentence, whatever W is.

        A search of a decoder that consists of Pellucid's modules and that nothing observes does not call this method:
        decoding/fast_step.py computes the same logits from the modules' weights in fewer calls, without attention().
        In a custom loop, its `make_step(model, cache)` returns that function of the tokens.

        Args:
            tokens: (B, W) the last token of each hypothesis. cache: from `start`; it grows by one position.
        """
        return self.output_projection(self.step_states(tokens, cache))  # (B, W, V)

    def step_states(self, tokens: Tensor, cache: DecoderCache) -> Tensor:
        """Returns the input of the output projection in a `step`, (B, W, D)."""
        x = self.tgt_embedding(tokens, position=cache.length)  # (B, W, D)
        own_past = cache.grow()  # (B, 1, W, M); after the embedding, since it increases `cache.length`
        return self.decoder(x, cache.memory, own_past, cache.memory_mask, cache)  # (B, W, D)
