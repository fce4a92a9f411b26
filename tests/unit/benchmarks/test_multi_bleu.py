"""The papers' score on Multi30k: its formula by hand and by sacreBLEU, its tokens by rules that are known."""

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from sacrebleu.metrics.bleu import BLEU

from pellucid.errors import DataError

pytestmark = pytest.mark.slow


@pytest.fixture
def module(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("multi_bleu")


def tokens(*lines: str) -> list[list[str]]:
    return [line.split() for line in lines]


def test_values_by_hand(module: ModuleType) -> None:
    """Right: 6 of 7 words (`the` counts once), 4 of 6 pairs, 2 of 5 triples, 1 of 4 quadruples; 7 words against 8."""
    found = module.multi_bleu(tokens("the cat sat on the mat the"), tokens("the cat sat on a mat in the"))
    assert found.precisions == pytest.approx([600 / 7, 300 / 6, 200 / 5, 100 / 4])
    assert found.brevity_penalty == pytest.approx(math.exp(-1 / 7))
    assert found.score == pytest.approx(100 * math.exp(-1 / 7) * (6 / 7 * 3 / 6 * 2 / 5 * 1 / 4) ** 0.25)
    assert str(found) == "BLEU = 39.44, 85.7/50.0/40.0/25.0 (BP=0.867, ratio=0.875, hyp_len=7, ref_len=8)"


def test_a_longer_translation_is_not_punished_for_length(module: ModuleType) -> None:
    found = module.multi_bleu(tokens("a b c d e f"), tokens("a b c d e"))
    assert found.brevity_penalty == 1
    assert found.precisions == pytest.approx([500 / 6, 400 / 5, 300 / 4, 200 / 3])


def test_counts_are_summed_over_the_corpus(module: ModuleType) -> None:
    assert module.multi_bleu(tokens("a b c d", "x y"), tokens("a b c d", "z y")).precisions == pytest.approx(
        [500 / 6, 300 / 4, 100, 100]
    )


@pytest.mark.parametrize("hypothesis", ["", "x", "a b c", "a b x c d"])
def test_without_a_quadruple_there_is_no_score(module: ModuleType, hypothesis: str) -> None:
    assert module.multi_bleu(tokens(hypothesis), tokens("a b c d")).score == 0


@pytest.mark.parametrize("seed", range(5))
def test_the_formula_is_sacrebleus_on_the_same_tokens(module: ModuleType, seed: int) -> None:
    draw = random.Random(seed)
    references = [draw.choices("abcdefg", k=draw.randint(1, 12)) for _ in range(50)]
    hypotheses = [[w if draw.random() < 0.8 else "x" for w in line][: draw.randint(0, 13)] for line in references]
    joined = [[" ".join(tokens) for tokens in side] for side in (hypotheses, references)]
    theirs = BLEU(tokenize="none", smooth_method="none", force=True).corpus_score(joined[0], [joined[1]])
    ours = module.multi_bleu(hypotheses, references)
    assert 10 < ours.score == pytest.approx(theirs.score)
    assert ours.precisions == pytest.approx(theirs.precisions)
    assert ours.brevity_penalty == pytest.approx(theirs.bp)
    assert (ours.hypothesis_length, ours.reference_length) == (theirs.sys_len, theirs.ref_len)


@pytest.mark.parametrize(
    ("language", "line", "cut"),
    [
        ("de", "Ein Mann, der „etwas“ anstarrt.", "ein mann , der &quot; etwas &quot; anstarrt ."),
        ("de", "Ein T-Shirt mit der Nummer 10.", "ein t-shirt mit der nummer 10."),
        ("en", "It’s the boy's dog.", "it &apos;s the boy &apos;s dog ."),
        ("fr", "L'homme, aujourd’hui…", "l&apos; homme , aujourd&apos; hui ..."),
        ("en", "", ""),
    ],
)
def test_tokens_are_those_of_the_published_files(module: ModuleType, language: str, line: str, cut: str) -> None:
    assert module.moses_tokens([line], language) == [cut.split()]


def test_it_is_lower_cased_before_it_is_cut(module: ModuleType) -> None:
    """`Bart.` would pass for an abbreviation, `bart.` does not; the published files have it so."""
    assert module.moses_tokens(["Ein Mann rasiert seinen Bart."], "de")[0][-2:] == ["bart", "."]


def test_the_command(module: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ref").write_text("Ein Mann isst einen Apfel.\nZwei Hunde\n", encoding="utf-8")
    (tmp_path / "hyp").write_text("EIN MANN ISST EINEN APFEL.\nZwei Katzen\n", encoding="utf-8")
    arguments = ["--hyp", str(tmp_path / "hyp"), "--ref", str(tmp_path / "ref"), "--language"]
    assert module.main([*arguments, "de"]) == 0
    out, err = capsys.readouterr()
    expected = 100 * (7 / 8 * 5 / 6) ** 0.25
    assert json.loads(out)["score"] == pytest.approx(expected)
    assert err.startswith(f"BLEU = {expected:.2f}, 87.5/83.3/100.0/100.0 (BP=1.000, ratio=1.000, ")
    with pytest.raises(SystemExit):
        module.main([*arguments, "tlh"])
    assert "choose from" in capsys.readouterr().err


def test_what_cannot_be_scored(module: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DataError, match="1 hypotheses and 2 references"):
        module.multi_bleu([["a"]], [["a"], ["b"]])
    with pytest.raises(DataError, match="the references hold no token"):
        module.multi_bleu([["a"]], [[]])
    with pytest.raises(SystemExit) as exit_:
        module.main(["--hyp", str(tmp_path / "no"), "--ref", str(tmp_path / "no"), "--language", "de"])
    assert exit_.value.code == 2
    assert capsys.readouterr().err.startswith(f"error: no file `{tmp_path / 'no'}`\nhint: ")
