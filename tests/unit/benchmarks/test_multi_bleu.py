"""The papers' score on Multi30k: its formula against sacreBLEU, and tokens of the published files."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from sacrebleu.metrics.bleu import BLEU

pytestmark = pytest.mark.slow


@pytest.fixture
def module(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("multi_bleu")


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
