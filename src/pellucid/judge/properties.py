"""The properties of a part that no variant explains: its output must not depend on hidden keys, sentences, chance.

They are the properties of `pellucid.examine`, on the judge's tensors; those of masks, positions, losses, schedules and
searches are in their own modules. A property that fails is a fact about the part, not a guess of its cause. A part may
be called or read in several ways, as the meaning of its mask is free: it is wrong only if each way fails. If all
properties hold in one way, the judge does not know the part.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pellucid.judge.calling import CallError, Undecided
from pellucid.judge.findings import Finding
from pellucid.judge.variants import describe_difference, is_same

Inputs = Mapping[str, Tensor]
Violation = tuple[str, str]
"""The id of a mistake, and the first place that differs."""


@dataclass(frozen=True)
class PartCall:
    """One way of calling a part: `run` takes tensors by role and returns the output, sentences first.

    Attributes:
        shape: the shape of a right output; for another one nothing is known.
        keys: the roles whose tensors (B, ..., M, K) are keys and values, one entry for each attention; the first key is
            visible to all queries.
        own_keys: the entries of `keys` whose keys are the queries, too.
        hides: True if the last key of each attention is hidden: for its own query it need not be.
        has_batch: True if the first axis has the sentences of a batch.
        weighs: the role of values whose weighted mean is the output; empty if there is more than that.
        heads: True if the axis 1 has heads.
        pointwise: True if each position is computed alone.
    """

    run: Callable[[Inputs], Any]
    inputs: Inputs
    shape: Sequence[int]
    keys: tuple[tuple[str, ...], ...] = ()
    own_keys: tuple[tuple[str, ...], ...] = ()
    hides: bool = True
    has_batch: bool = True
    weighs: str = ""
    heads: bool = False
    pointwise: bool = False


def judge_properties(unknown: Finding, trials: Iterable[PartCall]) -> Finding:
    """Returns the finding of the way with the fewest properties that fail; `unknown` if none fails in one way."""
    return choose_way(unknown, (partial(find_violations, trial) for trial in trials))


def choose_way(unknown: Finding, ways: Iterable[Callable[[], list[Violation] | None]]) -> Finding:
    """Returns the finding of the way with the fewest violations; `unknown` if a way has none, or raises an error.

    Each way returns the properties that do not hold in it, or None if nothing can be said in this way.
    """
    best: list[Violation] = []
    for way in ways:
        try:
            found = way()
        except (CallError, Undecided):
            return unknown
        if found is None:
            continue
        if not found:
            return unknown
        best = found if not best or len(found) < len(best) else best
    if not best:
        return unknown
    return Finding(unknown.name, False, tuple(id for id, _ in best), tuple(place for _, place in best))


def find_violations(trial: PartCall) -> list[Violation] | None:
    """Returns the properties that do not hold, with the first place that differs; none for an output of another shape.

    None if the output has numbers that are not finite: the mask is read otherwise and leaves a query without a key, or
    the part is wrong in a way that no property names. Raises CallError for an error in the learner's code.
    """
    whole = trial.run(trial.inputs)
    if not isinstance(whole, Tensor) or tuple(whole.shape) != tuple(trial.shape):
        return []
    if not bool(whole.isfinite().all()):
        return None
    again = trial.run(trial.inputs)
    if not is_same(again, whole):
        return [("property-repeatable", describe(again, whole))]
    found: list[Violation] = []

    def expect_equal(id: str, changed: Inputs, part: Callable[[Tensor], Tensor]) -> None:
        output = trial.run(changed)
        if not isinstance(output, Tensor) or output.shape != whole.shape:
            found.append((id, describe(output, whole)))
        elif not is_same(part(output), part(whole)):
            found.append((id, describe(part(output), part(whole))))

    if trial.has_batch:
        others = {name: _change(each, (slice(1, None),)) for name, each in trial.inputs.items() if each.dim() > 1}
        expect_equal("property-batch", {**trial.inputs, **others}, lambda output: output[:1])
    if trial.heads:
        others = {name: _change(each, (slice(None), slice(1, None))) for name, each in trial.inputs.items()}
        expect_equal("property-heads", others, lambda output: output[:, :1])
    if trial.pointwise:
        others = {name: _change(each, (..., slice(1, None), slice(None))) for name, each in trial.inputs.items()}
        expect_equal("property-pointwise", others, lambda output: output[..., :1, :])
    for roles in trial.keys:
        last = {name: _change(trial.inputs[name], (..., slice(-1, None), slice(None))) for name in roles}
        if trial.hides:
            part = _drop_last if roles in trial.own_keys else _keep_all
            expect_equal("property-hidden", {**trial.inputs, **last}, part)
        first = {name: _change(trial.inputs[name], (..., slice(0, 1), slice(None))) for name in roles}
        blind = _find_unmoved(trial.run({**trial.inputs, **first}), whole)
        if blind:
            found.append(("property-visible", blind))
    if trial.weighs:
        ones = {**trial.inputs, trial.weighs: torch.ones_like(trial.inputs[trial.weighs])}
        output = trial.run(ones)
        if not is_same(output, torch.ones_like(whole)):
            found.append(("property-weights", describe(output, torch.ones_like(whole))))
    return list({id: (id, place) for id, place in reversed(found)}.values())[::-1]


def _drop_last(output: Tensor) -> Tensor:
    return output[..., :-1, :]


def _keep_all(output: Tensor) -> Tensor:
    return output


def _change(tensor: Tensor, place: Any) -> Tensor:
    """Returns a copy with other numbers at a place."""
    changed = tensor.clone()
    generator = torch.Generator().manual_seed(11)
    changed[place] += 1 + torch.rand(changed[place].shape, generator=generator, dtype=tensor.dtype)
    return changed


def describe(output: Any, expected: Tensor) -> str:
    """Returns the first place where an output differs; "?" if it is nearer than what is printed."""
    return describe_difference(output, expected) or "?"


def _find_unmoved(output: Any, whole: Tensor) -> str:
    """Returns the first query whose output is the same in both; empty if there is none."""
    if not isinstance(output, Tensor) or output.shape != whole.shape:
        return ""
    unmoved = torch.isclose(output, whole, rtol=1e-12, atol=1e-14).all(-1)
    return str(unmoved.nonzero()[0].tolist()) if bool(unmoved.any()) else ""
