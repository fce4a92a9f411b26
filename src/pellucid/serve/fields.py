"""The fields of a request: JSON, a form, multipart and the address mean the same, within the limits of untrusted input.

Each fault is a RequestError of status 400, 408, 413 or 415, never a failure of the server.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from pellucid.errors import format_value
from pellucid.serve.errors import RequestError
from pellucid.serve.limits import ServerLimits

MOST_FIELDS = 2_000
_CHARSETS = {"utf-8": "utf-8-sig", "utf8": "utf-8-sig", "us-ascii": "ascii", "ascii": "ascii", "iso-8859-1": "latin-1",
             "latin-1": "latin-1", "windows-1252": "cp1252", "utf-16": "utf-16"}  # fmt: skip
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off", ""}
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_BREAKS = re.compile(r"\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_HALVES = re.compile(r"[\ud800-\udfff]")


def clean_text(text: str) -> str:
    """Returns a text with line feeds as its line breaks, without control characters and halves of surrogate pairs."""
    text = _BREAKS.sub("\n", text)
    return _HALVES.sub("\ufffd", _CONTROLS.sub(" ", text))


@dataclass(frozen=True)
class Fields:
    """The fields of a request by their names, and its file."""

    values: Mapping[str, Any] = field(default_factory=dict)
    """Values of JSON; of a form a text, or a list of texts for a name that occurs several times."""
    is_json: bool = False
    file: "UploadedFile | None" = None

    def __contains__(self, name: str) -> bool:
        return self.values.get(name) is not None

    def get(self, name: str) -> Any:
        """Returns a value as it came; None if it is absent or null."""
        return self.values.get(name)

    def get_text(self, name: str, default: str | None = None) -> str:
        """Returns a text. Raises RequestError if it is missing without a default, or no text."""
        value = self.values.get(name)
        if value is None:
            if default is None:
                raise RequestError(400, f"Invalid request: missing {name} parameter", name)
            return default
        if not isinstance(value, str):
            raise RequestError(400, f"Invalid request: {name} must be a string, not {_kind(value)}", name)
        return _HALVES.sub("\ufffd", value)

    def get_texts(self, name: str) -> tuple[list[str], bool]:
        """Returns the cleaned texts of a field, and True if it is a list. Raises RequestError."""
        value = self.values.get(name)
        if value is None:
            raise RequestError(400, f"Invalid request: missing {name} parameter", name)
        if isinstance(value, str):
            return [clean_text(value)], False
        if not isinstance(value, list):
            raise RequestError(400, f"Invalid request: {name} must be a string or a list, not {_kind(value)}", name)
        for each in value:
            if not isinstance(each, str):
                raise RequestError(400, f"Invalid request: {name} has {_kind(each)}, not only strings", name)
        return [clean_text(each) for each in value], True

    def get_whole(self, name: str, default: int, least: int, most: int) -> int:
        """Returns a whole number between two bounds. Raises RequestError."""
        value = self.values.get(name)
        if value is None or value == "":
            return default
        if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise RequestError(
                400,
                f"Invalid request: {name} ({format_value(value)}) must be a whole number from {least} to {most}",
                name,
            )
        return value

    def get_switch(self, name: str, default: bool = False) -> bool:
        """Returns a truth value: true, false, or 1 and 0 as forms write them. Raises RequestError."""
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        written = str(value).strip().lower() if isinstance(value, str | int) else "?"
        if written in _TRUE:
            return True
        if written in _FALSE:
            return False
        raise RequestError(400, f"Invalid request: {name} ({format_value(value)}) must be true or false", name)

    def get_names(self, name: str) -> list[str]:
        """Returns a list of names: a list, or one text with commas. Raises RequestError."""
        value = self.values.get(name)
        if value is None:
            return []
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, str) for part in parts):
            raise RequestError(400, f"Invalid request: {name} must be a list of strings", name)
        return [each.strip() for part in parts for each in part.split(",") if each.strip()]


@dataclass(frozen=True)
class UploadedFile:
    """The file of a request. The name is the client's: it is used for its ending alone."""

    name: str
    data: bytes


def _kind(value: object) -> str:
    kinds = {type(None): "null", bool: "a truth value", int: "a number", float: "a number", dict: "an object",
             list: "a list", str: "a string"}  # fmt: skip
    return kinds.get(type(value), "another value")


