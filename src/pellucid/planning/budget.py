"""Plans a time budget, as 15m: computes a whole recipe for this corpus on this machine."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

import numpy as np
import torch

from pellucid.config import SECTIONS, ModelConfig, Recipe
from pellucid.data.framing import TextFrame
from pellucid.data.prepare import Corpus, make_mixing_schedule
from pellucid.data.shards import EncodedCorpus
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.errors import DataError
from pellucid.model.parts import Parts
from pellucid.planning import rules
from pellucid.planning.duration import format_duration
from pellucid.planning.pace import Throughput, measure_throughput, sample_shard
from pellucid.planning.request import PlanRequest
from pellucid.planning.rules import CorpusFacts
from pellucid.planning.settings import find_model_config
from pellucid.text.character_counts import CharacterCounts
from pellucid.text.normalization import normalize
from pellucid.text.tokenizers import TokenizerPair

PRECISIONS: tuple[Literal["float32", "bfloat16"], ...] = ("float32", "bfloat16")
COUNTED = 100_000  # pairs whose characters are counted
SAMPLE = 4000  # pairs that are encoded, to count tokens and to measure throughput
MOST_COPIES = 10  # copies of the sample, at most
OVERHEAD = 0.06  # fraction of the time for validations and checkpoints
LONGEST_PACE = 2.0  # seconds to measure a model; at most a hundredth of the budget
MEASURING = 0.05  # fraction of the time after which no larger model is measured
FASTER = 1.05  # least speedup for which bfloat16 is used


@dataclass(frozen=True)
class Plan:
    """The plan for a budget."""

    request: PlanRequest
    recipe: Recipe
    facts: CorpusFacts
    paces: dict[str, Throughput]
    """The measured throughput of a process, by precision."""
    ranks: int = 1
    """Processes that train together, each on its own batches."""

    @property
    def tokens(self) -> float:
        """The target tokens that will be trained on."""
        train = self.recipe.train
        return train.steps * train.accumulate * self.ranks * self.paces[train.precision].tokens_per_batch

    @property
    def tokens_of_a_step(self) -> int:
        """The maximum of a step's tokens: the longer side of each pair, with padding."""
        return self.recipe.train.batch_tokens * self.recipe.train.accumulate * self.ranks

    @property
    def expected_bleu(self) -> float | None:
        """The validation BLEU to expect for text as simple as the measured corpus; None if unknown."""
        found = self._expected_bleu
        return None if isinstance(found, str) else found

    @property
    def _expected_bleu(self) -> float | str:
        """Returns the BLEU to expect, or the reason why it is unknown."""
        if self.request.starts_from:
            return "the result of an initialized model depends on that model"
        if other := sorted(rules.DECIDING_KEYS & self.request.fixed):
            return f"`{other[0]}` is set, and only runs with the settings of the plan were measured"
        return rules.expected_bleu(self.facts, self.tokens)

    @property
    def _expected(self) -> str:
        found = self._expected_bleu
        if isinstance(found, str):
            return f"not known: {found}"
        return (
            f"about {found:.0f} BLEU in validation, if the text is as simple as image captions; unknown for other text"
        )

    def __str__(self) -> str:
        model, train = self.recipe.model, self.recipe.train
        speeds = ", ".join(f"{pace.tokens_per_second:,.0f} in {name}" for name, pace in self.paces.items())
        rate = "the paper's" if train.learning_rate is None else f"{train.learning_rate:g}"
        matrices = f" (Muon's {train.muon_learning_rate:g})" if train.optimizer == "muon" else ""
        fall = f", with decay over the last {train.decay_fraction:.0%}" if train.schedule == "wsd" else ""
        weighted = (
            " an epoch (`data.corpus_weights`)"
            if self.recipe.data.corpus_weights or self.recipe.data.sampling_temperature
            else ""
        )
        left_out = f" (about {self.facts.left_out:,} more are too long)" if self.facts.left_out else ""
        most = "at most about" if train.budget and train.patience else "about"
        rows = {
            "data": f"{self.facts.pairs:,} pairs, {self.facts.tokens:,} target tokens{weighted}{left_out}; "
            + (
                f"a vocabulary of {model.tgt_vocab_size:,}"
                if self.recipe.data.joint_vocab
                else f"vocabularies of {model.src_vocab_size:,} and {model.tgt_vocab_size:,}"
            ),
            "speed": f"{speeds} (target tokens per second, measured here)",
            "model": f"d_model {model.d_model}, d_ff {model.d_ff}, {model.num_encoder_layers} encoder and "
            f"{model.num_decoder_layers} decoder layers, dropout {model.dropout:g}",
            "training": f"{most} {train.steps:,} steps of {self.tokens_of_a_step:,} tokens, "
            f"{self.tokens / self.facts.tokens:.1f} epochs, in {train.precision}",
            "rate": f"{rate}{matrices}, {train.schedule}{fall}",
            "given": self.request.fixed_text or "no setting: everything follows from the data and the time",
            "expected": self._expected,
        }
        table = [f"  {name:<9} {text}" for name, text in rows.items()]
        return "\n".join([f"plan for {format_duration(self.request.seconds)}:", *table])


