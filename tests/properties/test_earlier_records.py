"""What an earlier version has made for a request is found again, and not made anew.

`earlier-records.zip` has the folder `run` of some of `tests/properties/makers.py`, made on 28 November 2026, before
`files/records.py`; the rounds have a fact more, by which they are known again.
"""

import os
import zipfile
from pathlib import Path

import pytest

from tests.processes import ROOT, run_python
from tests.properties import makers

EARLIER = Path(__file__).with_name("earlier-records.zip")
GONE = ["a-model-that-is-gone"]
"""The model that the texts were translated by: to translate them again would be an error."""


@pytest.mark.parametrize(
    ("name", "model"), [("ids", []), ("pieces", []), ("distilled", GONE), ("augmented", GONE)]
)  # fmt: skip
def test_it_is_found_again(tmp_path: Path, name: str, model: list[str]) -> None:
    makers.prepare_texts(tmp_path)
    with zipfile.ZipFile(EARLIER) as archive:
        archive.extractall(tmp_path / "earlier")
    run = (tmp_path / "earlier" / name).rename(tmp_path / "run")
    before = {path: (path.read_bytes(), path.parent.stat().st_ino) for path in run.rglob("*") if path.is_file()}
    assert before
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    done = run_python("-m", "tests.properties.makers", name, *model, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    after = {path: (path.read_bytes(), path.parent.stat().st_ino) for path in run.rglob("*") if path.is_file()}
    assert {path: found for path, found in after.items() if path.name not in makers.WITH_TIMES} == before
