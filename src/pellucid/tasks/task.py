"""The base of all tasks: a model with tokenizers, opened from a folder, saved to one, shown, and asked for lines."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

from pellucid.config import RECIPE, TASKS, DecodeConfig, Task
from pellucid.data.lines import STRETCH
from pellucid.errors import CheckpointError, ConfigError, DataError, did_you_mean, shown
from pellucid.files.reading import MOST_SETTINGS_BYTES, read_text
from pellucid.files.writing import flush, move_into_place, refusals_in_words, temporary_folder
from pellucid.text.tokenizers import GivenTokenizers, Tokenizers
from pellucid.text.training_text import TrainingText
from pellucid.weights.card import CARD, plain_card
from pellucid.weights.folder import (
    DESCRIPTION,
    SavedModel,
    is_described,
    is_foreign,
    read_config,
    save_description,
    save_model,
)

if TYPE_CHECKING:  # an engine without PyTorch answers, too: it is imported where something is computed with it
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
"""Names that a summary lists."""


@dataclass(frozen=True)
class Scored:
    """A log-probability that a model gives to a text that it did not write."""

    score: float
    """The sum of its tokens' log-probabilities, end token included; nan where it has none."""
    tokens: int
    """The number of its tokens, end token included."""
    fault: str = ""
    """The reason why there is no score; empty where there is one."""
    confidence: "Confidence | None" = None
    """A translator's statement of how sure one may be of it; None where that was not asked for."""


