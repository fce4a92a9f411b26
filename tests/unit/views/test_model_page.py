"""The page that holds a model: what lies in it, and what it cannot hold."""

import json
from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid.config import DecodeConfig
from pellucid.errors import ConfigError
from pellucid.model.families import DecoderOnly
from pellucid.model.parts import Parts
from pellucid.model.transformer import Transformer
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary
from pellucid.views import model_page as module
from pellucid.views.model_page import islands_within, model_islands, to_page
from pellucid.views.page import DataBlock, encode_base85, read_data_blocks
from tests.tiny_model import tiny_config

CHARACTERS = Vocabulary("characters", tuple("abcdefghi"))


def translator(**decode: Any) -> pellucid.Translator:
    config = tiny_config(src_vocab_size=CHARACTERS.size, tgt_vocab_size=CHARACTERS.size)
    return pellucid.Translator(Transformer(config), TokenizerPair(CHARACTERS, CHARACTERS), DecodeConfig(**decode))


def data_of(path: Path) -> dict[str, bytes]:
    return {name: island.unpack() for name, island in read_data_blocks(path.read_text("utf-8")).items()}


@pytest.mark.parametrize("weights", ["float32", "float16", "int8"])
def test_it_holds_the_folder_of_the_model(weights: Any, tmp_path: Path) -> None:
    model = translator(beam_size=3)
    model.save(tmp_path / "model")
    path = to_page(model, tmp_path / "page.html", weights, examples=["abc"])
    held = data_of(path)
    assert held["model.description"] == (tmp_path / "model" / "pellucid.json").read_bytes()
    assert held["model.file.vocabulary.json"] == (tmp_path / "model" / "vocabulary.json").read_bytes()
    about = json.loads(held["model.about"])
    assert about["weights"] == weights
    assert about["files"] == ["vocabulary.json"]
    assert about["examples"] == ["abc"]
    assert about["card"] == (tmp_path / "model" / "README.md").read_text("utf-8")
    assert about["parameters"] == sum(parameter.numel() for parameter in model.model.parameters())
    assert about["bytes"] == len(held["model.weights"])
    assert {"worker", "manifest"} <= set(held)


def test_a_folder_gives_the_page_of_its_model(tmp_path: Path) -> None:
    model = translator()
    model.save(tmp_path / "model")
    of_model, of_folder = (to_page(it, tmp_path / f"{n}.html") for n, it in enumerate((model, tmp_path / "model")))
    assert of_model.read_bytes() == of_folder.read_bytes()


def test_equal_models_give_equal_pages(tmp_path: Path) -> None:
    model = translator()
    first, second = (to_page(model, tmp_path / name).read_bytes() for name in ("a.html", "b.html"))
    assert first == second


def test_rules_that_a_vocabulary_names_come_with_it() -> None:
    letters = Vocabulary("characters", tuple("abcdefghi"), normalization="nmt_nfkc")
    config = tiny_config(src_vocab_size=letters.size, tgt_vocab_size=letters.size)
    held = model_islands(pellucid.Translator(Transformer(config), letters), "int8")
    assert len(held["model.file.nmt_nfkc"]) > 100_000
    assert "nmt_nfkc" in json.loads(held["model.about"])["files"]


def test_views_are_those_that_the_task_has() -> None:
    config = pellucid.ModelConfig.decoder(vocab_size=CHARACTERS.size, num_layers=1, d_model=16, num_heads=2)
    language_model = pellucid.LanguageModel(DecoderOnly(config), CHARACTERS)
    assert {"translate", "alignment", "beam", "what_if", "step", "card"} <= set(module.list_views(translator()))
    assert set(module.list_views(translator())) - set(module.list_views(language_model)) == {"alignment", "beam"}


def test_other_types_of_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown `weights` `int4`; did you mean `int8`\?") as caught:
        to_page(translator(), tmp_path / "page.html", "int4")  # type: ignore[arg-type]
    assert caught.value.hint == "choose float32, float16, int8"
    assert not (tmp_path / "page.html").exists()


def test_parts_of_ones_own_are_refused(tmp_path: Path) -> None:
    class Own(pellucid.FeedForward):
        pass

    config = tiny_config(src_vocab_size=CHARACTERS.size, tgt_vocab_size=CHARACTERS.size)
    model = Transformer(config, Parts(feed_forward=Own.from_config))
    with pytest.raises(ConfigError, match=r"the model has custom parts .* which a page does not have"):
        to_page(pellucid.Translator(model, CHARACTERS), tmp_path / "page.html")


def test_a_model_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    with pytest.raises(ConfigError, match=r"has [\d,]+ bytes in float32, .* at most 1,000; int8 is the smallest"):
        to_page(translator(), tmp_path / "page.html", "float32")


def test_a_page_of_inspection_holds_as_many_digits_as_it_has_room_for() -> None:
    model = translator()
    parameters = sum(parameter.numel() for parameter in model.model.parameters())
    for bytes_each, weights in ((4, "float32"), (2, "float16"), (1, "int8")):
        held = next(islands_within(model, round(1.25 * parameters * bytes_each)))
        assert json.loads(held["model.about"])["weights"] == weights
    assert list(islands_within(model, parameters)) == []


@pytest.mark.slow
def test_a_page_of_inspection_is_never_larger_than_it_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the weights take in fact, more or less than a model's number of parameters says."""
    model = translator()
    shown = pellucid.view(model.trace("abc"), "matrix")
    largest = 8_000_000
    for expected in ("float32", "float16", "int8", None):
        monkeypatch.setattr("pellucid.views.view.LARGEST_PAGE", largest)
        shown.html(tmp_path / "page.html", model=model)
        held, size = data_of(tmp_path / "page.html"), len((tmp_path / "page.html").read_text("utf-8"))
        assert (json.loads(held["model.about"])["weights"] if "model.about" in held else None) == expected
        assert size <= largest
        largest = size - 1


@pytest.mark.parametrize("length", [*range(12), 100, 101, 102, 103, 10_000])
def test_dense_packing_can_be_read_and_holds_no_markup(length: int) -> None:
    content = bytes((7 * i * i + i) % 256 for i in range(length))
    packed = encode_base85(content)
    assert DataBlock(packed, is_dense=True).unpack() == content
    assert not set(packed) & set("<>&\"'\\ ")
