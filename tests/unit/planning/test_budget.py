"""The plan of a time budget: what it decides, what it leaves alone, how it uses a measured pace."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pellucid.config import ModelConfig, Recipe, TrainConfig
from pellucid.data.batching import BucketBatchSampler, Indices
from pellucid.data.prepare import Corpus, open_corpus, train_tokenizers
from pellucid.data.shards import EncodedCorpus
from pellucid.errors import DataError
from pellucid.model import layers
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.feed_forward import FeedForward
from pellucid.model.parts import Parts
from pellucid.planning import budget, rules
from pellucid.planning.budget import Plan, plan_budget, set_vocab_size
from pellucid.planning.duration import format_duration
from pellucid.planning.pace import Throughput, measure_throughput, sample_shard
from pellucid.planning.request import PlanRequest
from pellucid.planning.settings import fit_to_tokenizers
from pellucid.run.run import plan
from pellucid.text.character_counts import CharacterCounts
from pellucid.text.subwords import SentencePieceTokenizer
from pellucid.text.tokenizer_training import train_tokenizer
from pellucid.text.tokenizers import TokenizerPair
from tests.toy_task import reversed_letters, write_pairs

CPU = torch.device("cpu")
PAIRS = 300
ROOT = Path(__file__).parents[3]
SHAPE = ("model.d_model=64", "model.d_ff=128")


def training_flops(config: ModelConfig) -> float:
    """Operations to train on one target token and its share of the source: forward and twice back."""
    return 6.0 * (rules.layer_parameters(config) + config.d_model * config.tgt_vocab_size)


class Machine:
    """Stands for the measurement: so many operations a second, in bfloat16 so many times as many."""

    def __init__(self, flops: float, gain: float = 1.0) -> None:
        self.flops = flops
        self.gain = gain
        self.measured: list[tuple[int, str]] = []

    def __call__(self, model: ModelConfig, train: TrainConfig, *_: object) -> Throughput:
        self.measured.append((model.d_model, train.precision))
        gain = self.gain if train.precision == "bfloat16" else 1.0
        return Throughput(gain * self.flops / training_flops(model), 0.8 * train.batch_tokens)


@pytest.fixture
def corpus(tmp_path: Path) -> tuple[Corpus, TokenizerPair]:
    src, tgt = write_pairs(tmp_path, reversed_letters(PAIRS))
    opened = open_corpus(
        Recipe.load("default", [f'data.src="{src}"', f'data.tgt="{tgt}"', "data.tokenizer=spaces"]).data
    )
    return opened, train_tokenizers(opened)


def planned(
    corpus: tuple[Corpus, TokenizerPair],
    monkeypatch: pytest.MonkeyPatch,
    machine: Machine,
    seconds: float,
    *settings: str,
) -> Plan:
    monkeypatch.setattr(budget, "measure_throughput", machine)
    opened, tokenizers = corpus
    recipe = Recipe.load("default", list(settings))
    asked = PlanRequest.from_recipe(recipe, format_duration(seconds), settings)
    return plan_budget(replace(recipe, data=opened.data), asked, opened, tokenizers, None, CPU)


def test_the_steps_fill_the_time(corpus: tuple[Corpus, TokenizerPair], monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(corpus, monkeypatch, Machine(1e10), 900)
    train = plan.recipe.train
    pace = plan.paces[train.precision]
    assert train.steps * pace.tokens_per_batch / pace.tokens_per_second == pytest.approx(
        900 * (1 - budget.OVERHEAD), rel=0.02
    )
    assert (train.schedule, train.budget) == ("wsd", 900)
    assert plan.tokens == pytest.approx(train.steps * 0.8 * train.batch_tokens)


def test_the_facts_are_those_of_the_corpus(
    corpus: tuple[Corpus, TokenizerPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, tokenizers = corpus
    pairs = list(opened.train())
    plan = planned(corpus, monkeypatch, Machine(1e10), 900)
    assert plan.facts.pairs == len(pairs)
    assert plan.facts.tokens == sum(len(ids) + 1 for ids in tokenizers.target.encode_lines([t for _, t in pairs]))


@pytest.mark.parametrize(
    ("pairs", "said"), [(999, "not known: no run with fewer than 1,000 pairs"), (20_000, "about ")]
)
def test_a_score_is_expected_where_one_was_measured(
    corpus: tuple[Corpus, TokenizerPair], monkeypatch: pytest.MonkeyPatch, pairs: int, said: str
) -> None:
    found = planned(corpus, monkeypatch, Machine(1e11), 900)
    assert f"\n  expected  {said}" in str(replace(found, facts=rules.CorpusFacts(pairs, 20 * pairs)))


def test_no_score_is_expected_of_other_settings_than_those_measured(
    corpus: tuple[Corpus, TokenizerPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = rules.CorpusFacts(20_000, 400_000)
    said = "\n  expected  not known: `model.d_ff` is set, and only runs with the settings of the plan were measured"
    found = replace(planned(corpus, monkeypatch, Machine(1e11), 900, *SHAPE), facts=facts)
    assert said in str(found)
    assert found.expected_bleu is None
    free = planned(corpus, monkeypatch, Machine(1e11), 900, "train.seed=3", "model.dropout=0.2")
    assert replace(free, facts=facts).expected_bleu is not None


def test_a_faster_machine_trains_a_larger_model(
    corpus: tuple[Corpus, TokenizerPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "PARAMETERS_PER_TOKEN", 1e9)
    sizes = [planned(corpus, monkeypatch, Machine(flops), 900).recipe.model.d_model for flops in (1e8, 1e11, 1e15)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1] == 512


@pytest.mark.parametrize("heads", [1, 4, 8, 16])
def test_shapes_that_other_settings_forbid_are_left_out(
    corpus: tuple[Corpus, TokenizerPair], monkeypatch: pytest.MonkeyPatch, heads: int
) -> None:
    monkeypatch.setattr(rules, "PARAMETERS_PER_TOKEN", 1e9)
    recipe = Recipe.load("default", [f"model.num_kv_heads={heads}", f"model.num_heads={heads}"])
    monkeypatch.setattr(budget, "measure_throughput", Machine(1e11))
    opened, tokenizers = corpus
    asked = PlanRequest.from_recipe(recipe, "15m", [f"model.num_kv_heads={heads}"])
    found = plan_budget(replace(recipe, data=opened.data), asked, opened, tokenizers, None, CPU).recipe.model
    assert (found.num_kv_heads, found.num_heads % heads) == (heads, 0)


def test_what_belongs_to_the_recipes_own_schedule_goes_with_it(
    corpus: tuple[Corpus, TokenizerPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = Recipe.load(
        "default",
        ["train.schedule=cosine", "train.final_learning_rate=1e-5", "train.save_every=50", "train.keep_every=100"],
    )
    monkeypatch.setattr(budget, "measure_throughput", Machine(1e10))
    opened, tokenizers = corpus
    given = replace(recipe, data=opened.data)
    train = plan_budget(given, PlanRequest.from_recipe(recipe, "15m", ()), opened, tokenizers, None, CPU).recipe.train
    assert (train.schedule, train.final_learning_rate) == ("wsd", 0.0)
    assert (train.keep_every, 100 % train.save_every) == (100, 0)
    kept = PlanRequest.from_recipe(recipe, "15m", ["train.schedule=cosine"])
    assert plan_budget(given, kept, opened, tokenizers, None, CPU).recipe.train.final_learning_rate == 1e-5


def test_several_ranks_train_on_as_many_tokens_more(
    corpus: tuple[Corpus, TokenizerPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = Recipe.load("default", [*SHAPE])
    monkeypatch.setattr(budget, "measure_throughput", Machine(1e9))
    opened, tokenizers = corpus
    given, asked = (
        replace(recipe, data=opened.data),
        PlanRequest.from_recipe(recipe, "5m", [*SHAPE, "train.batch_tokens=64"]),
    )
    one, four = (plan_budget(given, asked, opened, tokenizers, None, CPU, ranks=ranks) for ranks in (1, 4))
    assert four.tokens / one.tokens == pytest.approx(4, rel=0.02)
    assert four.recipe.train.steps == pytest.approx(one.recipe.train.steps, rel=0.02)
    assert f"steps of {4 * one.tokens_of_a_step:,} tokens" in str(four)


@pytest.mark.parametrize(("gain", "precision"), [(1.2, "bfloat16"), (1.02, "float32"), (0.1, "float32")])
def test_bfloat16_is_taken_where_it_is_clearly_faster(
    corpus: tuple[Corpus, TokenizerPair], monkeypatch: pytest.MonkeyPatch, gain: float, precision: str
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
        ("decode.length_penalty=1.7", "decode", 1.7),
    ],
)
def test_what_is_set_stays(
    corpus: tuple[Corpus, TokenizerPair], monkeypatch: pytest.MonkeyPatch, setting: str, section: str, value: object
) -> None:
    plan = planned(corpus, monkeypatch, Machine(1e10, 2.0), 900, setting)
    key = setting.partition("=")[0]
    assert getattr(getattr(plan.recipe, section), key.partition(".")[2]) == value
    assert f"given     {key}" in str(plan)


def test_a_short_time_does_not_get_the_length_penalty_of_a_long_one(
    corpus: tuple[Corpus, TokenizerPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "LENGTH_PENALTY", (rules.LENGTH_PENALTY[0], 0.5))
    short, long = (planned(corpus, monkeypatch, Machine(flops), 900) for flops in (1e8, 1e12))
    assert short.tokens < rules.LENGTH_PENALTY[0] < long.tokens
    assert [plan.recipe.decode.length_penalty for plan in (short, long)] == [0.5, 1.0]


@pytest.mark.parametrize("setting", ["model.d_model=96", "model.num_encoder_layers=2", "model.preset=tiny"])
def test_a_shape_that_is_set_stays_whole(
    corpus: tuple[Corpus, TokenizerPair], monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    before = Recipe.load("default", [setting]).model
    after = planned(corpus, monkeypatch, Machine(1e15), 900, setting).recipe.model
    assert all(getattr(after, key) == getattr(before, key) for key in rules.SHAPES[0])


def test_steps_that_are_set_are_not_the_clock_s(
    corpus: tuple[Corpus, TokenizerPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert planned(corpus, monkeypatch, Machine(1e10), 900).recipe.train.budget == 900
    for setting in ("train.steps=12", "train.schedule=linear"):
        assert planned(corpus, monkeypatch, Machine(1e10), 900, setting).recipe.train.budget == 0


def test_what_follows_from_the_steps_follows_from_those_that_are_set(
    corpus: tuple[Corpus, TokenizerPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    train = planned(corpus, monkeypatch, Machine(1e10), 900, "train.steps=200").recipe.train
    assert train.warmup_steps == rules.warmup_steps(200)
    assert train.validate_every == 200 // rules.validations(900)
    assert max(train.save_every, train.log_every) < 20


def test_a_schedule_with_a_rate_of_its_own_keeps_it(
    corpus: tuple[Corpus, TokenizerPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("train.schedule=noam", "train.learning_rate=none")
    plan = planned(corpus, monkeypatch, Machine(1e10), 900, *settings)
    assert plan.recipe.train.learning_rate is None
    assert "\n  rate      the paper's (Muon's 0.02), noam\n" in str(plan)
    noam = replace(Recipe.load("default", list(settings)), data=corpus[0].data)
    asked = PlanRequest.from_recipe(noam, "15m", settings[:1])
    assert plan_budget(noam, asked, *corpus, None, CPU).recipe.train.learning_rate is None


def test_a_corpus_without_a_usable_pair_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    src, tgt = write_pairs(tmp_path, reversed_letters(PAIRS))
    settings = [f'data.src="{src}"', f'data.tgt="{tgt}"', "data.tokenizer=spaces"]
    opened = open_corpus(Recipe.load("default", settings).data)
    tokenizers = train_tokenizers(opened)
    short = replace(opened, data=replace(opened.data, max_length=1))
    one_letter = [pair for pair in opened.train() if len(pair[0]) == 1]
    assert one_letter
    monkeypatch.setattr(Corpus, "train", lambda self: iter([("a b", "b a")] * 7))
    with pytest.raises(DataError, match=r"^none of 7 sampled pairs can be used: .* more than 1 tokens$"):
        planned((short, tokenizers), monkeypatch, Machine(1e10), 900)


@pytest.mark.parametrize(("tokenizer", "size"), [("bpe", 2000), ("unigram", 2000), ("words", 8000)])
def test_the_vocabulary_is_planned_where_pieces_are_learnt(
    corpus: tuple[Corpus, TokenizerPair], tokenizer: str, size: int
) -> None:
    recipe = Recipe.load("default", [f"data.tokenizer={tokenizer}", "data.vocab_size=8000"])
    assert set_vocab_size(recipe, (), corpus[0]).data.vocab_size == size
    assert set_vocab_size(recipe, ("data.vocab_size",), corpus[0]).data.vocab_size == 8000


def test_korean_keeps_its_syllables_and_leaves_room_for_pieces() -> None:
    """Our own Korean pages: some 600 characters in as many lines."""
    pages = [*(ROOT / "docs" / "ko").rglob("*.md"), ROOT / "README.ko.md"]
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines() if line]
    inventory = CharacterCounts.from_lines(lines)
    size = rules.vocab_size(len(lines), inventory)
    assert size <= 3000
    tokenizer = train_tokenizer(
        "bpe", lines, vocab_size=size, lowercase=False, min_frequency=1, byte_fallback=True, normalize="nfc"
    )
    assert isinstance(tokenizer, SentencePieceTokenizer)
    single = {piece for piece in tokenizer.pieces() if len(piece) == 1}
    assert len(single) <= 0.4 * size
    assert sum(inventory.counts[character] for character in single) >= 0.99 * inventory.counts.total()


def test_an_alphabet_has_the_vocabulary_of_its_pairs() -> None:
    letters = CharacterCounts.from_lines(["The quick brown fox jumps over the lazy dog, äöüß!"])
    assert [rules.vocab_size(pairs, letters) for pairs in (900, 5_000, 29_000, 150_000)] == [2000, 2000, 8000, 8000]


@pytest.mark.parametrize(
    ("fixed", "apart", "sizes"),
    [
        ((), True, (3000, 2000)),
        (("data.vocab_size",), True, (8000, 0)),
        (("data.joint_vocab",), False, (3000, 0)),
        (("model.tie_embeddings",), False, (3000, 0)),
    ],
)
def test_two_scripts_have_a_vocabulary_each(
    fixed: tuple[str, ...], apart: bool, sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """1,200 characters on one side, all equally frequent: at most 40 % of the pieces."""
    src, tgt = write_pairs(
        tmp_path, [("".join(chr(0x4E00 + i + j) for j in range(3)), "ab") for i in range(0, 1200, 3)]
    )
    settings = [f'data.src="{src}"', f'data.tgt="{tgt}"', "data.vocab_size=8000", 'model.tie_embeddings="all"']
    recipe = Recipe.load("default", settings)
    planned = set_vocab_size(recipe, fixed, open_corpus(recipe.data))
    assert planned.data.joint_vocab is not apart
    assert planned.model.tie_embeddings == ("decoder" if apart else "all")
    assert abs(planned.data.vocab_size - sizes[0]) <= 400
    assert planned.data.tgt_vocab_size == sizes[1]


def test_the_pace_is_of_real_batches() -> None:
    config = ModelConfig.preset("tiny", src_vocab_size=50, tgt_vocab_size=50, d_model=16, d_ff=32, num_heads=2)
    ids = [[5 + i % 9] * (1 + i % 7) for i in range(200)]
    shard = sample_shard(ids, ids, [""] * len(ids), [""] * len(ids))
    train = TrainConfig(batch_tokens=100)
    before = torch.random.get_rng_state()
    pace = measure_throughput(config, train, shard, None, CPU, seconds=0.05)
    assert torch.equal(before, torch.random.get_rng_state())
    batches = BucketBatchSampler(shard.source.lengths, shard.target.lengths, 100, seed=0).epoch(0)
    mean = sum(len(i) + 1 for i in ids) / len(batches)
    assert pace.tokens_per_second > 0
    assert pace.tokens_per_batch == pytest.approx(mean, rel=0.5)


@pytest.mark.slow
def test_the_pace_is_of_layers_that_are_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ModelConfig.preset("tiny", src_vocab_size=50, tgt_vocab_size=50, d_model=16, d_ff=32, num_heads=2)
    shard = sample_shard([[5, 6]] * 20, [[5, 6]] * 20, [""] * 20, [""] * 20)
    checkpointed: list[object] = []

    def checkpoint(layer: nn.Module, *inputs: Any, use_reentrant: bool) -> Tensor:
        checkpointed.append(layer)
        output: Tensor = layer(*inputs)
        return output

    monkeypatch.setattr(layers, "checkpoint", checkpoint)
    for recompute in (False, True):
        measure_throughput(
            config, TrainConfig(batch_tokens=60, gradient_checkpointing=recompute), shard, None, CPU, seconds=0.01
        )
        assert bool(checkpointed) == recompute


def test_the_pace_is_of_the_pieces_that_are_drawn() -> None:
    """Ten pieces for one: the batches have as many sentences fewer, but what is counted stays the text."""
    config = ModelConfig.preset("tiny", src_vocab_size=50, tgt_vocab_size=50, d_model=16, d_ff=32, num_heads=2)
    ids, texts = [[5, 6]] * 60, ["some text"] * 60
    shard = sample_shard(ids, ids, texts, texts)
    seen: list[tuple[int, int]] = []

    class Longer:
        """Draws each piece ten times."""

        def draw(self, shard: EncodedCorpus, epoch: int, draws: Indices) -> Any:
            seen.append((epoch, len(draws)))
            assert {shard.source.texts[i] for i in draws} == {"some text"}  # type: ignore[index]
            return [np.repeat(shard.source[i], 10) for i in draws], [np.repeat(shard.target[i], 10) for i in draws]

    pace = measure_throughput(config, TrainConfig(batch_tokens=60), shard, Longer(), CPU, seconds=0.05)  # type: ignore[arg-type]
    assert pace.tokens_per_batch == 2 * 3
    of_an_epoch = [60] + [2] * 30  # for their lengths, and as batches
    epochs = len(seen) // len(of_an_epoch) + 1
    assert seen == [(epoch, count) for epoch in range(epochs) for count in of_an_epoch][: len(seen)]


def test_what_is_measured_is_cut_as_in_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    src, tgt = write_pairs(tmp_path, reversed_letters(PAIRS))
    settings = [f'data.src="{src}"', f'data.tgt="{tgt}"', "data.vocab_size=300", "data.subword_regularization=0.2"]
    given: list[Any] = []

    def measured(model: ModelConfig, train: TrainConfig, shard: EncodedCorpus, *rest: Any) -> Throughput:
        given.append((shard, rest[0]))
        return Throughput(1000.0, 100.0)

    monkeypatch.setattr(budget, "measure_throughput", measured)
    found = plan(Recipe.load("default", settings), "15m", overrides=settings[2:], device="cpu")
    assert "data.subword_regularization" in found.request.fixed_text
    for shard, sampling in given:
        drawn, _ = sampling.draw(shard, 0, np.arange(len(shard)))
        assert sum(map(len, drawn)) > shard.source.lengths.sum()


def test_a_plan_for_trained_weights_is_gentle(
    corpus: tuple[Corpus, TokenizerPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "measure_throughput", Machine(1e10))
    opened, tokenizers = corpus
    rates = []
    for start in ("", "base"):
        recipe = Recipe.load("default", [f'train.init_from="{start}"', *SHAPE])
        shaped = replace(recipe, model=fit_to_tokenizers(recipe.model, tokenizers), data=opened.data)
        planned = plan_budget(
            shaped, PlanRequest.from_recipe(shaped, "15m", SHAPE), opened, tokenizers, None, CPU
        ).recipe
        found = planned.train
        rates.append((found.learning_rate, found.muon_learning_rate, found.warmup_steps))
        assert found.embedding_init_scale == (1.0 if start else rules.EMBEDDING_SCALE)
        assert planned.model.embedding_norm == planned.model.qk_norm == (not start)
    (rate, matrices, warmup), gentle = rates
    assert matrices == rules.MUON_RATES[True]
    without_norms = rules.MUON_RATES[False] / rules.GENTLER  # as the trained model is
    assert gentle == pytest.approx(((rate or 0) / rules.GENTLER, without_norms, warmup // rules.SHORTER))


@pytest.mark.parametrize(("share", "best"), [(1.0, 128), (0.5, 64)])
def test_each_size_is_judged_by_its_own_speed(
    corpus: tuple[Corpus, TokenizerPair], monkeypatch: pytest.MonkeyPatch, share: float, best: int
) -> None:
    """A machine that trains d_model 128 as fast as 64, against all arithmetic, gets it; one that crawls does not."""
    monkeypatch.setattr(rules, "PARAMETERS_PER_TOKEN", 1e9)
    enough = (
        rules.TOKENS_OF_A_SMALL_ONE * rules.layer_parameters(rules.apply_shape(ModelConfig.preset("tiny"), 1)) / 800
    )
    speeds = {64: enough, 128: share * enough}

    class Uneven(Machine):
        def __call__(self, model: ModelConfig, train: TrainConfig, *rest: object) -> Throughput:
            super().__call__(model, train, *rest)
            return Throughput(speeds.get(model.d_model, 1.0), 0.8 * train.batch_tokens)

    machine = Uneven(0)
    assert planned(corpus, monkeypatch, machine, 900).recipe.model.d_model == best
    assert {d_model for d_model, _ in machine.measured} == {64, 128}, "256 is out of reach by any measure"


@pytest.mark.parametrize(("seconds", "each"), [(60, 0.3), (900, 1.0)])
def test_a_short_budget_is_measured_shortly(
    corpus: tuple[Corpus, TokenizerPair], monkeypatch: pytest.MonkeyPatch, seconds: float, each: float
) -> None:
    given: list[float] = []

    def measured(model: ModelConfig, train: TrainConfig, *rest: Any) -> Throughput:
        given.append(rest[3])
        return Throughput(1e4, 800.0)

    planned(corpus, monkeypatch, measured, seconds)  # type: ignore[arg-type]
    assert set(given) == {each}


def test_measuring_that_takes_its_part_of_the_time_goes_no_further(
    corpus: tuple[Corpus, TokenizerPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "PARAMETERS_PER_TOKEN", 1e9)
    monkeypatch.setattr(budget, "MEASURING", 0.0)
    machine = Machine(1e15)
    assert planned(corpus, monkeypatch, machine, 900).recipe.model.d_model == 64
    assert {d_model for d_model, _ in machine.measured} == {64}


def test_the_plan_is_for_the_parts_that_are_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    src, tgt = write_pairs(tmp_path, reversed_letters(PAIRS))
    given: list[Any] = []

    def measured(model: ModelConfig, *rest: Any) -> Throughput:
        given.append(rest[-1])
        return Throughput(1000.0, 100.0)

    monkeypatch.setattr(budget, "measure_throughput", measured)
    own = Parts(feed_forward=FeedForward.from_config)
    settings = [f'data.src="{src}"', f'data.tgt="{tgt}"', "data.vocab_size=300"]
    assert "(Muon's 0.02)" in str(plan(Recipe.load("default", settings), "15m", parts=own, device="cpu"))
    assert given
    assert all(parts is own for parts in given)
    own = Parts(attention=MultiHeadAttention.from_config)
    of_attention = plan(Recipe.load("default", settings), "15m", parts=own, device="cpu")
    assert (of_attention.recipe.model.qk_norm, of_attention.recipe.model.embedding_norm) == (False, True)
    assert "(Muon's 0.01)" in str(of_attention), "the higher rate is that of normalised queries and keys"


def test_the_pace_is_that_of_the_parts() -> None:
    made: list[ModelConfig] = []

    def feed_forward(config: ModelConfig) -> FeedForward:
        made.append(config)
        return FeedForward.from_config(config)

    config = ModelConfig.preset("tiny", src_vocab_size=50, tgt_vocab_size=50, d_model=16, d_ff=32, num_heads=2)
    ids = [[5]] * 200
    shard, parts = sample_shard(ids, ids, [""] * len(ids), [""] * len(ids)), Parts(feed_forward=feed_forward)
    assert measure_throughput(config, TrainConfig(batch_tokens=60), shard, None, CPU, 0.01, parts).tokens_per_second > 0
    assert made == [config] * (config.num_encoder_layers + config.num_decoder_layers)


@pytest.mark.parametrize(
    ("given", "on_a_gpu", "on_a_cpu"), [("15m", 8192, 2048), ("2m", 8192, 1024), ("90s", 1024, 1024)]
)
def test_a_gpu_gets_the_batch_that_fills_it(
    given: str, on_a_gpu: int, on_a_cpu: int, corpus: tuple[Corpus, TokenizerPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to 8,192 tokens a step takes as long as one of 1,024, if there is time for 2,000; then it takes its share."""
    monkeypatch.setattr(rules, "BATCHES", 0.001)

    def launch_bound(model: ModelConfig, train: TrainConfig, *_: object) -> Throughput:
        tokens = 0.8 * train.batch_tokens
        return Throughput(tokens / (0.04 * max(1.0, train.batch_tokens / 8192)), tokens)

    monkeypatch.setattr(budget, "measure_throughput", launch_bound)
    opened, tokenizers = corpus
    recipe = replace(Recipe.load("default"), data=opened.data)
    asked = PlanRequest.from_recipe(recipe, given, ())
    sizes = [
        plan_budget(recipe, asked, opened, tokenizers, None, torch.device(name)).recipe.train.batch_tokens
        for name in ("cuda", "cpu")
    ]
    assert sizes == [on_a_gpu, on_a_cpu]


