"""Alternatives at a position: the most probable next tokens, the best translation behind each, what cannot be."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from pellucid.config import DecodeConfig
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.errors import ConfigError, DataError
from pellucid.tasks.translation import Translation
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.training_text import TrainingTextStats
from pellucid.text.vocabulary import Vocabulary
from tests.rounding import NETWORK
from tests.unit.decoding.models import random_model

LETTERS = Vocabulary("characters", tuple(" abcdefgh."))
LINES = ["bad cab", "", "faded", "abcdefgh"]
PREFIXES = ["ab", "", "", "h"]


def member(seed: int, **decode: object) -> Translator:
    model = random_model(seed, LETTERS.size, sharpness=2.0)
    settings = DecodeConfig(**{"beam_size": 3, "max_length": 9, "length_penalty": 1.0, **decode})  # type: ignore[arg-type]
    return Translator(model, TokenizerPair(LETTERS, LETTERS), settings)


@pytest.fixture(scope="module")
def translator() -> Translator:
    return member(1)


def next_log_probs(translator: Translator, line: str, prefix: str) -> torch.Tensor:
    """Of each token that may stand behind the prefix, by one pass over both: (V,)."""
    config = translator.config
    src = torch.tensor([[*LETTERS.encode(line), config.eos_id]])
    tgt = torch.tensor([[config.bos_id, *LETTERS.encode(prefix)]])
    with torch.inference_mode():
        values: torch.Tensor = translator.model(src, tgt)[0, -1].log_softmax(-1)
    return values


def written(translation: Translation) -> list[str]:
    assert translation.alternatives[0].text == translation.text
    return [one.text for one in translation.alternatives]


def test_each_is_the_best_behind_its_token(translator: Translator) -> None:
    found = translator.translate(LINES, prefixes=PREFIXES, next_token_alternatives=4)
    assert (found[1].text, found[1].next_token) == ("", None), "nothing follows upon an empty line"
    for line, prefix, best in zip(LINES, PREFIXES, found, strict=True):
        if not line:
            continue
        values = next_log_probs(translator, line, prefix)
        allowed = [i for i in range(LETTERS.size) if i not in (LETTERS.pad_id, LETTERS.bos_id)]
        likely = sorted(allowed, key=lambda token: -float(values[token]))[:4]
        branches = {one.next_token.token: one.next_token.probability for one in best.alternatives if one.next_token}
        wanted = {LETTERS.tokens([token])[0]: math.exp(values[token]) for token in likely}
        assert branches == pytest.approx(wanted, rel=NETWORK)
        for one in best.alternatives:
            assert one.next_token is not None
            ends = one.next_token.token == LETTERS.tokens([translator.config.eos_id])[0]
            begun = prefix if ends else prefix + one.next_token.token
            letters = "".join(one.tokens)
            assert letters == prefix if ends else letters.startswith(begun)
            if one.next_token.token.isalpha():  # spaces at an end are no part of a text, and its end none
                (alone,) = translator.translate([line], prefixes=[begun])
                assert one.text == alone.text
            assert one.score == pytest.approx(translator.score([line], [one.text])[0], abs=1e-4)
        ranks = [one.score / (len(one.tokens) + 1) for one in best.alternatives]
        assert ranks == sorted(ranks, reverse=True)
        assert best.next_token == best.alternatives[0].next_token


def test_an_output_may_end_there(translator: Translator) -> None:
    (best,) = translator.translate(["bad cab"], prefixes=["ab"], next_token_alternatives=LETTERS.size)
    end = LETTERS.tokens([translator.config.eos_id])[0]
    assert [one.text for one in best.alternatives if one.next_token and one.next_token.token == end] == ["ab"]
    (longer,) = translator.translate(["bad cab"], prefixes=["ab"], next_token_alternatives=LETTERS.size, min_length=4)
    assert end not in [one.next_token.token for one in longer.alternatives if one.next_token]
    assert len(longer.alternatives) == len(best.alternatives) - 1


def test_a_line_has_the_same_whatever_stands_beside_it(translator: Translator) -> None:
    found = translator.translate(LINES, prefixes=PREFIXES, next_token_alternatives=3)
    for line, prefix, together in zip(LINES, PREFIXES, found, strict=True):
        (alone,) = translator.translate([line], prefixes=[prefix], next_token_alternatives=3)
        assert written(alone) == written(together)
        assert alone.score == pytest.approx(together.score, abs=1e-4)


@pytest.mark.slow
def test_alternatives_that_rank_alike_stand_in_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two letters with the same vectors rank alike, and in a batch rounding would decide which comes first."""
    twins = member(1)
    a, b = LETTERS.encode("ab")
    with torch.no_grad():
        for weight in twins.model.parameters():
            if weight.size(0) == LETTERS.size:
                weight[b] = weight[a]
    search, lines = twins.engine.search_all, ["bad cab", "faded", "egg", "head"]

    def rounded(pieces: list[list[int]], *options: Any) -> list[list[Hypothesis]]:
        found = search(pieces, *options)
        if len(pieces) in (1, 9):  # a line alone, or its alternatives
            return found
        return [[replace(h, score=h.score - 5e-6 * (h.ids[:1] == [a])) for h in of_piece] for of_piece in found]

    monkeypatch.setattr(twins.engine, "search_all", rounded)
    together = twins.translate(lines, next_token_alternatives=9)
    alone = [twins.translate([line], next_token_alternatives=9)[0] for line in lines]
    assert [written(one) for one in together] == [written(one) for one in alone]
    branches = [{one.next_token.token for one in best.alternatives if one.next_token} for best in together]
    assert any({"a", "b"} <= row for row in branches)


