import calendar
import re
from datetime import date
from pathlib import Path

import pytest

from pellucid.data.dates import (
    LANGUAGES,
    MOST_PAIRS,
    DateLocale,
    english_ordinal,
    sino_korean,
    split_dates,
    write_date,
    write_parallel,
)
from pellucid.errors import ConfigError

STYLES = [(code, style) for code, language in LANGUAGES.items() for style in language.styles]
DAYS = [
    date(1900, 1, 1),
    date(2000, 2, 29),
    date(2010, 6, 11),
    date(2024, 3, 7),
    date(2096, 10, 31),
    date(2099, 12, 31),
]


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    return split_dates(20_001, seed=7, held_out=1)[0]


@pytest.mark.parametrize(
    ("code", "day", "written"),
    [
        ("en", date(2024, 3, 7), "March 7, 2024"),
        ("en", date(2024, 3, 7), "7th of March 2024"),
        ("en", date(2024, 3, 7), "Thursday, 7 March 2024"),
        ("en", date(2024, 3, 7), "Mar 7, 2024"),
        ("en", date(2023, 5, 22), "May 22nd, 2023"),
        ("de", date(2024, 3, 7), "7. März 2024"),
        ("de", date(2024, 3, 7), "Donnerstag, den 7. März 2024"),
        ("de", date(2024, 3, 7), "07.03.2024"),
        ("fr", date(2024, 3, 7), "le jeudi 7 mars 2024"),
        ("fr", date(2024, 3, 1), "1er mars 2024"),
        ("es", date(2024, 3, 7), "7 de marzo de 2024"),
        ("es", date(2024, 3, 7), "jueves, 7 de marzo de 2024"),
        ("ko", date(2024, 3, 7), "2024년 3월 7일"),
        ("ko", date(2024, 3, 7), "2024년 3월 7일 목요일"),
        ("ko", date(2024, 3, 7), "이천이십사년 삼월 칠일"),
        ("ko", date(1900, 6, 10), "천구백년 유월 십일"),
        ("ko", date(2000, 10, 21), "이천년 시월 이십일일"),
        ("ko", date(2010, 11, 30), "이천십년 십일월 삼십일"),
    ],
)
def test_languages_write_dates_as_people_do(code: str, day: date, written: str) -> None:
    language = LANGUAGES[code]
    assert written in {write_date(day, language, style) for style in language.styles}


@pytest.mark.parametrize(("code", "style"), STYLES)
def test_a_style_tells_days_apart(code: str, style: str) -> None:
    days = [date(year, month, day) for year in (1911, 2011) for month in range(1, 13) for day in range(1, 29)]
    written = [write_date(day, LANGUAGES[code], style) for day in days]
    assert len(set(written)) == len(days)


@pytest.mark.parametrize(("code", "style"), [item for item in STYLES if "weekday" in item[1]])
def test_weekdays_are_those_of_the_calendar(code: str, style: str) -> None:
    language = LANGUAGES[code]
    names = language.short_weekdays if "short_weekday" in style else language.weekdays
    for day in DAYS:
        rest = write_date(day, language, style).removeprefix("le ").removeprefix("el ")
        says = rest.rstrip(")").endswith if code == "ko" else rest.startswith
        weekday = calendar.weekday(day.year, day.month, day.day)
        assert [number for number, name in enumerate(names) if says(name)] == [weekday], day


@pytest.mark.parametrize("language", LANGUAGES.values(), ids=LANGUAGES)
def test_tables_are_complete_and_names_distinct(language: DateLocale) -> None:
    for name, size in {"months": 12, "weekdays": 7, "short_weekdays": 7}.items():
        names = getattr(language, name)
        assert len(names) == len(set(names)) == size
    short = set(language.short_months)
    assert len(short) == 12 or short == {""}


def test_korean_numerals_read_back_as_their_number() -> None:
    units = {"천": 1000, "백": 100, "십": 10, "": 1}
    for number in range(1, 10_000):
        read = re.findall("([일이삼사오육칠팔구]?)([천백십]?)", sino_korean(number))
        assert sum(("일이삼사오육칠팔구".find(d) + 1 if d else 1) * units[u] for d, u in read if d or u) == number


