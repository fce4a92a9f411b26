"""From data and time to settings: what a time budget means, as pure functions.

Where each number comes from, and how far it was measured, is told in docs/concepts/time-budget.md.
"""

from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

from pellucid.config import ModelConfig
from pellucid.text.inventory import COVERAGE, MOST, Inventory

SHAPES: tuple[dict[str, Any], ...] = (
    {"d_model": 64, "d_ff": 256, "num_heads": 4, "num_encoder_layers": 4, "num_decoder_layers": 3},
    {"d_model": 128, "d_ff": 512, "num_heads": 4, "num_encoder_layers": 4, "num_decoder_layers": 3},
    {"d_model": 256, "d_ff": 1024, "num_heads": 4, "num_encoder_layers": 4, "num_decoder_layers": 3},
    {"d_model": 384, "d_ff": 1536, "num_heads": 6, "num_encoder_layers": 6, "num_decoder_layers": 4},
    {"d_model": 512, "d_ff": 2048, "num_heads": 8, "num_encoder_layers": 6, "num_decoder_layers": 6},
)
"""The models to choose from, small to large."""
SHAPE_KEYS = frozenset({"model.preset", *(f"model.{key}" for key in SHAPES[0])})
"""The settings that say a shape."""
REFERENCE = 1
"""The one whose speed is measured to estimate the others'."""

TOKENS_PER_PARAMETER = 4.0
"""Target tokens to be trained on for each parameter of the layers, before a larger model pays."""
PARAMETERS_PER_TOKEN = 16.0
"""Most parameters of the layers for each target token of the corpus."""

VOCABULARIES = ((0, 1000), (5_000, 2000), (20_000, 4000), (150_000, 8000), (500_000, 16000), (2_000_000, 32000))
"""From how many pairs on how many words."""
ALPHABET = 140
"""Characters that these sizes have room for: an alphabet or two, with digits and marks."""
LEAST_COVERAGE = 0.995
"""The part of a text whose characters have places, however large the vocabulary becomes with them."""
LEAST_OVERLAP = 0.2
"""Sides with fewer letters in common have a vocabulary each."""
DROPOUTS = ((0.0, 0.1), (4.0, 0.1), (10.0, 0.15), (20.0, 0.2), (40.0, 0.25), (80.0, 0.3))
"""Dropout by how often the corpus will be seen; in between, in proportion."""
GENTLER = 20.0
"""How many times lower the rate is where training goes on from trained weights: what they know survives it."""
SHORTER = 10
"""How many times shorter the warm-up is then."""
AVERAGE = 5
"""Checkpoints averaged at the end."""
SAVE_EVERY = 0.03
"""A checkpoint after so large a part of the steps."""
EXPECTED = ((2.0e6, 30.3), (8.5e6, 39.5), (2.28e7, 41.2))
"""Greedy validation BLEU on Multi30k, German to English, by target tokens trained on: the mean of three short runs, and
two longer ones."""
EXPECTED_FROM = 15_000
"""Pairs: fewer teach less, however often they are seen, and how much less was not measured."""


@dataclass(frozen=True)
class Facts:
    """What the rules know of a corpus."""

    pairs: int
    tokens: int
    """Target tokens, end tokens included."""


def vocab_size(pairs: int, characters: Inventory) -> int:
    """Returns the upper bound of the vocabulary for so many pairs, written in these characters.

    A script with more characters than an alphabet gets places for them beside the pieces. Where they would be too large
    a part of all, the rarest are left to bytes, and the vocabulary grows with the others.
    """
    size = next(size for most, size in reversed(VOCABULARIES) if pairs >= most)
    number = characters.needed(COVERAGE)
    if number > MOST * (size + max(0, number - ALPHABET)):
        number = characters.needed(LEAST_COVERAGE)
    return max(size + max(0, number - ALPHABET), ceil(number / MOST))


def scripts_differ(source: Inventory, target: Inventory) -> bool:
    """Returns whether the sides have so few letters in common that one vocabulary would be two in one."""
    return source.overlap(target) < LEAST_OVERLAP


def layer_parameters(config: ModelConfig) -> int:
    """Weights of the layers, without biases, norms, embeddings and the output projection."""
    attention, feed_forward = 4 * config.d_model**2, (3 if config.gated else 2) * config.d_model * config.d_ff
    encoder = config.num_encoder_layers * (attention + feed_forward)
    return encoder + config.num_decoder_layers * (2 * attention + feed_forward)


def training_flops(config: ModelConfig) -> float:
    """Floating-point operations to train on one target token and its share of the source: forward and twice back."""
    return 6.0 * (layer_parameters(config) + config.d_model * config.tgt_vocab_size)


def shape(base: ModelConfig, facts: Facts, flops: float) -> ModelConfig:
    """The largest model that `flops` trains enough and the corpus bears; the smallest, where none is so small."""
    candidates = [shaped(base, index) for index in range(len(SHAPES))]
    return next((config for config in reversed(candidates) if _pays(config, facts, flops)), candidates[0])


def shaped(base: ModelConfig, index: int) -> ModelConfig:
    """`base` with the sizes of SHAPES[index]."""
    return replace(base, **SHAPES[index])


def _pays(config: ModelConfig, facts: Facts, flops: float) -> bool:
    parameters = layer_parameters(config)
    seen = flops / training_flops(config)
    return seen >= TOKENS_PER_PARAMETER * parameters and parameters <= PARAMETERS_PER_TOKEN * facts.tokens


def dropout(epochs: float) -> float:
    """Dropout for a corpus that is seen so often."""
    seen, probability = zip(*DROPOUTS, strict=True)
    return round(float(np.interp(epochs, seen, probability)), 2)


def learning_rate(d_model: int) -> float:
    """The highest rate for a pre-norm model with clipped gradients."""
    return min(4e-3, 0.512 / d_model)


def batch_tokens(d_model: int, seconds: float) -> int:
    """Tokens of a batch: small ones make more steps of a short time."""
    if d_model >= 512:
        return 4096
    return 1024 if seconds < 300 else 2048


def warmup_steps(steps: int) -> int:
    """Steps over which the rate rises."""
    return min(1000, max(1, round(steps * 0.08)))


def validations(seconds: float) -> int:
    """How often to validate: each costs some seconds."""
    return int(min(20, max(3, seconds // 60)))


def validation_sentences(seconds: float) -> int:
    """How many sentences to translate each time."""
    return 100 if seconds < 600 else 300


def expected_bleu(tokens: float) -> float:
    """Validation BLEU to expect after so many target tokens, if the text is as plain as captions of photographs."""
    seen, bleu = zip(*EXPECTED, strict=True)
    return float(np.interp(np.log(tokens), np.log(seen), bleu))