class Report(Protocol):
    """The scores of a model on a test: `Scores`, `LabelScores`, `TextScores`."""

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as json.dumps() takes them."""
        ...

    def report(self) -> str:
        """Returns the scores as aligned lines for a terminal."""
        ...


class TextModel(ABC, Generic[M]):
    """A trained model with all that it reads and writes text by: the base of Translator, Classifier, LanguageModel.

    A task more is a record in pellucid/config/tasks.py and a subclass with `task`, `_opened`, `trace`, `evaluate` and
    `answer`; loading, saving, streams, `pellucid.evaluate` and the verbs of the command line follow from these.
    """

    task: ClassVar[Task]
    of_lines: ClassVar[tuple[str, ...]] = ()
    """The options of `answer` that have a value for each line."""
    """The record of what it is for."""

    def __init__(
        self,
        model: M,
        tokenizers: GivenTokenizers,
        decode: DecodeConfig | None = None,
        *,
        labels: Sequence[str] = (),
        languages: Mapping[str, int] | None = None,
        text: TrainingText | None = None,
    ) -> None:
        """Puts the parts together and the model into evaluation mode.

        Raises ConfigError for a model of another shape than the task needs, and for what is not a tokenizer.
        """
        if not self.task.fits(model.config):
            raise ConfigError(
                f"a {type(self).__name__} needs {self.task.stacks}{' and classes' if self.task.classes else ''}, "
                f"but the {type(model).__name__} has {model.config.num_encoder_layers} encoder layers, "
                f"{model.config.num_decoder_layers} decoder layers and {model.config.num_classes} classes",
                "give a model of that shape",
            )
        model.eval()
        self.model = model
        self.tokenizers: Tokenizers = Tokenizers.of(tokenizers)
        self.decode: DecodeConfig = decode or DecodeConfig()
        self.labels: tuple[str, ...] = tuple(labels)
        self.languages: dict[str, int] = dict(languages or {})
        self.text = text
        self.card = ""
        """The model card of the folder that it was loaded from; empty: `save` writes one."""

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
            parts: the parts that are not Pellucid's own, where the model has some.
            tokenizer: the tokenizer that is not Pellucid's own, where the model was trained with one.

        Raises CheckpointError where there is no model, it is damaged, is for another task or has no tokenizer;
        ConfigError for a device, a precision or a revision that there is not.
        """
        return cls._from_folder(folder, open_model(folder, device, dtype, revision, parts, tokenizer))

    @classmethod
    def _from_folder(cls, folder: str | Path, saved: SavedModel) -> Self:
        """Makes the task of what a folder holds. Raises CheckpointError where that is for another one."""
        check_for(cls.task, TASKS[saved.task], folder)
        opened = cls._opened(saved, tokenizers_of(saved, folder))
        opened.card = _card_in(Path(folder))
        return opened

    @classmethod
    @abstractmethod
    def _opened(cls, saved: SavedModel, tokenizers: Tokenizers) -> Self:
        """Makes the task of a saved model that is for it."""

    def save(self, folder: str | Path) -> None:
        """Writes a model folder that `load` opens as an equal model: the folder that a run writes for equal weights.

        Raises ConfigError where something else lies there already: an earlier model is replaced, a run is not.
        """
        place = Path(folder).absolute()
        if place.exists() and not (place.is_dir() and (_is_model_alone(place) or not any(place.iterdir()))):
            raise ConfigError(f"`{folder}` is there already, and is not a model alone", "choose another folder")
        with refusals_in_words(place, "folder"):
            place.parent.mkdir(parents=True, exist_ok=True)
            with temporary_folder(place) as beside:
                save_model(beside / "model", self.model, **self._described())
                if place.exists():
                    (place / DESCRIPTION).unlink(missing_ok=True)  # without it the folder is none until all is there
                    new = [path for path in (beside / "model").rglob("*") if path.is_file()]
                    for path in sorted(new, key=lambda path: path.name == DESCRIPTION):
                        target = place / path.relative_to(beside / "model")
                        target.parent.mkdir(exist_ok=True)
                        move_into_place(path, target)
                else:
                    (beside / "model").rename(place)
            flush(place.parent)

    def save_description(self, folder: Path) -> None:
        """Writes all of a model folder but the weights into `folder`."""
        save_description(folder, self.model.config, parts=self.model.parts, **self._described())

    def _described(self) -> dict[str, Any]:
        return {
            "tokenizers": self.tokenizers, "decode": self.decode, "labels": self.labels, "languages": self.languages,
            "text": self.text, "task": self.task.name,
            "card": self.card or plain_card(self.task, self.model.config, self.languages),
        }  # fmt: skip

    @property
    def device(self) -> "torch.device":
        """The device that it computes on."""
        found: torch.device = next(self.model.parameters()).device
        return found

    def __repr__(self) -> str:
        source, target = self.tokenizers.source, self.tokenizers.target
        sides = {source.kind: source.size}
        if self.task.family == "encoder-decoder" and source is not target:
            sides = {f"source {source.kind}": source.size, f"target {target.kind}": target.size}
        tokens = ", ".join(f"{name} of {size:,}" for name, size in sides.items())
        return f"{type(self).__name__}({'; '.join([self._about(), tokens, *self._traits()])})"

    def _about(self) -> str:
        """Returns what a summary says of the model."""
        config, parameters = self.model.config, list(self.model.parameters())
        stacks = [str(n) for n in (config.num_encoder_layers, config.num_decoder_layers) if n]
        return (
            f"{type(self.model).__name__} of {' + '.join(stacks)} layers, d_model {config.d_model}, "
            f"{sum(p.numel() for p in parameters):,} parameters on {parameters[0].device}"
        )

    def add_weights(self, digest: "hashlib._Hash") -> str:
        """Adds all weights to a digest; returns the kind of device that computes with them."""
        import torch

        from pellucid.weights.tensors import parameters

        weights = parameters(self.model)
        for name, tensor in weights.items():
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
        return next(iter(weights.values())).device.type

    def _traits(self) -> list[str]:
        """Returns what a summary says beside model and vocabulary."""
        return []

    @abstractmethod
    def trace(self, *args: Any, **options: Any) -> "Trace":
        """Records all attentions of one pass over a text."""

    @abstractmethod
    def evaluate(self, *args: Any, **options: Any) -> Report:
        """Scores the model on texts, and on their translations or labels where the task has them."""

    @abstractmethod
    def answer(self, *args: Any, **options: Any) -> Sequence[Any]:
        """Answers some lines of a stream: `answer(lines, place, **options)`, where `place` lines came before.

        An answer depends on its line and its place alone.
        """

    def stream(self, *args: Any, **options: Any) -> Iterator[Any]:
        """Answers lines one after another, however many there are: at most 2,048 are held at a time.

        Raises DataError where an option of `of_lines` has not as many values as there are lines.
        """
        (lines,) = args
        of_lines = [name for name in self.of_lines if not isinstance(options.get(name), str | None)]
        given = {name: iter(options.pop(name)) for name in of_lines}
        rest, place = iter(lines), 0
        while stretch := list(islice(rest, STRETCH)):
            of_stretch = {name: list(islice(values, len(stretch))) for name, values in given.items()}
            yield from self.answer(stretch, place, **options, **of_stretch)
            place += len(stretch)
        for name, values in given.items():
            if next(values, None) is not None:
                raise DataError(f"{place:,} lines, and more of `{name}=`: each line has one", "leave the others out")


