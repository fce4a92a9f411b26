"""What is made of large texts: the same as ever, once, whatever happens meanwhile."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pellucid.config import DataConfig
from pellucid.data import dataset_cache, journal, prepare, process_map, shards, streamed_inspection
from pellucid.data.dataset_cache import DatasetCache
from pellucid.data.prepare import Corpus, open_corpus, train_tokenizers
from pellucid.data.shards import EncodedCorpus
from pellucid.errors import DataError
from pellucid.files import records

WORDS = ["ein", "hund", "läuft", "Zug", "straße", "it's", "“so”", "dort"]
ODD = ["", "x  y", "FÃ¼r", "a\tb", "zu\u00a0viel", "lost \ufffd", "bell\x07", "e\u0301", 'ein "Wort"', " ", "　"]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a hundred pairs as many as millions are, and what happened just now as old."""
    for module, name, value in (
        (streamed_inspection, "CHUNK", 50), (streamed_inspection, "BLOCK_OF_FILES", 64), (shards, "CHUNK", 50),
        (records, "JUST_NOW", -60.0), (process_map, "available_cores", lambda: 1),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)


def write(folder: Path, name: str = "train", pairs: int = 300, seed: int = 0) -> DataConfig:
    """Two files with all that may be wrong in them, here and there."""
    draw = np.random.default_rng(seed)
    sides: tuple[list[str], list[str]] = [], []
    for _ in range(pairs):
        line = " ".join(draw.choice(WORDS, int(draw.integers(1, 9))))
        odd = ODD[draw.integers(len(ODD))] if draw.random() < 0.1 else ""
        target = line if draw.random() < 0.05 else " ".join(reversed(line.split()))
        sides[0].append(f"{line} {odd}".rstrip(" ") if draw.random() < 0.9 else odd)
        sides[1].append(target)
    for lines in sides:
        lines[7:9] = lines[3:5]
        lines[250:253] = lines[100:103]
    for side, lines in zip(("src", "tgt"), sides, strict=True):
        (folder / f"{name}.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return DataConfig(src=str(folder / f"{name}.src"), tgt=str(folder / f"{name}.tgt"), tokenizer="words", valid_size=9)


def opened(data: DataConfig, folder: Path) -> Corpus:
    corpus = open_corpus(data, prepared=DatasetCache(folder / "prepared"))
    assert isinstance(corpus, Corpus)
    return corpus


def open_plain(data: DataConfig) -> Corpus:
    corpus = open_corpus(data)
    assert isinstance(corpus, Corpus)
    return corpus


def made(corpus: Corpus, run: Path) -> tuple[EncodedCorpus, EncodedCorpus]:
    run.mkdir(parents=True, exist_ok=True)
    texts = prepare.prepare(corpus, train_tokenizers(corpus), run / "data", lambda _: None, resuming=False)
    return texts.train, texts.valid


def files(folder: Path) -> dict[str, bytes]:
    """All files below a folder but those that say when they were written."""
    left_out = {"files.json", "stamps.json", ".lock"}
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*"))
            if p.is_file() and p.name not in left_out}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("fields", [{}, {"on_duplicate": "skip", "on_copy": "skip"}, {"given": True}, {"short": True}])
