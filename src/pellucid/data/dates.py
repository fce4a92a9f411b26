"""Dates as people write them in five languages, each with its ISO 8601 form: a corpus for training in minutes."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from pellucid.errors import ConfigError

FIRST_DAY, LAST_DAY = date(1900, 1, 1), date(2099, 12, 31)
NUMBER_OF_DAYS = (LAST_DAY - FIRST_DAY).days + 1
MOST_PAIRS = 500_000  # a fifth of all pairs of the styles, so that a new one is soon sampled


@dataclass(frozen=True, kw_only=True, slots=True)
class DateLocale:
    """A language's way of writing dates: months from January, weekdays from Monday, and templates for write_date()."""

    months: tuple[str, ...]
    short_months: tuple[str, ...] = ("",) * 12
    weekdays: tuple[str, ...]
    short_weekdays: tuple[str, ...]
    styles: tuple[str, ...]


ENGLISH = DateLocale(
    months=("January", "February", "March", "April", "May", "June",
            "July", "August", "September", "October", "November", "December"),
    short_months=("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
    weekdays=("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    short_weekdays=("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
    styles=(
        "{month} {day}, {year}", "{day} {month} {year}", "{short_month} {day}, {year}", "{day} {short_month} {year}",
        "{weekday}, {month} {day}, {year}", "{weekday}, {day} {month} {year}",
        "{short_weekday}, {short_month} {day}, {year}",
        "{month} {ordinal}, {year}", "{ordinal} of {month} {year}", "the {ordinal} of {month}, {year}",
    ),
)  # fmt: skip

GERMAN = DateLocale(
    months=("Januar", "Februar", "März", "April", "Mai", "Juni",
            "Juli", "August", "September", "Oktober", "November", "Dezember"),
    short_months=("Jan.", "Feb.", "März", "Apr.", "Mai", "Juni", "Juli", "Aug.", "Sept.", "Okt.", "Nov.", "Dez."),
    weekdays=("Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"),
    short_weekdays=("Mo.", "Di.", "Mi.", "Do.", "Fr.", "Sa.", "So."),
    styles=(
        "{day}. {month} {year}", "{day}. {short_month} {year}", "am {day}. {month} {year}",
        "{weekday}, {day}. {month} {year}", "{weekday}, den {day}. {month} {year}",
        "{short_weekday}, {day}. {month} {year}",
        "{day:02}.{number:02}.{year}", "{day}.{number}.{year}", "{short_weekday}, {day:02}.{number:02}.{year}",
    ),
)  # fmt: skip

FRENCH = DateLocale(
    months=("janvier", "février", "mars", "avril", "mai", "juin",
            "juillet", "août", "septembre", "octobre", "novembre", "décembre"),
    short_months=("janv.", "févr.", "mars", "avr.", "mai", "juin", "juil.", "août", "sept.", "oct.", "nov.", "déc."),
    weekdays=("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche"),
    short_weekdays=("lun.", "mar.", "mer.", "jeu.", "ven.", "sam.", "dim."),
    styles=(
        "{premier} {month} {year}", "{premier} {short_month} {year}", "le {premier} {month} {year}",
        "{weekday} {premier} {month} {year}", "le {weekday} {premier} {month} {year}",
        "{short_weekday} {premier} {short_month} {year}",
    ),
)  # fmt: skip

SPANISH = DateLocale(
    months=("enero", "febrero", "marzo", "abril", "mayo", "junio",
            "julio", "agosto", "septiembre", "octubre", "noviembre", "diciembre"),
    short_months=("ene", "feb", "mar", "abr", "may", "jun", "jul", "ago", "sept", "oct", "nov", "dic"),
    weekdays=("lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo"),
    short_weekdays=("lun", "mar", "mié", "jue", "vie", "sáb", "dom"),
    styles=(
        "{day} de {month} de {year}", "{day} de {month} del {year}", "el {day} de {month} de {year}",
        "{weekday}, {day} de {month} de {year}", "el {weekday} {day} de {month} de {year}",
        "{day} {short_month} {year}", "{short_weekday}, {day} {short_month} {year}",
    ),
)  # fmt: skip

KOREAN = DateLocale(
    months=("일월", "이월", "삼월", "사월", "오월", "유월", "칠월", "팔월", "구월", "시월", "십일월", "십이월"),
    weekdays=("월요일", "화요일", "수요일", "목요일", "금요일", "토요일", "일요일"),
    short_weekdays=("월", "화", "수", "목", "금", "토", "일"),
    styles=(
        "{year}년 {number}월 {day}일", "{year}년 {number}월 {day}일 {weekday}",
        "{year}년 {number}월 {day}일({short_weekday})",
        "{year}. {number}. {day}.", "{year}. {number}. {day}. ({short_weekday})",
        "{korean_year}년 {month} {korean_day}일", "{korean_year}년 {month} {korean_day}일 {weekday}",
    ),
)  # fmt: skip

LANGUAGES = {"ko": KOREAN, "en": ENGLISH, "de": GERMAN, "fr": FRENCH, "es": SPANISH}


def split_dates(count: int, seed: int, held_out: int) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Returns `count` pairs, split into training and `held_out` test pairs that have no date in common, in any style.

    No two test pairs have the same date. Raises ConfigError if `count` is not in 1..500,000, or `held_out` is below 1,
    leaves nothing to train on, or takes more than a tenth of the 73,049 days.
    """
    if not 1 <= count <= MOST_PAIRS:
        raise ConfigError(f"`count` ({count}) must be from 1 to {MOST_PAIRS:,}")
    most = min(count - 1, NUMBER_OF_DAYS // 10)
    if not 1 <= held_out <= most:
        raise ConfigError(f"`held_out` ({held_out}) must be from 1 to {most} for {count} dates")
    generator = random.Random(seed)
    days = generator.sample(range(NUMBER_OF_DAYS), NUMBER_OF_DAYS)
    test = [_draw([day], 1, generator)[0] for day in days[:held_out]]
    return _draw(days[held_out:], count - held_out, generator), test


def write_parallel(pairs: Sequence[tuple[str, str]], folder: str | Path, stem: str) -> tuple[Path, Path]:
    """Writes the two sides, one pair per line, to `stem.written` and `stem.iso` in `folder`. Returns their paths."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    paths = Path(folder) / f"{stem}.written", Path(folder) / f"{stem}.iso"
    for side, path in enumerate(paths):
        path.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8", newline="\n")
    return paths


def write_date(day: date, language: DateLocale, style: str) -> str:
    """Returns the date in one of the language's styles."""
    return style.format(
        year=day.year,
        number=day.month,
        day=day.day,
        month=language.months[day.month - 1],
        short_month=language.short_months[day.month - 1],
        weekday=language.weekdays[day.weekday()],
        short_weekday=language.short_weekdays[day.weekday()],
        ordinal=english_ordinal(day.day),
        premier="1er" if day.day == 1 else day.day,
        korean_year=sino_korean(day.year),
        korean_day=sino_korean(day.day),
    )


def english_ordinal(number: int) -> str:
    """Returns a number as an English ordinal: 1st, 2nd, 3rd, 4th, 11th, 21st."""
    teens = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def sino_korean(number: int) -> str:
    """Returns a number from 1 to 9999 in Sino-Korean numerals: a one is not said before ten, hundred and thousand."""
    words = ""
    for value, unit in ((1000, "천"), (100, "백"), (10, "십"), (1, "")):
        digit = number // value % 10
        if digit:
            words += ("" if digit == 1 and unit else " 일이삼사오육칠팔구"[digit]) + unit
    return words


def _draw(days: Sequence[int], count: int, generator: random.Random) -> list[tuple[str, str]]:
    """Samples different pairs of the given days, counted from FIRST_DAY; languages are equally frequent."""
    languages = list(LANGUAGES.values())
    pairs: dict[tuple[str, str], None] = {}  # a set that keeps its order
    while len(pairs) < count:
        day = FIRST_DAY + timedelta(days=generator.choice(days))
        language = generator.choice(languages)
        pairs[write_date(day, language, generator.choice(language.styles)), day.isoformat()] = None
    return list(pairs)
