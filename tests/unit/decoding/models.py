"""Models for the tests of searches: real ones with random, peaked outputs, and one whose outputs are a script."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.decoding.beam import beam_search, greedy_search
from pellucid.decoding.hypothesis import SearchResult
from pellucid.decoding.steps import SearchState
from pellucid.model.families import DecoderOnly
from pellucid.model.transformer import Transformer

PAD, BOS, EOS = 0, 1, 2
Ids = tuple[int, ...]
Script = Callable[[Ids, Ids], Iterable[float]]
"""From a source and the target so far, both without start and end tokens, to the next token's logits."""


def random_model(seed: int, vocab_size: int = 12, sharpness: float = 4.0, **fields: Any) -> Transformer:
    """A small model whose next-token distributions are peaked, differ from place to place, and come to an end."""
    torch.manual_seed(seed)
    shape = {"d_model": 16, "d_ff": 16, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
    sizes = {"src_vocab_size": vocab_size, "tgt_vocab_size": vocab_size}
    config = ModelConfig(**{"tie_embeddings": "none", "output_bias": True, "norm": "pre", **shape, **sizes, **fields})
    model = Transformer(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2 and ("layers" in name or "tgt_embedding" in name):
                parameter *= 3  # else each word repeats the one before
        model.output_projection.weight *= sharpness
        model.output_projection.bias[EOS] = sharpness / 3
    return model


def random_decoder(seed: int = 0, vocab_size: int = 12, sharpness: float = 3.0, **fields: Any) -> DecoderOnly:
    """A small decoder alone whose next-token distributions are peaked and differ from place to place."""
    torch.manual_seed(seed)
    shape = {"d_model": 16, "d_ff": 16, "num_heads": 2, "dropout": 0.0, "norm": "pre", "tie_embeddings": "none"}
    options = {"max_positions": 12, "output_bias": True}
    model = DecoderOnly(ModelConfig.decoder(vocab_size=vocab_size, num_layers=2, **shape | options | fields)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2 and ("layers" in name or "tgt_embedding" in name):
                parameter *= 3
        model.output_projection.weight *= sharpness
    return model


def random_sources(seed: int, count: int, vocab_size: int = 12, longest: int = 9) -> list[list[int]]:
    """Sources of 0 to `longest` ids."""
    generator = np.random.default_rng(seed)
    return [generator.integers(3, vocab_size, generator.integers(0, longest + 1)).tolist() for _ in range(count)]


@dataclass
class ScriptedCache:
    """What the fake model remembers: each sentence's source, and the targets so far of its hypotheses."""

    sources: list[Ids]
    prefixes: list[list[Ids]]
    length: int = 0

    def reorder(self, parents: Tensor) -> None:
        self.prefixes = [[row[i] for i in order] for row, order in zip(self.prefixes, parents.tolist(), strict=True)]

    def select(self, sentences: Tensor) -> None:
        kept = sentences.tolist()
        self.sources, self.prefixes = [self.sources[i] for i in kept], [self.prefixes[i] for i in kept]


@dataclass
class ScriptedModel:
    """Stands for a Transformer in a search; `disturb` may change a step's logits (B, W, V) as arithmetic would."""

    script: Script
    config: ModelConfig
    disturb: Callable[[Tensor], Tensor] = lambda logits: logits
    rows_seen: list[int] = field(default_factory=list)
    batches_seen: list[tuple[int, ...]] = field(default_factory=list)

    def parameters(self) -> Iterator[Tensor]:
        """One number, which tells the device."""
        yield torch.zeros(())

    def eval(self) -> "ScriptedModel":
        """There is nothing to switch off."""
        return self

    def start(self, src: Tensor, beam_size: int = 1) -> ScriptedCache:
        self.batches_seen.append(tuple(src.shape))
        sources = [tuple(i for i in row if i not in (PAD, EOS)) for row in src.tolist()]
        return ScriptedCache(sources, [[()] * beam_size for _ in sources])

    def step(self, tokens: Tensor, cache: ScriptedCache) -> Tensor:
        self.rows_seen.append(tokens.size(0))
        pairs = zip(cache.prefixes, tokens.tolist(), strict=True)
        cache.length += 1
        cache.prefixes = [[(*p, t) for p, t in zip(row, last, strict=True)] for row, last in pairs]
        targets = [[prefix[1:] for prefix in row] for row in cache.prefixes]
        logits = [[list(self.script(s, t)) for t in row] for s, row in zip(cache.sources, targets, strict=True)]
        return self.disturb(torch.tensor(logits))


def scripted(script: Script, vocab_size: int, **fields: Any) -> Any:
    """A fake model; typed so that it passes for a Transformer."""
    disturb = fields.pop("disturb", lambda logits: logits)
    config = ModelConfig(src_vocab_size=vocab_size, tgt_vocab_size=vocab_size, d_model=2, num_heads=1, **fields)
    return ScriptedModel(script, config, disturb)


def random_script(seed: int, vocab_size: int, sharpness: float = 2.0, clumps: bool = False) -> Script:
    """Logits that depend on source and target; with `clumps`, three of them often lie near each other."""

    def logits(source: Ids, target: Ids) -> list[float]:
        generator = np.random.default_rng([seed, *source, vocab_size, *target])
        values = sharpness * generator.normal(size=vocab_size)
        if clumps and generator.random() < 0.5:
            near = EOS + generator.permutation(vocab_size - EOS)[:3]
            values[near] = values[near[0]] + 0.02 * generator.normal(size=3)
        return [float(value) for value in values]

    return logits


def beam_found(model: Any, src: Tensor, config: DecodeConfig, **options: Any) -> list[SearchResult]:
    """Returns what beam search finds for a batch (B, S)."""
    return beam_search(SearchState(model, src, config), config, **options)


def greedy_found(model: Any, src: Tensor, config: DecodeConfig | None = None, **options: Any) -> list[SearchResult]:
    """Returns what greedy search finds for a batch (B, S)."""
    return greedy_search(SearchState(model, src, config or DecodeConfig()), config or DecodeConfig(), **options)


def source_batch(sources: list[list[int]]) -> Tensor:
    """Sources with their end tokens, padded: (B, S)."""
    longest = max(map(len, sources)) + 1
    return torch.tensor([[*source, EOS, *[PAD] * (longest - len(source) - 1)] for source in sources])


def all_targets(vocab_size: int, longest: int) -> list[list[int]]:
    """Every target of up to `longest` words, special tokens left out."""
    return [list(words) for length in range(longest + 1) for words in product(range(3, vocab_size), repeat=length)]
