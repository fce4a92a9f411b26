"""Judges multi-head attention: any module, whatever its names.

The linear maps of a module are recorded while it runs: their weights, inputs and outputs. So the judge knows which map
made queries, keys and values, and can compare the step between the maps, and the maps themselves, separately.
"""

import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from pellucid.judge import attention
from pellucid.judge.attention import B, H, K, L
from pellucid.judge.calling import (
    CallError,
    Names,
    Undecided,
    bind,
    construct,
    find_role,
    list_parameters,
    prepare,
    run,
    to_tensor,
)
from pellucid.judge.conventions import Conventions, encode_mask
from pellucid.judge.failures import Failures
from pellucid.judge.findings import Finding
from pellucid.judge.properties import Inputs, PartCall, judge_properties
from pellucid.judge.variants import Axes, Choices, Variants, is_same

D = H * K

AXES: Axes = {
    "split": {"view": "split-without-transpose", "last": "split-heads-last"},
    "scale": {**attention.AXES["scale"], "heads": "scale-num-heads"},
    "over": attention.AXES["over"],
    "masking": attention.AXES["masking"],
    "values": {"k": "keys-for-values"},
    "join": {"view": "join-without-transpose"},
}

NAMES: Names = {
    "q": (*attention.NAMES["q"], "queryinput", "qx", "decoderhidden"),
    "k": (*attention.NAMES["k"], "keyinput"),
    "v": (*attention.NAMES["v"], "valueinput"),
    "x": ("x", "hiddenstate", "hiddenstates", "inputs", "input", "embeddings", "embedding", "src", "tokens", "emb",
          "out"),
    "memory": ("memory", "context", "encout", "encoderoutput", "encoutput", "y", "kv", "encoderhiddenstates", "xkv"),
    "mask": attention.NAMES["mask"],
    "lengths": attention.NAMES["lengths"],
}  # fmt: skip
PRODUCTS = {"linear", "matmul", "__matmul__", "__rmatmul__", "bmm", "mm", "einsum", "tensordot"}
SUMS = {"add", "__add__", "__radd__", "__iadd__", "add_"}


@dataclass
class LinearMap:
    """One use of weights: `owner` identifies them; `input` and `output` are the tensors before and after."""

    owner: int
    input: Tensor
    output: Tensor


