"""Guards of the source: letters outside of the vocabulary, and another script than the training text."""

from collections.abc import Iterable

import pytest

from pellucid.config import DecodeConfig
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.engines.engine import PyTorchEngine
from pellucid.tasks.confidence import Confidence
from pellucid.tasks.guards import SourceGuard, add_flags, withhold_uncertain
from pellucid.tasks.quality_flags import Flag
from pellucid.tasks.translation import Translation
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.training_text import TrainingTextStats
from pellucid.text.vocabulary import Vocabulary
from pellucid.text.word_forms import WordForms
from tests.unit.decoding.models import random_model

LATIN = TrainingTextStats(source_script="Latin")
WORDS = Vocabulary("words", ("ein", "Hund", "läuft", "rot", "."))
CHARACTERS = Vocabulary("characters", tuple(" einHudläftrotв."))


def find(tokenizer: Vocabulary, line: str, text: TrainingTextStats | None = LATIN) -> str:
    flag = SourceGuard.from_text(tokenizer, text).find_flag(line, tokenizer.encode(line))
    assert flag is None or flag.name == "source"
    return "" if flag is None else flag.evidence


@pytest.mark.parametrize("line", ["Пёс бежит .", "ο σκύλος τρέχει .", "개가 달린다 .", "一只狗在跑 .", "कुत्ता दौड़ता है"])
@pytest.mark.parametrize("tokenizer", [WORDS, CHARACTERS])
def test_lines_in_letters_that_the_model_never_saw(line: str, tokenizer: Vocabulary) -> None:
    assert find(tokenizer, line, None).endswith("of the tokens are not in the vocabulary")


def test_lines_that_the_model_can_read() -> None:
    for line in ("ein Hund läuft .", "", " ", "Hund .", "123"):
        assert find(CHARACTERS, line if line != "123" else ".") == ""
    assert find(WORDS, "ein roter Hund läuft .") == ""  # one unknown word of four
    assert find(WORDS, "ein roter Kater läuft .") == "50% of the tokens are not in the vocabulary"


def test_letters_of_another_script_that_are_in_the_vocabulary() -> None:
    assert find(CHARACTERS, "ввв .") == "the script is Cyrillic, that of the training text Latin"
    assert find(CHARACTERS, "ввв .", None) == ""
    assert find(CHARACTERS, "ввв .", TrainingTextStats(source_script="Latin", pairs=("de-en", "ru-en"))) == ""
    japanese = Vocabulary("characters", tuple("日本語の"))
    assert find(japanese, "日本語", TrainingTextStats(source_script="Kana")) == ""


def test_bytes_are_read_by_models_of_bytes() -> None:
    model_of_bytes = Vocabulary("bytes", (), byte_fallback=True)
    assert find(model_of_bytes, "개가 달린다", TrainingTextStats(source_script="Hangul")) == ""


def test_flags_of_a_confidence_are_not_doubled() -> None:
    loop = Flag("loop", "ha ha ha")
    sure = Translation("x", 0.0, [], confidence=Confidence(0.5, False, [], [loop]), flags=(Flag("parts", "two"),))
    (found,) = add_flags([sure], ["в"], SourceGuard(CHARACTERS, "Latin"), None, searched=True)
    assert [flag.name for flag in found.flags] == ["source", "parts", "loop"]


def test_uncertain_translations_are_withheld() -> None:
    sure = [Translation("y", 0.0, [], confidence=Confidence(p, False, [])) for p in (0.2, 0.4, None)]
    lost = Translation("x", 0.0, [], flags=(Flag("spans", "lost"),), confidence=Confidence(0.1, False, []))
    kept = withhold_uncertain([*sure, lost], ["x"] * 4, 0.4, "source")
    assert [one.text for one in kept] == ["x", "y", "y", "x"]
    assert [flag.evidence for flag in kept[0].flags] == ["the probability 0.2 is below 0.4: the source is kept"]
    assert len(kept[3].flags) == 1
    (left,) = withhold_uncertain(sure[:1], ["x"], 0.4, "empty")
    assert (left.text, left.flags[0].evidence) == ("", "the probability 0.2 is below 0.4: the translation is left out")


def test_a_model_flags_what_it_cannot_read(translator: Translator) -> None:
    known, unknown = translator.translate(["a b c", "я ю э"])
    assert not any(flag.name == "source" for flag in known.flags)
    assert unknown.flags[0] == Flag("source", "100% of the tokens are not in the vocabulary")


SOURCES = 3 * ["der Hund liest die Straße", "ein Mann sieht den Hund"]
LETTERS = Vocabulary("characters", tuple(sorted({*"".join(SOURCES).lower(), *"".join(SOURCES).upper(), *"{},"})))


@pytest.fixture
def restoring() -> Translator:
    """Copies the lines as it reads them."""

    class Copies(PyTorchEngine):
        def search(self, sources: list[list[int]], *how: object) -> Iterable[tuple[int, list[Hypothesis]]]:
            return ((place, [Hypothesis(source, -1.0)]) for place, source in enumerate(sources))

    text = TrainingTextStats(sentence_ends=1.0, several_sentences=0.0, source_length=90, source_longest=90)
    model = random_model(0, LETTERS.size)
    found = Translator(Copies(model), TokenizerPair(LETTERS, LETTERS), DecodeConfig(max_length=90), text=text)
    found.word_forms = WordForms.from_lines(SOURCES)
    return found


def test_lines_are_read_in_the_usual_forms(restoring: Translator) -> None:
    lines = ["DER HUND LIEST", "der Hudn liest", "die Strasse", "der Hund", "HUND"]
    found = restoring.translate(lines)
    assert [one.text for one in found] == ["DER HUND LIEST", "der Hund liest", "die Straße", *lines[3:]]
    assert [one.text for one in restoring.translate(lines, repair="off")] == lines
    assert (found[0].sentences[0].source, found[0].sentences[0].text) == ("der Hund liest", "DER HUND LIEST")
    assert [flag for one in found for flag in one.flags if flag.name == "spelling"] == [
        Flag("spelling", "`Hudn` read as `Hund`")
    ]


def test_words_of_terms_and_outputs_stay(restoring: Translator) -> None:
    assert restoring.translate(["der Hudn liest"], terms={"Hudn": "Hudn"})[0].text == "der Hudn liest"
    assert restoring.translate(["DER HUND LIEST"], prefixes=["der"])[0].text == "der Hund liest"
    (found,) = restoring.translate(["DER {n} MANN SIEHT Hudn"], keep="Hudn")  # the model's alignment places the spans
    assert sorted(found.text.split()) == ["DER", "Hudn", "MANN", "SIEHT", "{n}"]


def test_a_line_that_is_left_untranslated_stays_as_it_is_written(restoring: Translator) -> None:
    (found,) = restoring.translate(["DER HUND LIEST"], min_confidence=1.0)
    assert (found.text, [flag.name for flag in found.flags if flag.name == "confidence"]) == (
        "DER HUND LIEST",
        ["confidence"],
    )


def test_words_of_restored_lines_are_aligned_where_they_are_written(restoring: Translator) -> None:
    lines = ["DER HUND LIEST", "die Strasse, liest"]
    for line, found, words in zip(
        lines, restoring.translate(lines), (["DER", "HUND", "LIEST"], ["die", "Strasse", ",", "liest"]), strict=True
    ):
        (part,) = restoring.aligner.align(line, found, restoring.decode).parts
        assert part.known
        assert [line[start:end] for start, end in part.sources] == words
        assert found.read == {lines[0]: "der Hund liest", lines[1]: "die Straße, liest"}[line]