def test_what_is_kept_is_what_is_found_in_one_stretch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    data = write(tmp_path)
    (more := tmp_path / "more").mkdir()
    second = write(more, seed=1, pairs=260)
    data = replace(data, src=(data.src, second.src), tgt=(data.tgt, second.tgt), test_src=second.src)  # type: ignore[arg-type]
    if fields.pop("given", False):
        valid = write(tmp_path, "valid", seed=2, pairs=254)
        data = replace(data, valid_src=valid.src, valid_tgt=valid.tgt, corpus_weights=(1.0, 2.5))
    short = fields.pop("short", False)
    data = replace(data, **fields)
    with monkeypatch.context() as usual:
        usual.setattr(streamed_inspection, "CHUNK", 20_000)
        usual.setattr(streamed_inspection, "BLOCK_OF_FILES", 1 << 19)
        plain = open_plain(data)
    if short:
        monkeypatch.setattr(streamed_inspection, "CHUNK_CHARACTERS", 100)
    for corpus in (opened(data, tmp_path), opened(data, tmp_path)):  # the second one is read
        assert corpus.inspection.counts == plain.inspection.counts == (300, 260)
        assert corpus.inspection.findings == plain.inspection.findings
        assert corpus.inspection.spellings == plain.inspection.spellings
        assert corpus.used.tolist() == plain.used.tolist()
        assert corpus.valid == plain.valid
        assert list(corpus.train()) == list(plain.train())
        assert list(corpus.train(200)) == list(plain.train())[200:]
        assert corpus.digests == plain.digests
        assert corpus.report() == plain.report()
    one, other = made(plain, tmp_path / "run"), made(opened(data, tmp_path), tmp_path / "run2")
    assert one[0].corpora == other[0].corpora
    in_run = files(tmp_path / "run" / "data")
    kept = next((tmp_path / "prepared").glob("*/ids-*"))
    assert {name: files(kept)[name] for name in in_run} == in_run
    assert (tmp_path / "run" / "corpus.json").read_bytes() == (tmp_path / "run2" / "corpus.json").read_bytes()


def test_a_second_time_no_text_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write(tmp_path)
    first = made(opened(data, tmp_path), tmp_path / "run")

    def unread(*_: object, **__: object) -> Iterator[Any]:
        raise AssertionError("a file was read to its end again")
        yield

    for module, name in ((prepare.ParallelText, "pairs"), (records, "hash_file"), (prepare, "_train_tokenizers")):
        monkeypatch.setattr(module, name, unread)
    again = made(opened(data, tmp_path), tmp_path / "another")
    for one, other in zip(first, again, strict=True):
        assert one.target.ids.tolist() == other.target.ids.tolist()


def test_texts_may_move_and_are_called_as_they_are_now(tmp_path: Path) -> None:
    data = write(tmp_path)
    before = opened(data, tmp_path)
    (elsewhere := tmp_path / "elsewhere").mkdir()
    shutil.copy(data.src, elsewhere)
    shutil.copy(data.tgt, elsewhere)
    moved = replace(data, src=str(elsewhere / "train.src"), tgt=str(elsewhere / "train.tgt"))
    after = opened(moved, tmp_path)
    assert after.kept is not None
    assert before.kept is not None
    assert after.kept.folder == before.kept.folder
    assert str(elsewhere) in after.report()
    assert after.report().replace(str(elsewhere), str(tmp_path)) == before.report()


def test_a_changed_text_is_another_text_and_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    data = write(tmp_path)
    corpus = opened(data, tmp_path)
    assert corpus.kept is not None
    expected = files(corpus.kept.folder)
    mask = corpus.kept.folder / "inspection" / "trained"
    content = bytearray(mask.read_bytes())
    content[5] ^= 1
    mask.write_bytes(bytes(content))
    assert opened(data, tmp_path).used.tolist() == open_plain(data).used.tolist()
    assert files(corpus.kept.folder) == expected
    lines = Path(str(data.src)).read_text(encoding="utf-8").split("\n")
    Path(str(data.src)).write_text("\n".join(["anders", *lines[1:]]), encoding="utf-8")
    assert next(iter(opened(data, tmp_path).train()))[0] == "anders"


def test_a_text_that_is_written_meanwhile_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write(tmp_path)
    look_at = streamed_inspection._look_at

    def growing(*arguments: Any) -> Any:
        with Path(str(data.src)).open("a", encoding="utf-8") as file:
            file.write("noch eine\n")
        return look_at(*arguments)

    monkeypatch.setattr(streamed_inspection, "_look_at", growing)
    with pytest.raises(DataError, match=f"^`{data.src}` changed while it was being read$"):
        opened(data, tmp_path)


def test_unequal_files_are_refused_with_the_place(tmp_path: Path) -> None:
    data = write(tmp_path)
    lines = Path(str(data.tgt)).read_text(encoding="utf-8").splitlines(keepends=True)
    Path(str(data.tgt)).write_text("".join(lines[:120] + lines[121:]), encoding="utf-8")
    with pytest.raises(DataError, match=r"must have the same number of lines, but .*299 and .*300"):
        opened(data, tmp_path)


