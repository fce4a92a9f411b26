"""The model card: what the model is, was trained on and scored, and nothing of where."""

from dataclasses import replace
from typing import Any

import pytest

from pellucid.config import DecodeConfig, ModelConfig, Recipe
from pellucid.run.card import find_language_pair, find_languages, model_card
from pellucid.run.folder import RunResult
from pellucid.weights.card import card, select_entries, split_front_matter
from pellucid.weights.export.calls import ExportedCall
from pellucid.weights.export.card import BLANK, LIBRARIES, export_card
from pellucid.weights.export.tokenizer_files import TokenizerFiles
from tests.parity.export.shapes import DECODERS, ENCODERS, PAIRS

RESULT = RunResult(
    folder="/data/x", steps=214, tokens=9, seconds=1.5, best_step=200, valid_loss=1.23456, valid_bleu=31.917
)


def entries(text: str) -> list[str]:
    """The lines of a card's head, without their indentation."""
    return [line.strip() for line in split_front_matter(text)[0]]


def test_the_card_names_no_folder_and_no_private_file() -> None:
    overrides = ["data.src=/data/x/mes textes.de", "data.tgt=/data/x/mes textes.en", "data.tokenizer=/data/x/sp.model"]
    overrides += ["data.valid_src=/data/x/secret.de", "data.valid_tgt=/data/x/secret.en"]
    recipe = Recipe.load("default", overrides)
    config = ModelConfig(src_vocab_size=4321, tgt_vocab_size=1234, d_model=64)
    for found in (model_card(recipe, config), model_card(recipe, config, RESULT)):
        assert found.startswith("---\nlibrary_name: pellucid\n")
        assert "\n# A translator from de to en\n" in found, "not what the recipe is called"
        assert recipe.description not in found
        assert "| trained on | texts of its author |" in found
        assert "| vocabulary | 4,321 / 1,234 (a custom tokenizer) |" in found
        assert "| encoder / decoder layers | 6 / 6 |" in found
        assert not [word for word in ("/data", "mes textes", "secret", "sp.model", "datasets") if word in found]
        assert entries(found)[2:5] == ["language:", "- de", "- en"]


def test_the_card_tells_the_steps_that_were_trained_and_what_came_of_them() -> None:
    recipe = replace(Recipe.load("multi30k-de-en"), license="cc-by-4.0")
    before, after = (
        model_card(recipe, ModelConfig(), result, chrf=50.0, signature="nrefs:1|tok:13a") for result in (None, RESULT)
    )
    assert "| steps | still in training, of about" in before
    assert "model-index" not in before
    assert "| steps | 214 (the weights are step 200), of about" in after
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
    assert find_languages(recipe) == ("en", "cs")
    assert find_languages(replace(recipe, languages=("en", "ko"))) == ("en", "ko")
    assert find_languages(Recipe.load("default", ["data.src=a/source.txt", "data.tgt=a/target.txt"])) == ()


@pytest.mark.parametrize(
    ("settings", "pair"),
    [
        (('data.src="a/train.de"', 'data.tgt="a/train.en"'), ("de", "en")),
        (('data.src="a/train.de.zst"', 'data.tgt="a/train.en.gz"'), ("de", "en")),
        (('data.src=["a.de", "b.de.gz"]', 'data.tgt=["a.en", "b.en"]'), ("de", "en")),
        (('data.src=["a.de", "b.fr"]', 'data.tgt=["a.en", "b.en"]'), None),
        (('data.src="a.de"', 'data.tgt="b.de"'), None),
        (('data.src="train.de"', 'data.tgt="train.txt"'), None),
        (('data.src="pairs.tsv"',), None),
        (('data.src="a.de"', 'data.tgt="a.en"', 'languages=["nds", "en"]'), ("nds", "en")),
        (('data.src="a.de"', 'data.tgt="a.en"', 'languages=["de", "en", "fr"]'), None),
        (('data.src="a.de"', 'data.tgt="a.en"', 'languages=["de", "pt-BR"]'), None),
        (('data.src="a.de"', 'data.tgt="a.en"', 'data.src_lang="de"', 'data.tgt_lang="en"'), None),
    ],
)
def test_the_language_pair_is_that_of_the_recipe_or_of_all_of_its_files(
    settings: tuple[str, ...], pair: tuple[str, str] | None
) -> None:
    assert find_language_pair(Recipe.load("default", [*settings])) == pair


def test_a_head_is_yaml() -> None:
    head: dict[str, Any] = {"language": ["no", "de"], "license": "", "a": {"b": [{"c": 1, "d": "x: y"}]}}
    expected = ["language:", '  - "no"', "  - de", "a:", "  b:", "    - c: 1", '      d: "x: y"']
    lines, body = split_front_matter(card(head, "# Text"))
    assert lines == expected
    assert body == "\n# Text\n"
    assert select_entries(lines, ("a",)) == expected[3:]
    assert split_front_matter("# no head") == ([], "# no head")


CARDS = [(name, target) for name in ("pre", "post", "GPT-2", "classifier", "BERT") for target in LIBRARIES]


# CTranslate2 has no encoders alone.
@pytest.mark.parametrize(("name", "target"), [each for each in CARDS if each[0] not in ENCODERS or each[1] != "ct2"])
@pytest.mark.parametrize("apart", [False, True])
def test_every_export_says_how_it_is_used(target: Any, name: str, apart: bool) -> None:
    config = (PAIRS | DECODERS | ENCODERS)[name]
    original = "---\nlibrary_name: pellucid\nlicense: mit\nlanguage:\n  - de\ntags: [x]\n---\n\n# Mine\n\nGood.\n"
    reading = TokenizerFiles(opens_with="tokenizers", apart=apart and name in PAIRS)
    call = ExportedCall(target=target, config=config, decode=DecodeConfig(), reading=reading)
    found = export_card(call, original=original, proof="equal within 1")
    assert found.startswith(f"---\nlibrary_name: {LIBRARIES[target]}\n")
    assert "\nlicense: mit\nlanguage:\n  - de\ntags: [x]\n---\n" in found
    assert found.endswith("## The proof\n\n```\nequal within 1\n```\n\n## The original's card\n\n# Mine\n\nGood.\n")
    assert (BLANK in found) == (name in PAIRS)
    assert ("save_pretrained" in found) == (name == "post" and target == "hf")
    assert f"```py\n{call.code()}" in found
    assert ("strip()" in call.code()) == (name in PAIRS)
    assert "TOKENIZER" not in found
    assert ("FOLDER/target" in call.code()) == reading.apart
