"""Fragments of HTML and XML: text is translated, every other character stays."""

from collections.abc import Sequence

import pytest

from pellucid.documents.fragments import XmlTags, read_fragment
from pellucid.documents.spans import Answer, TextSegment
from pellucid.errors import DataError


def shout(segments: Sequence[TextSegment]) -> list[Answer]:
    """Translates into capitals, word by word."""
    return [Answer(each.text.upper(), each.marks) for each in segments]


def translated(text: str, tags: XmlTags | None = None) -> str:
    return read_fragment(text, tags).translate(shout)[0].decode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hund &amp; &lt;b&gt;", "HUND &amp; &lt;B&gt;"),
        ("<p title='a b' lang=\"de\">Ein <b>Hund</b>.</p>", "<p title='a b' lang=\"de\">EIN <b>HUND</b>.</p>"),
        ("<!-- Hund --><script>a < b</script>Hund", "<!-- Hund --><script>a < b</script>HUND"),
        ("<p>\n\tEin\n\tHund\n</p>", "<p>\n\tEIN HUND\n</p>"),
        ("Ein <Hund", "EIN <Hund"),
        ("", ""),
        ("<p translate=no>Hund</p><p>Hund", "<p translate=no>Hund</p><p>HUND"),
    ],
)
def test_html(text: str, expected: str) -> None:
    assert translated(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ein <k>Haus Nr. 5</k>, ein <m>Hund</m>.", "EIN <k>Haus Nr. 5</k>, EIN <m>HUND</m>."),
        ("<s>Ein Hund</s><s>Zwei</s>", "<s>EIN HUND</s><s>ZWEI</s>"),
        ("<!DOCTYPE a><a>Hund</a>", "<!DOCTYPE a><a>HUND</a>"),
        ("<?xml version='1.0'?>\n<a>Hund</a>", "<?xml version='1.0'?>\n<a>HUND</a>"),
        ("<x id='1'/> Hund <K>Hund</K>", "<x id='1'/> HUND <K>HUND</K>"),
        ("<k><k>a</k></k> Hund", "<k><k>a</k></k> HUND"),
    ],
)
def test_xml_by_the_meaning_of_its_tags(text: str, expected: str) -> None:
    assert translated(text, XmlTags(copied=("k",), splitting=("s",))) == expected


def test_a_splitting_tag_ends_a_sentence_and_others_do_not() -> None:
    seen: list[str] = []

    def record(segments: Sequence[TextSegment]) -> list[Answer]:
        seen.extend(each.text for each in segments)
        return shout(segments)

    read_fragment("<d><s>Ein <b>Hund</b></s><s>Zwei</s></d>", XmlTags(splitting=("s", "d"))).translate(record)
    assert seen == ["Ein Hund", "Zwei"]


@pytest.mark.parametrize(
    "text", ["a < b", "<a>", "</a>", "<a></b>", "&nope;", "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>"]
)
def test_xml_that_is_damaged_is_refused(text: str) -> None:
    with pytest.raises(DataError):
        read_fragment(text, XmlTags())
