"""Judges equation 1: softmax(q k^T / sqrt(d_k)) v, as a function or a module."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from pellucid.judge.calling import (
    CallError,
    Names,
    bind,
    call,
    construct,
    find_role,
    list_parameters,
    to_tensor,
)
from pellucid.judge.conventions import Conventions, encode_mask
from pellucid.judge.failures import Failures
from pellucid.judge.findings import Finding
from pellucid.judge.properties import Inputs, PartCall, judge_properties
from pellucid.judge.variants import Axes, Choices, Variants

B, H, L, M, K = 2, 3, 5, 7, 4

AXES: Axes = {
    "scale": {"none": "no-scale", "d_model": "scale-d-model", "no root": "scale-no-root", "times": "scale-multiplied",
              "weights": "scale-after-softmax"},
    "over": {"queries": "softmax-over-queries", "heads": "softmax-over-heads", "nothing": "no-softmax"},
    "masking": {"ignored": "mask-ignored", "inverted": "mask-inverted", "added": "mask-added",
                "zero": "mask-filled-with-zero", "behind": "mask-after-softmax", "positive": "mask-positive"},
    "values": {"weights": "weights-returned", "k": "keys-for-values"},
}  # fmt: skip

NAMES: Names = {
    "q": ("q", "query", "queries", "xq", "qin"),
    "k": ("k", "key", "keys", "xk", "kin"),
    "v": ("v", "value", "values", "xv", "vin"),
    "mask": ("mask", "attnmask", "attentionmask", "paddingmask", "padmask", "causalmask", "masks", "srcmask", "m",
             "bias",
             "keypaddingmask", "visible", "allowed", "keep", "hidden"),
    "lengths": ("validlens", "validlen", "lengths", "lens", "seqlens"),
    "head_dim": ("dk", "dimk", "headdim", "dhead", "depth", "headsize", "dkey"),
    "d_model": ("dmodel", "embedsize", "embeddim", "hiddendim", "embdim"),
    "num_heads": ("h", "numheads", "nheads", "heads"),
}  # fmt: skip


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, choices: Choices, d_model: int) -> Tensor | None:
    """Returns equation 1 for (..., L, K) and (..., M, K), with wrong choices; None if the shape does not allow one.

    `mask` is True where a query may attend.
    """
    scale, over = choices.get("scale", ""), choices.get("over", "")
    masking, values = choices.get("masking", ""), choices.get("values", "")
    if over == "heads" and q.dim() < 4:
        return None
    scores = q @ k.transpose(-2, -1)
    width = q.size(-1)
    divisor = {"none": 1.0, "d_model": math.sqrt(d_model), "no root": width, "times": width**-0.5, "weights": 1.0,
               "heads": math.sqrt(d_model // width)}  # fmt: skip
    scores = scores / divisor.get(scale, math.sqrt(width))
    if masking in ("", "inverted"):
        scores = scores.masked_fill(mask if masking == "inverted" else ~mask, -1e30)
    elif masking in ("zero", "positive"):
        scores = scores.masked_fill(~mask, 0.0 if masking == "zero" else 1e9)
    elif masking == "added":
        scores = scores + mask.double()
    if over == "nothing":
        weights = scores
    else:
        weights = scores.softmax({"queries": -2, "heads": 1}.get(over, -1))
    if scale == "weights":
        weights = weights / math.sqrt(width)
    if masking == "behind":
        weights = weights.masked_fill(~mask, 0.0)
    if values == "weights":
        return weights
    if values == "k":
        return weights @ k
    return weights @ v


@dataclass(frozen=True)
class AxisOrder:
    """A layout of the tensors: the axes of q, k, v; `move` brings (B, H, L, K) there, `back` brings an output back."""

    name: str
    dims: int
    move: Callable[[Tensor], Tensor] = lambda tensor: tensor
    back: Callable[[Tensor], Tensor] = lambda tensor: tensor


LAYOUTS = (
    AxisOrder("(B, H, L, K)", 4),
    AxisOrder("(B, L, K)", 3),
    AxisOrder("(L, K)", 2),
    AxisOrder("(B, L, H, K)", 4, lambda tensor: tensor.transpose(1, 2), lambda tensor: tensor.transpose(1, 2)),
)


def make_inputs(dims: int, by_length: bool = False) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns q, k, v and a mask (True = may attend) whose rows all have visible and hidden keys."""
    generator = torch.Generator().manual_seed(3)
    lead = (B, H)[: max(0, dims - 2)] if dims != 3 else (B,)
    q, k, v = (torch.randn(*lead, length, K, generator=generator, dtype=torch.float64) for length in (L, M, M))
    mask = torch.rand(*((B, 1)[: len(lead)]), L, M, generator=generator) > 0.4
    mask[..., 0], mask[..., -1], mask[..., 1] = True, False, True
    if by_length:
        rows = (torch.arange(M) < torch.tensor([3, 5])[:, None])[:, None]  # (B, 1, M)
        mask = {4: rows[:, None], 3: rows, 2: rows[0]}[dims].expand(mask.shape)
    return q, k, v, mask


