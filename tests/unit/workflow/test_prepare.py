"""A corpus: checked before anything is made of it, a validation set that is not trained on, shards found again."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from pellucid.config import DataConfig
from pellucid.errors import ConfigError, DataError
from pellucid.training.log import RunLog
from pellucid.workflow.prepare import Corpus, Prepared, open_corpus, prepare, train_tokenizers
from tests.toy_task import Pair, reversed_letters, write_pairs

PAIRS = [(f"source {i}", f"target {i}") for i in range(50)]


def data(folder: Path, pairs: list[Pair] = PAIRS, **fields: object) -> DataConfig:
    src, tgt = write_pairs(folder, pairs)
    return DataConfig(**{"src": src, "tgt": tgt, "tokenizer": "spaces", **fields})  # type: ignore[arg-type]


def test_the_cut_off_validation_set_is_a_tenth_at_most(tmp_path: Path) -> None:
    assert len(open_corpus(data(tmp_path)).valid) == 5
    assert len(open_corpus(data(tmp_path, valid_size=3)).valid) == 3


def test_the_cut_off_validation_set_is_the_same_each_time_and_not_trained_on(tmp_path: Path) -> None:
    corpus, again = open_corpus(data(tmp_path)), open_corpus(data(tmp_path))
    assert corpus.valid == again.valid
    assert list(corpus.train()) == list(again.train()) == [pair for pair in PAIRS if pair not in corpus.valid]
    assert set(corpus.valid) | set(corpus.train()) == set(PAIRS)
    assert corpus.valid != PAIRS[:5] != corpus.valid != PAIRS[-5:], "drawn from all over the text"


def test_copies_of_validation_pairs_are_not_trained_on(tmp_path: Path) -> None:
    valid = open_corpus(data(tmp_path)).valid
    near = [(valid[0][0], "another target"), ("another source", valid[0][1])]
    corpus = open_corpus(data(tmp_path, [*PAIRS[:49], PAIRS[0]] * 2 + near))
    trained = list(corpus.train())
    assert not set(corpus.valid) & set(trained)
    assert [pair for pair in near if pair not in corpus.valid] == [pair for pair in near if pair in trained]
    kept = set(PAIRS[:49]) - set(corpus.valid)
    assert all(trained.count(pair) == (4 if pair == PAIRS[0] else 2) for pair in kept)


def test_a_given_validation_set_takes_nothing_from_the_training_text(tmp_path: Path) -> None:
    valid_src, valid_tgt = write_pairs(tmp_path, PAIRS[:3], "valid")
    corpus = open_corpus(data(tmp_path, valid_src=valid_src, valid_tgt=valid_tgt))
    assert corpus.valid == PAIRS[:3]
    assert list(corpus.train()) == PAIRS


def test_too_few_lines_to_cut_some_off(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^`.*train\.src` has 9 lines: too few to hold a tenth out") as error:
        open_corpus(data(tmp_path, PAIRS[:9]))
    assert "--valid-src" in error.value.hint
    assert len(open_corpus(data(tmp_path, PAIRS[:10])).valid) == 1


@pytest.mark.parametrize("missing", ["src", "tgt", "valid_src", "valid_tgt"])
def test_each_text_needs_its_other_side(tmp_path: Path, missing: str) -> None:
    valid_src, valid_tgt = write_pairs(tmp_path, PAIRS[:3], "valid")
    fields = data(tmp_path, valid_src=valid_src, valid_tgt=valid_tgt)
    with pytest.raises(ConfigError, match=f"^`data.{missing}` is not given$"):
        open_corpus(replace(fields, **{missing: ""}))  # type: ignore[arg-type]


def test_without_any_text_the_source_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^`data\.src` is not given$"):
        open_corpus(DataConfig())


def test_the_whole_text_is_checked(tmp_path: Path) -> None:
    fields = data(tmp_path)
    with Path(fields.tgt).open("ab") as file:
        file.write(b"one more\n")
    with pytest.raises(DataError, match=r"has 50 and .* 51$"):
        open_corpus(fields)
    with Path(fields.src).open("ab") as file:
        file.write(b"\xff\n")
    with pytest.raises(DataError, match="line 51, byte 1 is 0xff"):
        open_corpus(fields)


def test_what_can_be_read_only_once_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=re.escape(f"`{os.devnull}` is no file: a pipe can be read once")):
        open_corpus(replace(data(tmp_path), tgt=os.devnull))


def test_tokenizers_see_the_training_text_alone(tmp_path: Path) -> None:
    corpus = open_corpus(data(tmp_path, valid_size=5))
    vocabulary = train_tokenizers(corpus).target
    assert all(vocabulary.unk_id in vocabulary.encode(target) for _, target in corpus.valid)
    assert not any(vocabulary.unk_id in vocabulary.encode(target) for _, target in corpus.train())


def test_one_vocabulary_or_two(tmp_path: Path) -> None:
    joint = train_tokenizers(open_corpus(data(tmp_path)))
    assert joint.joint
    assert joint.source.decode(joint.source.encode("source target")) == "source target"
    apart = train_tokenizers(open_corpus(data(tmp_path, joint=False)))
    assert not apart.joint
    assert apart.source.unk_id in apart.source.encode("target")
    assert apart.target.unk_id in apart.target.encode("source")


def made(corpus: Corpus, folder: Path, resuming: bool = False) -> Prepared:
    folder.mkdir(exist_ok=True)
    return prepare(corpus, train_tokenizers(corpus), folder / "data", RunLog(folder, 1), resuming)


def test_prepared_shards_hold_the_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [*reversed_letters(98), ("a", ""), (" ".join("a" * 300), "b")]
    corpus = open_corpus(data(tmp_path, pairs, valid_size=2))
    prepared = made(corpus, tmp_path / "run")
    target = prepared.tokenizers.target
    held = set(corpus.valid)
    usable = [pair for pair in pairs[:98] if pair not in held]
    assert [target.decode(ids.tolist()) for ids in prepared.train.target] == [tgt for _, tgt in usable]
    assert [target.decode(ids.tolist()) for ids in prepared.valid.source] == [src for src, _ in prepared.valid_pairs]
    said = capsys.readouterr().err
    assert f"training: {len(usable)} pairs, " in said
    assert "left out: 1 with an empty side, 1 beyond 256 tokens" in said


def test_validation_sentences_without_text_are_not_translated(tmp_path: Path) -> None:
    valid = [("a", "b"), ("", "b"), (" \t", "b"), ("b", ""), ("b", "a")]
    valid_src, valid_tgt = write_pairs(tmp_path, valid, "valid")
    corpus = open_corpus(data(tmp_path, valid_src=valid_src, valid_tgt=valid_tgt))
    assert made(corpus, tmp_path / "run").valid_pairs == [("a", "b"), ("b", "a")]


def test_another_text_under_a_run_is_an_error(tmp_path: Path) -> None:
    fields = data(tmp_path)
    made(open_corpus(fields), tmp_path / "run")
    made(open_corpus(fields), tmp_path / "run", resuming=True)
    write_pairs(tmp_path, [*PAIRS[:49], ("source 49", "another target")])
    message = f"^the texts are not those that the run in `{re.escape(str(tmp_path / 'run'))}` began with$"
    with pytest.raises(DataError, match=message) as error:
        made(open_corpus(fields), tmp_path / "run", resuming=True)
    assert "--fresh" in error.value.hint
    assert len(made(open_corpus(fields), tmp_path / "run").train) == 45, "a new run takes the new text"


def test_a_text_may_move_but_settings_that_decide_its_ids_may_not_change(tmp_path: Path) -> None:
    fields = data(tmp_path)
    made(open_corpus(fields), tmp_path / "run")
    moved = tmp_path / "moved.src"
    Path(fields.src).rename(moved)
    fields = replace(fields, src=str(moved))
    made(open_corpus(fields), tmp_path / "run", resuming=True)
    with pytest.raises(DataError, match="the texts are not those"):
        made(open_corpus(replace(fields, lowercase=True)), tmp_path / "run", resuming=True)
