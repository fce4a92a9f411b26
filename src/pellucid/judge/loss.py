"""Judges the loss: cross-entropy over words, with label smoothing, without padding; from logits or from a model."""

import itertools
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.judge.calling import CallError, Names, bind, call, find_role, list_parameters, normalize_name, to_tensor
from pellucid.judge.conventions import Conventions
from pellucid.judge.failures import Failures
from pellucid.judge.findings import Finding
from pellucid.judge.properties import Violation, choose_way, describe
from pellucid.judge.variants import Axes, Choices, Variants, is_same

B, T, V, PAD, SMOOTHING = 3, 6, 5, 0, 0.1

AXES: Axes = {
    "pads": {"counted": "loss-counts-pads", "divided": "loss-divides-by-all"},
    "mean": {"means": "loss-mean-of-means"},
    "softmax": {"twice": "loss-softmax-twice", "positions": "loss-softmax-over-positions", "none": "loss-no-softmax",
                "no log": "loss-no-log"},
    "sign": {"plus": "loss-sign"},
    "smoothing": {"ignored": "smoothing-ignored", "swapped": "smoothing-swapped", "lost": "smoothing-mass-lost",
                  "added": "smoothing-mass-added"},
    "shift": {"none": "loss-not-shifted", "reversed": "loss-shift-reversed"},
}  # fmt: skip
REDUCTIONS = ("mean", "sum", "batch", "none")
SPREADS = ("all", "others", "no pad")
"""The words that share the smoothing: all V, all but the target, all but the target and the padding; each is in use."""

NAMES: Names = {
    "logits": ("logits", "output", "outputs", "pred", "preds", "prediction", "predictions", "x", "input", "inputs",
               "ypred",
               "out", "scores", "logprobs", "logp", "logprob", "yhat", "ypredicted", "logit"),
    "targets": ("targets", "target", "tgt", "y", "labels", "label", "tgtout", "trg", "gold", "ytrue", "truth",
                "tgty", "ids"),
    "pad_id": ("padid", "pad", "padidx", "paddingidx", "ignoreindex", "padtoken", "padtokenid", "padindex",
               "trgpadidx"),
    "smoothing": ("smoothing", "eps", "epsilon", "labelsmoothing", "alpha", "ls", "e"),
    "vocabulary": ("v", "vocab", "vocabsize", "size", "numclasses", "classes", "nclass", "nclasses", "ntokens",
                   "trgvocabsize"),
    "model": ("model", "net", "transformer"),
    "src": ("src", "source", "srcids"),
    "tgt": ("tgt", "trg", "target", "tgtids", "tar"),
}  # fmt: skip


