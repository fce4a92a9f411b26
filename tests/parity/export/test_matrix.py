"""Every foreign kind by the call in README.md: as Pellucid translates, continues or classifies; matrix.py has all."""

from pathlib import Path

import pytest
import torch

from pellucid.conversion.texts import CASES
from tests.parity.export import matrix

pytestmark = pytest.mark.foreign

ENCODERS = {kind for kind in matrix.KINDS if "BERT" in kind or kind == "XLM-R"}
RELATIVE = {"T5", "mT5"}
UNTIED = {"BART, parts", "BART, tokenizer.json", "mBART-25", "mBART-50", "M2M-100", "NLLB"}
"""Their small models here have output embeddings of their own, which the classes of transformers do not."""
REFUSED = {
    *((kind, "ct2") for kind in ENCODERS | RELATIVE),
    *((kind, "hf") for kind in {"DistilBERT"} | UNTIED | RELATIVE),
}
BROKEN_BYTES = {"Llama, SentencePiece"}
"""Random weights write bytes that are no UTF-8, which SentencePiece and tokenizer.json decode differently."""


@pytest.mark.parametrize("target", ["hf", "ct2"])
@pytest.mark.parametrize("kind", matrix.KINDS)
def test_the_call_of_the_readme_makes_the_same(
    kind: str, target: matrix.Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "TEXTS", [*CASES, *matrix.MORE][::5])
    torch.manual_seed(11)
    (tmp_path / "source").mkdir()
    matrix.KINDS[kind](tmp_path / "source")
    found = matrix.cell(tmp_path / "source", tmp_path / "made", kind, target)
    assert bool(found.refused) == ((kind, target) in REFUSED), found.refused
    if found.refused:
        assert " is not supported by " in found.refused
    elif kind in BROKEN_BYTES:
        assert found.proof
        assert not found.proof.passed, "the exit status of the conversion says so"
    else:
        assert found.proof
        assert found.proof.passed, str(found.proof)
        assert found.equal == len(matrix.TEXTS), found.other


@pytest.mark.parametrize("kind", ["M2M-100", "mBART-50"])
def test_a_page_translates_between_the_languages_that_are_given(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(11)
    (tmp_path / "source").mkdir()
    matrix.KINDS[kind](tmp_path / "source")
    assert matrix.LANGUAGES[kind][0] != "en_XX", "which the folder names as its default"
    found = matrix.cell(tmp_path / "source", tmp_path / "made.html", kind, "page")
    assert found.equal == len(matrix.TEXTS), found.other
