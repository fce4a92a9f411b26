"""What every source and output begins with, and what is never written: in all searches, and in forced scoring."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from pellucid.config import DecodeConfig, ModelConfig, SamplingConfig
from pellucid.decoding.batched_search import sample_outputs, search
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.decoding.scoring import score_outputs
from pellucid.errors import ConfigError, DecodingError
from pellucid.model.transformer import Transformer
from tests.rounding import NETWORK
from tests.unit.decoding.models import (
    BOS,
    EOS,
    Ids,
    all_targets,
    beam_found,
    greedy_found,
    random_model,
    random_script,
    random_sources,
    scripted,
    source_batch,
)

SOURCES = random_sources(5, 12)
PREFIX = (7, 3)


def settings(**fields: Any) -> DecodeConfig:
    return DecodeConfig(**{"max_length": 8, "target_prefix": PREFIX, **fields})


def log_prob(script: Any, source: Ids, prefix: Ids, target: Ids) -> float:
    """Of the target behind the prefix, end token included."""
    total = 0.0
    for place, token in enumerate((*target, EOS)):
        values = np.array(script(source, prefix + target[:place]))
        total += float(values[token] - np.logaddexp.reduce(values))
    return total


@pytest.mark.slow
@pytest.mark.parametrize("prefix", [(), (3,), (5, 4), (EOS, BOS)])
@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("suppress", [(), (4,)])
def test_an_exhaustive_beam_finds_the_best_outputs_behind_a_prefix(
    prefix: Ids, length_penalty: float, suppress: Ids
) -> None:
    """All outputs there are, scored one by one; what is suppressed keeps its share of the probabilities."""
    config = DecodeConfig(
        beam_size=40,
        n_best=5,
        max_length=3,
        length_penalty=length_penalty,
        target_prefix=prefix,
        suppress_tokens=suppress,
    )
    for seed in range(6):
        script = random_script(seed, 6)
        targets = [target for target in all_targets(6, 3) if not set(target) & set(suppress)]
        scored = [(log_prob(script, (3,), prefix, tuple(target)), target) for target in targets]
        scored.sort(key=lambda pair: -pair[0] / (len(prefix) + len(pair[1]) + 1) ** length_penalty)
        (found,) = beam_found(scripted(script, 6), source_batch([[3]]), config)
        assert [h.ids for h in found.hypotheses] == [target for _, target in scored[:5]]
        assert [h.score for h in found.hypotheses] == pytest.approx([score for score, _ in scored[:5]], abs=NETWORK)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_score_is_that_of_the_output_without_its_prefix(beam_size: int) -> None:
    model, config = random_model(1), settings(beam_size=beam_size, suppress_tokens=(5,))
    found = [hypotheses[0] for hypotheses in search(model, SOURCES, config)]
    assert all(5 not in h.ids for h in found)
    forced = score_outputs(model, SOURCES, [h.ids for h in found], config)
    assert [h.score for h in found] == pytest.approx(forced, abs=NETWORK)
    for source, h in zip(SOURCES, found, strict=True):
        tgt = torch.tensor([[BOS, *PREFIX, *h.ids]])
        log_probs = model(source_batch([source]), tgt).detach().log_softmax(dim=-1)[0]
        chosen = [float(log_probs[len(PREFIX) + i, token]) for i, token in enumerate([*h.ids, EOS])]
        assert h.score == pytest.approx(sum(chosen), abs=NETWORK)


@pytest.mark.slow
def test_the_prefix_is_what_the_output_goes_on_from() -> None:
    """The words behind the prefix are those that greedy search would choose there."""
    model = random_model(2)
    for source, (found,) in zip(SOURCES, search(model, SOURCES, settings(beam_size=1)), strict=True):
        ids = [BOS, *PREFIX]
        for word in [*found.ids, EOS][:8]:
            logits = model(source_batch([source]), torch.tensor([ids]))[0, -1].detach()
            logits[[0, BOS]] = -math.inf
            assert int(logits.argmax()) == word
            ids.append(word)


def test_a_beam_of_one_and_one_token_to_draw_from_are_greedy_search() -> None:
    model, src = random_model(3), source_batch(SOURCES)
    config = settings(beam_size=1, suppress_tokens=(4, 6))
    greedy = [f.hypotheses[0] for f in greedy_found(model, src, config)]
    beam = [f.hypotheses[0] for f in beam_found(model, src, config)]
    drawn = sample_outputs(model, SOURCES, SamplingConfig(top_k=1), config)
    assert [h.ids for h in beam] == [h.ids for h in drawn] == [h.ids for h in greedy]
    assert [h.score for h in drawn] == pytest.approx([h.score for h in greedy], abs=NETWORK)
    assert {h.prefix_length for h in [*greedy, *beam, *drawn]} == {2}


@pytest.mark.parametrize("beam_size", [1, 3])
def test_what_stands_around_every_source(beam_size: int) -> None:
    model = random_model(4)
    around = settings(beam_size=beam_size, source_prefix=(9, 8), source_suffix=(6,), target_prefix=())
    whole = torch.tensor([[9, 8, 3, 4, 5, EOS, 6]])
    plain = settings(beam_size=beam_size, target_prefix=())
    run = greedy_found if beam_size == 1 else beam_found
    (expected,) = run(model, whole, plain)
    ((found,),) = search(model, [[3, 4, 5]], around)
    assert found.ids == expected.hypotheses[0].ids
    assert found.score == pytest.approx(expected.hypotheses[0].score, abs=NETWORK)
    assert found.score == pytest.approx(score_outputs(model, [[3, 4, 5]], [found.ids], around)[0], abs=NETWORK)
    assert found.score != pytest.approx(score_outputs(model, [[3, 4, 5]], [found.ids], plain)[0], abs=1e-2)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_sources_without_an_end_token(beam_size: int) -> None:
    model = random_model(4)
    bare = settings(beam_size=beam_size, add_source_eos=False, target_prefix=())
    run = greedy_found if beam_size == 1 else beam_found
    (expected,) = run(model, torch.tensor([[3, 4, 5]]), replace(bare, max_length=8))
    ((found,),) = search(model, [[3, 4, 5]], bare)
    assert found.ids == expected.hypotheses[0].ids
    assert found.score == pytest.approx(expected.hypotheses[0].score, abs=NETWORK)
    assert found.score == pytest.approx(score_outputs(model, [[3, 4, 5]], [found.ids], bare)[0], abs=NETWORK)
    ended = replace(bare, add_source_eos=True)
    assert found.score != pytest.approx(score_outputs(model, [[3, 4, 5]], [found.ids], ended)[0], abs=1e-2)
    with pytest.raises(DecodingError, match="a source is empty"):
        search(model, [[3], []], bare)


@pytest.mark.slow
@pytest.mark.parametrize("pad_id", [0, None])
@pytest.mark.parametrize("beam_size", [1, 4])
def test_neighbours_change_nothing(beam_size: int, pad_id: int | None) -> None:
    model = random_model(5, pad_id=pad_id)
    fields = {"beam_size": beam_size, "source_prefix": (9,), "source_suffix": (10,), "suppress_tokens": (5,)}
    alone = [search(model, [source], settings(**fields))[0] for source in SOURCES]
    for batch_tokens in (60, 10_000):
        together = search(model, SOURCES, settings(batch_tokens=batch_tokens, **fields))
        for found, expected in zip(together, alone, strict=True):
            assert [h.ids for h in found] == [h.ids for h in expected]
            assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=NETWORK)
    targets = [hypotheses[0].ids for hypotheses in alone]
    for batch_tokens in (1, 10_000):
        scores = score_outputs(model, SOURCES, targets, settings(batch_tokens=batch_tokens, **fields))
        assert scores == pytest.approx([hypotheses[0].score for hypotheses in alone], abs=NETWORK)


@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 3])
def test_limits_are_those_of_the_output_alone(beam_size: int) -> None:
    never_ending = scripted(lambda source, target: [0.0, 0.0, -9.0, 3.0, 2.0, 1.0], 6, max_positions=61)
    around = {"source_prefix": (3, 3), "source_suffix": (4,), "target_prefix": (5, 5, 5)}

    def lengths(sources: list[list[int]], **fields: Any) -> list[int]:
        found = search(never_ending, sources, DecodeConfig(beam_size=beam_size, **around, **fields))
        return [len(hypotheses[0].ids) for hypotheses in found]

    assert lengths([[], [3], [3, 3]]) == [50, 52, 54]
    assert lengths([[], [3], [3, 3]], add_source_eos=False) == [50, 52, 54]
    assert lengths([[3]], max_length=4) == [4]
    assert lengths([[3] * 9]) == [57]  # with three before and the start token, all 61 positions


def test_batches_keep_the_budget_with_what_stands_around_the_sources() -> None:
    model = scripted(lambda source, target: [0.0, 0.0, 9.0, 0.0, 0.0, 0.0], 6)
    search(model, [[3] * 5] * 10, DecodeConfig(beam_size=1, batch_tokens=36, source_prefix=(4,), source_suffix=(4, 4)))
    assert model.batches_seen == [(4, 9), (4, 9), (2, 9)]


def test_the_rank_counts_the_prefix() -> None:
    assert Hypothesis([3, 4], -6.0, prefix_length=3).rank(1.0) == pytest.approx(-1.0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source_prefix": (12,)}, "`source_prefix` holds the id 12, but the model's vocabulary has 12 ids"),
        ({"source_suffix": (3, 99)}, "`source_suffix` holds the id 99, but the model's vocabulary has 12 ids"),
        ({"target_prefix": (40,)}, "`target_prefix` holds the id 40"),
        ({"suppress_tokens": (3, 50)}, "`suppress_tokens` holds the id 50"),
        ({"suppress_tokens": (3, EOS)}, r"`suppress_tokens` has the end token \(2\), so no output would end"),
        ({"target_prefix": (3,) * 20}, "`target_prefix` has 20 ids, but the model has 20 positions"),
    ],
)
def test_what_a_model_does_not_have(fields: dict[str, Ids], message: str) -> None:
    model, config = random_model(1, max_positions=20), DecodeConfig(**fields)
    with pytest.raises(DecodingError, match=message):
        search(model, [[3]], config)
    with pytest.raises(DecodingError, match=message):
        sample_outputs(model, [[3]], SamplingConfig(), config)
    with pytest.raises(DecodingError, match=message):
        score_outputs(model, [[3]], [[4]], config)


@pytest.mark.parametrize("name", ["bos_id", "eos_id"])
def test_a_start_or_an_end_that_a_model_does_not_have(name: str) -> None:
    with pytest.raises(DecodingError, match=f"`{name}` is 40, but the model's vocabulary has 12 ids"):
        search(random_model(1, **{name: 40}), [[3]], DecodeConfig())


@pytest.mark.parametrize("beam_size", [1, 2])
def test_a_vocabulary_of_one_id_leaves_nothing_to_choose(beam_size: int) -> None:
    model = Transformer(ModelConfig.preset("tiny", src_vocab_size=1, tgt_vocab_size=1, pad_id=0, bos_id=0, eos_id=0))
    with pytest.raises(DecodingError, match=r"^the model's vocabulary has 1 id, which leaves no choice$") as error:
        search(model, [[0]], DecodeConfig(beam_size=beam_size))
    assert error.value.hint == "a vocabulary requires an end token and at least one other token"


def test_ids_below_zero() -> None:
    with pytest.raises(ConfigError, match=r"`target_prefix` \[3, -1\] has ids below 0"):
        DecodeConfig(target_prefix=(3, -1))
