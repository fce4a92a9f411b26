"""The base of all tasks: a model with its tokenizers, which loads, saves, describes itself and processes lines."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar, cast

from pellucid.config import RECIPE, TASKS, DecodeConfig, ModelConfig, Task
from pellucid.data.chunks import ChunkSizes
from pellucid.engines.engine import Engine, PyTorchEngine
from pellucid.errors import CheckpointError, ConfigError, DataError, did_you_mean, format_value
from pellucid.files.budget import MOST_SETTINGS_BYTES
from pellucid.files.reading import read_text
from pellucid.files.writing import convert_write_errors, fsync, replace_atomically, temporary_folder
from pellucid.text.foreign_files import ForeignFiles
from pellucid.text.hugging_face_loading import tokenizer_files
from pellucid.text.tokenizers import GivenTokenizers, TokenizerPair
from pellucid.text.training_text import TrainingTextStats
from pellucid.weights.card import CARD, plain_card
from pellucid.weights.folder import (
    DESCRIPTION,
    SavedModel,
    is_hugging_face_folder,
    is_pellucid_folder,
    read_config,
    save_description,
    save_model,
)

if TYPE_CHECKING:  # CTranslate2 works without PyTorch, so functions import PyTorch where they need it
    import hashlib

    import torch

    from pellucid.model.families import Model
    from pellucid.model.parts import Parts
    from pellucid.tasks.confidence import Confidence
    from pellucid.tracing.trace import Trace

M = TypeVar("M", bound="Model")
T = TypeVar("T")

DTYPES = ("float32", "bfloat16", "float16")
FEW = 4
"""The number of names that a summary lists."""


@dataclass(frozen=True)
class SequenceScore:
    """The log-probability of a given text (forced decoding)."""

    score: float
    """The sum of its tokens' log-probabilities, end token included; nan if there is no score."""
    tokens: int
    """The number of its tokens, end token included."""
    fault: str = ""
    """The reason why there is no score; empty if there is one."""
    confidence: "Confidence | None" = None
    """The confidence of a translator in the text; None if not requested."""


