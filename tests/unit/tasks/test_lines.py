"""What is no list of texts is refused by each task, with what it is."""

from collections.abc import Callable
from typing import Any

import pytest

from pellucid.errors import DataError
from pellucid.tasks.classifier import Classifier
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.lines import listed
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import Tokenizers
from pellucid.text.vocabulary import Vocabulary
from tests.unit.decoding.models import random_model
from tests.unit.tracing.models import classifier, decoder

LETTERS = Vocabulary("characters", tuple("abcdefghijklmnopqrs"))
PAIR = Tokenizers(LETTERS, LETTERS)

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
        ([None], "line 1 is no text but None"),
        (["a", b"b"], "line 2 is no text but of type bytes"),
        (None, "a list of lines is wanted, not None"),
        (7, "a list of lines is wanted, not int"),
        ("abc", "a list of lines is wanted, not one text of 3 characters"),
    ],
    ids=["none-in-it", "bytes", "none", "number", "text"],
)
def test_what_is_no_list_of_texts(name: str, texts: Any, message: str) -> None:
    with pytest.raises(DataError) as caught:
        CALLS[name](texts)
    assert str(caught.value) == message
    assert caught.value.hint in ("write [text]", "give a list of str; an empty line is ''")


def test_a_classifier_is_told_as_well() -> None:
    judge = Classifier(classifier(), PAIR)
    with pytest.raises(DataError, match="text 2 is no text and no pair of texts: \\(None, None\\)"):
        judge.classify(["a", None])  # type: ignore[list-item]
    with pytest.raises(DataError, match="a list of lines is wanted, not None"):
        judge.classify(None)  # type: ignore[arg-type]


def test_any_iterable_of_texts_is_a_list() -> None:
    assert listed(text for text in "ab") == ["a", "b"]  # type: ignore[arg-type]
