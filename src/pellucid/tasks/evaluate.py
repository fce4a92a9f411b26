"""`pellucid.evaluate`: the scores of a model of any task on a test set."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

import torch

from pellucid.errors import ConfigError
from pellucid.model.parts import Parts
from pellucid.tasks.task import Report, TextModel, check_openable, open_task
from pellucid.text.tokenizers import GivenTokenizers

if TYPE_CHECKING:
    from pellucid.evaluation.label_scores import LabelScores
    from pellucid.evaluation.scores import References, Scores
    from pellucid.evaluation.text_scores import TextScores
    from pellucid.tasks.classifier import Classifier, Text
    from pellucid.tasks.language_model import LanguageModel
    from pellucid.tasks.search_options import TranslateOptions
    from pellucid.tasks.translator import Translator

    class EvaluateOptions(TranslateOptions, total=False):
        """The options of all tasks' `evaluate`, since the task of a folder is unknown before it is opened."""

        tokenize: str
        ter: bool
        as_lines: bool | None


@overload
def evaluate(
    model: "Translator",
    texts: Sequence[str],
    targets: "References",
    *,
    tokenize: str = "auto",
    ter: bool = False,
    **options: "Unpack[TranslateOptions]",
) -> "Scores": ...


@overload
def evaluate(
    model: "Classifier", texts: "Sequence[Text]", targets: Sequence[str], *, batch_tokens: int | None = None
) -> "LabelScores": ...


@overload
def evaluate(model: "LanguageModel", texts: Sequence[str], *, as_lines: bool | None = None) -> "TextScores": ...


@overload
def evaluate(
    model: str | Path | TextModel[Any],
    texts: Sequence[Any],
    targets: Sequence[Any] | None = None,
    *,
    device: str | torch.device = "auto",
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
    parts: Parts | None = None,
    tokenizer: GivenTokenizers | None = None,
    **options: "Unpack[EvaluateOptions]",
) -> Report: ...


def evaluate(
    model: TextModel[Any] | str | Path,
    texts: Sequence[Any],
    targets: Sequence[Any] | None = None,
    *,
    device: str | torch.device = "auto",
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
    parts: Parts | None = None,
    tokenizer: GivenTokenizers | None = None,
    **options: "Unpack[EvaluateOptions]",
) -> Report:
    """Scores a model on a test set: `Scores` for a translator, `LabelScores` for a classifier, `TextScores` for an LM.

        pellucid.evaluate("run", sources, references).bleu
        pellucid.evaluate(classifier, texts, labels).accuracy
        pellucid.evaluate(language_model, lines).bits_per_byte

    Args:
        model: a Translator, a Classifier, a LanguageModel, or the folder of one.
        texts: the sources of a translator, the texts of a classifier, the lines of a language model.
        targets: the reference translations, one each or several sets as [first, second]; the right labels; none for a
            language model.
        device, dtype, revision, parts, tokenizer: the options of `load` for a folder.
        options: the options of `evaluate` of the model's class: `tokenize`, `ter` and the options of `translate`;
            `batch_tokens`; `as_lines`.

    Raises DataError if the lists differ in length or are empty; ConfigError for targets or options that the task does
    not have; CheckpointError for a folder without a model.
    """
    check_openable(
        model, device=None if device == "auto" else device, dtype=dtype, revision=revision, parts=parts,
        tokenizer=tokenizer,
    )  # fmt: skip
    opened = (
        open_task(model, device, dtype, revision=revision, parts=parts, tokenizer=tokenizer)
        if isinstance(model, str | Path)
        else model
    )
    named = opened.task.targets
    if named and targets is None:
        raise ConfigError(f"`targets` are missing: {opened.task.noun} is scored against {named}", "pass one per text")
    if targets is not None and not named:
        raise ConfigError(
            f"`targets` are given, but {opened.task.noun} is scored on texts alone", "leave `targets` out"
        )
    return opened.evaluate(texts, **options) if targets is None else opened.evaluate(texts, targets, **options)