class Report(Protocol):
    """The scores of a model on a test: `Scores`, `LabelScores`, `TextScores`."""

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as a table for json.dumps()."""
        ...

    def report(self) -> str:
        """Returns the scores as aligned lines for a terminal."""
        ...


class TextModel(ABC, Generic[M]):
    """A trained model with its tokenizers and settings: the base of Translator, Classifier, LanguageModel.

    A new task is a record in pellucid/config/tasks.py and a subclass with `task`, `_from_saved`, `trace`, `evaluate`
    and `process_lines`. Loading, saving, streams, `pellucid.evaluate` and the command line use these.
    """

    task: ClassVar[Task]
    """The record of its task."""
    per_line_options: ClassVar[tuple[str, ...]] = ()
    """The options of `process_lines` that have a value for each line."""

    def __init__(
        self,
        model: "M | Engine",
        tokenizers: GivenTokenizers,
        decode: DecodeConfig | None = None,
        *,
        labels: Sequence[str] = (),
        languages: Mapping[str, int] | None = None,
        text: TrainingTextStats | None = None,
    ) -> None:
        """Takes the parts, and puts a PyTorch model into evaluation mode.

        Raises ConfigError if the model has the wrong architecture for the task, or a tokenizer is none.
        """
        if not self.task.fits(model.config):
            raise ConfigError(
                f"a {type(self).__name__} needs {self.task.stacks}{' and classes' if self.task.classes else ''}, "
                f"but the {type(model).__name__} has {model.config.num_encoder_layers} encoder layers, "
                f"{model.config.num_decoder_layers} decoder layers and {model.config.num_classes} classes",
                "give a model of that shape",
            )
        self.engine: Engine = model if isinstance(model, Engine) else PyTorchEngine(model)
        self.tokenizers: TokenizerPair = TokenizerPair.from_given(tokenizers)
        self.decode: DecodeConfig = decode or DecodeConfig()
        self.labels: tuple[str, ...] = tuple(labels)
        self.languages: dict[str, int] = dict(languages or {})
        self.text = text
        self.card = ""
        """The model card of the folder that it was loaded from; if empty, `save` writes a new one."""

    @property
    def model(self) -> M:
        """The PyTorch model. Raises ConfigError for another engine than PyTorch, and for an ensemble."""
        return cast(M, self.engine.model)

    @property
    def config(self) -> ModelConfig:
        """The configuration of the model."""
        return self.engine.config

    @classmethod
    def load(
        cls,
        folder: str | Path,
        device: "str | torch.device" = "auto",
        dtype: "str | torch.dtype | None" = None,
        *,
        revision: str | None = None,
        parts: "Parts | None" = None,
        tokenizer: GivenTokenizers | None = None,
    ) -> Self:
        """Opens a run folder, a model folder, a Hugging Face folder, or a name on the hub (at a `revision`).

        Args:
            device: "auto" takes CUDA, then MPS, then the CPU.
            dtype: the precision of the weights; None: float32.
            parts: the custom modules of the model, if it has any.
            tokenizer: the custom tokenizer of the model, if it has one.

        Raises CheckpointError if the model is missing or damaged, is for another task or has no tokenizer; ConfigError
        for an unknown device, precision or revision.
        """
        return cls._from_folder(folder, open_model(folder, device, dtype, revision, parts, tokenizer))

    @classmethod
    def _from_folder(cls, folder: str | Path, saved: SavedModel) -> Self:
        """Creates the task from the model of a folder. Raises CheckpointError if the model is for another task."""
        check_task(cls.task, TASKS[saved.task], folder, saved.head)
        opened = cls._from_saved(saved, require_tokenizers(saved, folder))
        opened.card = _card_in(Path(folder))
        return opened

    @classmethod
    @abstractmethod
    def _from_saved(cls, saved: SavedModel, tokenizers: TokenizerPair) -> Self:
        """Creates the task from a saved model of this task."""

    def save(self, folder: str | Path) -> None:
        """Writes a model folder, from which `load` restores an equal model; a run writes the same for equal weights.

        Replaces an earlier model folder. Raises ConfigError if the folder is a run folder or has other contents.
        """
        self.engine.require("save")
        place = Path(folder).absolute()
        if place.exists() and not (place.is_dir() and (_is_model_alone(place) or not any(place.iterdir()))):
            raise ConfigError(f"`{folder}` already exists, and contains more than a model", "choose another folder")
        with convert_write_errors(place, "folder"):
            place.parent.mkdir(parents=True, exist_ok=True)
            with temporary_folder(place) as temporary:
                save_model(temporary / "model", self.model, **self._describe())
                if place.exists():
                    (place / DESCRIPTION).unlink(missing_ok=True)  # invalid until all files are replaced
                    new = [path for path in (temporary / "model").rglob("*") if path.is_file()]
                    for path in sorted(new, key=lambda path: path.name == DESCRIPTION):
                        target = place / path.relative_to(temporary / "model")
                        target.parent.mkdir(exist_ok=True)
                        replace_atomically(path, target)
                else:
                    (temporary / "model").rename(place)
            fsync(place.parent)

    def save_description(self, folder: Path) -> None:
        """Writes all files of a model folder except the weights into `folder`."""
        save_description(folder, self.model.config, parts=self.model.parts, **self._describe())

    def _describe(self) -> dict[str, Any]:
        return {
            "tokenizers": self.tokenizers, "decode": self.decode, "labels": self.labels, "languages": self.languages,
            "text": self.text, "task": self.task.name,
            "card": self.card or plain_card(self.task, self.model.config, self.languages),
        }  # fmt: skip

    @property
    def device(self) -> "torch.device":
        """The device of the model."""
        return self.engine.device

    def __repr__(self) -> str:
        source, target = self.tokenizers.source, self.tokenizers.target
        sides = {source.kind: source.size}
        if self.task.family == "encoder-decoder" and source is not target:
            sides = {f"source {source.kind}": source.size, f"target {target.kind}": target.size}
        tokens = ", ".join(f"{name} of {size:,}" for name, size in sides.items())
        return f"{type(self).__name__}({'; '.join([self.engine.about(), tokens, *self._traits()])})"

    def add_weights(self, digest: "hashlib._Hash") -> str:
        """Adds all weights to a digest; returns the type of device that they are on."""
        return self.engine.add_weights(digest)

    def _traits(self) -> list[str]:
        """Returns further items of a summary, after model and vocabulary."""
        return []

    @abstractmethod
    def trace(self, *args: Any, **options: Any) -> "Trace":
        """Records all attentions of one pass over a text."""

    @abstractmethod
    def evaluate(self, *args: Any, **options: Any) -> Report:
        """Scores the model on texts, and on their translations or labels if the task has them."""

    @abstractmethod
    def process_lines(self, *args: Any, **options: Any) -> Sequence[Any]:
        """Processes lines of a stream: `process_lines(lines, place, **options)`; the first has the index `place`.

        A result depends on its line and its index alone.
        """

    def stream(self, *args: Any, **options: Any) -> Iterator[Any]:
        """Processes lines one after another, in chunks of about four seconds and at most 2,048 lines.

        Raises DataError if the number of values of an option in `per_line_options` differs from that of lines.
        """
        (lines,) = args
        of_lines = [name for name in self.per_line_options if not isinstance(options.get(name), str | None)]
        given = {name: iter(options.pop(name)) for name in of_lines}
        rest, place, sizes = iter(lines), 0, ChunkSizes()
        while chunk := list(islice(rest, sizes.choose())):
            of_chunk = {name: list(islice(values, len(chunk))) for name, values in given.items()}
            sizes.begin(len(chunk))
            answers = self.process_lines(chunk, place, **options, **of_chunk)
            sizes.end()
            yield from answers
            place += len(chunk)
        for name, values in given.items():
            if next(values, None) is not None:
                raise DataError(
                    f"{place:,} lines, and more values of `{name}=`: each line needs one",
                    "remove the superfluous values",
                )


def open_task(
    folder: str | Path,
    device: "str | torch.device" = "auto",
    dtype: "str | torch.dtype | None" = None,
    *,
    revision: str | None = None,
    parts: "Parts | None" = None,
    tokenizer: GivenTokenizers | None = None,
) -> TextModel[Any]:
    """Opens the model of a folder, or of a name on the hub, as the class of its task: a Translator, a Classifier, ...

    Raises the errors of `TextModel.load`.
    """
    saved = open_model(folder, device, dtype, revision, parts, tokenizer)
    return get_task_class(TASKS[saved.task])._from_folder(folder, saved)


def check_openable(model: object, **how: object) -> None:
    """Raises ConfigError if options for opening a folder are given together with an open model."""
    if not isinstance(model, str | Path) and (needless := [name for name, value in how.items() if value is not None]):
        raise ConfigError(
            f"`{needless[0]}=` is an option for opening a folder, but a {type(model).__name__} is given, which is "
            "open already",
            "leave it out, or pass the folder",
        )


def check_task(wanted: Task, found: Task, folder: str | Path, head: str = "") -> None:
    """Raises CheckpointError if the model of a folder is for another task than `wanted`.

    `head` is the reason why the head of a Hugging Face encoder is not read; empty: it has no head.
    """
    if found.name != wanted.name and wanted.classes and head:
        raise CheckpointError(
            f"`{folder}` holds a classifier that Pellucid does not run: {head}", "run it with transformers"
        )
    if found.name != wanted.name:
        raise CheckpointError(f"`{folder}` holds {found.noun}, not {wanted.noun}", f"use {found.use}")


def get_task_class(task: Task) -> type[TextModel[Any]]:
    """Returns the class of a task."""
    found: type[TextModel[Any]] = getattr(import_module(task.home, "pellucid.tasks"), task.class_name)
    return found


def detect_task(model: str | Path, revision: str | None = None) -> Task:
    """Returns the task of the model in a folder (or of a name on the hub at a `revision`), by its settings alone.

    The task of a file, which contains translations, is "translate".

    If there is no model, the task is "translate", too: loading it reports the error later, after the texts are read.
    For a Hugging Face encoder the task is "encode", since its settings do not show if it has a head.
    """
    if model == "-" or Path(model).is_file():
        return TASKS["translate"]
    try:
        folder = resolve_model(model, revision)
        if not is_hugging_face_folder(folder):
            return TASKS[read_config(folder)["task"]]
        from pellucid.weights.hugging_face.opening import detect_hugging_face_task

        return detect_hugging_face_task(folder)
    except CheckpointError:
        return TASKS["translate"]


def open_model(
    folder: str | Path,
    device: "str | torch.device" = "cpu",
    dtype: "str | torch.dtype | None" = None,
    revision: str | None = None,
    parts: "Parts | None" = None,
    tokenizer: GivenTokenizers | None = None,
) -> SavedModel:
    """Opens the model of a folder, or of a name on the hub (at a `revision`), for any task."""
    from pellucid.weights.opening import open_folder

    _compute_alone_in_forks()
    place = find_device(str(device)), find_dtype(dtype)
    return open_folder(resolve_model(folder, revision), *place, parts, tokenizer)


def resolve_model(name: str | Path, revision: str | None = None) -> Path:
    """Returns a model's folder; for `org/model`, if no folder `org` exists, that in the hub's cache.

    `org/model@v2` or `revision="v2"` selects a branch, a tag or a commit. Raises ConfigError for a revision of a
    folder, CheckpointError if neither the hub nor its cache has the model.
    """
    from pellucid.weights.hugging_face.hub import find_folder, is_hub_name

    path = Path(name)
    if is_hub_name(name) and "/" in str(name).partition("@")[0] and not path.parent.exists():
        return find_folder(name, revision)
    if revision is not None:
        raise ConfigError(f"`revision` ({revision}) is for a name on the hub, but `{name}` is a folder", "leave it out")
    return path


def require_tokenizers(saved: SavedModel, folder: str | Path | None = None) -> TokenizerPair:
    """Returns the tokenizers of a saved model. Raises CheckpointError, with its folder if known, if it has none."""
    if saved.tokenizers is None:
        place = "the model" if folder is None else f"the model in `{folder}`"
        files = "" if folder is None else tokenizer_files(ForeignFiles(resolve_model(folder)))
        raise CheckpointError(
            f"{place} has no tokenizer, so it cannot read text",
            f"copy the tokenizer's files into its folder{f': {files}' if files else ''}",
        )
    return saved.tokenizers


def find_device(name: str) -> "torch.device":
    """Returns the device called `name`; "auto" takes CUDA, then MPS, then the CPU.

    Raises ConfigError if this machine has no such device.
    """
    import torch

    available = ["cpu"]
    if torch.backends.mps.is_available():
        available.insert(0, "mps")
    if torch.cuda.is_available():
        available.insert(0, "cuda")
    if name == "auto":
        return torch.device(available[0])
    hint = f"available are auto, {', '.join(available)}"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"unknown device `{name}`{did_you_mean(name, available)}", hint) from error
    if device.type not in available or (device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()):
        raise ConfigError(f"device `{name}` is not available on this machine", hint)
    return device


def find_dtype(name: "str | torch.dtype | None") -> "torch.dtype | None":
    """Returns the precision called `name`; None: that of the weights. Raises ConfigError for an unknown one."""
    import torch

    if name is None or (isinstance(name, torch.dtype) and name.is_floating_point):
        return name
    if name not in DTYPES:
        of_another = (
            ', or load it with `engine="ctranslate2"`, which supports int8' if str(name).startswith("int") else ""
        )
        raise ConfigError(
            f"unknown dtype `{name}`{did_you_mean(str(name), DTYPES)}",
            f"choose one of {', '.join(DTYPES)}{of_another}",
        )
    found: torch.dtype = getattr(torch, str(name))
    return found


def check_lines(texts: Sequence[str]) -> list[str]:
    """Returns a list of lines.

    Raises DataError for a single text, whose characters would count as lines, and for elements that are not texts.
    """
    found = to_list(texts)
    for number, text in enumerate(found, start=1):
        if not isinstance(text, str):
            raise DataError(
                f"line {number} is not a str but {'None' if text is None else f'of type {type(text).__name__}'}",
                "pass a list of str; an empty line is ''",
            )
    return found


def to_list(texts: Sequence[T]) -> list[T]:
    """Returns the elements as a list. Raises DataError for a single text, or a value that is not iterable."""
    if isinstance(texts, str):
        raise DataError(f"expected a list of lines, not one text of {len(texts):,} characters", "pass [text]")
    if not isinstance(texts, Iterable):
        raise DataError(
            f"expected a list of lines, not {'None' if texts is None else type(texts).__name__}", "pass [text]"
        )
    return list(texts)


def check_batch_tokens(batch_tokens: int | None) -> None:
    """Raises ConfigError for less than one token per batch; None is the model's setting."""
    if batch_tokens is not None and batch_tokens < 1:
        raise ConfigError(f"`batch_tokens` ({format_value(batch_tokens)}) must be at least 1")


def format_names(names: Iterable[str]) -> str:
    """Returns the first names, and the number of further ones."""
    found = list(names)
    return ", ".join(found[:FEW]) + (f" and {len(found) - FEW} more" if len(found) > FEW else "")


def _is_model_alone(folder: Path) -> bool:
    """Returns True if a folder is a Pellucid model folder and no run folder."""
    return is_pellucid_folder(folder) and not (folder / RECIPE).exists()


def _card_in(folder: Path) -> str:
    """Returns the model card of a Pellucid folder; empty if it has no readable one."""
    with suppress(CheckpointError):
        return "" if is_hugging_face_folder(folder) else read_text(folder / CARD, MOST_SETTINGS_BYTES)
    return ""


@cache
def _compute_alone_in_forks() -> None:
    """Makes forked processes compute in one thread.

    A forked process has none of its parent's threads, and OpenMP would wait for them forever.
    """
    import torch

    if hasattr(os, "register_at_fork"):  # Windows does not fork
        os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))
