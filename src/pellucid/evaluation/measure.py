"""`pellucid evaluate` and `pellucid score` for classifiers and language models: their files in, their scores out."""

from pathlib import Path

from pellucid.data.lines import read_lines
from pellucid.errors import CheckpointError, ConfigError, DataError
from pellucid.evaluation.evaluate import HeldOutFiles
from pellucid.evaluation.label_scores import LabelScores, score_labels
from pellucid.evaluation.text_scores import TextScores, score_texts
from pellucid.tasks.classifier import Classifier
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.saved import model_folder
from pellucid.weights.folder import is_foreign, read_config
from pellucid.weights.hugging_face.opening import foreign_task

TEXTS = ("lines", "running")


def task_in(model: str) -> str:
    """What the model of a folder is for, by its settings alone; a file stands for translations.

    Where there is no model it is "translate", too: whoever loads it says what is wrong, after reading the texts. Of a
    foreign encoder it is "encode" in any case: the settings do not tell whether it has a head.
    """
    if model == "-" or Path(model).is_file():
        return "translate"
    try:
        folder = model_folder(model)
        return foreign_task(folder) if is_foreign(folder) else str(read_config(folder)["task"])
    except CheckpointError:
        return "translate"


def measure_labels(model: str, test: HeldOutFiles, *, device: str, dtype: str | None) -> LabelScores:
    """Returns the scores of a classifier on texts and their labels: two files, or one with both as columns or keys.

    Raises ConfigError where no labels are given, DataError for files that cannot be read or do not go together.
    """
    if test.src is None or not (test.refs or test.is_one_file):
        raise ConfigError(
            f"the classifier `{model}` needs the right labels of `{test.src}`",
            "name their file with --ref, or give both as the columns of a .tsv file",
        )
    if len(test.refs) > 1:
        raise ConfigError(
            f"the classifier `{model}` is scored against one file of labels, not {len(test.refs)}", "give --ref once"
        )
    columns = test.read()
    rows = list(zip(columns[test.src], columns[test.refs[0] if test.refs else ""], strict=True))
    if test.is_one_file:  # where a blank line stands for nothing
        rows = [(text, label) for text, label in rows if text.strip()]
    texts, right = [text for text, _ in rows], [label.strip() for _, label in rows]
    classifier = Classifier.load(model, device, dtype)
    if unknown := sorted({*right} - {*classifier.labels}):
        raise DataError(
            f"the model does not know {len(unknown)} of the labels: {', '.join(f'`{label}`' for label in unknown[:5])}",
            f"it knows {', '.join(classifier.labels[:20])}",
        )
    return score_labels([found.label for found in classifier.classify(texts)], right)


def measure_text(model: str, src: str, text: str | None, *, device: str, dtype: str | None) -> TextScores:
    """Returns the scores of a language model on a file: of its lines, or of it as one running text; None: as trained.

    Blank lines are no texts: training leaves them out, too. In a running text they count.

    Raises ConfigError for another `text`, DataError for a file that cannot be read, or is empty.
    """
    if text not in (None, *TEXTS):
        raise ConfigError(f"`--text {text}` is unknown", f"choose one of {', '.join(TEXTS)}")
    lines = list(read_lines(src))
    language_model = LanguageModel.load(model, device, dtype)
    as_lines = language_model.reads_lines if text is None else text == "lines"
    if as_lines:
        lines = [line for line in lines if line.strip()]
    num_bytes = sum(len(line.encode("utf-8", "replace")) + 1 for line in lines)  # with its end
    texts = lines if as_lines else ["".join(f"{line}\n" for line in lines)]
    return score_texts(language_model.token_scores(texts, as_lines=as_lines), num_bytes)
