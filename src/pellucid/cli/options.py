"""Options that several verbs share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args

import tyro


@dataclass(frozen=True)
class Choices:
    """Lists the words from which a shell completes an option's value; other values may be allowed, too."""

    words: Callable[[], Sequence[str]]

    @classmethod
    def from_words(cls, *words: str) -> "Choices":
        """Returns the choices with these words."""
        return cls(lambda: words)


@dataclass(frozen=True)
class RepeatedOption:
    """Marks an option that is repeated for further files: a second value after the option is an error."""

    otherwise: str
    """The hint for another use of the second value, with its option."""


class SingleOption:
    """Marks an option that takes one text: giving it twice is an error."""


def _recipes() -> Sequence[str]:
    from pellucid.config import list_shipped_recipes

    return list(list_shipped_recipes())


def _settings() -> Sequence[str]:
    from pellucid.config import KEYS

    return [f"{section}.{key}=" for section, keys in KEYS.items() if section for key in keys]


def _list_bad_utf8_choices() -> Sequence[str]:
    from pellucid.config.data import OnBadUtf8

    return get_args(OnBadUtf8)


def _metrics() -> Sequence[str]:
    from pellucid.config import TASKS

    return list(dict.fromkeys(metric for task in TASKS.values() for metric in task.metrics))


def _dtypes() -> Sequence[str]:
    from pellucid.tasks.task import DTYPES

    return DTYPES


def _engine_dtypes() -> Sequence[str]:
    from pellucid.engines.ctranslate2 import DTYPES

    return list(dict.fromkeys([*_dtypes(), *DTYPES]))


def _engines() -> Sequence[str]:
    from pellucid.engines import ENGINES

    return ENGINES


RECIPES, SETTINGS = Choices(_recipes), Choices(_settings)
METRICS = Choices(_metrics)
ATTENTIONS = Choices.from_words("encoder.self", "decoder.self", "cross")
ON_BAD_UTF8 = Choices(_list_bad_utf8_choices)


def optional(metavar: str, help: str, default: str = "from the model") -> Any:
    """Returns the description of an optional argument; `default` describes its default."""
    return tyro.conf.arg(metavar=metavar, help=help, help_behavior_hint=f"(default: {default})")


def mandatory(metavar: str, help: str) -> Any:
    """Returns the description of an option that is required, and whose absence the verb itself reports."""
    return tyro.conf.arg(metavar=metavar, help=help, help_behavior_hint="(required)")


def flag(help: str) -> Any:
    """Returns the description of a switch, which is off by default."""
    return tyro.conf.arg(help=help, help_behavior_hint="")


