"""Rules from data and time to settings: what a time budget means, as pure functions.

Where each number comes from, and how far it was measured, is told in docs/concepts/time-budget.md.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

from pellucid.config import ModelConfig
from pellucid.errors import ConfigError
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
NORM_KEYS = frozenset({"model.norm", "model.embedding_norm", "model.qk_norm", "model.cross_query_norm"})
"""The settings that say where norms stand."""
VOCABULARY_KEYS = frozenset({"data.vocab_size", "data.target_vocab_size", "data.joint", "model.tie_embeddings"})
"""The settings that say how many words there are, and which matrices they share."""
DECIDING_KEYS = (
    SHAPE_KEYS
    | NORM_KEYS
    | VOCABULARY_KEYS
    | {f"train.{key}" for key in ("optimizer", "schedule", "learning_rate", "muon_learning_rate", "batch_tokens")}
)
"""The settings by which the measured runs are like each other: with another one nobody knows what they come to."""
TOKENS_PER_PARAMETER = 4.0
"""Target tokens to be trained on for each parameter of the layers, before a larger model pays."""
PARAMETERS_PER_TOKEN = 16.0
"""Most parameters of the layers for each target token of the corpus."""
SMALL, TOKENS_OF_A_SMALL_ONE = 2_000_000, 0.45
"""Up to so many parameters a model is borne by any corpus, and pays from so few tokens a parameter on: d_model 128 is
ahead of 64 in as much time with 1,000 and 5,000 pairs, after 1.7 million tokens, and with 29,000 no worse after 1.0."""

VOCABULARIES = ((0, 2000), (10_000, 8000), (500_000, 16000), (2_000_000, 32000))
"""From how many pairs on how many words."""
ALPHABET = 140
"""Characters that these sizes have room for: an alphabet or two, with digits and marks."""
LEAST_COVERAGE = 0.995
"""The part of a text whose characters have places, however large the vocabulary becomes with them."""
LEAST_OVERLAP = 0.2
"""Sides with fewer letters in common have a vocabulary each."""
DROPOUTS = ((0.0, 0.05), (5.0, 0.05), (15.0, 0.1), (20.0, 0.2), (40.0, 0.25), (80.0, 0.3))
"""Dropout by how often the corpus will be seen; in between, in proportion."""
LENGTH_PENALTY = (5e6, 1.2)
"""Trained on fewer target tokens than these, a model writes too much under a larger length penalty than that."""
MUON_RATES = {False: 0.01, True: 0.02}
"""The highest rate of the layers' matrices, without and with `qk_norm`, whatever the width: a step of Muon has the same
spectral norm in each. Normalised queries and keys bear twice the rate, others do not."""
EMBEDDING_SCALE = 0.33
"""The size of the embeddings at the beginning, of a pre-norm model whose output projection is the same matrix."""
GENTLER = 20.0
"""The factor by which the rate is lower where training goes on from trained weights: what they know survives it."""
SHORTER = 10
"""The factor by which the warm-up is shorter then."""
AVERAGE = 5
"""Checkpoints averaged at the end."""
SAVE_EVERY = 0.03
"""A checkpoint after so large a part of the steps."""
EXPECTED = ((8.9e5, 36.1), (2.1e6, 40.5), (6.7e6, 42.9), (2.14e7, 43.8))
"""Greedy validation BLEU on Multi30k, German to English, by target tokens trained on: the mean of three runs
of three minutes, one of seven, the mean of three of a quarter of an hour, and one of the recipe's 12,000 steps."""
FEWER_PAIRS = ((1_000, 23.6), (5_000, 13.2), (10_000, 6.9), (29_000, 0.0))
"""The BLEU by which so many of these pairs stay below all of them after as many tokens: one run each, two of 5,000."""
MOST_PAIRS = 60_000
"""More would teach more, and how much was not measured."""
MOST_EPOCHS = 100
"""An epoch more brings less and less, and runs of more than these were not measured."""
EXPECTED_LENGTHS = (8.0, 33.0)
"""Target tokens of a pair: half and twice those of the captions."""
PATIENCE = 5
"""Validations without a lower loss, after which the fall begins."""
MOST_STEPS = 30_000
"""More steps than these make a batch larger."""
LARGEST_BATCH = 32_768
"""Tokens, as papers on millions of pairs have them."""
BATCHES = 100
"""The fewest batches of an epoch that a larger batch may leave."""
BETTER_FILLED = 1.15
"""The gain in speed, on a GPU, for which a batch of twice the size is taken."""
FEWEST_STEPS = 2_000
"""Less steps than these are not given up for speed."""


@dataclass(frozen=True)
class Facts:
    """Holds what the rules know of a corpus."""

    pairs: int
    """The pairs that an epoch draws, of several corpora each as often as `data.weights` says, less those left out."""
    tokens: int
    """Their target tokens, end tokens included."""
    left_out: int = 0
    """Pairs with a side that is empty or longer than `data.max_length`, about."""


def gentler(*, adds_language: bool) -> float:
    """Returns by how much the rate is lower where training goes on from trained weights: by nothing for a new language.

    Its pieces begin in the middle of others: 400 steps at a twentieth, a fifth and all of the rate brought Czech beside
    German on Multi30k to 6, 15 and 27 BLEU.
    """
    return 1.0 if adds_language else GENTLER


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
    """Counts the weights of the layers, without biases, norms, embeddings and the output projection."""
    attention, feed_forward = 4 * config.d_model**2, (3 if config.gated else 2) * config.d_model * config.d_ff
    encoder = config.num_encoder_layers * (attention + feed_forward)
    return encoder + config.num_decoder_layers * (2 * attention + feed_forward)


