"""What print() says of a task: its model, its vocabularies, and what is its own."""

from pellucid.config import DecodeConfig
from pellucid.tasks.classifier import Classifier
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import Tokenizers
from pellucid.text.vocabulary import Vocabulary
from tests.unit.decoding.models import random_model
from tests.unit.tracing.models import classifier, decoder

LETTERS = Vocabulary("characters", tuple("abcdefghijklmnopqrs"))
WORDS = Vocabulary("words", tuple("abcdefghijklmnopqrs"))
PAIR = Tokenizers(LETTERS, LETTERS)


def test_a_translator() -> None:
    model = random_model(1, LETTERS.size)
    count = sum(p.numel() for p in model.parameters())
    about = f"Translator(Transformer of 1 + 1 layers, d_model 16, {count:,} parameters on cpu; "
    assert repr(Translator(model, PAIR)) == about + "characters of 23; beam_size 5)"
    several = Translator(model, Tokenizers(WORDS, LETTERS), DecodeConfig(beam_size=2), dict.fromkeys("abcdef", 3))
    assert repr(several) == (
        about + "source words of 23, target characters of 23; beam_size 2; languages a, b, c, d and 2 more)"
    )


def test_a_classifier_and_a_language_model() -> None:
    judge, writer = Classifier(classifier(), PAIR, ("bad", "good", "so so")), LanguageModel(decoder(), PAIR)
    assert repr(judge).startswith("Classifier(SequenceClassifier of 2 layers, d_model 12, ")
    assert repr(judge).endswith(" parameters on cpu; characters of 23; labels bad, good, so so)")
    assert repr(writer).startswith("LanguageModel(DecoderOnly of 2 layers, d_model 12, ")
    assert repr(writer).endswith(" parameters on cpu; characters of 23; reads running text)")
