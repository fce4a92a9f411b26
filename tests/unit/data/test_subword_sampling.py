"""Training sentences in other pieces each time: a function of (seed, epoch, draw), within bounds, read from a shard."""

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from pellucid.config import ModelConfig
from pellucid.data.batching import collate_batch
from pellucid.data.shards import EncodedCorpus, PackedTexts, Sentences, load_or_encode
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.errors import ConfigError
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary
from tests.unit.text.subword_models import CORPUS, subwords

BPE, UNIGRAM = subwords("bpe"), subwords("unigram")
LINES = CORPUS[:40]
PAIRS = list(zip(LINES, reversed(LINES), strict=True))
ALL = np.arange(len(PAIRS))


def sampling(tokenizers: TokenizerPair | None = None, strength: float = 0.5, seed: int = 1, longest: int = 999) -> Any:
    return SubwordSampling.for_tokenizers(tokenizers or TokenizerPair(BPE, BPE), strength, seed, longest)


def shard(folder: Path, tokenizers: TokenizerPair | None = None) -> EncodedCorpus:
    return load_or_encode(folder / "train", PAIRS, tokenizers or TokenizerPair(BPE, BPE), 999, "x", keep_texts=True)


def listed(drawn: tuple[Any, Any]) -> list[list[list[int]]]:
    return [[ids.tolist() for ids in side] for side in drawn]


@pytest.mark.parametrize(
    "tokenizers", [TokenizerPair(BPE, BPE), TokenizerPair(BPE, UNIGRAM), TokenizerPair(UNIGRAM, UNIGRAM)]
)
def test_both_sides_read_the_same_in_other_pieces(tokenizers: TokenizerPair, tmp_path: Path) -> None:
    whole = shard(tmp_path, tokenizers)
    sources, targets = listed(sampling(tokenizers, 0.8).draw(whole, 0, ALL))
    sides = ((sources, whole.source, tokenizers.source), (targets, whole.target, tokenizers.target))
    for (drawn, stored, tokenizer), lines in zip(sides, zip(*PAIRS, strict=True), strict=True):
        assert tuple(tokenizer.decode(ids) for ids in drawn) == lines
        assert sum(ids != stored[i].tolist() for i, ids in enumerate(drawn)) > len(lines) // 2


def test_a_draw_is_a_function_of_seed_epoch_and_draw_alone(tmp_path: Path) -> None:
    whole, some = shard(tmp_path), np.array([7, 3, 12])
    all_of_them = listed(sampling().draw(whole, 5, ALL))
    assert listed(sampling().draw(whole, 5, some)) == [[side[i] for i in some] for side in all_of_them]
    again = sampling()
    again.draw(whole, 4, ALL)
    assert listed(again.draw(whole, 5, ALL)) == all_of_them


def test_seed_epoch_copy_and_side_each_matter(tmp_path: Path) -> None:
    whole = shard(tmp_path)
    assert whole.source[20].tolist() == whole.target[len(PAIRS) - 21].tolist()
    drawn = [
        listed(sampling().draw(whole, 5, ALL)),
        listed(sampling(seed=2).draw(whole, 5, ALL)),
        listed(sampling().draw(whole, 6, ALL)),
        listed(sampling().draw(whole, 5, ALL + len(PAIRS))),
        listed(sampling().draw(whole, 5, ALL + 2 * len(PAIRS))),
    ]
    sides = [side for pair in drawn for side in (pair[0], pair[1][::-1])]  # the same lines in the same order
    assert len({str(side) for side in sides}) == len(sides)


def test_one_sentence_on_both_sides_is_cut_by_itself() -> None:
    ids = np.array(BPE.encode(LINES[0]), np.uint16)
    text = np.frombuffer(LINES[0].encode(), np.uint8)
    sentences = Sentences(ids, np.array([0, len(ids)]), PackedTexts(text, np.array([0, len(text)])))
    (source,), (target,) = sampling().draw(EncodedCorpus(sentences, sentences, 0, 0), 0, np.array([0]))
    assert source.tolist() != target.tolist()


