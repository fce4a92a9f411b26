"""Pairs joined with others: as often as asked for, within the limits, a function of (seed, epoch, draw) alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pellucid.config import DataConfig, DecodeConfig, ModelConfig
from pellucid.data.batching import collate_batch, make_batch_sampler
from pellucid.data.concatenation import NOBODY, Concatenation
from pellucid.data.framing import TextFrame
from pellucid.data.shards import EncodedCorpus, load_or_encode
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.errors import ConfigError
from pellucid.text.tokenizers import TokenizerPair
from tests.unit.text.subword_models import CORPUS, subwords

BPE = TokenizerPair(subwords("bpe"), subwords("bpe"))
LINES = CORPUS[:200]
PAIRS = list(zip(LINES, reversed(LINES), strict=True))
ALL = np.arange(len(PAIRS))
CONFIG = ModelConfig(src_vocab_size=BPE.source.size, tgt_vocab_size=BPE.target.size)


def joining(
    folder: Path, part: float = 0.5, seed: int = 1, longest: int = 999, max_length: int = 999, **fields: Any
) -> EncodedCorpus:
    """A shard some of whose pairs are joined."""
    cut = max_length < 999
    shard = load_or_encode(folder / f"{max_length}", PAIRS, BPE, max_length, "x", keep_texts=True, cut=cut)
    shard = replace(shard, **fields)
    found = Concatenation(shard.source, shard.target, shard.corpora, BPE, part, seed, longest)
    return replace(shard, concatenation=found)


def partners(shard: EncodedCorpus, epoch: int = 3, draws: Any = ALL) -> Any:
    assert shard.concatenation is not None
    return shard.concatenation.partners(epoch, draws)


def lines(shard: EncodedCorpus, epoch: int = 3, draws: Any = ALL) -> dict[int, tuple[str, str]]:
    assert shard.concatenation is not None
    return dict(shard.concatenation.lines(epoch, draws))


def test_as_many_are_joined_as_asked_for_half_of_them_with_two(tmp_path: Path) -> None:
    draws = np.arange(100 * len(PAIRS))  # one hundred copies of each pair
    found = partners(joining(tmp_path, 0.2), draws=draws) != NOBODY
    joined, with_two = found[:, 0].sum(), found[:, 1].sum()
    # Five standard deviations of as many tosses of a coin.
    assert abs(joined - 0.2 * len(draws)) < 5 * (0.2 * 0.8 * len(draws)) ** 0.5
    assert abs(with_two - 0.5 * joined) < 5 * (0.25 * joined) ** 0.5
    assert not found[~found[:, 0], 1].any(), "a second one only behind a first"


def test_every_pair_is_a_partner_as_often(tmp_path: Path) -> None:
    found = partners(joining(tmp_path, 1.0), draws=np.arange(100 * len(PAIRS)))
    times = np.bincount(found[found != NOBODY], minlength=len(PAIRS))
    assert abs(times - times.mean()).max() < 6 * times.mean() ** 0.5


def test_a_draw_is_a_function_of_seed_epoch_and_draw_alone(tmp_path: Path) -> None:
    shard, some = joining(tmp_path), np.array([120, 7, 199, 8])
    assert (partners(shard, draws=some) == partners(shard)[some]).all()
    others = [partners(joining(tmp_path, seed=2)), partners(shard, epoch=4), partners(shard, draws=ALL + len(PAIRS))]
    for found in (partners(shard), *others):
        same = sum((found == other).all() for other in (partners(shard), *others))
        assert same == 1


def test_a_line_is_its_pairs_in_their_order_on_both_sides(tmp_path: Path) -> None:
    shard = joining(tmp_path)
    found, chosen = lines(shard), partners(shard)
    assert set(found) == set(np.flatnonzero(chosen[:, 0] != NOBODY).tolist())
    for draw, (source, target) in found.items():
        pairs = [PAIRS[draw], *(PAIRS[i] for i in chosen[draw] if i != NOBODY)]
        assert source.split() == " ".join(s for s, _ in pairs).split()
        assert target.split() == " ".join(t for _, t in pairs).split()


def test_a_tag_stands_before_a_joint_line_once(tmp_path: Path) -> None:
    tagged = [(f"<2en> <bt> {source}", target) for source, target in PAIRS]
    shard = load_or_encode(tmp_path / "tagged", tagged, BPE, 999, "y", keep_texts=True)
    marks = frozenset({"<2en>", "<bt>"})
    joined = Concatenation(shard.source, shard.target, shard.corpora, BPE, 0.5, 1, 999, marks)
    found = dict(joined.lines(3, ALL))
    assert found
    for draw, (source, _) in found.items():
        pairs = [draw, *(pair for pair in joined.partners(3, ALL)[draw].tolist() if pair != NOBODY)]
        assert source.split() == ["<2en>", "<bt>", *" ".join(PAIRS[pair][0] for pair in pairs).split()]


def test_a_batch_has_the_ids_that_the_joint_lines_have(tmp_path: Path) -> None:
    shard, draws = joining(tmp_path), np.array([3, 10, 17, 40, 41, 42])
    batch, found = collate_batch(shard, draws, CONFIG, epoch=3), lines(shard, draws=draws)
    assert 0 < len(found) < len(draws)
    whole = [found.get(row, PAIRS[draw]) for row, draw in enumerate(draws)]
    for row, (source, target) in enumerate(whole):
        for tensor, ids in ((batch.src, BPE.source.encode(source)), (batch.tgt_out, BPE.target.encode(target))):
            assert tensor[row].tolist() == [*ids, 2] + [0] * (tensor.size(1) - len(ids) - 1)
    assert batch.num_tokens == sum(len(BPE.target.encode(target)) + 1 for _, target in whole)
    assert batch.sentences.tolist() == draws.tolist()


def test_batches_stay_within_their_budget_and_hold_each_pair_once(tmp_path: Path) -> None:
    shard = joining(tmp_path)
    for epoch in (0, 1):
        batches = make_batch_sampler(shard, 400, seed=1).epoch(epoch)
        assert sorted(np.concatenate(batches).tolist()) == ALL.tolist()
        made = [collate_batch(shard, draws, CONFIG, epoch=epoch) for draws in batches]
        assert all(len(b.src) == 1 or len(b.src) * max(b.src.size(1), b.tgt_in.size(1)) <= 400 for b in made)
    alone = make_batch_sampler(replace(shard, concatenation=None), 400, seed=1).epoch(0)
    assert len(batches) > len(alone), "they hold more tokens"


@pytest.mark.parametrize("longest", [18, 25])
def test_no_line_is_longer_than_the_longest(longest: int, tmp_path: Path) -> None:
    shard = joining(tmp_path, 1.0, longest=longest)
    found = [*lines(shard).values()]
    sizes = [max(len(BPE.source.encode(source)), len(BPE.target.encode(target))) for source, target in found]
    assert 0 < len(found) < len(PAIRS)
    assert max(sizes) <= longest


def test_partners_are_of_the_same_corpus(tmp_path: Path) -> None:
    sizes = (50, 110, 40)
    shard = joining(tmp_path, 1.0, corpora=tuple((size, 1.0) for size in sizes))
    borders = np.cumsum(sizes)
    for draw, chosen in enumerate(partners(shard)):
        for partner in chosen[chosen != NOBODY]:
            assert np.searchsorted(borders, partner, side="right") == np.searchsorted(borders, draw, side="right")


def test_what_was_cut_short_stays_alone(tmp_path: Path) -> None:
    shard = joining(tmp_path, 1.0, max_length=10)
    sizes = [(len(BPE.source.encode(source)), len(BPE.target.encode(target))) for source, target in PAIRS]
    whole = {i for i in ALL.tolist() if max(sizes[i]) <= 10}
    found = partners(shard)
    assert 0 < len(whole) < len(PAIRS)
    assert set(np.flatnonzero(found[:, 0] != NOBODY).tolist()) <= whole
    assert set(found[found != NOBODY].tolist()) <= whole


def test_sampled_pieces_of_a_joint_line_read_the_same(tmp_path: Path) -> None:
    shard, draws = joining(tmp_path, 1.0), np.arange(30)
    sampling = SubwordSampling.for_tokenizers(BPE, 0.5, 1, 999)
    drawn, again = (collate_batch(shard, draws, CONFIG, sampling, epoch=3) for _ in range(2))
    best = collate_batch(shard, draws, CONFIG, epoch=3)
    assert (drawn.src == again.src).all()
    assert drawn.src.ne(best.src[:, :1]).any()
    for row, (source, _) in lines(shard, draws=draws).items():
        assert BPE.source.decode(drawn.src[row].tolist()) == source


@pytest.mark.slow
@pytest.mark.parametrize(
    "framing", [None, TextFrame.from_config(DecodeConfig(source_prefix=(5, 6), target_prefix=(7,)), CONFIG)]
)
@pytest.mark.parametrize("part", [0.0, 0.5])
def test_batches_are_of_the_pieces_that_are_drawn(part: float, framing: TextFrame | None, tmp_path: Path) -> None:
    sampling = SubwordSampling.for_tokenizers(BPE, 0.5, 1, 999)
    shard = replace(joining(tmp_path, part), framing=framing)
    order, of_best = make_batch_sampler(shard, 400, 1, sampling), make_batch_sampler(shard, 400, 1)
    for epoch in (0, 1):
        batches = order.epoch(epoch)
        made, padded = (
            [collate_batch(shard, draws, CONFIG, sampling, epoch) for draws in each]
            for each in (batches, of_best.epoch(epoch))
        )
        assert sorted(np.concatenate(batches).tolist()) == ALL.tolist()
        assert max(max(batch.src.numel(), batch.tgt_in.numel()) for batch in made if len(batch.src) > 1) <= 400
        assert sum(batch.num_tokens for batch in made) == sum(batch.num_tokens for batch in padded)
        assert sum(batch.tgt_in.numel() for batch in made) < 0.95 * sum(batch.tgt_in.numel() for batch in padded)
        assert [draws.tolist() for draws in batches] == [draws.tolist() for draws in order.epoch(epoch)]


def test_more_than_a_window_of_pairs_is_batched_by_its_best_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard, sampling = joining(tmp_path), SubwordSampling.for_tokenizers(BPE, 0.5, 1, 999)

    def listed(sampling: SubwordSampling | None) -> list[list[int]]:
        return [draws.tolist() for draws in make_batch_sampler(shard, 400, 1, sampling).epoch(0)]

    assert listed(sampling) != listed(None)
    monkeypatch.setattr("pellucid.data.batching.WINDOW", len(PAIRS) - 1)
    assert listed(sampling) == listed(None)


@pytest.mark.parametrize("part", [-0.1, 1.5])
def test_a_part_is_between_nothing_and_all(part: float) -> None:
    with pytest.raises(ConfigError, match=f"`concatenate` \\({part}\\)"):
        DataConfig(concatenate=part)
