"""Rules that compute settings from the data and the time budget, as pure functions.

The source of each number, and the range in which it was measured, are in docs/concepts/time-budget.md.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

from pellucid.config import ModelConfig
from pellucid.errors import ConfigError
from pellucid.text.character_counts import COVERAGE, MOST, CharacterCounts

SHAPES: tuple[dict[str, Any], ...] = (
    {"d_model": 64, "d_ff": 256, "num_heads": 4, "num_encoder_layers": 4, "num_decoder_layers": 3},
    {"d_model": 128, "d_ff": 512, "num_heads": 4, "num_encoder_layers": 4, "num_decoder_layers": 3},
    {"d_model": 256, "d_ff": 1024, "num_heads": 4, "num_encoder_layers": 4, "num_decoder_layers": 3},
    {"d_model": 384, "d_ff": 1536, "num_heads": 6, "num_encoder_layers": 6, "num_decoder_layers": 4},
    {"d_model": 512, "d_ff": 2048, "num_heads": 8, "num_encoder_layers": 6, "num_decoder_layers": 6},
)
"""The models to choose from, small to large."""
SHAPE_KEYS = frozenset({"model.preset", *(f"model.{key}" for key in SHAPES[0])})
"""The settings of a shape."""
NORM_KEYS = frozenset({"model.norm", "model.embedding_norm", "model.qk_norm", "model.cross_query_norm"})
"""The settings of where norms are applied."""
VOCABULARY_KEYS = frozenset({"data.vocab_size", "data.tgt_vocab_size", "data.joint_vocab", "model.tie_embeddings"})
"""The settings of the vocabulary's size and of which matrices share weights."""
DECIDING_KEYS = (
    SHAPE_KEYS
    | NORM_KEYS
    | VOCABULARY_KEYS
    | {f"train.{key}" for key in ("optimizer", "schedule", "learning_rate", "muon_learning_rate", "batch_tokens")}
)
"""The settings that all measured runs have in common: with other values the expected score is unknown."""
TOKENS_PER_PARAMETER = 4.0
"""Target tokens per parameter of the layers from which a larger model pays off."""
PARAMETERS_PER_TOKEN = 16.0
"""Maximum number of parameters of the layers per target token of the corpus."""
SMALL, TOKENS_OF_A_SMALL_ONE = 2_000_000, 0.45
"""A model of at most SMALL parameters suits any corpus, and pays off from TOKENS_OF_A_SMALL_ONE tokens per parameter:
in equal time d_model 128 is better than 64 with 1,000 and 5,000 pairs, after 1.7 million tokens, and with 29,000 no
worse after 1.0."""

VOCABULARIES = ((0, 2000), (10_000, 8000), (500_000, 16000), (2_000_000, 32000))
"""(least number of pairs, vocabulary size)."""
ALPHABET = 140
"""Characters that these sizes include: one or two alphabets, with digits and marks."""
LEAST_COVERAGE = 0.995
"""The fraction of a text whose characters are in the vocabulary, however large it becomes with them."""
LEAST_OVERLAP = 0.2
"""Source and target with fewer letters in common have separate vocabularies."""
DROPOUTS = ((0.0, 0.05), (5.0, 0.05), (15.0, 0.1), (20.0, 0.2), (40.0, 0.25), (80.0, 0.3))
"""(epochs, dropout), interpolated linearly."""
LENGTH_PENALTY = (5e6, 1.2)
"""(target tokens, length penalty): a model trained on fewer tokens produces too long outputs with a larger penalty."""
MUON_RATES = {False: 0.01, True: 0.02}
"""The peak learning rate of the layers' matrices, without and with `qk_norm`, for every width: a step of Muon has the
same spectral norm in each. Normalised queries and keys stay stable at twice the rate, others do not."""
EMBEDDING_SCALE = 0.33
"""The factor on the initial embeddings of a pre-norm model whose output projection is the same matrix."""
GENTLER = 20.0
"""The factor by which the learning rate is lower in fine-tuning, against catastrophic forgetting."""
SHORTER = 10
"""The factor by which the warmup is shorter in fine-tuning."""
AVERAGE = 5
"""Checkpoints averaged at the end."""
SAVE_EVERY = 0.03
"""The steps between two checkpoints, as a fraction of all steps."""
EXPECTED = ((8.9e5, 36.1), (2.1e6, 40.5), (6.7e6, 42.9), (2.14e7, 43.8))
"""Greedy validation BLEU on Multi30k, German to English, by target tokens trained on: the mean of three runs
of three minutes, one of seven, the mean of three of a quarter of an hour, and one of the recipe's 12,000 steps."""
FEWER_PAIRS = ((1_000, 23.6), (5_000, 13.2), (10_000, 6.9), (29_000, 0.0))
"""(pairs, BLEU lost relative to all 29,000 pairs after as many tokens): one run each, two of 5,000."""
MOST_PAIRS = 60_000
"""More pairs would improve the model; how much was not measured."""
MOST_EPOCHS = 100
"""Each further epoch improves the model less; runs of more epochs were not measured."""
EXPECTED_LENGTHS = (8.0, 33.0)
"""Target tokens per pair: half and twice the captions' mean."""
PATIENCE = 5
"""Validations without a lower loss, after which the decay begins."""
MOST_STEPS = 30_000
"""If there would be more steps, the batch is larger."""
LARGEST_BATCH = 32_768
"""Tokens, as in papers on millions of pairs."""
BATCHES = 100
"""The least number of batches per epoch for which a larger batch is used."""
BETTER_FILLED = 1.15
"""The speedup on a GPU from which a batch of twice the size is used."""
FEWEST_STEPS = 2_000
"""The least number of steps for which a larger, faster batch is used."""


