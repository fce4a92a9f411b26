"""Beam and greedy search: ties, limits, what they leave out, and that finished sentences leave the batch."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pellucid.config import DecodeConfig
from pellucid.decoding import beam
from pellucid.decoding.beam import best_token, stable_topk
from tests.unit.decoding.models import (
    BOS,
    EOS,
    PAD,
    Ids,
    beam_found,
    greedy_found,
    random_model,
    random_script,
    random_sources,
    scripted,
    source_batch,
)


@pytest.mark.slow
@given(
    rows=st.integers(1, 6).flatmap(
        lambda width: st.lists(
            st.lists(st.sampled_from([0.0, 0.5, 1.0, -torch.inf]), min_size=width, max_size=width),
            min_size=1,
            max_size=3,
        )
    ),
    data=st.data(),
)
def test_of_equal_values_the_first_are_taken(rows: list[list[float]], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(rows[0])))
    top, places = stable_topk(torch.tensor(rows), k)
    for row, values, found in zip(rows, top.tolist(), places.tolist(), strict=True):
        expected = sorted(range(len(row)), key=lambda i: (-row[i], i))[:k]
        assert found == expected
        assert values == [row[i] for i in expected]


def test_many_equal_values_among_many() -> None:
    values = torch.zeros(2, 5000)
    values[1, 4000:] = 1.0
    assert stable_topk(values, 7)[1].tolist() == [list(range(7)), list(range(4000, 4007))]


@pytest.mark.parametrize("size", [64 * 40, 64 * 40 + 1, 64 * 40 + 63])
@pytest.mark.parametrize("levels", [3, 1000, 10**9])
def test_blocks_rank_as_all_numbers_do(size: int, levels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With few levels most numbers are equal; of some rows nearly all are minus infinity."""
    monkeypatch.setattr(beam, "MANY", 0)
    draw = torch.Generator().manual_seed(levels)
    values = torch.randint(0, levels, (6, size), generator=draw).float()
    values[4, 3:] = values[5, : size - 1] = -torch.inf
    for k in (1, 2, 9):
        expected = values.sort(dim=1, descending=True, stable=True)
        top, places = stable_topk(values, k)
        assert torch.equal(places, expected.indices[:, :k])
        assert torch.equal(top, expected.values[:, :k])
    tokens, lead = best_token(values)
    assert torch.equal(tokens, expected.indices[:, :1])
    assert torch.equal(lead[:5], (expected.values[:, 0] - expected.values[:, 1])[:5])


def test_equal_probabilities_give_the_lower_ids() -> None:
    model = scripted(lambda source, target: [0.0] * 7, 7)
    (found,) = beam_found(model, source_batch([[3]]), DecodeConfig(beam_size=3, n_best=3, max_length=1))
    assert [h.ids for h in found.hypotheses] == [[], [3], [4]]  # not 5 and 6, as probable as 3 and 4
    assert found.margin == 0


@pytest.mark.parametrize("beam_size", [1, 3])
def test_nothing_is_longer_than_its_limit(beam_size: int) -> None:
    never_ending = scripted(lambda source, target: [0.0, 0.0, -9.0, 3.0, 2.0, 1.0], 6)
    config = DecodeConfig(beam_size=beam_size, n_best=beam_size)
    for sentence, limit in zip(beam_found(never_ending, source_batch([[3, 3], []]), config), (54, 50), strict=True):
        assert [len(h.ids) for h in sentence.hypotheses] == [limit] * beam_size
    limited = DecodeConfig(beam_size=beam_size, max_length=4)
    assert len(beam_found(never_ending, source_batch([[3]]), limited)[0].hypotheses[0].ids) == 4


def test_a_model_is_not_asked_beyond_its_positions() -> None:
    model = random_model(1, max_positions=6, positions="learned")
    with torch.no_grad():
        model.output_projection.bias[EOS] = -50
    (found,) = beam_found(model, source_batch([[3, 4, 5, 6, 7]]), DecodeConfig(beam_size=2, n_best=2))
    assert [len(h.ids) for h in found.hypotheses] == [5, 5]


def test_padding_and_start_never_come_out() -> None:
    model = scripted(lambda source, target: [9.0, 9.0, -1.0, 0.0, 0.5, -0.5], 6)
    (found,) = beam_found(model, source_batch([[3]]), DecodeConfig(beam_size=4, n_best=4, max_length=5))
    assert not {PAD, BOS, EOS} & {word for h in found.hypotheses for word in h.ids}


@pytest.mark.parametrize(("vocab_size", "fields"), [(3, {}), (2, {"pad_id": None, "bos_id": 0, "eos_id": 1})])
def test_a_vocabulary_without_words(vocab_size: int, fields: dict[str, int | None]) -> None:
    model = scripted(lambda source, target: [0.0] * vocab_size, vocab_size, **fields)
    (found,) = beam_found(model, torch.full((1, 2), vocab_size - 1), DecodeConfig(beam_size=4, n_best=4))
    assert [h.ids for h in found.hypotheses] == [[]]


def ends_after(words: dict[int, int]) -> object:
    """A script in which a source that begins with `word` gives `words[word]` words."""

    def logits(source: Ids, target: Ids) -> list[float]:
        return [0.0, 0.0, 30.0 if len(target) >= words[source[0]] else -30.0, 3.0, 2.0, 1.0]

    return logits


