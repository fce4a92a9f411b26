"""Claim: cross-attention of the date model of `pellucid demo` aligns each field with its own: F1 of at least 0.9.

    python benchmarks/date_alignment.py pellucid-demo/run > date_alignment.json        (--dates 20: a trial of seconds)

Gold is known by construction. Dates are written from templates, so where the year, the month and the day stand in them
is known, as it is in the ISO form: a date has three gold links. What else is written (weekdays, `de`, `년`, full stops,
spaces) is cut at the fields, and each part is one more place that a link can wrongly go to. The dates are those that
the demo holds out of its training: one half chooses the head, the other half scores it. The decoder is given what it
should write.

Two measures. By field: the weights of a field's characters are summed and averaged as those of a word are. By
character: each digit of the ISO form is linked with one character of the written one, which is right where it stands
in the same field.
"""

import argparse
import string
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from report import circumstances, positive, print_json, refusals_in_words

from pellucid.analysis.aligning_head import Agreement, HeadAgreement, best_head, find_head, score_heads
from pellucid.analysis.alignment import Gold, LinkExtraction
from pellucid.data.dates import LANGUAGES, DateLocale, split_dates, write_date
from pellucid.demo import HELD_OUT, PAIRS, SEED
from pellucid.tasks.translator import Translator
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace

YEAR, MONTH, DAY = range(3)
FIELDS = {
    "year": YEAR, "korean_year": YEAR,
    "month": MONTH, "short_month": MONTH, "number": MONTH,
    "day": DAY, "ordinal": DAY, "premier": DAY, "korean_day": DAY,
}  # fmt: skip
ISO = [YEAR] * 4 + [None] + [MONTH] * 2 + [None] + [DAY] * 2
BY_FIELD = Gold(*[frozenset({(YEAR, YEAR), (MONTH, MONTH), (DAY, DAY)})] * 2)
METHODS: tuple[dict[str, Any], ...] = ({"method": "argmax"}, {"method": "mutual"}, {"method": "threshold"})


def fields_of(written: str, iso: str) -> list[int | None]:
    """The field that each character of a written date is part of."""
    day = date.fromisoformat(iso)
    for language in LANGUAGES.values():
        for style in language.styles:
            if write_date(day, language, style) == written:
                return [field for part, field in parts(day, language, style) for _ in part]
    raise ValueError(f"`{written}` is no way to write {iso}")


def parts(day: date, language: DateLocale, style: str) -> Iterator[tuple[str, int | None]]:
    """A template filled in, part by part, each with its field."""
    for literal, name, spec, _ in string.Formatter().parse(style):
        yield literal, None
        if name:
            yield write_date(day, language, f"{{{name}:{spec}}}"), FIELDS.get(name)


def numbered(tokens: Sequence[Token], fields: Sequence[int | None], keep_rest: bool) -> tuple[Token, ...]:
    """A token a character, with its field for its word; the rest is cut into words of its own, or cannot be aligned."""
    found, word, in_rest = [], DAY, False
    plain = [token for token in tokens if not token.special]
    if [len(token.text) for token in plain] != [1] * len(fields):
        raise ValueError("the model's tokens are not the characters of its text")
    for token, field in zip(plain, fields, strict=True):
        word += field is None and not in_rest
        in_rest = field is None
        found.append(replace(token, word=word if field is None else field, special=field is None and not keep_rest))
    return (*found, *(token for token in tokens if token.special))


def by_field(trace: Trace, written: str, iso: str) -> Trace:
    """The trace with fields for words. Hyphens of the ISO form belong to no field: they are not aligned."""
    src = numbered(trace.sequences["src"], fields_of(written, iso), keep_rest=True)
    out = numbered(trace.sequences["out"], ISO, keep_rest=False)
    return replace(trace, sequences={**trace.sequences, "src": src, "out": out})


def by_character(written: str, iso: str) -> Gold:
    """Any character of the field is right for a digit of it; no single one must be found."""
    digits = [field for field in ISO if field is not None]
    possible = {(i, j) for i, source in enumerate(fields_of(written, iso)) for j, f in enumerate(digits) if source == f}
    return Gold(frozenset(), frozenset(possible))


def table(row: HeadAgreement) -> dict[str, Any]:
    """A head with its rates to four digits."""
    rates = {name: round(value, 4) for name, value in row.agreement.to_json().items()}
    return {"layer": row.layer, "head": row.head, **rates}


def chosen_and_scored(traces: Sequence[Trace], options: dict[str, Any]) -> dict[str, Any]:
    """The head that is best on the first half of the dates, and what it comes to on the second."""
    half = len(traces) // 2
    extraction = LinkExtraction(**options)
    choosing, scoring = (
        score_heads(part, [BY_FIELD] * len(part), extraction) for part in (traces[:half], traces[half:])
    )
    best = best_head(choosing)
    return {
        **options,
        "chosen": table(best),
        "scored": table(next(row for row in scoring if (row.layer, row.head) == (best.layer, best.head))),
        "all_heads_scored": [table(row) for row in scoring],
    }


def without_gold(traces: Sequence[Trace]) -> dict[str, Any]:
    """The head that is found on the first half without any gold, and what it comes to on the second."""
    half = len(traces) // 2
    found = find_head(traces[:half])
    scoring = score_heads(traces[half:], [BY_FIELD] * (len(traces) - half), LinkExtraction(row=found.row))
    best = next(row for row in scoring if (row.layer, row.head) == (found.layer, found.head))
    return {"row": found.row, "same_from_both_sides": round(found.share, 4), "scored": table(best)}


def by_digit(traces: Sequence[Trace], gold: Sequence[Gold], row: str) -> dict[str, Any]:
    """By how many digits' links end in the right field: the best head on the first half, scored on the second."""
    half = len(traces) // 2
    extraction = LinkExtraction(row=row, level="tokens")  # type: ignore[arg-type]
    choosing = score_heads(traces[:half], gold[:half], extraction)
    scoring = score_heads(traces[half:], gold[half:], extraction)
    best = max((r for r in choosing if r.head is not None), key=lambda r: r.agreement.precision)
    found = next(r for r in scoring if (r.layer, r.head) == (best.layer, best.head)).agreement
    mean = sum((r.agreement for r in scoring if r.head is not None), Agreement())
    return {
        "row": row, "layer": best.layer, "head": best.head, "digits": found.links,
        "right": round(found.precision, 4), "right_mean_of_all_heads": round(mean.precision, 4),
    }  # fmt: skip


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", help="the run folder of a demo")
    parser.add_argument("--dates", type=positive, default=HELD_OUT, help="how many of those held out")
    args = parser.parse_args(argv)
    translator = Translator.load(args.run, "cpu")
    _, held_out = split_dates(PAIRS, SEED, HELD_OUT)
    pairs = held_out[: args.dates]
    traces = [by_field(translator.trace(*pair), *pair) for pair in pairs]
    characters = [by_character(*pair) for pair in pairs]
    rows = ("writes", "reads")
    print_json(
        {
            **circumstances(__file__, argv),
            "dates": {"choosing": len(pairs) // 2, "scoring": len(pairs) - len(pairs) // 2},
            "by_field": [chosen_and_scored(traces, {**method, "row": row}) for method in METHODS for row in rows],
            "by_field_found_without_gold": without_gold(traces),
            "by_character": [by_digit(traces, characters, row) for row in rows],
        }
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
