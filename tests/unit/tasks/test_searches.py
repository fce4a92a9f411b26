"""Searches of translators and language models by their public names: beams, the n best, and a search of one's own."""

from typing import Any

import pytest
import torch

import pellucid
from pellucid.config import DecodeConfig
from pellucid.decoding import batched_search
from pellucid.errors import ConfigError, DecodingError
from pellucid.text.tokenizer_training import train_tokenizer
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary
from tests.rounding import NETWORK
from tests.unit.decoding.models import random_decoder, random_model

CHARACTERS = Vocabulary("characters", tuple("abcdefghi"))
TOKENIZERS = TokenizerPair(CHARACTERS, CHARACTERS)
LINES = ["abc", "de", "", "fghia"]
PROMPTS = ["ab", "c", "defg"]


def translator() -> pellucid.Translator:
    return pellucid.Translator(random_model(3, CHARACTERS.size, sharpness=2.0), TOKENIZERS)


def language_model(**fields: Any) -> pellucid.LanguageModel:
    return pellucid.LanguageModel(random_decoder(1, CHARACTERS.size, sharpness=2.0, **fields), TOKENIZERS)


def diverse(penalty: float) -> pellucid.SearchFunction:
    """Diverse beam search (Vijayakumar et al. 2016) with groups of one, as the guide has it."""

    def search(steps: pellucid.SearchState, config: pellucid.DecodeConfig) -> list[pellucid.SearchResult]:
        steps.start(config.beam_size)
        found: list[list[pellucid.Hypothesis]] = [[] for _ in steps.rows]
        scores = torch.zeros(len(steps.rows), config.beam_size)  # (B, W)
        while steps.rows:
            log_probs = steps.log_probs().cpu()  # (B, W, V)
            shunned, chosen = torch.zeros_like(log_probs[:, 0]), []  # (B, V)
            for hypothesis in (log_probs[:, w] for w in range(config.beam_size)):  # (B, V)
                chosen.append((hypothesis - shunned).argmax(dim=1))  # (B,)
                shunned[torch.arange(len(shunned)), chosen[-1]] += penalty
            tokens = torch.stack(chosen, dim=1)  # (B, W)
            scores += log_probs.gather(2, tokens[:, :, None])[:, :, 0]
            ends = (tokens == steps.eos_id) & scores.isfinite()
            rows, ws = ends.nonzero(as_tuple=True)
            for row, ended in zip(rows.tolist(), steps.hypotheses(rows, ws, scores[rows, ws]), strict=True):
                found[steps.rows[row]].append(ended)
            scores[ends] = -torch.inf  # what has ended does not go on
            steps.advance(tokens.to(steps.device))
            live = scores.isfinite().any(dim=1).nonzero()[:, 0]
            steps.select(live)
            scores = scores[live]
        return [pellucid.SearchResult(sorted(some, key=lambda h: -h.rank(config.length_penalty))) for some in found]

    return search


def test_a_language_model_gives_its_n_best() -> None:
    model = language_model()
    for found in model.generate(PROMPTS, max_new_tokens=9, beam_size=4, n_best=3):
        assert len(found.alternatives) == 3
        assert len({tuple(one.tokens) for one in found.alternatives}) == 3
        assert (found.text, found.score) == (found.alternatives[0].text, found.alternatives[0].score)
        ended = [len(one.tokens) < 9 for one in found.alternatives]
        assert [one.ended for one in found.alternatives] == ended
        ranks = [one.score / (len(one.tokens) + one.ended) for one in found.alternatives]
        assert ranks == sorted(ranks, reverse=True)


@pytest.mark.slow
def test_a_beam_of_a_language_model_is_what_its_prompts_are_alone() -> None:
    model = language_model(max_positions=9)
    with pytest.warns(UserWarning, match="was continued from its last part"):
        together, *alone = (
            model.generate(some, max_new_tokens=20, beam_size=3) for some in (PROMPTS, *([p] for p in PROMPTS))
        )
    assert [one.text for one in together] == [one.text for (one,) in alone]
    assert [one.score for one in together] == pytest.approx([one.score for (one,) in alone], abs=NETWORK)


