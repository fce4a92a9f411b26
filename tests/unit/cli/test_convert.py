"""`pellucid convert`."""

from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.workflow import convert as workflow
from pellucid.workflow.proof import Proof
from tests.unit.cli.command_line import CommandLine
from tests.unit.workflow.tutorial_models import tutorial, write_vocabularies


@pytest.fixture
def vocabularies(tmp_path: Path) -> dict[str, str]:
    """The options that name a tutorial's vocabularies."""
    return write_vocabularies(tmp_path)


@pytest.fixture
def arguments(vocabularies: dict[str, str], tmp_path: Path) -> list[object]:
    """Of a conversion that works, into the folder `out`."""
    torch.save(dict(tutorial("aladdin-persson")[0]), tmp_path / "model.pt")
    lists = ["--src-vocab", vocabularies["src_vocab"], "--tgt-vocab", vocabularies["tgt_vocab"]]
    return ["convert", tmp_path / "model.pt", tmp_path / "out", *lists]


def test_a_state_dict_becomes_a_translator(pellucid: CommandLine, arguments: list[object], tmp_path: Path) -> None:
    done = pellucid(*arguments)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("not compared: ")
    (tmp_path / "in").write_text("a b c\n\nd e\n")
    translated = pellucid("translate", tmp_path / "out", "--input", tmp_path / "in", "--max-length", 5)
    assert translated.status == 0
    assert translated.out.count("\n") == 3
    assert pellucid(*arguments).error.endswith("`out` is there already".replace("out", str(tmp_path / "out")))


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ([], 1),
        (["--from", "aladdin-persson", "--tolerance", "0.5"], 0),
        (["--to", "ct2", "--quantization", "int8"], 0),
        (["--to", "ct2", "--quantization", "int8", "--tolerance", "0.01"], 1),
    ],
)
def test_what_is_not_equal_fails(
    more: list[object], status: int, pellucid: CommandLine, arguments: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the difference was allowed, or is that of a smaller type."""

    def proof(source: Path, folder: Path, kind: str, target: str, compared_on: Any) -> Proof:
        return Proof(compared=True, largest_difference=0.1, tolerance=compared_on.tolerance)

    monkeypatch.setattr(workflow, "_proof", proof)
    monkeypatch.setattr(workflow, "_write", lambda *_: None)
    done = pellucid(*arguments, *more)
    assert done.status == status
    assert ("NOT equal within" in done.out) == ("0.5" not in more)


def test_wrong_arguments(pellucid: CommandLine, arguments: list[object]) -> None:
    assert pellucid(*arguments, "--references", "r.txt").error.startswith("`--references` needs --sentences")
    assert "has no option `--form`; did you mean `--from`" in pellucid(*arguments, "--form", "hf").error
    assert pellucid(*arguments, "--num-heads", 3).error.startswith("`num_heads` (3) must divide the model's width (16)")
