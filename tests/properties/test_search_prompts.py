"""Beam search of a decoder alone: the true optimum, the definition, and nothing of a text's neighbours."""

from functools import partial
from itertools import product

import pytest
import torch

from pellucid.config import DecodeConfig
from pellucid.decoding.batched_search import search
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.model.families import DecoderOnly
from tests.rounding import NETWORK
from tests.unit.decoding.models import EOS, PAD, Ids, random_decoder
from tests.unit.decoding.reference import plain_search

PENALTIES = [0.0, 0.6, 1.0, 2.0, -0.5]
PROMPTS = [[5, 6], [7], [5, 6, 7, 8], [9], [3, 3], [10, 4, 4], [8], [11, 2]]


def context_of(prompt: Ids, new: Ids, room: int) -> list[int]:
    """What the model reads of a text: all of it, or its last part since the positions were last all taken."""
    context = list(prompt[-room:])
    for token in new:
        context.append(token)
        if len(context) > room:
            context = context[-max(1, room * 3 // 4) :]
    return context


class Definition:
    """What the model says next, by a pass over all that it reads, without a cache."""

    def __init__(self, model: DecoderOnly) -> None:
        self.model = model
        self.known: dict[Ids, list[float]] = {}

    @torch.no_grad()
    def logits(self, prompt: Ids, new: Ids) -> list[float]:
        """Logits (V,) behind a prompt and what was added to it."""
        context = tuple(context_of(prompt, new, self.model.config.max_positions))
        if context not in self.known:
            self.known[context] = self.model(torch.tensor([context]))[0, -1].tolist()
        return self.known[context]

    def score(self, prompt: Ids, new: Ids) -> float:
        """The sum over the tokens of `new`, which may hold the end token."""
        steps = [torch.tensor(self.logits(prompt, new[:place]), dtype=torch.float64) for place in range(len(new))]
        return sum(float(logits.log_softmax(dim=0)[token]) for logits, token in zip(steps, new, strict=True))


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@pytest.mark.parametrize(("limit", "max_positions"), [(3, 12), (3, 4)])
def test_an_exhaustive_beam_finds_the_optimum(positions: str, limit: int, max_positions: int) -> None:
    """Among all texts that end within the limit, and all that are cut off there."""
    model = random_decoder(1, vocab_size=5, positions=positions, max_positions=max_positions)
    prompt, words = (3, 4), (1, 3, 4)
    texts = [text for length in range(limit + 1) for text in product(words, repeat=length)]
    every, definition = [], Definition(model)
    for text in texts:
        ended = len(text) < limit
        score = definition.score(prompt, (*text, EOS) if ended else text)
        every.append(Hypothesis(list(text), score, ended=ended))
    for length_penalty in PENALTIES[::2]:
        ranked = sorted(every, key=lambda h: -h.rank(length_penalty))
        for n_best in (1, 4, len(every)):
            config = DecodeConfig(beam_size=len(every), n_best=n_best, max_length=limit, length_penalty=length_penalty)
            (found,) = search(model, [list(prompt)], config)
            assert [(h.ids, h.ended) for h in found] == [(h.ids, h.ended) for h in ranked[:n_best]]
            assert [h.score for h in found] == pytest.approx([h.score for h in ranked[:n_best]], abs=NETWORK)


OFTEN = {("learned", 3, 40), ("sinusoidal", 2, 40), ("rotary", 2, 40), ("relative", 3, 40),
         ("learned", 2, 6), ("sinusoidal", 3, 6), ("rotary", 3, 6), ("relative", 2, 6)}  # fmt: skip
"""Of the cases below those that `make test` runs: half of them, with each pair of two settings."""


@pytest.mark.parametrize(
    ("positions", "width", "n_best", "max_positions"),
    [
        pytest.param(
            positions, width, n_best, room, marks=() if (positions, width, room) in OFTEN else pytest.mark.slow
        )
        for positions in ("learned", "sinusoidal", "rotary", "relative")
        for width, n_best in ((2, 1), (3, 2))
        for room in (40, 6)
    ],
)
def test_beam_search_is_as_defined(positions: str, width: int, n_best: int, max_positions: int) -> None:
    """Beyond the positions as well, where hypotheses part and each goes on with its own last part."""
    cut_off = ended = 0
    for seed in range(2):
        model = random_decoder(seed, sharpness=2.0, positions=positions, max_positions=max_positions)
        definition = Definition(model)
        for length_penalty in PENALTIES:
            config = DecodeConfig(beam_size=width, n_best=n_best, max_length=14, length_penalty=length_penalty)
            for prompt, found in zip(PROMPTS[:3], search(model, PROMPTS[:3], config), strict=True):
                logits = partial(definition.logits, tuple(prompt))
                expected = plain_search(logits, 14, config, cuts=True, never=(PAD,))
                assert [tuple(h.ids) for h in found] == [ids for ids, _ in expected]
                assert [h.score for h in found] == pytest.approx([score for _, score in expected], abs=NETWORK)
                ended += sum(h.ended for h in found)
                cut_off += sum(not h.ended for h in found)
    assert ended > 0
    assert cut_off > 0


@pytest.mark.parametrize(
    ("positions", "max_positions"),
    [
        ("learned", 60),
        pytest.param("rotary", 9, marks=pytest.mark.slow),
        pytest.param("learned", 9, marks=pytest.mark.slow),
        pytest.param("rotary", 60, marks=pytest.mark.slow),
    ],
)
def test_neighbours_and_budget(positions: str, max_positions: int) -> None:
    model = random_decoder(1, sharpness=2.0, positions=positions, max_positions=max_positions)
    config = DecodeConfig(beam_size=4, n_best=2, max_length=20)
    alone = [search(model, [prompt], config)[0] for prompt in PROMPTS]
    for batch_tokens in (1, 300, 4096):
        options = DecodeConfig(beam_size=4, n_best=2, max_length=20, batch_tokens=batch_tokens)
        for prompts, expected in ((PROMPTS, alone), (PROMPTS[::-1], alone[::-1]), (PROMPTS[::3], alone[::3])):
            found = search(model, prompts, options)
            assert [[h.ids for h in hs] for hs in found] == [[h.ids for h in hs] for hs in expected]
            scores = [h.score for hs in expected for h in hs]
            assert [h.score for hs in found for h in hs] == pytest.approx(scores, abs=NETWORK)


@pytest.mark.slow
def test_long_texts_keep_the_digits_of_their_scores() -> None:
    """A sum of hundreds of tokens in single precision would be off by more than rounding within a step."""
    model = random_decoder(4, sharpness=0.5, max_positions=800)
    config = DecodeConfig(beam_size=3, n_best=3, max_length=700, suppress_tokens=(EOS,))
    (found,) = search(model, [[5, 6]], config)
    for hypothesis in found:
        with torch.no_grad():
            log_probs = model(torch.tensor([[5, 6, *hypothesis.ids[:-1]]]))[0, 1:].double().log_softmax(dim=-1)
        exact = float(log_probs.gather(1, torch.tensor(hypothesis.ids)[:, None]).sum())
        assert exact < -500
        # A step's log-probability lies between 1 and 2 here, where numbers are eps apart, and is rounded twice: as a
        # logit less their largest, and less the logarithm of their sum.
        rounded = 2 * torch.finfo(torch.float32).eps * len(hypothesis.ids)
        assert hypothesis.score == pytest.approx(exact, rel=0, abs=rounded)