def open_task(
    folder: str | Path,
    device: "str | torch.device" = "auto",
    dtype: "str | torch.dtype | None" = None,
    *,
    revision: str | None = None,
    parts: "Parts | None" = None,
    tokenizer: GivenTokenizers | None = None,
) -> TextModel[Any]:
    """Opens the model of a folder, or of a name on the hub, as what it is for: a Translator, a Classifier, ...

    Raises what `TextModel.load` raises.
    """
    saved = open_model(folder, device, dtype, revision, parts, tokenizer)
    return class_of(TASKS[saved.task])._from_folder(folder, saved)


def check_openable(model: object, **how: object) -> None:
    """Raises ConfigError where options that say how a folder is opened are given for a model that is open."""
    if not isinstance(model, str | Path) and (needless := [name for name, value in how.items() if value is not None]):
        raise ConfigError(
            f"`{needless[0]}=` says how a folder is opened, but a {type(model).__name__} is given, which is open",
            "leave it out, or name the folder",
        )


def check_for(wanted: Task, found: Task, folder: str | Path) -> None:
    """Raises CheckpointError where the model of a folder is for another task than it is opened for."""
    if found.name != wanted.name:
        raise CheckpointError(f"`{folder}` holds {found.noun}, not {wanted.noun}", f"use {found.use}")


def class_of(task: Task) -> type[TextModel[Any]]:
    """Returns the class that does a task."""
    found: type[TextModel[Any]] = getattr(import_module(task.home), task.class_name)
    return found


def task_in(model: str | Path, revision: str | None = None) -> Task:
    """Returns the task of a folder's model (of a name on the hub at a `revision`), by its settings alone.

    A file stands for translations.

    Where there is no model it is "translate", too: whoever loads it says what is wrong, after reading the texts. Of a
    foreign encoder it is "encode" in any case: the settings do not tell whether it has a head.
    """
    if model == "-" or Path(model).is_file():
        return TASKS["translate"]
    try:
        folder = model_folder(model, revision)
        if not is_foreign(folder):
            return TASKS[read_config(folder)["task"]]
        from pellucid.weights.hugging_face.opening import foreign_task

        return foreign_task(folder)
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
    """Opens the model of a folder, or of a name on the hub (at a `revision`), whatever it is for."""
    from pellucid.weights.opening import open_folder

    _compute_alone_in_forks()
    place = find_device(str(device)), find_dtype(dtype)
    return open_folder(model_folder(folder, revision), *place, parts, tokenizer)


def model_folder(name: str | Path, revision: str | None = None) -> Path:
    """Returns a model's folder; of `org/model`, where no such path can be meant, the one in the hub's cache.

    `org/model@v2` is the model at a branch, a tag or a commit; so is `revision="v2"`, which folders do not have.
    Raises ConfigError for a revision of a folder, CheckpointError where the hub and its cache have no such model.
    """
    from pellucid.weights.hugging_face.hub import find_folder, is_hub_name

    path = Path(name)
    if is_hub_name(name) and "/" in str(name).partition("@")[0] and not path.parent.exists():
        return find_folder(name, revision)
    if revision is not None:
        raise ConfigError(f"`revision` ({revision}) is for a name on the hub, but `{name}` is a folder", "leave it out")
    return path