class LinearMaps(TorchFunctionMode):
    """Records each product of a tensor with a module's parameter, with the bias that is added to it."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.used: list[LinearMap] = []
        self._owners = {p.untyped_storage().data_ptr(): number for number, p in enumerate(module.parameters())}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if isinstance(result, Tensor) and name in PRODUCTS | SUMS:
            given = [each for each in _flatten([*args, *(kwargs or {}).values()]) if isinstance(each, Tensor)]
            owners = [self._owner(each) for each in given]
            others = [each for each, owner in zip(given, owners, strict=True) if owner is None]
            own = tuple(owner for owner in owners if owner is not None)
            if len(others) == 1 and own:
                if name in PRODUCTS:
                    self.used.append(LinearMap(own[0], others[0], result))
                elif self.used and others[0] is self.used[-1].output:
                    self.used[-1].output = result
        return result

    def _owner(self, tensor: Tensor) -> int | None:
        # Views and slices share the storage of their parameter; an integer tensor or a mask has another one.
        return self._owners.get(tensor.untyped_storage().data_ptr())


def _flatten(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _flatten(value)
        else:
            yield value


def compute_heads(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, choices: Choices) -> Tensor | None:
    """Returns the joined heads of projected q (B, L, D), k and v (B, M, D): (B, L, D), before the output projection."""
    split = choices.get("split", "")

    def heads(x: Tensor) -> Tensor:
        if split == "view":
            return x.reshape(B, H, -1, K)
        if split == "last":
            return x.reshape(B, -1, K, H).permute(0, 3, 1, 2)
        return x.reshape(B, -1, H, K).transpose(1, 2)

    output = attention.attend(heads(q), heads(k), heads(v), mask, choices, D)
    if output is None:
        return None
    if choices.get("join") == "view":
        return output.reshape(B, -1, D)
    if split == "last":
        return output.permute(0, 2, 3, 1).reshape(B, -1, D)
    return output.transpose(1, 2).reshape(B, -1, D)


def make_inputs() -> tuple[Tensor, Tensor, Tensor]:
    """Returns three different inputs (B, L, D).

    Queries and keys are equally many, so that an input in the place of another one is a wrong result and not an error.
    """
    generator = torch.Generator().manual_seed(5)
    q, k, v = (torch.randn(B, L, D, generator=generator, dtype=torch.float64) for _ in range(3))
    return q, k, v


@dataclass(frozen=True)
class Shape:
    """A form of a mask: the tensor to pass, and its meaning for (B, H, L, M)."""

    passed: Tensor | None
    full: Tensor
    role: str = "mask"


def list_shapes() -> list[Shape]:
    """Returns masks of the usual shapes: (B, 1, L, M), (B, L, M), (L, M), (B, 1, 1, M), (B, M), here with M = L."""
    generator = torch.Generator().manual_seed(7)
    mask = torch.rand(B, 1, L, L, generator=generator) > 0.4
    mask[..., 0], mask[..., -1], mask[..., 1] = True, False, True
    one = mask[:1, 0]
    rows = mask[:, :, :1].clone()
    rows[0, ..., 2], rows[1, ..., 2] = True, False
    return [
        Shape(mask, mask), Shape(mask[:, 0], mask), Shape(one[0], one[None]),
        Shape(rows, rows), Shape(rows[:, 0, 0], rows),
    ]  # fmt: skip


def judge_heads(given: Any, conventions: Conventions) -> Finding:
    """Judges a class or an instance of multi-head attention.

    Raises CallError if no way of calling it works, and Undecided for a parameter that the judge does not know.
    """
    module = build(given)
    failures = Failures("MultiHeadAttention")
    trials: list[PartCall] = []
    not_numbers: list[tuple[bool, tuple[str, ...], Shape]] = []
    for batch_first in (True, False):
        for style in list_styles(module):
            # The first shape of a mask that the part understands: later ones say less, as they hide whole keys.
            for shapes in _group_shapes(module, batch_first):
                passes = [
                    each for shape in shapes
                    for each in _run_passes(module, style, shape, conventions, batch_first, failures)
                ]  # fmt: skip
                trials += [each.trial for each in passes]
                if any(_has_nan(each.returned) for each in passes):
                    not_numbers += [(batch_first, style, shape) for shape in shapes if shape.role == "mask"]
                for count in range(3):
                    named = [(found, each) for each in passes if (found := each.name(count)) is not None]
                    if named:
                        (names, details), read = min(named, key=lambda pair: len(pair[0][0]))
                        return Finding("MultiHeadAttention", not names, names, details, read.meaning, batch_first)
    # A softmax over hidden scores alone is not a number: without hidden scores it may have a name.
    for batch_first, style, shape in not_numbers:
        visible = None if shape.passed is None else torch.ones_like(shape.passed)
        shape = Shape(visible, torch.ones_like(shape.full))
        for each in _run_passes(module, style, shape, conventions, batch_first, failures):
            names, details = next((found for count in range(3) if (found := each.name(count)) is not None), ((), ()))
            names = tuple(name for name in names if name != "mask-missing")  # nothing shows it here
            if names:
                return Finding("MultiHeadAttention", False, names, details, each.meaning, batch_first)
    return judge_properties(failures.make_finding(), trials)


def _has_nan(output: Any) -> bool:
    return isinstance(output, Tensor) and bool(output.isnan().any())


def _group_shapes(module: nn.Module, batch_first: bool) -> Iterator[list[Shape]]:
    """Yields the masks to try one after the other; of a module without a mask both that it may have in itself."""
    everything = torch.ones(B, 1, L, L, dtype=torch.bool)
    if takes_lengths(module):
        lengths = torch.tensor([3, 4])
        yield [Shape(lengths, (torch.arange(L) < lengths[:, None])[:, None, None], "lengths")]
    elif not takes_mask(module):
        yield [Shape(None, everything), Shape(None, everything.tril())]
    else:
        yield from ([shape] for shape in list_shapes())
        if not batch_first:  # (L, M, B), too
            full = list_shapes()[0].full
            yield [Shape(full[:, 0].permute(1, 2, 0), full)]


def takes_lengths(module: nn.Module) -> bool:
    """Returns True if a module's forward has a parameter for the lengths of the texts, and none for a mask."""
    roles = {find_role(each.name, NAMES) for each in list_parameters(module) or []}
    return "lengths" in roles and "mask" not in roles


