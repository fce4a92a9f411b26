"""Judges a layer of the encoder or decoder by its flow: which part reads what.

The layer runs once, while its attentions, feed-forwards and norms record their inputs and outputs. Each input is then
explained as a sum of tensors that are known: the layer's inputs, and outputs of parts before. The explanation, an
expression, is compared with those of the reference and its variants.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from pellucid.judge import heads
from pellucid.judge.attention import B, H
from pellucid.judge.attention import L as T
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
from pellucid.judge.conventions import MEANINGS, Conventions, encode_mask
from pellucid.judge.failures import Failures
from pellucid.judge.findings import Finding
from pellucid.judge.properties import Inputs, PartCall, find_violations, judge_properties
from pellucid.judge.variants import Axes, Choices, is_same, list_variants

D = heads.D
Kind = Literal["attention", "feed-forward", "norm", "linear"]
"""The kinds of parts; two linear maps of the layer itself are a feed-forward."""
Expression = Any
"""A name, ("sum", expressions...), or (kind, number of the part, expressions...)."""

ENCODER_AXES: Axes = {
    "residual": {"attention": "residual-missing-attention", "feed-forward": "residual-missing-feed-forward",
                 "all": "residual-missing", "normed": "residual-of-normed",
                 "normed attention": "residual-of-normed", "normed feed-forward": "residual-of-normed"},
    "norm": {"first": "norm-missing-attention", "last": "norm-missing-feed-forward", "all": "norm-missing",
             "shared": "norm-shared", "inside": "norm-before-sum"},
    "order": {"swapped": "feed-forward-first", "no feed-forward": "feed-forward-missing",
              "parallel": "feed-forward-parallel"},
    "mask": {"dropped": "layer-mask-dropped"},
}  # fmt: skip
DECODER_AXES: Axes = {
    "residual": {"attention": "residual-missing-attention", "cross": "residual-missing-cross",
                 "feed-forward": "residual-missing-feed-forward", "all": "residual-missing",
                 "normed": "residual-of-normed", "normed attention": "residual-of-normed",
                 "normed cross": "residual-of-normed", "normed feed-forward": "residual-of-normed"},
    "norm": {"first": "norm-missing-attention", "cross": "norm-missing-cross", "last": "norm-missing-feed-forward",
             "all": "norm-missing", "shared": "norm-shared", "inside": "norm-before-sum"},
    "order": {"no feed-forward": "feed-forward-missing", "cross first": "cross-first", "no cross": "cross-missing"},
    "cross": {"self": "cross-is-self-attention", "itself": "cross-attends-to-itself",
              "reversed": "cross-queries-from-memory"},
    "masks": {"swapped": "masks-swapped", "self": "cross-mask-causal", "memory": "self-mask-of-memory",
              "no self": "self-mask-dropped", "no memory": "memory-mask-dropped"},
}  # fmt: skip

NAMES: Names = {
    "x": ("x", "src", "hiddenstate", "hiddenstates", "input", "inputs", "query", "q", "tgt", "trg", "tar", "target",
          "y", "decinput",
          "encinput", "emb", "dec", "decx", "out", "encx"),
    "value": ("value", "values", "v", "valueinput"),
    "key": ("key", "keys", "k"),
    "memory": ("memory", "encout", "encoderoutput", "encoutput", "encsrc", "m", "enc", "encoderout", "context",
               "encoderoutputs",
               "encx", "encoder", "srcenc", "encoderhiddenstates", "encoded"),
    "src_mask": ("srcmask", "memorymask", "encmask", "paddingmask", "crossmask", "srcpadmask", "encdecmask", "padmask",
                 "crossattnmask", "srckeypaddingmask", "memorypaddingmask", "encodermask", "encpadmask",
                 "sourcemask", "smask"),
    "tgt_mask": ("tgtmask", "trgmask", "tarmask", "lookaheadmask", "causalitymask", "causalmask", "selfmask", "decmask",
                 "selfattnmask", "targetmask", "slfattnmask", "tmask", "decselfmask"),
    "mask": ("mask", "attnmask", "attentionmask"),
}  # fmt: skip
PARTS: Names = {
    "attention": (
        "selfattn",
        "attn",
        "attention",
        "mha",
        "selfattention",
        "multiheadattention",
        "selfmha",
        "multiheadedattention",
        "selfattentionblock",
        "attentionblock",
    ),
    "cross": (
        "srcattn",
        "crossattn",
        "crossattention",
        "encattn",
        "encdecattn",
        "encoderattention",
        "memoryattn",
        "crossattentionblock",
    ),
    "feed_forward": ("feedforward", "ff", "ffn", "positionwisefeedforward", "mlp", "pff", "fc", "feedforwardblock"),
}


class Attention(nn.Module):
    """The attention that a layer gets if its class takes one: a map of each input, and a mean of the values."""

    def __init__(self) -> None:
        super().__init__()
        self.proj: nn.Linear = nn.Linear(D, D)

    def forward(
        self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None, mask: Any = None
    ) -> Tensor:
        """Returns (B, L, D)."""
        key, value = query if key is None else key, query if value is None else value
        mixed: Tensor = self.proj(query * 0.3 + value.mean(1, keepdim=True))
        return mixed + key.square().mean(1, keepdim=True)


class Feed(nn.Sequential):
    """The feed-forward that a layer gets if its class takes one."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D))


