"""`pellucid score`: a number a line."""

import io
import json
import os
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from pellucid.data.chunks import FEWEST
from pellucid.errors import DataError
from pellucid.streams.source import LineSource, PairSource
from pellucid.tasks.translator import Translator
from tests.toy_task import reversed_letters, write_pairs
from tests.unit.cli.command_line import CommandLine

PAIRS = [*reversed_letters(6, seed=9), ("", "a")]


def test_score_prints_a_number_a_line(pellucid: CommandLine, finished_run: Path, texts: tuple[str, str]) -> None:
    outcome = pellucid("score", finished_run, "--src", texts[0], "--tgt", texts[1])
    assert (outcome.status, outcome.err) == (0, "")
    values = Translator.load(finished_run, "cpu").score(*zip(*PAIRS, strict=True))
    assert [float(line) for line in outcome.out.splitlines()] == pytest.approx(values, abs=1e-4)


def test_score_reads_standard_input(
    pellucid: CommandLine, finished_run: Path, texts: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from_files = pellucid("score", finished_run, "--src", texts[0], "--tgt", texts[1])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(texts[1]).read_bytes())))
    assert pellucid("score", finished_run, "--src", texts[0], "--tgt", "-") == from_files


def test_standard_input_cannot_be_both(pellucid: CommandLine, finished_run: Path) -> None:
    outcome = pellucid("score", finished_run, "--src", "-", "--tgt", "-")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.error == "standard input (`-`) can be only one of --src and --tgt"


def test_scores_by_the_token_and_as_the_search_ranks(
    pellucid: CommandLine, finished_run: Path, texts: tuple[str, str]
) -> None:
    translator = Translator.load(finished_run, "cpu")
    sources, targets = zip(*PAIRS, strict=True)
    sums = translator.score(sources, targets)
    lengths = [len(ids) + 1 for ids in translator.tokenizers.target.encode_lines(targets)]
    penalty = translator.decode.length_penalty
    expected = {
        "none": sums,
        "mean": [value / length for value, length in zip(sums, lengths, strict=True)],
        "length": [value / length**penalty for value, length in zip(sums, lengths, strict=True)],
    }
    options = [finished_run, "--src", texts[0], "--tgt", texts[1]]
    for normalize, values in expected.items():
        outcome = pellucid("score", *options, "--length-normalize", normalize)
        assert [float(line) for line in outcome.out.splitlines()] == pytest.approx(values, abs=1e-4)
    rows = [json.loads(line) for line in pellucid("score", *options, "--json").out.splitlines()]
    assert [row["tokens"] for row in rows] == lengths
    for name, normalize in (("score", "none"), ("mean", "mean"), ("length_normalized", "length")):
        assert [row[name] for row in rows] == pytest.approx(expected[normalize], abs=1e-5)
    assert pellucid("score", finished_run, "--src", texts[0], "--ref", texts[1]).status == 0


def test_the_best_found_is_the_best_scored(finished_run: Path) -> None:
    """What the search ranks by is what --length-normalize length tells: the n best come in its order."""
    translator = Translator.load(finished_run, "cpu")
    for source, _ in reversed_letters(4, seed=3):
        found = translator.translate([source], beam_size=4, n_best=4, length_penalty=0.7)[0].alternatives
        scored = translator.score_sequences([source] * len(found), [one.text for one in found])
        assert [one.score for one in scored] == pytest.approx([one.score for one in found], abs=1e-4)
        ranks = [one.score / one.tokens**0.7 for one in scored]
        assert ranks == pytest.approx(sorted(ranks, reverse=True), abs=1e-4)


