"""The front door is typed: what a user misspells, their type checker finds, and the documentation's code is right."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import CURRENT, LESSONS, ROOT

SCRIPT = """\
import pellucid

translator = pellucid.Translator.load("run", device="cpu")
text: str = translator.translate(["a"], beam_size=5)[0].text
config = pellucid.ModelConfig(src_vocab_size=10, tgt_vocab_size=10, d_model=8)
model = pellucid.Transformer(config)
result = pellucid.train("dates", "run", overrides=["train.steps=5"], quiet=True)
steps: int = result.steps
view = pellucid.view("x.trace", "matrix", layer=3, head=[0, 1])
proof: bool = pellucid.convert("run", "out", to="ct2", quantization="int8").passed
checks = [check.level for check in pellucid.check_corpus(src="a.de", tgt="a.en")]
bleu: float = pellucid.evaluate(translator, ["a"], ["b"], beam_size=5, ter=True).bleu
report = pellucid.evaluate("run", ["a"], ["b"], beam_size=5, tokenize="13a", device="cpu").to_json()
links = pellucid.align(translator, ["a"], ["b"], method="mutual").links
worst = pellucid.ablate("run", sentences=50).rank_heads("loss")[0].layer
seconds: float = pellucid.plan("multi30k-de-en", "15m").tokens
loaded, tokenizer = pellucid.weights.from_hugging_face("folder")
"""

MISTAKES = {
    'pellucid.Translater.load("run")': "Translater",
    'pellucid.weights.to_onxx(model, "folder")': "to_onxx",
    'translator.score(["a"], ["b"], devise=1)': "devise",
    "pellucid.ModelConfig(src_vocab_size=10, tgt_vocab_size=10, d_modle=5)": "d_modle",
    'number: int = translator.translate(["a"])[0].text': "int",
    'pellucid.train("dates", "run", bogus=3)': "bogus",
    'pellucid.view("x.trace", "matrix", laier=3)': "Never",
    'pellucid.convert("run", "out", to="onx")': "onx",
    'pellucid.check_corpus(source="a.de")': "source",
    'pellucid.align(translator, ["a"], ["b"], methd="mutual")': "methd",
    'pellucid.ablate("run", metric="blue")': "blue",
    'pellucid.plan("multi30k-de-en")': "budget",
    'pellucid.Run("dates", fresch=True)': "fresch",
    'pellucid.Translator.load("run", devise="cpu")': "devise",
    'translator.translate(["a"], beam_sise=5)': "beam_sise",
    'translator.stream(["a"], beam_sise=5)': "beam_sise",
    'translator.evaluate(["a"], ["b"], beam_sise=5)': "beam_sise",
    'translator.trace("a", beam_sise=5)': "beam_sise",
    'translator.save("folder", fresch=True)': "fresch",
    'pellucid.evaluate(translator, ["a"], ["b"], beam_sise=5)': "evaluate",
    'pellucid.evaluate("run", ["a"], ["b"], beam_sise=5)': "evaluate",
    'pellucid.LanguageModel.load("run").generate(["a"], temprature=1.0)': "temprature",
    'pellucid.Classifier.load("run").classify(["a"], batch_token=5)': "batch_token",
    "pellucid.trace(model, [3], [1], segmets=[0])": "segmets",
}
"""Calls that cannot work, with what the type checker names of each."""


def mypy(files: Iterable[Path]) -> str:
    """What mypy says of a user's files, by the project's settings and from what it has read for the project itself."""
    # Reading torch takes a minute and a half, which `make types` has spent by then.
    command = [sys.executable, "-m", "mypy", "--untyped-calls-exclude", "torch", "--no-error-summary"]
    found = subprocess.run([*command, *map(str, files)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.stderr == ""
    return found.stdout


def complaints(script: str, folder: Path) -> list[tuple[int, str]]:
    """The line and the sentence of each error that mypy finds in a user's script."""
    file = folder / "user.py"
    file.write_text(script, encoding="utf-8")
    lines = re.findall(r"^\S*user\.py:(\d+): error: (.*)$", mypy([file]), re.MULTILINE)
    return [(int(number), sentence) for number, sentence in lines]


