"""Settings that are known once there are tokenizers: the model's sizes, how it is used, the longest sentence."""

from collections.abc import Sequence
from dataclasses import replace

from pellucid.config import DecodeConfig, ModelConfig, Recipe
from pellucid.data.framing import Framing
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.errors import ConfigError
from pellucid.text.tokenizer import Tokenizer
from pellucid.text.tokenizers import Tokenizers


def fit_to_tokenizers(config: ModelConfig, tokenizers: Tokenizers) -> ModelConfig:
    """Returns the model's shape with the sizes and special ids of its tokenizers."""
    target = tokenizers.target
    return replace(
        config,
        src_vocab_size=tokenizers.source.size,
        tgt_vocab_size=target.size,
        pad_id=target.pad_id,
        bos_id=target.bos_id,
        eos_id=target.eos_id,
    )


def find_model_config(recipe: Recipe, tokenizers: Tokenizers, labels: Sequence[str] = ()) -> ModelConfig:
    """Returns the shape of the model that is trained: the recipe's, fitted to tokenizers, labels and a running text.

    A model that training starts from has its special ids already, and its sizes but for languages that are added.
    """
    model = recipe.model
    if recipe.data.add_language:
        model = replace(model, src_vocab_size=tokenizers.source.size, tgt_vocab_size=tokenizers.target.size)
    elif not recipe.train.init_from:
        model = fit_to_tokenizers(model, tokenizers)
    if recipe.task == "classify":
        return replace(model, num_classes=len(labels))
    if recipe.task == "generate" and recipe.data.text == "running" and not recipe.train.init_from:
        positions = min(model.max_positions, recipe.data.max_length)  # others are never trained
        return replace(model, max_positions=positions, bos_id=_start_of_running(tokenizers.target))
    return model


def _start_of_running(tokenizer: Tokenizer) -> int:
    """Returns what a piece of running text starts behind: a line's end, or else the start token.

    A line's end has no id of its own in every vocabulary.
    """
    line_end = tokenizer.encode("\n")
    return line_end[0] if len(line_end) == 1 and line_end[0] != tokenizer.unk_id else tokenizer.bos_id


def find_decode_config(recipe: Recipe, model: ModelConfig) -> DecodeConfig:
    """Returns how the trained model is used: on texts no longer than it has seen, with the same ids around them.

    A language model's lines have a start before them, the start token where nothing else is known, and an end.
    """
    longest = min(recipe.decode.max_source_length, find_longest(recipe))
    decode = replace(recipe.decode, max_source_length=longest)
    if recipe.task == "generate" and recipe.data.text == "lines":
        return replace(decode, source_prefix=decode.source_prefix or (model.bos_id,), source_end=True)
    if recipe.task == "generate" and decode.source_prefix:  # it is used as it was, but lines do not end
        return replace(decode, source_end=False)
    return decode


def find_longest(recipe: Recipe) -> int:
    """Returns the most tokens of a training sentence, without what the model has around it."""
    framing = Framing.of(recipe.decode, recipe.model)
    room = recipe.model.max_positions - max(1, framing.of_source, framing.of_target)
    return max(1, min(recipe.data.max_length, room))


def make_subword_sampling(recipe: Recipe, tokenizers: Tokenizers) -> SubwordSampling | None:
    """Returns what cuts training sentences anew each time; None where nothing does.

    Raises ConfigError for another task than translation, and for tokenizers that know one way alone.
    """
    strength, seed = recipe.data.subword_sampling, recipe.train.seed
    if strength and recipe.task != "translate":
        raise ConfigError(
            f'`data.subword_sampling` ({strength}) is for `task = "translate"`, not for "{recipe.task}"',
            "leave it out",
        )
    return SubwordSampling.of(tokenizers, strength, seed, find_longest(recipe))


def check_settings(recipe: Recipe) -> None:
    """Raises ConfigError for settings that do not go together.

    They are: joined sentences where there are no pairs, R-Drop without dropout, and texts without the end token that
    the model is trained with.
    """
    part, model, r_drop = recipe.data.concatenate, recipe.model, recipe.train.r_drop
    if part and recipe.task != "translate":
        raise ConfigError(
            f'`data.concatenate` ({part}) is for `task = "translate"`, not for "{recipe.task}"', "leave it out"
        )
    if r_drop and not (model.dropout or model.attention_dropout or model.feed_forward_dropout):
        raise ConfigError(
            f"`train.r_drop` ({r_drop}) compares two passes with different dropout, but the model's dropout is 0",
            "set `model.dropout`, or `train.r_drop = 0`",
        )
    if not recipe.decode.source_end and recipe.task != "translate" and not recipe.train.init_from:
        raise ConfigError(
            "`decode.source_end` is false, but training puts the end token behind every text", "leave it out"
        )
