"""A lack of memory that no smaller part of a batch can mend."""

from pathlib import Path

import pytest

from pellucid.errors import PellucidError
from pellucid.model.transformer import Transformer
from pellucid.run import inputs
from pellucid.run.run import train
from tests.toy_task import reversed_letters, small_recipe, write_pairs


@pytest.mark.parametrize(
    "error", [RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes\nmore"), MemoryError()]
)
def test_a_model_that_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def failing(*_: object) -> Transformer:
        raise error

    monkeypatch.setattr(inputs, "build_model", failing)
    first_line = str(error).partition("\n")[0]
    with pytest.raises(PellucidError, match=f"^out of memory outside of the training steps: {first_line}$") as found:
        train(small_recipe(*write_pairs(tmp_path, reversed_letters(120))), tmp_path / "run", quiet=True)
    assert "`train.batch_tokens`" in found.value.hint
    monkeypatch.undo()
    monkeypatch.setattr(inputs, "build_model", lambda *_: [][1])
    with pytest.raises(IndexError):
        train(small_recipe(*write_pairs(tmp_path, reversed_letters(120))), tmp_path / "run", quiet=True)