def judge_attention(given: Any, conventions: Conventions) -> Finding:
    """Judges a function `attention(q, k, v, mask)`, or a class or module that is called so.

    Raises CallError if no way of calling it works, and Undecided for a parameter that the judge does not know.
    """
    function = construct(given, {"d_model": H * K, "num_heads": H, "head_dim": K}, ("head_dim",)) \
        if isinstance(given, type) else given  # fmt: skip
    parameters = list_parameters(function)
    takes_mask = parameters is None or any(find_role(each.name, NAMES) == "mask" for each in parameters) \
        or len([each for each in parameters if each.default is each.empty and each.kind is not each.VAR_KEYWORD]) > 3 \
        or any(each.kind is each.VAR_POSITIONAL for each in parameters)  # fmt: skip
    takes_lengths = any(find_role(each.name, NAMES) == "lengths" for each in parameters or []) \
        and all(find_role(each.name, NAMES) != "mask" for each in parameters or [])  # fmt: skip
    takes_mask = takes_mask or takes_lengths
    failures = Failures("attention")
    passes: list[_LayoutPass] = []
    trials: list[PartCall] = []
    for layout in LAYOUTS:
        q, k, v, mask = make_inputs(layout.dims, by_length=takes_lengths)
        variants = _make_variants(layout.dims, takes_mask, takes_lengths)
        values: dict[str, Any] = dict(zip("qkv", map(layout.move, (q, k, v)), strict=True))
        values |= {"head_dim": K, "d_model": H * K, "num_heads": H}
        for meaning in conventions.meanings if takes_mask and not takes_lengths else ("",):
            forms = [{"mask": form} for form in encode_mask(mask, meaning)] if takes_mask else [{}]
            if takes_lengths:
                forms = [{"lengths": mask.reshape(-1, L, M)[:, 0].sum(-1)}]
            for number, form in enumerate(forms):
                args, kwargs = bind(function, {**values, **form}, NAMES, ("q", "k", "v", "mask"))
                try:
                    raw = to_tensor(call(function, args, kwargs))
                except CallError as error:
                    failures.fail(error)
                    continue
                output = layout.back(raw) if isinstance(raw, Tensor) and raw.dim() == layout.dims else raw
                failures.miss(output, next(iter(variants))[1])
                repeat = partial(_call_in_layout, function, layout, values | form)
                open_mask = {"mask": list(encode_mask(torch.ones_like(mask), meaning))[number]} if meaning else {}
                unmasked = partial(_call_in_layout, function, layout, values | form | open_mask)
                passes.append(_LayoutPass(output, variants, meaning, layout.dims, unmasked))
                trials.append(PartCall(
                    repeat, {"q": q, "k": k, "v": v}, (*q.shape[:-1], K), (("k", "v"),), hides=takes_mask, weighs="v",
                    heads=layout.dims == 4, has_batch=layout.dims > 2,
                ))  # fmt: skip
                break  # the other forms are for code that refuses this one
    # One sentence alone says less: it counts if no other layout works.
    passes = [each for each in passes if each.dims > 2] or passes
    for count, each in itertools.product(range(3), passes):
        choices = each.variants.find(each.output, exactly=count)
        if choices is not None:
            names = each.variants.name(choices)
            return Finding(
                "attention", not names and takes_mask, names if takes_mask else (*names, "mask-missing"), (),
                each.meaning,
            )  # fmt: skip
    for each in passes:
        names = each.name_without_mask()
        if names:
            return Finding("attention", False, names, (), each.meaning)
    whole = [trial for trial in trials if trial.has_batch]
    return judge_properties(failures.make_finding(), whole or trials)


@dataclass(frozen=True)
class _LayoutPass:
    """One call of an attention that raised no error, with the variants of its layout."""

    output: Any
    variants: Variants
    meaning: str
    dims: int
    unmasked: Callable[[Inputs], Any]
    """Calls it with a mask that hides nothing."""

    def name_without_mask(self) -> tuple[str, ...]:
        """Returns the mistakes of an output that is not a number, as that of a softmax over hidden scores alone is."""
        if not self.meaning or not isinstance(self.output, Tensor) or not bool(self.output.isnan().any()):
            return ()
        q, k, v, _ = make_inputs(self.dims)
        variants = _make_variants(self.dims, False, False)
        choices = variants.find(self.unmasked({"q": q, "k": k, "v": v}))
        return variants.name(choices) if choices is not None else ()


def _call_in_layout(function: Any, layout: AxisOrder, values: dict[str, Any], inputs: Inputs) -> Any:
    """Returns the output of the learner's function for other q, k and v (B, H, L, K) in its layout."""
    moved = {name: layout.move(each) for name, each in inputs.items()}
    args, kwargs = bind(function, values | moved, NAMES, ("q", "k", "v", "mask"))
    raw = to_tensor(call(function, args, kwargs))
    return layout.back(raw) if isinstance(raw, Tensor) and raw.dim() == layout.dims else raw


@cache
def _make_variants(dims: int, takes_mask: bool, by_length: bool) -> Variants:
    """Returns the variants for inputs of a number of axes, which are the same in each check."""
    q, k, v, mask = make_inputs(dims, by_length)
    return Variants(AXES, partial(_vary, q, k, v, mask if takes_mask else torch.ones_like(mask)))


def _vary(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, choices: Choices) -> Tensor | None:
    return attend(q, k, v, mask, choices, H * K)
