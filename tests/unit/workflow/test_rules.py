"""The rules of a time budget: what must hold for every corpus and every length of time."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.config import ModelConfig
from pellucid.model.transformer import Transformer
from pellucid.workflow import rules
from pellucid.workflow.rules import Facts

BASE = ModelConfig.preset("tiny", src_vocab_size=4000, tgt_vocab_size=4000)
CAPTIONS = Facts(29_000, 480_000)


@pytest.mark.parametrize("index", range(len(rules.SHAPES)))
@pytest.mark.parametrize("gated", [False, True])
def test_layer_parameters_are_those_of_the_model(index: int, gated: bool) -> None:
    config = replace(rules.shaped(BASE, index), gated=gated)
    with_layers = sum(p.numel() for p in Transformer(config).parameters() if p.dim() == 2)
    embeddings = config.tgt_vocab_size * config.d_model
    assert rules.layer_parameters(config) == with_layers - embeddings


def test_shapes_grow() -> None:
    sizes = [rules.layer_parameters(rules.shaped(BASE, index)) for index in range(len(rules.SHAPES))]
    assert sizes == sorted(set(sizes))


@given(st.floats(1e9, 1e20), st.floats(1.0, 1e4), st.integers(10_000, 10**10))
def test_more_time_never_gives_a_smaller_model(flops: float, factor: float, tokens: int) -> None:
    facts = Facts(tokens // 16, tokens)
    sizes = [rules.layer_parameters(rules.shape(BASE, facts, f)) for f in (flops, flops * factor)]
    assert sizes == sorted(sizes)


@given(st.floats(1e9, 1e20), st.integers(10_000, 10**10), st.floats(1.0, 1e4))
def test_more_text_never_gives_a_smaller_model(flops: float, tokens: int, factor: float) -> None:
    few, many = (rules.shape(BASE, Facts(1, int(count)), flops) for count in (tokens, tokens * factor))
    assert rules.layer_parameters(few) <= rules.layer_parameters(many)


def test_a_small_corpus_never_gets_a_large_model() -> None:
    assert rules.shape(BASE, CAPTIONS, 1e20).d_model < 512
    assert rules.shape(BASE, Facts(4_500_000, 120_000_000), 1e20).d_model == 512


@pytest.mark.parametrize(
    ("pairs", "size"), [(0, 1000), (4_999, 1000), (5_000, 2000), (29_000, 4000), (160_000, 8000), (4_500_000, 32000)]
)
def test_the_vocabulary_grows_with_the_corpus(pairs: int, size: int) -> None:
    assert rules.vocab_size(pairs) == size


@given(st.floats(0, 1e4), st.floats(1, 100))
def test_dropout_grows_with_the_epochs(epochs: float, factor: float) -> None:
    assert 0.1 <= rules.dropout(epochs) <= rules.dropout(epochs * factor) <= 0.3


def test_the_expected_score_is_that_of_the_measured_runs() -> None:
    assert [rules.expected_bleu(tokens) for tokens, _ in rules.EXPECTED] == pytest.approx(
        [bleu for _, bleu in rules.EXPECTED]
    )
    assert rules.expected_bleu(1) == rules.EXPECTED[0][1]