@pytest.mark.parametrize("longest", [17, 25, 34])
def test_what_comes_out_too_long_keeps_its_stored_pieces(longest: int, tmp_path: Path) -> None:
    whole = shard(tmp_path)
    free, bound = (listed(sampling(longest=n).draw(whole, 0, ALL))[0] for n in (999, longest))
    for i, (ids, kept) in enumerate(zip(free, bound, strict=True)):
        assert kept == (ids if len(ids) <= longest else whole.source[i].tolist())
    assert any(len(ids) == longest for ids in free), "the bound itself is allowed"


def test_ids_that_were_cut_short_keep_their_stored_pieces(tmp_path: Path) -> None:
    tokenizers = TokenizerPair(BPE, BPE)
    whole = load_or_encode(tmp_path / "train", PAIRS, tokenizers, 10, "x", keep_texts=True, cut=True)
    sources, _ = listed(sampling().draw(whole, 0, ALL))
    cut = [i for i, line in enumerate(LINES) if len(BPE.encode(line)) > 10]
    assert 0 < len(cut) < len(LINES)
    for i in cut:
        assert sources[i] == whole.source[i].tolist() == BPE.encode(LINES[i])[:10]


def test_no_character_becomes_unknown_by_sampling() -> None:
    """A model of somebody else's may lack a character that its longer pieces have."""
    tokenizer = subwords("bpe, normalised")

    class Forgetful:
        unk_id = tokenizer.unk_id

        def sample(self, text: str, random: Random) -> list[int]:
            return [self.unk_id] * text.count("?") + [self.unk_id]

    both: Any = SubwordSampling(Forgetful(), Forgetful(), 1, 99)  # type: ignore[arg-type]
    for text, ids in (("ab", [5]), ("?", [5, tokenizer.unk_id])):
        utf8 = np.frombuffer(text.encode(), np.uint8)
        stored = Sentences(np.array(ids), np.array([0, len(ids)]), PackedTexts(utf8, np.array([0, len(utf8)])))
        assert listed(both.draw(EncodedCorpus(stored, stored, 0, 0), 0, np.array([0]))) == [[ids], [ids]]


def test_a_batch_of_what_was_drawn(tmp_path: Path) -> None:
    whole, config = shard(tmp_path), ModelConfig(src_vocab_size=BPE.size, tgt_vocab_size=BPE.size)
    draws = np.array([3, 3 + len(PAIRS), 8])
    batch = collate_batch(whole, draws, config, sampling(), 2)
    sources, targets = listed(sampling().draw(whole, 2, draws))
    width = 1 + max(map(len, targets))
    assert batch.sentences.tolist() == [3, 3, 8]
    assert batch.num_tokens == sum(map(len, targets)) + 3
    assert [row[: len(s) + 1] for row, s in zip(batch.src.tolist(), sources, strict=True)] == [[*s, 2] for s in sources]
    assert batch.tgt_in.tolist() == [[1, *t] + [0] * (width - len(t) - 1) for t in targets]
    assert batch.tgt_out.tolist() == [[*t, 2] + [0] * (width - len(t) - 1) for t in targets]
    assert sources[0] != sources[1], "two draws of a sentence in one epoch"


def test_no_sampling_asks_for_nothing() -> None:
    tokenizer = Vocabulary("words", ("a",))
    assert SubwordSampling.for_tokenizers(TokenizerPair(tokenizer, tokenizer), 0.0, 1, 99) is None


@pytest.mark.parametrize("sides", [(0, 0), (0, 1), (1, 0)])
def test_each_side_needs_pieces(sides: tuple[int, int]) -> None:
    kinds = (Vocabulary("words", ("a",)), BPE)
    with pytest.raises(ConfigError, match=r"`subword_regularization = 0.1` has no effect on the tokenizer `words`"):
        sampling(TokenizerPair(*(kinds[side] for side in sides)), 0.1)
