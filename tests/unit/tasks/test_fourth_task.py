"""One task more touches the table and one module: a masked language model, which fills in the letters left out."""

import io
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

import pytest
import torch

import pellucid
from pellucid.config import TASKS, ModelConfig, Task
from pellucid.data.labels import classifier_input
from pellucid.errors import CheckpointError, ConfigError
from pellucid.evaluation.label_scores import LabelScores, score_labels
from pellucid.model.families import EncoderOnly
from pellucid.tasks.task import TextModel, detect_task, open_task
from pellucid.tasks.tracing import trace_text
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary
from pellucid.tracing.trace import Trace
from pellucid.weights.folder import SavedModel
from tests.unit.cli.command_line import CommandLine
from tests.unit.tracing.models import shaken

FILL = Task(
    name="fill",
    noun="a masked language model",
    family="encoder",
    home=__name__,
    class_name="Filler",
    method="fill",
    use="the class Filler",
    targets="texts",
    pipeline_tag="fill-mask",
)
GAP = "_"
LETTERS = Vocabulary("characters", tuple(f"abcdefgh{GAP}"))
PAIR = TokenizerPair(LETTERS, LETTERS)
LINES = ["ab_d", "", "_bcde_gh", "abc"]


class Filler(TextModel[EncoderOnly]):
    """An encoder whose states, multiplied with its embedding, tell what stands at each place."""

    task = FILL

    @classmethod
    def _from_saved(cls, saved: SavedModel, tokenizers: TokenizerPair) -> Self:
        assert isinstance(saved.model, EncoderOnly)
        return cls(saved.model, tokenizers, saved.decode)

    @torch.inference_mode()
    def fill(self, lines: Sequence[str]) -> list[str]:
        """Returns each line with the most probable letter in each gap."""
        return [self._filled(line) for line in lines]

    def _filled(self, line: str) -> str:
        ids = torch.tensor([classifier_input(LETTERS.encode(line), self.model.config, None)], device=self.device)
        logits = (self.model(ids) @ self.model.src_embedding.tokens.weight.T)[0]  # (S, V)
        letters = LETTERS.encode("abcdefgh")
        best = [letters[row[letters].argmax()] for row in logits[1 : 1 + len(line)]]
        return "".join(LETTERS.decode([new]) if old == GAP else old for old, new in zip(line, best, strict=True))

    def process_lines(self, lines: Sequence[str], place: int) -> list[str]:
        return self.fill(lines)

    def stream(self, lines: Iterable[str]) -> Iterator[str]:
        return super().stream(lines)

    def evaluate(self, lines: Sequence[str], whole: Sequence[str]) -> LabelScores:
        return score_labels(self.fill(lines), whole)

    def trace(self, text: str) -> Trace:
        return trace_text(self.model, LETTERS, text)


@pytest.fixture(autouse=True)
def _in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, "fill", FILL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a saved one."""
    torch.manual_seed(2)
    config = ModelConfig.encoder(vocab_size=LETTERS.size, num_layers=2, d_model=16, d_ff=16, num_heads=2)
    model = shaken(EncoderOnly(config))
    assert isinstance(model, EncoderOnly)
    Filler(model, PAIR).save(tmp_path / "filler")
    return tmp_path / "filler"


def test_it_is_saved_and_loaded(folder: Path) -> None:
    filler = Filler.load(folder, "cpu")
    assert json.loads((folder / "pellucid.json").read_text(encoding="utf-8"))["task"] == "fill"
    assert "# A masked language model\n" in (folder / "README.md").read_text(encoding="utf-8")
    assert "pipeline_tag: fill-mask\n" in (folder / "README.md").read_text(encoding="utf-8")
    assert (detect_task(folder), type(open_task(folder, "cpu"))) == (FILL, Filler)
    found = filler.fill(LINES)
    assert [len(line) for line in found] == [len(line) for line in LINES]
    assert GAP not in "".join(found)
    assert found[3] == "abc"
    assert repr(filler).startswith("Filler(EncoderOnly of 2 layers, d_model 16, ")


def test_a_stream_and_a_score(folder: Path) -> None:
    filler = Filler.load(folder, "cpu")
    found = filler.fill(LINES)
    assert list(filler.stream(iter(LINES))) == found
    assert pellucid.evaluate(folder, LINES, found).accuracy == 100
    assert pellucid.evaluate(filler, LINES, [*found[:3], "x"]).accuracy == 75
    with pytest.raises(ConfigError, match=r"^`targets` are missing: a masked language model is scored against texts$"):
        pellucid.evaluate(folder, LINES)


def test_the_verbs_know_it(folder: Path, pellucid_: CommandLine, tmp_path: Path) -> None:
    described = pellucid_("info", folder)
    assert (described.status, described.err) == (0, "")
    assert "task        fill: a masked language model\n" in described.out
    assert pellucid_("info", folder, "--shapes", "abcd").out.startswith("ids ")
    drawn = pellucid_("inspect", folder, "abcd", "-o", tmp_path / "a.trace")
    assert drawn.status == 0
    assert pellucid.load_trace(tmp_path / "a.trace").sequences["src"][1].text == "a"
    (tmp_path / "gaps").write_text("ab_d\nabc\n", encoding="utf-8")
    (tmp_path / "whole").write_text("\n".join(Filler.load(folder, "cpu").fill(["ab_d", "abc"])), encoding="utf-8")
    given = ("evaluate", folder, "--src", tmp_path / "gaps", "--ref", tmp_path / "whole")
    assert json.loads(pellucid_(*given, "--json").out)["accuracy"] == 100
    assert (
        pellucid_(*given, "--beam-size", 2).error
        == f"`--beam-size` is for translators, but `{folder}` is not a translator"
    )
    missing = pellucid_(*given[:4])
    gaps, scored = tmp_path / "gaps", f"the masked language model `{folder}` is scored against them"
    assert missing.error == f"the texts of `{gaps}` are missing: {scored}"


def test_other_tasks_say_what_it_is(folder: Path, pellucid_: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckpointError, match=r"holds a masked language model, not a translator$") as caught:
        pellucid.Translator.load(folder)
    assert caught.value.hint == "use the class Filler"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n")))
    refused = pellucid_("classify", folder)
    assert refused.error == f"`{folder}` holds a masked language model, not a classifier"
    assert pellucid_("score", folder, "--src", "x").error.endswith(
        "is a masked language model, which cannot score texts"
    )


def test_without_its_record_the_folder_is_of_another_version(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(TASKS, "fill")
    with pytest.raises(CheckpointError, match="has format 'pellucid/2' and task 'fill'; this version supports"):
        open_task(folder)


@pytest.fixture
def pellucid_(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line."""
    return CommandLine(capsys)
