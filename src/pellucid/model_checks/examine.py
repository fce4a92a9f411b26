"""Checks a model: one line for each property that the rest of the package relies on."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from pellucid.data.doctor import CorpusCheck
from pellucid.errors import ConfigError, PellucidError
from pellucid.model.families import DecoderOnly, EncoderOnly, Model
from pellucid.model.parts import Parts
from pellucid.model.transformer import Transformer
from pellucid.model_checks import steps, weights
from pellucid.model_checks.faithful import check_trace
from pellucid.properties import passes
from pellucid.properties.subject import ExaminedModel, ModelCheck, report_bad, report_good, report_not_applicable
from pellucid.run.run import Run
from pellucid.tasks.task import TextModel, check_openable, open_model, resolve_model
from pellucid.text.tokenizers import GivenTokenizers
from pellucid.training.loss import Loss

Probe = Callable[[ExaminedModel], ModelCheck]

FIRST: dict[str, Probe] = {"numbers": passes.numbers, "repeatable": passes.repeatable}
"""The checks that all others require: if one of them fails, the others would only repeat it."""
THEN: dict[str, Probe] = {
    "tied": weights.check_tied_weights, "saved": weights.check_save_load, "causal": passes.causal,
    "context": passes.context,
    "padding": passes.check_padding, "batch": passes.batch, "positions": steps.positions, "cache": steps.cache,
    "hypotheses": steps.hypotheses, "greedy": steps.greedy, "neighbours": steps.check_batched_search,
    "accumulation": weights.accumulation, "faithfulness": check_trace,
}  # fmt: skip

FOLLOWS_FROM: dict[str, tuple[str, ...]] = {
    "saved": ("repeatable", "tied"),
    "padding": ("causal",),
    "batch": ("causal", "padding"),
    "cache": ("causal", "batch", "positions"),
    "hypotheses": ("causal", "batch", "positions", "cache"),
    "greedy": ("causal", "padding", "batch", "positions", "cache", "hypotheses"),
    "neighbours": ("causal", "padding", "batch", "positions", "cache", "hypotheses"),
    "accumulation": ("causal", "padding", "batch"),
}  # fmt: skip
"""For each check, the earlier checks whose failure makes it fail, too."""


def examine(
    model: str | Path | TextModel[Any] | Model | Run,
    *,
    loss: Loss | None = None,
    parts: Parts | None = None,
    tokenizer: GivenTokenizers | None = None,
    device: "str | torch.device" = "cpu",
    dtype: "str | torch.dtype | None" = None,
    revision: str | None = None,
) -> list[CorpusCheck]:
    """Checks the mathematics of a model, and returns each check with its level: "ok", "BAD" or "n/a".

        checks = pellucid.examine("run")
        checks = pellucid.examine(pellucid.Transformer(config, parts=pellucid.Parts(attention=Mine)), loss=my_loss)
        assert not [check for check in checks if check.level == "BAD"]

    Differences are measured in double precision on a copy if the model's parts support it, so that they are not due to
    rounding. The model is not changed.

    Args:
        model: a run or model folder, a Hugging Face folder, a name on the hub; a Translator, Classifier, LanguageModel;
            a Transformer, DecoderOnly, EncoderOnly, SequenceClassifier; or a Run, which has its loss.
        loss: the custom loss that it is trained with; None: cross-entropy.
        parts, tokenizer, device, dtype, revision: how a folder is opened.

    Raises CheckpointError and ConfigError as `Translator.load` does, ConfigError for an object that is not a model.
    """
    opened = open_subject(
        model, loss=loss, parts=parts, tokenizer=tokenizer, device=device, dtype=dtype, revision=revision
    )
    return list(run_checks(opened))


def run_checks(subject: ExaminedModel) -> Iterator[CorpusCheck]:
    """Yields the checks of a model as they are completed."""
    broken, found = "", list[str]()
    if lacking := subject.tokenizers.describe_pieces_without_ids() if subject.tokenizers else "":
        yield report_good("pieces", lacking)
    for name, probe in (FIRST | THEN).items():
        if broken and (name not in ("tied", "saved") or (name, broken) == ("saved", "numbers")):
            yield report_not_applicable(name, f"skipped, since `{broken}` is BAD")
            continue
        check = _run_check(name, probe, subject)
        if check.level == "BAD":
            broken = broken or (name if name in FIRST else "")
            if cause := next((earlier for earlier in FOLLOWS_FROM.get(name, ()) if earlier in found), ""):
                check = replace(check, advice=f"it may follow from `{cause}`: fix that first", follows=cause)
            found.append(name)
        yield check
    if broken:
        yield report_not_applicable("conversions", f"skipped, since `{broken}` is BAD")
        return
    try:
        yield from weights.conversions(subject)
    except (PellucidError, RuntimeError, ValueError) as error:
        yield _report_error("conversions", error)


def _run_check(name: str, probe: Probe, subject: ExaminedModel) -> ModelCheck:
    """Returns the result of a check; an error raised by a custom module counts as a failure."""
    try:
        return probe(subject)
    except (PellucidError, RuntimeError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        return _report_error(name, error)


def _report_error(name: str, error: Exception) -> ModelCheck:
    first = str(error).partition("\n")[0]
    return report_bad(name, f"it stopped with {type(error).__name__}: {first}", getattr(error, "hint", ""))


def open_subject(
    model: object,
    *,
    loss: Loss | None = None,
    parts: Parts | None = None,
    tokenizer: GivenTokenizers | None = None,
    device: "str | torch.device" = "cpu",
    dtype: "str | torch.dtype | None" = None,
    revision: str | None = None,
) -> ExaminedModel:
    """Opens the model that `examine` is called with, by its arguments."""
    given: dict[str, Any] = {} if loss is None else {"loss": loss}
    check_openable(model, parts=parts, tokenizer=tokenizer, revision=revision)
    if isinstance(model, str | Path):
        opened = open_model(model, device, dtype, revision, parts, tokenizer)
        subject = ExaminedModel(opened.model, decode=opened.decode, folder=resolve_model(model, revision), **given)
        subject.tokenizers = opened.tokenizers
        return subject
    if isinstance(model, Run):
        return ExaminedModel(model.model, decode=model.recipe.decode, **{"loss": model.loss, **given})
    if isinstance(model, TextModel):
        return ExaminedModel(model.model, decode=model.decode, **given)
    if isinstance(model, Transformer | EncoderOnly | DecoderOnly):
        return ExaminedModel(model, **given)
    raise ConfigError(
        f"`model` is a {type(model).__name__}, which cannot be checked",
        "pass a folder, a Translator, Classifier or LanguageModel, a model of pellucid, or a Run",
    )