def tokenizers_of(saved: SavedModel, folder: str | Path | None = None) -> Tokenizers:
    """Returns the tokenizers of a saved model. Raises CheckpointError, with its folder where known, if it has none."""
    if saved.tokenizers is None:
        place = "the model" if folder is None else f"the model in `{folder}`"
        raise CheckpointError(
            f"{place} has no tokenizer, so it cannot read text", "copy the tokenizer's files into its folder"
        )
    return saved.tokenizers


def find_device(name: str) -> "torch.device":
    """Returns the device called `name`; "auto" takes CUDA, then MPS, then the CPU.

    Raises ConfigError where this machine has no such device.
    """
    import torch

    available = ["cpu"]
    if torch.backends.mps.is_available():
        available.insert(0, "mps")
    if torch.cuda.is_available():
        available.insert(0, "cuda")
    if name == "auto":
        return torch.device(available[0])
    hint = f"this machine has: auto, {', '.join(available)}"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"unknown device `{name}`{did_you_mean(name, available)}", hint) from error
    if device.type not in available or (device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()):
        raise ConfigError(f"device `{name}` is not on this machine", hint)
    return device


def find_dtype(name: "str | torch.dtype | None") -> "torch.dtype | None":
    """Returns the precision called `name`; None: as the weights are. Raises ConfigError for an unknown one."""
    import torch

    if name is None or (isinstance(name, torch.dtype) and name.is_floating_point):
        return name
    if name not in DTYPES:
        of_another = ', or load it with `engine="ctranslate2"`, which has 8 bits' if str(name).startswith("int") else ""
        raise ConfigError(
            f"unknown dtype `{name}`{did_you_mean(str(name), DTYPES)}",
            f"choose one of {', '.join(DTYPES)}{of_another}",
        )
    found: torch.dtype = getattr(torch, str(name))
    return found


def listed(texts: Sequence[str]) -> list[str]:
    """Returns a list of lines.

    Raises DataError for a single text, whose characters would pass for lines, and for what holds anything but texts.
    """
    found = several(texts)
    for number, text in enumerate(found, start=1):
        if not isinstance(text, str):
            raise DataError(
                f"line {number} is no text but {'None' if text is None else f'of type {type(text).__name__}'}",
                "give a list of str; an empty line is ''",
            )
    return found


def several(texts: Sequence[T]) -> list[T]:
    """Returns a list of what may be texts. Raises DataError for a single text, or what is not a list."""
    if isinstance(texts, str):
        raise DataError(f"a list of lines is wanted, not one text of {len(texts):,} characters", "write [text]")
    if not isinstance(texts, Iterable):
        raise DataError(
            f"a list of lines is wanted, not {'None' if texts is None else type(texts).__name__}", "write [text]"
        )
    return list(texts)


def check_batch_tokens(batch_tokens: int | None) -> None:
    """Raises ConfigError for less than one token at a time; None is the model's own number."""
    if batch_tokens is not None and batch_tokens < 1:
        raise ConfigError(f"`batch_tokens` ({shown(batch_tokens)}) must be at least 1")


def listing(names: Iterable[str]) -> str:
    """Returns the first names, and how many more there are."""
    found = list(names)
    return ", ".join(found[:FEW]) + (f" and {len(found) - FEW} more" if len(found) > FEW else "")


def _is_model_alone(folder: Path) -> bool:
    """Tells whether a folder holds a model of ours that is not a run's."""
    return is_described(folder) and not (folder / RECIPE).exists()


def _card_in(folder: Path) -> str:
    """Returns the model card in a folder of ours; empty where there is none that can be read."""
    with suppress(CheckpointError):
        return "" if is_foreign(folder) else read_text(folder / CARD, MOST_SETTINGS_BYTES)
    return ""


@cache
def _compute_alone_in_forks() -> None:
    """Has a process that is forked off compute in one thread.

    It gets none of its parent's threads, and the library that hands work to them (OpenMP) waits for them for ever.
    """
    import torch

    if hasattr(os, "register_at_fork"):  # Windows does not fork
        os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))
