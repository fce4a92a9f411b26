"""`pellucid evaluate` and `pellucid score` for classifiers and language models: their files in, their scores out."""

from pathlib import Path

from pellucid.config import DataConfig
from pellucid.data.corpus import read_lines
from pellucid.data.formats import holds_both_sides
from pellucid.data.parallel import ParallelText
from pellucid.errors import CheckpointError, ConfigError, DataError
from pellucid.evaluation.label_scores import LabelScores, score_labels
from pellucid.evaluation.text_scores import TextScores, score_texts
from pellucid.tasks.classifier import Classifier
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.saved import model_folder
from pellucid.weights.folder import is_foreign, read_config
from pellucid.weights.hugging_face import foreign_task
from pellucid.workflow.evaluate import read_columns

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


def measure_labels(model: str, src: str, ref: str | None, *, device: str, dtype: str | None) -> LabelScores:
    """Scores of a classifier on texts and their labels: two files, or one with both as columns or keys.

    Raises ConfigError where no labels are given, DataError for files that cannot be read or do not go together.
    """
    if ref is not None:
        columns = read_columns([src, ref])
        texts, labels = columns[src], columns[ref]
    elif holds_both_sides(src):
        defaults = DataConfig()
        pairs = list(ParallelText(src, "", defaults.tsv_columns, defaults.jsonl_keys).pairs("error"))
        rows = [(text or "", label or "") for text, label in pairs if (text or "").strip()]
        texts, labels = [text for text, _ in rows], [label for _, label in rows]
    else:
        raise ConfigError(
            f"the classifier `{model}` needs the right labels of `{src}`",
            "name their file with --ref, or give both as the columns of a .tsv file",
        )
    classifier = Classifier.load(model, device, dtype)
    right = [label.strip() for label in labels]
    if unknown := sorted({*right} - {*classifier.labels}):
        raise DataError(
            f"the model does not know {len(unknown)} of the labels: {', '.join(f'`{label}`' for label in unknown[:5])}",
            f"it knows {', '.join(classifier.labels[:20])}",
        )
    return score_labels([found.label for found in classifier.classify(texts)], right)


def measure_text(model: str, src: str, text: str | None, *, device: str, dtype: str | None) -> TextScores:
    """Scores of a language model on a file: of its lines, or of it as one running text; None: as it was trained.

    Raises ConfigError for another `text`, DataError for a file that cannot be read, or is empty.
    """
    if text not in (None, *TEXTS):
        raise ConfigError(f"`--text {text}` is unknown", f"choose one of {', '.join(TEXTS)}")
    lines = list(read_lines(src))
    language_model = LanguageModel.load(model, device, dtype)
    as_lines = language_model.reads_lines if text is None else text == "lines"
    num_bytes = sum(len(line.encode("utf-8", "replace")) + 1 for line in lines)  # with its end
    texts = lines if as_lines else ["".join(f"{line}\n" for line in lines)]
    return score_texts(language_model.token_scores(texts, as_lines=as_lines), num_bytes)


def line_scores(model: str, src: str, *, device: str, dtype: str | None) -> list[float]:
    """The log-probability of each line of a file by a language model."""
    return LanguageModel.load(model, device, dtype).score(list(read_lines(src)))
