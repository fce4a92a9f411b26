"""Small documents that are archives, made of the XML of their parts."""

import io
import zipfile
from collections.abc import Mapping

_X = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_REL = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_MAIN = "application/vnd.openxmlformats-officedocument"
_OOXML = "http://schemas.openxmlformats.org"
_WORD = (
    f'xmlns:w="{_OOXML}/wordprocessingml/2006/main" xmlns:r="{_REL}" xmlns:mc="{_OOXML}/markup-compatibility/2006" '
    f'xmlns:wp="{_OOXML}/drawingml/2006/wordprocessingDrawing" xmlns:a="{_OOXML}/drawingml/2006/main" '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" '
    f'xmlns:v="urn:schemas-microsoft-com:vml" xmlns:m="{_OOXML}/officeDocument/2006/math"'
)
_SLIDE = (
    f'xmlns:a="{_OOXML}/drawingml/2006/main" xmlns:p="{_OOXML}/presentationml/2006/main" xmlns:r="{_REL}" '
    f'xmlns:c="{_OOXML}/drawingml/2006/chart" xmlns:dgm="{_OOXML}/drawingml/2006/diagram" '
    'xmlns:dsp="http://schemas.microsoft.com/office/drawing/2008/diagram"'
)
_SHEET = f'xmlns="{_OOXML}/spreadsheetml/2006/main" xmlns:r="{_REL}"'
_ODF = "urn:oasis:names:tc:opendocument:xmlns"
_ODT = (
    f'xmlns:office="{_ODF}:office:1.0" xmlns:text="{_ODF}:text:1.0" xmlns:table="{_ODF}:table:1.0" '
    f'xmlns:style="{_ODF}:style:1.0" xmlns:fo="{_ODF}:xsl-fo-compatible:1.0" xmlns:svg="{_ODF}:svg-compatible:1.0" '
    f'xmlns:draw="{_ODF}:drawing:1.0" xmlns:dc="http://purl.org/dc/elements/1.1/" '
    'xmlns:xlink="http://www.w3.org/1999/xlink"'
)


def pack(parts: Mapping[str, str | bytes], stored: str = "") -> bytes:
    """Returns an archive of members; one is stored without compression."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            info = zipfile.ZipInfo(name, (2024, 5, 1, 12, 0, 0))
            info.compress_type = zipfile.ZIP_STORED if name == stored else zipfile.ZIP_DEFLATED
            file.writestr(info, content)
    return out.getvalue()


def members(data: bytes) -> dict[str, tuple[object, ...]]:
    """Returns the members of an archive with their dates, methods and contents, in their order."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {i.filename: (i.date_time, i.compress_type, file.read(i)) for i in file.infolist()}


def _types(kinds: Mapping[str, str]) -> str:
    rows = "".join(f'<Override PartName="/{name}" ContentType="{_MAIN}.{kind}+xml"/>' for name, kind in kinds.items())
    return (
        f'{_X}<Types xmlns="{_OOXML}/package/2006/content-types"><Default Extension="rels" '
        f'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Default Extension="xml" ContentType="application/xml"/>{rows}</Types>'
    )


def relationships(**targets: str) -> str:
    """Returns the relationships of a part: the kind, an underscore and a number, to the target."""
    rows = "".join(
        f'<Relationship Id="{key}" Type="{_REL}/{key.partition("_")[0]}" Target="{target}"/>'
        for key, target in targets.items()
    )
    return f'{_X}<Relationships xmlns="{_OOXML}/package/2006/relationships">{rows}</Relationships>'


def docx(body: str, parts: Mapping[str, tuple[str, str]] | None = None) -> bytes:
    """Returns a Word document: the XML of its body, and further parts: name, kind and XML of their root's inside."""
    kinds = {"word/document.xml": "wordprocessingml.document.main", "word/styles.xml": "wordprocessingml.styles"}
    content = {
        "_rels/.rels": relationships(officeDocument_1="word/document.xml"),
        "word/_rels/document.xml.rels": relationships(
            styles_1="styles.xml",
            **{f"{kind.rpartition('.')[2]}_{n}": name[5:] for n, (name, (kind, _)) in enumerate((parts or {}).items())},
        ),
        "word/document.xml": f"{_X}<w:document {_WORD}><w:body>{body}<w:sectPr/></w:body></w:document>",
        "word/styles.xml": f'{_X}<w:styles {_WORD}><w:docDefaults><w:rPrDefault><w:rPr><w:lang w:val="de-DE"/></w:rPr>'
        "</w:rPrDefault></w:docDefaults></w:styles>",
    }
    roots = {"header": "hdr", "footer": "ftr"}
    for name, (kind, inside) in (parts or {}).items():
        root = roots.get(word := kind.rpartition(".")[2], word)
        kinds[name], content[name] = kind, f"{_X}<w:{root} {_WORD}>{inside}</w:{root}>"
    return pack({"[Content_Types].xml": _types(kinds), **content})


