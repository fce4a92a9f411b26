"""Classifiers and language models trained by the same command: what is read, kept, validated, and started from."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pellucid.config import Recipe
from pellucid.errors import ConfigError, DataError
from pellucid.run.run import train
from pellucid.tasks.classifier import Classifier
from pellucid.tasks.language_model import LanguageModel
from tests.other_tasks import (
    CLASSIFY,
    GENERATE,
    RUNNING,
    labelled_letters,
    small_recipe_for,
    write_alphabet,
    write_labelled,
)

LEARNING = ("train.steps=150", "train.learning_rate=2e-2", "model.dropout=0", "model.d_model=32", "model.d_ff=64",
            "train.label_smoothing=0", "train.validate_every=50", "train.save_every=50", "train.average=1")  # fmt: skip


def _validations(run: Path) -> list[dict[str, Any]]:
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["event"] == "validation"]


@pytest.mark.slow
def test_a_classifier_is_trained(tmp_path: Path) -> None:
    src, tgt = write_labelled(tmp_path, labelled_letters(300))
    recipe = small_recipe_for(CLASSIFY, src, tgt, "train.steps=60", "train.learning_rate=1e-2", "model.dropout=0")
    result = train(recipe, tmp_path / "run", device="cpu", quiet=True)
    assert result.valid_accuracy is not None
    assert result.valid_accuracy > 0.9
    assert result.valid_bleu is None
    classifier = Classifier.load(tmp_path / "run", "cpu")
    assert classifier.labels == ("early", "late")
    texts, labels = zip(*labelled_letters(100, seed=9), strict=True)
    right = sum(found.label == label for found, label in zip(classifier.classify(texts), labels, strict=True))
    assert right > 85
    validations = _validations(tmp_path / "run")
    assert validations[-1]["accuracy"] > 0.9
    assert "pellucid classify FOLDER" in (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    best = max(validations, key=lambda row: (row["accuracy"], -row["loss"]))
    assert best["best"]


def test_texts_and_labels_in_one_file(tmp_path: Path) -> None:
    tsv = tmp_path / "train.tsv"
    tsv.write_text("".join(f"{label}\tx\t{text}\n" for text, label in labelled_letters(60)), encoding="utf-8")
    recipe = small_recipe_for(CLASSIFY, str(tsv), "", "data.tsv_columns=[3, 1]", "train.steps=2")
    train(recipe, tmp_path / "run", device="cpu", quiet=True)
    assert Classifier.load(tmp_path / "run", "cpu").labels == ("early", "late")


def test_a_label_that_the_training_text_lacks(tmp_path: Path) -> None:
    src, tgt = write_labelled(tmp_path, labelled_letters(40))
    valid = write_labelled(tmp_path, [*labelled_letters(5), ("a b", "erly")], "valid")
    texts = f'data.valid_src="{valid[0]}"', f'data.valid_tgt="{valid[1]}"'
    with pytest.raises(DataError, match=r"^unknown label `erly` \(did you mean `early`\?\)$|^unknown label `erly`"):
        train(small_recipe_for(CLASSIFY, src, tgt, *texts), tmp_path / "run", device="cpu", quiet=True)


@pytest.mark.slow
def test_a_language_model_of_lines(tmp_path: Path) -> None:
    src = write_alphabet(tmp_path)
    recipe = small_recipe_for(GENERATE, src, "", *LEARNING)
    result = train(recipe, tmp_path / "run", device="cpu", quiet=True)
    assert result.valid_loss < 1.0
    assert (result.valid_bleu, result.valid_accuracy) == (None, None)
    model = LanguageModel.load(tmp_path / "run", "cpu")
    assert model.reads_lines
    assert model.generate(["c d e"], max_new_tokens=8)[0].text == " f g h i"
    ids = np.fromfile(tmp_path / "run" / "data" / "train" / "target.ids", np.uint16)
    assert len(ids) > 100
    assert not (tmp_path / "run" / "data" / "train" / "source.ids").exists(), "nothing is stored twice"


@pytest.mark.slow
def test_a_language_model_of_running_text(tmp_path: Path) -> None:
    src = write_alphabet(tmp_path)
    recipe = small_recipe_for(RUNNING, src, "", *LEARNING)
    train(recipe, tmp_path / "run", device="cpu", quiet=True)
    model = LanguageModel.load(tmp_path / "run", "cpu")
    assert not model.reads_lines
    config = model.model.config
    assert config.max_positions == 16, "others are never trained"
    assert model.tokenizer.decode([config.bos_id]) == "\n", "a text starts behind a line's end"
    text = Path(src).read_text(encoding="utf-8")
    tokens = [np.fromfile(tmp_path / "run" / "data" / name / "target.ids", np.uint16) for name in ("train", "valid")]
    assert model.tokenizer.decode(np.concatenate(tokens).tolist()) == text
    assert len(tokens[0]) == int(0.9 * len(text))
    with pytest.warns(UserWarning, match="has 33 tokens, prompt included, and the model has 16 positions"):
        (found,) = model.generate(["a b"], max_new_tokens=30)
    assert found.text.startswith(" c d e f g h")
    (found,) = model.generate(["\na b"], max_new_tokens=10)
    assert found.text == " c d e f g"


def test_the_loss_of_a_running_text_is_that_of_its_blocks(tmp_path: Path) -> None:
    src = write_alphabet(tmp_path)
    result = train(small_recipe_for(RUNNING, src, ""), tmp_path / "run", device="cpu", quiet=True)
    model = LanguageModel.load(tmp_path / "run", "cpu")
    text = Path(src).read_text(encoding="utf-8")
    ids = torch.tensor(model.tokenizer.encode(text[int(0.9 * len(text)) :]))
    total = 0.0
    with torch.no_grad():
        for start in range(0, len(ids) - 1, 16):
            block = ids[start : start + 17]
            log_probs = model.model(block[None, :-1])[0].log_softmax(-1)
            total -= float(log_probs.gather(1, block[1:, None]).sum())
    assert result.valid_loss == pytest.approx(total / (len(ids) - 1), abs=1e-4)


def test_a_task_needs_its_family() -> None:
    with pytest.raises(ConfigError) as error:
        Recipe.load("default", ['task="classify"'])
    assert str(error.value) == (
        '`task = "classify"` needs an encoder alone, but `model.num_encoder_layers` is 4 and '
        "`model.num_decoder_layers` 3"
    )
    with pytest.raises(ConfigError, match=r'^`task = "generate"` needs a decoder alone'):
        Recipe.load("default", ['task="generate"'])
    with pytest.raises(ConfigError, match=r'^`task = "translate"` needs an encoder and a decoder'):
        Recipe.load("default", ["model.num_encoder_layers=0"])


@pytest.mark.parametrize("settings", [CLASSIFY, GENERATE])
def test_what_is_for_translators_is_refused(settings: tuple[str, ...], tmp_path: Path) -> None:
    src, tgt = write_labelled(tmp_path, labelled_letters(40))
    if settings is GENERATE:
        tgt = ""
    with pytest.raises(ConfigError, match=r"^`budget=` is for translators, but the recipe has `task = "):
        train(small_recipe_for(settings, src, tgt), tmp_path / "run", budget="1m", quiet=True)
    with pytest.raises(
        ConfigError, match=r"^`data\.subword_regularization` \(0\.1\) is for `task = \"translate\"`, not"
    ):
        train(small_recipe_for(settings, src, tgt, "data.subword_regularization=0.1"), tmp_path / "run", quiet=True)
    with pytest.raises(ConfigError, match=r"^`data\.concatenate` \(0\.1\) is for `task = \"translate\"`, not for"):
        train(small_recipe_for(settings, src, tgt, "data.concatenate=0.1"), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_a_language_model_has_no_target(tmp_path: Path) -> None:
    src, tgt = write_labelled(tmp_path, labelled_letters(40))
    with pytest.raises(ConfigError, match=r"^`data\.tgt=` is given \(.*train\.tgt\)$"):
        train(small_recipe_for(GENERATE, src, tgt), tmp_path / "run", quiet=True)
    with pytest.raises(ConfigError, match=r"^a continuous text is a source alone \(`data\.src`\)$"):
        train(small_recipe_for(RUNNING, src, tgt), tmp_path / "run", quiet=True)
    with pytest.raises(ConfigError, match=r"^`data\.corpus_weights` \(\[2\.0\]\) have no effect on a continuous text$"):
        train(small_recipe_for(RUNNING, src, "", "data.corpus_weights=[2.0]"), tmp_path / "run", quiet=True)


def test_too_little_running_text(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("abc\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"short\.txt` has 3 characters to train on and 1 to validate on: too few$"):
        train(small_recipe_for(RUNNING, str(tmp_path / "short.txt"), ""), tmp_path / "run", quiet=True)


@pytest.mark.slow
def test_a_classifier_goes_on_from_another(tmp_path: Path) -> None:
    src, tgt = write_labelled(tmp_path, labelled_letters(80))
    first = small_recipe_for(CLASSIFY, src, tgt, "train.average=1")
    train(first, tmp_path / "first", device="cpu", quiet=True)
    train(first, tmp_path / "same", init_from=tmp_path / "first", device="cpu", quiet=True)
    ends, begins = (_validations(tmp_path / name) for name in ("first", "same"))
    best = max(ends, key=lambda row: (row["accuracy"], -row["loss"]))
    assert begins[0]["step"] == 0
    assert (begins[0]["loss"], begins[0]["accuracy"]) == (best["loss"], best["accuracy"]), "its head goes on as well"
    other = [(text, {"early": "1", "late": "2"}[label]) for text, label in labelled_letters(80)]
    src, tgt = write_labelled(tmp_path, [*other, ("h h h", "3"), ("g h h", "3")], "other")
    second = small_recipe_for(CLASSIFY, src, tgt)
    train(second, tmp_path / "second", init_from=tmp_path / "first", device="cpu", quiet=True)
    assert Classifier.load(tmp_path / "second", "cpu").labels == ("1", "2", "3")


def test_a_model_of_another_family_cannot_learn_the_task(tmp_path: Path) -> None:
    alphabet = write_alphabet(tmp_path)
    train(small_recipe_for(GENERATE, alphabet, ""), tmp_path / "lm", device="cpu", quiet=True)
    src, tgt = write_labelled(tmp_path, labelled_letters(40))
    with pytest.raises(
        ConfigError, match=r'lm` holds a model of another family: `task = "classify"` requires an encoder'
    ):
        train(small_recipe_for(CLASSIFY, src, tgt), tmp_path / "run", init_from=tmp_path / "lm", quiet=True)
    result = train(
        small_recipe_for(GENERATE, alphabet, ""), tmp_path / "on", init_from=tmp_path / "lm", device="cpu", quiet=True
    )
    assert result.steps == 6
