"""The rules of a time budget: what must hold for every corpus and every length of time."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.config import ModelConfig
from pellucid.model.transformer import Transformer
from pellucid.planning import rules
from pellucid.planning.rules import CorpusFacts
from pellucid.text.character_counts import CharacterCounts

BASE = ModelConfig.preset("tiny", src_vocab_size=4000, tgt_vocab_size=4000)
CAPTIONS = CorpusFacts(29_000, 480_000)


@pytest.mark.parametrize("index", range(len(rules.SHAPES)))
@pytest.mark.parametrize("gated", [False, True])
def test_layer_parameters_are_those_of_the_model(index: int, gated: bool) -> None:
    config = replace(rules.apply_shape(BASE, index), gated_feed_forward=gated)
    with_layers = sum(p.numel() for p in Transformer(config).parameters() if p.dim() == 2)
    embeddings = config.tgt_vocab_size * config.d_model
    assert rules.layer_parameters(config) == with_layers - embeddings


def test_shapes_grow() -> None:
    sizes = [rules.layer_parameters(rules.apply_shape(BASE, index)) for index in range(len(rules.SHAPES))]
    assert sizes == sorted(set(sizes))


@pytest.mark.slow
@given(st.floats(1e3, 1e12), st.floats(1.0, 1e4))
def test_more_tokens_never_pay_less(tokens: float, factor: float) -> None:
    paying = [
        sum(rules.pays(rules.apply_shape(BASE, i), t) for i in range(len(rules.SHAPES)))
        for t in (tokens, tokens * factor)
    ]
    assert paying == sorted(paying)


@given(st.integers(10_000, 10**10), st.floats(1.0, 1e4))
def test_more_text_bears_no_fewer_models(tokens: int, factor: float) -> None:
    few, many = (rules.candidates(BASE, CorpusFacts(1, int(count))) for count in (tokens, tokens * factor))
    assert few == many[: len(few)]


def test_embeddings_begin_smaller_and_norms_are_added_where_that_was_measured() -> None:
    tied = replace(BASE, norm="pre", tie_embeddings="all")
    assert rules.embedding_init_scale(tied) == rules.EMBEDDING_SCALE
    assert rules.norms(tied).keys() < rules.NORM_KEYS
    for other in ({"norm": "post"}, {"tie_embeddings": "none"}, {"scale_embeddings": False}):
        config = replace(tied, **other)  # type: ignore[arg-type]
        assert rules.embedding_init_scale(config) == 1.0
        assert not rules.norms(config)


def test_a_small_corpus_never_gets_a_large_model() -> None:
    assert rules.candidates(BASE, CorpusFacts(1, 1))[-1].d_model == 128
    assert rules.candidates(BASE, CAPTIONS)[-1].d_model < 512
    assert rules.candidates(BASE, CorpusFacts(4_500_000, 120_000_000))[-1].d_model == 512


@given(st.sampled_from([64, 512]), st.floats(30, 1e6), st.floats(1e4, 1e12), st.floats(1e4, 1e10))
def test_a_larger_batch_leaves_steps_and_batches_enough(
    d_model: int, seconds: float, tokens: float, corpus: float
) -> None:
    least, size = (rules.batch_tokens(d_model, seconds, *known) for known in ((), (tokens, corpus)))
    assert size in (least, *(least * 2**n for n in range(1, 6)))
    assert size == least or (tokens / size >= rules.FEWEST_STEPS and corpus / size >= rules.BATCHES)
    assert size <= rules.LARGEST_BATCH


def test_millions_of_pairs_in_many_hours_get_large_batches() -> None:
    assert rules.batch_tokens(512, 8 * 3600, 5e9, 2.5e7) == 32_768
    assert rules.batch_tokens(128, 900, 7.5e6, 482_696) == 2048, "a quarter of an hour of captions keeps its own"


@pytest.mark.parametrize(
    ("pairs", "size"), [(0, 2000), (9_999, 2000), (10_000, 8000), (29_000, 8000), (160_000, 8000), (4_500_000, 32000)]
)
def test_the_vocabulary_grows_with_the_corpus(pairs: int, size: int) -> None:
    assert rules.vocab_size(pairs, CharacterCounts.from_lines(["Two men walk on a street."])) == size


@pytest.mark.parametrize(
    ("steps", "keep_every", "expected"), [(6000, 0, 180), (6000, 600, 200), (6000, 7, 7), (6000, 601, 601), (5, 0, 1)]
)
def test_checkpoints_that_are_kept_are_among_those_that_are_saved(steps: int, keep_every: int, expected: int) -> None:
    assert rules.save_every(steps, keep_every) == expected


@given(st.floats(0, 1e4), st.floats(1, 100))
def test_dropout_grows_with_the_epochs(epochs: float, factor: float) -> None:
    assert 0.05 <= rules.dropout(epochs) <= rules.dropout(epochs * factor) <= 0.3


@pytest.mark.parametrize(
    ("tokens", "given", "taken"), [(3e6, 1.6, 1.2), (9e6, 1.6, 1.6), (3e6, 0.6, 0.6), (3e6, 1.2, 1.2)]
)
def test_a_large_length_penalty_is_for_what_is_trained_long(tokens: float, given: float, taken: float) -> None:
    assert rules.length_penalty(tokens, given) == taken


def test_the_expected_score_is_that_of_the_measured_runs() -> None:
    (first, low), (second, high) = rules.EXPECTED[:2]
    between = rules.expected_bleu(CAPTIONS, (first * second) ** 0.5)
    assert between == pytest.approx((low + high) / 2), "half-way by the logarithm"


@pytest.mark.parametrize(
    ("pairs", "tokens", "measured"),
    [(1_000, 1.7e6, 15.8), (5_000, 1.95e6, 27.3), (5_000, 9.1e6, 29.5), (10_000, 1.98e6, 33.3), (29_000, 2.1e6, 40.5)],
)
def test_fewer_pairs_are_expected_to_come_to_what_was_measured_of_them(
    pairs: int, tokens: float, measured: float
) -> None:
    few = CorpusFacts(pairs, round(CAPTIONS.tokens / CAPTIONS.pairs * pairs * 1.2))  # shorter pieces
    assert rules.expected_bleu(few, tokens) == pytest.approx(measured, abs=0.5)


@pytest.mark.parametrize(
    ("facts", "tokens", "why"),
    [
        (CAPTIONS, 50_000, "only runs on 890,000 to 21,400,000 target tokens were measured, this run has 50,000"),
        (CAPTIONS, 1e9, "only runs on 890,000 to 21,400,000 target tokens were measured, this run has 1,000,000,000"),
        (CorpusFacts(999, 15_000), 1e6, "no run with fewer than 1,000 pairs was measured"),
        (CorpusFacts(3_000, 46_000), 6e6, "only runs of up to 100 epochs were measured, this run has 130"),
        (CorpusFacts(60_001, 900_000), 5e6, "no run with more than 60,000 pairs was measured"),
        (
            CorpusFacts(29_000, 29_000 * 70),
            5e6,
            "the sentences have 70 target tokens on average, the measured corpus has 16",
        ),
        (
            CorpusFacts(29_000, 29_000 * 5),
            5e6,
            "the sentences have 5 target tokens on average, the measured corpus has 16",
        ),
    ],
)
def test_outside_of_what_was_measured_no_score_is_expected(facts: CorpusFacts, tokens: float, why: str) -> None:
    assert rules.expected_bleu(facts, tokens) == why


def test_a_plateau_can_be_seen_in_hours() -> None:
    assert [rules.validations(seconds) for seconds in (30, 180, 900, 3600, 8 * 3600)] == [3, 3, 15, 20, 96]
