"""A corpus: checked before anything is made of it, a validation set that is not trained on, shards found again."""

import json
import os
import re
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from pellucid.config import DataConfig
from pellucid.config.tables import to_table
from pellucid.config.tasks import TrainedTask
from pellucid.data.dataset_cache import DatasetCache
from pellucid.data.lines import hash_path
from pellucid.data.prepare import Corpus, TrainingData, open_corpus, prepare, train_tokenizers
from pellucid.errors import ConfigError, DataError
from pellucid.text.tokenizers import TokenizerPair
from pellucid.training.log import RunLog
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
    corpus = open_corpus(data(tmp_path, [*PAIRS[:49], PAIRS[0]] * 2))
    trained = list(corpus.train())
    assert not set(corpus.valid) & set(trained)
    kept = set(PAIRS[:49]) - set(corpus.valid)
    assert all(trained.count(pair) == (4 if pair == PAIRS[0] else 2) for pair in kept)


def test_validation_sources_are_not_trained_on_with_another_target(tmp_path: Path) -> None:
    """Each source stands there three times, with targets of its own; and each target with another source, too."""
    pairs = [(source, f"{target} {way}") for way in ("one", "two", "three") for source, target in PAIRS]
    corpus = open_corpus(data(tmp_path, pairs + [(f"another {source}", target) for source, target in pairs]))
    trained, held_out = list(corpus.train()), {source for source, _ in corpus.valid}
    assert not held_out & {source for source, _ in trained}
    assert {target for _, target in corpus.valid} & {target for _, target in trained}, "a target may come again"
    others = [pair for pair in pairs if pair[0] not in held_out]
    assert [pair for pair in trained if pair in others] == others
    assert len(corpus) == len(trained)


def test_a_given_validation_set_takes_nothing_from_the_training_text(tmp_path: Path) -> None:
    valid_src, valid_tgt = write_pairs(tmp_path, PAIRS[:3], "valid")
    corpus = open_corpus(data(tmp_path, valid_src=valid_src, valid_tgt=valid_tgt))
    assert corpus.valid == PAIRS[:3]
    assert list(corpus.train()) == PAIRS


def test_too_few_lines_to_cut_some_off(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^`.*train\.src` and `.*` have 9 usable pairs: too few to hold") as error:
        open_corpus(data(tmp_path, PAIRS[:9]))
    assert "`data.valid_src=`" in error.value.hint
    assert len(open_corpus(data(tmp_path, PAIRS[:10])).valid) == 1


@pytest.mark.parametrize("missing", ["src", "tgt", "valid_src", "valid_tgt"])
def test_each_text_needs_its_other_side(tmp_path: Path, missing: str) -> None:
    valid_src, valid_tgt = write_pairs(tmp_path, PAIRS[:3], "valid")
    fields = data(tmp_path, valid_src=valid_src, valid_tgt=valid_tgt)
    with pytest.raises(ConfigError, match=f"^`data.{missing}=` is not given$"):
        open_corpus(replace(fields, **{missing: ""}))  # type: ignore[arg-type]


def test_without_any_text_the_source_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^`data\.src=` is not given$"):
        open_corpus(DataConfig())


def test_the_whole_text_is_checked(tmp_path: Path) -> None:
    fields = data(tmp_path)
    with Path(fields.tgt).open("ab") as file:
        file.write(b"one more\n")
    with pytest.raises(DataError, match=r"has 50 and .* 51\n"):
        open_corpus(fields)
    with Path(fields.src).open("ab") as file:
        file.write(b"\xff\n")
    with pytest.raises(DataError, match="line 51, byte 1 is 0xff"):
        open_corpus(fields)


def test_what_can_be_read_only_once_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=re.escape(f"`{os.devnull}` is not a file: a pipe can be read only once")):
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
    apart = train_tokenizers(open_corpus(data(tmp_path, joint_vocab=False)))
    assert not apart.joint
    assert apart.source.unk_id in apart.source.encode("target")
    assert apart.target.unk_id in apart.target.encode("source")


def test_each_side_may_have_a_size_of_its_own(tmp_path: Path) -> None:
    fields = {"joint_vocab": False, "tokenizer": "bpe", "vocab_size": 275, "tgt_vocab_size": 270}
    apart = train_tokenizers(open_corpus(data(tmp_path, **fields)))
    assert (apart.source.size, apart.target.size) == (275, 270)
    equal = train_tokenizers(open_corpus(data(tmp_path, **fields | {"tgt_vocab_size": 0})))
    assert (equal.source.size, equal.target.size) == (275, 275)


