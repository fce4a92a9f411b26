"""`pellucid fit-reranker`: what it writes is what `translate --rerank` goes by."""

import json
import shutil
from pathlib import Path

import pytest

from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.reranking import Reranker
from pellucid.tasks.translator import Translator
from pellucid.text.vocabulary import Vocabulary
from tests.toy_task import reversed_letters, write_pairs
from tests.unit.cli.command_line import CommandLine
from tests.unit.decoding.models import random_decoder

LINES = ["a b c", "h g", "", "d e f a", "c c"]


@pytest.fixture
def english(tmp_path: Path) -> Path:
    """A language model with a custom tokenizer."""
    letters = Vocabulary("characters", tuple("hgfedcba "), byte_fallback=False)
    LanguageModel(random_decoder(3, letters.size, max_positions=64), letters).save(tmp_path / "lm")
    return tmp_path / "lm"


@pytest.mark.slow
def test_translate_goes_by_it(
    pellucid: CommandLine, finished_run: Path, other_weights: Path, english: Path, tmp_path: Path
) -> None:
    reverse = shutil.copytree(other_weights, tmp_path / "reverse")
    src, tgt = write_pairs(tmp_path, reversed_letters(12, seed=9), "valid")
    path = tmp_path / "rerank.json"
    models = ["--reverse", reverse, "--lm", english]
    outcome = pellucid(
        "fit-reranker",
        finished_run,
        *models,
        "--src",
        src,
        "--tgt",
        tgt,
        "--out",
        path,
        "--n-best",
        "4",
        "--device",
        "cpu",
    )
    assert (outcome.status, outcome.err) == (0, "")
    table = json.loads(path.read_text(encoding="utf-8"))
    first, second, third = outcome.out.splitlines()
    assert first.startswith(f"12 lines, 4 best each: BLEU {table['fit']['bleu']:.2f}, before ")
    assert second == ", ".join(f"{name} {value:g}" for name, value in table["factors"].items())
    assert third == str(path)
    assert (table["reverse"]["model"], table["lm"]["model"]) == ("reverse", "lm")
    table["factors"] = {"reverse": 5.0, "lm": 3.0, "length": 0.2}  # it may be edited
    path.write_text(json.dumps(table), encoding="utf-8")
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    found = [
        pellucid("translate", finished_run, "--input", tmp_path / "in", "--rerank", path, "--device", "cpu", *more).out
        for more in ([], ["--workers", "2"], ["--batch-tokens", "20"])
    ]
    translator = Translator.load(finished_run, "cpu")
    assert found == ["".join(f"{t.text}\n" for t in translator.translate(LINES, rerank=path))] * 3
    assert found[0] != "".join(f"{t.text}\n" for t in translator.translate(LINES))


def test_what_cannot_be(pellucid: CommandLine, finished_run: Path, english: Path, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a b\n", encoding="utf-8")
    given = [
        "fit-reranker",
        finished_run,
        "--src",
        tmp_path / "s",
        "--tgt",
        tmp_path / "s",
        "--out",
        tmp_path / "out.json",
    ]
    assert pellucid(*given).error == "neither `--reverse` nor `--lm` is given: reranking requires at least one"
    outcome = pellucid(*given, "--reverse", english)
    assert outcome.error == f"`{english}` holds a language model, not a translator"
    outcome = pellucid(*given, "--lm", finished_run)
    assert outcome.error == f"`{finished_run}` holds a translator, not a language model"
    outcome = pellucid(*given, "--lm", english, "--n-best", "1")
    assert outcome.error == "`--n-best 1` must be from 2 to 1,000"
    outcome = pellucid(*given, "--lm", english, "--tgt-lang", "en")
    assert outcome.error == "`--tgt-lang en` has no effect on these models, which have no languages"
    outcome = pellucid(*given, "--lm", english)
    assert outcome.error == "1 lines are too few to fit the factors"
    assert not (tmp_path / "out.json").exists()
    outcome = pellucid(*given[:-1], tmp_path / "none" / "out.json", "--lm", english)
    assert outcome.status == 2
    (tmp_path / "odd.json").write_text("{}", encoding="utf-8")
    outcome = pellucid("translate", finished_run, "a", "--rerank", tmp_path / "odd.json")
    assert outcome.error == f"`{tmp_path / 'odd.json'}` is not a file of reranking factors"
    outcome = pellucid("translate", finished_run, "a", "--rerank", tmp_path / "odd.json", "--sample")
    assert outcome.error == "`--rerank` cannot be combined with `--sample`"


def test_a_reranker_is_public() -> None:
    import pellucid

    assert pellucid.Reranker is Reranker
