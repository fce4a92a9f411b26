"""Checks of whole passes: numbers are finite, passes agree, masks hide exactly the positions that they should."""

import torch

from pellucid.model.families import DecoderOnly, EncoderOnly, Model
from pellucid.model.transformer import Transformer
from pellucid.properties.subject import (
    PADS,
    ExaminedModel,
    ModelCheck,
    describe_origin,
    first_difference,
    is_encoder,
    record_outputs,
    relative_difference,
    report_bad,
    report_good,
    report_not_applicable,
)
from pellucid.weights.tensors import parameters

NOTHING = 1e-12
"""An influence below this part of the largest number counts as none: rounding in double precision is not smaller."""


@torch.inference_mode()
def numbers(subject: ExaminedModel) -> ModelCheck:
    """Checks that parameters, and the outputs of each module in the model's own precision, are finite numbers."""
    name, stored = "numbers", parameters(subject.model)
    for place, tensor in stored.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            count = int((~tensor.isfinite()).sum())
            what = f"{count:,} of the {tensor.numel():,} values of `{place}` are not finite"
            if tensor.dtype == torch.float16 and not bool(tensor.isnan().any()):
                return report_bad(name, f"{what} in float16, which holds nothing above 65,504",
                           "use bfloat16 or float32; if they are not finite in float32 either, the weights are "
                           "damaged", float(count))  # fmt: skip
            return report_bad(name, what, "the weights are damaged, or their training diverged", float(count))
    model = subject.model
    training = [module for module in model.modules() if module.training]
    try:
        model.eval()
        given = record_outputs(model, lambda: subject.outputs(model))
        outputs = subject.outputs(model)
    finally:
        for module in training:
            module.training = True
    for place, found in given.items():
        for tensor in found:
            if isinstance(tensor, torch.Tensor) and not bool(tensor.isfinite().all()):
                dtype = str(tensor.dtype).removeprefix("torch.")
                return report_bad(name, f"{place} returns values that are not finite, in {dtype}",
                           "use float32: its range is the largest" if tensor.dtype == torch.float16 else
                           "its weights are damaged, or a custom part divides by zero")  # fmt: skip
    if not all(bool(output.isfinite().all()) for output in outputs):
        narrow = next(model.parameters()).dtype == torch.float16
        return report_bad(name, "the model's output is not finite", "use bfloat16 or float32" if narrow else "")
    count = sum(tensor.numel() for tensor in stored.values())
    return report_good(name, f"all {count:,} parameters and all outputs are finite")


@torch.inference_mode()
def repeatable(subject: ExaminedModel) -> ModelCheck:
    """Checks that two passes over a text are equal, bit for bit: no dropout and no state between them."""
    twice = zip(subject.outputs(), subject.outputs(), strict=True)
    figure = max(relative_difference(one, other) for one, other in twice)
    return subject.result(
        "repeatable", "two passes in evaluation mode differ by {} of the largest output", figure,
        "a part uses random numbers, or keeps state between passes: apply dropout only if "
        "`self.training`", tolerance=0.0,
    )  # fmt: skip


@torch.inference_mode()
def causal(subject: ExaminedModel) -> ModelCheck:
    """Checks that later tokens of a target do not change the outputs before them."""
    name = "causal"
    if not subject.targets:
        return report_not_applicable(name, "an encoder reads in both directions")
    src, tgt = (subject.sources or [[]])[0], subject.targets[0]
    whole, worst, at = subject.output(src, tgt), 0.0, 1
    changed = {}
    for place in range(1, len(tgt)):
        changed[place] = [*tgt[:place], *subject.other_ids(tgt[place:], subject.config.tgt_vocab_size)]
        figure = relative_difference(whole[:, :place], subject.output(src, changed[place])[:, :place])
        if not figure <= worst:
            worst, at = figure, place
    begins = ""
    if not worst <= subject.tolerance:
        runs = (lambda: subject.output(src, tgt)), (lambda: subject.output(src, changed[at]))
        begins = describe_origin(first_difference(subject, *runs, upto=at))
    said = "later positions change earlier logits by {} of the largest" + begins
    return subject.result(
        name, said, worst, "a position sees the token that it must predict: pass the causal mask to attention"
    )


