"""Checks of incremental decoding: positions, the cache, hypotheses in a beam, and the search over them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from pellucid.config import DecodeConfig
from pellucid.decoding.batched_search import search
from pellucid.decoding.beam import beam_search
from pellucid.decoding.fast_step import make_step
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.model.attention_positions import Distances
from pellucid.model.families import DecoderOnly, EncoderOnly
from pellucid.model.positions import AbsolutePositions
from pellucid.model.transformer import Transformer
from pellucid.properties.subject import (
    ExaminedModel,
    ModelCheck,
    describe_origin,
    is_encoder,
    record_outputs,
    relative_difference,
    report_bad,
    report_good,
    report_not_applicable,
)

WRITES_NOTHING = "an encoder generates no text"
MIXED = "a part mixes the texts of a batch, or attends to their padding"
HYPOTHESES = 3
NEW_TOKENS = 10
"""The most tokens that a search in these checks writes."""


@torch.inference_mode()
def positions(subject: ExaminedModel) -> ModelCheck:
    """Checks that positions are distinct, and that a decoding step uses the embedding of its position."""
    name, model = "positions", subject.exact
    if same := _places_alike(subject):
        return report_bad(
            name,
            f"{same}: the order of words has no effect",
            "use a different vector or distance for each position",
            1.0,
        )
    if is_encoder(model):
        return report_good(name, "words in another order give other outputs")
    src, tgt = (subject.sources or [[]])[0], subject.targets[0]
    whole = record_outputs(model, lambda: subject.output(src, tgt))
    steps = record_outputs(model, lambda: stepwise(subject, src, tgt))
    worst, where = 0.0, ""
    for place in ("tgt_embedding", "decoder.relative"):
        for at, (one, other) in enumerate(_pair_places(whole.get(place, []), steps.get(place, []), len(tgt))):
            if not (figure := relative_difference(one, other)) <= worst:
                worst, where = figure, f" at place {at} of {place}"
    said = "positions in a step and in a full pass differ by {} of the largest"
    return subject.result(
        name, said + (where if worst > subject.tolerance else ""), worst,
        "a step uses an outdated position: use `position=`, or cache.positions",
    )  # fmt: skip


def _places_alike(subject: ExaminedModel) -> str:
    """Returns a description of positions that the model does not distinguish; empty if it distinguishes all."""
    model = subject.exact
    for place, module in model.named_modules():
        if isinstance(module, AbsolutePositions):
            count = min(4, subject.config.max_positions)
            vectors = module(0, count)
            if count > 1 and relative_difference(vectors, vectors[:1].expand_as(vectors)) == 0:
                return f"{place} returns the same vector for all positions"
    if is_encoder(model) and len(src := subject.sources[0]) > 2:
        turned = [src[0], *src[:0:-1]]
        assert isinstance(model, EncoderOnly)
        one, other = (EncoderOnly.forward(model, subject.tensor(ids)) for ids in (src, turned))
        other = other[:, [0, *range(len(src) - 1, 0, -1)]]
        if src[1:] != src[:0:-1] and relative_difference(one, other) <= subject.tolerance:
            return "words in another order give the same outputs"
    return ""


def _pair_places(whole: Sequence[Any], steps: Sequence[Any], count: int) -> list[tuple[Tensor, Tensor]]:
    """Returns the outputs of a whole pass and of single steps, paired by position."""
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
def cache(subject: ExaminedModel) -> ModelCheck:
    """Checks that logits computed step by step with the cache equal the logits of a whole pass."""
    name = "cache"
    if is_encoder(subject.exact):
        return report_not_applicable(name, WRITES_NOTHING)
    worst, begins = 0.0, ""
    for src, tgt in zip(subject.sources or [[]] * len(subject.targets), subject.targets, strict=True):
        whole = subject.output(src, tgt)
        found = [stepwise(subject, src, tgt)]
        if isinstance(subject.exact, DecoderOnly) and len(tgt) > 3:
            found.append(stepwise(subject, src, tgt, prompt=3))
        for steps in found:
            figure = relative_difference(whole[:, -steps.size(1) :], steps)
            if not figure <= worst:
                worst = figure
                if not figure <= subject.tolerance and not begins:
                    begins = describe_origin(_first_in_steps(subject, src, tgt) or "the decoder's fast step")
    said = f"logits with the cache and without differ by {{}} of the largest{begins}"
    return subject.result(
        name, said, worst,
        "store each step's keys and values with cache.extend_self, and apply the given mask",
    )  # fmt: skip


def stepwise(subject: ExaminedModel, src: Sequence[int], tgt: Sequence[int], prompt: int = 1) -> Tensor:
    """Returns the logits of each token of a target, one step per token, (1, T, V); of a decoder after its `prompt`."""
    model = subject.exact
    assert isinstance(model, Transformer | DecoderOnly)
    kept = model.start(subject.tensor(src) if isinstance(model, Transformer) else subject.tensor(tgt[:prompt]))
    rest = tgt if isinstance(model, Transformer) else tgt[prompt - 1 :]
    step = make_step(model, kept)
    return torch.cat([step(subject.tensor([token])) for token in rest], dim=1)


def _first_in_steps(subject: ExaminedModel, src: Sequence[int], tgt: Sequence[int]) -> str:
    """Returns the name of the first module whose output in a step differs from a whole pass."""
    whole = record_outputs(subject.exact, lambda: subject.output(src, tgt))
    steps = record_outputs(subject.exact, lambda: stepwise(subject, src, tgt))
    for at in range(len(tgt)):
        for place, given in whole.items():
            later = steps.get(place, [])
            if len(later) == len(tgt) and isinstance(given[0], Tensor):
                one, other = given[0], later[at]
                same = one.dim() == 3 and one.size(1) == len(tgt)
                if same and relative_difference(one[:, at], other[:, 0]) > subject.tolerance:
                    return place
    return ""


@torch.inference_mode()
def hypotheses(subject: ExaminedModel) -> ModelCheck:
    """Checks that hypotheses, reordered and dropped as in a beam, give the same outputs as each hypothesis alone."""
    name, model = "hypotheses", subject.exact
    if is_encoder(model):
        return report_not_applicable(name, WRITES_NOTHING)
    assert isinstance(model, Transformer | DecoderOnly)
    size, generator = subject.config.tgt_vocab_size, torch.Generator().manual_seed(1)
    sources, begin = subject.sources[:1] * 2, subject.targets[0][: -LEFT_TO_WRITE or None][:1]
    if sources:
        sources[1] = subject.other_ids(sources[0], subject.config.src_vocab_size)
        kept = model.start(subject.tensor(*sources), HYPOTHESES)
    else:
        sources = [[], []]
        kept = model.start(subject.tensor(begin, begin), HYPOTHESES)
    take, rows = make_step(model, kept), [0, 1]
    read = [[[*begin] for _ in range(HYPOTHESES)] for _ in rows]
    worst, at = 0.0, 0
    for step in range(min(LEFT_TO_WRITE, subject.config.max_positions - 1) + 1):
        tokens = torch.tensor([[one[-1] for one in read[row]] for row in rows], device=subject.device)
        logits = take(tokens)  # (B, W, V)
        for number, row in enumerate(rows):
            for place, one in enumerate(read[row]):
                figure = relative_difference(
                    subject.output(sources[row], one)[:, -1], logits[number : number + 1, place]
                )
                if not figure <= worst:
                    worst, at = figure, step
        parents = torch.randint(HYPOTHESES, (len(rows), HYPOTHESES), generator=generator)
        kept.reorder(parents.to(subject.device))
        for number, row in enumerate(rows):
            sampled = subject.other_ids([0] * HYPOTHESES, size)
            read[row] = [[*read[row][p], new] for p, new in zip(parents[number].tolist(), sampled, strict=True)]
        if step == 2:
            rows = [1]
            kept.select(torch.tensor([1], device=subject.device))
    said = f"{HYPOTHESES} hypotheses together and separately differ by {{}} of the largest logit"
    return subject.result(
        name, said + (f", first at step {at}" if worst > subject.tolerance else ""), worst,
        "state of a part between steps must be in cache.get_state(self), one row per hypothesis",
    )  # fmt: skip


LEFT_TO_WRITE = 5
"""The number of steps for which hypotheses are followed."""


def greedy(subject: ExaminedModel) -> ModelCheck:
    """Checks that beam search with one beam finds the output of greedy search, with the score of a whole pass."""
    name, model = "greedy", subject.exact
    if is_encoder(model):
        return report_not_applicable(name, WRITES_NOTHING)
    assert isinstance(model, Transformer | DecoderOnly)
    decode, texts = _short(subject, 1), _texts(subject)
    one = search(model, texts, decode)
    other = search(model, texts, decode, beam_search)
    for number, (a, b) in enumerate(zip(one, other, strict=True)):
        if a[0].ids != b[0].ids:
            at = next((i for i, (x, y) in enumerate(zip(a[0].ids, b[0].ids, strict=False)) if x != y), -1)
            return report_bad(name, f"beam search with beam 1 and greedy search differ at token {at} of text {number}",
                       "both use the same logits: check that `step` returns the same logits in each "
                       "call", 1.0)  # fmt: skip
    figure = max(abs(_score_hypothesis(subject, number, found[0]) - found[0].score) / max(1.0, abs(found[0].score))
                 for number, found in enumerate(one))  # fmt: skip
    said = (
        f"beam search with beam 1 equals greedy search in {len(one)} texts, and its scores differ from full passes "
        f"by {{}}"
    )
    # A search adds up log-probabilities in single precision, whatever the model computes in.
    advice = "a step of the model, or its cache, differs from a full pass"
    return subject.result(name, said, figure, advice, max(subject.tolerance, torch.finfo(torch.float32).eps ** 0.5))


@torch.inference_mode()
def _score_hypothesis(subject: ExaminedModel, number: int, found: Hypothesis) -> float:
    """Returns the log-probability of a hypothesis, from one pass over it."""
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


def check_batched_search(subject: ExaminedModel) -> ModelCheck:
    """Checks that search results do not depend on the other texts in the batch; in the model's own precision."""
    name, model = "neighbours", subject.model
    if is_encoder(model):
        return report_not_applicable(name, WRITES_NOTHING)
    dtype = next(model.parameters()).dtype
    if dtype not in (torch.float32, torch.float64):
        return report_not_applicable(
            name, f"in {str(dtype).removeprefix('torch.')} a near tie may be resolved either way"
        )
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
                    said = f"with a beam of {beam_size}, text {number} has another output in a batch than alone"
                    return report_bad(name, said, MIXED, 1.0)
                worst = max(worst, abs(alone.score - found.score) / max(1.0, abs(alone.score)))
    finally:
        used.train(training)
    said = f"{len(texts)} texts have the same outputs in a batch and alone; their scores differ by {{}}"
    return subject.result(name, said, worst, MIXED,
                          torch.finfo(torch.float32).eps ** 0.5)  # fmt: skip


def _short(subject: ExaminedModel, beam_size: int) -> DecodeConfig:
    room = subject.config.max_positions - 1 - max(map(len, [*_texts(subject), *subject.targets[:1]]))
    return replace(subject.decode, beam_size=beam_size, n_best=1, max_length=max(1, min(NEW_TOKENS, room)))


def _texts(subject: ExaminedModel) -> list[list[int]]:
    """Returns the inputs of a search: sources without special tokens, or prompts."""
    return subject.bare_sources if subject.sources else [tgt[:3] for tgt in subject.targets]
