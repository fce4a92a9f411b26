"""The OpenAPI document of a server, made of its routes: addresses, methods, and the fields of the usual requests."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from inspect import getdoc
from typing import Any

from starlette.routing import Route

from pellucid.serve.openai import ROLES

_TEXT: dict[str, Any] = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_STRING: dict[str, Any] = {"type": "string"}
_MESSAGE: dict[str, Any] = {
    "type": "object", "properties": {"role": {"type": "string", "enum": list(ROLES)}, "content": _STRING},
    "required": ["role", "content"],
}  # fmt: skip
FIELDS: dict[str, tuple[dict[str, dict[str, Any]], tuple[str, ...]]] = {
    "/translate": (
        {
            "q": _TEXT, "source": _STRING, "target": _STRING, "format": {"type": "string", "enum": ["text", "html"]},
            "alternatives": {"type": "integer", "minimum": 0}, "api_key": _STRING,
        },
        ("q", "source", "target"),
    ),
    "/detect": ({"q": _TEXT, "api_key": _STRING}, ("q",)),
    "/v2/translate": (
        {
            "text": {"type": "array", "items": _STRING}, "source_lang": _STRING, "target_lang": _STRING,
            "context": _STRING, "split_sentences": _STRING, "formality": _STRING, "glossary_id": _STRING,
            "tag_handling": {"type": "string", "enum": ["xml", "html"]}, "ignore_tags": _TEXT,
            "splitting_tags": _TEXT, "non_splitting_tags": _TEXT,
        },
        ("text", "target_lang"),
    ),
    "/v2/glossaries": (
        dict.fromkeys(("name", "source_lang", "target_lang", "entries", "entries_format"), _STRING),
        ("name", "source_lang", "target_lang", "entries", "entries_format"),
    ),
    "/v1/chat/completions": (
        {
            "model": _STRING, "messages": {"type": "array", "items": _MESSAGE},
            "stream": {"type": "boolean"}, "max_completion_tokens": {"type": "integer", "minimum": 1},
        },
        ("model", "messages"),
    ),
    "/api/translate": (
        {
            "text": _TEXT, "source": _STRING, "target": _STRING, "n_best": {"type": "integer", "minimum": 1},
            "beam_size": {"type": "integer", "minimum": 1}, "alignment": {"type": "boolean"},
        },
        ("text", "source", "target"),
    ),
    "/api/model": (
        {"source": _STRING, "target": _STRING, "method": _STRING, "args": {"type": "array"}},
        ("source", "target", "method", "args"),
    ),
}  # fmt: skip
"""The fields of a body and the required ones, by the template of the route."""
FILE_FIELDS: dict[str, tuple[str, ...]] = {
    "/translate_file": ("source", "target", "api_key"),
    "/v2/document": ("source_lang", "target_lang", "filename", "output_format", "glossary_id", "formality"),
    "/v2/document/{name}": ("document_key",),
    "/v2/document/{name}/result": ("document_key",),
}
"""The fields of texts in a form, next to a file where one is sent, by the template of the route."""


def make_specification(routes: Sequence[Route], examples: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Returns the OpenAPI document of routes.

    Args:
        examples: example values of fields, by the name of the field.
    """
    paths: dict[str, Any] = {}
    for route in routes:
        lines = (getdoc(route.endpoint) or route.path).splitlines()
        for method in sorted((route.methods or set()) - {"HEAD"}):
            operation: dict[str, Any] = {
                "summary": lines[0],
                "responses": {"200": {"description": "the answer"}, "400": {"description": "the request is refused"}},
            }
            if "{name}" in route.path:
                operation["parameters"] = [{"name": "name", "in": "path", "required": True, "schema": _STRING}]
            if method == "POST" and route.path in FIELDS:
                properties, required = FIELDS[route.path]
                properties = {
                    name: {**each, "examples": [*examples[name]]} if name in examples else each
                    for name, each in properties.items()
                }
                schema = {"type": "object", "properties": properties, "required": list(required)}
                kinds = ("application/json", "application/x-www-form-urlencoded")
                operation["requestBody"] = {"content": {kind: {"schema": schema} for kind in kinds}}
            if method == "POST" and route.path in FILE_FIELDS:
                operation["requestBody"] = {"content": _describe_form(route.path)}
            paths.setdefault(route.path, {})[method.lower()] = operation
    return {"openapi": "3.1.0", "info": {"title": "Pellucid", "version": _api_version()}, "paths": paths}


def _describe_form(path: str) -> dict[str, Any]:
    """Returns the content of the form of a route."""
    properties: dict[str, Any] = dict.fromkeys(FILE_FIELDS[path], _STRING)
    if "{name}" in path:
        kind = "application/x-www-form-urlencoded"
    else:
        kind, properties["file"] = "multipart/form-data", {"type": "string", "format": "binary"}
    return {kind: {"schema": {"type": "object", "properties": properties}}}


def _api_version() -> str:
    """Returns the first two numbers of the version, which say what the interface promises."""
    return ".".join(version("pellucid").split(".")[:2])
