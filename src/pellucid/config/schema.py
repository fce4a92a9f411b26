"""Describes a recipe as a JSON Schema, with which editors check a TOML file and complete its keys.

Names, types, choices, defaults and descriptions are taken from the fields of the configuration classes.
"""

import ast
import inspect
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields
from itertools import pairwise
from typing import Any, Literal

from pellucid.config.model import PRESETS
from pellucid.config.recipe import SECTIONS, Recipe

DRAFT = "http://json-schema.org/draft-07/schema#"
"""The newest version that TOML editors support."""
NAMES: Mapping[Any, str] = {int: "integer", float: "number", bool: "boolean", str: "string"}


def recipe_schema() -> dict[str, Any]:
    """Returns the schema of a recipe, as an argument of json.dumps()."""
    properties = {name: table for name, table in _properties(Recipe).items() if name not in SECTIONS}
    for section, cls in SECTIONS.items():
        properties[section] = _table(inspect.getdoc(cls) or "", _properties(cls))
    properties["model"]["properties"]["preset"] = {
        "description": "A shape with a name; the other keys of the section replace its values.",
        "enum": list(PRESETS),
        "default": "tiny",
    }
    return {"$schema": DRAFT, "title": "A recipe of Pellucid", **_table(inspect.getdoc(Recipe) or "", properties)}


def attribute_docstrings(cls: type) -> dict[str, str]:
    """Returns the string below each field of a class from its source, since Python discards these strings."""
    tree = ast.parse(inspect.getsource(sys.modules[cls.__module__]))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == cls.__name__)
    found = {}
    for node, below in pairwise(body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(below, ast.Expr):
            found[node.target.id] = inspect.cleandoc(ast.literal_eval(below.value))
    return found


def _table(description: str, properties: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "type": "object", "properties": properties, "additionalProperties": False}


def _properties(cls: Any) -> dict[str, Any]:
    """Returns the schema of each field of a configuration."""
    texts, hints = attribute_docstrings(cls), typing.get_type_hints(cls)
    found: dict[str, Any] = {}
    for field in fields(cls):
        found[field.name] = {"description": " ".join(texts.get(field.name, "").split())} | _type(hints[field.name])
        if field.default is not MISSING:
            found[field.name]["default"] = _value(field.default)
    return found


def _type(hint: Any) -> dict[str, Any]:
    """Returns the schema of a type; TOML has no null value, so None is the string "none"."""
    if typing.get_origin(hint) is Literal:
        return {"enum": list(map(_value, typing.get_args(hint)))}
    if isinstance(hint, types.UnionType):
        return {"anyOf": list(map(_type, typing.get_args(hint)))}
    if hint is types.NoneType:
        return {"const": _value(None)}
    if typing.get_origin(hint) is tuple:
        return {"type": "array", "items": _type(typing.get_args(hint)[0])}
    return {"type": NAMES[hint]} if hint in NAMES else {}


def _value(value: Any) -> Any:
    if value is None:
        return "none"
    return list(value) if isinstance(value, tuple) else value
