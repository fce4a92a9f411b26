"""Texts in, labels out: what is read, in which batches, and what is cut off."""

from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.errors import CheckpointError, ConfigError, DataError, DecodingError
from pellucid.model.families import EncoderOnly, SequenceClassifier
from pellucid.tasks.classifier import Classifier
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary
from pellucid.weights.folder import save_description, save_weights
from tests.rounding import NETWORK

CHARACTERS = Vocabulary("characters", tuple(" abcdefghijklm"))
TOKENIZERS = TokenizerPair(CHARACTERS, CHARACTERS)
LABELS = ("bad", "good", "so so")
TEXTS = ["abc", "", "a", "abcdefgh ijkl", "mlk", "aaaaaaa", "b c"]


def classifier(labels: tuple[str, ...] = LABELS, **fields: Any) -> Classifier:
    torch.manual_seed(2)
    shape = {"d_model": 16, "d_ff": 16, "num_heads": 2, "norm": "pre", "max_positions": 16, "dropout": 0.5}
    config = ModelConfig.encoder(vocab_size=CHARACTERS.size, num_layers=2, num_classes=3, **shape | fields)
    model = SequenceClassifier(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 2
    return Classifier(model, TOKENIZERS, labels)


def by_hand(model: Classifier, ids: list[int], segments: list[int] | None = None) -> list[float]:
    given = None if segments is None else torch.tensor([segments])
    with torch.no_grad():
        return [float(p) for p in model.model(torch.tensor([ids]), given)[0].softmax(-1)]


@pytest.mark.parametrize("pad_id", [0, None])
def test_a_text_stands_between_start_and_end(pad_id: int | None) -> None:
    model = classifier(pad_id=pad_id)
    for text, found in zip(TEXTS, model.classify(TEXTS), strict=True):
        expected = by_hand(model, [1, *CHARACTERS.encode(text), 2])
        assert list(found.probabilities) == list(LABELS)
        assert list(found.probabilities.values()) == pytest.approx(expected, abs=NETWORK)
        assert found.probability == max(found.probabilities.values())
        assert found.label == LABELS[expected.index(max(expected))]
    assert len({found.label for found in model.classify(TEXTS)}) > 1


@pytest.mark.parametrize("pad_id", [0, None])
def test_batches_change_nothing(pad_id: int | None) -> None:
    model = classifier(pad_id=pad_id)
    alone = [model.classify([text])[0] for text in TEXTS]
    for batch_tokens in (1, 20, 4096):
        for one, other in zip(model.classify(TEXTS, batch_tokens=batch_tokens), alone, strict=True):
            assert one.label == other.label
            assert list(one.probabilities.values()) == pytest.approx(list(other.probabilities.values()), abs=NETWORK)


def test_what_does_not_fit_is_cut_off_and_said() -> None:
    model = classifier()
    message = "^the longest text has 22 tokens, and the model has 16 positions: longer texts are truncated$"
    with pytest.warns(UserWarning, match=message):
        (found,) = model.classify(["ab" * 10])
    assert found == model.classify(["ab" * 7])[0]


def test_pairs_of_texts() -> None:
    model = classifier(num_segments=2)
    found = model.classify([("abc", "de"), "abc", ("", "a")])
    a, b = CHARACTERS.encode("abc"), CHARACTERS.encode("de")
    expected = by_hand(model, [1, *a, 2, *b, 2], [0] * 5 + [1] * 3)
    assert list(found[0].probabilities.values()) == pytest.approx(expected, abs=NETWORK)
    assert list(found[1].probabilities.values()) == pytest.approx(by_hand(model, [1, *a, 2]), abs=NETWORK)
    with pytest.warns(UserWarning, match="has 28 tokens"):
        (cut,) = model.classify([("a" * 20, "bcdef")])
    assert cut == model.classify([("a" * 8, "bcdef")])[0], "off the longer one"


def test_pairs_need_a_model_with_segments() -> None:
    with pytest.raises(DataError, match=r"^text 2 is a pair, but the model has no segments \(.* is 0\)$"):
        classifier().classify(["a", ("b", "c")])
    with pytest.raises(DataError, match=r"^text 1 is neither a string nor a pair of strings: \('a', 'b', 'c'\)$"):
        classifier(num_segments=2).classify([("a", "b", "c")])  # type: ignore[list-item]
    with pytest.raises(DataError, match="not one text of 3 characters"):
        classifier().classify("abc")


def test_labels() -> None:
    assert list(classifier(()).classify(["a"])[0].probabilities) == ["0", "1", "2"]
    with pytest.raises(ConfigError, match=r"^2 labels are given, but the model has 3 classes$"):
        classifier(("a", "b"))


def test_damaged_weights_are_said() -> None:
    model = classifier()
    with torch.no_grad():
        model.model.head.class_projection.bias[1] = torch.nan
    with pytest.raises(DecodingError, match="not a number"):
        model.classify(["a"])


def test_a_folder_opens_as_what_it_is(tmp_path: Path) -> None:
    model = classifier()
    save_description(tmp_path / "c", model.model.config, TOKENIZERS, DecodeConfig(), "# a card\n", LABELS)
    save_weights(tmp_path / "c", model.model)
    assert Classifier.load(tmp_path / "c", "cpu").classify(TEXTS) == model.classify(TEXTS)
    encoder = EncoderOnly(ModelConfig.encoder(vocab_size=CHARACTERS.size, num_layers=1, d_model=8, num_heads=2))
    save_description(tmp_path / "e", encoder.config, TOKENIZERS, DecodeConfig(), "# a card\n")
    save_weights(tmp_path / "e", encoder)
    with pytest.raises(CheckpointError, match=r"e` holds an encoder without a head, not a classifier$") as error:
        Classifier.load(tmp_path / "e", "cpu")
    assert "`init_from=`" in error.value.hint
