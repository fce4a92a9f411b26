"""The gold of dates: which characters are the year, the month and the day."""

from collections.abc import Callable
from types import ModuleType

import pytest

from pellucid.data.dates import LANGUAGES, split_dates, write_date
from pellucid.tracing.tokens import Token

pytestmark = pytest.mark.slow

END = Token("</s>", "</s>", special=True)


@pytest.fixture
def module(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("date_alignment")


def marked(module: ModuleType, written: str, iso: str) -> str:
    """Y, M and D for the characters of the fields, a dot for the rest."""
    return "".join("." if field is None else "YMD"[field] for field in module.fields_of(written, iso))


@pytest.mark.parametrize(
    ("written", "iso", "fields"),
    [
        ("2041. 9. 8. (일)", "2041-09-08", "YYYY..M..D....."),
        ("이천사십일년 구월 팔일", "2041-09-08", "YYYYY..MM.D."),
        ("So., 08.09.2041", "2041-09-08", ".....DD.MM.YYYY"),
        ("the 8th of September, 2041", "2041-09-08", "....DDD....MMMMMMMMM..YYYY"),
        ("le dimanche 1er septembre 2041", "2041-09-01", "............DDD.MMMMMMMMM.YYYY"),
    ],
    ids=["korean", "korean numerals", "german", "english", "french"],
)
def test_fields_of_a_date(module: ModuleType, written: str, iso: str, fields: str) -> None:
    assert marked(module, written, iso) == fields


def test_every_date_of_the_demo_has_its_three_fields(module: ModuleType) -> None:
    for written, iso in split_dates(2000, 7, 400)[1]:
        assert len(module.fields_of(written, iso)) == len(written)
        assert {"Y", "M", "D"} <= set(marked(module, written, iso)), written


def test_every_style_can_be_read(module: ModuleType) -> None:
    from datetime import date

    day = date(1987, 12, 31)
    for language in LANGUAGES.values():
        for style in language.styles:
            assert {"Y", "M", "D"} <= set(marked(module, write_date(day, language, style), day.isoformat()))


def test_the_rest_is_cut_at_the_fields(module: ModuleType) -> None:
    written = "8. Mai 2041!"
    fields = [2, None, None, 1, 1, 1, None, 0, 0, 0, 0, None]
    tokens = module.numbered([*(Token(c, c) for c in written), END], fields, keep_rest=True)
    assert [token.word for token in tokens] == [2, 3, 3, 1, 1, 1, 4, 0, 0, 0, 0, 5, None]
    alone = module.numbered([*(Token(c, c) for c in written), END], fields, keep_rest=False)
    assert [token.special for token in alone][:3] == [False, True, True]


def test_any_character_of_a_field_is_right_for_its_digits(module: ModuleType) -> None:
    gold = module.by_character("8. Mai 2041", "2041-05-08")
    assert not gold.sure
    assert {source for source, target in gold.possible if target == 0} == {7, 8, 9, 10}
    assert {source for source, target in gold.possible if target == 7} == {0}