def takes_mask(module: nn.Module) -> bool:
    """Returns True if a module's forward has a parameter for a mask."""
    return any(find_role(each.name, NAMES) == "mask" for each in list_parameters(module) or [])


def build(given: Any) -> nn.Module:
    """Returns the module to judge: an instance of a learner's class, or the instance that is given, prepared."""
    if isinstance(given, nn.Module):
        return prepare(given)
    try:
        made = construct(given, {"d_model": D, "num_heads": H, "head_dim": K, "d_ff": 2 * D, "max_length": 16})
    except CallError as error:
        # Some order heads first, under names that say neither.
        try:
            made = construct(
                given,
                {"d_model": D, "num_heads": H, "head_dim": K, "d_ff": 2 * D, "max_length": 16},
                ("num_heads", "d_model"),
            )
        except (CallError, Undecided):
            raise error from None
    if not isinstance(made, nn.Module):
        raise Undecided(type(made).__name__)
    return made


def list_styles(module: nn.Module) -> list[tuple[str, ...]]:
    """Returns the roles of the inputs that a module's forward takes: ("q", "k", "v"), ("x", "memory") or ("x",)."""
    parameters = list_parameters(module) or []
    roles = [find_role(each.name, NAMES) for each in parameters]
    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY
    required = [
        each for each, role in zip(parameters, roles, strict=True)
        if each.default is each.empty and each.kind in kinds and role != "mask"
    ]  # fmt: skip
    if "k" in roles and "v" in roles:
        return [("q", "k", "v")]
    if "memory" in roles:
        return [("x", "memory"), ("x",)]
    return [("q", "k", "v")] if len(required) >= 3 else [("x", "memory")] if len(required) == 2 else [("x",)]


def _run_passes(
    module: nn.Module,
    style: tuple[str, ...],
    shape: Shape,
    conventions: Conventions,
    batch_first: bool,
    failures: Failures,
) -> Iterator["_HeadPass"]:
    """Runs a module with masks of every meaning; yields the passes that raise no error."""
    xq, xk, xv = make_inputs()
    xk, xv = {"x": (xq, xq), "memory": (xk, xk)}.get(style[-1], (xk, xv))
    inputs = {"x": xq, "q": xq, "memory": xk, "k": xk, "v": xv}
    values = {role: inputs[role] if batch_first else inputs[role].transpose(0, 1) for role in style}
    for meaning in conventions.meanings if shape.passed is not None and shape.role == "mask" else ("",):
        forms: list[dict[str, Any]] = [{}]
        if shape.passed is not None:
            passed = encode_mask(shape.passed, meaning) if shape.role == "mask" else [shape.passed]
            forms = [{shape.role: each} for each in passed]
        for form in forms:
            args, kwargs = bind(module, values | form, NAMES, (*style, shape.role))
            try:
                read = _HeadPass(module, args, kwargs, (xq, xk, xv), shape.full, meaning, batch_first)
            except CallError as error:
                failures.fail(error)
                continue
            failures.miss(read.returned, xq)

            repeat = partial(_call_again, module, values | form, style, batch_first)
            keys = {"x": ("x",), "memory": ("memory",)}.get(style[-1], ("k", "v"))
            read.trial = PartCall(
                repeat, {role: inputs[role] for role in style}, xq.shape, (keys,), (("x",),), not bool(shape.full.all())
            )
            yield read
            break  # the other forms are for code that refuses this one