@dataclass
class _Use:
    """One call of a part: the part, its arguments by role, and its output."""

    kind: Kind
    module: nn.Module
    inputs: Mapping[str, Any]
    output: Any = None


@dataclass
class _Flow:
    """The uses of parts in the order of their calls, and the explanation of the tensors between them."""

    known: list[tuple[Tensor, Expression]]
    masks: Mapping[str, Tensor]
    numbers: dict[tuple[Kind, int], int] = field(default_factory=dict)
    has_linear_pair: bool = False

    def explain(self, tensor: Tensor) -> Expression:
        """Returns the expression of a tensor: a known one, or a sum of two or three; None if it is neither.

        A sum that was explained is known from then on.
        """
        for count in (1, 2, 3):
            for chosen in itertools.combinations_with_replacement(self.known, count):
                if sum(part.shape == tensor.shape for part, _ in chosen) < count:
                    continue
                total = torch.stack([part for part, _ in chosen]).sum(0) if count > 1 else chosen[0][0]
                if is_same(tensor, total):
                    expression = add(*(expression for _, expression in chosen))
                    if count > 1:
                        self.known.append((tensor, expression))
                    return expression
        return None

    def name_mask(self, mask: Any) -> str:
        """Returns "src" or "tgt", the mask that a part got; "none" if it got none."""
        if not isinstance(mask, Tensor):
            return "none"
        for name, given in self.masks.items():
            if mask.numel() == given.numel() and bool((mask.flatten() == given.flatten()).all()):
                return name
        return "other"

    def number(self, kind: Kind, module: nn.Module) -> int:
        """Returns the number of a part among its kind, in the order of first use."""
        same = [key for key in self.numbers if key[0] == kind]
        return self.numbers.setdefault((kind, id(module)), len(same))


def add(*terms: Expression) -> Expression:
    """Returns the sum of terms, of which sums are taken apart; one term is itself."""
    flat = [each for term in terms for each in (term[1:] if isinstance(term, tuple) and term[0] == "sum" else [term])]
    return flat[0] if len(flat) == 1 else ("sum", *flat)


def write_encoder(placement: str, choices: Choices) -> Expression | None:
    """Returns the expression of an encoder's layer, "post" or "pre" norm; None if the choices do not go together."""
    order = choices.get("order", "")
    mask = "none" if choices.get("mask") else "src"
    norms, residual = choices.get("norm", ""), choices.get("residual", "")
    names = ["attention", "feed-forward"]
    parts: dict[str, Callable[[Expression], Expression]] = {
        "attention": lambda y: ("attention", 0, y, y, y, mask),
        "feed-forward": lambda y: ("feed-forward", 0, y),
    }
    if order == "swapped":
        names.reverse()
    if order == "no feed-forward":
        names = names[:1]
    if order == "parallel":
        if norms or residual:
            return None
        both = add("x", parts["attention"]("x"), parts["feed-forward"]("x"))
        y = ("norm", 0, "x")
        return ("norm", 0, both) if placement == "post" else add("x", parts["attention"](y), parts["feed-forward"](y))
    return _stack(names, parts, placement, norms, residual)


