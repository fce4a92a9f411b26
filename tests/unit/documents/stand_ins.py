"""Translators that are no models: an identity, one that changes letters, one that changes the order of words."""

from collections.abc import Sequence

from pellucid.documents.spans import Answer, TextSegment


def identity(segments: Sequence[TextSegment]) -> list[Answer]:
    """Returns each text as it is."""
    return [Answer(each.text, each.marks) for each in segments]


def uppercase(segments: Sequence[TextSegment]) -> list[Answer]:
    """Changes each letter whose capital is one letter: the marks stay where they are."""
    return [
        Answer("".join(c.upper() if len(c.upper()) == 1 else c for c in each.text), each.marks) for each in segments
    ]


def reverse_words(segments: Sequence[TextSegment]) -> list[Answer]:
    """Reverses the words; each mark is around the words that it was around, or before the word that it was before."""
    found = []
    for each in segments:
        words, at = [], 0
        for word in each.text.split(" "):
            words.append((at, at + len(word)))
            at += len(word) + 1
        places, at = {}, 0
        for start, end in reversed(words):
            places[start, end] = at
            at += end - start + 1
        marks = []
        for start, end in each.marks:
            inside = [word for word in words if word[0] < end and word[1] > start]
            if inside and end > start and each.text[start:end].strip():
                marks.append((min(places[w] for w in inside), max(places[w] + w[1] - w[0] for w in inside)))
            else:
                word = next((w for w in words if w[1] >= start), words[-1])
                marks.append((places[word], places[word]))
        found.append(Answer(" ".join(each.text[a:b] for a, b in reversed(words)), tuple(marks)))
    return found
