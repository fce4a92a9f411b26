"""`pellucid.check_corpus`: what is wrong in a corpus, as checks with a level."""

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
    checks = pellucid.check_corpus(src=texts[0], tgt=texts[1])
    assert checks[0].text == f"200 pairs in `{texts[0]}` and `{texts[1]}`"
    assert {check.level for check in checks} <= {"ok", "note"}


def test_what_spoils_a_training_is_bad(texts: tuple[str, str]) -> None:
    lines = Path(texts[1]).read_text(encoding="utf-8").splitlines()
    Path(texts[1]).write_text("".join(f"{line}\n" for line in lines[1:]), encoding="utf-8")
    checks = pellucid.check_corpus(src=[texts[0]], tgt=[texts[1]])
    bad = [check for check in checks if check.level == "BAD"]
    assert bad, [check.text for check in checks]
    assert all(check.advice for check in bad)


def test_a_held_out_text_is_looked_for(texts: tuple[str, str], tmp_path: Path) -> None:
    test = write_pairs(tmp_path, PAIRS[:20], "test")
    checks = pellucid.check_corpus(src=texts[0], tgt=texts[1], test_src=test[0], test_tgt=test[1])
    assert any(check.level == "BAD" and "test" in check.text for check in checks)


def test_a_recipes_texts_and_settings(texts: tuple[str, str]) -> None:
    settings = [f'data.src="{texts[0]}"', f'data.tgt="{texts[1]}"']
    assert pellucid.check_corpus(overrides=settings) == pellucid.check_corpus(src=texts[0], tgt=texts[1])
    assert pellucid.check_corpus(recipe=Recipe.load("default", settings)) == pellucid.check_corpus(overrides=settings)


def test_what_is_not_there() -> None:
    with pytest.raises(ConfigError):
        pellucid.check_corpus()
    with pytest.raises(DataError, match=r"no file `none\.de`") as caught:
        pellucid.check_corpus(src="none.de", tgt="none.en")
    assert "`data_dir=`" in caught.value.hint


def said_of(tmp_path: Path, pairs: list[tuple[str, str]], start: str) -> list[pellucid.CorpusCheck]:
    src, tgt = write_pairs(tmp_path, pairs, "of")
    return [check for check in pellucid.check_corpus(src=src, tgt=tgt) if check.text.startswith(start)]


def test_names_that_are_copied_do_not_spoil_a_corpus_and_sentences_do(tmp_path: Path) -> None:
    names = [(f"Ort{n}", f"Ort{n}") for n in range(40)]
    (check,) = said_of(tmp_path, PAIRS + names, "target equal to source: 40 pairs")
    assert check.level == "note"
    (check,) = said_of(
        tmp_path, PAIRS + [(source, source) for source, _ in PAIRS[:40]], "target equal to source: 40 pairs"
    )
    assert check.level == "BAD"


def test_what_clean_does_is_said(tmp_path: Path) -> None:
    (check,) = said_of(tmp_path, [*PAIRS, ("<b>ein Hund", "a dog")], "markup")
    assert check.advice.startswith("`pellucid clean` repairs or removes them")
    (check,) = said_of(tmp_path, [*PAIRS, PAIRS[0]], "duplicate pair:")
    assert check.advice.endswith("set `data.on_duplicate=skip`; `pellucid clean` removes them")


@pytest.mark.parametrize(
    ("line", "level"),
    [
        (("<b>ein</b> Hund", "<b>a</b> dog"), "note"),
        (("<b>ein", "a dog"), "BAD"),
        (("ein &quot;x", "a &quot;x"), "BAD"),
    ],
)
def test_tags_of_both_sides_do_no_harm_at_any_share(tmp_path: Path, line: tuple[str, str], level: str) -> None:
    (check,) = said_of(
        tmp_path, [*PAIRS[:160], *[(f"{line[0]} {n}", f"{line[1]} {n}") for n in range(38)]], "markup: 38"
    )
    assert check.level == level


@pytest.mark.parametrize("share", [21, 95])
def test_markup_that_both_sides_have_is_said_with_its_share(tmp_path: Path, share: int) -> None:
    tagged = [(f"<b>{s}</b>", f"<b>{t}</b>") if n < 2 * share else (s, t) for n, (s, t) in enumerate(PAIRS)]
    checks = said_of(tmp_path, tagged, "the same markup on both sides")
    assert [(check.level, f": {share} % of the pairs" in check.text) for check in checks] == [("note", True)]


def test_two_lines_are_not_judged(tmp_path: Path) -> None:
    pairs = [
        ("Ein Mann lächelt einen ausgestopften Löwen an.", "A man is smiling at a stuffed lion"),
        ("Der Junge isst sein Essen draußen am Tisch.", "The boy eats his food outside at the table."),
    ]
    for count in (1, 2):
        src, tgt = write_pairs(tmp_path, pairs[:count] + PAIRS[: count - 1], "of")
        assert [check.text for check in pellucid.check_corpus(src=src, tgt=tgt) if check.level == "BAD"] == []
