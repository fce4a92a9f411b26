"""`pellucid.doctor`: what is wrong in a corpus, as checks with a level."""

from pathlib import Path

import pytest

import pellucid
from pellucid.config import Recipe
from pellucid.errors import ConfigError, DataError
from tests.toy_task import write_pairs

PAIRS = [(f"der {n}. Hund läuft im Jahr {n + 1700} weg", f"dog number {n} runs off in {n + 1700}") for n in range(200)]


@pytest.fixture
def texts(tmp_path: Path) -> tuple[str, str]:
    return write_pairs(tmp_path, PAIRS, "train")


def test_a_sound_corpus(texts: tuple[str, str]) -> None:
    checks = pellucid.doctor(src=texts[0], tgt=texts[1])
    assert checks[0].text == f"200 pairs in `{texts[0]}` and `{texts[1]}`"
    assert {check.level for check in checks} <= {"ok", "note"}


def test_what_spoils_a_training_is_bad(texts: tuple[str, str]) -> None:
    lines = Path(texts[1]).read_text(encoding="utf-8").splitlines()
    Path(texts[1]).write_text("".join(f"{line}\n" for line in lines[1:]), encoding="utf-8")
    checks = pellucid.doctor(src=[texts[0]], tgt=[texts[1]])
    bad = [check for check in checks if check.level == "BAD"]
    assert bad, [check.text for check in checks]
    assert all(check.advice for check in bad)


def test_a_held_out_text_is_looked_for(texts: tuple[str, str], tmp_path: Path) -> None:
    test = write_pairs(tmp_path, PAIRS[:20], "test")
    checks = pellucid.doctor(src=texts[0], tgt=texts[1], test_src=test[0], test_tgt=test[1])
    assert any(check.level == "BAD" and "test" in check.text for check in checks)


def test_a_recipes_texts_and_settings(texts: tuple[str, str]) -> None:
    settings = [f'data.src="{texts[0]}"', f'data.tgt="{texts[1]}"']
    assert pellucid.doctor(overrides=settings) == pellucid.doctor(src=texts[0], tgt=texts[1])
    assert pellucid.doctor(recipe=Recipe.load("default", settings)) == pellucid.doctor(overrides=settings)


def test_what_is_not_there() -> None:
    with pytest.raises(ConfigError):
        pellucid.doctor()
    with pytest.raises(DataError, match=r"no file `none\.de`") as caught:
        pellucid.doctor(src="none.de", tgt="none.en")
    assert "`data_dir=`" in caught.value.hint