Model = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL", help="run folder or model folder")]
Text = Annotated[
    str | None,
    tyro.conf.Positional,
    optional("[TEXT]", "text to process, instead of the lines of --input", "the lines of --input"),
]
Revision = Annotated[
    str | None, optional("REV", "branch, tag or commit of a model on the Hugging Face hub", "the newest")
]
Device = Annotated[
    str,
    tyro.conf.arg(metavar="NAME", help="device to compute on: auto, cpu, cuda, cuda:1, mps"),
    Choices.from_words("auto", "cpu", "cuda", "mps"),
]
Dtype = Annotated[
    str | None,
    optional("NAME", "data type: float32, bfloat16 or float16", "float32"),
    Choices(_dtypes),
]
Engine = Annotated[
    str,
    optional(
        "NAME",
        "auto: compiled if it is installed and supports the model, else torch; torch, the reference; compiled (extra "
        "fast): the same search, compiled once for the processor; or ctranslate2 (extra ct2), which starts faster, but "
        "near ties may change from batch to batch, and its beam search stops by another rule",
        "auto",
    ),
    Choices(_engines),
]
EngineDtype = Annotated[
    str | None,
    optional("NAME", "data type: float32, bfloat16 or float16; ctranslate2 also int8, int16 and others", "float32"),
    Choices(_engine_dtypes),
]
Threads = Annotated[int | None, optional("N", "processor cores to use", "all")]
ThreadsOfAWorker = Annotated[
    int | None,
    optional("N", "processor cores to use; with --workers the cores of each worker", "all, or an equal share"),
]
Workers = Annotated[
    int,
    tyro.conf.arg(metavar="N", help="parallel processes, each with its copy of the model; useful for many lines"),
]
Input = Annotated[str, tyro.conf.arg(metavar="FILE", help="input file, one text per line; - is standard input")]
Output = Annotated[str, tyro.conf.arg(metavar="FILE", help="output file; - is standard output", aliases=["-o"])]
OnBadLines = Annotated[
    str,
    tyro.conf.arg(
        metavar="WORD",
        help="for a line that is not UTF-8: error, replace the bad bytes, or skip, which gives an empty line",
    ),
    ON_BAD_UTF8,
]
FreshOutput = Annotated[bool, flag("start again, instead of resuming the partial --output of an interrupted command")]
SourceLanguage = Annotated[str | None, optional("CODE", "source language code, for a multilingual model")]
TargetLanguage = Annotated[
    str | None, optional("CODE", "target language code, for a multilingual model, and for the labels of a document")
]
Settings = Annotated[
    tuple[str, ...],
    optional("KEY=VALUE", "setting that replaces the recipe's, as in train.steps=500; may be repeated", "none"),
    tyro.conf.UseAppendAction,
    SETTINGS,
]
PictureOutput = Annotated[
    str, tyro.conf.arg(metavar="FILE", help="output file; its extension selects the format", aliases=["-o"])
]
PictureWidth = Annotated[
    str | None, optional("WIDTH", "picture width: column or page of a journal, or millimetres", "by content")
]


Members = Annotated[
    tuple[str, ...],
    optional(
        "MODEL [MODEL ...]", "further models of an ensemble with MODEL: their log-probabilities are averaged", "none"
    ),
]


def prepare_process(threads: int | None, workers: int = 1, engine: str = "torch") -> int | None:
    """Configures the process of a command: keeps freed memory, and sets the number of threads.

    Returns the threads of each worker. With several workers, the process itself computes nothing, and has one thread.
    If `threads` is None, PyTorch's default is used (all cores), or an equal share for each worker. Another engine gets
    its threads when a model is loaded. Raises ConfigError if `threads` or `workers` is below 1.
    """
    from pellucid.process import keep_freed_memory

    keep_freed_memory()
    if threads is None and workers == 1:
        return None
    from pellucid.errors import ConfigError, format_argument

    for name, count in (("workers", workers), ("threads", threads)):
        if count is not None and count < 1:
            raise ConfigError(f"{format_argument(name, count)} must be at least 1")
    if engine == "ctranslate2":
        if workers > 1:
            raise ConfigError(
                f"{format_argument('workers', workers)} is for other engines: {engine} itself computes one batch "
                "per thread",
                f"use {format_argument('threads', workers)}",
            )
        return None
    import torch

    each = threads or max(1, torch.get_num_threads() // workers)
    torch.set_num_threads(1 if workers > 1 else each)
    return each


def make_engine_arguments(engine: str, threads: int | None) -> dict[str, Any]:
    """Returns the arguments of `Translator.load` for an engine; CTranslate2 alone has threads of its own."""
    return {"engine": engine, "threads": threads if engine == "ctranslate2" else None}


def add_revision(model: str, revision: str | None) -> str:
    """Returns the name of a hub model with its revision. Raises ConfigError for a path, or for another revision."""
    if revision is None:
        return model
    from pellucid.errors import ConfigError, format_value
    from pellucid.weights.hugging_face.hub import is_hub_name

    name, _, named = model.partition("@")
    if named and named != revision:
        raise ConfigError(
            f"`{format_value(model)}` and `--revision {format_value(revision)}` name different revisions",
            "leave one out",
        )
    if "/" not in name or not is_hub_name(found := f"{name}@{revision}") or not is_hub_name(name):
        raise ConfigError(
            f"`--revision {format_value(revision)}` requires a model on the hub, but `{format_value(model)}` is not",
            "leave --revision out, or name `org/model`",
        )
    return found
