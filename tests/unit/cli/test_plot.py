"""`pellucid plot`: pictures of the parts of a Transformer."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.unit.cli.command_line import CommandLine


def title(path: Path) -> str:
    return ElementTree.parse(path).getroot().findtext("{http://www.w3.org/2000/svg}title", "")


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["masks"], "Masks"),
        (["masks", "--lengths", "4,2,1"], "Masks"),
        (["masks", "--cross"], "Masks"),
        (["masks", "a b", "c", "--cross", "--targets", "3,4"], "Masks"),
        (["schedule", "--set", "train.schedule=noam"], "Learning rate"),
        (["masks", "Ein Hund", "Eine Katze schläft"], "Masks"),
        (["positions", "--length", "8", "--d-model", "6"], "Sinusoidal positions"),
        (["schedule", "dates", "--set", "train.warmup_steps=9"], "Learning rate"),
        (["smoothing", "--label-smoothing", "0.3"], "Label smoothing, 0.3"),
        (["masks", "--title", "Mine", "--width", "column"], "Mine"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_picture_is_drawn(pellucid: CommandLine, tmp_path: Path, arguments: list[str], shown: str) -> None:
    outcome = pellucid("plot", *arguments, "-o", tmp_path / "a.svg")
    assert (outcome.status, outcome.out) == (0, "")
    assert outcome.err == f"drew {shown} in {tmp_path / 'a.svg'}\n"
    assert title(tmp_path / "a.svg") == shown


@pytest.mark.slow
def test_of_a_run(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    for arguments in (
        ["run", finished_run],
        ["schedule", finished_run],
        ["positions", finished_run, "--stack", "decoder"],
    ):
        outcome = pellucid("plot", *arguments, "-o", tmp_path / "a.png", "--scale", "1")
        assert outcome.status == 0, outcome.err
        assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mask", "-o", "a.svg"], "unknown picture `mask`; did you mean `masks`?"),
        (["masks", "-o", "a.pdf"], "`--output a.pdf` must end in one of .svg, .png"),
        (["masks", "--d-model", "8", "-o", "a.svg"], "`--d-model` has no effect with the picture `masks`"),
        (["run", "--set", "a.b=1", "-o", "a.svg"], "`--set` has no effect with the picture `run`"),
        (
            ["masks", "text", "--lengths", "3", "-o", "a.svg"],
            "the picture `masks` takes texts or `--lengths`, not both",
        ),
        (["masks", "--targets", "3,2", "-o", "a.svg"], "`--targets` requires `--cross`"),
        (["masks", "--cross", "--targets", "x", "-o", "a.svg"], "`--targets x` is not a list of whole numbers"),
        (["masks", "--lengths", "3;2", "-o", "a.svg"], "`--lengths 3;2` is not a list of whole numbers"),
        (["masks", "--lengths", "0", "-o", "a.svg"], "`lengths` [0]: 0 must be at least 1"),
        (["smoothing", "x", "-o", "a.svg"], "`x` has no effect with the picture `smoothing`"),
        (["positions", "--stack", "encoder", "-o", "a.svg"], "`--stack` requires a model, and none is given"),
        (
            ["masks", "--width", "wide", "-o", "a.svg"],
            "`width` (wide) must be column, page, or a number of millimetres in 10..2000",
        ),
        (
            ["masks", "--lengths", "5000", "-o", "a.svg"],
            "a sentence of 5,000 tokens is too long for a picture; at most 1,024",
        ),
        (["positions", "--d-model", "0", "-o", "a.svg"], "`d_model` (0) must be even for sinusoidal positions, and at"),
        (["masks", "-o", "none/a.svg"], "cannot write to `none/a.svg`: no folder `"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_drawn(
    pellucid: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = pellucid("plot", *arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.error.startswith(message)
    assert list(tmp_path.iterdir()) == []


def test_of_a_model_the_width_is_its_own(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    outcome = pellucid("plot", "positions", finished_run, "--d-model", "8", "-o", tmp_path / "a.svg")
    assert outcome.error == "`--d-model` is for sinusoids without a model, and a model is given"
