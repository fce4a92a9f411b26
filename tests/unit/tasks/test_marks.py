"""Marks in, marks out: as many, nested as before, none with words empty; and where they stand in known translations."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest

from pellucid.errors import DataError
from pellucid.tasks.mark_placement import choose_ranges, place_marks
from pellucid.tasks.marks import Mark, MarkedText, MarkedTranslation, translate_marked
from pellucid.tasks.translator import Translator
from pellucid.tasks.word_alignment import PartAlignment, WordAlignment, split_words
from pellucid.tracing.cross_weights import record_cross_weights


def aligned(source: str, target: str, links: str) -> WordAlignment:
    """An alignment of the words and marks of two texts by links `source-target`."""
    sources, targets = (split_words(text, (0, len(text))) for text in (source, target))
    weights = np.zeros((len(targets), len(sources)), dtype=np.float32)
    for link in links.split():
        i, j = map(int, link.split("-"))
        weights[j, i] = 1
    return WordAlignment([PartAlignment(sources, targets, weights)])


def marked(text: str) -> MarkedText:
    """A text whose marks are written as [words] or | for an empty one."""
    plain, marks, begun = "", list[Mark | None](), list[tuple[int, int]]()
    for character in text:
        if character == "[":
            begun.append((len(marks), len(plain)))
            marks.append(None)
        elif character == "]":
            number, start = begun.pop()
            marks[number] = Mark(start, len(plain))
        elif character == "|":
            marks.append(Mark(len(plain), len(plain)))
        else:
            plain += character
    return MarkedText(plain, tuple(mark for mark in marks if mark is not None))


def shown(found: MarkedTranslation) -> list[str]:
    """What each mark is around; of an empty one the text before and after."""
    return [
        found.text[m.start : m.end] if m.start < m.end else f"{found.text[: m.start]}|{found.text[m.end :]}"
        for m in found.marks
    ]


@pytest.mark.parametrize(
    ("source", "target", "links", "marks"),
    [
        ("Ein [roter] Hut.", "A red hat.", "0-0 1-1 2-2 3-3", ["red"]),
        ("[Ein roter Hut.]", "A red hat.", "", ["A red hat."]),
        ("Ein [roter Hut].", "A red hat.", "0-0 1-1 2-2 3-3", ["red hat"]),
        ("Ein [roter Hut.]", "A red hat.", "0-0 1-1 2-2 3-3", ["red hat."]),
        ("Der Hut ist [(rot)].", "The hat is (red).", "0-0 1-1 2-2 3-3 4-4 5-5 6-6", ["(red)"]),
        ("Der Hut ist ([rot]).", "The hat is (red).", "0-0 1-1 2-2 3-3 4-4 5-5 6-6", ["red"]),
        ("Das [rote Auto] da", "that car of red colour", "0-0 2-1 2-2 1-3 2-4 3-0", ["car of red colour"]),
        ("Er [rief] [mich] an.", "He called me up.", "0-0 1-1 2-2 3-3 4-4", ["called", "me"]),
        ("[a] [b] [c]", "C B A", "2-0 1-1 0-2", ["A", "B", "C"]),
        ("[a [b]] c", "C B A", "2-0 1-1 0-2", ["B A", "B"]),
        ("[Hunde]| laufen", "Dogs run", "0-0 1-1", ["Dogs", "Dogs| run"]),
        ("Hunde| laufen.", "Running dogs.", "0-1 1-0 2-2", ["Running dogs|."]),
        ("Hunde laufen.| Ja", "Dogs run. Yes", "0-0 1-1 2-2 3-3", ["Dogs run.| Yes"]),
        ("|Hunde laufen", "Run, dogs", "0-2 1-0", ["|Run, dogs"]),
        ("Hunde laufen|", "Run, dogs", "0-2 1-0", ["Run, dogs|"]),
        ("Alle |Hunde laufen", "Running all dogs", "0-1 1-2 2-0", ["Running all |dogs"]),
        ("  [Hunde] laufen ", "dogs run", "0-0 1-1", ["dogs"]),
        ("[  Hunde] laufen ", "dogs run", "0-0 1-1", ["  dogs"]),
        ("Ja[, aber] nein[!]", "Yes, but no!", "0-0 1-1 2-2 3-3 4-4", [", but", "!"]),
    ],
)  # fmt: skip
def test_marks_stand_where_their_words_went(source: str, target: str, links: str, marks: list[str]) -> None:
    text = marked(source)
    assert shown(place_marks(text, target, aligned(text.text, target, links))) == marks


def test_a_stray_word_does_not_widen_a_mark() -> None:
    text = marked("Ein [roter] Hut liegt hier")
    found = place_marks(
        text, "A red hat lies there now", aligned(text.text, "A red hat lies there now", "0-0 1-1 2-2 3-3 4-4 1-5")
    )
    assert shown(found) == ["red"]


def test_marks_that_no_word_looks_at_are_flagged() -> None:
    text = marked("Ein [sehr] roter Hut")
    found = place_marks(text, "A red hat", aligned(text.text, "A red hat", "0-0 2-1 3-2"))
    assert found.flags == ("mark 1 stands around the nearest word: no word of the translation looks at it",)
    assert len(shown(found)[0].split()) == 1


def test_marks_beyond_the_words_share_one() -> None:
    text = marked("[a] [b] [c]")
    found = place_marks(text, "xyz", aligned(text.text, "xyz", "0-0 1-0 2-0"))
    assert sorted(shown(found)) == ["x", "y", "z"]
    assert len(found.flags) == 3


@pytest.mark.parametrize("target", ["", "  ", "xy"])
def test_a_translation_without_room_for_the_marks_is_the_source(target: str) -> None:
    text = marked("[a] [b] [c]")
    found = place_marks(text, target, aligned(text.text, target, ""))
    assert (found.text, found.marks) == (text.text, text.marks)
    assert found.flags == ("the translation has no room for the marks: the source is kept",)


@dataclass
class Element:
    """A mark as its owner knows it: with its children, in order."""

    start: int
    end: int = 0
    number: int = 0
    children: list["Element"] = field(default_factory=list)


def draw_elements(draw: random.Random, text: str) -> tuple[Element, tuple[Mark, ...]]:
    """Random elements over a text, and their marks; many are empty, at the same place, or end at the same place."""
    marks: list[Mark] = []
    elements: list[Element] = []

    def fill(parent: Element, end: int, depth: int) -> None:
        place = parent.start
        for _ in range(draw.randint(0, 3)):
            start = draw.choice([place, draw.randint(place, end)])
            stop = draw.choice([start, end, draw.randint(start, end)])
            child = Element(start, stop, len(marks))
            marks.append(Mark(start, stop))
            elements.append(child)
            parent.children.append(child)
            if depth < 3:
                fill(child, stop, depth + 1)
            place = stop

    root = Element(0, len(text), -1)
    fill(root, len(text), 0)
    return root, tuple(marks)


def assert_nested(root: Element, found: MarkedTranslation) -> None:
    """A child is inside its parent, and children of a parent share no character."""
    ends = {-1: (0, len(found.text)), **{n: (m.start, m.end) for n, m in enumerate(found.marks)}}

    def check(element: Element) -> None:
        low, high = ends[element.number]
        places = [ends[child.number] for child in element.children]
        assert all(low <= a <= b <= high for a, b in places)
        for number, (a, b) in enumerate(places):
            for c, d in places[number + 1 :]:
                assert b <= c or d <= a, (places, found)
        for child in element.children:
            check(child)

    check(root)


WORDS = ["ab", "c", "Ding", "x.", "(y", "z)", ",", "…", "d-e", "5,3", "ü"]


@pytest.mark.parametrize("seed", range(6))
def test_marks_keep_their_number_and_nesting_and_are_never_empty(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(250):
        source = draw.choice(["", " ", "\n"]) + draw.choice([" ", "  "]).join(draw.choices(WORDS, k=draw.randint(0, 7)))
        target = " ".join(draw.choices(WORDS, k=draw.randint(0, 7)))
        root, marks = draw_elements(draw, source)
        sources, targets = (split_words(text, (0, len(text))) for text in (source, target))
        weights = np.array(
            [[draw.choice([0, 0, 1, draw.random()]) for _ in sources] for _ in targets], dtype=np.float32
        ).reshape(len(targets), len(sources))
        parts = [PartAlignment(sources, targets, weights, known=draw.random() < 0.9)] if draw.random() < 0.9 else []
        found = place_marks(MarkedText(source, marks), target, WordAlignment(parts))
        assert len(found.marks) == len(marks)
        assert_nested(root, found)
        for before, after in zip(marks, found.marks, strict=True):
            if source[before.start : before.end].strip():
                assert found.text[after.start : after.end].strip(), (source, target, before, found)
            elif before.start == before.end:
                assert after.start == after.end
        if source.strip() and target.strip() and not found.flags:
            assert found.text.strip() == target.strip()


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ((Mark(0, 9),), "mark 1 of text 2 is from 0 to 9, and the text has 5 characters"),
        ((Mark(2, 1),), "mark 1 of text 2 is from 2 to 1, and the text has 5 characters"),
        ((Mark(2, 3), Mark(0, 1)), "mark 2 of text 2 begins at 0, before mark 1 at 2"),
        ((Mark(0, 3), Mark(2, 5)), "mark 2 of text 2 is from 2 to 5, and overlaps the mark from 0 to 3"),
        ((Mark(0, 1), Mark(0, 3)), "mark 2 of text 2 is from 0 to 3, and overlaps the mark from 0 to 1"),
    ],
)
def test_marks_that_do_not_nest_are_refused(translator: Translator, marks: tuple[Mark, ...], message: str) -> None:
    with pytest.raises(DataError) as raised:
        translate_marked(translator, [MarkedText("a b c"), MarkedText("a b c", marks)])
    assert raised.value.args[0] == message


def best_ranges_by_trial(scores: Sequence[np.ndarray], needs: Sequence[int], to_end: bool) -> float:
    """The best sum of ranges that follow each other, by trying all."""
    size = len(scores[0])

    def best(number: int, start: int) -> float:
        if number == len(scores):
            return 0.0
        return max(
            (
                float(scores[number][a:b].sum()) + best(number + 1, b)
                for a in range(start, size + 1)
                for b in range(a + needs[number], size + 1)
                if not to_end or number < len(scores) - 1 or b == size
            ),
            default=-np.inf,
        )

    return best(0, 0)


def test_ranges_are_the_best_of_all() -> None:
    draw = random.Random(3)
    for _ in range(150):
        size, count = draw.randint(1, 6), draw.randint(1, 3)
        scores = [np.array([draw.uniform(-1, 1) for _ in range(size)]) for _ in range(count)]
        needs = [draw.randint(1, 2) for _ in range(count)]
        to_end = draw.random() < 0.3
        found = choose_ranges(scores, needs, to_end=to_end)
        wanted = best_ranges_by_trial(scores, needs, to_end)
        if found is None:
            assert wanted == -np.inf
            continue
        assert sum(float(s[a:b].sum()) for s, (a, b) in zip(scores, found, strict=True)) == pytest.approx(wanted)
        assert all(b - a >= need for (a, b), need in zip(found, needs, strict=True))
        assert all(b <= c for (_, b), (c, _) in pairwise(found))


@pytest.mark.parametrize("head", [(0, 1), None])
def test_cross_weights_are_those_of_a_trace(translator: Translator, head: tuple[int, int] | None) -> None:
    trace = translator.trace("a b c d", "d c b a")
    cross, config = trace["cross"], translator.config
    source = [*translator.tokenizers.source.encode("a b c d"), config.eos_id]
    target = [config.bos_id, *translator.tokenizers.target.encode("d c b a")]
    found = record_cross_weights(translator.model, [(source, target), (source[1:], target[:-1])], head)
    assert found is not None
    heads = range(cross.num_heads)
    wanted = cross.weights(*head) if head else np.mean([cross.weights(0, h) for h in heads], axis=0)
    np.testing.assert_allclose(found[0], wanted, atol=1e-6)
    assert found[1].shape == (4, 4)
    (alone,) = record_cross_weights(translator.model, [(source[1:], target[:-1])], head) or []
    np.testing.assert_allclose(found[1], alone, atol=1e-6)  # in a batch with a longer pair, it is padded


def test_the_attention_of_a_model_aligns_each_sentence_by_itself(translator: Translator) -> None:
    line = " a  b c\nd e "
    (found,) = translator.translate([line])
    alignment = translator.aligner.align(line, found, translator.configure())
    assert [[line[a:b] for a, b in part.sources] for part in alignment.parts] == [["a", "b", "c"], ["d", "e"]]
    assert [found.text[a:b] for part in alignment.parts for a, b in part.targets] == found.text.split()
    assert all(part.known for part in alignment.parts)
    for part, sentence in zip(alignment.parts, found.sentences, strict=True):
        trace = translator.trace(sentence.source, sentence.text)
        head = translator.aligning_head
        assert head is not None
        rows = trace["cross"].weights(head.layer, head.head)
        later = int(head.row == "reads")
        np.testing.assert_allclose(
            part.weights, rows[later : later + len(part.targets), : len(part.sources)], atol=1e-6
        )


def test_translations_that_are_aligned_together_are_aligned_as_each_by_itself(translator: Translator) -> None:
    lines = ["a b c", "", " a  b c\nd e ", "h g f e d c b a", "e"]
    found, decode = translator.translate(lines), translator.configure()
    together = translator.aligner.align_all([*zip(lines, found, strict=True)], decode)
    for line, translation, each in zip(lines, found, together, strict=True):
        alone = translator.aligner.align(line, translation, decode)
        assert [(part.sources, part.targets) for part in each.parts] == [
            (part.sources, part.targets) for part in alone.parts
        ]
        for part, other in zip(each.parts, alone.parts, strict=True):
            np.testing.assert_allclose(part.weights, other.weights, atol=1e-6)


def test_marks_of_a_trained_model(translator: Translator) -> None:
    texts = [
        MarkedText("a b c d", (Mark(0, 7), Mark(2, 3), Mark(4, 4))),
        MarkedText("e f"),
        MarkedText("", (Mark(0, 0),)),
    ]
    found = translate_marked(translator, texts, min_length=4)
    plain = [one.text for one in translator.translate([text.text for text in texts], min_length=4)]
    assert [one.text for one in found] == plain
    assert shown(found[0])[0] == plain[0]
    assert len(shown(found[0])[1]) == 1
    assert found[1].marks == ()
    assert found[2].marks == (Mark(0, 0),)


def test_flags_of_translations_are_handed_on_and_a_kept_source_keeps_its_marks(translator: Translator) -> None:
    text = MarkedText("a b c", (Mark(2, 3), Mark(3, 5)))
    (found,) = translate_marked(translator, [text], min_confidence=1.0)
    (alone,) = translator.translate([text.text], min_confidence=1.0)
    assert (found.text, found.marks) == (text.text, text.marks)
    assert found.flags == tuple(f"{flag.name}: {flag.evidence}" for flag in alone.flags)
    assert found.flags[-1].endswith("is below 1: the source is kept")
