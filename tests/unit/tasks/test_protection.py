"""Protected spans: in the translation as often as in the line, or the line is flagged."""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from pellucid.errors import ConfigError
from pellucid.tasks import protection
from pellucid.tasks.protection import ProtectedLine, protect_lines, search_again
from pellucid.tasks.search_options import SearchOptions
from pellucid.tasks.translation import Translation
from pellucid.tasks.translator import Translator
from pellucid.tasks.word_alignment import PartAlignment, WordAlignment, split_words
from pellucid.text.protected import find_protected
from pellucid.text.training_text import TrainingTextStats


def translate_words(line: str, turn: bool = False) -> Translation:
    """A translation in capitals, word by word; turned round if `turn`."""
    words = [line[a:b].upper() for a, b in split_words(line, (0, len(line)))]
    return Translation(" ".join(words[::-1] if turn else words), 0.0, [])


def align_words(line: str, found: Translation, turn: bool = False) -> WordAlignment:
    sources, targets = split_words(line, (0, len(line))), split_words(found.text, (0, len(found.text)))
    links = np.eye(len(sources), dtype=np.float32)
    return WordAlignment([PartAlignment(sources, targets, links[::-1] if turn else links)])


def through(line: str, turn: bool = False) -> Translation:
    protected = ProtectedLine.from_spans(line, find_protected(line))
    return protected.restore(
        translate_words(protected.rest.text, turn), lambda text, found: align_words(text, found, turn)
    )


@pytest.mark.parametrize(
    ("line", "rest", "translation"),
    [
        ("es sind {0} hunde", "es sind hunde", "ES SIND {0} HUNDE"),
        ("{0} hunde", "hunde", "{0} HUNDE"),
        ("hunde {0}", "hunde ", "HUNDE {0}"),
        ("es ({0}) sind", "es sind", "ES ({0}) SIND"),
        ("der {0}-hut ist", "der hut ist", "DER {0}-HUT IST"),
        ("es sind %s %s hunde", "es sind hunde", "ES SIND %s %s HUNDE"),
        ("ein <b>roter</b> hut", "ein roter hut", "EIN <b>ROTER</b> HUT"),
        ("<i>ein <b>hut</b></i> da", "ein hut da", "<i>EIN <b>HUT</b></i> DA"),
        ("<b>ein {0}</b> da", "ein da", "<b>EIN {0}</b> DA"),
        ("a <b>{0}</b> b", "a b", "A <b>{0}</b> B"),
        ("</b>ein hut<b>", "ein hut", "</b>EIN HUT<b>"),
        ("ein<br/> hut", "ein hut", "EIN<br/> HUT"),
        ("{0} / {1} %s", "", "{0} / {1} %s"),
    ],
)
def test_spans_stand_between_the_same_words(line: str, rest: str, translation: str) -> None:
    assert ProtectedLine.from_spans(line, find_protected(line)).rest.text == rest
    assert through(line).text == translation


def test_spans_follow_their_words() -> None:
    assert through("ein <b>roter</b> hut <i>liegt</i> da", turn=True).text == "DA <i>LIEGT</i> HUT <b>ROTER</b> EIN"
    assert through("ein %s roter hut", turn=True).text == "HUT %s ROTER EIN"


KINDS = [
    "%s", "%(name)d", "{0}", "{{name}}", "${x}", "%{count}", "https://example.org/a?b=1", "a.b@example.org", "main.py",
    "`git add`", "5 km", "😀", "<br/>", "{n, plural, one {# b} other {# c}}", "<b>", "</b>", "<i>", "</i>",
]  # fmt: skip


@pytest.mark.parametrize("turn", [False, True])
def test_each_planted_span_is_there_as_often_or_the_line_is_flagged(turn: bool) -> None:
    draw = random.Random(5)
    flagged = 0
    for _ in range(400):
        parts = draw.choices(["ein", "Hund", "läuft", ",", "über", "Wiese", "."], k=draw.randint(0, 7))
        for _ in range(draw.randint(1, 5)):
            parts.insert(draw.randint(0, len(parts)), draw.choice(KINDS))
        line = "".join(part + draw.choice([" ", " ", ""]) for part in parts)
        written = [line[span.start : span.end] for span in find_protected(line)]
        found = through(line, turn)
        flagged += bool(found.flags)
        for span in written:
            assert found.text.count(span) >= written.count(span), (line, found.text)
    assert flagged <= 20


def test_a_line_whose_rest_has_no_translation_stands_for_it() -> None:
    line = ProtectedLine.from_spans("ein %s hut", find_protected("ein %s hut"))
    found = line.restore(Translation("", -1.0, []), align_words)
    assert found.text == "ein %s hut"
    assert found.to_json()["flags"] == [
        {"flag": "spans", "evidence": "the text around the spans has no translation: the source is kept"}
    ]


def test_the_next_of_the_n_best_is_taken_where_a_span_is_doubled() -> None:
    line = ProtectedLine.from_spans("ein %s hut", find_protected("ein %s hut"))
    first, second = Translation("A %s HAT", -1.0, []), Translation("EIN HUT", -2.0, [])
    found = line.restore(Translation("A %s HAT", -1.0, [], [first, second]), lambda text, found: WordAlignment())
    assert (found.text, found.score, found.flags) == ("EIN HUT %s", -2.0, ())


