"""A time budget, as 15m: from a length of time to a whole recipe, for this corpus on this machine."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

import numpy as np
import torch

from pellucid.config import SECTIONS, ModelConfig, Recipe
from pellucid.data.framing import Framing
from pellucid.data.prepare import Corpus, mixes_of
from pellucid.data.shards import Shard
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.errors import DataError
from pellucid.model.parts import Parts
from pellucid.planning import rules
from pellucid.planning.duration import say_duration
from pellucid.planning.pace import Pace, measure_pace, sample_shard
from pellucid.planning.request import Request
from pellucid.planning.rules import Facts
from pellucid.planning.settings import find_model_config
from pellucid.text.inventory import Inventory
from pellucid.text.normalization import normalize
from pellucid.text.tokenizers import Tokenizers

PRECISIONS: tuple[Literal["float32", "bfloat16"], ...] = ("float32", "bfloat16")
COUNTED = 100_000  # pairs whose characters are counted
SAMPLE = 4000  # pairs that are encoded to count tokens and to measure on
MOST_COPIES = 10  # of the sample
OVERHEAD = 0.06  # of the time: validations and checkpoints
LONGEST_PACE = 2.0  # seconds that a model is measured for; of a short budget a hundredth
MEASURING = 0.05  # of the time, after which no larger model is measured
FASTER = 1.05  # what bfloat16 must gain to be taken


@dataclass(frozen=True)
class Plan:
    """Says what a budget comes to."""

    request: Request
    recipe: Recipe
    facts: Facts
    paces: dict[str, Pace]
    """The paces of a process that were measured, by precision."""
    ranks: int = 1
    """Processes that train together, each on batches of its own."""

    @property
    def tokens(self) -> float:
        """Target tokens that will be trained on."""
        train = self.recipe.train
        return train.steps * train.accumulate * self.ranks * self.paces[train.precision].tokens_per_batch

    @property
    def tokens_of_a_step(self) -> int:
        """The longer sides of a step's pairs with their padding, at most."""
        return self.recipe.train.batch_tokens * self.recipe.train.accumulate * self.ranks

    @property
    def expected_bleu(self) -> float | None:
        """Validation BLEU to expect of text as plain as that which the rules were measured on; None: not known."""
        found = self._found
        return None if isinstance(found, str) else found

    @property
    def _found(self) -> float | str:
        """Returns the BLEU to expect, or the reason why that is not known."""
        if self.request.starts_from:
            return "what a trained model comes to depends on that model"
        if other := sorted(rules.DECIDING_KEYS & self.request.fixed):
            return f"`{other[0]}` is given, and runs with the plan's own settings were measured"
        return rules.expected_bleu(self.facts, self.tokens)

    @property
    def _expected(self) -> str:
        found = self._found
        if isinstance(found, str):
            return f"not known: {found}"
        return (
            f"about {found:.0f} BLEU in validation, if the text is as plain as image captions; of other text not known"
        )

    def __str__(self) -> str:
        model, train = self.recipe.model, self.recipe.train
        speeds = ", ".join(f"{pace.tokens_per_second:,.0f} in {name}" for name, pace in self.paces.items())
        rate = "the paper's" if train.learning_rate is None else f"{train.learning_rate:g}"
        matrices = f" (Muon's {train.muon_learning_rate:g})" if train.optimizer == "muon" else ""
        fall = f", falling over the last {train.decay_fraction:.0%}" if train.schedule == "stable" else ""
        weighted = " an epoch (`data.weights`)" if self.recipe.data.weights or self.recipe.data.temperature else ""
        left_out = f" (about {self.facts.left_out:,} more are too long)" if self.facts.left_out else ""
        most = "at most about" if train.budget and train.patience else "about"
        rows = {
            "data": f"{self.facts.pairs:,} pairs, {self.facts.tokens:,} target tokens{weighted}{left_out}; "
            + (
                f"a vocabulary of {model.tgt_vocab_size:,}"
                if self.recipe.data.joint
                else f"vocabularies of {model.src_vocab_size:,} and {model.tgt_vocab_size:,}"
            ),
            "speed": f"{speeds} (target tokens a second, measured here)",
            "model": f"d_model {model.d_model}, d_ff {model.d_ff}, {model.num_encoder_layers} encoder and "
            f"{model.num_decoder_layers} decoder layers, dropout {model.dropout:g}",
            "training": f"{most} {train.steps:,} steps of {self.tokens_of_a_step:,} tokens, "
            f"{self.tokens / self.facts.tokens:.1f} epochs, in {train.precision}",
            "rate": f"{rate}{matrices}, {train.schedule}{fall}",
            "given": self.request.given or "no setting: all follows from the data and the time",
            "expected": self._expected,
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
    parts: Parts | None = None,
    ranks: int = 1,
) -> Plan:
    """Returns the plan for a request. All that the request fixes stays as `recipe` has it.

    The pace that it follows from is that of a model with `parts` in place of Pellucid's, where there are some. Of
    several `ranks` each is taken to be as fast as this one.

    Raises DataError where no pair of the corpus can be used.
    """
    shard, facts = _sample(corpus, tokenizers)
    seconds = min(LONGEST_PACE, request.seconds / 100)
    recipe = replace(recipe, model=find_model_config(recipe, tokenizers))
    shard = replace(shard, framing=Framing.of(recipe.decode, recipe.model))
    general: dict[str, Any] = {"model.norm": "pre", "train.optimizer": "muon", "train.schedule": "stable"}
    general["train.grad_clip"] = 1.0
    if "train.schedule" not in request.fixed:
        general["train.final_learning_rate"] = 0.0  # the recipe's is that of another schedule
    recipe = _applied(recipe, general, request.fixed)
    own_attention = parts is not None and any((parts.attention, parts.encoder_layer, parts.decoder_layer))
    recipe = _applied(recipe, rules.norms(recipe.model, attention=not own_attention), request.fixed)

    def measured(model: ModelConfig, batch_tokens: int) -> dict[str, Pace]:
        train = _applied(recipe, {"train.batch_tokens": batch_tokens}, request.fixed).train
        precisions = (train.precision,) if "train.precision" in request.fixed else PRECISIONS
        each = seconds / len(precisions)
        return {
            p: measure_pace(model, replace(train, precision=p), shard, sampling, device, each, parts)
            for p in precisions
        }

    def trained_on(paces: dict[str, Pace]) -> float:
        return _faster(paces)[1].tokens_per_second * ranks * _time_to_train(request)

    def best_filled(model: ModelConfig) -> tuple[int, dict[str, Pace]]:
        """Returns the batch for a model, and the paces with it."""
        least = rules.batch_tokens(model.d_model, request.seconds)
        paces = measured(model, least)
        if "train.batch_tokens" in request.fixed:
            return least, paces
        tokens = trained_on(paces) / recipe.train.accumulate
        batch = rules.batch_tokens(model.d_model, request.seconds, tokens, facts.tokens)
        paces = measured(model, batch) if batch > least else paces
        # What of a GPU's time a small batch leaves idle, a larger one uses: at best it takes as many steps, of twice as
        # many tokens. A processor has no time to spare.
        while device.type == "cuda" and rules.bears(2 * batch, 2 * tokens, facts.tokens):
            larger = measured(model, 2 * batch)
            if _faster(larger)[1].tokens_per_second < rules.BETTER_FILLED * _faster(paces)[1].tokens_per_second:
                break
            tokens = trained_on(larger) / recipe.train.accumulate
            if not rules.bears(2 * batch, tokens, facts.tokens):
                break
            batch, paces = 2 * batch, larger
        return batch, paces

    if rules.SHAPE_KEYS.isdisjoint(request.fixed):
        model, (batch, paces) = _largest_that_pays(
            rules.candidates(recipe.model, facts), request, best_filled, trained_on
        )
    else:
        model, (batch, paces) = recipe.model, best_filled(recipe.model)
    precision, pace = _faster(paces)
    planned = replace(recipe, model=model)
    settings = _settings(planned, request, pace) | {"train.batch_tokens": batch, "train.precision": precision}
    planned = _applied(planned, settings, request.fixed)
    plan = Plan(request, planned, facts, paces, ranks)
    of_tokens = {
        "model.dropout": rules.dropout(plan.tokens / facts.tokens),
        "decode.length_penalty": rules.length_penalty(plan.tokens, recipe.decode.length_penalty),
    }
    return replace(plan, recipe=_applied(planned, of_tokens, request.fixed))


