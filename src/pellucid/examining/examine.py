"""Examines a model: a line for each property that the rest of the package relies on."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from pellucid.data.doctor import Check
from pellucid.errors import ConfigError, PellucidError
from pellucid.examining import passes, steps, weights
from pellucid.examining.faithful import faithfulness
from pellucid.examining.subject import ModelCheck, Subject, bad, not_applicable
from pellucid.model.families import DecoderOnly, EncoderOnly, Model
from pellucid.model.parts import Parts
from pellucid.model.transformer import Transformer
from pellucid.run.run import Run
from pellucid.tasks.task import TextModel, check_openable, model_folder, open_model
from pellucid.text.tokenizers import GivenTokenizers
from pellucid.training.loss import Loss

Probe = Callable[[Subject], ModelCheck]

FIRST: dict[str, Probe] = {"numbers": passes.numbers, "repeatable": passes.repeatable}
"""The checks that all others need: where one does not hold, they would find nothing but that."""
THEN: dict[str, Probe] = {
    "tied": weights.tied, "saved": weights.saved, "causal": passes.causal, "context": passes.context,
    "padding": passes.padding, "batch": passes.batch, "positions": steps.positions, "cache": steps.cache,
    "hypotheses": steps.hypotheses, "greedy": steps.greedy, "neighbours": steps.searched_together,
    "accumulation": weights.accumulation, "faithfulness": faithfulness,
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
"""The earlier checks that make one BAD as well where they are BAD."""


def examine(
    model: str | Path | TextModel[Any] | Model | Run,
    *,
    loss: Loss | None = None,
    parts: Parts | None = None,
    tokenizer: GivenTokenizers | None = None,
    device: "str | torch.device" = "cpu",
    dtype: "str | torch.dtype | None" = None,
    revision: str | None = None,
) -> list[Check]:
    """Examines the mathematics of a model, and returns each check with its level: "ok", "BAD" or "n/a".

        checks = pellucid.examine("run")
        checks = pellucid.examine(pellucid.Transformer(config, parts=pellucid.Parts(attention=Mine)), loss=my_loss)
        assert not [check for check in checks if check.level == "BAD"]

    Differences are measured in double precision on a copy, where the model's parts can do that: what remains of them
    then is no rounding. Nothing of the model is changed.

    Args:
        model: a run or model folder, one of Hugging Face's, a name on its hub; a Translator, Classifier, LanguageModel;
            a Transformer, DecoderOnly, EncoderOnly, SequenceClassifier; or a Run, which brings its loss.
        loss: that of one's own which it is trained with; None: cross-entropy.
        parts, tokenizer, device, dtype, revision: how a folder is opened.

    Raises CheckpointError and ConfigError as `Translator.load` does, ConfigError for what is no model.
    """
    opened = subject_of(
        model, loss=loss, parts=parts, tokenizer=tokenizer, device=device, dtype=dtype, revision=revision
    )
    return list(checks_of(opened))


def checks_of(subject: Subject) -> Iterator[Check]:
    """Yields the checks of a model, each as it is done."""
    broken, found = "", list[str]()
    for name, probe in (FIRST | THEN).items():
        if broken and (name not in ("tied", "saved") or (name, broken) == ("saved", "numbers")):
            yield not_applicable(name, f"not looked at, since `{broken}` is BAD")
            continue
        check = _asked(name, probe, subject)
        if check.level == "BAD":
            broken = broken or (name if name in FIRST else "")
            if cause := next((earlier for earlier in FOLLOWS_FROM.get(name, ()) if earlier in found), ""):
                check = replace(check, advice=f"it may follow from `{cause}`: mend that first", follows=cause)
            found.append(name)
        yield check
    if broken:
        yield not_applicable("conversions", f"not looked at, since `{broken}` is BAD")
        return
    try:
        yield from weights.conversions(subject)
    except (PellucidError, RuntimeError, ValueError) as error:
        yield _stopped("conversions", error)


def _asked(name: str, probe: Probe, subject: Subject) -> ModelCheck:
    """Returns what a check finds; a part of somebody's own that raises an error is a fault."""
    try:
        return probe(subject)
    except (PellucidError, RuntimeError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        return _stopped(name, error)


def _stopped(name: str, error: Exception) -> ModelCheck:
    first = str(error).partition("\n")[0]
    return bad(name, f"it stopped with {type(error).__name__}: {first}", getattr(error, "hint", ""))


def subject_of(
    model: object,
    *,
    loss: Loss | None = None,
    parts: Parts | None = None,
    tokenizer: GivenTokenizers | None = None,
    device: "str | torch.device" = "cpu",
    dtype: "str | torch.dtype | None" = None,
    revision: str | None = None,
) -> Subject:
    """Opens what `examine` is given, with its arguments."""
    given: dict[str, Any] = {} if loss is None else {"loss": loss}
    check_openable(model, parts=parts, tokenizer=tokenizer, revision=revision)
    if isinstance(model, str | Path):
        opened = open_model(model, device, dtype, revision, parts, tokenizer)
        return Subject(opened.model, decode=opened.decode, folder=model_folder(model, revision), **given)
    if isinstance(model, Run):
        return Subject(model.model, decode=model.recipe.decode, **{"loss": model.loss, **given})
    if isinstance(model, TextModel):
        return Subject(model.model, decode=model.decode, **given)
    if isinstance(model, Transformer | EncoderOnly | DecoderOnly):
        return Subject(model, **given)
    raise ConfigError(
        f"`model` is a {type(model).__name__}, which cannot be examined",
        "give a folder, a Translator, Classifier or LanguageModel, a model of pellucid, or a Run",
    )