def set_vocab_size(recipe: Recipe, fixed: Collection[str], corpus: Corpus) -> Recipe:
    """Returns the recipe with vocabulary sizes for a corpus, if the tokenizer is to be trained on subwords.

    The sizes follow from the number of pairs and from the text's characters. Source and target have separate
    vocabularies if their scripts differ.
    """
    data = recipe.data
    if data.tokenizer not in ("bpe", "unigram"):
        return recipe
    step = max(1, len(corpus) // COUNTED)
    sides = [CharacterCounts(Counter()), CharacterCounts(Counter())]
    for pair in islice(corpus.train(), 0, None, step):
        for inventory, text in zip(sides, pair, strict=True):
            inventory.add(normalize(text, data.normalize))
    tied = recipe.model.tie_embeddings == "all" and "model.tie_embeddings" in fixed
    apart = not data.joint_vocab if "data.joint_vocab" in fixed else not tied and rules.scripts_differ(*sides)
    settings: dict[str, Any] = {"data.joint_vocab": not apart}
    if apart:
        source, target = (rules.vocab_size(len(corpus), side) for side in sides)
        sizes = {"data.vocab_size": source, "data.tgt_vocab_size": target}
        settings |= {} if "data.vocab_size" in fixed else sizes
        settings |= {"model.tie_embeddings": "decoder"} if recipe.model.tie_embeddings == "all" else {}
    else:
        settings["data.vocab_size"] = rules.vocab_size(len(corpus), CharacterCounts(sides[0].counts + sides[1].counts))
    return _apply(recipe, settings, fixed)


def plan_budget(
    recipe: Recipe,
    request: PlanRequest,
    corpus: Corpus,
    tokenizers: TokenizerPair,
    sampling: SubwordSampling | None,
    device: torch.device,
    parts: Parts | None = None,
    ranks: int = 1,
) -> Plan:
    """Returns the plan for a request. Settings that the request fixes keep the values of `recipe`.

    The throughput is measured with the custom modules of `parts`, if given. All `ranks` are assumed to be as fast as
    this one.

    Raises DataError if no pair of the corpus can be used.
    """
    shard, facts = _sample(corpus, tokenizers)
    seconds = min(LONGEST_PACE, request.seconds / 100)
    recipe = replace(recipe, model=find_model_config(recipe, tokenizers))
    shard = replace(shard, framing=TextFrame.from_config(recipe.decode, recipe.model))
    general: dict[str, Any] = {"model.norm": "pre", "train.optimizer": "muon", "train.schedule": "wsd"}
    general["train.grad_clip"] = 1.0
    if "train.schedule" not in request.fixed:
        general["train.final_learning_rate"] = 0.0  # the recipe's belongs to another schedule
    recipe = _apply(recipe, general, request.fixed)
    own_attention = parts is not None and any((parts.attention, parts.encoder_layer, parts.decoder_layer))
    recipe = _apply(recipe, rules.norms(recipe.model, attention=not own_attention), request.fixed)

    def measure(model: ModelConfig, batch_tokens: int) -> dict[str, Throughput]:
        train = _apply(recipe, {"train.batch_tokens": batch_tokens}, request.fixed).train
        precisions = (train.precision,) if "train.precision" in request.fixed else PRECISIONS
        each = seconds / len(precisions)
        return {
            p: measure_throughput(model, replace(train, precision=p), shard, sampling, device, each, parts)
            for p in precisions
        }

    def estimate_tokens(paces: dict[str, Throughput]) -> float:
        return _faster(paces)[1].tokens_per_second * ranks * _time_to_train(request)

    def best_filled(model: ModelConfig) -> tuple[int, dict[str, Throughput]]:
        """Returns the batch size for a model, and the throughput with it."""
        least = rules.batch_tokens(model.d_model, request.seconds)
        paces = measure(model, least)
        if "train.batch_tokens" in request.fixed:
            return least, paces
        tokens = estimate_tokens(paces) / recipe.train.accumulate
        batch = rules.batch_tokens(model.d_model, request.seconds, tokens, facts.tokens)
        paces = measure(model, batch) if batch > least else paces
        # A larger batch uses GPU time that a small one leaves idle: at best as many steps, of twice as many tokens. A
        # CPU has no idle time.
        while device.type == "cuda" and rules.bears(2 * batch, 2 * tokens, facts.tokens):
            larger = measure(model, 2 * batch)
            if _faster(larger)[1].tokens_per_second < rules.BETTER_FILLED * _faster(paces)[1].tokens_per_second:
                break
            tokens = estimate_tokens(larger) / recipe.train.accumulate
            if not rules.bears(2 * batch, tokens, facts.tokens):
                break
            batch, paces = 2 * batch, larger
        return batch, paces

    if rules.SHAPE_KEYS.isdisjoint(request.fixed):
        model, (batch, paces) = _largest_that_pays(
            rules.candidates(recipe.model, facts), request, best_filled, estimate_tokens
        )
    else:
        model, (batch, paces) = recipe.model, best_filled(recipe.model)
    precision, pace = _faster(paces)
    planned = replace(recipe, model=model)
    settings = _settings(planned, request, pace) | {"train.batch_tokens": batch, "train.precision": precision}
    planned = _apply(planned, settings, request.fixed)
    plan = Plan(request, planned, facts, paces, ranks)
    of_tokens = {
        "model.dropout": rules.dropout(plan.tokens / facts.tokens),
        "decode.length_penalty": rules.length_penalty(plan.tokens, recipe.decode.length_penalty),
    }
    return replace(plan, recipe=_apply(planned, of_tokens, request.fixed))


Measured = tuple[int, dict[str, Throughput]]


def _largest_that_pays(
    models: Sequence[ModelConfig],
    request: PlanRequest,
    measure: Callable[[ModelConfig], Measured],
    trained_on: Callable[[dict[str, Throughput]], float],
) -> tuple[ModelConfig, Measured]:
    """Returns the largest model that can be trained enough in the time, at its own speed, or else the smallest.

    Candidates are measured from small to large, until one is too slow, or measuring has used its share of the time.
    """
    started = time.perf_counter()
    model, found = models[0], measure(models[0])
    for larger in models[1:]:
        # A larger model uses a machine better, but is never faster: if it had to be, it is not measured.
        if not rules.pays(larger, trained_on(found[1])):
            break
        if time.perf_counter() - started > MEASURING * request.seconds:
            break
        tried = measure(larger)
        if not rules.pays(larger, trained_on(tried[1])):
            break
        model, found = larger, tried
    return model, found


def _settings(recipe: Recipe, request: PlanRequest, pace: Throughput) -> dict[str, Any]:
    """Returns the settings of training that follow from the time and the throughput."""
    train, seconds, d_model = recipe.train, request.seconds, recipe.model.d_model
    steps = max(1, int(_time_to_train(request) * pace.tokens_per_second / pace.tokens_per_batch / train.accumulate))
    by_clock = train.schedule == "wsd" and "train.steps" not in request.fixed
    if "train.steps" in request.fixed:
        steps = train.steps
    # noam has a fixed rate.
    rate, warmup = rules.learning_rate(d_model), rules.warmup_steps(steps)
    matrices = rules.MUON_RATES[recipe.model.qk_norm]
    if request.starts_from:
        gentler = rules.gentler(adds_language=bool(recipe.data.add_language))
        rate, matrices, warmup = rate / gentler, matrices / gentler, max(1, warmup // rules.SHORTER)
    return ({} if train.schedule == "noam" else {"train.learning_rate": rate}) | {
        "train.muon_learning_rate": matrices,
        "train.embedding_init_scale": 1.0 if request.starts_from else rules.embedding_init_scale(recipe.model),
        "train.steps": steps,
        "train.budget": seconds if by_clock else 0.0,
        "train.warmup_steps": warmup,
        "train.validate_every": max(1, steps // rules.validations(seconds)),
        "train.decode_and_evaluate": rules.validation_sentences(seconds),
        "train.save_every": rules.save_every(steps, train.keep_every),
        "train.average": rules.AVERAGE,
        "train.patience": rules.PATIENCE if by_clock else train.patience,
        "train.log_every": min(100, max(1, steps // 40)),
    }


def _apply(recipe: Recipe, settings: dict[str, Any], fixed: Collection[str]) -> Recipe:
    """Returns the recipe with the settings that are not fixed."""
    changed = {}
    for section in SECTIONS:
        keys = {k.partition(".")[2]: v for k, v in settings.items() if k.startswith(section) and k not in fixed}
        changed[section] = replace(getattr(recipe, section), **keys)
    return replace(recipe, **changed)


def _faster(paces: dict[str, Throughput]) -> tuple[str, Throughput]:
    """Returns the precision to train in, with its throughput: bfloat16 only if it is clearly faster."""
    best = max(paces, key=lambda precision: paces[precision].tokens_per_second)
    if best != "float32" and "float32" in paces:
        gain = paces[best].tokens_per_second / paces["float32"].tokens_per_second
        best = best if gain >= FASTER else "float32"
    return best, paces[best]


def _time_to_train(request: PlanRequest) -> float:
    """Returns the seconds that remain for training steps."""
    return request.seconds_left * (1 - OVERHEAD)


def _sample(corpus: Corpus, tokenizers: TokenizerPair) -> tuple[EncodedCorpus, CorpusFacts]:
    """Returns a sample of encoded pairs, and the facts about the corpus estimated from it."""
    count, stride = len(corpus), max(1, len(corpus) // SAMPLE)
    pairs = list(islice(corpus.train(), 0, None, stride))
    sources = tokenizers.source.encode_lines([source for source, _ in pairs])
    targets = tokenizers.target.encode_lines([target for _, target in pairs])
    longest, cut = corpus.data.max_length, corpus.data.on_too_long == "cut"
    usable = [
        (number * stride, (source[:longest], target[:longest], *pair))
        for number, (source, target, pair) in enumerate(zip(sources, targets, pairs, strict=True))
        if source and target and (cut or max(len(source), len(target)) <= longest)
    ]
    if not usable:
        raise DataError(
            f"none of {len(pairs):,} sampled pairs can be used: each has an empty side or more than {longest} tokens",
            "raise `data.max_length`, or check the files",
        )
    # Each pair of the sample represents the pairs around it, as often as an epoch uses them.
    sampled = [weight * count / len(pairs) for weight in _weights(corpus, [number for number, _ in usable])]
    tokens = sum(share * (len(target) + 1) for share, (_, (_, target, *_)) in zip(sampled, usable, strict=True))
    left_out = round((len(pairs) - len(usable)) / len(pairs) * count)
    # Few sentences have few of equal length: their batches would have more padding than the corpus's.
    copies = min(MOST_COPIES, max(1, count // len(usable)))
    shard = sample_shard(*zip(*[sentences for _, sentences in usable] * copies, strict=True))
    return shard, CorpusFacts(round(sum(sampled)), round(tokens), left_out)


def _weights(corpus: Corpus, numbers: Sequence[int]) -> list[float]:
    """Returns how often an epoch uses each pair, by its index among the used pairs."""
    data, counts = corpus.data, corpus.inspection.counts
    if not data.corpus_weights and not data.sampling_temperature:
        return [1.0] * len(numbers)
    ends = np.searchsorted(np.flatnonzero(corpus.used), np.cumsum(counts))
    weights = make_mixing_schedule(data, np.diff(ends, prepend=0).tolist())[0][1]
    return [weights[int(place)] for place in np.searchsorted(ends, numbers, side="right")]
