"""What a model is for, told without reading its weights."""

import json
from pathlib import Path

import pytest

from pellucid.evaluation.measure import task_in


@pytest.mark.parametrize(
    ("kind", "task"),
    [("llama", "generate"), ("gpt2", "generate"), ("marian", "translate"), ("t5", "translate"), ("bert", "encode")],
)
def test_a_foreign_folder_tells_by_its_settings(kind: str, task: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}), encoding="utf-8")
    assert task_in(str(tmp_path)) == task


def test_a_folder_of_ours_and_what_is_none(finished_run: Path, tmp_path: Path) -> None:
    """Whoever loads what is no model says what is wrong with it."""
    assert task_in(str(finished_run)) == "translate"
    for text in ('{"model_type": "mamba"}', '{"model_type": 3}', "{", "[]"):
        (tmp_path / "config.json").write_text(text, encoding="utf-8")
        assert task_in(str(tmp_path)) == "translate"
    assert task_in(str(tmp_path / "nothing")) == "translate"
    assert task_in(str(tmp_path / "config.json")) == "translate"  # a file: of translations
    assert task_in("-") == "translate"
