"""The text that a trace is of, put together from its tokens: what a page is called."""

import unicodedata
from collections.abc import Sequence

from pellucid.analysis.words import word_tokens
from pellucid.tracing.trace import Token, Trace

LONGEST = 160
"""Characters; what follows is left out."""


def text_of(trace: Trace) -> str:
    """The source and what was written for it, or the one or two texts that were read: "18.3.2016 → 2016-03-18"."""
    sides = [trace.sequences[name] for name in ("src", "out" if "src" in trace.sequences else "tgt")
             if name in trace.sequences]  # fmt: skip
    found = " → ".join(text for side in sides if (text := _joined(side)))
    return found if len(found) <= LONGEST else found[: LONGEST - 1].rstrip() + "…"


def _joined(tokens: Sequence[Token]) -> str:
    """Without special tokens. Where the vocabulary has no spaces of its own, words are set apart as people write."""
    usable = [token for token in tokens if not token.special][: 2 * LONGEST]
    spaced = any(token.written[:1].isspace() for token in usable)
    texts = [[token.written for token in word_tokens([one for one in usable if one.segment == s])] for s in (0, 1)]
    joined = ("".join(words) if spaced else _spaced(words) for words in texts)
    return " / ".join(unicodedata.normalize("NFC", " ".join(text.split())) for text in joined if text.strip())


def _spaced(words: Sequence[str]) -> str:
    """No space before punctuation, and none behind what opens or joins."""
    text = ""
    for word in words:
        closes = unicodedata.category(word[:1] or "a")[0] == "P" and word[:1] not in "([{¿¡"
        text += word if not text or closes or text[-1] in "([{¿¡-/'’" else f" {word}"
    return text
