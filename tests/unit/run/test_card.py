"""The model card: what the model is, was trained on and scored, and nothing of where."""

from dataclasses import replace
from typing import Any

import pytest

from pellucid.config import ModelConfig, Recipe
from pellucid.run.card import languages_of, model_card
from pellucid.run.folder import RunResult
from pellucid.weights.card import card, kept, parted
from pellucid.weights.export.card import BLANK, LIBRARIES, export_card, usage
from tests.parity.export.shapes import DECODERS, ENCODERS, PAIRS

RESULT = RunResult(
    folder="/data/x", steps=214, tokens=9, seconds=1.5, best_step=200, valid_loss=1.23456, valid_bleu=31.917
)


def entries(text: str) -> list[str]:
    """The lines of a card's head, without their indentation."""
    return [line.strip() for line in parted(text)[0]]


def test_the_card_names_files_but_no_folders() -> None:
    overrides = ["data.src=/data/x/train.de", "data.tgt=/data/x/train.en", "data.tokenizer=/data/x/sp.model"]
    recipe = Recipe.load("default", overrides)
    config = ModelConfig(src_vocab_size=4321, tgt_vocab_size=1234, d_model=64)
    for found in (model_card(recipe, config), model_card(recipe, config, RESULT)):
        assert found.startswith("---\nlibrary_name: pellucid\n")
        assert "# default\n" in found
        assert "| trained on | train.de, train.en |" in found
        assert "| vocabulary | 4,321 / 1,234 (sp.model) |" in found
        assert "| encoder / decoder layers | 6 / 6 |" in found
        assert "/data" not in found
        assert entries(found)[2:5] == ["language:", "- de", "- en"]


def test_the_card_tells_the_steps_that_were_trained_and_what_came_of_them() -> None:
    recipe = replace(Recipe.load("multi30k-de-en"), license="cc-by-4.0")
    before, after = (
        model_card(recipe, ModelConfig(), result, chrf=50.0, signature="nrefs:1|tok:13a") for result in (None, RESULT)
    )
    assert "| steps | still in training, of about" in before
    assert "model-index" not in before
    assert "| steps | 214 (the weights are those of step 200), of about" in after
    assert "at most 214" not in after
    assert "BLEU (nrefs:1\\|tok:13a, greedy) 31.92, chrF2 50.0, loss a token (nats) 1.2346 |" in after
    head = entries(after)
    assert {"license: cc-by-4.0", "- multi30k", "- type: bleu", "value: 31.92", "value: 1.2346"} <= set(head)
    chosen = model_card(recipe, ModelConfig(), replace(RESULT, kept="the mean of the last 2"))
    assert "| steps | 214 (the weights are the mean of the last 2), of about" in chosen
    averaged = model_card(recipe, ModelConfig(), RESULT, averaged=5)
    assert "| steps | the mean of 5 checkpoints of a run of 214, of about" in averaged
    assert "31.92" not in averaged


def test_a_classifier_is_told_by_its_accuracy() -> None:
    result = replace(RESULT, valid_bleu=None, valid_accuracy=0.81249)
    found = entries(model_card(Recipe.load("sst2"), ModelConfig.encoder(num_classes=2), result))
    assert {"pipeline_tag: text-classification", "- type: accuracy", "value: 0.8125"} <= set(found)
    assert not any(line.startswith("language") for line in found)


def test_languages_are_those_that_the_recipe_names_or_its_files() -> None:
    recipe = Recipe.load("multi30k-en-cs")
    assert languages_of(recipe) == ("en", "cs")
    assert languages_of(replace(recipe, languages=("en", "ko"))) == ("en", "ko")
    assert languages_of(Recipe.load("default", ["data.src=a/source.txt", "data.tgt=a/target.txt"])) == ()


def test_a_head_is_yaml() -> None:
    head: dict[str, Any] = {"language": ["no", "de"], "license": "", "a": {"b": [{"c": 1, "d": "x: y"}]}}
    expected = ["language:", '  - "no"', "  - de", "a:", "  b:", "    - c: 1", '      d: "x: y"']
    lines, body = parted(card(head, "# Text"))
    assert lines == expected
    assert body == "\n# Text\n"
    assert kept(lines, ("a",)) == expected[3:]
    assert parted("# no head") == ([], "# no head")


@pytest.mark.parametrize("target", LIBRARIES)
@pytest.mark.parametrize("name", ["pre", "post", "GPT-2", "classifier", "BERT"])
def test_every_export_says_how_it_is_used(target: str, name: str) -> None:
    config = (PAIRS | DECODERS | ENCODERS)[name]
    original = "---\nlibrary_name: pellucid\nlicense: mit\nlanguage:\n  - de\ntags: [x]\n---\n\n# Mine\n\nGood.\n"
    found = export_card(target, config, original=original, proof="equal within 1")
    assert found.startswith(f"---\nlibrary_name: {LIBRARIES[target]}\n")
    assert "\nlicense: mit\nlanguage:\n  - de\ntags: [x]\n---\n" in found
    assert found.endswith("## The proof\n\n```\nequal within 1\n```\n\n## The original's card\n\n# Mine\n\nGood.\n")
    assert (BLANK in found) == (name in PAIRS)
    assert ("save_pretrained" in found) == (name == "post" and target == "hf")
    language, snippet = usage(target, config)
    assert f"```{language}\n{snippet}```" in found
    assert ("strip()" in snippet or "trim()" in snippet) == (name in PAIRS)
    assert "TOKENIZER" not in snippet
    apart = usage(target, config, joint=False)[1]
    assert ("FOLDER/target" in apart) == (apart != snippet)
