"""The benchmarks' scripts as modules, found beside each other as when one of them is run."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """`script("multi_bleu")` imports benchmarks/multi_bleu.py."""
    monkeypatch.syspath_prepend(SCRIPTS)
    return import_module