def run(text: str, properties: str = "") -> str:
    """Returns a run of a Word document."""
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def xlsx(strings: str, rows: str, parts: Mapping[str, tuple[str, str]] | None = None, after: str = "") -> bytes:
    """Returns a workbook: the shared strings, the rows of its sheet, and further parts: name, kind and XML."""
    kinds = {
        "xl/workbook.xml": "spreadsheetml.sheet.main", "xl/worksheets/sheet1.xml": "spreadsheetml.worksheet",
        "xl/sharedStrings.xml": "spreadsheetml.sharedStrings",
    }  # fmt: skip
    content = {
        "_rels/.rels": relationships(officeDocument_1="xl/workbook.xml"),
        "xl/_rels/workbook.xml.rels": relationships(
            worksheet_1="worksheets/sheet1.xml", sharedStrings_1="sharedStrings.xml"
        ),
        "xl/workbook.xml": f'{_X}<workbook {_SHEET}><sheets><sheet name="Tiere" sheetId="1" r:id="worksheet_1"/>'
        "</sheets></workbook>",
        "xl/worksheets/sheet1.xml": f"{_X}<worksheet {_SHEET}><sheetData>{rows}</sheetData>{after}</worksheet>",
        "xl/sharedStrings.xml": f"{_X}<sst {_SHEET}>{strings}</sst>",
    }
    for name, (kind, whole) in (parts or {}).items():
        if kind:
            kinds[name] = kind
        content[name] = whole.replace("NAMES", f'xmlns="{_OOXML}/spreadsheetml/2006/main" {_SLIDE}')
    return pack({"[Content_Types].xml": _types(kinds), **content})


def pptx(parts: Mapping[str, tuple[str, str]]) -> bytes:
    """Returns a presentation of parts: name, kind, and XML in which NAMES stands for the namespaces."""
    kinds = {"ppt/presentation.xml": "presentationml.presentation.main"}
    content = {
        "_rels/.rels": relationships(officeDocument_1="ppt/presentation.xml"),
        "ppt/presentation.xml": f"{_X}<p:presentation {_SLIDE}/>",
    }
    for name, (kind, whole) in parts.items():
        kinds[name], content[name] = kind, _X + whole.replace("NAMES", _SLIDE)
    types = _types(kinds).replace(f"{_MAIN}.ms-", "application/vnd.ms-")
    return pack({"[Content_Types].xml": types, **content})


def slide(body: str) -> tuple[str, str]:
    """Returns a slide as a part of `pptx`."""
    return "presentationml.slide", f"<p:sld NAMES><p:cSld><p:spTree>{body}</p:spTree></p:cSld></p:sld>"


def words(text: str, properties: str = "") -> str:
    """Returns a run of a slide."""
    return f'<a:r><a:rPr lang="de-DE" {properties}/><a:t>{text}</a:t></a:r>'


def odt(body: str, master: str = "") -> bytes:
    """Returns an OpenDocument text: the XML of its text, and of its master pages."""
    content = f"<office:document-content {_ODT}><office:body><office:text>{body}</office:text></office:body>"
    styles = (
        f'<office:document-styles {_ODT}><office:styles><style:default-style style:family="paragraph">'
        '<style:text-properties fo:language="de" fo:country="DE"/></style:default-style></office:styles>'
        f"<office:master-styles>{master}</office:master-styles></office:document-styles>"
    )
    return pack(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": f"{_X}{content}</office:document-content>", "styles.xml": _X + styles,
            "META-INF/manifest.xml": f'{_X}<manifest:manifest xmlns:manifest="{_ODF}:manifest:1.0"/>',
        },
        stored="mimetype",
    )  # fmt: skip


def epub(page: str, parts: Mapping[str, tuple[str, str]] | None = None, folder: str = "OPS") -> bytes:
    """Returns a book: the body of its page, and further parts: name, media type and content."""
    rows = "".join(
        f'<item id="i{n}" href="{name}" media-type="{kind}"/>'
        for n, (name, (kind, _)) in enumerate((parts or {}).items())
    )
    package = (
        '<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata '
        'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Ein Hund</dc:title><dc:creator>Hans Mann</dc:creator>'
        '<dc:language>de</dc:language></metadata><manifest><item id="c" href="c.xhtml" '
        f'media-type="application/xhtml+xml"/>{rows}</manifest><spine><itemref idref="c"/></spine></package>'
    )
    container = (
        '<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile '
        f'full-path="{folder}/b.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
    )
    whole = (
        '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>\n<html xmlns="http://www.w3.org/1999/xhtml" '
        'xmlns:epub="http://www.idpf.org/2007/ops" xml:lang="de"><head><title>Ein Hund</title>'
        f'<link rel="stylesheet" href="s.css"/><style>p {{ color: red }}</style></head><body>{page}</body></html>'
    )
    return pack(
        {
            "mimetype": "application/epub+zip", "META-INF/container.xml": container, f"{folder}/b.opf": package,
            f"{folder}/c.xhtml": whole, **{f"{folder}/{name}": content for name, (_, content) in (parts or {}).items()},
        },
        stored="mimetype",
    )  # fmt: skip
