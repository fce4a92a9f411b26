"""`pellucid heads`: what it prints and writes for translators, classifiers and language models."""

import json
from pathlib import Path

import pytest

from pellucid.analysis.ablation import Head, disable_heads
from pellucid.config import DecodeConfig, ModelConfig
from pellucid.model.families import EncoderOnly
from pellucid.run.run import train
from pellucid.tasks.classifier import Classifier
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.task import open_model
from pellucid.tasks.translator import Translator
from pellucid.weights.folder import save_description, save_weights
from tests.other_tasks import (
    CLASSIFY,
    GENERATE,
    RUNNING,
    labelled_letters,
    small_recipe_for,
    write_alphabet,
    write_labelled,
)
from tests.toy_task import reversed_letters, write_pairs
from tests.unit.cli.command_line import CommandLine

PAIRS = reversed_letters(12, seed=9)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classifier")
    train(small_recipe_for(CLASSIFY, *write_labelled(folder, labelled_letters(80))), folder / "run", quiet=True)
    return folder / "run"


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("language_model")
    train(small_recipe_for(GENERATE, write_alphabet(folder), ""), folder / "run", quiet=True)
    return folder / "run"


def test_statistics_are_a_row_a_head(
    pellucid: CommandLine, finished_run: Path, texts: tuple[str, str], tmp_path: Path
) -> None:
    found = pellucid("heads", finished_run, "--src", texts[0], "--tgt", texts[1], "-o", tmp_path / "heads.json")
    assert found.status == 0
    lines = found.out.splitlines()
    assert lines[0].split() == ["head", "entropy", "distance", "diagonality", "previous", "sink"]
    assert [line[:27].split(" layer ")[0] for line in lines[1:-1]] == [
        "encoder.self", "encoder.self", "decoder.self", "decoder.self", "cross", "cross",
    ]  # fmt: skip
    assert lines[-1] == f"means over 12 sentences of `{texts[0]}`"
    table = json.loads((tmp_path / "heads.json").read_text(encoding="utf-8"))
    assert table["sentences"] == 12
    assert f"{table['statistics']['cross']['entropy'][0][1]:.3f}" == lines[6].split()[5]


@pytest.mark.slow
def test_ablation_of_a_translator_reports_loss_and_bleu(
    pellucid: CommandLine, finished_run: Path, texts: tuple[str, str], tmp_path: Path
) -> None:
    options = ["--src", texts[0], "--tgt", texts[1], "-o", tmp_path / "ablation.json"]
    found = pellucid("heads", finished_run, "--ablate", *options)
    assert found.status == 0
    lines = found.out.splitlines()
    assert lines[0].split() == [
        "without",
        "loss",
        "change",
        "95",
        "%",
        "interval",
        "BLEU",
        "change",
        "95",
        "%",
        "interval",
    ]
    assert len(lines) == 2 + 6 + 2
    table = json.loads((tmp_path / "ablation.json").read_text(encoding="utf-8"))
    translator, (sources, targets) = Translator.load(finished_run, "cpu"), zip(*PAIRS, strict=True)
    tokens = sum(len(target.split()) + 1 for target in targets)
    assert table["whole"]["loss"] == pytest.approx(-sum(translator.score(sources, targets)) / tokens)
    with disable_heads(translator.model, Head("cross", 0, 1)):
        without = -sum(translator.score(sources, targets)) / tokens
    row = next(row for row in table["heads"] if (row["attention"], row["head"]) == ("cross", 1))
    assert row["loss"]["score"] == pytest.approx(without)
    assert row["loss"]["interval"][0] <= row["loss"]["change"] <= row["loss"]["interval"][1]
    changes = [float(line[40:50]) for line in lines[2:-2]]
    assert changes == sorted(changes, reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--ablate"]], ids=["statistics", "ablation"])
def test_a_page_with_the_model_view(
    pellucid: CommandLine, finished_run: Path, texts: tuple[str, str], tmp_path: Path, options: list[str]
) -> None:
    page = tmp_path / "heads.html"
    found = pellucid(
        "heads", finished_run, *options, "--src", texts[0], "--tgt", texts[1], "--sentences", "2", "-o", page
    )
    assert found.status == 0
    assert page.read_text(encoding="utf-8").lower().startswith("<!doctype html>")


@pytest.mark.slow
def test_one_metric_and_fewer_sentences(pellucid: CommandLine, finished_run: Path, texts: tuple[str, str]) -> None:
    options = ["--src", texts[0], "--tgt", texts[1], "--metric", "bleu", "--sentences", "5"]
    found = pellucid("heads", finished_run, "--ablate", *options)
    assert "loss" not in found.out
    assert found.out.splitlines()[-2].startswith("5 sentences of")


def test_the_texts_of_the_run_itself(pellucid: CommandLine, finished_run: Path) -> None:
    found = pellucid("heads", finished_run, "--sentences", "3")
    assert found.out.splitlines()[-1] == "means over 3 sentences of the run's validation set"


def test_what_is_too_long_is_left_out_and_told(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    long = " ".join("a" * 600)
    src, tgt = write_pairs(tmp_path, [*PAIRS, (long, "a")], "long")
    found = pellucid("heads", finished_run, "--src", src, "--tgt", tgt)
    assert found.out.splitlines()[-1].endswith("; 1 that are too long for the model are skipped")
    src, tgt = write_pairs(tmp_path, [(long, "a"), (long, "b")], "all")
    refused = pellucid("heads", finished_run, "--src", src, "--tgt", tgt)
    assert refused.status == 2
    assert "tokens" in refused.error


def test_passages_of_a_running_text_are_cut_to_the_positions(pellucid: CommandLine, tmp_path: Path) -> None:
    src, settings = write_alphabet(tmp_path), ("model.max_positions=20", "train.steps=2")
    train(small_recipe_for(RUNNING, src, "", *settings), tmp_path / "run", quiet=True)
    found = pellucid("heads", tmp_path / "run", "--src", src, "--sentences", "3")
    assert found.out.splitlines()[-1] == f"means over 3 sentences of `{src}`"
    ablated = pellucid("heads", tmp_path / "run", "--src", src, "--ablate", "--sentences", "3")
    assert ablated.out.splitlines()[0].split()[:2] == ["without", "loss"]


def test_a_classifier(pellucid: CommandLine, classifier: Path, tmp_path: Path) -> None:
    rows = labelled_letters(30, seed=6)
    src, tgt = write_labelled(tmp_path, rows, "test")
    found = pellucid("heads", classifier, "--ablate", "--src", src, "--tgt", tgt, "-o", tmp_path / "x.json")
    assert found.out.split()[:6] == ["without", "loss", "change", "95", "%", "interval"]
    labels = [one.label for one in Classifier.load(classifier, "cpu").classify([text for text, _ in rows])]
    right = sum(label == gold for label, (_, gold) in zip(labels, rows, strict=True))
    table = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))
    assert table["whole"]["accuracy"] == pytest.approx(100 * right / 30)
    tsv = tmp_path / "test.tsv"
    tsv.write_text("".join(f"{text}\t{label}\n" for text, label in rows), encoding="utf-8")
    again = pellucid("heads", classifier, "--ablate", "--src", tsv)
    assert again.out.splitlines()[1:-2] == found.out.splitlines()[1:-2]
    assert pellucid("heads", classifier, "--src", tsv).status == 0


