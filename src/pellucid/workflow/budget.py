"""`--budget 15m`: from a length of time to a whole recipe, for this corpus on this machine."""

import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

import torch

from pellucid.config import SECTIONS, ModelConfig, Recipe, TrainConfig
from pellucid.data.shards import Shard
from pellucid.errors import DataError
from pellucid.text.tokenizers import Tokenizers
from pellucid.workflow import rules
from pellucid.workflow.duration import say_duration
from pellucid.workflow.pace import Pace, sample_shard, training_pace
from pellucid.workflow.prepare import Corpus
from pellucid.workflow.rules import Facts

PRECISIONS: tuple[Literal["float32", "bfloat16"], ...] = ("float32", "bfloat16")
SAMPLE = 4000  # pairs that are encoded to count tokens and to measure on
MOST_COPIES = 10  # of the sample
OVERHEAD = 0.06  # of the time: validations and checkpoints
FASTER = 1.05  # what bfloat16 must gain to be taken
SHAPE_KEYS = frozenset({"model.preset", *(f"model.{key}" for key in rules.SHAPES[0])})


@dataclass(frozen=True)
class Plan:
    """What a budget comes to."""

    seconds: float
    recipe: Recipe
    facts: Facts
    paces: dict[str, Pace]
    """What was measured, by precision."""
    fixed: tuple[str, ...]
    """The settings that were given, which the plan left alone."""

    @property
    def tokens(self) -> float:
        """Target tokens that will be trained on."""
        train = self.recipe.train
        return train.steps * train.accumulate * self.paces[train.precision].tokens_per_batch

    @property
    def expected_bleu(self) -> float:
        """Validation BLEU to expect of text as plain as that which the rules were measured on."""
        return rules.expected_bleu(self.tokens)

    def __str__(self) -> str:
        model, train = self.recipe.model, self.recipe.train
        speeds = ", ".join(f"{pace.tokens_per_second:,.0f} in {name}" for name, pace in self.paces.items())
        fall = f", falling over the last {train.decay_fraction:.0%}" if train.schedule == "stable" else ""
        rows = {
            "data": f"{self.facts.pairs:,} pairs, {self.facts.tokens:,} target tokens; "
            f"a vocabulary of {model.tgt_vocab_size:,}",
            "speed": f"{speeds} (target tokens a second, measured here)",
            "model": f"d_model {model.d_model}, d_ff {model.d_ff}, {model.num_encoder_layers} encoder and "
            f"{model.num_decoder_layers} decoder layers, dropout {model.dropout:g}",
            "training": f"about {train.steps:,} steps of {train.batch_tokens * train.accumulate:,} tokens, "
            f"{self.tokens / self.facts.tokens:.1f} epochs, in {train.precision}",
            "rate": f"{train.learning_rate or 0:g}, {train.schedule}{fall}",
            "given": ", ".join(self.fixed) or "no setting: all follows from the data and the time",
            "expected": f"about {self.expected_bleu:.0f} BLEU in validation, if the text is as plain as image captions",
        }
        table = [f"  {name:<9} {text}" for name, text in rows.items()]
        return "\n".join([f"plan for {say_duration(self.seconds)}:", *table])


def with_vocabulary(recipe: Recipe, fixed: Collection[str], pairs: int) -> Recipe:
    """The recipe with a vocabulary for so many pairs, where the tokenizer is one that learns its pieces."""
    if recipe.data.tokenizer not in ("bpe", "unigram"):
        return recipe
    return _applied(recipe, {"data.vocab_size": rules.vocab_size(pairs)}, fixed)


