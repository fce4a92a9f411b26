"""Judges the sinusoids of section 3.5: a function that returns a table, or a module that adds it."""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.judge.calling import SIZES, CallError, Names, bind, call, construct, list_parameters, to_tensor
from pellucid.judge.conventions import Conventions
from pellucid.judge.failures import Failures
from pellucid.judge.findings import Finding
from pellucid.judge.mistakes import MISTAKES
from pellucid.judge.properties import Violation, choose_way, describe
from pellucid.judge.variants import Axes, Choices, Variants, is_same

B, L, D, LONGEST = 2, 7, 10, 12

AXES: Axes = {
    "exponent": {"own": "positions-own-exponent", "half": "positions-half-exponent",
                 "cosine": "positions-cosine-exponent",
                 "times": "positions-multiplied", "none": "positions-no-exponent"},
    "base": {"1000": "positions-other-base", "100": "positions-base-100"},
    "order": {"halves": "positions-halves", "swapped": "positions-cosine-first"},
    "waves": {"sines": "positions-only-sines", "cosines": "positions-only-cosines"},
    "start": {"one": "positions-start-at-one"},
}  # fmt: skip

NAMES: Names = {
    "length": (*SIZES["max_length"], "n", "l", "nposition", "maxposition", "positions", "size", "seq",
               "sequencelength", "m"),
    "d_model": SIZES["d_model"],
    "x": ("x", "emb", "embeddings", "inputs", "input", "embedded", "tokenembedding", "tokens"),
    "start": ("start",),
    "end": ("end", "stop"),
    "device": ("device",),
    "base": ("base", "n10000", "theta"),
}  # fmt: skip


