"""The parts of a text that a translation must contain unchanged, and text that only looks like them."""

import pytest

from pellucid.errors import ConfigError, DataError
from pellucid.text.protected import compile_patterns, find_protected


@pytest.mark.parametrize(
    ("text", "kind", "spans"),
    [
        ("Es sind %s, %d, %5.2f, %-10s und %lu", "printf", ["%s", "%d", "%5.2f", "%-10s", "%lu"]),
        ("%(name)s hat %1$s von %2$d, %@ und %1", "printf", ["%(name)s", "%1$s", "%2$d", "%@", "%1"]),
        ("{0} von {name}, {}, {0:.2f}", "brace", ["{0}", "{name}", "{}", "{0:.2f}"]),
        ("{x!r}, {a.b[0]}", "brace", ["{x!r}", "{a.b[0]}"]),
        ("{{name}} ${x} %{count} #{id}", "brace", ["{{name}}", "${x}", "%{count}", "#{id}"]),
        ("Hallo {{ user.name }}!", "brace", ["{{ user.name }}"]),
        ("{n, plural, one {# file} other {# files}} da", "brace", ["{n, plural, one {# file} other {# files}}"]),
        ("am {when, date, short} um", "brace", ["{when, date, short}"]),
        ("Siehe https://x.org/a_(b)?q=1&r=%20. Und", "url", ["https://x.org/a_(b)?q=1&r=%20"]),
        ("(siehe http://x.org/a), www.example.org!", "url", ["http://x.org/a", "www.example.org"]),
        ("An a.b+c@mail.example.org, bitte.", "mail", ["a.b+c@mail.example.org"]),
        ("Öffne readme.md, src/main.py und Foto-1.JPG.", "file", ["readme.md", "src/main.py"]),
        ("In /etc/hosts, ~/bin, ../a/b und C:\\Temp\\x.", "path", ["/etc/hosts", "~/bin", "../a/b", "C:\\Temp\\x"]),
        ("Gib `git add .` ein, ``a`b``.", "code", ["`git add .`", "``a`b``"]),
        ("Ein 5 km langer Weg, 2,5 kg, 30 °C, 90 km/h", "number", ["5 km", "2,5 kg", "30 °C", "90 km/h"]),
        ('<b class="x">a</b><br/>', "tag", ['<b class="x">', "</b>", "<br/>"]),
        ("a&nbsp;b&#160;c<!-- d -->", "tag", ["&nbsp;", "&#160;", "<!-- d -->"]),
        ("Ja 😀 👍🏽 🇩🇪 👨‍👩‍👧 ✓ ❤️", "emoji", ["😀", "👍🏽", "🇩🇪", "👨‍👩‍👧", "✓", "❤️"]),
    ],
)  # fmt: skip
def test_spans_are_found(text: str, kind: str, spans: list[str]) -> None:
    found = find_protected(text)
    assert [text[span.start : span.end] for span in found] == spans
    assert {span.kind for span in found} == {kind}


@pytest.mark.parametrize(
    "text",
    [
        "Ein Hund läuft über die Wiese.",
        "100 % der Fälle, 100%ig, 50 % sind da, 5% davon",
        "a < b und c > d, 3<4, und/oder, 24/7, er/sie/es",
        "Um 10:30 Uhr kamen 12 Männer, z. B. um 3.5 oder 1.000 herum.",
        "Haus.So ging es. e.g. this, Dr.Who",
        "{Ein ganzer Satz in Klammern.} Müller & Söhne, AT&T; ja",
        "5 Männer, 3 Kinder, Klasse 5 A, 10 min",
        "@name und #thema",
    ],
)
def test_plain_text_has_no_span(text: str) -> None:
    assert find_protected(text) == []


def test_patterns_of_the_user_go_first_and_overlap_nothing() -> None:
    text = "Der Typ AB-12 kostet 5 km, siehe https://x.org/AB-13"
    found = find_protected(text, compile_patterns([r"[A-Z]{2}-\d+"]))
    assert [(text[span.start : span.end], span.kind) for span in found] == [
        ("AB-12", "kept"), ("5 km", "number"), ("AB-13", "kept"),
    ]  # fmt: skip
    assert [span.kind for span in find_protected(text, compile_patterns(["AB"]), known=False)] == ["kept", "kept"]


@pytest.mark.slow
def test_a_pattern_without_end_is_an_error() -> None:
    patterns = compile_patterns([r"(?:(?:a|b|ab)*)*(?:c|d)(?=z)"])
    with pytest.raises(DataError, match=r"in `keep=` takes more than 1 s on the line `abab"):
        find_protected("ab" * 3000, patterns)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", r'`keep="\("` is not a regular expression: missing \)'),
        ("", "the pattern in `keep=` has 0 characters, and must have 1 to 1,000"),
        ("a" * 1001, "the pattern in `keep=` has 1,001 characters, and must have 1 to 1,000"),
    ],
)
def test_invalid_patterns_are_errors(pattern: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compile_patterns([pattern])
