"""The schema of recipes: it lets through what Pellucid reads, and finds what it refuses."""

import json
import tomllib
from itertools import chain
from typing import Any

import pytest

from pellucid.config import KEYS, SECTIONS, Recipe, list_shipped_recipes
from pellucid.config.schema import recipe_schema
from pellucid.errors import ConfigError

TYPES: dict[str, Any] = {"integer": int, "number": int | float, "boolean": bool, "string": str, "array": list}


def faults(value: Any, schema: dict[str, Any], place: str = "") -> list[str]:
    """The places at which a value is not as a schema says, by the few words of JSON Schema that ours uses."""
    known = {"$schema", "title", "description", "default", "type", "enum", "const", "anyOf", "items", "properties"}
    assert schema.keys() <= known | {"additionalProperties"}, schema.keys() - known
    if "anyOf" in schema:
        return [] if any(not faults(value, member) for member in schema["anyOf"]) else [place]
    if "enum" in schema:
        return [] if value in schema["enum"] else [place]
    if "const" in schema:
        return [] if value == schema["const"] else [place]
    if schema.get("type") == "object":
        if not isinstance(value, dict):
            return [place]
        properties = schema["properties"]
        unknown = [f"{place}.{key}" for key in value if key not in properties]
        inner = (faults(value[key], properties[key], f"{place}.{key}") for key in value if key in properties)
        return [*unknown, *chain.from_iterable(inner)]
    if isinstance(value, bool) and schema["type"] != "boolean":
        return [place]
    if not isinstance(value, TYPES[schema["type"]]):
        return [place]
    return [fault for item in value for fault in faults(item, schema["items"], place)] if "items" in schema else []


@pytest.mark.parametrize("name", list_shipped_recipes())
def test_each_shipped_recipe_is_valid(name: str) -> None:
    tables = tomllib.loads(list_shipped_recipes()[name].read_text(encoding="utf-8"))
    assert faults(tables, recipe_schema()) == []


@pytest.mark.parametrize("name", list_shipped_recipes())
def test_what_a_run_writes_down_is_valid(name: str) -> None:
    assert faults(tomllib.loads(Recipe.load(name).to_toml()), recipe_schema()) == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[train]\nstep = 5", ".train.step"),
        ("[trian]\nsteps = 5", ".trian"),
        ('[train]\nsteps = "5"', ".train.steps"),
        ('[model]\nnorm = "post-norm"', ".model.norm"),
        ('[model]\npreset = "tinny"', ".model.preset"),
        ("[model]\nbias = 1", ".model.bias"),
        ("[data]\nsrc = [1]", ".data.src"),
        ('task = "translation"', ".task"),
        ("model = 3", ".model"),
    ],
)
def test_what_is_refused_is_found(text: str, place: str) -> None:
    assert faults(tomllib.loads(text), recipe_schema()) == [place]
    with pytest.raises(ConfigError):
        Recipe.from_tables(tomllib.loads(text))


def test_each_key_is_there_with_its_sentence_and_its_default() -> None:
    schema = recipe_schema()
    assert [key for key in schema["properties"] if key not in SECTIONS] == KEYS[""]
    for section in SECTIONS:
        properties = schema["properties"][section]["properties"]
        assert sorted(properties) == sorted(KEYS[section])
        for key, described in properties.items():
            assert described["description"].endswith("."), key
            assert faults(described["default"], described) == [], key


def test_it_is_json_by_a_draft_that_editors_read() -> None:
    schema = json.loads(json.dumps(recipe_schema()))
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert schema["properties"]["model"]["properties"]["norm"]["enum"] == ["post", "pre"]