def compute_table(choices: Choices) -> Tensor:
    """Returns the table of section 3.5, (LONGEST, D), with wrong choices."""
    exponent, order, waves = choices.get("exponent", ""), choices.get("order", ""), choices.get("waves", "")
    position = torch.arange(LONGEST, dtype=torch.float64)[:, None] + (choices.get("start") == "one")
    pairs = torch.arange(D // 2, dtype=torch.float64)
    base = float(choices.get("base", 10000))
    powers = {"half": pairs / D, "none": torch.zeros_like(pairs)}.get(exponent, 2 * pairs / D)
    sine_angles = position * base**powers if exponent == "times" else position / base**powers
    cosine_angles = sine_angles
    if exponent == "own":  # each dimension has its own exponent, i / d_model
        cosine_angles = position / base ** ((2 * pairs + 1) / D)
    elif exponent == "cosine":  # 2i with i counted over all dimensions
        cosine_angles = position / base ** (2 * (2 * pairs + 1) / D)
        sine_angles = position / base ** (2 * (2 * pairs) / D)
    first, second = sine_angles.sin(), cosine_angles.cos()
    if waves == "sines":
        second = cosine_angles.sin()
    if waves == "cosines":
        first = sine_angles.cos()
    if order == "swapped":
        first, second = second, first
    if order == "halves":
        return torch.cat([first, second], dim=-1)
    return torch.stack([first, second], dim=-1).flatten(1)


def judge_positions(given: Any, conventions: Conventions) -> Finding:
    """Judges a function that returns the table, or a class or module that adds it to (B, L, D).

    Raises CallError if no way of calling it works, and Undecided for a parameter that the judge does not know.
    """
    sizes = {"d_model": D, "max_length": LONGEST, "num_heads": 1}
    module = construct(given, sizes, ("d_model", "max_length")) if isinstance(given, type) else given
    failures = Failures("positional_encoding")
    if isinstance(module, nn.Module) or (isinstance(given, type) and callable(module)):
        return _judge_module(module, conventions, failures)
    values: dict[str, Any] = {
        "length": LONGEST,
        "d_model": D,
        "base": 10000.0,
        "device": "cpu",
        "x": torch.zeros(B, LONGEST, D),
    }

    def make(length: int) -> Any:
        own = values | {"length": length, "x": torch.zeros(B, length, D)}
        args, kwargs = bind(module, own, NAMES, ("length", "d_model"))
        return _squeeze(to_tensor(call(module, args, kwargs)))

    try:
        table = make(LONGEST)
    except CallError as error:
        failures.fail(error)
        return failures.make_finding()
    finding = _name(table, failures)
    if not finding.is_unknown or not isinstance(table, Tensor) or table.shape != (LONGEST, D):
        return finding
    return choose_way(finding, [partial(_find_violations, lambda x: make(x.size(1))[None], torch.zeros(1, LONGEST, D))])


def _find_violations(add: Callable[[Tensor], Any], x: Tensor) -> list[Violation] | None:
    """Returns the properties that positions lack, each with the first place that differs.

    Args:
        add: returns what the part makes of (B, L, D), or something else.
        x: embeddings (B, L, D) that are the same in each position.
    """
    whole = add(x)
    if not _is_like(whole, x):
        return None
    again = add(x)
    if not is_same(again, whole):
        return [("property-repeatable", describe(again, whole))]
    found: list[Violation] = []
    for first, second in itertools.combinations(range(x.size(1)), 2):
        if is_same(whole[:, first], whole[:, second], rtol=1e-5, atol=1e-6):
            found.append(("property-positions-distinct", f"[{first}] = [{second}]"))
            break
    shorter = x[:, :-3]
    rows = add(shorter)
    if _is_like(rows, shorter) and not is_same(rows, whole[:, :-3], rtol=1e-4, atol=1e-5):
        found.append(("property-positions-length", describe(rows, whole[:, :-3])))
    if len(x) > 1:
        others = x.clone()
        others[1:] += 1 + torch.arange(x.size(1) * x.size(2)).view(x.shape[1:])
        output = add(others)
        if _is_like(output, x) and not is_same(output[:1], whole[:1]):
            found.append(("property-batch", describe(output[:1], whole[:1])))
    return found


def _is_like(output: Any, x: Tensor) -> bool:
    return isinstance(output, Tensor) and output.shape == x.shape and bool(output.isfinite().all())


def _squeeze(output: Any) -> Any:
    """Returns a table without axes of length 1, and without rows that are equal for each sentence."""
    if isinstance(output, Tensor) and output.dim() == 3:
        if output.size(0) == 1 or (output.size(0) == B and is_same(output[0], output[1])):
            return output[0]
        if output.size(1) == 1:
            return output[:, 0]
    return output


def _name(table: Any, failures: Failures, *flags: str) -> Finding:
    if table is None:
        return Finding("positional_encoding", False, ("returns-nothing",))
    variants = Variants(AXES, lambda choices: compute_table(choices)[: len(table)])
    if isinstance(table, Tensor):
        # Tables are often made in single precision.
        choices = variants.find(table, same=partial(is_same, rtol=1e-4, atol=1e-4))
        if choices is not None:
            names = (*variants.name(choices), *flags)
            return Finding("positional_encoding", all(MISTAKES[name].is_note for name in names), names)
    failures.miss(table, compute_table({})[: len(table)] if isinstance(table, Tensor) else torch.empty(0))
    return failures.make_finding()


def _judge_module(module: Any, conventions: Conventions, failures: Failures) -> Finding:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(B, L, D, generator=generator, dtype=torch.float64)
    parameters = list_parameters(module) or []
    if len([each for each in parameters if each.default is each.empty]) == 2:
        args, kwargs = bind(module, {"start": 0, "end": L, "length": L, "d_model": D}, NAMES, ("start", "end"))
        return _name(_squeeze(to_tensor(call(module, args, kwargs))), failures)
    tables: list[tuple[Tensor, tuple[str, ...]]] = []
    for form in ("x", "ids", "length"):
        value = {"x": x, "ids": torch.ones(B, L, dtype=torch.long), "length": L}[form]
        try:
            args, kwargs = bind(module, {"x": value, "length": value}, NAMES, ("x",))
            output = to_tensor(call(module, args, kwargs))
        except CallError as error:
            failures.fail(error)
            continue
        if output is None:
            return Finding("positional_encoding", False, ("returns-nothing",))
        if not isinstance(output, Tensor):
            continue
        if form != "x":
            tables.append((output, ()))
            continue
        for factor in (1.0, math.sqrt(D)):
            tables.append((output - factor * x, ()) if output.shape == x.shape else (output, ()))
        tables.append((output, ()))
    learned = [each.weight for each in getattr(module, "modules", list)() if isinstance(each, nn.Embedding)]
    learned += [each for each in getattr(module, "parameters", list)() if each.dim() >= 2 and each.size(-1) == D]
    for table, flags in tables:
        for seen, more in _list_tables(table, conventions):
            if any(is_same(seen, weight.detach().reshape(-1, D)[: len(seen)]) for weight in learned):
                return Finding("positional_encoding", not (flags or more), (*flags, *more))
            finding = _name(seen, Failures("positional_encoding"), *flags, *more)
            if not finding.is_unknown:
                return finding
    if tables:
        failures.miss(tables[0][0], compute_table({})[:L].expand(B, L, D))
    ways = [partial(_find_violations, partial(_add, module, axes), _make_same(L)) for axes in ((0, 1), (1, 0))]
    return choose_way(failures.make_finding(), ways[:1] if conventions.batch_first else ways)


def _make_same(length: int) -> Tensor:
    """Returns embeddings (B, L, D) that are the same in each position."""
    generator = torch.Generator().manual_seed(4)
    return torch.randn(B, 1, D, generator=generator, dtype=torch.float64).repeat(1, length, 1)


def _add(module: Any, axes: tuple[int, int], x: Tensor) -> Any:
    """Returns what a module makes of (B, L, D) as (B, L, D); it takes the first two axes in the order `axes`."""
    given = x.permute(*axes, 2)
    args, kwargs = bind(module, {"x": given, "length": given}, NAMES, ("x",))
    output = to_tensor(call(module, args, kwargs))
    if isinstance(output, Tensor) and output.dim() in (2, 3) and all(
        size in (1, wanted) for size, wanted in zip(reversed(output.shape), reversed(given.shape), strict=False)
    ):  # fmt: skip
        return output.expand(given.shape).permute(*axes, 2)
    return output


def _list_tables(table: Tensor, conventions: Conventions) -> list[tuple[Tensor, tuple[str, ...]]]:
    """Returns the (L, D) that an addition to (B, L, D) may mean, with the mistake of rows along the batch."""
    if table.dim() == 2:
        return [(table, ())]
    if table.dim() != 3:
        return []
    if table.size(0) == 1 or is_same(table[0], table[-1]):
        return [(table[0], ())]
    if table.size(1) == 1 or is_same(table[:, 0], table[:, -1]):
        # (L, B, D) is a style; between parts with (B, L, D) it is a mistake.
        return [(table[:, 0], ("positions-on-batch",) if conventions.batch_first else ())]
    return []
