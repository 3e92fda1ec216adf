"""Schemas that OpenAI holds a model to."""

from typing import Any, Literal

import msgspec
import pytest

from streamkit.providers.openai_schema import schema_name, strict_schema

TEXT = {"type": "string"}


def strict_object(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({}, strict_object()),
        ({"type": "object", "properties": {"a": TEXT, "b": TEXT}, "required": ["a"]}, strict_object(a=TEXT, b=TEXT)),
        (
            {"type": "object", "properties": {"a": TEXT}, "additionalProperties": True, "title": "X", "$schema": "y"},
            strict_object(a=TEXT),
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string", "minLength": 1, "default": "x", "pattern": "a"}}},
            strict_object(a={"type": "string", "pattern": "a"}),
        ),
        (
            {"type": "object", "properties": {"a": {**TEXT, "pattern": "^(?!a)"}, "b": {**TEXT, "pattern": "(?<=a)"}}},
            strict_object(a=TEXT, b=TEXT),
        ),
        (
            {"type": "object", "properties": {"a": {**TEXT, "format": "uri"}, "b": {**TEXT, "format": "date"}}},
            strict_object(a=TEXT, b={**TEXT, "format": "date"}),
        ),
        (
            {"type": "object", "properties": {"a": {"oneOf": [TEXT, {"type": "object", "properties": {}}]}}},
            strict_object(a={"anyOf": [TEXT, strict_object()]}),
        ),
        (
            {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object", "properties": {}}}}},
            strict_object(a={"type": "array", "items": strict_object()}),
        ),
        (
            {"type": "object", "properties": {"a": {"enum": ["x", None]}, "b": {"const": 1}}},
            strict_object(a={"enum": ["x", None], "type": ["null", "string"]}, b={"const": 1, "type": "integer"}),
        ),
        (
            {"type": "object", "properties": {"a": {"type": ["string", "null"], "enum": ["x"]}}},
            strict_object(a={"type": ["string", "null"], "enum": ["x"]}),
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/A", "description": "an A"}},
                "$defs": {"A": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}},
            },
            {**strict_object(a={"$ref": "#/$defs/A"}), "$defs": {"A": strict_object(a={"$ref": "#/$defs/A"})}},
        ),
    ],
)
def test_a_schema_is_written_as_a_strict_one(schema: dict[str, Any], strict: dict[str, Any]) -> None:
    assert strict_schema(schema) == strict


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": TEXT},
        {"anyOf": [{"type": "object", "properties": {}}]},
        {"$ref": "#/$defs/A"},
        {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"type": "object", "properties": {"a": TEXT}, "oneOf": [{"type": "object", "properties": {"b": TEXT}}]},
        {"type": "object"},
        {"type": "object", "additionalProperties": TEXT},
        {"type": "object", "properties": {"a": {}}},
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "properties": {"a": {"description": "anything"}}},
        {"type": "object", "properties": {"a": {"type": "array"}}},
        {"type": "object", "properties": {"a": {"type": "array", "prefixItems": [TEXT], "items": False}}},
        {"type": "object", "properties": {"a": {"allOf": [TEXT]}}},
        {"type": "object", "properties": {"a": {"enum": [[1]]}}},
        {"type": "object", "properties": {}, "patternProperties": {"a": TEXT}},
    ],
)
def test_what_a_strict_schema_cannot_say_is_not_strict(schema: dict[str, Any]) -> None:
    assert strict_schema(schema) is None


def test_the_schema_that_was_given_stays_as_it_is() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}
    strict_schema(schema)
    assert schema == {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}


class Place(msgspec.Struct):
    name: str
    kind: Literal["city", "river"] = "city"
    around: "list[Place] | None" = None


def test_the_schema_of_a_struct_can_be_strict() -> None:
    _, definitions = msgspec.json.schema_components([Place], ref_template="#/$defs/{name}")
    strict = strict_schema({**definitions["Place"], "$defs": definitions})
    assert strict is not None
    assert strict["required"] == ["name", "kind", "around"]
    assert strict["properties"]["kind"] == {"enum": ["city", "river"], "type": "string"}
    assert {"type": "array", "items": {"$ref": "#/$defs/Place"}} in strict["properties"]["around"]["anyOf"]


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ({}, "answer"),
        ({"title": "Weather"}, "Weather"),
        ({"title": "Weather[int, str]"}, "Weather_int_str"),
        ({"title": "Wetter für Köln"}, "Wetter_f_r_K_ln"),
        ({"title": "日本"}, "answer"),
        ({"title": "x" * 70}, "x" * 64),
    ],
)
def test_a_title_becomes_a_legal_name(schema: dict[str, Any], name: str) -> None:
    assert schema_name(schema) == name
