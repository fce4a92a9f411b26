"""Repairs: what an accident did to a text is undone, once and for all, and what only looks like one is left alone."""

import pytest

from pellucid.data.characters import decode_twice_encoded, is_encoded_twice
from pellucid.data.repairs import REPAIRED, Repairs
from tests.unit.data.test_characters import TEXTS

ALL = Repairs(frozenset(REPAIRED), "nfc")
PLAIN = "A dog runs."


def twice(text: str, encoding: str) -> str:
    """Returns a text as a program writes it that takes UTF-8 for `encoding`; what that lacks stays as it is."""
    missing = dict.fromkeys((0x81, 0x8D, 0x8F, 0x90, 0x9D) if encoding == "cp1252" else ())
    return "".join(chr(byte) if byte in missing else bytes([byte]).decode(encoding) for byte in text.encode())


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
@pytest.mark.parametrize("text", TEXTS)
def test_text_encoded_twice_becomes_what_it_was(text: str, encoding: str) -> None:
    assert ALL.repair(twice(text, encoding), PLAIN) == (text, PLAIN, ["mojibake"])
    assert ALL.repair(PLAIN, twice(twice(text, "latin-1"), encoding))[1] == text, "twice as often"


@pytest.mark.parametrize("text", TEXTS)
def test_whole_text_stays(text: str) -> None:
    assert ALL.repair(text, text) == (text, text, [])


@pytest.mark.parametrize(
    ("line", "repaired"),
    [("Der Müller mahlt fÃ¼r Åse", "Der Müller mahlt für Åse"), ("Itâ€™s “mixed” — 日本", "It’s “mixed” — 日本")],
)
def test_a_part_of_a_line_becomes_what_it_was(line: str, repaired: str) -> None:
    assert decode_twice_encoded(line) == repaired
    assert not is_encoded_twice(repaired)


@pytest.mark.parametrize(
    ("line", "repaired", "faults"),
    [
        ("a &quot;b&quot; &amp; it &apos;s", 'a "b" & it \'s', ["markup"]),  # as Moses writes them
        ("&#91; a &#124; b &#93;", "[ a | b ]", ["markup"]),
        ("x &amp;lt; y &amp;amp; z", "x < y & z", ["markup"]),  # escaped more than once
        ("fr&uuml;h &frac12; &#x20AC;&nbsp;5", "früh ½ €\xa05", ["markup"]),
        ("a&#10;b&#x2028;c", "a b c", ["markup"]),  # never a second line
        ("&lt;b&gt;bold&lt;/b&gt;", "bold", ["markup"]),
        ("<p>One <b>bold</b> word<br/>here</p>", "One bold word here", ["markup"]),
        ('<A HREF="x y">link</A> [b]bold[/b] [url=http://a]u[/url]<!-- no -->', "link bold u", ["markup"]),
        ("f&Atilde;&frac14;r", "für", ["markup", "mojibake"]),
        ("it\x92s \x93so\x94\x85", "it’s “so” ", ["control"]),  # Windows-1252 read as Latin-1
        ("a\0b\x1bc", "abc", ["control"]),
        # Nothing is repaired of what is left open, is no layout of a page, or is all there is.
        ("usage: mv <source> <target>", "usage: mv <source> <target>", []),
        ("Hi {{ name }}, &brand; AT&T R&D;", "Hi {{ name }}, &brand; AT&T R&D;", []),
        ("a < b and c > d, x <3 y", "a < b and c > d, x <3 y", []),
        ("<br>", "<br>", []),
        ("a\x0bb \ufeffc", "a\x0bb \ufeffc", []),  # the tokenizer evens these out
    ],
)  # fmt: skip
def test_lines(line: str, repaired: str, faults: list[str]) -> None:
    assert ALL.repair(line, PLAIN) == (repaired, PLAIN, faults)
    assert ALL.repair(PLAIN, line) == (PLAIN, repaired, faults), "on either side"
    assert ALL.repair(repaired, PLAIN) == (repaired, PLAIN, []), "done once is done"


@pytest.mark.parametrize(
    ("source", "target", "after"),
    [
        ("Ein Hund. https://a.example/1", PLAIN, ("Ein Hund.", PLAIN)),
        ("Ein Hund.", "A dog runs. (www.a.example, a@b.example)", ("Ein Hund.", PLAIN)),
        ("개가 달린다. https://a.example/가", PLAIN, None),  # something stands behind it
        ("Ein Hund: www.a.example/de", "A dog: www.a.example/en", ("Ein Hund", "A dog")),
        ("Mehr auf www.a.example", "More there", None),  # it is a part of the sentence
        ("https://a.example Ein Hund.", PLAIN, None),
        ("https://a.example", PLAIN, None),
        ("Ein großer Hund läuft auf https://a.example", "A large dog runs on https://a.example", None),  # no fault
    ],
)
def test_addresses_behind_a_sentence(source: str, target: str, after: tuple[str, str] | None) -> None:
    assert ALL.repair(source, target) == ((*after, ["address"]) if after else (source, target, []))


def test_only_what_is_asked_for_is_repaired() -> None:
    line = "<b>fÃ¼r</b> &amp; \x01"
    assert Repairs(frozenset({"copy", "mojibake"}), "nfc").repair(line, line)[0] == "<b>für</b> &amp; \x01"
    assert Repairs(frozenset(REPAIRED), "nfc", tags=False).repair(line, "")[0] == "<b>für</b> & "
    assert Repairs(frozenset(REPAIRED), "nfc", sides=1).repair(line, line) == (
        "für &", line, ["mojibake", "control", "markup"]
    )  # fmt: skip
