"""Searches by a folder's own settings: several end tokens, banned sequences, what may not be repeated."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from pellucid.config import DecodeConfig, ModelConfig, SamplingConfig
from pellucid.decoding.batched_search import sample_outputs, search
from pellucid.decoding.constraints import Constraints
from pellucid.errors import ConfigError, DecodingError

SIZE = 8
END, OTHER_END = 2, 6


class Counter:
    """A StepModel of no text: the next token depends on the last one alone, by a table of probabilities."""

    def __init__(self, table: dict[int, dict[int, float]], family: str = "encoder-decoder") -> None:
        layers: dict[str, Any] = {"num_encoder_layers": 0} if family == "decoder" else {}
        self.config = ModelConfig(
            src_vocab_size=SIZE, tgt_vocab_size=SIZE, d_model=8, num_heads=2, d_ff=8, pad_id=0, bos_id=1, eos_id=END,
            **layers,
        )  # fmt: skip
        rows = torch.full((SIZE, SIZE), 1e-9)
        for last, following in table.items():
            for token, probability in following.items():
                rows[last, token] = probability
        self.logits = rows.log()

    def parameters(self) -> Any:
        return iter([self.logits])

    def start(self, ids: Tensor, beam_size: int, /) -> "Cache":
        return Cache(0 if self.config.family == "encoder-decoder" else ids.size(1) - 1)

    def step(self, tokens: Tensor, cache: "Cache", /) -> Tensor:
        cache.length += 1
        return self.logits[tokens]


class Cache:
    def __init__(self, length: int) -> None:
        self.length = length

    def reorder(self, parents: Tensor, /) -> None: ...

    def select(self, sentences: Tensor, /) -> None: ...


def found(model: Counter, texts: list[list[int]], **settings: Any) -> list[list[int]]:
    config = DecodeConfig(**{"beam_size": 1, "max_length": 6} | settings)
    return [hypotheses[0].ids for hypotheses in search(model, texts, config)]  # type: ignore[arg-type]


ENDS = Counter({1: {3: 1.0}, 3: {4: 0.5, OTHER_END: 0.4, END: 0.1}, 4: {OTHER_END: 0.6, 5: 0.4}, 5: {5: 0.9, END: 0.1}})


@pytest.mark.parametrize("beam_size", [1, 3])
def test_an_output_ends_at_the_first_of_its_end_tokens(beam_size: int) -> None:
    one = search(ENDS, [[3]], DecodeConfig(beam_size=beam_size, end_ids=(OTHER_END,)))[0][0]  # type: ignore[arg-type]
    assert one.ids == [3, 4]
    assert math.isclose(one.score, math.log(0.5 * 0.6), rel_tol=1e-5)  # that of the likeliest end
    assert found(ENDS, [[3]]) == [[3, 4, OTHER_END]]


def test_each_end_token_may_be_kept_from_an_output() -> None:
    assert found(ENDS, [[3]], end_ids=(OTHER_END,), suppress_tokens=(OTHER_END,)) == [[3, 4, 5, 5, 5, 5]]
    assert found(ENDS, [[3]], end_ids=(OTHER_END,), min_length=4) == [[3, 4, 5, 5, 5, 5]]


def test_outputs_are_drawn_by_the_probability_of_all_ends() -> None:
    model = Counter({1: {3: 1.0}, 3: {END: 0.25, OTHER_END: 0.25, 4: 0.5}, 4: {END: 1.0}})
    drawn = sample_outputs(
        model, [[3]] * 400, SamplingConfig(seed=3), DecodeConfig(end_ids=(OTHER_END,), max_length=6)  # type: ignore[arg-type]
    )  # fmt: skip
    share = sum(one.ids == [3] for one in drawn) / len(drawn)
    assert abs(share - 0.5) < 4 * math.sqrt(0.25 / len(drawn))


LOOP = Counter({1: {3: 1.0}, 3: {4: 0.9, 5: 0.1}, 4: {3: 0.9, 5: 0.1}, 5: {END: 1.0}})


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [3, 4, 3, 4, 3, 4]),
        ({"banned": ((3, 4),)}, [3, 5]),
        ({"banned": ((4, 3, 4), (3, 4, 3, 5))}, [3, 4, 3]),  # neither may follow, so it ends
        ({"no_repeat_ngram_size": 2}, [3, 4, 3, 5]),
        ({"target_prefix": (3, 4), "no_repeat_ngram_size": 2}, [3, 5]),  # what an output begins with counts
        ({"target_prefix": (4,), "banned": ((4, 3, 4),)}, [3, 5]),
    ],
)
def test_what_a_folder_bans(settings: dict[str, Any], expected: list[int]) -> None:
    assert found(LOOP, [[3]], **settings) == [expected]
    (beam,) = found(LOOP, [[3]], **settings, beam_size=3)
    whole = [*settings.get("target_prefix", ()), *beam]
    for sequence in settings.get("banned", ()):
        assert all(tuple(whole[i : i + len(sequence)]) != sequence for i in range(len(whole)))


def test_a_prompt_counts_in_what_is_not_repeated() -> None:
    model = Counter({3: {4: 0.9, 5: 0.1}, 4: {3: 0.9, 5: 0.1}, 5: {END: 1.0}}, "decoder")
    assert found(model, [[3, 4, 3]]) == [[4, 3, 4, 3, 4, 3]]
    assert found(model, [[3, 4, 3]], no_repeat_ngram_size=2) == [[5]]
    assert found(model, [[3, 4, 3]], banned=((4, 3, 4),)) == [[5]]


def test_what_a_call_asks_for_stands_beside_what_the_settings_ask_for() -> None:
    config = DecodeConfig(beam_size=1, max_length=6, banned=((3, 4),))
    constraints = Constraints(prefixes=((3, 4),))
    (one,) = search(LOOP, [[3]], config, constraints=constraints)[0]  # type: ignore[arg-type]
    assert one.ids == [3, 4, 3, 5]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"banned": ((3,),)}, r"`banned` has \[3\], which must be at least two ids"),
        ({"banned": ((3, -1),)}, r"`banned` has \[3, -1\], which must be"),
        ({"end_ids": (-1,)}, r"`end_ids` \[-1\] has ids below 0"),
        ({"min_length": -1}, r"`min_length` \(-1\) must be at least 0"),
        ({"no_repeat_ngram_size": 2**21}, r"`no_repeat_ngram_size` \(2097152\) must be at most 1,048,576"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DecodeConfig(**settings)


@pytest.mark.parametrize("settings", [{"banned": ((3, SIZE),)}, {"end_ids": (SIZE,)}])
def test_ids_that_the_model_does_not_have(settings: dict[str, Any]) -> None:
    with pytest.raises(
        DecodingError, match=f"`{next(iter(settings))}` holds the id 8, but the model's vocabulary has 8 ids"
    ):
        found(LOOP, [[3]], **settings)
