"""Special token ids: the prefix and suffix of each source, the prefix of an output, and the suppressed ids."""

from collections.abc import Sequence
from itertools import chain

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.errors import DecodingError


def add_special_ids(ids: Sequence[int], config: ModelConfig, decode: DecodeConfig) -> list[int]:
    """Returns a source with its end token and the prefix and suffix of every source.

    Raises DecodingError if the result is empty.
    """
    whole = decode.add_special_ids(ids, config.eos_id)
    if not whole:
        raise DecodingError("a source is empty, and this model uses sources without an end token", "leave it out")
    return whole


def list_suppressed_ids(config: ModelConfig, suppress: Sequence[int] = ()) -> list[int]:
    """Returns the ids that no translation may contain: padding, the start token, and the ids of `suppress_tokens`.

    An id of them that is also in `DecodeConfig.end_ids` still ends an output.
    """
    special = {i for i in (config.pad_id, config.bos_id) if i is not None and i != config.eos_id}
    special -= {i for i in special if i >= config.tgt_vocab_size}  # a larger source vocabulary's padding
    return sorted(special | set(suppress))


def check_decoding_ids(decode: DecodeConfig, config: ModelConfig) -> None:
    """Raises DecodingError if the model lacks a prefix id or suppressed id of the search."""
    sides = {"source_prefix": config.src_vocab_size, "source_suffix": config.src_vocab_size}
    sides |= dict.fromkeys(("target_prefix", "suppress_tokens", "end_ids", "banned"), config.tgt_vocab_size)
    for name, size in sides.items():
        ids = chain.from_iterable(decode.banned) if name == "banned" else getattr(decode, name)
        if (largest := max(ids, default=0)) >= size:
            raise DecodingError(f"`{name}` holds the id {largest}, but the model's vocabulary has {size:,} ids")
    for name in ("bos_id", "eos_id"):
        if (number := getattr(config, name)) >= config.tgt_vocab_size:
            raise DecodingError(f"`{name}` is {number}, but the model's vocabulary has {config.tgt_vocab_size:,} ids")
    if config.tgt_vocab_size < 2:
        raise DecodingError(
            f"the model's vocabulary has {config.tgt_vocab_size} id, which leaves no choice",
            "a vocabulary requires an end token and at least one other token",
        )
    if config.eos_id in decode.suppress_tokens:
        raise DecodingError(
            f"`suppress_tokens` has the end token ({config.eos_id}), so no output would end", "leave it out"
        )
    if len(decode.target_prefix) >= config.max_positions:
        raise DecodingError(
            f"`target_prefix` has {len(decode.target_prefix)} ids, but the model has {config.max_positions} positions"
        )
