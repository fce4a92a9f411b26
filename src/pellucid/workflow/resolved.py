"""What follows from a recipe as soon as there are tokenizers."""

from dataclasses import replace

from pellucid.config import ModelConfig, Recipe
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.errors import ConfigError
from pellucid.text.tokenizers import Tokenizers


def resolved_model(config: ModelConfig, tokenizers: Tokenizers) -> ModelConfig:
    """The model's shape with the sizes and special ids of its tokenizers."""
    target = tokenizers.target
    return replace(
        config,
        src_vocab_size=tokenizers.source.size,
        tgt_vocab_size=target.size,
        pad_id=target.pad_id,
        bos_id=target.bos_id,
        eos_id=target.eos_id,
    )


def longest_trained_on(recipe: Recipe) -> int:
    """The most tokens of a training sentence, without the end token that the model adds."""
    return min(recipe.data.max_length, recipe.model.max_positions - 1)


def subword_sampling(recipe: Recipe, tokenizers: Tokenizers) -> SubwordSampling | None:
    """How training sentences are cut anew, if they are; ConfigError for tokenizers that know one way only."""
    strength, seed = recipe.data.subword_sampling, recipe.train.seed
    return SubwordSampling.of(tokenizers, strength, seed, longest_trained_on(recipe))


def check_r_drop(recipe: Recipe) -> None:
    """Raises ConfigError where R-Drop has nothing to compare."""
    model, r_drop = recipe.model, recipe.train.r_drop
    if r_drop and not (model.dropout or model.attention_dropout or model.feed_forward_dropout):
        raise ConfigError(
            f"`train.r_drop` ({r_drop}) compares two passes with different dropout, but the model's dropout is 0",
            "set `model.dropout`, or `train.r_drop = 0`",
        )