def test_finished_sentences_leave_the_batch() -> None:
    model = scripted(ends_after({3: 4, 4: 1, 5: 4, 6: 2}), 6)
    found = beam_found(model, source_batch([[3], [4], [5], [6]]), DecodeConfig(beam_size=2, length_penalty=0.0))
    assert [len(f.hypotheses[0].ids) for f in found] == [4, 1, 4, 2]
    assert model.rows_seen == [4, 4, 3, 2, 2]


def test_a_search_stops_when_nothing_can_come_in_any_more() -> None:
    """The end is all but certain at once: with one to be found, nothing else is tried; with two, a second step is."""
    model = scripted(lambda source, target: [0.0, 0.0, 9.0, 0.0, -1.0], 5)
    for n_best, steps in ((1, 1), (2, 2)):
        model.rows_seen.clear()
        config = DecodeConfig(beam_size=4, n_best=n_best, length_penalty=0.0, max_length=20)
        beam_found(model, source_batch([[3]]), config)
        assert len(model.rows_seen) == steps


def test_what_is_improbable_and_short_does_not_end_the_search() -> None:
    """The end is always among the first W, though it is improbable; what is probable ends later than W such ends."""

    def logits(source: Ids, target: Ids) -> list[float]:
        return [0.0, 0.0, 3.0 if len(target) < 7 else 20.0, 10.0, -1.0, -2.0, -3.0]

    for length_penalty in (0.0, 1.0, 2.0):
        config = DecodeConfig(beam_size=3, length_penalty=length_penalty)
        (found,) = beam_found(scripted(logits, 7), source_batch([[3]]), config)
        assert found.hypotheses[0].ids == [3] * 7
        assert found.hypotheses[0].score > -0.1


def test_fewer_hypotheses_than_asked_for_where_there_are_no_more() -> None:
    (found,) = beam_found(
        scripted(random_script(1, 4), 4), source_batch([[3]]), DecodeConfig(beam_size=9, n_best=9, max_length=2)
    )
    assert sorted(h.ids for h in found.hypotheses) == [[], [3], [3, 3]]


def test_the_most_probable_token_at_each_step() -> None:
    steps = [[9.0, 9.0, 0.0, 1.0, 2.0], [0.0, 0.0, 0.0, 0.5, 0.0], [0.0, 0.0, 3.0, 0.0, 0.0]]
    (found,) = greedy_found(scripted(lambda source, target: steps[len(target)], 5), source_batch([[3]]))
    chosen = [(2.0, steps[0]), (0.5, steps[1]), (3.0, steps[2])]
    score = sum(best - math.log(sum(map(math.exp, logits))) for best, logits in chosen)
    assert found.hypotheses[0].ids == [4, 3]
    assert found.hypotheses[0].score == pytest.approx(score, abs=1e-5)
    assert found.margin == pytest.approx(0.5)  # the end was second in the second step


def test_equal_probabilities_give_greedy_search_the_lower_id() -> None:
    model = random_model(1, vocab_size=40)
    with torch.no_grad():
        model.output_projection.weight[30:40] = model.output_projection.weight[20:30]
        model.output_projection.bias[20:40] = 5.0
    found = greedy_found(model, source_batch(random_sources(1, 6)), DecodeConfig(max_length=10))
    words = {word for f in found for word in f.hypotheses[0].ids}
    assert words & set(range(20, 30))
    assert not words & set(range(30, 40))
    assert all(f.margin == 0 for f in found if f.hypotheses[0].ids)


def test_finished_sentences_leave_a_greedy_batch() -> None:
    def logits(source: Ids, target: Ids) -> list[float]:
        return [0.0, 0.0, 9.0 if len(target) == len(source) else -9.0, 0.0, 1.0]

    model = scripted(logits, 5)
    found = greedy_found(model, source_batch([[3, 3], [], [3, 3, 3], [3]]))
    assert [len(f.hypotheses[0].ids) for f in found] == [2, 0, 3, 1]
    assert model.rows_seen == [4, 3, 2, 1]


def test_limits_of_greedy_search() -> None:
    model = scripted(lambda source, target: [0.0, 0.0, -9.0, 1.0], 4, max_positions=53)
    found = greedy_found(model, source_batch([[], [3], [3] * 9]))
    assert [len(f.hypotheses[0].ids) for f in found] == [50, 52, 52]
    found = greedy_found(model, source_batch([[], [3]]), DecodeConfig(max_length=2))
    assert [len(f.hypotheses[0].ids) for f in found] == [2, 2]


def test_preferences_choose_and_log_probabilities_count() -> None:
    model = scripted(lambda source, target: [0.0] * 4 + [5.0], 5)
    seen = []

    def prefer_three(log_probs: torch.Tensor, rows: list[int]) -> torch.Tensor:
        seen.append(rows)
        wanted = torch.full_like(log_probs, -1.0)
        wanted[:, 3] = 0.0
        return wanted + log_probs.masked_fill(log_probs.isfinite(), 0.0)

    found = greedy_found(model, source_batch([[3], [4]]), DecodeConfig(max_length=2), token_values=prefer_three)
    total = math.log(4 + math.exp(5.0))
    assert [f.hypotheses[0].ids for f in found] == [[3, 3], [3, 3]]
    assert [f.hypotheses[0].score for f in found] == pytest.approx([-3 * total] * 2, abs=1e-5)
    assert seen == [[0, 1]] * 3
    assert EOS not in found[0].hypotheses[0].ids