def write_decoder(placement: str, choices: Choices) -> Expression | None:
    """Returns the expression of a decoder's layer; None if the choices do not go together."""
    order, cross, masks = choices.get("order", ""), choices.get("cross", ""), choices.get("masks", "")
    own = {"swapped": "src", "memory": "src", "no self": "none"}.get(masks, "tgt")
    across = {"swapped": "tgt", "self": "tgt", "no memory": "none"}.get(masks, "src")
    names = {"no feed-forward": ["attention", "cross"], "cross first": ["cross", "attention", "feed-forward"],
             "no cross": ["attention", "feed-forward"]}.get(order, ["attention", "cross", "feed-forward"])  # fmt: skip
    if order == "no cross" and (cross or masks in ("swapped", "self", "no memory") or "cross" in choices.values()):
        return None
    number = 0 if cross == "self" else 1
    second, first = (0, number) if order == "cross first" and cross != "self" else (number, 0)

    def attend_memory(y: Expression) -> Expression:
        if cross == "itself":
            return ("attention", second, y, y, y, across)
        if cross == "reversed":
            return ("attention", second, "memory", y, y, across)
        return ("attention", second, y, "memory", "memory", across)

    parts: dict[str, Callable[[Expression], Expression]] = {
        "attention": lambda y: ("attention", first, y, y, y, own),
        "cross": attend_memory,
        "feed-forward": lambda y: ("feed-forward", 0, y),
    }
    return _stack(names, parts, placement, choices.get("norm", ""), choices.get("residual", ""))


def _stack(
    names: list[str], parts: Mapping[str, Callable[[Expression], Expression]], placement: str, norms: str, residual: str
) -> Expression | None:
    """Returns the expression of the parts one after the other, each with its norm and its residual sum."""
    count = itertools.count()
    missing = {"first": "attention", "cross": "cross", "last": "feed-forward"}.get(norms, norms)
    if (missing not in ("", "all", "shared", "inside") and missing not in names) or (
        norms in ("all", "inside") and residual.startswith("normed")
    ):
        return None
    if residual not in ("", "all", "normed") and residual.removeprefix("normed ") not in names:
        return None

    def norm(y: Expression, name: str) -> Expression:
        if missing in (name, "all"):
            return y
        return ("norm", 0 if norms == "shared" else next(count), y)

    x: Expression = "x"
    for name in names:
        keeps = residual not in (name, "all")
        if norms == "inside":
            y = norm(parts[name](x), name)
            x = add(x, y) if keeps else y
        elif placement == "post":
            y = parts[name](x)
            if residual.startswith("normed"):
                return None
            x = norm(add(x, y) if keeps else y, name)
        else:
            y = norm(x, name)
            z = parts[name](y)
            x = (add(y, z) if residual in ("normed", f"normed {name}") else add(x, z)) if keeps else z
    return x


def judge_encoder_layer(given: Any, conventions: Conventions) -> Finding:
    """Judges a class or an instance of the encoder's layer.

    Raises CallError if no way of calling it works, and Undecided for a parameter that the judge does not know.
    """
    return _judge("EncoderLayer", given, write_encoder, ENCODER_AXES)


def judge_decoder_layer(given: Any, conventions: Conventions) -> Finding:
    """Judges a class or an instance of the decoder's layer.

    Raises CallError if no way of calling it works, and Undecided for a parameter that the judge does not know.
    """
    return _judge("DecoderLayer", given, write_decoder, DECODER_AXES)


def _judge(name: str, given: Any, write: Callable[[str, Choices], Expression | None], axes: Axes) -> Finding:
    layer = _build(given)
    failures = Failures(name)
    is_decoder = name == "DecoderLayer"
    trials: list[PartCall] = []
    for values in _list_values(layer, is_decoder):
        flow, output, error = _run(layer, values)
        if error is not None:
            failures.fail(error)
            continue
        if output is None:
            return Finding(name, False, ("returns-nothing",))
        found = _name(layer, flow, output, write, axes)
        if found is not None:
            names, details = found
            if "layer-mask-dropped" in names and _hides_the_future(layer, values):
                names = tuple(each for each in names if each != "layer-mask-dropped")
            return Finding(name, not names, names, details)
        failures.miss(output, values["x"])
        trials.append(_make_trial(layer, values, is_decoder))
    return judge_properties(failures.make_finding(), trials)


def _hides_the_future(layer: nn.Module, values: Mapping[str, Any]) -> bool:
    """Returns True for a layer of a language model: it takes no mask, and later positions have no effect."""
    roles = {find_role(each.name, NAMES) for each in list_parameters(layer) or []}
    if roles & {"mask", "src_mask", "tgt_mask"}:
        return False
    found = find_violations(_make_trial(layer, values, is_decoder=False))
    return found is not None and all(id != "property-hidden" for id, _ in found)