@torch.inference_mode()
def context(subject: ExaminedModel) -> ModelCheck:
    """Checks that each visible word has an influence: it changes the output at another position."""
    name, model = "context", subject.exact
    src, tgt = (subject.sources or [[]])[0], (subject.targets or [[]])[0]

    def read(src: list[int], tgt: list[int]) -> torch.Tensor:
        # Of a classifier the states: its pooling need not use each word.
        return EncoderOnly.forward(model, subject.tensor(src)) if isinstance(model, EncoderOnly) else (
            subject.output(src, tgt, model)
        )  # fmt: skip

    whole, seen = read(src, tgt), dict[str, float]()
    for place in range(len(src) if len(src) > 1 or tgt else 0):
        other = [*src]
        other[place : place + 1] = subject.other_ids(src[place : place + 1], subject.config.src_vocab_size)
        elsewhere = [i for i in range(whole.size(1)) if i != place or tgt]
        seen[f"word {place} of the source"] = relative_difference(whole[:, elsewhere], read(other, tgt)[:, elsewhere])
    for place in range(len(tgt) - 1):
        other = [*tgt]
        other[place : place + 1] = subject.other_ids(tgt[place : place + 1], subject.config.tgt_vocab_size)
        seen[f"token {place} of the target"] = relative_difference(
            whole[:, place + 1], read(src, other)[:, place + 1]
        )  # fmt: skip
    if not seen:
        return report_not_applicable(name, "the model has positions for one word only")
    blind, figure = min(seen.items(), key=lambda item: item[1])
    if figure > NOTHING:
        text = f"each word changes the outputs elsewhere by at least {figure:.1e} of the largest output"
        return ModelCheck("ok", f"{name}: {text} (more than {NOTHING:.0e})", "", name, figure, NOTHING)
    hidden = sum(each <= NOTHING for each in seen.values())
    others = f", and so are {hidden - 1} others" if hidden > 1 else ""
    text = f"{blind} has no effect on other positions: it is masked{others}"
    return ModelCheck("BAD", f"{name}: {text}", "a mask hides visible positions: True = may attend", name, figure,
                      NOTHING)  # fmt: skip


@torch.inference_mode()
def check_padding(subject: ExaminedModel) -> ModelCheck:
    """Checks that padding after a source has no influence."""
    name, pad_id = "padding", subject.config.pad_id
    if not subject.sources:
        return report_not_applicable(
            name, "a decoder needs no padding mask: the causal mask hides the positions after a text"
        )
    if pad_id is None:
        return report_not_applicable(name, "the model has no padding (`pad_id` is none)")
    tgt, figures = (subject.targets or [[]])[0], list[float]()
    for src in subject.sources:
        one, other = subject.output(src, tgt), subject.output([*src, *[pad_id] * PADS], tgt)
        length = len(src) if is_encoder(subject.exact) and one.dim() == 3 else one.size(1)
        figures.append(relative_difference(one[:, :length], other[:, :length]))
    worst, begins = max(figures), ""
    if not worst <= subject.tolerance:
        text = subject.sources[figures.index(worst)]
        runs = (lambda: subject.output(text, tgt)), (lambda: subject.output([*text, *[pad_id] * PADS], tgt))
        begins = describe_origin(first_difference(subject, *runs))
    said = f"{PADS} pads after a text change its outputs by {{}} of the largest output{begins}"
    return subject.result(name, said, worst, "a mask shows padding, or hides words: True = may attend")


@torch.inference_mode()
def batch(subject: ExaminedModel) -> ModelCheck:
    """Checks that the model's output for a text is the same in a batch as alone."""
    name, model = "batch", subject.exact
    alone, places = subject.outputs(), list(range(len(subject.sources or subject.targets)))
    rows = subject.sources or subject.targets
    if subject.sources and subject.config.pad_id is None:  # only texts of the same length may form a batch
        shortest = min(map(len, rows))
        rows = [row[:shortest] for row in rows]
        alone = [subject.output(row, tgt) for row, tgt in zip(rows, subject.targets or [[]] * len(rows), strict=True)]
    together = _run_together(subject, model, rows)
    worst = 0.0
    for place, one in zip(places, alone, strict=True):
        found = together[place : place + 1]
        worst = max(worst, relative_difference(one, found if one.dim() == 2 else found[:, : one.size(1)]))
    begins = ""
    if not worst <= subject.tolerance:
        src, tgt = ((subject.sources and rows) or [[]])[0], (subject.targets or [[]])[0]
        runs = (lambda: subject.output(src, tgt)), (lambda: _run_together(subject, model, rows))
        begins = describe_origin(first_difference(subject, *runs))
    said = "a text in a batch and alone differ by {} of the largest output" + begins
    return subject.result(name, said, worst, "a part mixes the texts of a batch, or attends to their padding")


def _run_together(subject: ExaminedModel, model: Model, rows: list[list[int]]) -> torch.Tensor:
    if isinstance(model, Transformer):
        return model(subject.tensor(*rows), subject.tensor(*subject.targets))
    return model(subject.tensor(*(subject.targets if isinstance(model, DecoderOnly) else rows)))
