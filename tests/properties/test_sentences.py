"""The translation of a line is its sentences' translations joined, whatever stands beside it, whatever the batch."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.config import DecodeConfig
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.training_text import TrainingTextStats
from pellucid.text.vocabulary import Vocabulary
from tests.rounding import NETWORK
from tests.unit.decoding.models import random_model

LETTERS = Vocabulary("characters", tuple(" abcdefABCDEF.!?"))
TEXT = TrainingTextStats(sentence_ends=1.0, several_sentences=0.0)
TRANSLATOR = Translator(
    random_model(0, LETTERS.size, sharpness=2.0), TokenizerPair(LETTERS, LETTERS), DecodeConfig(beam_size=2,
    max_length=5),
    text=TEXT,
)  # fmt: skip
SENTENCES = st.lists(
    st.builds("{}{}{}".format, st.sampled_from("ABCDEF"), st.text("abcdef ", min_size=2, max_size=9).map(str.rstrip),
              st.sampled_from([".", "!", "?"])).filter(lambda sentence: len(sentence) > 3 and "  " not in sentence),
    min_size=1, max_size=4,
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(SENTENCES, min_size=1, max_size=4), st.sampled_from([1, 20, 4096]), st.integers(1, 2))
def test_a_line_is_its_sentences(lines: list[list[str]], budget: int, n_best: int) -> None:
    found = TRANSLATOR.translate([" ".join(line) for line in lines], batch_tokens=budget, n_best=n_best)
    for line, translation in zip(lines, found, strict=True):
        assert " ".join(s.source for s in translation.sentences) == " ".join(line)
        alone = [TRANSLATOR.translate([s.source], segment="off", n_best=n_best)[0] for s in translation.sentences]
        assert [s.text for s in translation.sentences] == [a.text for a in alone]
        texts = [a.text.strip() for a in alone if a.text.strip()]
        assert translation.text == (" ".join(texts) if len(alone) > 1 else alone[0].text)
        assert translation.tokens == [token for a in alone for token in a.tokens]
        assert translation.score == pytest.approx(sum(a.score for a in alone), abs=NETWORK * len(alone))