def _make_trial(layer: nn.Module, values: Mapping[str, Any], is_decoder: bool) -> PartCall:
    """Returns the call of a layer with these values, for other `x` and `memory`."""

    def repeat(inputs: Inputs) -> Any:
        same = {role: inputs.get("memory" if each is values["memory"] else "x", each) for role, each in values.items()
                if role in ("x", "memory", "value", "key")}  # fmt: skip
        args, kwargs = bind(layer, {**values, **same}, NAMES, ("x", "memory", "src_mask", "tgt_mask"))
        with torch.no_grad():
            return to_tensor(run(layer, *args, **kwargs))

    inputs = {name: values[name] for name in (("x", "memory") if is_decoder else ("x",))}
    keys = (("x",), ("memory",)) if is_decoder else (("x",),)
    return PartCall(repeat, inputs, values["x"].shape, keys, (("x",),))


def _build(given: Any) -> nn.Module:
    if isinstance(given, nn.Module):
        return prepare(given)
    sizes: dict[str, Any] = {"d_model": D, "num_heads": H, "head_dim": D // H, "d_ff": 2 * D, "max_length": 16}
    sizes |= {"attention": Attention(), "cross": Attention(), "feed_forward": Feed()}
    made = construct(given, sizes, ("d_model", "num_heads", "d_ff"), PARTS)
    if not isinstance(made, nn.Module):
        raise Undecided(type(made).__name__)
    return made


def _list_values(layer: nn.Module, is_decoder: bool) -> Iterator[dict[str, Any]]:
    """Yields inputs of the layer by role, with masks of the usual shapes and meanings."""
    generator = torch.Generator().manual_seed(9)
    x, memory = (torch.randn(B, T, D, generator=generator, dtype=torch.float64) for _ in range(2))
    roles = {find_role(each.name, NAMES) for each in list_parameters(layer) or []}
    if is_decoder and "memory" not in roles:  # (x, value, key, ...): keys and values are the memory
        values = {"x": x, "memory": memory, "value": memory, "key": memory}
    else:
        values = {"x": x, "value": x, "key": x, "memory": memory}
    tgt = torch.ones(B, 1, T, T, dtype=torch.bool).tril()
    src = torch.ones(B, 1, T, T, dtype=torch.bool)
    src[0, ..., -2:], src[1, ..., -1:] = False, False
    src[:, :, 0, 1] = False  # unlike any mask of the future
    for one, other in ((tgt, src), (tgt[:, 0], src[:, 0]), (tgt[0, 0], src[0, 0])):  # (B, 1, T, T), (B, T, T), (T, T)
        for meaning in MEANINGS:
            for own, across in zip(encode_mask(one, meaning), encode_mask(other, meaning), strict=True):
                yield {**values, "tgt_mask": own, "src_mask": across, "mask": across if not is_decoder else own}


def _run(layer: nn.Module, values: Mapping[str, Any]) -> tuple[_Flow, Any, CallError | None]:
    """Returns the flow of one pass, its output, and the error that ended it."""
    flow = _Flow(
        [(values["x"], "x"), (values["memory"], "memory")], {"src": values["src_mask"], "tgt": values["tgt_mask"]}
    )
    uses: list[_Use] = []
    parts = list(_list_parts(layer))
    flow_hooks = [part.register_forward_hook(partial(_record, uses, kind), with_kwargs=True) for kind, part in parts]
    args, kwargs = bind(layer, values, NAMES, ("x", "memory", "src_mask", "tgt_mask"))
    output, error = None, None
    try:
        with torch.no_grad():
            output = to_tensor(run(layer, *args, **kwargs))
    except CallError as raised:
        error = raised
    finally:
        for hook in flow_hooks:
            hook.remove()
    inner: _Use | None = None
    for use in uses:
        result = to_tensor(use.output)
        if use.kind == "linear":
            wide = inner is not None and use.inputs["x"].size(-1) == to_tensor(inner.output).size(-1) != D
            if not wide:
                inner = use
                continue
            assert inner is not None
            flow.number("linear", inner.module), flow.number("linear", use.module)
            flow.has_linear_pair = flow.has_linear_pair or is_same(use.inputs["x"], inner.output)
            number = flow.number("feed-forward", inner.module)
            expression: Expression = ("feed-forward", number, flow.explain(inner.inputs["x"]))
            inner = None
        elif use.kind == "attention":
            q, k, v = (flow.explain(use.inputs[role]) for role in ("q", "k", "v"))
            expression = ("attention", flow.number(use.kind, use.module), q, k, v, flow.name_mask(use.inputs["mask"]))
        else:
            expression = (use.kind, flow.number(use.kind, use.module), flow.explain(use.inputs["x"]))
        if isinstance(result, Tensor):
            flow.known.append((result, expression))
    return flow, output, error


def _record(uses: list[_Use], kind: Kind, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
    given: dict[str, Any] = {}
    names = [find_role(each.name, heads.NAMES) for each in list_parameters(module) or []]
    by_name = {find_role(name, heads.NAMES): value for name, value in kwargs.items()}
    for role, value in [*zip(names, args, strict=False), *by_name.items()]:
        if role is not None:
            given.setdefault(role, value)
    if kind == "attention":
        tensors = [
            each
            for each in args
            if isinstance(each, Tensor) and each.dim() == 3 and each.is_floating_point() and each.size(-1) == D
        ]
        first = given.get("q", given.get("x", tensors[0] if tensors else None))
        second = given.get("k", given.get("memory"))
        second = (
            second if isinstance(second, Tensor) else tensors[1] if len(tensors) > 1 and "q" not in given else first
        )
        third = given.get("v")
        third = third if isinstance(third, Tensor) else tensors[2] if len(tensors) > 2 and "q" not in given else second
        given = {"q": first, "k": second, "v": third, "mask": given.get("mask")}
    else:
        given = {"x": next((each for each in (*args, *kwargs.values()) if isinstance(each, Tensor)), None)}
    uses.append(_Use(kind, module, given, output))


def _list_parts(module: nn.Module, name: str = "") -> Iterator[tuple[Kind, nn.Module]]:
    """Yields attentions, feed-forwards and norms of a layer, wherever they are nested."""
    kind = type(module).__name__.lower()
    has_norm = any("norm" in type(each).__name__.lower() for each in module.modules())
    children = list(module.named_children())
    if isinstance(module, nn.ModuleList | nn.ModuleDict):
        for number, child in children:
            yield from _list_parts(child, f"{name}.{number}")
    elif "norm" in kind and not children:
        yield "norm", module
    elif not has_norm and any(word in each for word in ("att", "mha") for each in (kind, name.lower())):
        yield "attention", module
    elif not has_norm and sum(isinstance(each, nn.Linear) for each in module.modules()) >= 2 and name:
        yield "feed-forward", module
    elif isinstance(module, nn.Linear) and name:
        yield "linear", module
    else:
        for child_name, child in children:
            yield from _list_parts(child, child_name or "part")


def _name(
    layer: nn.Module, flow: _Flow, output: Any, write: Callable[[str, Choices], Expression | None], axes: Axes
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    if not isinstance(output, Tensor):
        return None
    seen = flow.explain(output)
    if not isinstance(seen, tuple):
        return None
    choices = _list_flows(write).get(format_flow(seen))
    if choices is None:
        return None
    extra, details = _look_at_parts(layer, flow)
    return (*extra, *(axes[axis][value] for axis, value in choices)), details


@cache
def _list_flows(write: Callable[[str, Choices], Expression | None]) -> dict[str, tuple[tuple[str, str], ...]]:
    """Returns the choices with the fewest mistakes for each flow that the reference can write."""
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    for choices in list_variants(ENCODER_AXES if write is write_encoder else DECODER_AXES):
        for placement in ("post", "pre"):
            flow = write(placement, choices)
            if flow is not None:
                found.setdefault(format_flow(flow), tuple(choices.items()))
    return found


def format_flow(expression: Expression) -> str:
    """Returns an expression as text, with the terms of each sum in one order."""
    if not isinstance(expression, tuple):
        return str(expression)
    words = [format_flow(each) for each in expression]
    words = ["sum", *sorted(words[1:])] if words[0] == "sum" else words
    return f"({', '.join(words)})"


def _look_at_parts(layer: nn.Module, flow: _Flow) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns mistakes of the parts themselves: parts that are never used, and a feed-forward that is linear."""
    found: list[str] = []
    details: list[str] = []
    parts = list(_list_parts(layer))
    used = {id for _, id in flow.numbers}
    never = [
        name for name, module in layer.named_modules() for _, part in parts if part is module and id(part) not in used
    ]
    if never:
        found.append("unused-part")
        details.append(", ".join(sorted(set(never))))
    if flow.has_linear_pair or any(
        kind == "feed-forward" and id(part) in used and _is_linear(part) for kind, part in parts
    ):
        found.append("feed-forward-linear")
    return tuple(found), tuple(details)


def _is_linear(part: nn.Module) -> bool:
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.randn(1, 1, D, generator=generator, dtype=torch.float64) * 3 for _ in range(2))
    try:
        with torch.no_grad():
            values = [to_tensor(run(part, each)) for each in (a + b, torch.zeros_like(a), a, b)]
    except CallError:
        return False
    return all(isinstance(each, Tensor) for each in values) and is_same(values[0] + values[1], values[2] + values[3])
