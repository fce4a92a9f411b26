"""The sentences that heads are judged by, where a run has none to be found again."""

import re
from pathlib import Path

import pytest

from pellucid.analysis.heads import own_texts
from pellucid.config import TASKS, Recipe
from pellucid.errors import ConfigError
from pellucid.run.folder import RunFolder


def test_texts_that_a_script_handed_over_are_not_in_the_folder(tmp_path: Path) -> None:
    RunFolder(tmp_path / "run").begin(Recipe())
    said = f"the texts of the run `{tmp_path / 'run'}` were handed over by a script"
    with pytest.raises(ConfigError, match=f"^{re.escape(said)}$") as error:
        own_texts(tmp_path / "run", TASKS["translate"])
    assert error.value.hint.startswith("name texts with")
