"""Judges the two masks: of the future, and of padding."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pellucid.judge.calling import (
    CallError,
    Names,
    Undecided,
    bind,
    call,
    construct,
    find_role,
    list_parameters,
    to_tensor,
)
from pellucid.judge.conventions import Conventions, read_mask
from pellucid.judge.failures import Failures
from pellucid.judge.findings import Finding
from pellucid.judge.properties import Violation, choose_way
from pellucid.judge.variants import Axes, Choices, Variants

T = 5
PADS = (3, 0, 1)
"""Ids of padding that are tried: one that only a parameter can tell, and the usual ones."""

CAUSAL_AXES: Axes = {
    "edge": {"before": "causal-diagonal-hidden", "after": "causal-one-ahead", "nothing": "causal-nothing-hidden"},
    "side": {"past": "causal-reversed"},
    "rows": {"last": "causal-one-row"},
}  # fmt: skip
PADDING_AXES: Axes = {
    "axis": {"queries": "padding-of-queries"},
    "sentence": {"first": "padding-of-first-sentence"},
    "edge": {"word": "padding-hides-last-word", "pad": "padding-shows-first-pad", "nothing": "padding-nothing-hidden",
             "other": "padding-other-id"},
}  # fmt: skip

CAUSAL_NAMES: Names = {
    "length": ("n", "size", "length", "t", "l", "seqlen", "len", "tgtlen", "trglen", "sz", "seqlength", "targetlen",
               "m",
               "querylen", "srclen", "keylen", "maxlen", "seqsize", "numsteps", "steps", "dim", "tarlen",
               "contextlength"),
    "ids": ("ids", "seq", "tgt", "trg", "x", "tokens", "input", "inputs", "target", "targets", "inputids", "tar",
            "y", "src"),
    "batch": ("b", "batch", "batchsize", "bs", "nbatches"),
    "device": ("device",),
    "dtype": ("dtype",),
}  # fmt: skip
PADDING_NAMES: Names = {
    "ids": ("ids", "seq", "src", "x", "tokens", "input", "inputs", "source", "inputids", "batch", "tgt", "trg", "seqk",
            "seqq", "sequence", "sentences", "q", "k", "tar", "y"),
    "pad_id": ("padid", "pad", "padidx", "paddingidx", "padtoken", "padtokenid", "ipad", "srcpadidx", "padindex",
               "paddingid",
               "padvalue", "trgpadidx", "tgtpadidx"),
    "lengths": ("lengths", "lens", "validlens", "validlen", "seqlens"),
    "length": ("maxlen", "maxlength", "size", "length", "n"),
    "device": ("device",),
}  # fmt: skip


def compute_causal(choices: Choices) -> Tensor:
    """Returns the mask of T positions, (T, T), True = may attend."""
    edge = choices.get("edge", "")
    mask = torch.ones(T, T, dtype=torch.bool)
    if edge != "nothing":
        mask = mask.tril({"before": -1, "after": 1}.get(edge, 0))
    if choices.get("side") == "past":
        mask = mask.T
    if choices.get("rows") == "last":
        mask = mask[-2:-1].expand(T, T)
    return mask


def compute_padding(ids: Tensor, pad: int, choices: Choices) -> Tensor:
    """Returns the mask of ids (B, S) with padding on the right: (B, S, S), queries and keys, True = may attend."""
    edge = choices.get("edge", "")
    words = ids != (pad if edge != "other" else 2)
    count = (ids != pad).sum(-1, keepdim=True) + {"word": -1, "pad": 1}.get(edge, 0)
    if edge in ("word", "pad"):
        words = torch.arange(ids.size(1)) < count
    if edge == "nothing":
        words = torch.ones_like(words)
    if choices.get("sentence") == "first":
        words = words[:1].expand_as(words)
    full = words[:, None, :].expand(-1, ids.size(1), -1)
    return full.transpose(1, 2) if choices.get("axis") == "queries" else full


def judge_causal_mask(given: Any, conventions: Conventions) -> Finding:
    """Judges a function that returns the mask of the future for a length, a size or ids.

    Raises CallError if no way of calling it works, and Undecided for a parameter that the judge does not know.
    """
    function = _make_callable(given)
    ids = torch.tensor([[4, 5, 6, 7, 8], [9, 8, 7, 6, 5]])
    failures = Failures("causal_mask")
    variants = Variants(CAUSAL_AXES, compute_causal)
    unnamed: list[Tensor] = []
    failed: Undecided | None = None
    for first in (T, ids):
        values = {"length": T, "ids": ids, "batch": 2, "device": "cpu", "dtype": torch.float64, "first": first}
        try:
            args, kwargs = bind(function, values, CAUSAL_NAMES, ("first", "length"))
            output = to_tensor(call(function, args, kwargs))
        except Undecided as error:
            failed = error
            continue
        except CallError as error:
            failures.fail(error)
            continue
        finding = _name_causal(output, variants, conventions)
        if finding is not None:
            return finding
        failures.miss(output, compute_causal({}))
        unnamed += [mask for meaning, mask in _read_causal(output) if meaning in conventions.meanings]
    if failed is not None and failures.is_empty:
        raise failed
    return choose_way(failures.make_finding(), (partial(_find_causal_violations, mask) for mask in unnamed))


def _find_causal_violations(mask: Tensor) -> list[Violation]:
    """Returns the properties that a mask of the future (T, T), True = may attend, lacks, each with its first place."""
    return _list_places({"property-mask-future": mask.triu(1), "property-mask-blind": ~mask.any(-1)})


def _list_places(wrong: Mapping[str, Tensor]) -> list[Violation]:
    return [(id, str(places.nonzero()[0].tolist())) for id, places in wrong.items() if bool(places.any())]


def _name_causal(output: Any, variants: Variants, conventions: Conventions) -> Finding | None:
    if output is None:
        return Finding("causal_mask", False, ("returns-nothing",))
    if isinstance(output, Tensor) and output.is_floating_point() and bool(output.isnan().any()):
        return Finding("causal_mask", False, ("causal-nan",))
    return _find("causal_mask", _read_causal(output), variants.find, variants.name, conventions)


def _read_causal(output: Any) -> list[tuple[str, Tensor]]:
    """Returns the readings of a mask of the future as (T, T); none for another shape or different sentences."""
    if not isinstance(output, Tensor) or output.dim() < 2 or output.shape[-2:] != (T, T):
        return []
    flat = output.reshape(-1, T, T)
    return list(read_mask(flat[0])) if bool((flat == flat[:1]).all()) else []


def _find(
    name: str, readings: list[tuple[str, Tensor]], find: Callable[..., Choices | None],
    to_ids: Callable[[Choices], tuple[str, ...]], conventions: Conventions,
) -> Finding | None:  # fmt: skip
    """Returns the finding of a mask by the reading with the fewest mistakes; one reading if the convention is known."""
    known = [reading for reading in readings if conventions.mask in ("", reading[0])]
    for meaning, mask in readings:
        if name == "padding_mask" and conventions.mask not in ("", meaning) and find(mask, exactly=0) is not None:
            return Finding(name, False, ("masks-disagree",), (), meaning)
    for count in range(3):
        for meaning, mask in known:
            choices = find(mask, exactly=count)
            if choices is not None:
                return Finding(name, not choices, to_ids(choices), (), meaning)
    return None


def judge_padding_mask(given: Any, conventions: Conventions) -> Finding:
    """Judges a function that returns the mask of padding for ids (B, S).

    Raises CallError if no way of calling it works, and Undecided for a parameter that the judge does not know.
    """
    function = _make_callable(given)
    failures = Failures("padding_mask")
    found: Finding | None = None
    unnamed: list[partial[list[Violation]]] = []
    for pad in PADS:
        ids = torch.tensor([[7, 2, 5, 4, 6, pad], [8, 9, 2, pad, pad, pad]])
        for first in (ids, (ids != pad).sum(-1)):
            values: dict[str, Any] = {
                "ids": ids, "pad_id": pad, "lengths": (ids != pad).sum(-1), "length": ids.size(1), "device": "cpu",
                "first": first,
            }  # fmt: skip
            args, kwargs = bind(function, values, PADDING_NAMES, ("first", "pad_id"))
            try:
                output = to_tensor(call(function, args, kwargs))
            except CallError as error:
                failures.fail(error)
                continue
            if output is None:
                return Finding("padding_mask", False, ("returns-nothing",))
            variants = Variants(PADDING_AXES, partial(compute_padding, ids, pad))
            failures.miss(output, compute_padding(ids, pad, {})[:, None])
            readings = list(_read_padding(output, ids)) if isinstance(output, Tensor) else []
            finding = _find("padding_mask", readings, variants.find, variants.name, conventions)
            unnamed += [
                partial(_find_padding_violations, mask, ids != pad) for meaning, mask in readings
                if meaning in conventions.meanings
            ]  # fmt: skip
            if finding is not None and (found is None or len(finding.mistakes) < len(found.mistakes)):
                found = finding
            if found is not None and (found.right or _takes(function, "pad_id")):
                return found
    # A function that knows its own id of padding may hide another one than the judge's.
    knows = _takes(function, "pad_id") or _takes(function, "lengths")
    return found or choose_way(failures.make_finding(), unnamed if knows else ())


def _find_padding_violations(mask: Tensor, words: Tensor) -> list[Violation]:
    """Returns the properties that a mask of padding (B, S, S), True = may attend, lacks, each with its first place.

    Args:
        words: (B, S), False for padding. What padding as a query may see is free; a mask may also hide the future.
    """
    return _list_places({
        "property-mask-padding": mask & words[:, :, None] & ~words[:, None, :],
        "property-mask-word": words & ~mask.any(1),
    })  # fmt: skip


def _takes(function: Any, role: str) -> bool:
    return any(find_role(each.name, PADDING_NAMES) == role for each in list_parameters(function) or [])


def _read_padding(output: Tensor, ids: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yields the readings of a mask of padding as (B, S, S)."""
    count, length = ids.shape
    for meaning, mask in read_mask(output):
        while mask.dim() > 3 and mask.size(1) == 1:
            mask = mask[:, 0]
        if mask.shape == (count, length):
            mask = mask[:, None, :]
        if mask.dim() == 3 and mask.size(0) == count and {mask.size(1), mask.size(2)} <= {1, length}:
            yield meaning, mask.expand(count, length, length)


def _make_callable(given: Any) -> Any:
    return construct(given, {}, ()) if isinstance(given, type) else given


MASKS: Mapping[str, Callable[[Any, Conventions], Finding]] = {
    "causal_mask": judge_causal_mask,
    "padding_mask": judge_padding_mask,
}
