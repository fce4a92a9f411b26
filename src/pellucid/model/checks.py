"""Checks a model's arguments and raises readable errors: ids, sizes, masks. Nothing of it is from the paper."""

import warnings

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling

from pellucid.errors import DataError


def check_ids(ids: Tensor, name: str = "ids") -> None:
    """Raises DataError unless `ids` is a tensor (B, L) of int64 or int32, with L above 0."""
    if not isinstance(ids, Tensor):
        raise DataError(f"`{name}` is a {type(ids).__name__}; it must be a tensor (B, L)", "write torch.tensor([ids])")
    if ids.dtype not in (torch.int64, torch.int32):
        raise DataError(
            f"`{name}` has dtype {str(ids.dtype).removeprefix('torch.')}; ids are int64 or int32",
            f"write {name}.long()",
        )
    if ids.dim() != 2:
        raise DataError(
            f"`{name}` has shape {tuple(ids.shape)}; it must be (B, L), one row per sentence",
            f"write {name}[None] for a single sentence" if ids.dim() == 1 else "",
        )
    if not is_compiling() and ids.size(1) == 0:
        raise DataError(f"`{name}` has shape {tuple(ids.shape)}: it is empty", "use at least one id per row")


def check_pairs(src: Tensor, tgt: Tensor, memory: Tensor | None, d_model: int) -> None:
    """Raises DataError unless there are as many targets as sources, and `memory`, if given, is (B, S, D)."""
    if is_compiling():  # a comparison would specialize the graph to these sizes, and each new length would recompile
        return
    if src.size(0) != tgt.size(0):
        raise DataError(f"{src.size(0)} sources and {tgt.size(0)} targets: each source needs one target")
    if memory is not None and memory.shape != (*src.shape, d_model):
        raise DataError(
            f"`memory` has shape {tuple(memory.shape)}; for these sources it must be (B, S, D), here "
            f"{(*src.shape, d_model)}",
            "write memory = model.encode(src), with the same `src`",
        )


def check_memory(memory: Tensor | None, cross_attn: nn.Module | None) -> None:
    """Raises DataError for cross-attention without a memory: it would attend to the target, the future included."""
    if memory is None and cross_attn is not None:
        raise DataError(
            "`memory` is None, but this decoder has cross-attention, which attends to a memory (B, S, D)",
            "pass the output of the encoder, or construct the decoder with has_memory=False",
        )


def check_embedded(
    ids: Tensor,
    name: str,
    segments: Tensor | None,
    position: int | None,
    max_positions: int,
    table: nn.Embedding | None,
) -> None:
    """Raises DataError for a sequence beyond `max_positions`, and for `segments` of another shape or with no table."""
    if segments is not None and table is None:
        raise DataError("`segments` are given, but the model has no segment embeddings (`num_segments` is 0)")
    if segments is not None and segments.shape != ids.shape:
        raise DataError(
            f"`segments` has shape {tuple(segments.shape)}, `{name}` {tuple(ids.shape)}: one segment per token"
        )
    end = ids.size(1) if position is None else position + 1
    if end > max_positions:
        place = "" if position is None else f" and begins at position {position}"
        raise DataError(
            f"`{name}` has shape {tuple(ids.shape)}{place}: a sequence of {end} tokens is longer than the model's "
            f"`max_positions` ({max_positions})",
            "shorten the text, or train a model with a larger `model.max_positions`",
        )


def check_attended(x: Tensor, memory: Tensor | None, d_model: int) -> None:
    """Raises DataError unless `x` is (B, L, D), and `memory` None or (B, M, D)."""
    if x.dim() != 3 or x.size(2) != d_model:
        raise DataError(
            f"`x` has shape {tuple(x.shape)}; this attention takes (B, L, D), a vector of {d_model} per token",
            "write x[None] for a single sentence" if x.dim() == 2 else "",
        )
    if memory is not None and (memory.dim() != 3 or memory.size(0) != x.size(0) or memory.size(2) != d_model):
        raise DataError(
            f"`memory` has shape {tuple(memory.shape)}, `x` {tuple(x.shape)}; they are (B, M, D) and (B, L, D), "
            f"with vectors of {d_model}",
            "each sentence of `x` requires its row of `memory`",
        )


def check_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> None:
    """Raises DataError unless keys and values fit the queries, and the mask all of them."""
    queries, keys = q.shape, k.shape  # read once, as each access costs time in each step of a search
    if len(queries) != 4 or len(keys) != 4 or queries[3] != keys[3] or queries[1] % keys[1] or keys[2] != v.size(2):
        raise DataError(
            f"queries of shape {tuple(q.shape)}, keys {tuple(k.shape)} and values {tuple(v.shape)} do not fit: they "
            "are (B, H, L, K), (B, H, M, K) and (B, H, M, K)",
            "queries and keys must have the same width, keys and values the same length; the number of key heads "
            "must divide the number of query heads",
        )
    if mask is not None:
        check_mask(mask, queries[0], queries[1], queries[2], keys[2])


def check_mask(mask: Tensor, B: int, H: int, L: int, M: int) -> None:
    """Raises DataError for a mask that is not bool, or has a shape that attention of (B, H, L, M) cannot take.

    Warns of a mask that is ambiguous since sizes are equal: (B, M) that is read as (L, M), and (B, L, M) or (B, 1, M)
    that is read as (H, L, M).
    """
    if _is_usual(mask, B, H, L, M):
        return
    if mask.dtype != torch.bool:
        raise DataError(
            f"a mask has dtype {str(mask.dtype).removeprefix('torch.')}; it must be bool, True = may attend",
            "of 1 and 0, as torch.tril gives them: mask.bool(); of 0 and -inf, to be added to scores: mask == 0",
        )
    shape, sizes = tuple(mask.shape), (B, H, L, M)
    for_each_sentence = {(B, M): "mask[:, None, None, :]", (B, L, M): "mask[:, None]", (B, 1, M): "mask[:, None]"}
    # Missing dimensions are the leading ones.
    if len(shape) > 4 or any(n not in (1, size) for n, size in zip(shape[::-1], sizes[::-1], strict=False)):
        raise DataError(
            f"a mask has shape {shape}; it must be broadcastable to (B, H, L, M), here {sizes}, so one of two "
            "dimensions is (L, M)",
            f"for one mask per sentence write {for_each_sentence[shape]}; padding_mask(ids, pad_id) has that shape"
            if shape in for_each_sentence
            else "padding_mask(ids, pad_id) and causal_mask(length) make the usual ones",
        )
    if B > 1 and shape in for_each_sentence and not _is_causal(mask):
        warnings.warn(
            f"a mask of shape {shape} is read as {'(L, M)' if len(shape) == 2 else '(H, L, M)'}, the same for all "
            f"{B} sentences; for one mask per sentence, write {for_each_sentence[shape]}, else "
            f"{'mask[None, None]' if len(shape) == 2 else 'mask[None]'}",
            stacklevel=4,  # the caller of attention(), through check_attention()
        )


def _is_usual(mask: Tensor, B: int, H: int, L: int, M: int) -> bool:
    """Returns True if a mask is bool, has four dimensions, as the models' masks, and broadcasts to (B, H, L, M)."""
    if mask.dim() != 4 or mask.dtype != torch.bool:
        return False
    b, h, rows, columns = mask.shape
    return columns in (1, M) and rows in (1, L) and h in (1, H) and b in (1, B)


def _is_causal(mask: Tensor) -> bool:
    return mask.dim() == 2 and mask.size(0) == mask.size(1) and bool((mask == torch.ones_like(mask).tril()).all())