def plan_budget(
    recipe: Recipe,
    fixed: Collection[str],
    seconds: float,
    started: float,
    corpus: Corpus,
    tokenizers: Tokenizers,
    device: torch.device,
) -> Plan:
    """The plan of a command that may take `seconds` and began at `started` (as time.perf_counter() counts).

    Args:
        recipe: what the plan starts from; its [model] has the vocabulary's sizes already.
        fixed: the settings, as `section.key`, that are given and stay.

    Raises DataError where no pair of the corpus can be used.
    """
    shard, facts = _sample(corpus, tokenizers)
    recipe = _applied(recipe, {"model.norm": "pre", "train.schedule": "stable", "train.grad_clip": 1.0}, fixed)

    def measured(model: ModelConfig) -> dict[str, Pace]:
        train = _applied(recipe, {"train.batch_tokens": rules.batch_tokens(model.d_model, seconds)}, fixed).train
        precisions = (train.precision,) if "train.precision" in fixed else PRECISIONS
        return {p: training_pace(model, replace(train, precision=p), shard, device) for p in precisions}

    model = reference = rules.shaped(recipe.model, rules.REFERENCE)
    paces = measured(reference)
    if SHAPE_KEYS.isdisjoint(fixed):
        flops = _faster(paces)[1].tokens_per_second * rules.training_flops(reference)
        model = rules.shape(recipe.model, facts, flops * _left(seconds, started))
    else:
        model = recipe.model
    if model != reference:
        paces = measured(model)
    precision, pace = _faster(paces)
    settings = _settings(model.d_model, seconds, _left(seconds, started), pace, recipe.train)
    clock = 0.0 if "train.steps" in fixed or recipe.train.schedule != "stable" else seconds
    settings |= {"train.precision": precision, "train.budget": clock}
    planned = _applied(replace(recipe, model=model), settings, fixed)
    plan = Plan(seconds, planned, facts, paces, tuple(sorted(fixed)))
    dropout = rules.dropout(plan.tokens / facts.tokens)
    return replace(plan, recipe=_applied(planned, {"model.dropout": dropout}, fixed))


def _settings(d_model: int, seconds: float, left: float, pace: Pace, train: TrainConfig) -> dict[str, Any]:
    """The settings of training that follow from the time and the pace."""
    steps = max(1, int(left * pace.tokens_per_second / pace.tokens_per_batch / train.accumulate))
    return {
        "train.steps": steps,
        "train.batch_tokens": rules.batch_tokens(d_model, seconds),
        "train.learning_rate": rules.learning_rate(d_model),
        "train.warmup_steps": rules.warmup_steps(steps),
        "train.validate_every": max(1, steps // rules.validations(seconds)),
        "train.validate_decode": rules.validation_sentences(seconds),
        "train.save_every": max(1, round(steps * rules.SAVE_EVERY)),
        "train.average": rules.AVERAGE,
        "train.log_every": min(100, max(1, steps // 40)),
    }


def _applied(recipe: Recipe, settings: dict[str, Any], fixed: Collection[str]) -> Recipe:
    """The recipe with the settings that are not fixed."""
    changed = {}
    for section in SECTIONS:
        keys = {k.partition(".")[2]: v for k, v in settings.items() if k.startswith(section) and k not in fixed}
        changed[section] = replace(getattr(recipe, section), **keys)
    return replace(recipe, **changed)


def _faster(paces: dict[str, Pace]) -> tuple[str, Pace]:
    """The precision to train in: bfloat16 only where it is clearly faster."""
    best = max(paces, key=lambda precision: paces[precision].tokens_per_second)
    if best != "float32" and "float32" in paces:
        gain = paces[best].tokens_per_second / paces["float32"].tokens_per_second
        best = best if gain >= FASTER else "float32"
    return best, paces[best]


def _left(seconds: float, started: float) -> float:
    """Seconds that remain for training steps."""
    return max(0.0, seconds - (time.perf_counter() - started)) * (1 - OVERHEAD)


def _sample(corpus: Corpus, tokenizers: Tokenizers) -> tuple[Shard, Facts]:
    """Some pairs as ids, and what they tell of all."""
    count = len(corpus)
    pairs = list(islice(corpus.train(), 0, None, max(1, count // SAMPLE)))
    sources = tokenizers.source.encode_lines([source for source, _ in pairs])
    targets = tokenizers.target.encode_lines([target for _, target in pairs])
    longest = corpus.data.max_length
    usable = [(s, t) for s, t in zip(sources, targets, strict=True) if s and t and max(len(s), len(t)) <= longest]
    if not usable:
        raise DataError(
            f"none of {len(pairs):,} pairs looked at can be used: each has an empty side or more than {longest} tokens",
            "raise `data.max_length`, or look at the files",
        )
    tokens = sum(len(target) + 1 for _, target in usable) / len(pairs) * count
    # Among few sentences there are few of a length: batches of them would hold more padding than the corpus' own.
    shard = sample_shard(*zip(*usable * min(MOST_COPIES, max(1, count // len(usable))), strict=True))
    return shard, Facts(count, round(tokens))