Measured = tuple[int, dict[str, Pace]]


def _largest_that_pays(
    models: Sequence[ModelConfig],
    request: Request,
    measure: Callable[[ModelConfig], Measured],
    trained_on: Callable[[dict[str, Pace]], float],
) -> tuple[ModelConfig, Measured]:
    """Returns the largest model that the time trains enough, by its own speed; the smallest where none is so small.

    Measured are those that may be it, from small to large, until one is too slow, or measuring has taken its part of
    the time.
    """
    started = time.perf_counter()
    model, found = models[0], measure(models[0])
    for larger in models[1:]:
        # A larger model uses a machine better, but is never faster: where it would have to be, it is not tried.
        if not rules.pays(larger, trained_on(found[1])):
            break
        if time.perf_counter() - started > MEASURING * request.seconds:
            break
        tried = measure(larger)
        if not rules.pays(larger, trained_on(tried[1])):
            break
        model, found = larger, tried
    return model, found


def _settings(recipe: Recipe, request: Request, pace: Pace) -> dict[str, Any]:
    """Returns the settings of training that follow from the time and the pace."""
    train, seconds, d_model = recipe.train, request.seconds, recipe.model.d_model
    steps = max(1, int(_time_to_train(request) * pace.tokens_per_second / pace.tokens_per_batch / train.accumulate))
    by_clock = train.schedule == "stable" and "train.steps" not in request.fixed
    if "train.steps" in request.fixed:
        steps = train.steps
    # noam has a rate of its own, and takes no other.
    rate, warmup = rules.learning_rate(d_model), rules.warmup_steps(steps)
    matrices = rules.MUON_RATES[recipe.model.qk_norm]
    if request.starts_from:
        gentler = rules.gentler(adds_language=bool(recipe.data.add_language))
        rate, matrices, warmup = rate / gentler, matrices / gentler, max(1, warmup // rules.SHORTER)
    return ({} if train.schedule == "noam" else {"train.learning_rate": rate}) | {
        "train.muon_learning_rate": matrices,
        "train.embedding_scale": 1.0 if request.starts_from else rules.embedding_scale(recipe.model),
        "train.steps": steps,
        "train.budget": seconds if by_clock else 0.0,
        "train.warmup_steps": warmup,
        "train.validate_every": max(1, steps // rules.validations(seconds)),
        "train.validate_decode": rules.validation_sentences(seconds),
        "train.save_every": rules.save_every(steps, train.keep_every),
        "train.average": rules.AVERAGE,
        "train.patience": rules.PATIENCE if by_clock else train.patience,
        "train.log_every": min(100, max(1, steps // 40)),
    }


def _applied(recipe: Recipe, settings: dict[str, Any], fixed: Collection[str]) -> Recipe:
    """Returns the recipe with the settings that are not fixed."""
    changed = {}
    for section in SECTIONS:
        keys = {k.partition(".")[2]: v for k, v in settings.items() if k.startswith(section) and k not in fixed}
        changed[section] = replace(getattr(recipe, section), **keys)
    return replace(recipe, **changed)


def _faster(paces: dict[str, Pace]) -> tuple[str, Pace]:
    """Returns the precision to train in, with its pace: bfloat16 only where it is clearly faster."""
    best = max(paces, key=lambda precision: paces[precision].tokens_per_second)
    if best != "float32" and "float32" in paces:
        gain = paces[best].tokens_per_second / paces["float32"].tokens_per_second
        best = best if gain >= FASTER else "float32"
    return best, paces[best]


def _time_to_train(request: Request) -> float:
    """Returns the seconds that remain for training steps."""
    return request.seconds_left * (1 - OVERHEAD)


def _sample(corpus: Corpus, tokenizers: Tokenizers) -> tuple[Shard, Facts]:
    """Returns some pairs as ids, and what they tell of all."""
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
            f"none of {len(pairs):,} pairs looked at can be used: each has an empty side or more than {longest} tokens",
            "raise `data.max_length`, or look at the files",
        )
    # Each pair that was looked at stands for as many as an epoch draws of those around it.
    drawn = [weight * count / len(pairs) for weight in _weights(corpus, [number for number, _ in usable])]
    tokens = sum(share * (len(target) + 1) for share, (_, (_, target, *_)) in zip(drawn, usable, strict=True))
    left_out = round((len(pairs) - len(usable)) / len(pairs) * count)
    # Among few sentences there are few of a length: batches of them would hold more padding than the corpus' own.
    copies = min(MOST_COPIES, max(1, count // len(usable)))
    shard = sample_shard(*zip(*[sentences for _, sentences in usable] * copies, strict=True))
    return shard, Facts(round(sum(drawn)), round(tokens), left_out)


def _weights(corpus: Corpus, numbers: Sequence[int]) -> list[float]:
    """Returns how often an epoch draws each pair, by its number among those that are used."""
    data, counts = corpus.data, corpus.inspection.counts
    if not data.weights and not data.temperature:
        return [1.0] * len(numbers)
    ends = np.searchsorted(np.flatnonzero(corpus.used), np.cumsum(counts))
    weights = mixes_of(data, np.diff(ends, prepend=0).tolist())[0][1]
    return [weights[int(place)] for place in np.searchsorted(ends, numbers, side="right")]