def two_corpora(folder: Path, weights: str) -> tuple[Corpus, TokenizerPair]:
    """900 short pairs and 450 that are three times as long."""
    first = write_pairs(folder, [("a b", "b a")] * 900, "first")
    second = write_pairs(folder, [("a b c d e f", "f e d c b a")] * 450, "second")
    sides = [f'["{one}", "{other}"]' for one, other in zip(first, second, strict=True)]
    valid = write_pairs(folder, [("c d", "d c")], "valid")
    settings = [
        f"data.src={sides[0]}",
        f"data.tgt={sides[1]}",
        f"data.corpus_weights={weights}",
        "data.tokenizer=spaces",
    ]
    settings += [f'data.valid_src="{valid[0]}"', f'data.valid_tgt="{valid[1]}"']
    opened = open_corpus(Recipe.load("default", settings).data)
    assert isinstance(opened, Corpus)
    return opened, train_tokenizers(opened)


@pytest.mark.parametrize(
    ("weights", "pairs", "tokens"),
    [
        ("[1, 1]", 1350, 900 * 3 + 450 * 7),
        ("[1, 20]", 900 + 9000, 900 * 3 + 9000 * 7),
        ("[0.5, 2]", 1350, 450 * 3 + 900 * 7),
    ],
)
def test_the_facts_are_those_of_an_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: str, pairs: int, tokens: int
) -> None:
    found = planned(two_corpora(tmp_path, weights), monkeypatch, Machine(1e10), 900)
    assert (found.facts.pairs, found.facts.tokens) == (pairs, tokens)
    assert f"{pairs:,} pairs, {tokens:,} target tokens an epoch (`data.corpus_weights`)" in str(found)


