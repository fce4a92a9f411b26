"""What tasks share: which one a folder is for, devices, precisions, lists of lines, and what print() says."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from pellucid.config import TASKS, DecodeConfig
from pellucid.config.tasks import TrainedTask
from pellucid.errors import ConfigError, DataError
from pellucid.tasks.classifier import Classifier
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.task import TextModel, check_lines, detect_task, find_device, find_dtype, get_task_class
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary
from tests.unit.decoding.models import random_model
from tests.unit.tracing.models import classifier, decoder, encoder

LETTERS = Vocabulary("characters", tuple("abcdefghijklmnopqrs"))
WORDS = Vocabulary("words", tuple("abcdefghijklmnopqrs"))
PAIR = TokenizerPair(LETTERS, LETTERS)


@pytest.mark.parametrize(
    ("kind", "task"),
    [("llama", "generate"), ("gpt2", "generate"), ("marian", "translate"), ("t5", "translate"), ("bert", "encode")],
)
def test_a_foreign_folder_tells_by_its_settings(kind: str, task: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}), encoding="utf-8")
    assert detect_task(str(tmp_path)).name == task


def test_a_folder_of_ours_and_what_is_none(finished_run: Path, tmp_path: Path) -> None:
    """Whoever loads what is no model says what is wrong with it."""
    assert detect_task(str(finished_run)).name == "translate"
    for text in ('{"model_type": "mamba"}', '{"model_type": 3}', "{", "[]"):
        (tmp_path / "config.json").write_text(text, encoding="utf-8")
        assert detect_task(str(tmp_path)).name == "translate"
    assert detect_task(str(tmp_path / "nothing")).name == "translate"
    assert detect_task(str(tmp_path / "config.json")).name == "translate"  # a file: of translations
    assert detect_task("-").name == "translate"


def test_each_task_has_the_class_that_its_record_names() -> None:
    for name, task in TASKS.items():
        found = get_task_class(task)
        assert issubclass(found, TextModel)
        assert (found.task, task.name) == (task, name)
        assert not task.method or callable(getattr(found, task.method))
    assert get_args(TrainedTask) == tuple(name for name, task in TASKS.items() if task.trained_on)


@pytest.mark.parametrize(
    ("task", "model", "message"),
    [
        (
            Translator,
            decoder,
            "a Translator needs an encoder and a decoder, but the DecoderOnly has 0 encoder layers, ",
        ),
        (Classifier, encoder, "a Classifier needs an encoder alone and classes, but the EncoderOnly has 2 encoder "),
        (
            LanguageModel,
            encoder,
            "a LanguageModel needs a decoder alone, but the EncoderOnly has 2 encoder layers, 0 ",
        ),
    ],
)
def test_a_model_of_another_shape(task: Any, model: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        task(model(), PAIR)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with nothing but its CPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    return monkeypatch


def test_auto_takes_the_fastest_there_is(machine: pytest.MonkeyPatch) -> None:
    assert find_device("auto") == find_device("cpu") == torch.device("cpu")
    machine.setattr(torch.backends.mps, "is_available", lambda: True)
    assert find_device("auto") == torch.device("mps")
    machine.setattr(torch.cuda, "is_available", lambda: True)
    assert find_device("auto") == torch.device("cuda")


@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps", "meta"])
def test_a_device_that_is_not_there(machine: pytest.MonkeyPatch, name: str) -> None:
    with pytest.raises(ConfigError, match=f"device `{name}` is not available on this machine") as caught:
        find_device(name)
    assert caught.value.hint == "available are auto, cpu"


def test_the_second_of_one_gpu(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(torch.cuda, "is_available", lambda: True)
    machine.setattr(torch.cuda, "device_count", lambda: 1)
    assert find_device("cuda:0") == torch.device("cuda:0")
    with pytest.raises(ConfigError, match="device `cuda:1` is not available on this machine") as caught:
        find_device("cuda:1")
    assert caught.value.hint == "available are auto, cuda, cpu"


@pytest.mark.parametrize(
    ("name", "message"),
    [("gpu", "unknown device `gpu`"), ("cup", "unknown device `cup`; did you mean `cpu`"), ("", "unknown device ``")],
)
def test_an_unknown_device(machine: pytest.MonkeyPatch, name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        find_device(name)
    assert caught.value.hint == "available are auto, cpu"


def test_precisions() -> None:
    assert find_dtype(None) is None
    assert find_dtype("bfloat16") is find_dtype(torch.bfloat16) is torch.bfloat16
    assert find_dtype("float32") is torch.float32
    assert find_dtype(torch.float64) is torch.float64


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bf16", "unknown dtype `bf16`"),
        ("bfloat", "unknown dtype `bfloat`; did you mean `bfloat16`"),
        (torch.int64, r"unknown dtype `torch\.int64`"),
    ],
)
def test_an_unknown_precision(name: str | torch.dtype, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        find_dtype(name)
    assert caught.value.hint == "choose one of float32, bfloat16, float16"


CALLS: dict[str, Callable[[Any], object]] = {
    "translate": lambda texts: Translator(random_model(1, LETTERS.size), PAIR).translate(texts),
    "sample": lambda texts: Translator(random_model(1, LETTERS.size), PAIR).sample(texts),
    "score": lambda texts: Translator(random_model(1, LETTERS.size), PAIR).score(texts, texts),
    "generate": lambda texts: LanguageModel(decoder(), PAIR).generate(texts),
    "score-text": lambda texts: LanguageModel(decoder(), PAIR).score(texts),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([None], "line 1 is not a str but None"),
        (["a", b"b"], "line 2 is not a str but of type bytes"),
        (None, "expected a list of lines, not None"),
        (7, "expected a list of lines, not int"),
        ("abc", "expected a list of lines, not one text of 3 characters"),
    ],
    ids=["none-in-it", "bytes", "none", "number", "text"],
)
def test_what_is_no_list_of_texts(name: str, texts: Any, message: str) -> None:
    with pytest.raises(DataError) as caught:
        CALLS[name](texts)
    assert str(caught.value) == message
    assert caught.value.hint in ("pass [text]", "pass a list of str; an empty line is ''")


def test_a_classifier_is_told_as_well() -> None:
    judge = Classifier(classifier(), PAIR)
    with pytest.raises(DataError, match="text 2 is neither a string nor a pair of strings: \\(None, None\\)"):
        judge.classify(["a", None])  # type: ignore[list-item]
    with pytest.raises(DataError, match="expected a list of lines, not None"):
        judge.classify(None)  # type: ignore[arg-type]


def test_any_iterable_of_texts_is_a_list() -> None:
    assert check_lines(text for text in "ab") == ["a", "b"]  # type: ignore[arg-type]


def test_a_translator() -> None:
    model = random_model(1, LETTERS.size)
    count = sum(p.numel() for p in model.parameters())
    about = f"Translator(Transformer of 1 + 1 layers, d_model 16, {count:,} parameters on cpu; "
    assert repr(Translator(model, PAIR)) == about + "characters of 23; beam_size 5)"
    several = Translator(model, TokenizerPair(WORDS, LETTERS), DecodeConfig(beam_size=2), dict.fromkeys("abcdef", 3))
    assert repr(several) == (
        about + "source words of 23, target characters of 23; beam_size 2; languages a, b, c, d and 2 more)"
    )


def test_a_classifier_and_a_language_model() -> None:
    judge, writer = Classifier(classifier(), PAIR, ("bad", "good", "so so")), LanguageModel(decoder(), PAIR)
    assert repr(judge).startswith("Classifier(SequenceClassifier of 2 layers, d_model 12, ")
    assert repr(judge).endswith(" parameters on cpu; characters of 23; labels bad, good, so so)")
    assert repr(writer).startswith("LanguageModel(DecoderOnly of 2 layers, d_model 12, ")
    assert repr(writer).endswith(" parameters on cpu; characters of 23; reads continuous text)")
