"""`save`: a model folder as a run writes one, whatever the model is for and wherever it came from."""

from pathlib import Path
from typing import Any

import pytest
import torch

import pellucid
from pellucid.config import DecodeConfig
from pellucid.errors import ConfigError
from pellucid.run.run import train
from pellucid.tasks.classifier import Classifier
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.task import TextModel, open_task
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.training_text import TrainingTextStats
from pellucid.text.vocabulary import Vocabulary
from pellucid.weights.tensors import parameters
from tests.other_tasks import (
    CLASSIFY,
    GENERATE,
    RUNNING,
    labelled_letters,
    small_recipe_for,
    write_alphabet,
    write_labelled,
)
from tests.unit.decoding.models import random_model
from tests.unit.run.test_run import contents
from tests.unit.tracing.models import classifier, decoder

LETTERS = Vocabulary("characters", tuple("abcdefghijklmnopqrs"))
WORDS = Vocabulary("words", tuple("abcdefghijklmnopqrs"))
PAIR = TokenizerPair(LETTERS, LETTERS)
MODEL_FILES = {"pellucid.json", "config.json", "model.safetensors", "README.md"}


def check_as_the_run(run: Path, new: Path) -> None:
    """Compares what was saved with the run that it was loaded from, byte by byte."""
    saved = contents(new)
    assert set(saved) > MODEL_FILES
    assert saved == {name: (run / name).read_bytes() for name in saved}


def test_a_translator_of_a_run(finished_run: Path, tmp_path: Path) -> None:
    translator = Translator.load(finished_run, "cpu")
    translator.save(tmp_path / "deep" / "new")
    check_as_the_run(finished_run, tmp_path / "deep" / "new")
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["new"]
    again = Translator.load(tmp_path / "deep" / "new", "cpu")
    assert again.translate(["a b c", "d e"]) == translator.translate(["a b c", "d e"])


@pytest.mark.slow
def test_a_classifier_of_a_run(tmp_path: Path) -> None:
    src, labels = write_labelled(tmp_path, labelled_letters(60))
    train(small_recipe_for(CLASSIFY, src, labels), tmp_path / "run", device="cpu", quiet=True)
    Classifier.load(tmp_path / "run", "cpu").save(tmp_path / "new")
    check_as_the_run(tmp_path / "run", tmp_path / "new")
    assert Classifier.load(tmp_path / "new", "cpu").labels == ("early", "late")


@pytest.mark.slow
@pytest.mark.parametrize("task", [GENERATE, RUNNING], ids=["lines", "continuous"])
def test_a_language_model_of_a_run(tmp_path: Path, task: tuple[str, ...]) -> None:
    train(small_recipe_for(task, write_alphabet(tmp_path), ""), tmp_path / "run", device="cpu", quiet=True)
    LanguageModel.load(tmp_path / "run", "cpu").save(tmp_path / "new")
    check_as_the_run(tmp_path / "run", tmp_path / "new")
    new = LanguageModel.load(tmp_path / "new", "cpu")
    assert new.reads_lines == (task is GENERATE)


MADE: dict[str, Any] = {
    "translator": lambda: Translator(
        random_model(1, LETTERS.size), TokenizerPair(WORDS, LETTERS), DecodeConfig(beam_size=2, suppress_tokens=(4,)),
        {"aa": 5, "bb": 6}, TrainingTextStats(sentence_ends=1.0, several_sentences=0.0, source_length=12),
    ),
    "classifier": lambda: Classifier(classifier(), PAIR, ("bad", "good", "so so"), 99),
    "language model": lambda: LanguageModel(decoder(), PAIR, DecodeConfig(source_prefix=(1,))),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_what_was_put_together_by_hand(name: str, tmp_path: Path) -> None:
    made: TextModel[Any] = MADE[name]()
    made.save(tmp_path / "one")
    found = open_task(tmp_path / "one", "cpu")
    assert type(found) is type(made)
    assert (found.decode, found.labels, found.languages, found.text) == (
        made.decode, made.labels, made.languages, made.text
    )  # fmt: skip
    for (_, one), (_, other) in zip(parameters(made.model).items(), parameters(found.model).items(), strict=True):
        assert torch.equal(one, other)
    found.save(str(tmp_path / "two"))
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
    card = (tmp_path / "one" / "README.md").read_text(encoding="utf-8")
    assert f"print(pellucid.{type(made).__name__}.load(" in card
    assert str(tmp_path) not in card


def test_a_half_precision_model_keeps_its_precision_on_the_disk(tmp_path: Path) -> None:
    made = MADE["translator"]()
    made.save(tmp_path / "one")
    Translator.load(tmp_path / "one", "cpu", "bfloat16").save(tmp_path / "half")
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("one", "half")]
    assert sizes[1] < 0.6 * sizes[0]


def test_an_earlier_model_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    MADE["classifier"]().save(tmp_path / "new")
    MADE["language model"]().save(tmp_path / "new")
    assert isinstance(open_task(tmp_path / "new", "cpu"), LanguageModel)
    assert not list(tmp_path.glob(".*"))


def test_nothing_else_is_replaced(finished_run: Path, tmp_path: Path) -> None:
    made = MADE["translator"]()
    before = (finished_run / "pellucid.json").read_bytes(), (finished_run / "model.safetensors").read_bytes()
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")
    for place in (finished_run, tmp_path / "file", tmp_path):
        with pytest.raises(ConfigError, match="already exists, and contains more than a model") as caught:
            made.save(place)
        assert str(place) in str(caught.value)
        assert caught.value.hint == "choose another folder"
    assert before == ((finished_run / "pellucid.json").read_bytes(), (finished_run / "model.safetensors").read_bytes())
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "mine"


def test_one_that_was_changed_is_saved_as_it_is_now(finished_run: Path, tmp_path: Path) -> None:
    translator = pellucid.Translator.load(finished_run, "cpu")
    with torch.no_grad():
        translator.model.output_projection.weight.mul_(2.0)
    translator.save(tmp_path / "new")
    pairs = ["a b c"], ["c b a"]
    assert Translator.load(tmp_path / "new", "cpu").score(*pairs) == translator.score(*pairs)
    assert Translator.load(finished_run, "cpu").score(*pairs) != translator.score(*pairs)