async def read_fields(request: Request, limits: ServerLimits) -> Fields:
    """Returns the fields of a request of any method. Raises RequestError, and ClientDisconnect if the client left."""
    kind, charset, boundary = _content_type(request.headers.get("content-type", ""))
    if (coding := request.headers.get("content-encoding", "identity").strip().lower()) not in ("", "identity"):
        raise RequestError(415, f"a body in the coding {format_value(coding)} is not read: send it without")
    is_multipart = kind == "multipart/form-data"
    body = await _read_body(request, limits.document_bytes + limits.body_bytes if is_multipart else limits.body_bytes)
    address = _join_pairs(_parse_pairs(request.scope.get("query_string", b""), "the address"))
    if is_multipart:
        values, file = await _parse_multipart(body, request.headers, boundary, limits)
        return Fields(address | values, file=file)
    if not body.strip():
        return Fields(address)
    if (
        kind in ("application/json", "text/json")
        or kind.endswith("+json")
        or (kind in ("", "text/plain", "application/octet-stream") and body.lstrip()[:1] in (b"{", b"["))
    ):
        return Fields(address | parse_object(body, charset), is_json=True)
    if kind in ("application/x-www-form-urlencoded", "", "text/plain"):
        return Fields(address | _join_pairs(_parse_pairs(body, "the form")))
    raise RequestError(415, f"the content type {format_value(kind)} is not read: send JSON or a form")


def _content_type(header: str) -> tuple[str, str, str]:
    """Returns the type in lower case, the charset for Python, and the boundary."""
    kind, *parameters = header.split(";")
    values = {
        name.strip().lower(): value.strip().strip('"')
        for name, _, value in (each.partition("=") for each in parameters)
    }
    charset = values.get("charset", "").lower()
    if charset and charset not in _CHARSETS:
        raise RequestError(415, f"the charset {format_value(charset)} is not read: send UTF-8")
    return kind.strip().lower(), _CHARSETS.get(charset, ""), values.get("boundary", "")


async def _read_body(request: Request, most: int) -> bytes:
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:18]) > most:
        raise RequestError(413, f"the request has {int(length[:18]):,} bytes; at most {most:,} are read")
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > most:
            raise RequestError(413, f"the request has more than {most:,} bytes, the most that are read")
    return bytes(data)


def parse_object(body: bytes, charset: str = "") -> dict[str, Any]:
    """Returns the object of a JSON body. Raises RequestError for every other body."""
    try:
        text: str | bytes = body.decode(charset) if charset else body
        table = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise RequestError(400, "Invalid request: the JSON has too many levels") from None
    except UnicodeDecodeError:
        raise RequestError(400, "Invalid request: the body is not UTF-8") from None
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "a number is out of range"
        raise RequestError(400, f"Invalid request: the body is not JSON ({reason})") from None
    if not isinstance(table, dict):
        raise RequestError(400, f"Invalid request: the JSON is {_kind(table)}, not an object")
    return table


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _parse_pairs(data: bytes, place: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(data.decode("ascii" if place == "the address" else "utf-8"), keep_blank_values=True,
                         errors="strict", max_num_fields=MOST_FIELDS)  # fmt: skip
    except UnicodeDecodeError:
        raise RequestError(400, f"Invalid request: {place} is not UTF-8") from None
    except ValueError:
        raise RequestError(400, f"Invalid request: {place} has more than {MOST_FIELDS:,} fields") from None


def _join_pairs(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Returns fields by their names; the values of a name that occurs several times, or ends in [], are a list."""
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return {name.removesuffix("[]"): values if len(values) > 1 or name.endswith("[]") else values[0]
            for name, values in found.items()}  # fmt: skip


async def _parse_multipart(
    body: bytes, headers: Headers, boundary: str, limits: ServerLimits
) -> tuple[dict[str, Any], UploadedFile | None]:
    if not boundary:
        raise RequestError(400, "Invalid request: multipart without a boundary")

    async def stream() -> Any:
        yield body

    parser = MultiPartParser(headers, stream(), max_files=1, max_fields=MOST_FIELDS, max_part_size=limits.body_bytes)
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise RequestError(400, f"Invalid request: {format_value(error.message)}") from None
    except (UnicodeDecodeError, LookupError):
        raise RequestError(400, "Invalid request: the multipart body is not UTF-8") from None
    except (ValueError, KeyError):
        raise RequestError(400, "Invalid request: the multipart body is damaged") from None
    file, pairs = None, list[tuple[str, str]]()
    try:
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                if value.size is not None and value.size > limits.document_bytes:
                    raise RequestError(
                        413, f"the file has {value.size:,} bytes; at most {limits.document_bytes:,} are read"
                    )
                file = UploadedFile(value.filename or "", await value.read())
            else:
                pairs.append((name, value))
    finally:
        await form.close()
    return _join_pairs(pairs), file
