"""`pellucid augment`: pairs and a recipe in one command, and what is said of what cannot work."""

import gzip
import io
import re
from pathlib import Path
from typing import Any

import pytest

from pellucid.tasks.translator import Translator
from tests.toy_task import SMALL, reversed_letters, write_pairs
from tests.unit.cli.command_line import CommandLine

LOOSE = ("--drop-worst", "0", "--length-ratio", "100", "--keep-copies", "--drop-flagged", "mismatch", "--device", "cpu")


@pytest.fixture(autouse=True)
def _in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PELLUCID_DATA", raising=False)
    lines = [source for source, _ in reversed_letters(14, seed=3)]
    Path("mono").write_text("".join(f"{line}\n" for line in lines))
    write_pairs(tmp_path, reversed_letters(60))
    write_pairs(tmp_path, reversed_letters(6, seed=9), "valid")


@pytest.mark.slow
def test_what_is_made_is_trained_on_at_once(pellucid: CommandLine, finished_run: Path) -> None:
    """The printed part is a recipe by itself, and so is the file; the tag stays whole."""
    texts = ["--src", "train.src", "--tgt", "train.tgt", "--valid-src", "valid.src", "--valid-tgt", "valid.tgt"]
    Path("d.tsv").write_text("a\tb\nxyz\tzyx\n", encoding="utf-8")
    options = [*texts, *LOOSE, "--noise", "--dictionary", "d.tsv", "--rare-below", "2"]
    made = pellucid("augment", finished_run, "--input", "mono", "--out", "c", *options)
    assert made.status == 0, made.err
    assert Path("c/dictionary.src").read_text(encoding="utf-8") == "xyz\n"
    assert made.err.endswith("to train on real and synthetic data: pellucid train c/recipe.toml --out RUN\n")
    assert re.search(r"corpus: \d+ pairs, sources in `c/train.src` \(the model's\), targets in `c/train.tgt`", made.err)
    Path("pasted.toml").write_text(made.out)
    small = [part for each in (*SMALL[1:], "train.steps=1", "data.vocab_size=300") for part in ("--set", each)]
    trained = pellucid("train", "pasted.toml", "--out", "run", "--device", "cpu", *small, "--set", "data.tokenizer=bpe")
    assert trained.status == 0, trained.err
    tokenizer = Translator.load("run", "cpu").tokenizers.source
    ids = tokenizer.encode("<bt> <blank> a")
    assert {"<bt>", "<blank>"} <= {token.strip("\u2581") for token in tokenizer.tokens(ids)}
    steps = ["--set", "train.steps=1", "--set", "train.average=1"]
    again = pellucid("train", "c/recipe.toml", "--out", "run-2", "--device", "cpu", *steps)
    assert again.status == 0, again.err


@pytest.mark.slow
def test_lines_may_come_packed_and_by_a_pipe(
    pellucid: CommandLine, finished_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["augment", finished_run, "--sample", "--num-samples", "2", "--temperature", "0.9", *LOOSE]
    assert pellucid(*command, "--input", "mono", "--out", "plain").status == 0
    packed = io.BytesIO(gzip.compress(Path("mono").read_bytes()))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(packed))
    assert pellucid(*command, "--input", "-", "--out", "piped").status == 0
    made = [
        [(Path(folder) / side).read_bytes() for side in ("train.src", "train.tgt")] for folder in ("plain", "piped")
    ]
    assert made[0] == made[1]
    again = pellucid(*command, "--input", "mono", "--out", "plain")
    assert (again.status, "pairs of these lines" in again.err, "translates" in again.err) == (0, True, False)
    other = pellucid(*command, "--input", "mono", "--out", "plain", "--seed", "2")
    assert other.status == 2
    assert "the corpus in `plain` was made with `--seed 1`, this command has `--seed 2`" in other.err
    assert "choose another `--out`, or replace it with `--fresh`" in other.err


@pytest.mark.slow
def test_draws_are_those_that_translate_draws(pellucid: CommandLine, finished_run: Path) -> None:
    pellucid("augment", finished_run, "--input", "mono", "--out", "c", "--sample", "--seed", "4", "--tag", "", *LOOSE)
    drawn = pellucid("translate", finished_run, "--input", "mono", "--sample", "--seed", "4", "--device", "cpu")
    lines = Path("mono").read_text().splitlines()
    pairs = [(text.strip(), line) for text, line in zip(drawn.out.splitlines(), lines, strict=True) if text.strip()]
    left = {line.strip() for line in Path("c/valid.tgt").read_text().splitlines()}
    sides = [Path(f"c/train.{side}").read_text().splitlines() for side in ("src", "tgt")]
    assert list(zip(*sides, strict=True)) == [pair for pair in pairs if pair[1] not in left]


class Stop(BaseException):
    """What stops a command, as a signal does."""