def test_a_length_penalty_decides_between_short_and_long_texts() -> None:
    model = language_model()
    short, long = (
        sum(len(one.tokens) for one in model.generate(PROMPTS, max_new_tokens=8, beam_size=6, length_penalty=penalty))
        for penalty in (-2.0, 3.0)
    )
    assert short < long


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_best": 2}, r"^`n_best` \(2\) cannot exceed `beam_size` \(1\)$"),
        ({"beam_size": 0}, r"^`beam_size` \(0\) must be at least 1"),
        (
            {"beam_size": 2, "temperature": 0.5},
            "^`temperature=0.5` is for sampling, `beam_size=2` for beam search$",
        ),
        (
            {"search": diverse(1.0), "seed": 1},
            "^`seed=1` is for sampling, `search=` for beam search$",
        ),
        (
            {"length_penalty": 2.0, "top_k": 3},
            "^`top_k=3` is for sampling, `length_penalty=2.0` for beam search$",
        ),
    ],
)
def test_what_a_language_model_cannot_search_by(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        language_model().generate(["a"], max_new_tokens=3, **options)


@pytest.mark.slow
def test_a_search_of_ones_own_is_the_same_for_both() -> None:
    """With one hypothesis, or without a penalty, the search of the guide is greedy; with one, its hypotheses differ."""
    mt, lm = translator(), language_model(max_positions=40)
    greedy = [one.text for one in mt.translate(LINES, beam_size=1)]
    assert [one.text for one in mt.translate(LINES, beam_size=1, search=diverse(5.0))] == greedy
    assert [one.text for one in mt.translate(LINES, beam_size=3, search=diverse(0.0))] == greedy
    texts = [one.text for one in lm.generate(PROMPTS, max_new_tokens=20)]
    assert [one.text for one in lm.generate(PROMPTS, max_new_tokens=20, search=diverse(5.0))] == texts
    for found in mt.translate(LINES[:2], beam_size=3, search=diverse(5.0)):
        assert len({tuple(one.tokens) for one in found.alternatives}) == 3
    for continued in lm.generate(PROMPTS, max_new_tokens=20, beam_size=3, search=diverse(5.0)):
        assert len({tuple(one.tokens) for one in continued.alternatives}) == 3


@pytest.mark.slow
def test_the_order_of_ones_own_search_stays() -> None:
    def backwards(steps: pellucid.SearchState, config: pellucid.DecodeConfig) -> list[pellucid.SearchResult]:
        return [pellucid.SearchResult(found.hypotheses[::-1]) for found in pellucid.beam_search(steps, config)]

    mt, options = translator(), {"beam_size": 3, "n_best": 3}
    for found, expected in zip(
        mt.translate(LINES, search=backwards, **options), mt.translate(LINES, **options), strict=True
    ):
        assert [one.text for one in found.alternatives] == [one.text for one in expected.alternatives[::-1]]
        assert found.text == expected.alternatives[-1].text


def test_a_search_that_forgets_to_return_says_so() -> None:
    with pytest.raises(DecodingError, match=r"it returned None$"):
        translator().translate(["a"], search=lambda steps, config: None)  # type: ignore[arg-type, return-value]


def as_always(steps: pellucid.SearchState, config: pellucid.DecodeConfig) -> list[pellucid.SearchResult]:
    return pellucid.beam_search(steps, config)


def shunning_a(steps: pellucid.SearchState, config: pellucid.DecodeConfig) -> list[pellucid.SearchResult]:
    """Greedy, by other values: a search of one's own with Pellucid's loop."""
    shunned = torch.zeros(CHARACTERS.size).index_fill(0, torch.tensor(CHARACTERS.encode("a")), 3.0)
    return pellucid.greedy_search(steps, config, token_values=lambda values, rows: values - shunned.to(values))


def twice(steps: pellucid.SearchState, config: pellucid.DecodeConfig) -> list[pellucid.SearchResult]:
    pellucid.greedy_search(steps, config)
    return pellucid.beam_search(steps, config)


def cut_off(steps: pellucid.SearchState, config: pellucid.DecodeConfig) -> list[pellucid.SearchResult]:
    return [pellucid.SearchResult([pellucid.Hypothesis(CHARACTERS.encode("ab"), -1.0, ended=False)])]


@pytest.mark.slow
def test_the_trace_of_ones_own_search_by_pellucids_loop_is_that_of_pellucids() -> None:
    model = translator()
    ours, theirs = (model.trace("fghia", beam_size=3, search=by) for by in (None, as_always))
    assert theirs.search == ours.search
    assert theirs.search is not None
    assert theirs.search.beam_size == 3
    assert (theirs["search.cross"].layer_weights(0) == ours["search.cross"].layer_weights(0)).all()


@pytest.mark.slow
@pytest.mark.parametrize("by", [diverse(1.0), shunning_a, twice, cut_off])
def test_of_ones_own_search_what_it_found_is_traced(by: pellucid.SearchFunction) -> None:
    model = translator()
    (found,) = model.translate(["fghia"], beam_size=3, search=by)
    trace = model.trace("fghia", beam_size=3, search=by)
    assert [token.text for token in trace.sequences["tgt"]][1:] == found.tokens
    assert (trace.sequences["out"][-1].id == CHARACTERS.eos_id) == (by is not cut_off)
    assert trace["cross"].size == (len(found.tokens) + 1, 6)
    if by is shunning_a:
        assert trace.search is not None
        assert trace.search.beam_size == 1
        (best,) = (node for node in trace.search.nodes if node.status == "best")
        assert best.score == pytest.approx(found.score, abs=NETWORK)
    else:
        assert trace.search is None
        assert "search.cross" not in trace.attentions


def test_nothing_is_searched_where_a_target_is_given() -> None:
    with pytest.raises(ConfigError, match=r"^`search=` has no effect if `target=` is given: nothing is searched$"):
        translator().trace("abc", "abc", search=as_always)


def test_the_n_best_differ_in_their_text() -> None:
    """Of a vocabulary that writes a word in several ways, as a model does that learnt several."""
    pieces = train_tokenizer("bpe", ["ab abb ab b a"] * 4, vocab_size=12, byte_fallback=False)
    model = random_model(2, pieces.size)
    cut = pellucid.Translator(model, TokenizerPair(pieces, pieces), DecodeConfig(beam_size=40, max_length=2))
    (found,) = cut.translate(["ab"], n_best=40)
    texts = [each.text for each in found.alternatives]
    (hypotheses,) = batched_search.search(
        model, [pieces.encode("ab")], DecodeConfig(beam_size=40, n_best=40, max_length=2)
    )
    written = [pieces.decode(hypothesis.ids) for hypothesis in hypotheses]
    assert texts == [*dict.fromkeys(written)]
    assert len(texts) < len(written)
    assert found.text == texts[0]