def _call_again(
    module: nn.Module, values: Mapping[str, Any], style: tuple[str, ...], batch_first: bool, inputs: Inputs
) -> Any:
    """Returns the output of a module for other inputs (B, L, D), sentences first."""
    moved = {role: each if batch_first else each.transpose(0, 1) for role, each in inputs.items()}
    args, kwargs = bind(module, {**values, **moved}, NAMES, (*style, "mask"))
    with torch.no_grad():
        output = to_tensor(run(module, *args, **kwargs))
    is_moved = isinstance(output, Tensor) and output.dim() == 3 and not batch_first
    return output.transpose(0, 1) if is_moved else output


class _HeadPass:
    """One call of a module, with its linear maps, and the parameters that get no gradient."""

    def __init__(
        self, module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], inputs: tuple[Tensor, Tensor, Tensor],
        mask: Tensor, meaning: str, batch_first: bool,
    ) -> None:  # fmt: skip
        module.zero_grad()
        with LinearMaps(module) as maps:
            output = to_tensor(run(module, *map(_copy, args), **{name: _copy(each) for name, each in kwargs.items()}))
        self.maps = maps.used
        self.meaning = meaning
        self._inputs, self._mask, self._batch_first = inputs, mask, batch_first
        self.never: list[str] = []
        if isinstance(output, Tensor) and output.requires_grad:
            torch.autograd.backward(output.square().sum())
            unused = [name for name, each in module.named_parameters() if each.requires_grad and each.grad is None]
            self.never = sorted({name.rpartition(".")[0] or name for name in unused})
        self.returned: Any = output.detach() if isinstance(output, Tensor) else output
        if isinstance(output, Tensor) and not batch_first and output.dim() == 3:
            self.returned = self.returned.transpose(0, 1)
        self.trial: PartCall
        self._variants: dict[int, Variants] = {}
        self._roles: list[tuple[Tensor, Tensor, Tensor, tuple[str, ...]]] | None = None

    def _width(self, tensor: Tensor) -> Tensor:
        """Returns a recorded tensor as (B, L, width)."""
        tensor = tensor.detach()
        if tensor.dim() == 4 and tensor.shape[1] == H and tensor.shape[3] == K:  # (B, H, L, K)
            tensor = tensor.transpose(1, 2)
        if tensor.dim() == 4 and tensor.shape[1] == 1:
            tensor = tensor[:, 0]
        if tensor.dim() == 4:
            tensor = tensor.flatten(2)
        if not self._batch_first and tensor.dim() == 3 and tensor.shape[1] == B:
            tensor = tensor.transpose(0, 1)
        if tensor.dim() == 2 and tensor.shape[0] % B == 0:
            tensor = tensor.view(B, -1, tensor.shape[1])
        return tensor

    def _reads(self, used: LinearMap, *sources: Tensor) -> bool:
        given = self._width(used.input)
        return any(is_same(given, source) for source in sources)

    def _assign_roles(self) -> Iterator[tuple[Tensor, Tensor, Tensor, tuple[str, ...]]]:
        """Yields possible projected queries, keys and values, with the mistakes that an assignment means."""
        xq, xk, xv = self._inputs
        pools = {"q": list(self._list_pieces(xq)), "k": list(self._list_pieces(xk)), "v": list(self._list_pieces(xv))}
        raw = {"q": xq, "k": xk, "v": xv}
        sources: list[tuple[str, tuple[str, ...]]] = [("qkv", ())]
        if xk is not xq and not pools["k"] and not pools["v"] and pools["q"]:
            sources = [("qqq", ("cross-attends-to-itself",))]
        elif xk is not xv and not self.never:
            sources += [("qvk", ("keys-values-swapped",)), ("kqv", ("queries-keys-swapped",))]
        owners = {each.owner for pool in pools.values() for each in pool}
        for roles, flags in sources:
            for trio in itertools.product(*(pools[role] or [_Piece((), raw[role])] for role in roles)):
                alike = len({each.owner for each in trio})
                if (alike < 3 and len(owners) >= 3) or len({each.packed for each in trio if each.packed}) > 1:
                    continue  # there are maps for all roles; or two ways to cut one packed map
                found = list(flags)
                if () in {each.owner for each in trio}:
                    found.append("no-projection" if alike == 1 else "projection-missing")
                elif alike < 3:
                    found.append("one-projection" if alike == 1 else "two-share-a-projection")
                if any(each.is_shared for each in trio):
                    found.append("heads-share-projection")
                yield trio[0].output, trio[1].output, trio[2].output, tuple(found)

    def _list_pieces(self, source: Tensor) -> Iterator["_Piece"]:
        """Yields each (B, L, D) that the maps of `source` may mean; a packed map is cut in two ways."""
        small: list[LinearMap] = []
        seen: set[int] = set()
        for used in self.maps:
            output = self._width(used.output)
            if output.dim() != 3 or not self._reads(used, source):
                continue
            width = output.size(-1)
            if width == K and K < D and used.input.size(-1) != K:
                small.append(used)
            elif used.owner not in seen and width % D == 0:
                seen.add(used.owner)
                count = width // D
                if count == 1:
                    yield _Piece((used.owner,), output, is_shared=used.input.size(-1) == K)
                    continue
                by_head = output.view(*output.shape[:-1], H, count, K)
                for number, piece in enumerate(output.chunk(count, dim=-1)):
                    yield _Piece((used.owner, number), piece, packed="in rows")
                    yield _Piece((used.owner, number), by_head[..., number, :].flatten(2), packed="in heads")
        # One small map for each head and role: role by role, or head by head.
        count = len(small) // H
        if small and len(small) % H == 0:
            for number in range(count):
                for packed, mine in (
                    ("in heads", small[number::count]),
                    ("in rows", small[number * H : (number + 1) * H]),
                ):
                    joined = torch.cat([self._width(each.output) for each in mine], dim=-1)
                    yield _Piece((mine[0].owner, number), joined, packed=packed if count > 1 else "")

    def name(self, count: int) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Returns the mistakes of this pass and their details, `count` of them between the linear maps; or None."""
        if self.returned is None:
            return ("returns-nothing",), ()
        if self._roles is None:
            self._roles = list(self._assign_roles())
        after = [each for each in self.maps if not any(self._reads(each, source) for source in self._inputs)]
        last = next((each for each in reversed(after) if self._width(each.input).size(-1) == D), None)
        best: list[str] | None = None
        for number, (q, k, v, flags) in enumerate(self._roles):
            if count == 2 and ("keys-values-swapped" in flags or "queries-keys-swapped" in flags):
                continue  # three mistakes, of which two are in the step between: too many to be sure, and slow
            if number not in self._variants:
                self._variants[number] = Variants(AXES, partial(self._vary, q, k, v))
            variants = self._variants[number]
            joined = self.returned if last is None else self._width(last.input)
            choices = variants.find(joined, exactly=count)
            if choices is None:
                continue
            found = [*flags, *variants.name(choices)]
            if last is None:
                found.append("no-output-projection")
            else:
                if last.owner in {each.owner for each in self.maps if each is not last}:
                    found.append("output-reuses-projection")
                if not is_same(self.returned, self._width(last.output)):
                    if not is_same(self._width(self.returned), joined):
                        continue
                    found.append("output-discarded")
            if best is None or len(found) < len(best):
                best = found
        if best is None:
            return None
        if not self._has_mask:
            best.append("mask-missing")
        if self.never:
            return ("unused-part", *best), (", ".join(self.never),)
        return tuple(best), ()

    @property
    def _has_mask(self) -> bool:
        """Returns True if the mask of this pass hides something, whether it was passed or is in the module."""
        return not bool(self._mask.all())

    def _vary(self, q: Tensor, k: Tensor, v: Tensor, choices: Choices) -> Tensor | None:
        return compute_heads(q, k, v, self._mask, choices)


@dataclass(frozen=True)
class _Piece:
    """The output of a linear map, or a part of it: (B, L, D); the owner is empty for an input without a map."""

    owner: tuple[int, ...]
    output: Tensor
    is_shared: bool = False
    packed: str = ""


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value
