"""Refuses what a model cannot take, in the words that its caller reads: ids, sizes, masks.

None of it is of the paper; of what it computes there is the lookup of ids alone, whose error it puts into words.
"""

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
            f"`{name}` has shape {tuple(ids.shape)}; it must be (B, L), a row a sentence",
            f"write {name}[None] for a single sentence" if ids.dim() == 1 else "",
        )
    if not is_compiling() and ids.size(1) == 0:
        raise DataError(
            f"`{name}` has shape {tuple(ids.shape)}: there is nothing to read", "give each row one id at least"
        )


def check_pairs(src: Tensor, tgt: Tensor, memory: Tensor | None, d_model: int) -> None:
    """Raises DataError unless there are as many targets as sources, and `memory` is (B, S, D), where it is given."""
    if is_compiling():  # a comparison of sizes would fix them, and each new length be compiled anew
        return
    if src.size(0) != tgt.size(0):
        raise DataError(f"{src.size(0)} sources and {tgt.size(0)} targets: each source needs one target")
    if memory is not None and memory.shape != (*src.shape, d_model):
        raise DataError(
            f"`memory` has shape {tuple(memory.shape)}; that of these sources is (B, S, D), here "
            f"{(*src.shape, d_model)}",
            "write memory = model.encode(src), with the same `src`",
        )


def check_memory(memory: Tensor | None, cross_attn: nn.Module | None) -> None:
    """Raises DataError for cross-attention without a memory: it would attend to the target, the future included."""
    if memory is None and cross_attn is not None:
        raise DataError(
            "`memory` is None, but this decoder has cross-attention, which attends to a memory (B, S, D)",
            "give what the encoder returns, or make the decoder with has_memory=False",
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
        raise DataError(f"`segments` has shape {tuple(segments.shape)}, `{name}` {tuple(ids.shape)}: one a token")
    end = ids.size(1) if position is None else position + 1
    if end > max_positions:
        place = "" if position is None else f" and stands at place {position}"
        raise DataError(
            f"`{name}` has shape {tuple(ids.shape)}{place}: a sequence of {end} tokens is longer than the model's "
            f"`max_positions` ({max_positions})",
            "cut the text, or train a model with a larger `model.max_positions`",
        )


def look_up(table: nn.Embedding, ids: Tensor, name: str) -> Tensor:
    """Returns the rows of `ids`, (B, L) -> (B, L, D).

    Ids outside of the table are looked for after the lookup has failed: a check before it would make a GPU wait.
    """
    try:
        return table(ids)  # (B, L, D)
    except IndexError:
        outside = sorted(set(ids[(ids < 0) | (ids >= table.num_embeddings)].tolist()))
        raise DataError(
            f"`{name}` has shape {tuple(ids.shape)} and holds {', '.join(map(str, outside[:5]))}"
            f"{', ...' if len(outside) > 5 else ''}; the model's are 0..{table.num_embeddings - 1}",
            "" if name == "segments" else "encode the text with the tokenizer that the model was trained with",
        ) from None


def check_attended(x: Tensor, memory: Tensor | None, others: tuple[Tensor, ...], d_model: int) -> None:
    """Raises DataError unless `x` is (B, L, D), `memory` None or (B, M, D), and nothing else is given."""
    if others:
        raise DataError(
            f"{2 + len(others)} tensors are given: this attention takes `x` and `memory`, and makes queries, keys "
            "and values of them itself",
            "write attention(x) for self-attention and attention(x, memory) for a memory; the mask is `mask=`",
        )
    if x.dim() != 3 or x.size(2) != d_model:
        raise DataError(
            f"`x` has shape {tuple(x.shape)}; this attention takes (B, L, D), a vector of {d_model} a token",
            "write x[None] for a single sentence" if x.dim() == 2 else "",
        )
    if memory is not None and (memory.dim() != 3 or memory.size(0) != x.size(0) or memory.size(2) != d_model):
        raise DataError(
            f"`memory` has shape {tuple(memory.shape)}, `x` {tuple(x.shape)}; they are (B, M, D) and (B, L, D), "
            f"with vectors of {d_model}",
            "each sentence of `x` needs its row of `memory`",
        )


def check_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> None:
    """Raises DataError unless keys and values fit the queries, and the mask all of them."""
    queries, keys = q.shape, k.shape  # taken once: each look costs, and each step of a search comes here
    if len(queries) != 4 or len(keys) != 4 or queries[3] != keys[3] or queries[1] % keys[1] or keys[2] != v.size(2):
        raise DataError(
            f"queries of shape {tuple(q.shape)}, keys {tuple(k.shape)} and values {tuple(v.shape)} do not fit: they "
            "are (B, H, L, K), (B, H, M, K) and (B, H, M, K)",
            "queries and keys have one width, keys and values one length; the heads of keys divide those of queries",
        )
    if mask is not None:
        check_mask(mask, queries[0], queries[1], queries[2], keys[2])


def check_mask(mask: Tensor, B: int, H: int, L: int, M: int) -> None:
    """Raises DataError for a mask that is not bool, or has a shape that attention of (B, H, L, M) cannot take.

    Warns of a mask that passes for another since sizes are equal: of one (B, M) for (L, M), of one (B, L, M) or
    (B, 1, M) for (H, L, M).
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
    # Missing dimensions stand in front.
    if len(shape) > 4 or any(n not in (1, size) for n, size in zip(shape[::-1], sizes[::-1], strict=False)):
        raise DataError(
            f"a mask has shape {shape}; it must be broadcastable to (B, H, L, M), here {sizes}, so one of two "
            f"dimensions is (L, M)",
            f"of one for each sentence write {for_each_sentence[shape]}; padding_mask(ids, pad_id) has that shape"
            if shape in for_each_sentence
            else "padding_mask(ids, pad_id) and causal_mask(length) make the usual ones",
        )
    if B > 1 and shape in for_each_sentence and not _is_causal(mask):
        warnings.warn(
            f"a mask of shape {shape} is read as {'(L, M)' if len(shape) == 2 else '(H, L, M)'}, the same for all {B} "
            f"sentences; if it is one for each sentence, write {for_each_sentence[shape]}, else "
            f"{'mask[None, None]' if len(shape) == 2 else 'mask[None]'}",
            stacklevel=4,  # whoever calls attention(), by way of check_attention()
        )


def _is_usual(mask: Tensor, B: int, H: int, L: int, M: int) -> bool:
    """Tells if a mask is bool and of four dimensions, as those that models make, and broadcasts to (B, H, L, M)."""
    if mask.dim() != 4 or mask.dtype != torch.bool:
        return False
    b, h, rows, columns = mask.shape
    return columns in (1, M) and rows in (1, L) and h in (1, H) and b in (1, B)


def _is_causal(mask: Tensor) -> bool:
    return mask.dim() == 2 and mask.size(0) == mask.size(1) and bool((mask == torch.ones_like(mask).tril()).all())
