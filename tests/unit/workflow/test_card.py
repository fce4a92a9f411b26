"""The model card: what the model is and was trained on, and nothing of where."""

from pellucid.config import ModelConfig, Recipe
from pellucid.workflow.card import model_card


def test_the_card_names_files_but_no_folders() -> None:
    overrides = ["data.src=/data/x/train.de", "data.tgt=/data/x/train.en", "data.tokenizer=/data/x/sp.model"]
    recipe = Recipe.load("default", overrides)
    card = model_card(recipe, ModelConfig(src_vocab_size=4321, tgt_vocab_size=1234, d_model=64))
    assert card.startswith("---\nlibrary_name: pellucid\n")
    assert "# default\n" in card
    assert "| trained on | train.de, train.en |" in card
    assert "| vocabulary | 4,321 / 1,234 (sp.model) |" in card
    assert "| encoder / decoder layers | 6 / 6 |" in card
    assert "/data" not in card
