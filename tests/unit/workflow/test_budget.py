"""The plan of a time budget: what it decides, what it leaves alone, how it uses a measured pace."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pellucid.config import ModelConfig, Recipe
from pellucid.data.batching import BatchOrder
from pellucid.errors import DataError
from pellucid.text.tokenizers import Tokenizers
from pellucid.workflow import budget, rules
from pellucid.workflow.budget import Plan, plan_budget, with_vocabulary
from pellucid.workflow.pace import Pace, sample_shard, training_pace
from pellucid.workflow.prepare import Corpus, open_corpus, train_tokenizers
from pellucid.workflow.train import resolved_model
from tests.toy_task import reversed_letters, write_pairs

CPU = torch.device("cpu")
PAIRS = 300


class Machine:
    """Stands for the measurement: so many operations a second, in bfloat16 so many times as many."""

    def __init__(self, flops: float, gain: float = 1.0) -> None:
        self.flops = flops
        self.gain = gain
        self.measured: list[tuple[int, str]] = []

    def __call__(self, model: ModelConfig, train: budget.TrainConfig, *_: object) -> Pace:
        self.measured.append((model.d_model, train.precision))
        gain = self.gain if train.precision == "bfloat16" else 1.0
        return Pace(gain * self.flops / rules.training_flops(model), 0.8 * train.batch_tokens)


@pytest.fixture
def corpus(tmp_path: Path) -> tuple[Corpus, Tokenizers]:
    src, tgt = write_pairs(tmp_path, reversed_letters(PAIRS))
    opened = open_corpus(
        Recipe.load("default", [f'data.src="{src}"', f'data.tgt="{tgt}"', "data.tokenizer=spaces"]).data
    )
    return opened, train_tokenizers(opened)


def planned(
    corpus: tuple[Corpus, Tokenizers], monkeypatch: pytest.MonkeyPatch, machine: Machine, seconds: float, *settings: str
) -> Plan:
    monkeypatch.setattr(budget, "training_pace", machine)
    opened, tokenizers = corpus
    recipe = Recipe.load("default", list(settings))
    recipe = replace(recipe, data=opened.data, model=resolved_model(recipe.model, tokenizers))
    fixed = [setting.partition("=")[0] for setting in settings]
    return plan_budget(recipe, fixed, seconds, time.perf_counter(), opened, tokenizers, CPU)


def test_the_steps_fill_the_time(corpus: tuple[Corpus, Tokenizers], monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(corpus, monkeypatch, Machine(1e10), 900)
    train = plan.recipe.train
    pace = plan.paces[train.precision]
    assert train.steps * pace.tokens_per_batch / pace.tokens_per_second == pytest.approx(
        900 * (1 - budget.OVERHEAD), rel=0.02
    )
    assert (train.schedule, train.budget) == ("stable", 900)
    assert plan.tokens == pytest.approx(train.steps * 0.8 * train.batch_tokens)


def test_the_facts_are_those_of_the_corpus(corpus: tuple[Corpus, Tokenizers], monkeypatch: pytest.MonkeyPatch) -> None:
    opened, tokenizers = corpus
    pairs = list(opened.train())
    plan = planned(corpus, monkeypatch, Machine(1e10), 900)
    assert plan.facts.pairs == len(pairs)
    assert plan.facts.tokens == sum(len(ids) + 1 for ids in tokenizers.target.encode_lines([t for _, t in pairs]))


def test_a_faster_machine_trains_a_larger_model(
    corpus: tuple[Corpus, Tokenizers], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "PARAMETERS_PER_TOKEN", 1e9)
    sizes = [planned(corpus, monkeypatch, Machine(flops), 900).recipe.model.d_model for flops in (1e8, 1e11, 1e15)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1] == 512


@pytest.mark.parametrize(("gain", "precision"), [(1.2, "bfloat16"), (1.02, "float32"), (0.1, "float32")])
def test_bfloat16_is_taken_where_it_is_clearly_faster(
    corpus: tuple[Corpus, Tokenizers], monkeypatch: pytest.MonkeyPatch, gain: float, precision: str
) -> None:
    assert planned(corpus, monkeypatch, Machine(1e10, gain), 900).recipe.train.precision == precision


@pytest.mark.parametrize(
    ("setting", "section", "value"),
    [
        ("model.dropout=0.45", "model", 0.45),
        ("model.norm=post", "model", "post"),
        ("train.batch_tokens=777", "train", 777),
        ("train.steps=12", "train", 12),
        ("train.precision=float32", "train", "float32"),
        ("train.average=3", "train", 3),
    ],
)
def test_what_is_set_stays(
    corpus: tuple[Corpus, Tokenizers], monkeypatch: pytest.MonkeyPatch, setting: str, section: str, value: object
) -> None:
    plan = planned(corpus, monkeypatch, Machine(1e10, 2.0), 900, setting)
    key = setting.partition("=")[0]
    assert getattr(getattr(plan.recipe, section), key.partition(".")[2]) == value
    assert plan.fixed == (key,)
    assert f"given     {key}" in str(plan)


@pytest.mark.parametrize("setting", ["model.d_model=96", "model.num_encoder_layers=2", "model.preset=tiny"])
def test_a_shape_that_is_set_stays_whole(
    corpus: tuple[Corpus, Tokenizers], monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    before = Recipe.load("default", [setting]).model
    after = planned(corpus, monkeypatch, Machine(1e15), 900, setting).recipe.model
    assert all(getattr(after, key) == getattr(before, key) for key in rules.SHAPES[0])


def test_steps_that_are_set_are_not_the_clock_s(
    corpus: tuple[Corpus, Tokenizers], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert planned(corpus, monkeypatch, Machine(1e10), 900).recipe.train.budget == 900
    for setting in ("train.steps=12", "train.schedule=linear"):
        assert planned(corpus, monkeypatch, Machine(1e10), 900, setting).recipe.train.budget == 0


def test_a_corpus_without_a_usable_pair_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    src, tgt = write_pairs(tmp_path, reversed_letters(PAIRS))
    settings = [f'data.src="{src}"', f'data.tgt="{tgt}"', "data.tokenizer=spaces"]
    opened = open_corpus(Recipe.load("default", settings).data)
    tokenizers = train_tokenizers(opened)
    short = replace(opened, data=replace(opened.data, max_length=1))
    one_letter = [pair for pair in opened.train() if len(pair[0]) == 1]
    assert one_letter
    monkeypatch.setattr(Corpus, "train", lambda self: iter([("a b", "b a")] * 7))
    with pytest.raises(DataError, match=r"^none of 7 pairs looked at can be used: .* more than 1 tokens$"):
        planned((short, tokenizers), monkeypatch, Machine(1e10), 900)


@pytest.mark.parametrize(("tokenizer", "size"), [("bpe", 4000), ("unigram", 4000), ("words", 8000)])
def test_the_vocabulary_is_planned_where_pieces_are_learnt(tokenizer: str, size: int) -> None:
    recipe = Recipe.load("default", [f"data.tokenizer={tokenizer}", "data.vocab_size=8000"])
    assert with_vocabulary(recipe, (), 29_000).data.vocab_size == size
    assert with_vocabulary(recipe, ("data.vocab_size",), 29_000).data.vocab_size == 8000


def test_the_pace_is_of_real_batches() -> None:
    config = ModelConfig.preset("tiny", src_vocab_size=50, tgt_vocab_size=50, d_model=16, d_ff=32, num_heads=2)
    ids = [[5 + i % 9] * (1 + i % 7) for i in range(200)]
    shard = sample_shard(ids, ids)
    train = budget.TrainConfig(batch_tokens=100)
    before = torch.random.get_rng_state()
    pace = training_pace(config, train, shard, CPU, seconds=0.05)
    assert torch.equal(before, torch.random.get_rng_state())
    batches = BatchOrder(shard.source.lengths, shard.target.lengths, 100, seed=0).epoch(0)
    mean = sum(len(i) + 1 for i in ids) / len(batches)
    assert pace.tokens_per_second > 0
    assert pace.tokens_per_batch == pytest.approx(mean, rel=0.5)
