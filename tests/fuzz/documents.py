"""Documents of a size that a caller chooses: `tests/fuzz/growth.py` doubles the sizes."""

from collections.abc import Callable

from tests.unit.documents.archives import docx, epub, odt, pptx, run, slide, words, xlsx

Make = Callable[[int], tuple[str, bytes]]
"""Makes the name and the bytes of a document of so many units, or of a unit of so many pieces."""


def _text(name: str, content: Callable[[int], str]) -> Make:
    return lambda size: (name, content(size).encode())


def _archive(name: str, content: Callable[[int], bytes]) -> Make:
    return lambda size: (name, content(size))


def _each(form: str) -> Callable[[int], str]:
    """Returns the function that repeats a form, in which N is a number."""
    return lambda size: "".join(form.replace("N", str(number)) for number in range(size))


def _cue(number: int) -> str:
    clock = f"{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}"
    return f"{number}\n{clock},000 --> {clock},900\nEin Hund N\n\n".replace("N", str(number))


_RUNS = _each('<w:r><w:t xml:space="preserve">ein N </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>Hund</w:t></w:r>')
_UNIT = _each('<trans-unit id="N"><source>ein <g id="1">Hund</g> N</source></trans-unit>')
_XLIFF = '<xliff version="1.2"><file source-language="de" target-language="en"><body>{}</body></file></xliff>'

DOCUMENTS: dict[str, tuple[int, Make]] = {
    "html, blocks": (400, _text("x.html", _each("<p>Ein <b>Hund</b> N</p>\n"))),
    "html, marks of a block": (200, _text("x.html", _each("Ein <b>Hund</b> N "))),
    "html, blocks with titles": (300, _text("x.html", _each("<p>Ein <a title='ein Hut N'>Hund</a> N</p>"))),
    "html, titles of a block": (200, _text("x.html", _each("Ein <a title='ein Hut N'>Hund</a> N "))),
    "html, deep": (2000, _text("x.html", lambda n: "<b>" * n + "Ein Hund" + "</b>" * n)),
    "html, open tags": (2000, _text("x.html", _each("<b>Ein Hund N "))),
    "html, signs": (5000, _text("x.html", lambda n: "<" * n + "&" * n + "Ein Hund")),
    "md, paragraphs": (300, _text("x.md", _each("Ein *Hund* N\nmit `Hut`.\n\n"))),
    "md, one paragraph": (200, _text("x.md", _each("Ein *Hund* N\nmit `Hut`.\n"))),
    "md, brackets": (2000, _text("x.md", lambda n: "[" * n + "Ein Hund" + "]" * n)),
    "md, signs": (2000, _text("x.md", lambda n: "*a _b ~~c `d $e " * n)),
    "md, quotes": (2000, _text("x.md", lambda n: ">" * n + " Ein Hund\n")),
    "md, table": (300, _text("x.md", lambda n: "| A | B |\n|---|---|\n" + _each("| ein Hund N | eine Katze |\n")(n))),
    "txt, paragraphs": (400, _text("x.txt", _each("Ein Hund N\nund ein Hut.\n\n"))),
    "txt, one paragraph": (400, _text("x.txt", _each("Ein Hund N\n"))),
    "po": (300, _text("x.po", _each('msgid "ein %s Hund N"\nmsgstr ""\n\n'))),
    "po, one string": (1000, _text("x.po", lambda n: 'msgid ""\n' + _each('"ein Hund N "\n')(n) + 'msgstr ""\n')),
    "json": (500, _text("x.json", lambda n: "{" + _each('"kN": "ein {x} Hund N",')(n) + '"z": 1}')),
    "json, choices": (300, _text("x.json", lambda n: '"' + _each("{n, plural, one {ein Hund} other {# Hunde N}} ")(n) +
    '"')),
    "yaml": (200, _text("x.yaml", _each("kN: ein Hund N\n"))),
    "yaml, a block": (300, _text("x.yaml", lambda n: "k: >\n" + _each("  ein Hund N\n")(n))),
    "properties": (400, _text("x.properties", _each("kN=ein {0} Hund N\n"))),
    "properties, one value": (1000, _text("x.properties", lambda n: "k=" + _each("ein Hund N \\\n")(n) + "\n")),
    "srt": (300, _text("x.srt", lambda n: "".join(_cue(number) for number in range(n)))),
    "xliff": (200, _text("x.xliff", lambda n: _XLIFF.replace("{}", _UNIT(n)))),
    "docx, paragraphs": (200, _archive("x.docx", lambda n: docx(_each(f"<w:p>{run('Ein Hund N')}</w:p>")(n)))),
    "docx, runs of a paragraph": (100, _archive("x.docx", lambda n: docx(f"<w:p>{_RUNS(n)}</w:p>"))),
    "xlsx": (300, _archive("x.xlsx", lambda n: xlsx(_each("<si><t>ein Hund N</t></si>")(n), ""))),
    "pptx": (200, _archive("x.pptx", lambda n: pptx(
        {"ppt/slides/slide1.xml": slide(_each(f"<a:p>{words('ein Hund N')}</a:p>")(n))}))),
    "odt": (200, _archive("x.odt", lambda n: odt(_each("<text:p>Ein <text:span>Hund</text:span> N</text:p>")(n)))),
    "odt, notes of a paragraph": (100, _archive("x.odt", lambda n: odt("<text:p>" + _each(
        "Hund N<text:note><text:note-body><text:p>ein Hut N</text:p></text:note-body></text:note> ")(n) +
        "</text:p>"))),
    "epub": (200, _archive("x.epub", lambda n: epub(_each("<p>Ein <b>Hund</b> N</p>")(n)))),
}  # fmt: skip
"""For each subject its first size, and the document."""
