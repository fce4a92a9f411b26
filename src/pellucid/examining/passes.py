"""Checks of whole passes: numbers are finite, passes agree, masks hide what they should and nothing else."""

import torch

from pellucid.examining.subject import (
    PADS,
    ModelCheck,
    Subject,
    apart,
    bad,
    began,
    first_difference,
    good,
    is_encoder,
    not_applicable,
    recorded,
)
from pellucid.model.families import DecoderOnly, EncoderOnly, Model
from pellucid.model.transformer import Transformer
from pellucid.weights.tensors import parameters

NOTHING = 1e-12
"""An influence below this part of the largest number is none: rounding in double precision is not smaller."""


@torch.inference_mode()
def numbers(subject: Subject) -> ModelCheck:
    """Checks that parameters, and what each part gives in the model's own precision, are finite numbers."""
    name, stored = "numbers", parameters(subject.model)
    for place, tensor in stored.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            count = int((~tensor.isfinite()).sum())
            return bad(name, f"{count:,} of the {tensor.numel():,} numbers of `{place}` are not finite",
                       "the weights are damaged, or their training diverged", float(count))  # fmt: skip
    model = subject.model
    training = [module for module in model.modules() if module.training]
    try:
        model.eval()
        given = recorded(model, lambda: subject.outputs(model))
        outputs = subject.outputs(model)
    finally:
        for module in training:
            module.training = True
    for place, found in given.items():
        for tensor in found:
            if isinstance(tensor, torch.Tensor) and not bool(tensor.isfinite().all()):
                dtype = str(tensor.dtype).removeprefix("torch.")
                return bad(name, f"{place} gives numbers that are not finite, in {dtype}",
                           "use float32: its range is the largest" if tensor.dtype == torch.float16 else
                           "its weights are damaged, or a part of your own divides by zero")  # fmt: skip
    if not all(bool(output.isfinite().all()) for output in outputs):
        return bad(name, "the model's output is not finite")
    count = sum(tensor.numel() for tensor in stored.values())
    return good(name, f"all {count:,} parameters and all that comes of them are finite")


@torch.inference_mode()
def repeatable(subject: Subject) -> ModelCheck:
    """Checks that two passes over a text are the same, bit for bit: nothing is dropped or remembered."""
    twice = zip(subject.outputs(), subject.outputs(), strict=True)
    figure = max(apart(one, other) for one, other in twice)
    return subject.result(
        "repeatable", "two passes in evaluation mode differ by {} of the largest output", figure,
        "something is drawn at random or kept from pass to pass: drop only where `self.training`", tolerance=0.0,
    )  # fmt: skip


@torch.inference_mode()
def causal(subject: Subject) -> ModelCheck:
    """Checks that what comes later in a target changes nothing that is said before it."""
    name = "causal"
    if not subject.targets:
        return not_applicable(name, "an encoder reads in both directions")
    src, tgt = (subject.sources or [[]])[0], subject.targets[0]
    whole, worst, at = subject.output(src, tgt), 0.0, 1
    changed = {}
    for place in range(1, len(tgt)):
        changed[place] = [*tgt[:place], *subject.other_ids(tgt[place:], subject.config.tgt_vocab_size)]
        figure = apart(whole[:, :place], subject.output(src, changed[place])[:, :place])
        if not figure <= worst:
            worst, at = figure, place
    begins = ""
    if not worst <= subject.tolerance:
        runs = (lambda: subject.output(src, tgt)), (lambda: subject.output(src, changed[at]))
        begins = began(first_difference(subject, *runs, upto=at))
    said = "what comes later changes logits before it by {} of the largest" + begins
    return subject.result(name, said, worst, "a position sees what it is to predict: give the causal mask to attention")