def test_a_line_that_is_too_long_has_no_score_and_ends_nothing(
    pellucid: CommandLine, finished_run: Path, tmp_path: Path
) -> None:
    translator = Translator.load(finished_run, "cpu")
    room = translator.model.config.max_positions
    long = " ".join("abcdefgh"[i % 8] for i in range(room))
    pairs = [("a b", "b a"), (long, "a"), ("a", long), (long, long), *reversed_letters(3)]
    src, tgt = write_pairs(tmp_path, pairs)
    outcome = pellucid("score", finished_run, "--src", src, "--tgt", tgt)
    values = outcome.out.splitlines()
    assert (outcome.status, values[1:4]) == (0, ["nan"] * 3)
    fitting = [pairs[0], *pairs[4:]]
    assert [float(v) for v in (values[0], *values[4:])] == pytest.approx(
        translator.score(*zip(*fitting, strict=True)), abs=1e-4
    )
    segmenter, decode = translator.segmenter, translator.decode
    limits = segmenter.source_room(decode), segmenter.target_room(decode)
    tokens = [len(side.encode(long)) for side in (translator.tokenizers.source, translator.tokenizers.target)]
    sides = [
        f"its {side} has {count:,} tokens; the model's limit is {limit:,}"
        for side, count, limit in zip(("source", "target"), tokens, limits, strict=True)
    ]
    assert outcome.err.splitlines() == [
        f"warning: line 2 has no score: {sides[0]}",
        f"warning: line 3 has no score: {sides[1]}",
        f"warning: line 4 has no score: {sides[0]} and {sides[1]}",
    ]
    rows = [
        json.loads(line)
        for line in pellucid("score", finished_run, "--src", src, "--tgt", tgt, "--json").out.splitlines()
    ]
    assert (rows[1]["score"], rows[1]["mean"], rows[1]["length_normalized"]) == (None, None, None)
    with pytest.raises(DataError, match="source 2 has"):
        translator.score(*zip(*pairs, strict=True))


def test_many_long_lines_are_counted(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    room = Translator.load(finished_run, "cpu").model.config.max_positions
    src, tgt = write_pairs(tmp_path, [(" ".join("a" * room), "a")] * 12)
    warned = pellucid("score", finished_run, "--src", src, "--tgt", tgt).err.splitlines()
    assert len(warned) == 11
    assert warned[9].startswith("warning: line 10 has no score")
    assert warned[10] == "warning: 12 of 12 lines have no score: they are too long"


def test_scores_come_before_what_is_wrong_further_down(
    pellucid: CommandLine, finished_run: Path, tmp_path: Path
) -> None:
    """The first chunk is printed when the second is read."""
    pairs = reversed_letters(FEWEST + 3)
    for missing in (0, 1):
        sides = [[pair[side] for pair in pairs] for side in (0, 1)]
        sides[missing].pop()
        paths = [tmp_path / f"{missing}.{name}" for name in ("src", "tgt")]
        for path, lines in zip(paths, sides, strict=True):
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        outcome = pellucid("score", finished_run, "--src", paths[0], "--tgt", paths[1])
        assert outcome.status == 2
        assert len(outcome.out.splitlines()) >= FEWEST
        counts = [f"{len(lines):,}" for lines in sides]
        assert outcome.error == (
            f"`{paths[0]}` and `{paths[1]}` must have the same number of lines, but `{paths[0]}` has {counts[0]} "
            f"and `{paths[1]}` {counts[1]}"
        )


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--tgt", "a", "--ref", "b"], "`--ref` and `--tgt` are the same option, and both are given"),
        (["--tgt", "{tgt}", "--length-normalize", "tokens"], "`--length-normalize tokens` is unknown"),
        ([], "the translations are missing: `--tgt FILE`"),
    ],
)
def test_what_cannot_be_scored(
    pellucid: CommandLine, finished_run: Path, texts: tuple[str, str], options: list[str], error: str
) -> None:
    arguments = [option.format(tgt=texts[1]) for option in options]
    outcome = pellucid("score", finished_run, "--src", texts[0], *arguments)
    assert (outcome.status, outcome.out, outcome.error) == (2, "", error)


