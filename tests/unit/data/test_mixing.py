"""Several corpora in an epoch: by weights that may change in a run, or by a temperature."""

from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from pellucid.config import DataConfig
from pellucid.data.batching import BucketBatchSampler
from pellucid.data.dataset_cache import DatasetCache
from pellucid.data.parallel import parallel_texts
from pellucid.data.prepare import Corpus, make_mixing_schedule, open_corpus, prepare, train_tokenizers
from pellucid.errors import ConfigError, PellucidError

CORPORA, MIXES = ((300, 1.0), (100, 0.0)), ((0, (1.0, 0.0)), (2, (0.5, 2.25)))


def order_of(in_windows: bool, **fields: object) -> BucketBatchSampler:
    lengths = np.random.default_rng(1).integers(1, 9, 400)
    return BucketBatchSampler(lengths, lengths, 64, 1, CORPORA, in_windows=in_windows, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("in_windows", [False, True])
def test_a_mix_holds_from_its_epoch_on(in_windows: bool) -> None:
    order = order_of(in_windows, mixes=MIXES)
    for epoch, counts in enumerate([(300, 0), (300, 0), (150, 225), (150, 225)]):
        drawn = np.concatenate(order.epoch(epoch)) % 400
        assert (int((drawn < 300).sum()), int((drawn >= 300).sum())) == counts
        if epoch < 2:
            assert max(Counter(drawn.tolist()).values()) == 1


@pytest.mark.parametrize("in_windows", [False, True])
def test_a_run_goes_on_in_the_middle_of_any_mix(in_windows: bool) -> None:
    order = order_of(in_windows, mixes=MIXES)
    whole = list(islice(order.iterate_from(0, 0), 150))
    assert whole[-1][0] >= 2
    for number in range(0, 149, 11):
        epoch, position, _ = whole[number]
        assert next(order.iterate_from(epoch, position))[2].tolist() == whole[number + 1][2].tolist()


def test_without_mixes_the_order_is_that_of_the_weights_alone() -> None:
    plain, mixed = order_of(False), order_of(False, mixes=((0, (1.0, 0.0)),))
    assert [batch.tolist() for batch in plain.epoch(3)] == [batch.tolist() for batch in mixed.epoch(3)]


@pytest.mark.parametrize("temperature", [1.0, 2.0, 5.0, 100.0])
def test_a_temperature_makes_the_parts_more_even_and_an_epoch_no_longer(temperature: float) -> None:
    sizes = [100_000, 1000, 10]
    ((start, weights),) = make_mixing_schedule(DataConfig(sampling_temperature=temperature), sizes)
    drawn = np.array(weights) * sizes
    assert start == 0
    assert drawn.sum() == pytest.approx(sum(sizes))
    expected = np.array(sizes, float) ** (1 / temperature)
    assert drawn / drawn.sum() == pytest.approx(expected / expected.sum())
    if temperature == 1:
        assert weights == pytest.approx((1, 1, 1))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sampling_temperature": 0.5}, r"^`sampling_temperature` \(0.5\) must be 0, or 1 and above$"),
        (
            {"sampling_temperature": 2.0, "corpus_weights": (1, 2)},
            r"^`sampling_temperature` \(2\) and `corpus_weights` exclude each other$",
        ),
        (
            {"corpus_weights_from": (0, 4), "corpus_weights": (1, 2, 3)},
            r"^`corpus_weights_from` \(\[0, 4\]\) must be increasing epochs that begin with 0",
        ),
        (
            {"corpus_weights_from": (1, 4), "corpus_weights": (1, 2)},
            r"^`corpus_weights_from` \(\[1, 4\]\) must be increasing epochs that begin with 0",
        ),
        ({"corpus_weights_from": (0,)}, r"`corpus_weights` \(\[\]\) must have equally many numbers for each of them$"),
        (
            {"corpus_weights_from": (0, 1), "corpus_weights": (1.0, -1.0)},
            r"^`corpus_weights` \(\[1.0, -1.0\]\) must be at least 0$",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DataConfig(**fields)  # type: ignore[arg-type]


def test_each_mix_has_a_weight_a_corpus() -> None:
    data = DataConfig(src=("a.tsv", "b.tsv", "c.tsv"), corpus_weights=(1.0, 2.0), corpus_weights_from=(0, 3))
    message = r"must have one value per corpus \(3\), 2 times, for `data\.corpus_weights_from` \(\[0, 3\]\)$"
    with pytest.raises(ConfigError, match=message):
        parallel_texts(data)
    with pytest.raises(PellucidError, match=r"^`data\.sampling_temperature` \(2\) has no effect on a continuous text$"):
        open_corpus(DataConfig(src="a", text="continuous", sampling_temperature=2.0), "generate")


@pytest.mark.slow
def test_a_corpus_is_mixed_as_its_settings_say(tmp_path: Path) -> None:
    for name, count in (("a", 400), ("b", 40)):
        lines = "".join(f"{name}{n % 7} wort\tword {n}\n" for n in range(count))
        (tmp_path / f"{name}.tsv").write_text(lines, encoding="utf-8")
    paths = (str(tmp_path / "a.tsv"), str(tmp_path / "b.tsv"))
    valid = {"valid_src": paths[1], "tokenizer": "words"}
    told: list[str] = []
    data = DataConfig(src=paths, corpus_weights=(1, 0, 0.5, 4), corpus_weights_from=(0, 1), **valid)  # type: ignore[arg-type]
    corpus = open_corpus(data)
    train = prepare(corpus, train_tokenizers(corpus), tmp_path / "run" / "data", told.append, resuming=False).train
    assert train.corpora == ((400, 1.0), (40, 0.0))
    assert train.mixes == ((0, (1.0, 0.0)), (1, (0.5, 4.0)))
    assert "an epoch samples 400 pairs in the first of 2 mixes" in told[0]
    corpus = open_corpus(DataConfig(src=paths, sampling_temperature=1e9, **valid))  # type: ignore[arg-type]
    train = prepare(corpus, train_tokenizers(corpus), tmp_path / "even" / "data", told.append, resuming=False).train
    assert [round(size * weight) for size, weight in train.corpora] == [220, 220]


def tagged(tmp_path: Path, **fields: object) -> DataConfig:
    for name in ("a", "b"):
        lines = "".join(f"das  ist {name}{n}\tthis is {name}{n}\n" for n in range(60))
        (tmp_path / f"{name}.tsv").write_text(lines, encoding="utf-8")
    paths = (str(tmp_path / "a.tsv"), str(tmp_path / "b.tsv"))
    return DataConfig(src=paths, corpus_tags=("<web>", "<news>"), valid_size=5, vocab_size=320, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "spaces"])
@pytest.mark.parametrize("kept", [False, True])
def test_a_tag_stands_before_each_source_and_is_never_cut(tmp_path: Path, kind: str, kept: bool) -> None:
    data = tagged(tmp_path, tokenizer=kind, symbols=("<formal>",))
    corpus = open_corpus(data, prepared=DatasetCache(tmp_path / "prepared") if kept else None)
    assert isinstance(corpus, Corpus)
    pairs = [*corpus.train(), *corpus.valid]
    assert len(pairs) == 120
    for source, target in pairs:
        assert source.startswith("<web> das" if target.startswith("this is a") else "<news> das")
    assert not any(target.startswith("<") for _, target in pairs)
    tokenizer = train_tokenizers(corpus).source
    for symbol in ("<web>", "<news>", "<formal>"):
        tokens = tokenizer.tokens(tokenizer.encode(f"{symbol} das ist"))
        assert symbol in tokens
        assert tokens.count(symbol) == 1
    assert tokenizer.decode(tokenizer.encode("<web> das ist")) == "<web> das ist"
    (tmp_path / "run").mkdir()
    shard = prepare(corpus, train_tokenizers(corpus), tmp_path / "run" / "data", str, resuming=False).train
    (number,) = (i for i in tokenizer.encode("<web>") if tokenizer.tokens([i]) == ["<web>"])
    assert sum(number in shard.source[place].tolist() for place in range(len(shard))) == sum(
        source.startswith("<web>") for source, _ in corpus.train()
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"tokenizer": "words", "symbols": ("<x>",)},
            r'^`symbols = \["<x>"\]` has no effect on the tokenizer `words`$',
        ),
        (
            {"symbols": ("e\u0301",)},
            r'^`symbols` has \'e.+\', which a text spells differently with `normalize = "nfc"`$',
        ),
    ],
)
def test_a_symbol_that_cannot_stay_whole_is_refused(tmp_path: Path, fields: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        train_tokenizers(open_corpus(tagged(tmp_path, **fields)))


def test_tags_are_words_one_a_corpus(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^`corpus_tags` has '<a b>', which is not a symbol: a word without spaces"):
        DataConfig(corpus_tags=("<a b>",))
    data = replace(tagged(tmp_path), corpus_tags=("<web>",))
    with pytest.raises(ConfigError, match=r"^`data.corpus_tags` \(\['<web>'\]\) must have one value per corpus \(2\)$"):
        open_corpus(data)
    with pytest.raises(ConfigError, match=r"^`data.corpus_tags` \(\['<web>'\]\) have no effect on monolingual texts$"):
        open_corpus(data, "generate")
