"""Documents with random changes, and translators with random answers."""

import io
import random
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pellucid.config import DecodeConfig
from pellucid.documents.document import open_document, read_document
from pellucid.errors import PellucidError
from pellucid.tasks.document_translation import translate_document
from pellucid.tasks.translation import Translation
from pellucid.tasks.word_alignment import WordAlignment, align_by_position
from tests.fuzz.changing import changed_bytes
from tests.fuzz.documents import DOCUMENTS
from tests.fuzz.real_documents import is_equal
from tests.fuzz.trying import Attempt
from tests.unit.documents.stand_ins import identity

FOLDER = Path(__file__).parents[1] / "fixtures" / "documents"
SIGNS = (
    "<", ">", "&", "&amp;", "&#0;", "&#x110000;", "&nbsp;", "<b>", "</b>", "<p>", "</p>", "<br/>", "<!--", "-->",
    "]]>", "<![CDATA[", "<?x", "<script>", "<a href='", '"', "'", "''", "\\", "\\n", "\\u12", "{", "}", "{0}",
    "{a, plural,", "#", "${x}", "%s", "%d", "%2$s", "%(a)s", "%", "|", "`", "```", "*", "**", "_", "[", "](", "![",
    "> ", "- ", "1. ", "---", "===", ": ", " #", "|\n", ">\n", "&x", "*x", "!!str ", "msgid ", 'msgstr ""\n', "#~ ",
    "00:01 --> 00:02", "1\n", "\n", "\n\n", "\r", "\r\n", "\t", "\f", "\0", "\x1b", "\x85", "\u2028", "\ufeff",
    "\ufffe", "\u200f", "\u00a0", "\u0301", "e\u0301", "\U0001f415", "안녕", "א", "x" * 2000, "a b " * 2000, "- [ ] ",
    "WEBVTT", "{\\an8}", "<v A>", "<ruby>", "<w:del>", "</w:r>", "<w:r>", "<a:br/>", "<text:s/>", "<x id='1'/>",
    "xml:lang='fr'", "translate='no'",
)  # fmt: skip
"""Signs that have a meaning in one of the formats, and characters that programs treat in another way."""
_TOKENS = re.compile(r"<[^<>]*>|\w+|\s+|.", re.DOTALL)


def documents(_: Path) -> Attempt:
    """A document with changes, translated: an output that is read again, or an error and no output."""
    whole = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir()) if path.is_file()}
    made = [make(4) for _, make in DOCUMENTS.values()]
    sound = [*whole.items(), *whole.items(), *made]

    def attempt(draw: random.Random, folder: Path) -> None:
        name, data = draw.choice(sound)
        path = folder / f"in-{name}"
        path.write_bytes(changed_document(data, draw))
        if draw.random() < 0.3:
            translate_by_identity(path)
            return
        out = folder / f"out-{name}"
        try:
            translate_document(Drawn(draw), path, out, label="en")
        except PellucidError:
            assert [each.name for each in folder.iterdir()] == [path.name], "a refused document has no output"
            raise
        assert {each.name for each in folder.iterdir()} == {path.name, out.name}
        try:
            open_document(out)
        except PellucidError as error:
            raise AssertionError(f"{name}: the translation is refused: {error}") from error

    return attempt


def translate_by_identity(path: Path) -> None:
    """Asserts that an identity returns a document as it is, but for empty translations that are filled."""
    data = path.read_bytes()
    document = read_document(data, path)
    for part in document.parts:
        part.reading.labels = [replace(label, is_own=False) for label in part.reading.labels]
    again, _ = document.translate(identity, "de")
    if not any(unit.fills for unit in document.units):
        assert is_equal(document, data, again), f"{path.name}: an identity changes it"


def changed_document(data: bytes, draw: random.Random) -> bytes:
    """Returns a document with changes; of most archives one member has them, and not the archive."""
    if data.startswith(b"PK") and draw.random() < 0.9:
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(data)) as file, zipfile.ZipFile(out, "w") as copy:
            chosen = draw.choice([info.filename for info in file.infolist() if info.file_size])
            for info in file.infolist():
                content = file.read(info)
                copy.writestr(info, _changed_text(content, draw) if info.filename == chosen else content)
        return out.getvalue()
    return changed_bytes(data, draw) if data.startswith(b"PK") else _changed_text(data, draw)


def _changed_text(data: bytes, draw: random.Random) -> bytes:
    """Returns a text with changes to its bytes, or with tokens that are gone, doubled, exchanged or new."""
    if draw.random() < 0.2:
        return changed_bytes(data, draw)
    tokens = _TOKENS.findall(data.decode("utf-8", "surrogateescape"))
    for _ in range(draw.choice((1, 1, 1, 2, 3, 10))):
        place, kind = draw.randrange(len(tokens)), draw.random()
        some = tokens[place : place + draw.choice((1, 1, 2, 5, 40))]
        if kind < 0.4:
            tokens[place : place + draw.choice((0, 1))] = [draw.choice(SIGNS)]
        elif kind < 0.55 and len(tokens) > len(some):
            del tokens[place : place + len(some)]
        elif kind < 0.7:
            tokens[place:place] = some * draw.choice((1, 1, 1, 30))
        elif kind < 0.9:
            other = draw.randrange(len(tokens))
            tokens[place], tokens[other] = tokens[other], tokens[place]
        else:
            tokens[draw.randrange(len(tokens)) :] = some
    return "".join(tokens).encode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class Drawn:
    """A translator whose translations and alignments are drawn: orders of words, signs of formats, no text at all."""

    draw: random.Random
    languages: Mapping[str, int] = ()  # type: ignore[assignment]
    pairs: tuple[str, ...] = ("de-en",)

    @property
    def aligner(self) -> "Drawn":
        """Returns this object, whose alignments are drawn as well."""
        return self

    def configure(self, _: object) -> DecodeConfig:
        """Returns the settings of no search."""
        return DecodeConfig()

    def translate(self, texts: Sequence[str], **_: object) -> list[Translation]:
        """Returns a drawn translation of each text."""
        return [Translation(self._answer(text), 0.0, []) for text in texts]

    def _answer(self, text: str) -> str:
        words, kind = text.split(" "), self.draw.random()
        if kind < 0.4:
            return text.upper()
        if kind < 0.6:
            self.draw.shuffle(words)
        elif kind < 0.7:
            words = words[: self.draw.randrange(len(words) + 1)]
        elif kind < 0.95:
            for _ in range(self.draw.choice((1, 1, 3))):
                words.insert(self.draw.randrange(len(words) + 1), self.draw.choice(SIGNS))
        else:
            words = [self.draw.choice(SIGNS)]
        return self.draw.choice((" ", " ", " ", "")).join(words)

    def align_all(self, lines: Sequence[tuple[str, Translation]], _: DecodeConfig) -> list[WordAlignment]:
        """Returns alignments by positions, or with drawn weights."""
        return [self._align(line, found.text) for line, found in lines]

    def _align(self, line: str, text: str) -> WordAlignment:
        parts = align_by_position(line, text, (0, len(line)), (0, len(text)))
        if self.draw.random() < 0.5:
            drawn = np.random.default_rng(self.draw.randrange(2**32))
            parts = [replace(part, weights=drawn.random(part.weights.shape, dtype=np.float32)) for part in parts]
        return WordAlignment(parts)