@pytest.mark.parametrize(
    ("number", "words"),
    [(1, "일"), (10, "십"), (16, "십육"), (1900, "천구백"), (2000, "이천"), (2010, "이천십"), (1911, "천구백십일")],
)
def test_korean_numerals_leave_out_one_before_a_unit(number: int, words: str) -> None:
    assert sino_korean(number) == words


@pytest.mark.parametrize("ending", ["st", "nd", "rd"])
def test_english_ordinals(ending: str) -> None:
    expected = {"st": [1, 21, 31], "nd": [2, 22], "rd": [3, 23]}[ending]
    assert [n for n in range(1, 32) if english_ordinal(n) == f"{n}{ending}"] == expected


def test_other_english_ordinals_end_in_th() -> None:
    assert [n for n in range(1, 32) if english_ordinal(n) == f"{n}th"] == [*range(4, 21), *range(24, 31)]


def test_pairs_are_as_many_as_asked_and_differ(pairs: list[tuple[str, str]]) -> None:
    assert len(pairs) == len(set(pairs)) == 20_000


def test_iso_dates_are_valid_and_cover_the_years(pairs: list[tuple[str, str]]) -> None:
    days = {date.fromisoformat(iso) for _, iso in pairs}
    assert all(re.fullmatch(r"\d{4}-\d{2}-\d{2}", iso) for _, iso in pairs)
    assert {day.year for day in days} == set(range(1900, 2100))
    assert any((day.month, day.day) == (2, 29) for day in days)


def test_no_writing_means_two_dates(pairs: list[tuple[str, str]]) -> None:
    assert len({written for written, _ in pairs}) == len(dict(pairs)) == len(pairs)


def test_all_languages_come_up_about_equally_often(pairs: list[tuple[str, str]]) -> None:
    """Counted by their full weekdays, which a known part of each language's styles has."""
    for code, language in LANGUAGES.items():
        part = sum("{weekday}" in style for style in language.styles) / len(language.styles)
        seen = sum(any(name in written for name in language.weekdays) for written, _ in pairs)
        assert seen / part == pytest.approx(len(pairs) / 5, rel=0.1), code


def test_held_out_dates_do_not_occur_in_training() -> None:
    train, test = split_dates(12_000, seed=3, held_out=1000)
    assert (len(train), len(set(train)), len(test)) == (11_000, 11_000, 1000)
    test_dates = {iso for _, iso in test}
    assert len(test_dates) == 1000
    assert not test_dates & {iso for _, iso in train}
    assert not {written for written, _ in test} & {written for written, _ in train}


def test_equal_seeds_split_equally() -> None:
    assert split_dates(300, seed=1, held_out=50) == split_dates(300, seed=1, held_out=50)
    assert split_dates(300, seed=1, held_out=50) != split_dates(300, seed=2, held_out=50)


def test_both_sides_are_written_line_by_line(tmp_path: Path) -> None:
    pairs = [("7. März 2024", "2024-03-07"), ("이천년 시월 일일", "2000-10-01")]
    written, iso = write_parallel(pairs, tmp_path / "new" / "folder", "train")
    assert (written.name, iso.name) == ("train.written", "train.iso")
    assert written.read_bytes() == "7. März 2024\n이천년 시월 일일\n".encode()
    assert iso.read_bytes() == b"2024-03-07\n2000-10-01\n"


def test_no_pairs_give_empty_files(tmp_path: Path) -> None:
    assert [path.read_bytes() for path in write_parallel([], tmp_path, "none")] == [b"", b""]


@pytest.mark.parametrize("count", [0, -3, MOST_PAIRS + 1])
def test_a_count_out_of_range_is_an_error(count: int) -> None:
    with pytest.raises(ConfigError, match=rf"`count` \({count}\) must be from 1 to 500,000"):
        split_dates(count, seed=1, held_out=1)


@pytest.mark.parametrize(("count", "held_out", "most"), [(100, 0, 99), (100, 100, 99), (50_000, 8000, 7304)])
def test_a_held_out_number_out_of_range_is_an_error(count: int, held_out: int, most: int) -> None:
    with pytest.raises(ConfigError, match=rf"`held_out` \({held_out}\) must be from 1 to {most} for {count} dates"):
        split_dates(count, seed=1, held_out=held_out)