@pytest.mark.slow
def test_a_full_disk_is_told_and_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write(tmp_path)
    expected = files_of(data, tmp_path / "whole")
    append, left = journal.Journal.append, [25]

    def full(self: journal.Journal, name: str, content: bytes) -> None:
        left[0] -= 1
        append(self, name, content[: len(content) // 2] if not left[0] else content)
        if not left[0]:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal.Journal, "append", full)
    monkeypatch.setattr(journal, "SECONDS", 0.0)
    message = "^cannot write the prepared texts to `.*prepared.*`: No space left on device, .* MB free$"
    with pytest.raises(DataError, match=message) as raised:
        files_of(data, tmp_path)
    assert raised.value.exit_status == 1
    assert "free disk space" in raised.value.hint
    left[0] = 40  # the second time while the ids are written
    with pytest.raises(DataError, match=message):
        files_of(data, tmp_path)
    left[0] = -1
    assert files_of(data, tmp_path) == expected


def files_of(data: DataConfig, folder: Path) -> dict[str, bytes]:
    folder.mkdir(exist_ok=True)
    made(opened(data, folder), folder / "run")
    return files(folder / "prepared")


KILLED = """
import os, sys
from pathlib import Path
from pellucid.config import DataConfig
from pellucid.data import journal, prepare, shards, streamed_inspection
from pellucid.data.dataset_cache import DatasetCache
streamed_inspection.CHUNK = shards.CHUNK = 16
streamed_inspection.BLOCK_OF_FILES = 64
src, tgt, folder, die_at = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
journal.SECONDS = 0.0 if die_at else 5.0
calls = 0
def counting(f):
    def counted(*arguments, **named):
        global calls
        calls += 1
        if calls == die_at:
            os.kill(os.getpid(), 9)
        return f(*arguments, **named)
    return counted
journal.Journal.append = counting(journal.Journal.append)
os.replace, Path.unlink = counting(os.replace), counting(Path.unlink)
data = DataConfig(src=src, tgt=tgt, tokenizer="words", valid_size=9, on_duplicate="skip")
(folder / "run").mkdir(parents=True, exist_ok=True)
corpus = prepare.open_corpus(data, prepared=DatasetCache(folder / "prepared"))
prepare.prepare(corpus, prepare.train_tokenizers(corpus), folder / "run" / "data", str, False)
print("whole", calls)
"""


@pytest.mark.slow
def test_killed_anywhere_it_ends_in_the_same_bytes(tmp_path: Path) -> None:
    data = replace(write(tmp_path), on_duplicate="skip")
    expected = files_of(data, tmp_path / "whole")
    died, step = 0, 5
    for folder in (tmp_path / "killed",):
        for attempt in range(60):
            words = [sys.executable, "-c", KILLED, str(data.src), str(data.tgt), str(folder), str(step + 3 * attempt)]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.stdout.startswith("whole"):
                break
            assert done.returncode == -9, done.stderr
            died += 1
        assert done.stdout.startswith("whole")
        assert died > 5
        assert files(folder / "prepared") == expected


@pytest.mark.slow
def test_two_that_prepare_at_once_do_it_once(tmp_path: Path) -> None:
    data = replace(write(tmp_path, pairs=20_000), on_duplicate="skip")
    words = [sys.executable, "-c", KILLED, str(data.src), str(data.tgt)]
    both = [
        subprocess.Popen([*words, str(tmp_path / "both"), "0"], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    told = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    subprocess.run([*words, str(tmp_path / "alone"), "0"], check=True, stdout=subprocess.DEVNULL)
    assert files(tmp_path / "both" / "prepared") == files(tmp_path / "alone" / "prepared")


def test_it_says_how_far_it_is_and_where_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_map, "BETWEEN", 0.0)
    monkeypatch.setattr(journal, "SECONDS", 0.0)
    data, told = write(tmp_path), list[str]()
    look_at, calls = streamed_inspection._look_at, [0]

    def stopped(*arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] == 4:
            raise KeyboardInterrupt
        return look_at(*arguments)

    monkeypatch.setattr(streamed_inspection, "_look_at", stopped)
    with pytest.raises(KeyboardInterrupt):
        open_corpus(data, prepared=DatasetCache(tmp_path / "prepared", told.append))
    assert told[1:] == ["inspection: 50 pairs", "inspection: 100 pairs", "inspection: 150 pairs"]
    open_corpus(data, prepared=DatasetCache(tmp_path / "prepared", told.append))
    assert told[5:7] == ["inspection: resuming after pair 150", "inspection: 200 pairs"]


def test_whoever_comes_second_says_that_it_waits(tmp_path: Path) -> None:
    told: list[str] = []
    place = DatasetCache(tmp_path, told.append)
    code = (
        "import sys, time; from filelock import FileLock; lock = FileLock(sys.argv[1]); lock.acquire(); "
        "print(1, flush=True); time.sleep(0.3)"
    )
    (tmp_path / "x").mkdir()
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "x" / ".lock")], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with place.lock(tmp_path / "x"):
            assert told == [f"waiting for another process that is preparing these texts in `{tmp_path / 'x'}`"]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 3])
