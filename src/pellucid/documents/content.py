"""The content of a text: words that are translated, or an address, a code, a placeholder that is copied."""

import re
from collections.abc import Callable

from pellucid.documents.spans import Item, has_letters

_ADDRESS = re.compile(
    r"(?:[A-Za-z][A-Za-z0-9+.-]{1,20}://\S+|www\.\S+|mailto:\S+|[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,8}"
    r"|(?:[A-Za-z]:\\|\.{0,2}/)\S*)"
)
_ADDRESSES = re.compile(rf"(?:{_ADDRESS.pattern})(?:\s+(?:{_ADDRESS.pattern}))*")
_CODE = re.compile(
    r"[A-Z0-9_./:+-]*\d[A-Z0-9_./:+-]*|[A-Z]{2,}(?:[_-][A-Z0-9]+)+|#[0-9A-Fa-f]{3,8}|[a-z]{2,3}[_-][A-Z]{2}"
    r"|[a-z]{2,3}-[A-Z][a-z]{3}(?:-[A-Z]{2})?|\w+(?:[./]\w+)+|[a-z]+(?:[-_:][a-z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]*)+|\S*[<>{}$=\\]\S*"
    r"|\d[\d.,:T+Z-]*(?:px|em|rem|pt|ms|s|%|kg|km|m|cm|mm|GB|MB|KB)?"
)
"""One word that is a number, a key, a file name, a colour or a language, as values of tables are."""
LONGEST_CODE = 200
"""The characters of a code, at most."""
PRINTF = (
    r"%(?:\d+\$|\([^()\s]{1,60}\))?[-+ 0#']{0,5}(?:\d+|\*)?(?:\.(?:\d+|\*))?"
    r"(?:<PRI[A-Za-z0-9]{1,10}>|(?:hh|h|ll|l|j|z|t|L|q)?[diouxXeEfFgGaAcspn@])"
)
_RANKED = re.compile(PRINTF.replace(r"(?:\d+\$|\([^()\s]{1,60}\))?", "", 1))
"""A placeholder of printf without a number or a name."""
BRACES = r"\{\{[^{}]{0,200}\}\}|\$\{[^{}]{0,200}\}|%\{[^{}]{0,200}\}|\{[A-Za-z0-9_.,!:\[\]# -]{0,100}\}"
SHELL = r"\$t\([^()]{0,200}\)|%[A-Z][A-Z0-9_]*%|\$[A-Za-z_]\w*"
TAGS = r"</?[A-Za-z0-9][^<>]{0,300}>"
ENTITIES = r"&(?:#\d{1,7}|#x[0-9a-fA-F]{1,6}|[A-Za-z]{2,20});"
PLACEHOLDERS = re.compile("|".join((TAGS, BRACES, SHELL, rf"(?:{PRINTF})(?![A-Za-z])", "%%")))
"""The placeholders of the usual formats: printf, braces, i18next, tags."""
SCHEME = r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{1,20}://"
MAIL = r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,8}"
URL = re.compile(rf"{SCHEME}[^\s<>\"']+[^\s<>\"'.,;:!?)\]]|{MAIL}")


def reason_to_leave(text: str) -> str:
    """Returns the reason to copy a text in place of translating it; empty if there is none."""
    if not has_letters(text):
        return "without letters"
    if _ADDRESSES.fullmatch(text.strip()):
        return "an address"
    return ""


def is_code(text: str) -> bool:
    """Returns True if a value of a table or a cell is a code, a number, a date or a name of a file."""
    return len(text) <= LONGEST_CODE and _CODE.fullmatch(text.strip()) is not None


def is_same_language(one: str, other: str) -> bool:
    """Returns True if two codes are of one language, as `de` and `de-DE` are; an unknown one is like every other."""
    first, second = (code.lower().replace("_", "-").split("-")[0] for code in (one, other))
    return not first or not second or first == second


def protect(text: str, pattern: re.Pattern[str], encode: Callable[[str], str], run: int = -1) -> list[Item]:
    """Returns a text as items, with an object for each placeholder; a tag around words is an element around them."""
    found, at = [], 0
    for match in pattern.finditer(text):
        if match.start() > at:
            found.append(_text(text[at : match.start()], encode, run))
        source = match[0]
        kind = "object"
        if source[0] == "<" and source[-1] == ">" and not source.endswith("/>") and len(source) > 2:
            kind = "close" if source[1] == "/" else "open"
        item = Item(kind, (encode(source),), is_word=kind == "object")  # type: ignore[arg-type]
        item.is_ordered = source[0] == "%" and _RANKED.fullmatch(source) is not None
        found.append(item)
        at = match.end()
    if at < len(text):
        found.append(_text(text[at:], encode, run))
    return found


def _text(text: str, encode: Callable[[str], str], run: int) -> Item:
    return Item("text", (encode(text),), text, run)
