"""`pellucid classify`, and what `evaluate` and `score` say of a classifier."""

import json
import warnings
from pathlib import Path

import pytest

from pellucid.run.run import train
from pellucid.tasks.classifier import Classifier
from tests.other_tasks import CLASSIFY, labelled_letters, small_recipe_for, write_labelled
from tests.unit.cli.command_line import CommandLine


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder."""
    folder = tmp_path_factory.mktemp("classifier")
    recipe = small_recipe_for(CLASSIFY, *write_labelled(folder, labelled_letters(80)), "train.learning_rate=1e-2")
    train(recipe, folder / "run", device="cpu", quiet=True)
    return folder / "run"


def test_as_many_labels_as_lines(classifier: Path, tmp_path: Path, pellucid: CommandLine) -> None:
    texts = [*(text for text, _ in labelled_letters(70, seed=4)), "", "h"]
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    done = pellucid("classify", str(classifier), "--input", str(tmp_path / "in.txt"), "--device", "cpu")
    found = Classifier.load(classifier, "cpu").classify(texts)
    assert done.status == 0
    assert done.out.splitlines() == [one.label for one in found]
    options = ["--json", "--batch-tokens", "10", "--output", str(tmp_path / "out.jsonl")]
    assert pellucid("classify", str(classifier), "--input", str(tmp_path / "in.txt"), *options).out == ""
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["label"] for row in rows] == [one.label for one in found]
    assert rows[3]["probabilities"] == pytest.approx(found[3].probabilities, abs=1e-5)


def test_a_text_that_the_model_does_not_know_is_told_of(
    classifier: Path, tmp_path: Path, pellucid: CommandLine
) -> None:
    (tmp_path / "in.txt").write_text("Ж a\n", encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        done = pellucid("classify", str(classifier), "--input", str(tmp_path / "in.txt"))
    assert done.status == 0
    assert done.err.startswith("warning: 50% of the text (1 of 2 tokens so far) is unknown to the model's vocabulary")


def test_pairs(classifier: Path, tmp_path: Path, pellucid: CommandLine) -> None:
    (tmp_path / "in.txt").write_text("a\tb\nc\n", encoding="utf-8")
    done = pellucid("classify", str(classifier), "--input", str(tmp_path / "in.txt"), "--text-pairs")
    assert done.status == 2
    assert f"line 2 of `{tmp_path / 'in.txt'}` is not a pair: it has 0 tabs" in done.err
    (tmp_path / "in.txt").write_text("a\tb\n", encoding="utf-8")
    done = pellucid("classify", str(classifier), "--input", str(tmp_path / "in.txt"), "--text-pairs")
    assert "text 1 is a pair, but the model has no segments" in done.err


def test_evaluate(classifier: Path, tmp_path: Path, pellucid: CommandLine) -> None:
    rows = labelled_letters(50, seed=6)
    src, ref = write_labelled(tmp_path, rows, "test")
    done = pellucid("evaluate", str(classifier), "--src", src, "--ref", ref, "--json")
    found = Classifier.load(classifier, "cpu").classify([text for text, _ in rows])
    hits = sum(one.label == label for one, (_, label) in zip(found, rows, strict=True))
    scores = json.loads(done.out)
    assert scores["accuracy"] == pytest.approx(2 * hits)
    assert scores["texts"] == 50
    tsv = tmp_path / "test.tsv"
    tsv.write_text("".join(f"{text}\t{label}\n" for text, label in rows), encoding="utf-8")
    assert json.loads(pellucid("evaluate", str(classifier), "--src", str(tsv), "--json").out) == scores
    assert pellucid("evaluate", str(classifier), "--src", str(tsv)).out.startswith("accuracy  ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--src", "{src}"], "the labels of `{src}` are missing: the classifier `{run}` is scored against them"),
        (["--ref", "{src}"], "the text to score `{run}` on is missing: `--src FILE`"),
        (["--src", "{src}", "--ref", "{src}"], "5 labels are unknown to the model: "),
        (
            ["--src", "{src}", "--ref", "{ref}", "--baseline", "x"],
            "`--baseline` is for translators, but `{run}` is not a translator",
        ),
        (["--src", "{src}", "--ref", "{ref}", "--tgt-lang", "de"], "`--tgt-lang` is for translators"),
        (["--src", "{src}", "--ref", "{ref}", "--beam-size", "2"], "`--beam-size` is for translators"),
        (["--src", "{src}", "--ref", "{ref}", "--text", "lines"], "`--text` has no effect on `{run}`, a classifier"),
    ],
)
def test_what_cannot_be_evaluated(
    classifier: Path, tmp_path: Path, pellucid: CommandLine, options: list[str], message: str
) -> None:
    src, ref = write_labelled(tmp_path, labelled_letters(5))
    names = {"run": str(classifier), "src": src, "ref": ref}
    done = pellucid("evaluate", str(classifier), *(option.format(**names) for option in options))
    assert done.status == 2
    assert message.format(**names) in done.err


def test_a_classifier_gives_no_texts_a_score(classifier: Path, pellucid: CommandLine) -> None:
    done = pellucid("score", str(classifier), "--src", "x")
    assert (done.status, f"`{classifier}` is a classifier, which cannot score texts" in done.err) == (2, True)
    done = pellucid("translate", str(classifier))
    assert f"`{classifier}` holds a classifier, not a translator" in done.err
