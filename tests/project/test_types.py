"""The front door is typed: what a user misspells, their type checker finds."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

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
checks = [check.level for check in pellucid.doctor(src="a.de", tgt="a.en")]
links = pellucid.align(translator, ["a"], ["b"], method="mutual").links
worst = pellucid.ablate("run", sentences=50).ranked("loss")[0].layer
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
    'pellucid.doctor(source="a.de")': "source",
    'pellucid.align(translator, ["a"], ["b"], methd="mutual")': "methd",
    'pellucid.ablate("run", metric="blue")': "blue",
    'pellucid.plan("multi30k-de-en")': "budget",
}
"""Calls that cannot work, with what the type checker names of each."""


def complaints(script: str, folder: Path) -> list[tuple[int, str]]:
    """The line and the sentence of each error that mypy finds in a user's script."""
    (folder / "user.py").write_text(script, encoding="utf-8")
    # Of other people's packages nothing is asked here, and torch takes a minute to be read.
    (folder / "mypy.ini").write_text(
        f"[mypy]\nstrict = True\nmypy_path = {ROOT / 'src'}\nfollow_imports = silent\ncache_dir = {folder / 'cache'}\n"
        "disallow_subclassing_any = False\nallow_untyped_calls = True\n"
        "[mypy-torch.*,numpy.*,tyro.*,rich.*,sacrebleu.*,safetensors.*,sentencepiece.*,sentencex.*,tokenizers.*,"
        "huggingface_hub.*,filelock.*]\nfollow_imports = skip\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--no-error-summary", "user.py"]
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert found.stderr == ""
    lines = re.findall(r"^user\.py:(\d+): error: (.*)$", found.stdout, re.MULTILINE)
    return [(int(number), sentence) for number, sentence in lines]


@pytest.mark.slow
def test_a_type_checker_finds_what_a_user_misspells(tmp_path: Path) -> None:
    first = SCRIPT.count("\n") + 1
    found = complaints(SCRIPT + "".join(f"{mistake}\n" for mistake in MISTAKES), tmp_path)
    right = [(line, sentence) for line, sentence in found if line < first]
    assert right == [], "what is right is let through"
    for number, (mistake, named) in enumerate(MISTAKES.items(), start=first):
        told = [sentence for line, sentence in found if line == number]
        assert any(named in sentence for sentence in told), f"{mistake}: {told}"
