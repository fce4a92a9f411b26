"""The guide from a tutorial to a translator runs from top to bottom: where the reader trained, then the commands."""

import json
import subprocess
from pathlib import Path

import pytest
import torch

from pellucid.conversion.tutorial import USUAL_NAMES
from pellucid.weights.tutorials.layouts import LAYOUT_NAMES
from tests.docs.pages import ROOT, Page
from tests.parity.tutorials.decoders import NanoGPT
from tests.parity.tutorials.seq2seq import Seq2Seq
from tests.processes import python

GUIDE = Page(ROOT / "docs" / "guides" / "from-a-tutorial.md")
SPECIAL = ["<unk>", "<pad>", "<sos>", "<eos>"]


def run(code: str, folder: Path, names: dict[str, object]) -> None:
    exec(compile(code, f"{GUIDE} in {folder}", "exec"), names)


@pytest.mark.slow
def test_the_guide_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader's model is one of random weights; the copy for another engine is left to the tests of that engine."""
    monkeypatch.chdir(tmp_path)
    save, write, translate, load, bare = GUIDE.fences("py")
    src_vocab, tgt_vocab = [*SPECIAL, "ein", "hund", "läuft", "."], [*SPECIAL, "a", "dog", "runs", "."]
    model = Seq2Seq(len(src_vocab), len(tgt_vocab), 1, 16, 24, 8)
    characters = sorted(set("\n ROMEO:abcdefghijkl"))
    (tmp_path / "out").mkdir()
    state = NanoGPT(len(characters), 1, 16, 4, length=300).state_dict()
    torch.save({"model": state, "model_args": {"n_head": 4}}, tmp_path / "out" / "ckpt.pt")
    (tmp_path / "characters.json").write_text(json.dumps(characters))
    for code in (save, write):
        run(code, tmp_path, {"model": model, "src_vocab": src_vocab, "tgt_vocab": tgt_vocab})
    script = "set -euo pipefail\n" + "".join(code for code in GUIDE.fences("sh") if "--to ct2" not in code)
    script = f'pellucid() {{ "{python()}" -m pellucid "$@"; }}\n{script}'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "encoder.layers.0.self_attn" in done.stdout
    for code in (translate, load, bare):
        run(code, tmp_path, {})


def test_the_tables_are_up_to_date() -> None:
    assert [row[0].strip("`") for row in GUIDE.table_rows if row[0].strip("`") in LAYOUT_NAMES] == list(LAYOUT_NAMES)
    names = dict(zip(("padding", "start", "end", "unknown"), USUAL_NAMES.values(), strict=True))
    listed = {row[0]: tuple(row[1].replace("`", "").lower().split()) for row in GUIDE.table_rows if row[0] in names}
    assert listed == names