def candidates(base: ModelConfig, facts: Facts) -> list[ModelConfig]:
    """Returns the models that the corpus bears, small to large; the smallest in any case.

    Where no shape goes with the other settings of `base`, that is the only one.
    """
    shapes = []
    for index in range(len(SHAPES)):
        with suppress(ConfigError):  # other heads than `num_kv_heads` allows
            shapes.append(shaped(base, index))
    most = max(SMALL, PARAMETERS_PER_TOKEN * facts.tokens)
    return shapes[:1] + [each for each in shapes[1:] if layer_parameters(each) <= most] or [base]


def pays(config: ModelConfig, tokens: float) -> bool:
    """Tells whether a model is trained enough on so many target tokens."""
    parameters = layer_parameters(config)
    return tokens >= (TOKENS_OF_A_SMALL_ONE if parameters <= SMALL else TOKENS_PER_PARAMETER) * parameters


def shaped(base: ModelConfig, index: int) -> ModelConfig:
    """Returns `base` with the sizes of SHAPES[index]."""
    return replace(base, **SHAPES[index])


def dropout(epochs: float) -> float:
    """Returns the dropout for a corpus that is seen so often."""
    seen, probability = zip(*DROPOUTS, strict=True)
    return round(float(np.interp(epochs, seen, probability)), 2)


def length_penalty(tokens: float, given: float) -> float:
    """Returns the length penalty of a model that is trained on so many target tokens: at most `given`."""
    enough, most = LENGTH_PENALTY
    return given if tokens >= enough else min(given, most)


def learning_rate(d_model: int) -> float:
    """Returns the highest rate for a pre-norm model with clipped gradients."""
    return min(4e-3, 0.512 / d_model)


def embedding_scale(config: ModelConfig) -> float:
    """Returns how large the embeddings begin: smaller than otherwise where that was measured to learn faster."""
    return EMBEDDING_SCALE if _has_measured_embeddings(config) else 1.0


def norms(config: ModelConfig, *, attention: bool = True) -> dict[str, bool]:
    """Returns the settings of norms beside those of the sublayers, with which a model was measured to learn faster.

    Queries to the encoder's output have none: it brings nothing more, and CTranslate2 could not have it. Without
    `attention`, which is somebody's own then, nothing is said of queries and keys.
    """
    if not _has_measured_embeddings(config):
        return {}
    return {"model.embedding_norm": True} | (
        {"model.qk_norm": True, "model.cross_query_norm": False} if attention else {}
    )


def _has_measured_embeddings(config: ModelConfig) -> bool:
    return config.norm == "pre" and config.scale_embeddings and config.tie_embeddings != "none"


def batch_tokens(d_model: int, seconds: float, tokens: float = 0.0, corpus: float = 0.0) -> int:
    """Returns the tokens of a batch: small ones make more steps of a short time, large ones fewer of a long one.

    Args:
        tokens: target tokens that the time holds, where that is known.
        corpus: target tokens of an epoch.
    """
    size = 4096 if d_model >= 512 else 1024 if seconds < 300 else 2048
    while tokens / size > MOST_STEPS and bears(2 * size, tokens, corpus):
        size *= 2
    return size


def bears(batch: int, tokens: float, corpus: float) -> bool:
    """Tells whether a larger batch leaves enough steps of the time, and enough batches of an epoch."""
    return batch <= min(LARGEST_BATCH, tokens / FEWEST_STEPS, corpus / BATCHES)


def warmup_steps(steps: int) -> int:
    """Returns the steps over which the rate rises."""
    return min(1000, max(1, round(steps * 0.08)))


def save_every(steps: int, keep_every: int) -> int:
    """Returns the steps between two checkpoints; of those, each `keep_every`-th step's can be kept, if it is not 0."""
    fitting = max(1, round(steps * SAVE_EVERY))
    if not keep_every:
        return fitting
    divisors = (each for each in range(1, keep_every + 1) if keep_every % each == 0)
    return min(divisors, key=lambda each: max(each / fitting, fitting / each))


def validations(seconds: float) -> int:
    """Returns how often to validate: each costs some seconds, and a plateau is seen after some of them."""
    return int(max(min(20, max(3, seconds // 60)), seconds // 300))


def validation_sentences(seconds: float) -> int:
    """Returns how many sentences to translate each time."""
    return 100 if seconds < 600 else 300


def expected_bleu(facts: Facts, tokens: float) -> float | str:
    """Returns the validation BLEU to expect after so many target tokens of text as plain as captions of photographs.

    Outside of what was measured it is the reason why that is not known.
    """
    seen, bleu = zip(*EXPECTED, strict=True)
    length = facts.tokens / max(1, facts.pairs)
    pairs, less = zip(*FEWER_PAIRS, strict=True)
    if facts.pairs < pairs[0]:
        return f"of fewer than {pairs[0]:,} pairs no run was measured"
    if facts.pairs > MOST_PAIRS:
        return f"of more than {MOST_PAIRS:,} pairs no run was measured"
    if not EXPECTED_LENGTHS[0] <= length <= EXPECTED_LENGTHS[1]:
        return f"the sentences have {length:.0f} target tokens, those of the measured corpus 16"
    if not seen[0] <= tokens <= seen[-1]:
        return f"only runs on {seen[0]:,.0f} to {seen[-1]:,.0f} target tokens were measured, this has {tokens:,.0f}"
    if (epochs := tokens / facts.tokens) > MOST_EPOCHS:
        return f"only runs of up to {MOST_EPOCHS} epochs were measured, this has {epochs:,.0f}"
    of_all = np.interp(np.log(tokens), np.log(seen), bleu)
    return float(of_all - np.interp(np.log(facts.pairs), np.log(pairs), less))
