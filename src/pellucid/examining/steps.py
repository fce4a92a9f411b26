"""Checks of writing token by token: positions, the cache, hypotheses side by side, and the search by them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from pellucid.config import DecodeConfig
from pellucid.decoding.beam import beam_search
from pellucid.decoding.engine import search
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.examining.subject import (
    ModelCheck,
    Subject,
    apart,
    bad,
    began,
    good,
    is_encoder,
    not_applicable,
    recorded,
)
from pellucid.model.families import DecoderOnly, EncoderOnly
from pellucid.model.positions import AddedPositions
from pellucid.model.relative import Distances
from pellucid.model.transformer import Transformer

WRITES_NOTHING = "an encoder writes nothing"
MIXED = "something mixes the texts of a batch, or reads their padding"
HYPOTHESES = 3
NEW_TOKENS = 10
"""The most that a search of the examination writes."""


@torch.inference_mode()
def positions(subject: Subject) -> ModelCheck:
    """Checks that places have positions of their own, and that a step of decoding takes that of its place."""
    name, model = "positions", subject.exact
    if same := _places_alike(subject):
        return bad(
            name, f"{same}: the order of words is lost", "give each place a vector or a distance of its own", 1.0
        )
    if is_encoder(model):
        return good(name, "words in another order are told apart")
    src, tgt = (subject.sources or [[]])[0], subject.targets[0]
    whole = recorded(model, lambda: subject.output(src, tgt))
    steps = recorded(model, lambda: stepwise(subject, src, tgt))
    worst, where = 0.0, ""
    for place in ("tgt_embedding", "decoder.relative"):
        for at, (one, other) in enumerate(_of_places(whole.get(place, []), steps.get(place, []), len(tgt))):
            if not (figure := apart(one, other)) <= worst:
                worst, where = figure, f" at place {at} of {place}"
    said = "positions in a step and in a whole pass differ by {} of the largest"
    return subject.result(
        name, said + (where if worst > subject.tolerance else ""), worst,
        "a step keeps a position that is stale: take that of `position=`, or of cache.positions",
    )  # fmt: skip


def _places_alike(subject: Subject) -> str:
    """Says what does not tell places apart; empty where all does."""
    model = subject.exact
    for place, module in model.named_modules():
        if isinstance(module, AddedPositions):
            count = min(4, subject.config.max_positions)
            vectors = module(0, count)
            if count > 1 and apart(vectors, vectors[:1].expand_as(vectors)) == 0:
                return f"{place} gives all places one vector"
    if is_encoder(model) and len(src := subject.sources[0]) > 2:
        turned = [src[0], *src[:0:-1]]
        assert isinstance(model, EncoderOnly)
        one, other = (EncoderOnly.forward(model, subject.tensor(ids)) for ids in (src, turned))
        other = other[:, [0, *range(len(src) - 1, 0, -1)]]
        if src[1:] != src[:0:-1] and apart(one, other) <= subject.tolerance:
            return "words in another order are not told apart"
    return ""


def _of_places(whole: Sequence[Any], steps: Sequence[Any], count: int) -> list[tuple[Tensor, Tensor]]:
    """Returns, place by place, what a whole pass and a step gave there."""
    if not whole or len(steps) < count:
        return []
    pairs = []
    for place in range(count):
        one, other = whole[0], steps[place]
        if isinstance(one, Tensor):
            pairs.append((one[:, place], other[:, 0]))
        elif isinstance(one, Distances) and isinstance(other, Distances):
            if one.rotation is not None and other.rotation is not None:
                for a, b in zip(one.rotation, other.rotation, strict=True):
                    pairs.append((a[place], b[0]))
            if one.bias is not None and other.bias is not None:
                pairs.append((one.bias[..., place : place + 1, : place + 1], other.bias))
    return pairs


@torch.inference_mode()
def cache(subject: Subject) -> ModelCheck:
    """Checks that logits taken step by step with the cache are those of a whole pass."""
    name = "cache"
    if is_encoder(subject.exact):
        return not_applicable(name, WRITES_NOTHING)
    worst, begins = 0.0, ""
    for src, tgt in zip(subject.sources or [[]] * len(subject.targets), subject.targets, strict=True):
        whole = subject.output(src, tgt)
        found = [stepwise(subject, src, tgt)]
        if isinstance(subject.exact, DecoderOnly) and len(tgt) > 3:
            found.append(stepwise(subject, src, tgt, prompt=3))
        for steps in found:
            figure = apart(whole[:, -steps.size(1) :], steps)
            if not figure <= worst:
                worst = figure
                if not figure <= subject.tolerance and not begins:
                    begins = began(_first_in_steps(subject, src, tgt) or "the decoder's fast step")
    said = f"logits with the cache and without differ by {{}} of the largest{begins}"
    return subject.result(
        name, said, worst,
        "keep each step's keys and values with cache.extend_self, and attend by the mask that is given",
    )  # fmt: skip


def stepwise(subject: Subject, src: Sequence[int], tgt: Sequence[int], prompt: int = 1) -> Tensor:
    """Returns the logits of each token of a target, a step each, (1, T, V); of those behind a decoder's `prompt`."""
    model = subject.exact
    assert isinstance(model, Transformer | DecoderOnly)
    kept = model.start(subject.tensor(src) if isinstance(model, Transformer) else subject.tensor(tgt[:prompt]))
    rest = tgt if isinstance(model, Transformer) else tgt[prompt - 1 :]
    return torch.cat([model.step(subject.tensor([token]), kept) for token in rest], dim=1)