def test_weights_count_where_not_every_pair_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "SAMPLE", 135)
    found = planned(two_corpora(tmp_path, "[1, 20]"), monkeypatch, Machine(1e10), 900)
    assert (found.facts.pairs, found.facts.tokens) == (9900, 900 * 3 + 9000 * 7)


@pytest.mark.parametrize(("how", "pairs", "left_out"), [("skip", 360, 180), ("cut", 540, 0)])
def test_pairs_that_are_too_long_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, pairs: int, left_out: int
) -> None:
    src, tgt = write_pairs(tmp_path, [("a b", "b a"), ("a", "b"), ("a b c d e f", "f e d c b a")] * 180)
    valid = write_pairs(tmp_path, [("c d", "d c")], "valid")
    settings = [f'data.src="{src}"', f'data.tgt="{tgt}"', "data.tokenizer=spaces", "data.max_length=4"]
    settings += [f'data.valid_src="{valid[0]}"', f'data.valid_tgt="{valid[1]}"', f"data.on_too_long={how}"]
    opened = open_corpus(Recipe.load("default", settings).data)
    assert isinstance(opened, Corpus)
    found = planned((opened, train_tokenizers(opened)), monkeypatch, Machine(1e10), 900)
    assert (found.facts.pairs, found.facts.left_out) == (pairs, left_out)
    assert ("(about 180 more are too long)" in str(found)) == bool(left_out)


def test_the_budget_is_a_maximum(corpus: tuple[Corpus, TokenizerPair], monkeypatch: pytest.MonkeyPatch) -> None:
    found = planned(corpus, monkeypatch, Machine(1e10), 900)
    assert found.recipe.train.patience == rules.PATIENCE
    assert "training  at most about" in str(found)
    for setting in ("train.steps=12", "train.schedule=linear", "train.patience=0"):
        assert planned(corpus, monkeypatch, Machine(1e10), 900, setting).recipe.train.patience == 0