@pytest.mark.slow
def test_rounds_stopped_and_gone_on_with(
    pellucid: CommandLine, finished_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes of it is bit for bit what comes of rounds that nothing stopped."""
    texts = ["--input", "mono", "--reverse-input", "mono", "--rounds", "2", "--set", "train.steps=4", *LOOSE]
    whole = pellucid("augment", finished_run, "--out", "whole", *texts)
    assert whole.status == 0, whole.err
    head, first, second = (line.split("\t") for line in whole.out.splitlines())
    assert head == ["round", "pairs", "valid_bleu", "run"]
    assert (first[3], second[3]) == ("whole/round-1/run", "whole/round-2/run")
    assert whole.err.splitlines()[-1].startswith("the best model is in whole/round-")
    translate, calls = Translator.translate, list[int]()

    def stopping(self: Translator, *given: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == stop_at:
            raise Stop
        return translate(self, *given, **options)

    monkeypatch.setattr(Translator, "translate", stopping)
    for stop_at in (1, 4, 0):
        calls.clear()
        try:
            stopped = pellucid("augment", finished_run, "--out", "c", *texts)
        except Stop:
            assert stop_at
    assert stopped.out == whole.out.replace("whole", "c")
    for name in ("round-1/run", "round-1/other-run", "round-2/run"):
        weights = [(Path(folder) / name / "model.safetensors").read_bytes() for folder in ("whole", "c")]
        assert weights[0] == weights[1], name
    calls.clear()
    again = pellucid("augment", finished_run, "--out", "c", *texts)
    assert (again.out, calls) == (stopped.out, [])
    longer = pellucid("augment", finished_run, "--out", "c", *texts, "--set", "train.seed=2")
    assert "the rounds in `c` were made with `--set " in longer.err


@pytest.mark.parametrize(
    ("options", "error", "hint"),
    [
        (["--out", ""], "--out is missing", "name the folder for the pairs"),
        (["--input", ""], "`--input` is not given", "name the monolingual text"),
        (["--input", "none"], "no file `none`", "check the path"),
        (["--num-samples", "2"], "`--num-samples` requires `--sample`", "add `--sample`"),
        (
            ["--sample", "--beam-size", "2"],
            "`--beam-size` cannot be combined with `--sample`",
            "leave `--beam-size` out",
        ),
        (["--sample", "--num-samples", "0"], "`--num-samples 0` must be from 1 to 1,024", "1 to 4 are usual"),
        (["--drop-words", "1"], "`--drop-words 1.0` must be at least 0 and below 1", "use a probability"),
        (["--drop-flagged", "lop"], "`--drop-flagged lop` is unknown; did you mean `loop`?", "choose from loop, copy"),
        (["--tag", "b t"], "`--tag b t` is not a symbol", "write it like <bt>"),
        (["--direction", "forward", "--add-copies"], "`add_copies` is for synthetic sources", "leave it out"),
        (
            ["--recipe", "sst2"],
            'augmentation trains a translator, but the recipe has `task = "classify"`',
            "name another",
        ),
        (["--out", "mono"], "`mono` is a file, not a folder", "choose another `--out`"),
        (["--rounds", "2"], "`--rounds 2` requires text of the other language, too", "name it with `--reverse-input`"),
        (["--rare-below", "5"], "`--rare-below 5` requires --dictionary", "add --dictionary"),
        (
            ["--input", "-", "--dictionary", "-"],
            "standard input (`-`) can be only one of --input and",
            "name a file for the other",
        ),
        (["--dictionary", "none.tsv"], "no file `none.tsv`", "check the path"),
        (
            ["--dictionary", "d.tsv", "--rounds", "1"],
            "`--dictionary d.tsv` is for one direction, but --rounds",
            "--src",
        ),
        (["--budget", "5m"], "`--budget 5m` requires --rounds", "add --rounds, which also trains"),
        (["--n-best", "9"], "`n_best` (9) cannot exceed `beam_size` (2)", "use a beam of at least 9"),
    ],
)
def test_what_cannot_work_is_said_first(
    pellucid: CommandLine, finished_run: Path, options: list[str], error: str, hint: str
) -> None:
    before = sorted(path.name for path in Path().iterdir())
    outcome = pellucid("augment", finished_run, "--input", "mono", "--out", "c", "--device", "cpu", *options)
    assert outcome.status == 2
    assert f"error: {error}" in outcome.err
    assert hint in outcome.err
    assert sorted(path.name for path in Path().iterdir()) == before


def test_no_model(pellucid: CommandLine) -> None:
    outcome = pellucid("augment", "nowhere", "--input", "mono", "--out", "c")
    assert (outcome.status, outcome.error) == (2, "`nowhere` is not a model folder: it does not exist")
    assert not Path("c").exists()