@torch.inference_mode()
def context(subject: Subject) -> ModelCheck:
    """Checks that each word that may be seen is seen: it changes what is said elsewhere."""
    name, model = "context", subject.exact
    src, tgt = (subject.sources or [[]])[0], (subject.targets or [[]])[0]

    def read(src: list[int], tgt: list[int]) -> torch.Tensor:
        # Of a classifier the states: what it pools need not see each word.
        return EncoderOnly.forward(model, subject.tensor(src)) if isinstance(model, EncoderOnly) else (
            subject.output(src, tgt, model)
        )  # fmt: skip

    whole, seen = read(src, tgt), dict[str, float]()
    for place in range(len(src) if len(src) > 1 or tgt else 0):
        other = [*src]
        other[place : place + 1] = subject.other_ids(src[place : place + 1], subject.config.src_vocab_size)
        elsewhere = [i for i in range(whole.size(1)) if i != place or tgt]
        seen[f"word {place} of the source"] = apart(whole[:, elsewhere], read(other, tgt)[:, elsewhere])
    for place in range(len(tgt) - 1):
        other = [*tgt]
        other[place : place + 1] = subject.other_ids(tgt[place : place + 1], subject.config.tgt_vocab_size)
        seen[f"token {place} of the target"] = apart(
            whole[:, place + 1], read(src, other)[:, place + 1]
        )  # fmt: skip
    if not seen:
        return not_applicable(name, "the model has room for one word alone")
    blind, figure = min(seen.items(), key=lambda item: item[1])
    if figure > NOTHING:
        text = f"each word changes what is said elsewhere, by {figure:.1e} of the largest output at least"
        return ModelCheck("ok", f"{name}: {text} (more than {NOTHING:.0e})", "", name, figure, NOTHING)
    hidden = sum(each <= NOTHING for each in seen.values())
    text = f"{blind} changes nothing elsewhere: it is hidden, and so are {hidden - 1} others" if hidden > 1 else (
        f"{blind} changes nothing elsewhere: it is hidden"
    )  # fmt: skip
    return ModelCheck("BAD", f"{name}: {text}", "a mask hides what it should show: True = may attend", name, figure,
                      NOTHING)  # fmt: skip


@torch.inference_mode()
def padding(subject: Subject) -> ModelCheck:
    """Checks that padding behind a source changes nothing."""
    name, pad_id = "padding", subject.config.pad_id
    if not subject.sources:
        return not_applicable(name, "a decoder reads no padding: what stands behind a text is hidden by `causal`")
    if pad_id is None:
        return not_applicable(name, "the model takes every id for a word (`pad_id` is none)")
    tgt, figures = (subject.targets or [[]])[0], list[float]()
    for src in subject.sources:
        one, other = subject.output(src, tgt), subject.output([*src, *[pad_id] * PADS], tgt)
        length = len(src) if is_encoder(subject.exact) and one.dim() == 3 else one.size(1)
        figures.append(apart(one[:, :length], other[:, :length]))
    worst, begins = max(figures), ""
    if not worst <= subject.tolerance:
        text = subject.sources[figures.index(worst)]
        runs = (lambda: subject.output(text, tgt)), (lambda: subject.output([*text, *[pad_id] * PADS], tgt))
        begins = began(first_difference(subject, *runs))
    said = f"{PADS} pads behind a text change what is said of it by {{}} of the largest output{begins}"
    return subject.result(name, said, worst, "a mask shows padding, or hides words: True = may attend")


@torch.inference_mode()
def batch(subject: Subject) -> ModelCheck:
    """Checks that the model says the same of a text in a batch as alone."""
    name, model = "batch", subject.exact
    alone, places = subject.outputs(), list(range(len(subject.sources or subject.targets)))
    rows = subject.sources or subject.targets
    if subject.sources and subject.config.pad_id is None:  # texts of one length alone may go together
        shortest = min(map(len, rows))
        rows = [row[:shortest] for row in rows]
        alone = [subject.output(row, tgt) for row, tgt in zip(rows, subject.targets or [[]] * len(rows), strict=True)]
    together = _together(subject, model, rows)
    worst = 0.0
    for place, one in zip(places, alone, strict=True):
        found = together[place : place + 1]
        worst = max(worst, apart(one, found if one.dim() == 2 else found[:, : one.size(1)]))
    begins = ""
    if not worst <= subject.tolerance:
        src, tgt = ((subject.sources and rows) or [[]])[0], (subject.targets or [[]])[0]
        runs = (lambda: subject.output(src, tgt)), (lambda: _together(subject, model, rows))
        begins = began(first_difference(subject, *runs))
    said = "a text in a batch and alone differ by {} of the largest output" + begins
    return subject.result(name, said, worst, "something mixes the texts of a batch, or reads their padding")


def _together(subject: Subject, model: Model, rows: list[list[int]]) -> torch.Tensor:
    if isinstance(model, Transformer):
        return model(subject.tensor(*rows), subject.tensor(*subject.targets))
    return model(subject.tensor(*(subject.targets if isinstance(model, DecoderOnly) else rows)))