def test_scores_go_on_where_they_were_stopped(
    pellucid: CommandLine, finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    src, tgt = write_pairs(tmp_path, reversed_letters(150))
    given = ["score", finished_run, "--src", src, "--tgt", tgt]
    expected = pellucid(*given).out
    for bound in ("FEWEST", "MOST"):
        monkeypatch.setattr(f"pellucid.data.chunks.{bound}", 10)
    lines = Path(tgt).read_bytes()
    Path(tgt).write_bytes(lines + b"\xff\n")
    stopped = pellucid(*given, "--output", tmp_path / "out")
    assert stopped.status == 2
    assert "kept 150 lines in " in stopped.err
    Path(tgt).write_bytes(lines)
    assert "resuming after line 150: " in pellucid(*given, "--output", tmp_path / "out").err
    assert (tmp_path / "out").read_text(encoding="utf-8") == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "train.src", "train.tgt"]


@pytest.mark.parametrize("changed", [0, 1])
def test_a_change_on_either_side_begins_anew(
    pellucid: CommandLine, finished_run: Path, tmp_path: Path, changed: int
) -> None:
    sides = write_pairs(tmp_path, reversed_letters(150))
    whole = [Path(side).read_bytes() for side in sides]
    Path(sides[1]).write_bytes(whole[1] + b"\xff\n")
    given = ["score", finished_run, "--src", sides[0], "--tgt", sides[1], "--output", tmp_path / "out"]
    assert pellucid(*given).status == 2
    Path(sides[1]).write_bytes(whole[1])
    Path(sides[changed]).write_bytes(b"h g\n" + whole[changed].partition(b"\n")[2])
    outcome = pellucid(*given)
    assert (outcome.status, "started over: the input differs" in outcome.err) == (0, True)
    assert (tmp_path / "out").read_text(encoding="utf-8") == pellucid(*given[:-2]).out


def test_a_pair_of_which_a_side_is_left_out_has_no_score(
    pellucid: CommandLine, finished_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"a\n\xff\nb\n")
    (tmp_path / "b").write_bytes(b"a\nb\n\xff\n")
    given = ["score", finished_run, "--src", tmp_path / "a", "--tgt", tmp_path / "b", "--on-bad-utf8", "skip"]
    assert pellucid(*given).out.splitlines()[1:] == ["", ""]
    assert pellucid(*given, "--json").out.splitlines()[1:] == ["null", "null"]


@pytest.mark.parametrize("piped", ["src", "tgt"])
def test_a_pipe_that_brings_a_line_has_its_pair(tmp_path: Path, piped: str) -> None:
    """The writer waits for an answer to its first line; were more lines waited for, the first chunk had both."""
    pairs = reversed_letters(2)
    paths = dict(zip(("src", "tgt"), map(Path, write_pairs(tmp_path, pairs)), strict=True))
    lines = paths[piped].read_bytes().splitlines(keepends=True)
    paths[piped].unlink()
    os.mkfifo(paths[piped])
    answered = threading.Event()

    def write() -> None:
        with paths[piped].open("wb", buffering=0) as pipe:
            pipe.write(lines[0])
            answered.wait(20)
            pipe.write(lines[1])

    writer = threading.Thread(target=write)
    writer.start()
    with closing(LineSource(str(paths["src"]))) as source, closing(LineSource(str(paths["tgt"]))) as target:
        both = PairSource(source, target)
        first = both.take(64)
        answered.set()
        assert (first, both.take(64), both.take(64)) == (pairs[:1], pairs[1:], [])
    writer.join()


def test_an_ensemble_gives_the_mean(
    pellucid: CommandLine, finished_run: Path, other_weights: Path, texts: tuple[str, str]
) -> None:
    src, tgt = texts
    alone = [
        [float(line) for line in pellucid("score", folder, "--src", src, "--tgt", tgt).out.split()]
        for folder in (finished_run, other_weights)
    ]
    outcome = pellucid("score", finished_run, "--src", src, "--tgt", tgt, "--ensemble", other_weights)
    wanted = [(a + b) / 2 for a, b in zip(*alone, strict=True)]
    assert [float(line) for line in outcome.out.split()] == pytest.approx(wanted, abs=2e-4)