def search_for(line: str, answers: list[Translation]) -> tuple[Translation, list[SearchOptions], list[str]]:
    """The result of the further searches for a line, which find `answers` in turn; with their options and texts."""
    asked, texts = list[SearchOptions](), list[str]()

    def search(lines: Sequence[str], options: SearchOptions) -> list[Translation]:
        asked.append(options)
        texts.append(lines[0])
        return [answers[len(asked) - 1]]

    protected = ProtectedLine.from_spans(line, find_protected(line))

    def align(line: str, found: Translation) -> WordAlignment:
        return WordAlignment()

    lost = protected.restore(Translation("", -1.0, []), align)
    options = SearchOptions(terms={"hut": "hat"}, prefixes=["", "A"], n_best=1)
    (_, found) = search_again([protected, protected], [answers[-1], lost], options, search, align)
    return found, asked, texts


def test_more_hypotheses_of_the_rest_are_tried_first() -> None:
    wide = Translation("A %s HAT", -1.0, [], [Translation("A %s HAT", -1.0, []), Translation("EIN HUT", -2.0, [])])
    found, asked, texts = search_for("ein %s hut", [wide])
    assert (found.text, found.flags, len(found.alternatives)) == ("EIN HUT %s", (), 1)
    assert (texts, asked[0].n_best, asked[0].prefixes) == (["ein hut"], 5, ["A"])


def test_a_search_for_the_spans_precedes_the_source() -> None:
    twice = Translation("ein <b> <b>hut</b>", -3.0, [])
    empty, good = Translation("", -1.0, []), Translation("a <b>hat</b>", -4.0, [])
    found, asked, texts = search_for("ein <b>hut</b>", [empty, Translation("", -3.0, [], [twice, good])])
    assert (found.text, found.flags, texts) == ("a <b>hat</b>", (), ["ein hut", "ein <b>hut</b>"])
    assert asked[1].terms == [("hut", "hat"), ("<b>", "<b>"), ("</b>", "</b>")]
    wrong = Translation("a </b>hat<b>", -4.0, [])
    found, _, _ = search_for("ein <b>hut</b>", [empty, wrong])
    assert (found.text, [flag.name for flag in found.flags]) == ("ein <b>hut</b>", ["spans"])
    loop = Translation("a a a a <b>hat</b>", -4.0, [])
    assert search_for("ein <b>hut</b>", [empty, loop])[0].text == "ein <b>hut</b>"


def test_a_search_for_the_spans_by_a_model(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two attempts fail, so a real search must write the span itself; `#` is not in the vocabulary.

    The model of six steps writes nonsense around it, which would be flagged."""
    monkeypatch.setattr(protection, "flag_text", lambda *args, **options: [])
    restore = ProtectedLine.restore
    monkeypatch.setattr(
        ProtectedLine, "restore", lambda self, found, align: restore(self, Translation("", 0, []), align)
    )
    known, unknown = translator.translate(["a h b", "a ### b"], protect="off", keep=["h", "###"], n_best=2)
    assert known.text != "a h b"
    assert known.text.count("h") == 1
    assert not known.flags
    assert 1 <= len(known.alternatives) <= 2
    assert (unknown.text, [flag.name for flag in unknown.flags]) == ("a ### b", ["spans"])


def test_spans_of_a_trained_model(translator: Translator) -> None:
    lines = ["a b %s c", "<b>a</b> c", "a b c", "{0}", "d 😀"]
    found = translator.translate(lines, n_best=2, confidence=True)
    for line, one in zip(lines, found, strict=True):
        for span in find_protected(line):
            assert one.text.count(line[span.start : span.end]) == 1
        assert one.confidence is not None
    plain = translator.translate(["a b c", "a c"])
    assert found[2].text == plain[0].text
    assert translator.translate(lines, protect="off", keep="b")[2].text.count("b") >= 1
    assert [one.text for one in translator.translate(["a b %s c"], protect="off")] != [found[0].text]


def test_a_model_of_another_library_reads_whole_lines_unless_asked(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, off, on = "a b %s c", {"protect": "off"}, {"protect": "on"}
    for text in (None, TrainingTextStats(sentence_ends=1.0, several_sentences=0.0)):
        monkeypatch.setattr(translator, "text", text)
        assert translator.translate([line]) == translator.translate([line], **off)  # type: ignore[arg-type]
    assert translator.translate([line], **on)[0].text.count("%s") == 1  # type: ignore[arg-type]


def test_a_tag_that_is_a_token_of_the_model_stays(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "<b> a %s"
    taken = protect_lines([line], [find_protected(line)], SearchOptions(), translator.tokenizers.source)
    assert [one.opening for one in taken[0].taken] == ["<b>", "%s"]
    monkeypatch.setattr(type(translator.tokenizers.source), "tokens", lambda self, ids: ["<b>"])
    taken = protect_lines([line], [find_protected(line)], SearchOptions(), translator.tokenizers.source)
    assert [one.opening for one in taken[0].taken] == ["%s"]


def test_invalid_options_are_errors() -> None:
    with pytest.raises(ConfigError, match='`protect="of"` must be auto, on or off'):
        SearchOptions(protect="of")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="is not a regular expression"):
        SearchOptions(keep=["["])