def _first_in_steps(subject: Subject, src: Sequence[int], tgt: Sequence[int]) -> str:
    """Names the part that first gives something else in a step than in a whole pass."""
    whole = recorded(subject.exact, lambda: subject.output(src, tgt))
    steps = recorded(subject.exact, lambda: stepwise(subject, src, tgt))
    for at in range(len(tgt)):
        for place, given in whole.items():
            later = steps.get(place, [])
            if len(later) == len(tgt) and isinstance(given[0], Tensor):
                one, other = given[0], later[at]
                same = one.dim() == 3 and one.size(1) == len(tgt)
                if same and apart(one[:, at], other[:, 0]) > subject.tolerance:
                    return place
    return ""


@torch.inference_mode()
def hypotheses(subject: Subject) -> ModelCheck:
    """Checks that hypotheses side by side, reordered and let go as in a beam, say what each says by itself."""
    name, model = "hypotheses", subject.exact
    if is_encoder(model):
        return not_applicable(name, WRITES_NOTHING)
    assert isinstance(model, Transformer | DecoderOnly)
    size, generator = subject.config.tgt_vocab_size, torch.Generator().manual_seed(1)
    sources, begin = subject.sources[:1] * 2, subject.targets[0][: -LEFT_TO_WRITE or None][:1]
    if sources:
        sources[1] = subject.other_ids(sources[0], subject.config.src_vocab_size)
        kept = model.start(subject.tensor(*sources), HYPOTHESES)
    else:
        sources = [[], []]
        kept = model.start(subject.tensor(begin, begin), HYPOTHESES)
    rows = [0, 1]
    read = [[[*begin] for _ in range(HYPOTHESES)] for _ in rows]
    worst, at = 0.0, 0
    for step in range(min(LEFT_TO_WRITE, subject.config.max_positions - 1) + 1):
        tokens = torch.tensor([[one[-1] for one in read[row]] for row in rows], device=subject.device)
        logits = model.step(tokens, kept)  # (B, W, V)
        for number, row in enumerate(rows):
            for place, one in enumerate(read[row]):
                figure = apart(subject.output(sources[row], one)[:, -1], logits[number : number + 1, place])
                if not figure <= worst:
                    worst, at = figure, step
        parents = torch.randint(HYPOTHESES, (len(rows), HYPOTHESES), generator=generator)
        kept.reorder(parents.to(subject.device))
        for number, row in enumerate(rows):
            drawn = subject.other_ids([0] * HYPOTHESES, size)
            read[row] = [[*read[row][p], new] for p, new in zip(parents[number].tolist(), drawn, strict=True)]
        if step == 2:
            rows = [1]
            kept.select(torch.tensor([1], device=subject.device))
    said = f"{HYPOTHESES} hypotheses side by side and each by itself differ by {{}} of the largest logit"
    return subject.result(
        name, said + (f", first at step {at}" if worst > subject.tolerance else ""), worst,
        "what a part keeps from step to step must be in cache.state_of(self), a row a hypothesis",
    )  # fmt: skip