def test_tokenizers_spell_a_text_as_the_recipe_says_but_a_running_text_as_it_stands(tmp_path: Path) -> None:
    typed = " a\xa0 b\n"
    for normalize, spelled in (("nfc", "a b"), ("none", typed)):
        tokenizer = train_tokenizers(open_corpus(data(tmp_path, tokenizer="bytes", normalize=normalize))).source
        assert tokenizer.decode(tokenizer.encode(typed)) == spelled
    (tmp_path / "play.txt").write_text("  Ham.\n\tTo be\n" * 200, encoding="utf-8")
    running = DataConfig(src=str(tmp_path / "play.txt"), text="continuous", tokenizer="characters", max_length=8)
    tokenizer = train_tokenizers(open_corpus(running, "generate")).source
    assert tokenizer.decode(tokenizer.encode("  Ham.\n\tTo be\n")) == "  Ham.\n\tTo be\n"


def test_a_run_from_before_there_was_a_choice_goes_on_as_it_began(tmp_path: Path) -> None:
    """Its recipe has no `normalize`, which now means nfc; its tokenizer has none, and that decides."""
    before = open_corpus(data(tmp_path, normalize="none"))
    tokenizers, log = train_tokenizers(before), RunLog(tmp_path, 1).log_line
    first = prepare(before, tokenizers, tmp_path / "data", log, resuming=False)
    again = prepare(open_corpus(data(tmp_path)), tokenizers, tmp_path / "data", log, resuming=True)
    assert [ids.tolist() for ids in again.train.source] == [ids.tolist() for ids in first.train.source]


def made(corpus: Corpus, folder: Path, resuming: bool = False) -> TrainingData:
    folder.mkdir(exist_ok=True)
    return prepare(corpus, train_tokenizers(corpus), folder / "data", RunLog(folder, 1).log_line, resuming)


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
    long = f"too long: 1 pair beyond 256 tokens, left out; first in line 100 of `{tmp_path / 'train.src'}`"
    assert said.splitlines()[1] == f"  {long}"
    empty = f"  empty side: 1 pair, left out; first in line 99 of `{tmp_path / 'train.tgt'}`"
    assert empty in corpus.report().splitlines()


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
    message = f"^the texts differ from those that the run in `{re.escape(str(tmp_path / 'run'))}` was started with$"
    with pytest.raises(DataError, match=message) as error:
        made(open_corpus(fields), tmp_path / "run", resuming=True)
    assert "`fresh=True`" in error.value.hint
    assert len(made(open_corpus(fields), tmp_path / "run").train) == 45, "a new run takes the new text"


def test_a_text_may_move_but_settings_that_decide_its_ids_may_not_change(tmp_path: Path) -> None:
    fields = data(tmp_path)
    made(open_corpus(fields), tmp_path / "run")
    moved = tmp_path / "moved.src"
    Path(fields.src).rename(moved)
    fields = replace(fields, src=str(moved))
    made(open_corpus(fields), tmp_path / "run", resuming=True)
    with pytest.raises(DataError, match="the texts differ from those"):
        made(open_corpus(replace(fields, lowercase=True)), tmp_path / "run", resuming=True)


def test_a_setting_that_earlier_runs_do_not_know_changes_nothing_at_its_default(tmp_path: Path) -> None:
    fields = data(tmp_path)
    made(open_corpus(fields), tmp_path / "run")
    index = json.loads((tmp_path / "run" / "data" / "train" / "index.json").read_text(encoding="utf-8"))
    fixed = ("src", "tgt", "valid_src", "valid_tgt", "test_src", "test_tgt")
    later: tuple[str, ...] = ("concatenate", "normalize", "tgt_vocab_size", "cache_dir", "tokenizer_sample_size")
    later += (
        "corpus_weights_from",
        "sampling_temperature",
        "symbols",
        "corpus_tags",
        "src_lang",
        "tgt_lang",
        "add_language",
        "max_new_pieces",
    )
    first = {"corpus_weights": "weights", "joint_vocab": "joint", "subword_regularization": "subword_sampling"}
    earlier = {first.get(name, name): value for name, value in to_table(fields).items() if name not in (*fixed, *later)}
    digests = {side: [hash_path(path)] for side, path in (("src", fields.src), ("tgt", fields.tgt))}
    table = train_tokenizers(open_corpus(fields)).save(tmp_path)
    assert index["fingerprint"] == sha256(json.dumps([digests, earlier, table], sort_keys=True).encode()).hexdigest()
    made(open_corpus(fields), tmp_path / "run", resuming=True)
    with pytest.raises(DataError, match="the texts differ from those"):
        made(open_corpus(replace(fields, concatenate=0.1)), tmp_path / "run", resuming=True)