@dataclass(frozen=True)
class CorpusFacts:
    """Facts about a corpus that the rules use."""

    pairs: int
    """The pairs of an epoch, of several corpora each as often as `data.corpus_weights` says, without the dropped
    pairs."""
    tokens: int
    """Their target tokens, end tokens included."""
    left_out: int = 0
    """The approximate number of pairs with a source or target that is empty or longer than `data.max_length`."""


def gentler(*, adds_language: bool) -> float:
    """Returns the divisor of the learning rate in fine-tuning; 1 for an added language.

    The tokens of an added language start among the other languages': with 400 steps at a twentieth, a fifth and all of
    the rate, Czech added to German on Multi30k reached 6, 15 and 27 BLEU.
    """
    return 1.0 if adds_language else GENTLER


def vocab_size(pairs: int, characters: CharacterCounts) -> int:
    """Returns the upper bound of the vocabulary size for a number of pairs, written in these characters.

    A script with more characters than an alphabet adds them to the vocabulary. If they would be too large a part of it,
    the rarest are encoded as bytes, and the vocabulary grows with the others.
    """
    size = next(size for most, size in reversed(VOCABULARIES) if pairs >= most)
    number = characters.count_for_coverage(COVERAGE)
    if number > MOST * (size + max(0, number - ALPHABET)):
        number = characters.count_for_coverage(LEAST_COVERAGE)
    return max(size + max(0, number - ALPHABET), ceil(number / MOST))


def scripts_differ(source: CharacterCounts, target: CharacterCounts) -> bool:
    """Returns True if source and target have too few letters in common for a joint vocabulary."""
    return source.overlap(target) < LEAST_OVERLAP


def layer_parameters(config: ModelConfig) -> int:
    """Counts the weights of the layers, without biases, norms, embeddings and the output projection."""
    attention, feed_forward = (
        4 * config.d_model**2,
        (3 if config.gated_feed_forward else 2) * config.d_model * config.d_ff,
    )
    encoder = config.num_encoder_layers * (attention + feed_forward)
    return encoder + config.num_decoder_layers * (2 * attention + feed_forward)


def candidates(base: ModelConfig, facts: CorpusFacts) -> list[ModelConfig]:
    """Returns the models that the corpus is large enough for, small to large, and always the smallest.

    If no shape is valid with the other settings of `base`, `base` is the only candidate.
    """
    shapes = []
    for index in range(len(SHAPES)):
        with suppress(ConfigError):  # `num_kv_heads` does not divide the number of heads
            shapes.append(apply_shape(base, index))
    most = max(SMALL, PARAMETERS_PER_TOKEN * facts.tokens)
    return shapes[:1] + [each for each in shapes[1:] if layer_parameters(each) <= most] or [base]


def pays(config: ModelConfig, tokens: float) -> bool:
    """Returns True if `tokens` target tokens are enough to train a model."""
    parameters = layer_parameters(config)
    return tokens >= (TOKENS_OF_A_SMALL_ONE if parameters <= SMALL else TOKENS_PER_PARAMETER) * parameters


def apply_shape(base: ModelConfig, index: int) -> ModelConfig:
    """Returns `base` with the sizes of SHAPES[index]."""
    return replace(base, **SHAPES[index])


def dropout(epochs: float) -> float:
    """Returns the dropout for a corpus that is trained on for `epochs` epochs."""
    seen, probability = zip(*DROPOUTS, strict=True)
    return round(float(np.interp(epochs, seen, probability)), 2)