def test_several_processes_write_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    data = replace(write(tmp_path, pairs=400), concatenate=0.1)
    alone = files_of(data, tmp_path / "one")
    monkeypatch.setattr(process_map, "available_cores", lambda: workers)
    monkeypatch.setattr(process_map, "_method", lambda: "spawn")  # a process of pytest may have threads
    used: list[str] = []
    started = process_map.Workers.__init__

    def counted(self: Any, *arguments: Any) -> None:
        used.append("started")
        started(self, *arguments)

    monkeypatch.setattr(process_map.Workers, "__init__", counted)
    assert files_of(data, tmp_path / "several") == alone
    assert len(used) == 2  # the inspection, and the ids


@pytest.mark.slow
def test_a_bound_makes_a_tokenizer_learn_from_a_part_that_follows_from_the_text(tmp_path: Path) -> None:
    data = replace(write(tmp_path, pairs=2000), tokenizer_sample_size=500)
    told: list[str] = []
    plain, kept = open_plain(data), opened(data, tmp_path)
    learned = list(prepare._to_learn_from(plain))
    assert learned == list(prepare._to_learn_from(kept)) == list(prepare._to_learn_from(kept))
    assert 400 < len(learned) < 600
    there = {pair: place for place, pair in enumerate(plain.train())}
    assert sorted(there[pair] * 4 // len(plain) for pair in learned[::100]) != [0] * 5
    tokenizers = train_tokenizers(kept, told.append)
    assert told[0] == f"training the tokenizer on about 500 of the {len(plain):,} pairs"
    assert tokenizers.source.encode("ein hund") == train_tokenizers(plain).source.encode("ein hund")
    corpus = open_plain(replace(data, tokenizer_sample_size=0))
    assert len(list(prepare._to_learn_from(corpus))) == len(corpus)


def test_large_texts_are_kept_in_the_cache_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write(tmp_path)
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    assert DatasetCache.for_settings(data, str) is None
    size = os.stat(str(data.src)).st_size + os.stat(str(data.tgt)).st_size
    monkeypatch.setattr(dataset_cache, "LARGE", size)
    place = DatasetCache.for_settings(data, str)
    assert place is not None
    assert place.folder == tmp_path / "cache" / "prepared"
    named = DatasetCache.for_settings(replace(data, cache_dir=str(tmp_path / "here")), str)
    assert named is not None
    assert named.folder == tmp_path / "here"


def test_a_file_of_just_now_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "JUST_NOW", 60.0)
    (path := tmp_path / "a").write_text("eins\n", encoding="utf-8")
    place = DatasetCache(tmp_path / "prepared")
    first = place.digests([str(path)])
    stamp = os.stat(path)
    path.write_text("zwei\n", encoding="utf-8")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # a clock that is too coarse to tell
    assert place.digests([str(path)]) != first
    old = time.time() - 3600
    os.utime(path, (old, old))
    place.digests([str(path)])
    table = json.loads((tmp_path / "prepared" / "files.json").read_text(encoding="utf-8"))
    assert list(table) == [str(path.resolve())]