def test_a_language_model(pellucid: CommandLine, language_model: Path, tmp_path: Path) -> None:
    src = write_alphabet(tmp_path)
    found = pellucid("heads", language_model, "--ablate", "--src", src, "--sentences", "20", "-o", tmp_path / "x.json")
    assert found.status == 0
    lines = Path(src).read_text(encoding="utf-8").splitlines()
    assert len(lines) >= 20
    table = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))
    assert set(table["whole"]) == {"loss"}
    with disable_heads(model := LanguageModel.load(language_model, "cpu").model, Head("decoder.self", 0, 0)):
        assert model is not None
    assert pellucid("heads", language_model, "--sentences", "2").status == 0
    refused = pellucid("heads", language_model, "--src", src, "--tgt", src)
    assert refused.error == f"the model uses `--src` alone, not `--tgt {src}`"


def test_an_encoder_without_a_head(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    saved = open_model(finished_run)
    assert saved.tokenizers is not None
    config = ModelConfig.encoder(vocab_size=saved.tokenizers.source.size, num_layers=1, d_model=8, d_ff=8, num_heads=2)
    save_description(tmp_path, config, saved.tokenizers, DecodeConfig(), "")
    save_weights(tmp_path, EncoderOnly(config))
    (tmp_path / "texts").write_text("a b c\nd e\n", encoding="utf-8")
    found = pellucid("heads", tmp_path, "--src", tmp_path / "texts")
    assert found.status == 0
    assert len(found.out.splitlines()) == 1 + 2 + 1
    refused = pellucid("heads", tmp_path, "--src", tmp_path / "texts", "--ablate")
    assert refused.error == "an encoder without a head has no task to evaluate its heads with"
    assert pellucid("heads", tmp_path).error == f"`{tmp_path}` has no texts"


def test_what_it_cannot_do(
    pellucid: CommandLine, finished_run: Path, classifier: Path, texts: tuple[str, str], tmp_path: Path
) -> None:
    def error(*arguments: object) -> str:
        found = pellucid("heads", *arguments)
        assert found.status == 2
        return found.error

    src, tgt = texts
    assert error(finished_run, "-o", "heads.txt") == "`heads.txt` must end in one of .json, .html"
    assert error(finished_run, "--src", src) == f"the translations of `{src}` are not given"
    assert error(classifier, "--src", src) == f"the labels of `{src}` are not given"
    assert error(finished_run, "--tgt", tgt) == f"`--tgt {tgt}` is given without `--src`"
    assert error(finished_run, "-o", tmp_path / "none" / "a.html").startswith(f"cannot write to `{tmp_path}/none/a")
    assert error(finished_run, "--metric", "loss") == "`--metric loss` requires `--ablate`"
    assert error(finished_run, "--sentences", "1") == "`--sentences 1` must be at least 2"
    wrong = error(finished_run, "--ablate", "--metric", "accuracy", "--src", src, "--tgt", tgt)
    assert wrong == "`--metric accuracy` cannot be measured for this model"
    assert error(classifier, "--ablate", "--src", src, "--tgt", tgt).startswith("10 labels are unknown to the model: ")
    (tmp_path / "empty").write_text("\n", encoding="utf-8")
    assert error(finished_run, "--src", tmp_path / "empty", "--tgt", tmp_path / "empty").startswith(
        "there is no text in"
    )