def length_penalty(tokens: float, given: float) -> float:
    """Returns the length penalty of a model that is trained on `tokens` target tokens: at most `given`."""
    enough, most = LENGTH_PENALTY
    return given if tokens >= enough else min(given, most)


def learning_rate(d_model: int) -> float:
    """Returns the peak learning rate of a pre-norm model with clipped gradients."""
    return min(4e-3, 0.512 / d_model)


def embedding_init_scale(config: ModelConfig) -> float:
    """Returns the factor on the initial embeddings: below 1 if that was measured to learn faster."""
    return EMBEDDING_SCALE if _has_measured_embeddings(config) else 1.0


def norms(config: ModelConfig, *, attention: bool = True) -> dict[str, bool]:
    """Returns the settings of norms other than the sublayers', with which a model was measured to learn faster.

    Queries of cross-attention have no norm: it improves nothing, and CTranslate2 does not support it. If `attention` is
    False, because it is a custom module, the norms of queries and keys are not set.
    """
    if not _has_measured_embeddings(config):
        return {}
    return {"model.embedding_norm": True} | (
        {"model.qk_norm": True, "model.cross_query_norm": False} if attention else {}
    )


def _has_measured_embeddings(config: ModelConfig) -> bool:
    return config.norm == "pre" and config.scale_embeddings and config.tie_embeddings != "none"


def batch_tokens(d_model: int, seconds: float, tokens: float = 0.0, corpus: float = 0.0) -> int:
    """Returns the tokens per batch: small batches allow more steps in a short time, large ones fewer in a long one.

    Args:
        tokens: target tokens trained on within the time, if that is known.
        corpus: target tokens of an epoch.
    """
    size = 4096 if d_model >= 512 else 1024 if seconds < 300 else 2048
    while tokens / size > MOST_STEPS and bears(2 * size, tokens, corpus):
        size *= 2
    return size


def bears(batch: int, tokens: float, corpus: float) -> bool:
    """Returns True if a larger batch leaves enough steps within the time, and enough batches per epoch."""
    return batch <= min(LARGEST_BATCH, tokens / FEWEST_STEPS, corpus / BATCHES)


def warmup_steps(steps: int) -> int:
    """Returns the steps of the warmup."""
    return min(1000, max(1, round(steps * 0.08)))


def save_every(steps: int, keep_every: int) -> int:
    """Returns the steps between two checkpoints. If `keep_every` is not 0, the result divides it."""
    fitting = max(1, round(steps * SAVE_EVERY))
    if not keep_every:
        return fitting
    divisors = (each for each in range(1, keep_every + 1) if keep_every % each == 0)
    return min(divisors, key=lambda each: max(each / fitting, fitting / each))


def validations(seconds: float) -> int:
    """Returns the number of validations: each costs some seconds, and a plateau is detected only after several."""
    return int(max(min(20, max(3, seconds // 60)), seconds // 300))


def validation_sentences(seconds: float) -> int:
    """Returns the number of sentences to translate per validation."""
    return 100 if seconds < 600 else 300


def expected_bleu(facts: CorpusFacts, tokens: float) -> float | str:
    """Returns the validation BLEU to expect after `tokens` target tokens of text as simple as captions of photographs.

    Outside of the measured range it returns the reason why the score is unknown.
    """
    seen, bleu = zip(*EXPECTED, strict=True)
    length = facts.tokens / max(1, facts.pairs)
    pairs, less = zip(*FEWER_PAIRS, strict=True)
    if facts.pairs < pairs[0]:
        return f"no run with fewer than {pairs[0]:,} pairs was measured"
    if facts.pairs > MOST_PAIRS:
        return f"no run with more than {MOST_PAIRS:,} pairs was measured"
    if not EXPECTED_LENGTHS[0] <= length <= EXPECTED_LENGTHS[1]:
        return f"the sentences have {length:.0f} target tokens on average, the measured corpus has 16"
    if not seen[0] <= tokens <= seen[-1]:
        return f"only runs on {seen[0]:,.0f} to {seen[-1]:,.0f} target tokens were measured, this run has {tokens:,.0f}"
    if (epochs := tokens / facts.tokens) > MOST_EPOCHS:
        return f"only runs of up to {MOST_EPOCHS} epochs were measured, this run has {epochs:,.0f}"
    of_all = np.interp(np.log(tokens), np.log(seen), bleu)
    return float(of_all - np.interp(np.log(facts.pairs), np.log(pairs), less))
