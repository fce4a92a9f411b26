"""Threads that trace and translate with one model get what each would get alone.

A hook runs another thread's whole task in the middle of a pass, so that what could be mixed up is; and threads that
run freely do the same without one.
"""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pellucid.analysis.ablation import Head, disable_heads
from pellucid.config import DecodeConfig
from pellucid.model.transformer import Transformer
from pellucid.tasks.classifier import Classifier
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.tracing import trace
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary
from pellucid.tracing.trace import Trace
from pellucid.views.model_summary import summarize_pass
from pellucid.weights.folder import SavedModel
from tests.unit.decoding.models import random_model
from tests.unit.tracing.models import classifier, decoder, transformer

LETTERS = Vocabulary("characters", tuple("abcdefghijklmnopqrs"))
PAIR = TokenizerPair(LETTERS, LETTERS)
Task = tuple[nn.Module, Callable[[str], Any]]
"""A model, and what is done with it and a text."""

READING = ("trace-target", "walk", "trace-class", "classify")
WRITING = ("trace-search", "translate", "trace-text", "generate")


@pytest.fixture(scope="module")
def tasks() -> dict[str, Task]:
    torch.manual_seed(0)
    translator = Translator(random_model(3, LETTERS.size), PAIR, DecodeConfig(beam_size=3, max_length=8))
    saved = SavedModel(translator.model, PAIR, translator.decode, "translate")
    judge, writer = Classifier(classifier(), PAIR), LanguageModel(decoder(), PAIR)
    return {
        "trace-search": (translator.model, translator.trace),
        "trace-target": (translator.model, lambda text: translator.trace(text, "cab")),
        "translate": (translator.model, lambda text: translator.translate([text, "head"], n_best=2)),
        "walk": (translator.model, lambda text: summarize_pass(saved, text)),
        "trace-class": (judge.model, judge.trace),
        "classify": (judge.model, lambda text: judge.classify([text, "fed"])),
        "trace-text": (writer.model, writer.trace),
        "generate": (writer.model, lambda text: writer.generate([text], max_new_tokens=6, temperature=1.0, seed=3)),
    }


def told(found: Any, folder: Path) -> Any:
    """What can be compared: of a trace its file, of anything else itself."""
    return found.save(folder / "one.trace").read_bytes() if isinstance(found, Trace) else found


@pytest.fixture(scope="module")
def worker() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def interrupted(model: nn.Module, task: Callable[[], Any], other: Callable[[], Any], worker: ThreadPoolExecutor) -> Any:
    """What `task` and `other` find, where `other` runs in another thread before the first attention of `task`."""
    found: list[Any] = []

    def between(*_: Any) -> None:
        if not found:
            found.append(None)
            found[0] = worker.submit(other).result()

    with watched(model, between):
        return task(), found[0]


@contextmanager
def watched(model: nn.Module, watcher: Callable[..., None]) -> Iterator[None]:
    """Has the first attention of a model tell somebody of each call; so its work is done by its modules."""
    first = next(module for name, module in model.named_modules() if name.endswith("self_attn"))
    hook = first.register_forward_pre_hook(watcher)
    try:
        yield
    finally:
        hook.remove()


@pytest.mark.parametrize("other", WRITING)
@pytest.mark.parametrize("name", READING + WRITING)
def test_another_threads_task_in_the_middle_changes_neither(
    name: str, other: str, tasks: dict[str, Task], tmp_path: Path, worker: ThreadPoolExecutor
) -> None:
    (model, task), (_, others) = tasks[name], tasks[other]
    with watched(model, lambda *_: None):
        expected = told(task("abc"), tmp_path), told(others("deaf"), tmp_path)
    found = interrupted(model, partial(task, "abc"), partial(others, "deaf"), worker)
    assert (told(found[0], tmp_path), told(found[1], tmp_path)) == expected


@pytest.mark.slow
def test_threads_that_run_freely_find_what_one_finds(tasks: dict[str, Task], tmp_path: Path) -> None:
    jobs = [(name, text) for text in ("abc", "deaf", "high", "cabbage") for name in tasks]
    expected = [told(tasks[name][1](text), tmp_path) for name, text in jobs]
    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # so that threads take turns within an attention, not only between them
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda job: tasks[job[0]][1](job[1]), jobs))
    finally:
        sys.setswitchinterval(switching)
    assert [told(one, tmp_path) for one in found] == expected


def test_a_model_in_training_is_traced_without_leaving_training(tmp_path: Path, worker: ThreadPoolExecutor) -> None:
    """Neither the second trace, nor who trains meanwhile, finds the model in another mode."""
    model = transformer(dropout=0.5)
    expected = [told(trace(model, ids, [1, 7]), tmp_path) for ids in ([5, 6], [8, 3, 4])]
    model.train()
    modes = []

    def second() -> Trace:
        modes.append(all(module.training for module in model.modules()))
        return trace(model, [8, 3, 4], [1, 7])

    found = interrupted(model, partial(trace, model, [5, 6], [1, 7]), second, worker)
    assert [told(one, tmp_path) for one in found] == expected
    assert modes == [True]
    assert all(module.training for module in model.modules())


def test_a_head_is_off_for_who_asked(tasks: dict[str, Task], tmp_path: Path, worker: ThreadPoolExecutor) -> None:
    model, task = tasks["trace-target"]
    assert isinstance(model, Transformer)
    whole = told(task("abc"), tmp_path)
    with disable_heads(model, Head("encoder.self", 0, 0)):
        assert told(task("abc"), tmp_path) != whole
        assert told(worker.submit(task, "abc").result(), tmp_path) == whole
