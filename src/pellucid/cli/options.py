"""Options that several verbs share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import tyro


@dataclass(frozen=True)
class Choices:
    """Says from which words a shell completes what an option takes; others may be allowed, too."""

    words: Callable[[], Sequence[str]]

    @classmethod
    def of(cls, *words: str) -> "Choices":
        """Returns the choice between these words."""
        return cls(lambda: words)


@dataclass(frozen=True)
class OneEach:
    """Says of an option that is given again for another file that a word behind its file is refused."""

    otherwise: str
    """Another use of such a word, with its option."""


class OneOnly:
    """Says of an option that is given once that a second text is refused, in place of the first one."""


def _recipes() -> Sequence[str]:
    from pellucid.config import shipped_recipes

    return list(shipped_recipes())


def _settings() -> Sequence[str]:
    from pellucid.config import KEYS

    return [f"{section}.{key}=" for section, keys in KEYS.items() if section for key in keys]


def _views() -> Sequence[str]:
    from pellucid.views import OF_TRACES

    return OF_TRACES


def _on_bad_utf8() -> Sequence[str]:
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
    from pellucid.tasks.translator import ENGINES

    return ["torch", *ENGINES]


RECIPES, SETTINGS = Choices(_recipes), Choices(_settings)
VIEWS = Choices(_views)
METRICS = Choices(_metrics)
ATTENTIONS = Choices.of("encoder.self", "decoder.self", "cross")
ON_BAD_UTF8 = Choices(_on_bad_utf8)


def optional(metavar: str, help: str, default: str = "the model's own") -> Any:
    """Returns the description of an option that may be left out; `default` says what holds then."""
    return tyro.conf.arg(metavar=metavar, help=help, help_behavior_hint=f"(default: {default})")


def flag(help: str) -> Any:
    """Returns the description of a switch, which is off where it is not given."""
    return tyro.conf.arg(help=help, help_behavior_hint="")


Model = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL", help="a run folder or a model folder")]
Text = Annotated[
    str | None,
    tyro.conf.Positional,
    optional("[TEXT]", "a text, in place of the lines of --input", "the lines of --input"),
]
Revision = Annotated[
    str | None, optional("REV", "of a MODEL on Hugging Face's hub: a branch, a tag or a commit", "its newest")
]
Device = Annotated[
    str, tyro.conf.arg(metavar="NAME", help="auto, cpu, cuda, cuda:1, mps"), Choices.of("auto", "cpu", "cuda", "mps")
]
Dtype = Annotated[
    str | None,
    optional("NAME", "float32, bfloat16 or float16", "float32"),
    Choices(_dtypes),
]
Engine = Annotated[
    str,
    optional(
        "NAME",
        "torch, the reference; or ctranslate2 (the extra ct2): faster and quicker to start, but a near tie may fall "
        "otherwise from batch to batch, and its beams stop by another rule",
        "torch",
    ),
    Choices(_engines),
]
EngineDtype = Annotated[
    str | None,
    optional("NAME", "float32, bfloat16 or float16; of ctranslate2 int8, int16 and others, too", "float32"),
    Choices(_engine_dtypes),
]
Threads = Annotated[int | None, optional("N", "processor cores that its arithmetic may take", "all")]
ThreadsOfAWorker = Annotated[
    int | None,
    optional("N", "processor cores that its arithmetic may take; with --workers each one's", "all, or an equal share"),
]
Workers = Annotated[
    int,
    tyro.conf.arg(metavar="N", help="processes that answer lines side by side, each with the model; for many lines"),
]
Input = Annotated[str, tyro.conf.arg(metavar="FILE", help="lines to read; - is standard input")]
Output = Annotated[str, tyro.conf.arg(metavar="FILE", help="where to write; - is standard output")]
OnBadLines = Annotated[
    str,
    tyro.conf.arg(
        metavar="WORD", help="a line that is not UTF-8: error, replace bad bytes, or skip, which leaves an empty line"
    ),
    ON_BAD_UTF8,
]
FreshOutput = Annotated[bool, flag("begin anew where a stopped command has left the beginning of --output")]
SourceLanguage = Annotated[str | None, optional("CODE", "of a multilingual model: what it reads")]
TargetLanguage = Annotated[str | None, optional("CODE", "of a multilingual model: what it writes")]
BeamSize = Annotated[int | None, optional("N", "hypotheses kept a step; 1 is greedy")]
Segment = Annotated[
    Literal["auto", "off"] | None, optional("MODE", "cut lines into sentences (auto) or not (off)", "auto")
]
LengthPenalty = Annotated[float | None, optional("X", "rank by log-probability / length ** X")]
Settings = Annotated[
    tuple[str, ...],
    optional("KEY=VALUE", "a setting that wins over the recipe's, as in train.steps=500; again for another", "none"),
    tyro.conf.UseAppendAction,
    SETTINGS,
]
PictureOutput = Annotated[
    str, tyro.conf.arg(metavar="FILE", help="where to write; its ending says what", aliases=["-o"])
]
PictureWidth = Annotated[
    str | None, optional("WIDTH", "of the picture: column or page of a journal, or millimetres", "as it comes out")
]


Members = Annotated[
    tuple[str, ...],
    optional(
        "MODEL [MODEL ...]", "models that write together with MODEL: their log-probabilities are averaged", "none"
    ),
]


def prepare_process(threads: int | None, workers: int = 1, engine: str = "torch") -> int | None:
    """Sets what a command wants of its process: freed memory that is kept, and the threads of its arithmetic.

    Returns the threads of each worker; where there are several, the process itself computes nothing, and takes one.
    `threads` None: as many as PyTorch takes, which is all cores, or a worker's share of them. Another engine is told
    when a model is loaded, and has workers of its own. Raises ConfigError for fewer than one of either.
    """
    from pellucid.process import keep_freed_memory

    keep_freed_memory()
    if threads is None and workers == 1:
        return None
    from pellucid.errors import ConfigError, argument

    for name, count in (("workers", workers), ("threads", threads)):
        if count is not None and count < 1:
            raise ConfigError(f"{argument(name, count)} must be at least 1")
    if engine != "torch":
        if workers > 1:
            raise ConfigError(
                f"{argument('workers', workers)} is for the engine torch: {engine} works on a batch a thread by itself",
                f"use {argument('threads', workers)}",
            )
        return None
    import torch

    each = threads or max(1, torch.get_num_threads() // workers)
    torch.set_num_threads(1 if workers > 1 else each)
    return each


def on_engine(engine: str, threads: int | None) -> dict[str, Any]:
    """Returns what `Translator.load` is told of an engine; PyTorch's threads are the process's."""
    return {"engine": engine, "threads": None if engine == "torch" else threads}


def at_revision(model: str, revision: str | None) -> str:
    """Returns the name of a hub's model with its revision. Raises ConfigError for a path, or where it has another."""
    if revision is None:
        return model
    from pellucid.errors import ConfigError, shown
    from pellucid.weights.hugging_face.hub import is_hub_name

    name, _, named = model.partition("@")
    if named and named != revision:
        raise ConfigError(f"`{shown(model)}` names a revision, and `--revision {shown(revision)}` another", "give one")
    if "/" not in name or not is_hub_name(found := f"{name}@{revision}") or not is_hub_name(name):
        raise ConfigError(
            f"`--revision {shown(revision)}` is of a model on the hub, and `{shown(model)}` is none",
            "leave it out, or name `org/model`",
        )
    return found