class EchoModel(nn.Module):
    """A model whose logits are a table's row of each target token: (B, S), (B, T) -> (B, T, V)."""

    def __init__(self) -> None:
        super().__init__()
        self.table: Tensor
        self.register_buffer(
            "table", torch.randn(V, V, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
        )

    def forward(self, src: Tensor, tgt: Tensor, *masks: Any, **others: Any) -> Tensor:
        """Returns the table's rows of `tgt`; the source has no effect."""
        return self.table[tgt]


def compute_loss(
    logits: Tensor, targets: Tensor, smoothing: float, reduction: str, spread: str, divergence: bool, choices: Choices
) -> Tensor | None:
    """Returns the loss of logits (B, T, V) and targets (B, T), with wrong choices; None if they do not go together."""
    softmax, kind = choices.get("softmax", ""), choices.get("smoothing", "")
    if (kind and not smoothing) or (divergence and (softmax or not smoothing)) or (spread != "all" and not smoothing):
        return None
    if ("mean" in choices and reduction != "mean") or (
        logits.dim() == 2 and ("mean" in choices or reduction == "batch")
    ):
        return None
    pads = choices.get("pads", "")
    if (pads == "divided" and (reduction != "mean" or "mean" in choices)) or (
        reduction == "none" and pads == "divided"
    ):
        return None
    log_probabilities = {
        "twice": lambda: logits.softmax(-1).log_softmax(-1), "positions": lambda: logits.log_softmax(-2),
        "none": lambda: logits, "no log": lambda: logits.softmax(-1),
    }.get(softmax, lambda: logits.log_softmax(-1))()  # fmt: skip
    smoothing = 0.0 if kind == "ignored" else smoothing
    count = {"all": V, "others": V - 1, "no pad": V - 2}[spread]
    rest = (
        (1 - smoothing) / (V - 1)
        if kind == "swapped"
        else smoothing / V
        if kind in ("lost", "added")
        else smoothing / count
    )
    wanted = torch.full_like(logits, rest)
    peak = {"swapped": smoothing, "lost": 1 - smoothing, "added": 1.0}.get(
        kind, 1 - smoothing + (rest if spread == "all" else 0.0)
    )
    wanted.scatter_(-1, targets[..., None], peak)
    if spread == "no pad":
        if kind in ("lost", "added", "swapped"):
            return None
        wanted[..., PAD] = 0.0
    elif spread == "others" and kind in ("lost", "added", "swapped"):
        return None
    each = -(wanted * log_probabilities).sum(-1)
    if divergence:
        each = each + torch.special.xlogy(wanted, wanted).sum(-1)
    words = targets != PAD
    if choices.get("sign") == "plus":
        each = -each
    if pads != "counted":
        each = each * words
    counted = torch.ones_like(words) if pads in ("counted", "divided") else words
    if reduction == "none":
        return each
    if reduction == "sum":
        return each.sum()
    if reduction == "batch":
        return each.sum() / len(each)
    if choices.get("mean") == "means":
        return (each.sum(-1) / counted.sum(-1)).mean()
    return each.sum() / counted.sum()


def judge_loss(given: Any, conventions: Conventions) -> Finding:
    """Judges a function `loss(logits, targets)` or `loss(model, src, tgt)`, or a class that is called so.

    Raises CallError if no way of calling it works, and Undecided for a parameter that the judge does not know.
    """
    settings: dict[str, Any] = {"pad_id": PAD, "smoothing": SMOOTHING, "vocabulary": V}
    smooths = False
    part = given
    if isinstance(given, type):
        smooths = _takes(given, "smoothing")
        args, kwargs = bind(given, settings, NAMES, ("vocabulary", "pad_id", "smoothing"))
        part = call(given, args, kwargs)
        part = part.double() if isinstance(part, nn.Module) else part
    smoothing = SMOOTHING if smooths or _takes(part, "smoothing") else 0.0
    logits, targets = make_inputs()
    failures = Failures("loss")
    outputs: list[tuple[Any, str]] = []
    order: tuple[str, ...] = ("logits", "targets", "pad_id", "smoothing")
    cases: list[tuple[str, dict[str, Any]]]
    if _takes(part, "model"):
        order = ("model", "src", "tgt")
        cases = [("model", {"model": EchoModel(), "src": targets, "tgt": targets})]
    else:
        forms = [logits] if "logit" in _first_name(part) else [logits, logits.log_softmax(-1)]
        cases = [("whole", {"logits": form, "targets": targets}) for form in forms]
        cases += [("flat", {"logits": form.flatten(0, 1), "targets": targets.flatten()}) for form in forms]
    for kind, values in cases:
        args, kwargs = bind(part, settings | values, NAMES, order)
        try:
            output = to_tensor(call(part, args, kwargs))
        except CallError as error:
            failures.fail(error)
            continue
        failures.miss(output, torch.zeros(()))
        outputs.append((output.double() if isinstance(output, Tensor) else output, kind))
    if outputs and all(output is None for output, _ in outputs):
        return Finding("loss", False, ("returns-nothing",))
    # Flat tensors hide sentences and positions, so they are for code that does not take (B, T, V).
    for kinds in (("model", "whole"), ("flat",)):
        known = [(output, _make_variants(kind, smoothing)) for output, kind in outputs if kind in kinds]
        for count in range(3):
            for output, variants, shift in ((output, *each) for output, others in known for each in others):
                choices = variants.find(output, exactly=count - len(shift), same=_is_same_loss)
                if choices is not None:
                    found = (*(AXES["shift"][each] for each in shift.values()), *variants.name(choices))
                    return Finding("loss", not found, found)
    takes_pad = _takes(given, "pad_id") or _takes(part, "pad_id")
    takes_logits = "logit" in _first_name(part)
    worked = {kind for _, kind in outputs}
    best = "whole" if "whole" in worked else "flat"
    ways = [
        partial(_find_violations, partial(_compute, part, settings, order, best, takes_log), takes_pad, takes_logits)
        for takes_log in ((False,) if takes_logits else (False, True))
    ]
    return choose_way(failures.make_finding(), ways if best in worked else ())


def _compute(
    part: Any, settings: dict[str, Any], order: tuple[str, ...], kind: str, takes_log: bool, logits: Tensor,
    targets: Tensor,
) -> Any:  # fmt: skip
    """Returns the learner's loss of logits (B, T, V) and targets (B, T), in the form that its code takes."""
    logits = logits.log_softmax(-1) if takes_log else logits
    if kind == "flat":
        logits, targets = logits.flatten(0, 1), targets.flatten()
    args, kwargs = bind(part, settings | {"logits": logits, "targets": targets}, NAMES, order)
    output = to_tensor(call(part, args, kwargs))
    return output.double() if isinstance(output, Tensor) else output


def _find_violations(
    compute: Callable[[Tensor, Tensor], Any], takes_pad: bool, takes_logits: bool
) -> list[Violation] | None:
    """Returns the properties that a loss lacks, each with the first place or the loss that differs.

    A loss may shift the targets itself: then a position's logits belong to the next target, and the last have none.
    """
    logits, targets = make_inputs()
    whole = compute(logits, targets)
    if not isinstance(whole, Tensor) or not bool(whole.isfinite().all()):
        return None
    again = compute(logits, targets)
    if not is_same(again, whole):
        return [("property-repeatable", describe(again, whole))]
    found: list[Violation] = []

    def expect_equal(id: str, logits: Tensor, targets: Tensor) -> None:
        output = compute(logits, targets)
        if not is_same(output, whole):
            found.append((id, describe(output, whole)))

    if takes_pad:
        hidden = targets == PAD
        expect_equal("property-loss-pads", logits + _make_noise() * hidden[..., None], targets)
    for place in range(1, T - 1):  # of the first sentence, which has no padding
        changed = logits.clone()
        changed[0, place] += _make_noise()[0, place]
        if is_same(compute(changed, targets), whole):
            found.append(("property-loss-words", f"[0, {place}]"))
            break
    if takes_logits:
        expect_equal("property-loss-softmax", logits + _make_noise()[..., :1], targets)
    if whole.dim() == 0:
        expect_equal("property-loss-order", logits.flip(0), targets.flip(0))
    same = torch.where(targets == PAD, PAD, targets[:, :1])  # one word in each sentence: a shift changes nothing
    likely = 2.0 * nn.functional.one_hot(same[:, :1].expand_as(same), V).double()
    uniform, certain = compute(torch.zeros_like(logits), same), compute(likely, same)
    if isinstance(uniform, Tensor) and isinstance(certain, Tensor) and bool(certain.sum() >= uniform.sum()):
        found.append(("property-loss-sign", f"{certain.sum().item():.4g} >= {uniform.sum().item():.4g}"))
    return found


@cache
def _make_noise() -> Tensor:
    """Returns changes of logits (B, T, V), which are no constant of a position."""
    return torch.randn(B, T, V, generator=torch.Generator().manual_seed(12), dtype=torch.float64)


@cache
def make_inputs() -> tuple[Tensor, Tensor]:
    """Returns logits (B, T, V), and targets (B, T) with padding on the right."""
    generator = torch.Generator().manual_seed(8)
    logits = torch.randn(B, T, V, generator=generator, dtype=torch.float64) * 2
    targets = torch.randint(1, V, (B, T), generator=generator)
    targets[1, 4:], targets[2, 5:] = PAD, PAD
    return logits, targets


@cache
def _make_variants(kind: str, smoothing: float) -> list[tuple[Variants, Choices]]:
    """Returns the variants of each right style and each shift, with the mistake that the shift is; always the same."""
    logits, targets = make_inputs()
    table = EchoModel().table
    styles: dict[str, list[tuple[Tensor, Tensor, Choices]]] = {
        "model": [
            (table[targets[:, :-1]], targets[:, 1:], {}), (table[targets], targets, {"shift": "none"}),
            (table[targets[:, 1:]], targets[:, :-1], {"shift": "reversed"}),
        ],
        "whole": [
            (logits, targets, {}), (logits[:, :-1], targets[:, 1:], {}),
            (logits[:, 1:], targets[:, :-1], {"shift": "reversed"}),
        ],
        "flat": [(logits.flatten(0, 1), targets.flatten(), {})],
    }  # fmt: skip
    axes = {axis: values for axis, values in AXES.items() if axis != "shift"}
    spreads, divergences = (SPREADS, (False, True)) if smoothing else (("all",), (False,))
    return [
        (Variants(axes, partial(compute_loss, inputs, wanted, smoothing, reduction, spread, divergence)), shift)
        for inputs, wanted, shift in styles[kind]
        for spread, divergence, reduction in itertools.product(spreads, divergences, REDUCTIONS)
    ]


def _is_same_loss(output: object, expected: Tensor) -> bool:
    if isinstance(output, Tensor) and expected.dim() == 2 and output.dim() == 1:
        output = output.view(expected.shape) if output.numel() == expected.numel() else output
    return is_same(output.squeeze() if isinstance(output, Tensor) and expected.dim() == 0 else output, expected)


def _takes(function: Any, role: str) -> bool:
    return any(find_role(each.name, NAMES) == role for each in list_parameters(function) or [])


def _first_name(function: Any) -> str:
    parameters = list_parameters(function) or []
    return normalize_name(parameters[0].name) if parameters else ""
