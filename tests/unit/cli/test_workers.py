"""`--workers`: several processes write what one writes, and fail as one fails."""

import random
from pathlib import Path

import pytest

from pellucid import Classifier, LanguageModel, ModelConfig
from pellucid.model.families import DecoderOnly, SequenceClassifier
from pellucid.text.vocabulary import Vocabulary
from tests.processes import run_python
from tests.unit.cli.command_line import CommandLine

chance = random.Random(3)
LINES = [" ".join(chance.choices("abcdefgh", k=chance.randint(0, 9))) for _ in range(230)]


def command(run: Path, folder: Path, *options: object) -> list[object]:
    (folder / "in").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return ["translate", run, "--input", folder / "in", "--device", "cpu", "--threads", "1", *options]


@pytest.mark.parametrize(
    ("options", "different"),
    [(("--beam-size", "2"), 2), pytest.param(("--sample", "--seed", "4"), 100, marks=pytest.mark.slow)],
)
def test_they_write_what_one_process_writes(
    pellucid: CommandLine, finished_run: Path, tmp_path: Path, options: tuple[str, ...], different: int
) -> None:
    words = command(finished_run, tmp_path, *options)
    one, two = pellucid(*words), run_python("-m", "pellucid", *words, "--workers", 2)
    assert (two.returncode, two.stderr) == (0, one.err)
    assert two.stdout == one.out
    assert len(set(one.out.splitlines())) > different


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        pytest.param("classify", (), marks=pytest.mark.slow),
        ("generate", ("--temperature", "1", "--seed", "3", "--max-new-tokens", "8")),
    ],
)
def test_so_do_those_that_classify_and_write_on(
    pellucid: CommandLine, tmp_path: Path, verb: str, options: tuple[str, ...]
) -> None:
    letters = Vocabulary("characters", tuple("abcdefgh "))
    sizes = {"d_model": 16, "d_ff": 16, "num_heads": 2, "num_layers": 1}
    if verb == "classify":
        encoder = ModelConfig.encoder(vocab_size=letters.size, num_classes=2, **sizes)
        Classifier(SequenceClassifier(encoder), letters, ["x", "y"]).save(tmp_path / "model")
    else:
        LanguageModel(DecoderOnly(ModelConfig.decoder(vocab_size=letters.size, **sizes)), letters).save(
            tmp_path / "model"
        )
    (tmp_path / "in").write_text("".join(f"a{line}\n" for line in LINES), encoding="utf-8")
    words = [verb, tmp_path / "model", "--input", tmp_path / "in", "--device", "cpu", "--threads", "1", *options]
    one, two = pellucid(*words), run_python("-m", "pellucid", *words, "--workers", 2)
    assert (two.returncode, two.stderr, two.stdout) == (0, one.err, one.out)
    assert len(one.out.splitlines()) == len(LINES)


@pytest.mark.slow
def test_an_output_that_was_stopped_goes_on_with_other_workers(
    pellucid: CommandLine, finished_run: Path, tmp_path: Path
) -> None:
    words = command(finished_run, tmp_path, "--beam-size", "1", "--output", tmp_path / "out")
    whole = (tmp_path / "in").read_bytes()
    (tmp_path / "in").write_bytes(whole[:-2] + b"\xe4\n")
    stopped = run_python("-m", "pellucid", *words, "--workers", 2)
    assert (stopped.returncode, stopped.stdout) == (2, "")
    lines = stopped.stderr.splitlines()
    assert lines[0].startswith("kept ")
    assert lines[1].startswith(f"error: `{tmp_path / 'in'}` is not UTF-8: line 230, byte ")
    (tmp_path / "in").write_bytes(whole)
    finished = pellucid(*words)
    assert finished.err.startswith(f"resuming after line {lines[0].split()[1]}: ")
    assert pellucid(*words, "--output", tmp_path / "again").status == 0
    assert (tmp_path / "out").read_bytes() == (tmp_path / "again").read_bytes()


@pytest.mark.parametrize("verb", ["translate", "classify", "generate"])
@pytest.mark.parametrize("option", ["--workers", "--threads"])
def test_none_is_too_few(pellucid: CommandLine, finished_run: Path, verb: str, option: str) -> None:
    outcome = pellucid(verb, finished_run, "a", option, 0)
    assert (outcome.status, outcome.err) == (2, f"error: `{option} 0` must be at least 1\n")