LEFT_TO_WRITE = 5
"""Steps that hypotheses are followed for."""


def greedy(subject: Subject) -> ModelCheck:
    """Checks that a beam of one finds what greedy search finds, with the score of a whole pass over it."""
    name, model = "greedy", subject.exact
    if is_encoder(model):
        return not_applicable(name, WRITES_NOTHING)
    assert isinstance(model, Transformer | DecoderOnly)
    decode, texts = _short(subject, 1), _texts(subject)
    one = search(model, texts, decode)
    other = search(model, texts, decode, beam_search)
    for number, (a, b) in enumerate(zip(one, other, strict=True)):
        if a[0].ids != b[0].ids:
            at = next((i for i, (x, y) in enumerate(zip(a[0].ids, b[0].ids, strict=False)) if x != y), -1)
            return bad(name, f"a beam of one and greedy search part at token {at} of text {number}",
                       "both choose by the same logits: does `step` give others from call to call?", 1.0)  # fmt: skip
    figure = max(abs(_forced(subject, number, found[0]) - found[0].score) / max(1.0, abs(found[0].score))
                 for number, found in enumerate(one))  # fmt: skip
    said = f"a beam of one finds the same in {len(one)} texts, and its scores are those of whole passes but for {{}}"
    # A search adds up log-probabilities in single precision, whatever the model computes in.
    advice = "a step of the model, or its cache, says something else than a whole pass"
    return subject.result(name, said, figure, advice, max(subject.tolerance, torch.finfo(torch.float32).eps ** 0.5))


@torch.inference_mode()
def _forced(subject: Subject, number: int, found: Hypothesis) -> float:
    """Returns the log-probability of what a search has found, from one pass over it."""
    before = _texts(subject)[number] if not subject.sources else [
        subject.config.bos_id, *subject.decode.target_prefix
    ]  # fmt: skip
    chosen = [*found.ids, *([subject.config.eos_id] if found.ended else [])]
    src = subject.sources[number] if subject.sources else []
    read = [*before, *chosen][:-1]
    if not chosen:
        return 0.0
    logits = subject.output(src, read)[0, len(before) - 1 :].double().log_softmax(dim=-1)
    return float(logits.gather(1, torch.tensor(chosen, device=logits.device)[:, None]).sum())


def searched_together(subject: Subject) -> ModelCheck:
    """Checks that what a search finds does not depend on the texts beside it; in the precision that it is used in."""
    name, model = "neighbours", subject.model
    if is_encoder(model):
        return not_applicable(name, WRITES_NOTHING)
    dtype = next(model.parameters()).dtype
    if dtype not in (torch.float32, torch.float64):
        return not_applicable(name, f"in {str(dtype).removeprefix('torch.')} a near tie may fall either way")
    assert isinstance(model, Transformer | DecoderOnly)
    used, training = subject.model, subject.model.training
    texts, worst = _texts(subject), 0.0
    try:
        used.eval()
        for beam_size in (1, 4):
            decode = _short(subject, beam_size)
            together = search(model, texts, decode)
            for number, text in enumerate(texts):
                alone, found = search(model, [text], decode)[0][0], together[number][0]
                if alone.ids != found.ids:
                    return bad(name, f"with a beam of {beam_size}, text {number} is written otherwise in a batch "
                               "than alone", MIXED, 1.0)  # fmt: skip
                worst = max(worst, abs(alone.score - found.score) / max(1.0, abs(alone.score)))
    finally:
        used.train(training)
    said = f"{len(texts)} texts are written the same in a batch and alone; their scores differ by {{}}"
    return subject.result(name, said, worst, MIXED,
                          torch.finfo(torch.float32).eps ** 0.5)  # fmt: skip


def _short(subject: Subject, beam_size: int) -> DecodeConfig:
    room = subject.config.max_positions - 1 - max(map(len, [*_texts(subject), *subject.targets[:1]]))
    return replace(subject.decode, beam_size=beam_size, n_best=1, max_length=max(1, min(NEW_TOKENS, room)))


def _texts(subject: Subject) -> list[list[int]]:
    """Returns what a search is given: sources without what stands around them, or prompts."""
    return subject.bare_sources if subject.sources else [tgt[:3] for tgt in subject.targets]
