"""Continuing texts: greedy and drawn, whatever stands beside them, and beyond the model's positions."""

from functools import partial
from typing import Any

import pytest
import torch

from pellucid.config import DecodeConfig, SamplingConfig
from pellucid.decoding.batched_search import search
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.decoding.sampling import sample
from pellucid.decoding.scoring import token_log_probs
from pellucid.errors import DecodingError
from pellucid.model.families import DecoderOnly
from tests.rounding import NETWORK
from tests.unit.decoding.models import EOS, random_decoder

PROMPTS = [[5, 6], [7], [5, 6, 7, 8], [9], [3, 3], [10, 4, 4], [8]]


def generate(
    model: DecoderOnly,
    prompts: list[list[int]],
    max_new_tokens: int,
    sampling: SamplingConfig | None = None,
    first_place: int = 0,
    **fields: Any,
) -> list[Hypothesis]:
    """One continuation of each prompt, greedy or drawn."""
    config = DecodeConfig(beam_size=1, max_length=max_new_tokens, **fields)
    by = None if sampling is None else partial(sample, sampling=sampling)
    places = range(first_place, first_place + len(prompts))
    return [hypotheses[0] for hypotheses in search(model, prompts, config, by, text_indices=places)]


def by_definition(model: DecoderOnly, prompt: list[int], limit: int) -> tuple[list[int], float]:
    """Without cache: the whole context through the model for each token."""
    room, context, new, score = model.config.max_positions, list(prompt[-model.config.max_positions :]), [], 0.0
    for _ in range(limit):
        if len(context) > room:
            context = context[-(room * 3 // 4) :]
        log_probs = model(torch.tensor([context]))[0, -1].log_softmax(-1)
        if model.config.pad_id is not None:
            log_probs[model.config.pad_id] = -torch.inf
        token = int(log_probs.argmax())
        score += float(log_probs[token])
        if token == model.config.eos_id:
            break
        new.append(token)
        context.append(token)
    return new, score


@pytest.mark.slow
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary"])
@pytest.mark.parametrize("pad_id", [0, None])
def test_greedy_is_as_defined(positions: str, pad_id: int | None) -> None:
    """Beyond the positions as well: the longest text here takes three times as many as there are."""
    model = random_decoder(3, positions=positions, pad_id=pad_id)
    prompts = [*PROMPTS, [4, 5, 6, 7, 8, 9, 10, 11, 3, 4, 5, 6, 7, 8]]
    with torch.no_grad():
        expected = [by_definition(model, prompt, 30) for prompt in prompts]
    found = generate(model, prompts, 30)
    assert [h.ids for h in found] == [ids for ids, _ in expected]
    assert [h.score for h in found] == pytest.approx([score for _, score in expected], abs=NETWORK)
    assert any(len(h.ids) == 30 for h in found), "one goes on beyond the positions"


@pytest.mark.parametrize("sampling", [None, SamplingConfig(seed=4, temperature=1.3, top_k=8)])
def test_neighbours_and_batches_change_nothing(sampling: SamplingConfig | None) -> None:
    model = random_decoder(1)
    alone = [generate(model, [p], 20, sampling, first_place=i)[0] for i, p in enumerate(PROMPTS)]
    for batch_tokens in (1, 50, 4096):
        found = generate(model, PROMPTS, 20, sampling, batch_tokens=batch_tokens)
        assert [h.ids for h in found] == [h.ids for h in alone]
        assert [h.score for h in found] == pytest.approx([h.score for h in alone], abs=NETWORK)


def test_a_near_tie_is_settled_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_decoder(1)
    with torch.no_grad():
        model.output_projection.weight.zero_()
        model.output_projection.bias.copy_(torch.tensor([-9.0, -9, -9, 5, 5, -9, -9, -9, -9, -9, -9, -9]))
    step, sizes = DecoderOnly.step, list[int]()

    def disturbed(self: DecoderOnly, tokens: torch.Tensor, cache: Any) -> torch.Tensor:
        sizes.append(tokens.size(0))
        logits = step(self, tokens, cache)
        logits[..., 3] += 1e-6 if tokens.size(0) > 1 else -1e-6
        return logits

    monkeypatch.setattr(DecoderOnly, "step", disturbed)
    assert [h.ids for h in generate(model, [[5], [6], [7]], 2)] == [[4, 4]] * 3
    assert sizes == [3, 3, *[1] * 6]
    sizes.clear()
    generate(model, [[5]], 2)
    assert sizes == [1, 1], "what was alone is not done again"


def test_suppressed_ids_are_never_written() -> None:
    model = random_decoder(2, pad_id=None)
    free = [h.ids for h in generate(model, PROMPTS, 20)]
    common = max(range(3, 12), key=lambda i: sum(ids.count(i) for ids in free))
    held = [h.ids for h in generate(model, PROMPTS, 20, suppress_tokens=(common,))]
    assert any(common in ids for ids in free)
    assert not any(common in ids for ids in held)


def test_the_pad_id_is_never_written_where_there_is_one() -> None:
    for pad_id, expected in ((0, 3), (None, 0)):
        model = random_decoder(2, pad_id=pad_id)
        with torch.no_grad():
            model.output_projection.bias[0], model.output_projection.bias[3] = 200.0, 100.0
        assert generate(model, [[5]], 2)[0].ids == [expected] * 2


def test_the_end_token_ends() -> None:
    model = random_decoder(2)
    with torch.no_grad():
        model.output_projection.bias[EOS] = 100.0
    (found,) = generate(model, [[5]], 5)
    assert found.ids == []
    assert found.score == pytest.approx(0.0, abs=NETWORK), "its probability counts"


def test_damaged_weights_are_said() -> None:
    model = random_decoder(2)
    with torch.no_grad():
        model.output_projection.bias[4] = torch.nan
    with pytest.raises(DecodingError, match="not a number"):
        generate(model, [[5]], 2)
    with pytest.raises(DecodingError, match="not a number"):
        token_log_probs(model, [[5, 6]])


@pytest.mark.slow
def test_draws_follow_the_distribution() -> None:
    model = random_decoder(5, sharpness=1.0)
    with torch.no_grad():
        expected = model(torch.tensor([[5]]))[0, -1].softmax(-1)
        expected[0] = 0.0
        expected /= expected.sum()
    found = generate(model, [[5]] * 4000, 1, SamplingConfig(), batch_tokens=100_000)
    counts = torch.zeros(12)
    for hypothesis in found:
        counts[hypothesis.ids[0] if hypothesis.ids else EOS] += 1
    wanted = 4000 * expected
    chi_square = float(((counts - wanted)[1:] ** 2 / wanted[1:]).sum())
    assert chi_square < 45  # of 10 degrees of freedom: beyond it once in 500,000


def test_an_id_that_the_model_does_not_have() -> None:
    with pytest.raises(DecodingError, match="a text holds the id 99, but the model's vocabulary has 12 ids"):
        generate(random_decoder(4), [[1, 5], [1, 99]], 2)
    with pytest.raises(DecodingError, match="a text holds the id 12, but the model's vocabulary has 12 ids"):
        token_log_probs(random_decoder(4), [[1, 12]])


def test_a_prompt_without_tokens() -> None:
    with pytest.raises(DecodingError, match=r"^a prompt is empty: a model continues at least one token$"):
        generate(random_decoder(4), [[5], []], 2)


def test_an_end_token_that_the_model_does_not_have() -> None:
    with pytest.raises(DecodingError, match="`eos_id` is 40, but the model's vocabulary has 12 ids"):
        generate(random_decoder(4, eos_id=40), [[5]], 2)


def test_a_text_may_be_told_never_to_end() -> None:
    (found,) = generate(random_decoder(2), [[5]], 20, suppress_tokens=(EOS,))
    assert len(found.ids) == 20
    assert not found.ended
