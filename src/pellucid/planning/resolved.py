"""What follows from a recipe as soon as there are tokenizers."""

from collections.abc import Sequence
from dataclasses import replace

from pellucid.config import DecodeConfig, ModelConfig, Recipe
from pellucid.data.framing import Framing
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.errors import ConfigError
from pellucid.text.tokenizer import Tokenizer
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


def model_of(recipe: Recipe, tokenizers: Tokenizers, labels: Sequence[str] = ()) -> ModelConfig:
    """The model's shape as it is trained: with what tokenizers, labels and a running text make of the recipe's.

    A model that training starts from has its sizes and special ids already.
    """
    model = recipe.model if recipe.train.init_from else resolved_model(recipe.model, tokenizers)
    if recipe.task == "classify":
        return replace(model, num_classes=len(labels))
    if recipe.task == "generate" and recipe.data.text == "running" and not recipe.train.init_from:
        positions = min(model.max_positions, recipe.data.max_length)  # others are never trained
        return replace(model, max_positions=positions, bos_id=_start_of_running(tokenizers.target))
    return model


def _start_of_running(tokenizer: Tokenizer) -> int:
    """What a piece of running text starts behind: a line's end; where that is no id of its own, the start token."""
    line_end = tokenizer.encode("\n")
    return line_end[0] if len(line_end) == 1 and line_end[0] != tokenizer.unk_id else tokenizer.bos_id


def decode_of(recipe: Recipe, model: ModelConfig) -> DecodeConfig:
    """How the trained model is used: no longer texts than it has seen, and with the same around them.

    Of a language model each line of text has a start before it, a start token where nothing else is known, and an end.
    """
    decode = replace(recipe.decode, max_source_length=min(recipe.decode.max_source_length, longest_trained_on(recipe)))
    if recipe.task == "generate" and recipe.data.text == "lines":
        return replace(decode, source_prefix=decode.source_prefix or (model.bos_id,), source_end=True)
    if recipe.task == "generate" and decode.source_prefix:  # it is used as it was, but lines do not end
        return replace(decode, source_end=False)
    return decode


def longest_trained_on(recipe: Recipe) -> int:
    """The most tokens of a training sentence, without what the model has around it."""
    framing = Framing.of(recipe.decode, recipe.model)
    room = recipe.model.max_positions - max(1, framing.of_source, framing.of_target)
    return max(1, min(recipe.data.max_length, room))


def subword_sampling(recipe: Recipe, tokenizers: Tokenizers) -> SubwordSampling | None:
    """How training sentences are cut anew, if they are; ConfigError for tokenizers that know one way only."""
    strength, seed = recipe.data.subword_sampling, recipe.train.seed
    if strength and recipe.task != "translate":
        raise ConfigError(
            f'`data.subword_sampling` ({strength}) is for `task = "translate"`, not for "{recipe.task}"',
            "leave it out",
        )
    return SubwordSampling.of(tokenizers, strength, seed, longest_trained_on(recipe))


def check_concatenation(recipe: Recipe) -> None:
    """Raises ConfigError where there are no pairs of sentences to join."""
    part = recipe.data.concatenate
    if part and recipe.task != "translate":
        raise ConfigError(
            f'`data.concatenate` ({part}) is for `task = "translate"`, not for "{recipe.task}"', "leave it out"
        )


def check_r_drop(recipe: Recipe) -> None:
    """Raises ConfigError where R-Drop has nothing to compare."""
    model, r_drop = recipe.model, recipe.train.r_drop
    if r_drop and not (model.dropout or model.attention_dropout or model.feed_forward_dropout):
        raise ConfigError(
            f"`train.r_drop` ({r_drop}) compares two passes with different dropout, but the model's dropout is 0",
            "set `model.dropout`, or `train.r_drop = 0`",
        )


def check_source_end(recipe: Recipe) -> None:
    """Raises ConfigError where the model would be used on texts without the end token that it is trained with."""
    if not recipe.decode.source_end and recipe.task != "translate" and not recipe.train.init_from:
        raise ConfigError(
            "`decode.source_end` is false, but training puts the end token behind every text", "leave it out"
        )
