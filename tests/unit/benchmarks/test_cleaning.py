"""The benchmark of planted faults: every kind in every script is found by its name, and nothing that is clean."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from pellucid.data.cleaning import clean
from pellucid.data.doctor import iter_corpus_checks
from pellucid.data.issues import OF_PAIRS, TITLES
from tests.unit.benchmarks.conftest import Ran

pytestmark = pytest.mark.slow

SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("Cyrillic", "Greek", "Arabic", "Japanese")]


@pytest.mark.parametrize("name", ["Latin", "Hangul", *SLOW])
def test_every_kind_in_every_script(name: str, script: Callable[[str], ModuleType]) -> None:
    module = script("cleaning")
    assert len(module.KINDS) >= 20
    pairs = [(s, t if name == "Latin" else module.in_script(s, name)) for s, t in module.made_up(700, 2)]
    rows = list(module.rows_of(module.plant(pairs, name, 2, 1)))
    assert [row for row in rows[:-1] if not row["planted"] == row["found"] == 2 or row["precision"] != 1] == []
    assert len(rows) == len(module.KINDS) + 1
    assert rows[-1]["false_alarms"] == {}
    assert rows[-1]["of"] == 700 - 4 - 2 * len(module.KINDS)


def test_doctor_and_clean_agree(script: Callable[[str], ModuleType], tmp_path: Path) -> None:
    """Each count of the one is the other's, for every rule."""
    module = script("cleaning")
    pairs = [(s, module.in_script(s, "Cyrillic")) for s, _ in module.made_up(300, 4)]
    data = module.plant(pairs, "Cyrillic", 1, 5).write(tmp_path)
    checks = [check.text for check in iter_corpus_checks(data)]
    texts = checks[: next(place for place, text in enumerate(checks[1:], 1) if " pairs in " in text)]  # of the training
    counts = clean(data, None, repair=False).counts
    assert len(counts) > 15
    by_line = ("utf8", "mojibake", "lost", "control", "too_long")  # a pair may have it in both of its lines
    for rule in OF_PAIRS:
        named = [text for text in texts if text.startswith(f"{TITLES[rule]}: ") and not text.endswith(": none")]
        assert len(named) == bool(counts[rule]), rule
        if counts[rule]:
            told = int(named[0].removeprefix(f"{TITLES[rule]}: ").split()[0].replace(",", ""))
            assert told == counts[rule] or (rule in by_line and counts[rule] < told <= 2 * counts[rule]), rule


@pytest.mark.slow
def test_cleaning(run_script: Callable[..., Ran], tmp_path: Path) -> None:
    table, lines = run_script("cleaning", "--each", 2, "--pairs", 500, "--synthetic", 1000)
    assert {row["script"] for row in table["rows"]} == {"Latin", "Cyrillic", "Greek", "Arabic", "Hangul", "Japanese"}
    assert len(lines) == len(table["rows"])
    assert [row["pairs"] for row in table["synthetic"]] == [1000, 1000]
    assert table["synthetic"][0]["said"].startswith("1,000 kept (100.0 %), 0 removed")
