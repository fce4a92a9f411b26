"""Settings that follow from the tokenizers: the model's sizes, its decoding, the longest sentence."""

from collections.abc import Sequence
from dataclasses import replace

from pellucid.config import DecodeConfig, ModelConfig, Recipe
from pellucid.data.framing import TextFrame
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.errors import ConfigError
from pellucid.text.tokenizer import Tokenizer
from pellucid.text.tokenizers import TokenizerPair


def fit_to_tokenizers(config: ModelConfig, tokenizers: TokenizerPair) -> ModelConfig:
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


def find_model_config(recipe: Recipe, tokenizers: TokenizerPair, labels: Sequence[str] = ()) -> ModelConfig:
    """Returns the shape of the model to train: the recipe's, fitted to tokenizers, labels and a running text.

    An initial model has its special ids already, and its sizes except for added languages.
    """
    model = recipe.model
    if recipe.data.add_language:
        model = replace(model, src_vocab_size=tokenizers.source.size, tgt_vocab_size=tokenizers.target.size)
    elif not recipe.train.init_from:
        model = fit_to_tokenizers(model, tokenizers)
    if recipe.task == "classify":
        return replace(model, num_classes=len(labels))
    if recipe.task == "generate" and recipe.data.text == "continuous" and not recipe.train.init_from:
        positions = min(model.max_positions, recipe.data.max_length)  # later positions are never trained
        return replace(model, max_positions=positions, bos_id=_start_of_running(tokenizers.target))
    return model


def _start_of_running(tokenizer: Tokenizer) -> int:
    """Returns the id before a piece of running text: the line end if the vocabulary has it, else the start token."""
    line_end = tokenizer.encode("\n")
    return line_end[0] if len(line_end) == 1 and line_end[0] != tokenizer.unk_id else tokenizer.bos_id


def find_decode_config(recipe: Recipe, model: ModelConfig) -> DecodeConfig:
    """Returns the decoding settings of the trained model, with the maximum length and special ids of training.

    A language model's lines begin with a prefix, by default the start token, and have an end token.
    """
    longest = min(recipe.decode.max_source_length, compute_max_tokens(recipe))
    decode = replace(recipe.decode, max_source_length=longest)
    if recipe.task == "generate" and recipe.data.text == "lines":
        return replace(decode, source_prefix=decode.source_prefix or (model.bos_id,), add_source_eos=True)
    if recipe.task == "generate" and decode.source_prefix:  # as before, but lines have no end token
        return replace(decode, add_source_eos=False)
    return decode


def compute_max_tokens(recipe: Recipe) -> int:
    """Returns the maximum number of tokens of a training sentence, without special tokens."""
    framing = TextFrame.from_config(recipe.decode, recipe.model)
    room = recipe.model.max_positions - max(1, framing.of_source, framing.of_target)
    return max(1, min(recipe.data.max_length, room))


def make_subword_sampling(recipe: Recipe, tokenizers: TokenizerPair) -> SubwordSampling | None:
    """Returns the subword sampling of training sentences; None if there is none.

    Raises ConfigError for another task than translation, and for deterministic tokenizers.
    """
    strength, seed = recipe.data.subword_regularization, recipe.train.seed
    if strength and recipe.task != "translate":
        raise ConfigError(
            f'`data.subword_regularization` ({strength}) is for `task = "translate"`, not for "{recipe.task}"',
            "leave it out",
        )
    return SubwordSampling.for_tokenizers(tokenizers, strength, seed, compute_max_tokens(recipe))


def check_settings(recipe: Recipe) -> None:
    """Raises ConfigError for settings that cannot be combined.

    They are: joined sentences without sentence pairs, R-Drop without dropout, and texts without the end token that the
    model is trained with.
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
    if not recipe.decode.add_source_eos and recipe.task != "translate" and not recipe.train.init_from:
        raise ConfigError(
            "`decode.add_source_eos` is false, but training appends the end token to every text", "leave it out"
        )