def test_several_corpora_with_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    letters = reversed_letters(60, seed=5)
    first, second = (write_pairs(tmp_path, pairs, name) for pairs, name in ((letters[:40], "a"), (letters[40:], "b")))
    (tmp_path / "c.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in [("a", "b"), ("a", ""), ("h " * 20, "h")] * 4))
    valid_src, valid_tgt = write_pairs(tmp_path, letters[:3], "valid")
    fields = DataConfig(
        src=(first[0], str(tmp_path / "c.tsv"), second[0]), tgt=(first[1], second[1]), corpus_weights=(1, 2.5, 0.5),
        tokenizer="spaces", max_length=12, valid_src=valid_src, valid_tgt=valid_tgt,
    )  # fmt: skip
    corpus = open_corpus(fields)
    assert len(corpus) == len(list(corpus.train())) == 68
    prepared = made(corpus, tmp_path / "run")
    assert prepared.train.corpora == ((40, 1), (4, 2.5), (20, 0.5))
    assert "training: 64 pairs" in (said := capsys.readouterr().err)
    assert "an epoch samples 60 pairs" in said
    assert f"too long: 4 pairs beyond 12 tokens, left out; first in line 3 of `{tmp_path / 'c.tsv'}`" in said
    record = json.loads((tmp_path / "run" / "corpus.json").read_text(encoding="utf-8"))
    assert record["texts"][1] == {"src": fields.src[1], "tgt": fields.src[1], "pairs": 12}
    assert record["training"]["pairs"] == 64
    assert record["training"]["corpora"] == [[40, 1], [4, 2.5], [20, 0.5]]
    assert [len(record["sha256"][name]) for name in ("src", "tgt", "valid_src")] == [3, 2, 1]
    faults = {finding["fault"]: finding["count"] for finding in record["findings"]}
    assert faults["empty"] == faults["too_long"] == 4
    assert faults["valid"] == 3
    again = made(open_corpus(fields), tmp_path / "run", resuming=True)
    assert again.train.corpora == prepared.train.corpora


def test_weights_that_draw_nothing(tmp_path: Path) -> None:
    corpus = open_corpus(data(tmp_path, corpus_weights=(0.001,)))
    with pytest.raises(ConfigError, match=r"^`data\.corpus_weights` \(\[0\.001\]\) select no pair of \[45\]$"):
        made(corpus, tmp_path / "run")


def test_what_is_left_out_is_neither_trained_nor_validated_on(tmp_path: Path) -> None:
    pairs = [*PAIRS, *[("x", "x")] * 30, *[("", "y")] * 30, *PAIRS]
    corpus = open_corpus(data(tmp_path, pairs, on_copy="skip", on_duplicate="skip"))
    assert len(corpus.valid) == 5, "a tenth of those that are used"
    assert sorted([*corpus.valid, *corpus.train()]) == sorted(PAIRS)
    assert open_corpus(data(tmp_path, pairs, on_copy="skip", on_duplicate="skip")).valid == corpus.valid


def test_the_validation_text_is_looked_at_too(tmp_path: Path) -> None:
    valid_src, valid_tgt = write_pairs(tmp_path, [*PAIRS[:3], ("", "b"), ("x", "x")], "valid")
    fields = data(tmp_path, valid_src=valid_src, valid_tgt=valid_tgt, on_copy="skip")
    corpus = open_corpus(fields)
    assert corpus.valid == [*PAIRS[:3], ("x", "x")]
    report = corpus.report().replace(f"{tmp_path}/", "").splitlines()
    assert report == [
        "texts: 50 pairs in `train.src` and `train.tgt`",
        "  validation sentences in the training text: 3 of 5 sentences, kept; first in line 1 of `train.src`: "
        f"it is line 1 of `{Path(valid_src).name}`",
        "  empty side: 1 pair, left out; first in line 4 of `valid.src`",
        "  target equal to source: 1 pair, kept; first in line 5 of `valid.src`: x",
    ]
    with Path(valid_src).open("a", encoding="utf-8") as file:
        file.write("one more\n")
    with pytest.raises(DataError, match=r"valid\.tgt` has 5 and .*valid\.src` 6\n"):
        open_corpus(fields)


def test_test_texts_need_not_be_there(tmp_path: Path) -> None:
    test_src, _ = write_pairs(tmp_path, PAIRS[10:13], "test")
    assert open_corpus(data(tmp_path, test_src=str(tmp_path / "no"), test_tgt="no")).findings == []
    (finding,) = open_corpus(data(tmp_path, test_src=test_src)).findings
    assert (finding.fault, finding.count, finding.line) == ("test", 3, 11)


def test_validation_that_takes_all_says_so(tmp_path: Path) -> None:
    """Forty equal pairs have one source: with it in the validation text, nothing is left."""
    message = (
        r"^no training text is left in `.*` and `.*`: 4 of 40 pairs are held out for validation, and the sources of "
        r"all others are held out, too$"
    )
    for prepared in (None, DatasetCache(tmp_path / "prepared", lambda _: None)):
        with pytest.raises(DataError, match=message):
            open_corpus(data(tmp_path, [PAIRS[0]] * 40), prepared=prepared)


@pytest.mark.parametrize(("name", "given"), [("training", "src"), ("validation", "valid_src")])
def test_a_text_of_blank_lines_is_named(tmp_path: Path, name: str, given: str) -> None:
    texts = write_pairs(tmp_path, [("", ""), (" ", "\u200b")], "blank")
    sides = dict(zip((given, given.replace("src", "tgt")), texts, strict=True))
    with pytest.raises(DataError) as caught:
        open_corpus(data(tmp_path, **sides))
    files = " and ".join(f"`{path}`" for path in texts).replace("` and `", "`, `")
    assert str(caught.value) == f"the {name} text has no usable pair in {files}; of 2, left out: 2 (empty side)"


JUNK = "".join(f"{n:x}" for n in range(2000))
"""Characters of many kinds without a space, as an attachment has them."""


@pytest.mark.parametrize("task", ["translate", "classify", "generate"])
@pytest.mark.parametrize("joint", [True, False])
def test_a_tokenizer_does_not_learn_from_what_is_left_out(tmp_path: Path, task: TrainedTask, joint: bool) -> None:
    pairs = reversed_letters(60, longest=20)
    settings = {"tokenizer": "bpe", "vocab_size": 300, "max_length": 100, "joint_vocab": joint, "valid_size": 1}
    given = dict(zip(("valid_src", "valid_tgt"), write_pairs(tmp_path, pairs[:5], "v"), strict=True))
    if task == "generate":
        given = {"valid_src": given["valid_src"]}

    def learned(name: str, texts: list[Pair], **more: object) -> tuple[TokenizerPair, list[str]]:
        folder = tmp_path / name
        folder.mkdir()
        texts_of = data(folder, texts, **settings, **given, **more)
        said: list[str] = []
        if task == "generate":
            texts_of = replace(texts_of, tgt="")
        return train_tokenizers(open_corpus(texts_of, task), said.append), said

    def saved(tokenizers: TokenizerPair) -> list[list[int]]:
        return [each.encode_lines([JUNK, *pairs[0]]) for each in (tokenizers.source, tokenizers.target)]

    plain, _ = learned("plain", pairs)
    beside, said = learned("beside", [*pairs[:30], (JUNK, "x"), *pairs[30:]])
    assert saved(beside) == saved(plain)
    things = {"translate": "pairs", "classify": "texts with labels", "generate": "texts"}[task]
    assert f"the tokenizer does not learn from 1 {things} that are too long" in said
    cut, _ = learned("cut", [*pairs, (JUNK, "x")], on_too_long="cut")
    whole, _ = learned("whole", [*pairs, (JUNK[:100], "x")])
    assert len(cut.source.encode(JUNK)) > 100
    assert saved(cut) != saved(plain) != saved(whole)


def test_where_all_is_too_long_the_texts_are_at_fault_and_not_the_tokenizer(tmp_path: Path) -> None:
    corpus = open_corpus(data(tmp_path, PAIRS, max_length=1))
    with pytest.raises(
        DataError, match=r"^the training text has no usable pair of sentences: 0 had an empty side, 45 "
    ):
        made(corpus, tmp_path / "data")


@pytest.mark.parametrize("task", ["translate", "generate"])
def test_how_much_of_a_text_has_no_id_is_said(tmp_path: Path, task: TrainedTask) -> None:
    settings = {"tokenizer": "characters", "byte_fallback": False, "vocab_size": 14, "valid_size": 1}
    texts = data(tmp_path, [("abcdefghij" * 9 + "日本語", "abc" * 9)] * 20 + PAIRS, **settings)
    corpus = open_corpus(texts if task == "translate" else replace(texts, tgt="", text="continuous"), task)
    said: list[str] = []
    prepare(corpus, train_tokenizers(corpus), tmp_path / "data", said.append, resuming=False)
    sentence = next(line for line in said if "<unk>" in line)
    side = "source tokens" if task == "translate" else "tokens"
    assert re.match(rf"\d+(\.\d+)? % of the {side} of the training text are <unk>: ", sentence)