def test_terms_are_written_behind_each(translator: Translator) -> None:
    (best,) = translator.translate(["bad cab"], prefixes=["a"], next_token_alternatives=3, constraints=[["dg"]])
    assert len(best.alternatives) == 3
    assert all("dg" in one.text and one.text.startswith("a") for one in best.alternatives)
    (asked,) = translator.translate(["bad cab"], next_token_alternatives=2, terms=[("bad", "gg")])
    assert all("gg" in one.text for one in asked.alternatives)


def test_none_ends_where_a_term_is_lacking(translator: Translator) -> None:
    (free,) = translator.translate(["bad cab"], prefixes=["gg"], next_token_alternatives=12)
    count = len(free.alternatives)
    assert any(one.next_token and one.text == "gg" for one in free.alternatives)
    (held,) = translator.translate(["bad cab"], prefixes=["gg"], next_token_alternatives=12, constraints=[["gg"]])
    assert any(one.text == "gg" for one in held.alternatives)
    (asked,) = translator.translate(["bad cab"], prefixes=["gg"], next_token_alternatives=12, constraints=[["dd"]])
    assert len(asked.alternatives) == count - 1
    assert all("dd" in one.text for one in asked.alternatives)


def test_models_that_write_together_agree_on_a_mean() -> None:
    members = [member(1), member(2)]
    both = Translator.ensemble(members)
    (best,) = both.translate(["bad cab"], prefixes=["ab"], next_token_alternatives=3)
    mean = sum(next_log_probs(one, "bad cab", "ab") for one in members) / 2
    for one in best.alternatives:
        assert one.next_token is not None
        token = LETTERS.tokens(range(LETTERS.size)).index(one.next_token.token)
        assert one.next_token.probability == pytest.approx(math.exp(mean[token]), rel=NETWORK)


def test_json_has_the_tokens_and_their_probabilities(translator: Translator) -> None:
    (only,) = translator.translate(["faded"], next_token_alternatives=1)
    assert [each["text"] for each in only.to_json()["alternatives"]] == [only.text]
    (best,) = translator.translate(["faded"], next_token_alternatives=2, confidence=True)
    table = best.to_json()
    branches = [(each["next_token"], each["next_probability"]) for each in table["alternatives"]]
    assert branches == [
        (one.next_token.token, round(one.next_token.probability, 5)) for one in best.alternatives if one.next_token
    ]
    assert (table["next_token"], table["text"], "probability" in table) == (branches[0][0], best.text, True)


def test_what_cannot_be_asked_for(translator: Translator) -> None:
    for count in (0, True, 2.0, 5000):
        with pytest.raises(ConfigError, match=r"`next_token_alternatives=.*` must be a whole number from 1 to 1,024"):
            translator.translate(["a"], next_token_alternatives=count)  # type: ignore[arg-type]
    with pytest.raises(
        ConfigError, match="`n_best=` selects one translation, and `next_token_alternatives=2` returns several"
    ):
        translator.translate(["a"], next_token_alternatives=2, n_best=2)
    with pytest.raises(ConfigError, match="`beam_groups=` selects one translation"):
        translator.translate(["a"], next_token_alternatives=2, beam_groups=3)
    with pytest.raises(
        ConfigError, match="`next_token_alternatives=` is an option of `translate`, and has no effect on a trace"
    ):
        translator.trace("a", next_token_alternatives=2)
    short = TrainingTextStats(source_length=9, source_longest=9, sentence_ends=0.9, several_sentences=0.0)
    cut = Translator(translator.model, TokenizerPair(LETTERS, LETTERS), translator.decode, text=short)
    with pytest.raises(DataError, match=r"`head\. ?` begins a line that is translated in 3 parts"):
        cut.translate(["a", "head. bed. egg."], next_token_alternatives=2)
