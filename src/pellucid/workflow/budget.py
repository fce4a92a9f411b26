"""`--budget 15m`: from a length of time to a whole recipe, for this corpus on this machine."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

import torch

from pellucid.config import SECTIONS, ModelConfig, Recipe
from pellucid.data.framing import Framing
from pellucid.data.shards import Shard
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.errors import DataError
from pellucid.text.inventory import Inventory
from pellucid.text.normalization import normalize
from pellucid.text.tokenizers import Tokenizers
from pellucid.workflow import rules
from pellucid.workflow.duration import say_duration
from pellucid.workflow.pace import Pace, sample_shard, training_pace
from pellucid.workflow.prepare import Corpus
from pellucid.workflow.request import Request
from pellucid.workflow.resolved import model_of
from pellucid.workflow.rules import Facts

PRECISIONS: tuple[Literal["float32", "bfloat16"], ...] = ("float32", "bfloat16")
COUNTED = 100_000  # pairs whose characters are counted
SAMPLE = 4000  # pairs that are encoded to count tokens and to measure on
MOST_COPIES = 10  # of the sample
OVERHEAD = 0.06  # of the time: validations and checkpoints
FASTER = 1.05  # what bfloat16 must gain to be taken


@dataclass(frozen=True)
class Plan:
    """What a budget comes to."""

    request: Request
    recipe: Recipe
    facts: Facts
    paces: dict[str, Pace]
    """What was measured, by precision."""

    @property
    def tokens(self) -> float:
        """Target tokens that will be trained on."""
        train = self.recipe.train
        return train.steps * train.accumulate * self.paces[train.precision].tokens_per_batch

    @property
    def expected_bleu(self) -> float | None:
        """Validation BLEU to expect of text as plain as that which the rules were measured on; None for too little."""
        return rules.expected_bleu(self.tokens) if self.facts.pairs >= rules.EXPECTED_FROM else None

    def __str__(self) -> str:
        model, train = self.recipe.model, self.recipe.train
        speeds = ", ".join(f"{pace.tokens_per_second:,.0f} in {name}" for name, pace in self.paces.items())
        rate = "the paper's" if train.learning_rate is None else f"{train.learning_rate:g}"
        fall = f", falling over the last {train.decay_fraction:.0%}" if train.schedule == "stable" else ""
        rows = {
            "data": f"{self.facts.pairs:,} pairs, {self.facts.tokens:,} target tokens; "
            + (
                f"a vocabulary of {model.tgt_vocab_size:,}"
                if self.recipe.data.joint
                else f"vocabularies of {model.src_vocab_size:,} and {model.tgt_vocab_size:,}"
            ),
            "speed": f"{speeds} (target tokens a second, measured here)",
            "model": f"d_model {model.d_model}, d_ff {model.d_ff}, {model.num_encoder_layers} encoder and "
            f"{model.num_decoder_layers} decoder layers, dropout {model.dropout:g}",
            "training": f"about {train.steps:,} steps of {train.batch_tokens * train.accumulate:,} tokens, "
            f"{self.tokens / self.facts.tokens:.1f} epochs, in {train.precision}",
            "rate": f"{rate}, {train.schedule}{fall}",
            "given": self.request.given or "no setting: all follows from the data and the time",
            "expected": f"not known: of fewer than {rules.EXPECTED_FROM:,} pairs no run was measured"
            if self.expected_bleu is None
            else f"about {self.expected_bleu:.0f} BLEU in validation, if the text is as plain as image captions",
        }
        table = [f"  {name:<9} {text}" for name, text in rows.items()]
        return "\n".join([f"plan for {say_duration(self.request.seconds)}:", *table])


def with_vocabulary(recipe: Recipe, fixed: Collection[str], corpus: Corpus) -> Recipe:
    """Returns the recipe with vocabularies for a corpus, where the tokenizer is one that learns its pieces.

    They follow from the number of pairs and from the characters that the text is written in; each side has its own
    where the scripts differ.
    """
    data = recipe.data
    if data.tokenizer not in ("bpe", "unigram"):
        return recipe
    step = max(1, len(corpus) // COUNTED)
    sides = [Inventory(Counter()), Inventory(Counter())]
    for pair in islice(corpus.train(), 0, None, step):
        for inventory, text in zip(sides, pair, strict=True):
            inventory.add(normalize(text, data.normalize))
    tied = recipe.model.tie_embeddings == "all" and "model.tie_embeddings" in fixed
    apart = not data.joint if "data.joint" in fixed else not tied and rules.scripts_differ(*sides)
    settings: dict[str, Any] = {"data.joint": not apart}
    if apart:
        source, target = (rules.vocab_size(len(corpus), side) for side in sides)
        sizes = {"data.vocab_size": source, "data.target_vocab_size": target}
        settings |= {} if "data.vocab_size" in fixed else sizes
        settings |= {"model.tie_embeddings": "decoder"} if recipe.model.tie_embeddings == "all" else {}
    else:
        settings["data.vocab_size"] = rules.vocab_size(len(corpus), Inventory(sides[0].counts + sides[1].counts))
    return _applied(recipe, settings, fixed)


def plan_budget(
    recipe: Recipe,
    request: Request,
    corpus: Corpus,
    tokenizers: Tokenizers,
    sampling: SubwordSampling | None,
    device: torch.device,
) -> Plan:
    """The plan for a request. All that the request fixes stays as `recipe` has it.

    Raises DataError where no pair of the corpus can be used.
    """
    shard, facts = _sample(corpus, tokenizers)
    recipe = replace(recipe, model=model_of(recipe, tokenizers))
    shard = replace(shard, framing=Framing.of(recipe.decode, recipe.model))
    general = {"model.norm": "pre", "train.schedule": "stable", "train.grad_clip": 1.0}
    recipe = _applied(recipe, general, request.fixed)

    def measured(model: ModelConfig) -> dict[str, Pace]:
        batch_tokens = {"train.batch_tokens": rules.batch_tokens(model.d_model, request.seconds)}
        train = _applied(recipe, batch_tokens, request.fixed).train
        precisions = (train.precision,) if "train.precision" in request.fixed else PRECISIONS
        return {p: training_pace(model, replace(train, precision=p), shard, sampling, device) for p in precisions}

    model = reference = rules.shaped(recipe.model, rules.REFERENCE)
    paces = measured(reference)
    if rules.SHAPE_KEYS.isdisjoint(request.fixed):
        flops = _faster(paces)[1].tokens_per_second * rules.training_flops(reference)
        model = rules.shape(recipe.model, facts, flops * _time_to_train(request))
    else:
        model = recipe.model
    if model != reference:
        paces = measured(model)
    precision, pace = _faster(paces)
    planned = replace(recipe, model=model)
    planned = _applied(planned, _settings(planned, request, pace) | {"train.precision": precision}, request.fixed)
    plan = Plan(request, planned, facts, paces)
    dropout = rules.dropout(plan.tokens / facts.tokens)
    return replace(plan, recipe=_applied(planned, {"model.dropout": dropout}, request.fixed))


def _settings(recipe: Recipe, request: Request, pace: Pace) -> dict[str, Any]:
    """The settings of training that follow from the time and the pace."""
    train, seconds, d_model = recipe.train, request.seconds, recipe.model.d_model
    steps = max(1, int(_time_to_train(request) * pace.tokens_per_second / pace.tokens_per_batch / train.accumulate))
    by_clock = train.schedule == "stable" and "train.steps" not in request.fixed
    if "train.steps" in request.fixed:
        steps = train.steps
    # noam has a rate of its own, and takes no other.
    rate, warmup = rules.learning_rate(d_model), rules.warmup_steps(steps)
    if request.starts_from:
        rate, warmup = rate / rules.GENTLER, max(1, warmup // rules.SHORTER)
    return ({} if train.schedule == "noam" else {"train.learning_rate": rate}) | {
        "train.steps": steps,
        "train.budget": seconds if by_clock else 0.0,
        "train.batch_tokens": rules.batch_tokens(d_model, seconds),
        "train.warmup_steps": warmup,
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


def _time_to_train(request: Request) -> float:
    """Seconds that remain for training steps."""
    return request.seconds_left * (1 - OVERHEAD)


def _sample(corpus: Corpus, tokenizers: Tokenizers) -> tuple[Shard, Facts]:
    """Some pairs as ids, and what they tell of all."""
    count = len(corpus)
    pairs = list(islice(corpus.train(), 0, None, max(1, count // SAMPLE)))
    sources = tokenizers.source.encode_lines([source for source, _ in pairs])
    targets = tokenizers.target.encode_lines([target for _, target in pairs])
    longest = corpus.data.max_length
    usable = [
        (source, target, *pair)
        for source, target, pair in zip(sources, targets, pairs, strict=True)
        if source and target and max(len(source), len(target)) <= longest
    ]
    if not usable:
        raise DataError(
            f"none of {len(pairs):,} pairs looked at can be used: each has an empty side or more than {longest} tokens",
            "raise `data.max_length`, or look at the files",
        )
    tokens = sum(len(target) + 1 for _, target, *_ in usable) / len(pairs) * count
    # Among few sentences there are few of a length: batches of them would hold more padding than the corpus' own.
    copies = min(MOST_COPIES, max(1, count // len(usable)))
    return sample_shard(*zip(*usable * copies, strict=True)), Facts(count, round(tokens))