def check_mistakes(found: Sequence[tuple[int, str]]) -> None:
    """Asserts that nothing is found of what is right, and each mistake at its line."""
    first = SCRIPT.count("\n") + 1
    assert [(line, sentence) for line, sentence in found if line < first] == [], "what is right is let through"
    for number, (mistake, named) in enumerate(MISTAKES.items(), start=first):
        told = [sentence for line, sentence in found if line == number]
        assert any(named in sentence for sentence in told), f"{mistake}: {told}"


@pytest.mark.types
def test_mypy_finds_what_a_user_misspells(tmp_path: Path) -> None:
    check_mistakes(complaints(SCRIPT + "".join(f"{mistake}\n" for mistake in MISTAKES), tmp_path))


def pyright(folder: Path, *arguments: str) -> dict[str, Any]:
    """What pyright, as basedpyright has it, finds in a folder's files, as editors ask it to: in its basic mode."""
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "basic"}', encoding="utf-8")
    # It asks the first Python on PATH where packages are.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = [sys.executable, "-m", "basedpyright", "--outputjson", *arguments]
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT / "src")}
    found = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode in (0, 1), found.stderr
    table: dict[str, Any] = json.loads(found.stdout)
    return table


def pyright_errors(folder: Path) -> list[tuple[str, int, str]]:
    """The file, the line and the sentence of each error that pyright finds."""
    return [
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1, one["message"])
        for one in pyright(folder)["generalDiagnostics"]
        if one["severity"] == "error"
    ]


@pytest.mark.types
def test_each_public_name_has_a_type_that_all_checkers_know(tmp_path: Path) -> None:
    report = pyright(tmp_path, "--verifytypes", "pellucid", "--ignoreexternal")["typeCompleteness"]
    assert Path(report["packageRootDirectory"]) == ROOT / "src" / "pellucid", "this package, and no other"
    assert report["exportedSymbolCounts"]["withKnownType"] > 4000
    found = [
        f"{symbol['name']}: {'; '.join(one['message'] for one in symbol['diagnostics']) or 'unknown'}"
        for symbol in report["symbols"]
        if symbol["isExported"] and (symbol["isTypeAmbiguous"] or not symbol["isTypeKnown"])
    ]
    assert found == []
    assert report["completenessScore"] == 1


@pytest.mark.types
def test_pyright_finds_what_a_user_misspells(tmp_path: Path) -> None:
    script = SCRIPT + "".join(f"{mistake}\n" for mistake in MISTAKES)
    (tmp_path / "user.py").write_text(script, encoding="utf-8")
    check_mistakes([(line, sentence) for _, line, sentence in pyright_errors(tmp_path)])


@pytest.fixture
def snippets(tmp_path: Path) -> Path:
    """A folder of the documentation's Python, a file each."""
    for page in (page for page in CURRENT if page not in LESSONS):
        for number, code in enumerate(page.fences("python")):
            name = re.sub(r"\W", "_", str(page).removesuffix(".md")).lower()
            (tmp_path / f"{name}_{number}.py").write_text(code, encoding="utf-8")
    assert len(list(tmp_path.glob("docs_guides_your_own_parts_*.py"))) > 10
    return tmp_path


@pytest.mark.types
def test_pyright_finds_nothing_in_the_code_of_the_documentation(snippets: Path) -> None:
    assert pyright_errors(snippets) == []


@pytest.mark.types
def test_mypy_finds_nothing_in_the_code_of_the_documentation(snippets: Path) -> None:
    # PyTorch's own `backward` and `split` have no types.
    assert mypy(sorted(snippets.glob("*.py"))) == ""
