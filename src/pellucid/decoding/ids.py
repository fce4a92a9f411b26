"""The ids around an output: what a model reads with each source, and what a search begins with and never writes."""

from collections.abc import Sequence

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.errors import DecodingError


def whole_source(ids: Sequence[int], config: ModelConfig, decode: DecodeConfig) -> list[int]:
    """Returns a source as the model reads it: with its end token and what stands before and behind every source.

    Raises DecodingError where that is nothing at all.
    """
    whole = decode.whole_source(ids, config.eos_id)
    if not whole:
        raise DecodingError("a source is empty, and this model has sources without an end token", "leave it out")
    return whole


def suppressed_ids(config: ModelConfig, suppress: Sequence[int] = ()) -> list[int]:
    """Returns the ids that no translation may hold: padding, the start token, and those of `suppress`."""
    special = {i for i in (config.pad_id, config.bos_id) if i is not None and i != config.eos_id}
    special -= {i for i in special if i >= config.tgt_vocab_size}  # the source's padding, where it has more words
    return sorted(special | set(suppress))


def check_ids(decode: DecodeConfig, config: ModelConfig) -> None:
    """Raises DecodingError where a search would begin with, or leave out, what the model does not have."""
    sides = {"source_prefix": config.src_vocab_size, "source_suffix": config.src_vocab_size}
    sides |= {"target_prefix": config.tgt_vocab_size, "suppress": config.tgt_vocab_size}
    for name, size in sides.items():
        if (largest := max(getattr(decode, name), default=0)) >= size:
            raise DecodingError(f"`{name}` holds the id {largest}, the model's vocabulary has {size:,} ids")
    for name in ("bos_id", "eos_id"):
        if (number := getattr(config, name)) >= config.tgt_vocab_size:
            raise DecodingError(f"`{name}` is {number}, the model's vocabulary has {config.tgt_vocab_size:,} ids")
    if config.tgt_vocab_size < 2:
        raise DecodingError(
            f"the model's vocabulary has {config.tgt_vocab_size} id: there is nothing to choose from",
            "a vocabulary needs an end token and something to write",
        )
    if config.eos_id in decode.suppress:
        raise DecodingError(f"`suppress` holds the end token ({config.eos_id}): no output would end", "leave it out")
    if len(decode.target_prefix) >= config.max_positions:
        raise DecodingError(
            f"`target_prefix` has {len(decode.target_prefix)} ids, the model {config.max_positions} positions"
        )
