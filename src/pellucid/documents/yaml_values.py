"""YAML: the scalars that are text, by the marks of PyYAML's parser; comments, anchors, keys and styles are copied."""

import re
from importlib import import_module
from typing import Any, cast

from pellucid.documents.content import ENTITIES, PLACEHOLDERS, URL, protect
from pellucid.documents.scalars import encode_double, encode_plain, encode_single
from pellucid.documents.spans import Reading, Unit, Wrap
from pellucid.errors import ConfigError, DataError, format_install_command, format_value
from pellucid.files.budget import MOST_VALUE_DEPTH

_PROTECTED = re.compile("|".join((PLACEHOLDERS.pattern, ENTITIES, URL.pattern)))
_LINE = re.compile(r"([^\r\n]*)(\r\n|\n|\r|\Z)")
_TEXT = "tag:yaml.org,2002:str"


def read_yaml(text: str, name: str, pinned: object = None) -> Reading:
    """Returns the strings of a YAML document that are values. Raises DataError for a text that is no YAML."""
    try:
        yaml: Any = import_module("yaml")
    except ModuleNotFoundError:
        raise ConfigError(
            "YAML documents require PyYAML, which is not installed", format_install_command("documents")
        ) from None
    found = Reading()
    try:
        resolver: Any = yaml.resolver.Resolver()
        stack: list[list[Any]] = []  # the kind of a collection, and the key or the index that is next
        for event in cast(Any, yaml.parse(text, Loader=yaml.SafeLoader)):
            kind = type(event).__name__
            if kind in ("MappingEndEvent", "SequenceEndEvent"):
                stack.pop()
                _next(stack, "")
            elif kind in ("MappingStartEvent", "SequenceStartEvent"):
                if len(stack) >= MOST_VALUE_DEPTH:
                    raise DataError(
                        f"the YAML document has more than {MOST_VALUE_DEPTH:,} values within each other",
                        "make it flatter",
                    )
                stack.append(["key" if kind[0] == "M" else "item", "", 0])
            elif kind == "AliasEvent":
                _next(stack, "*")
            elif kind == "ScalarEvent":
                is_key = bool(stack) and stack[-1][0] == "key"
                tag = (
                    event.tag
                    if event.tag not in (None, "!")
                    else resolver.resolve(yaml.ScalarNode, event.value, event.implicit)
                )
                if not is_key and tag == _TEXT:
                    path = "/".join(str(each[1]) for each in stack[-20:]) or "value"
                    found.units += _units(text, event, path)
                _next(stack, event.value)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        said = format_value(str(getattr(error, "problem", None) or error))
        raise DataError(f"the document is no YAML: {where}{said}", "correct it") from error
    except RecursionError as error:
        raise DataError("the YAML document is nested too deep", "make it flatter") from error
    return found


def _next(stack: list[list[Any]], said: str) -> None:
    """Goes on to the next key, value or item of a collection."""
    if not stack:
        return
    top = stack[-1]
    if top[0] == "key":
        top[0], top[1] = "value", said
    elif top[0] == "value":
        top[0] = "key"
    else:
        top[2] += 1
        top[1] = top[2]


def _units(text: str, event: Any, path: str) -> list[Unit]:
    start, end = event.start_mark.index, event.end_mark.index
    if event.style in ("|", ">"):
        return _block_units(text, start, end, event.style == ">", path)
    if event.style in ('"', "'"):  # the marks of a tag or an anchor are before the scalar
        start = text.index(event.style, start)
    else:
        start = end - len(text[start:end].split(" ", 1)[1]) if text[start] in "&!" and " " in text[start:end] else start
    encode = {'"': encode_double, "'": encode_single}.get(event.style, encode_plain)
    items = protect(event.value, _PROTECTED, _as_it_is)
    return [Unit(start, end, items, _as_it_is, path, is_label_like=True, encode_whole=encode)]


def _as_it_is(text: str) -> str:
    return text


def _block_units(text: str, start: int, end: int, is_folded: bool, path: str) -> list[Unit]:
    """Returns the lines of a literal block as units, of a folded one its paragraphs."""
    body = text.find("\n", start, end) + 1 or end
    lines = [(m.start(1), m.end(1), m[2]) for m in _LINE.finditer(text, body, end) if m[1].strip()]
    if not lines:
        return []
    indent = min(len(text[a:b]) - len(text[a:b].lstrip(" ")) for a, b, _ in lines)
    found: list[Unit] = []
    group: list[tuple[int, int, str]] = []
    for line in [*lines, None]:
        is_deeper = line is not None and text[line[0] + indent].isspace()
        follows = bool(group) and line is not None and line[0] - group[-1][1] == len(group[-1][2])
        if group and not (is_folded and follows and not is_deeper and not text[group[-1][0] + indent].isspace()):
            found.append(_line_unit(text, group, indent, path))
            group = []
        if line is not None:
            group.append(line)
    return found


def _line_unit(text: str, lines: list[tuple[int, int, str]], indent: int, path: str) -> Unit:
    first, last = lines[0], lines[-1]
    start = first[0] + len(text[first[0] : first[1]]) - len(text[first[0] : first[1]].lstrip())
    end = last[0] + len(text[last[0] : last[1]].rstrip())
    said = " ".join(text[a:b].strip() for a, b, _ in lines)
    unit = Unit(start, end, protect(said, _PROTECTED, _as_it_is), _one_line, path)
    if len(lines) > 1:
        unit.wrap = Wrap(max(b - a for a, b, _ in lines), " " * indent, first[2])
    return unit


def _one_line(text: str) -> str:
    return re.sub(r"[\r\n]+", " ", text)
