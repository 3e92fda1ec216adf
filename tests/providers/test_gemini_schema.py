"""What Gemini is sent of a JSON Schema: references inlined, what it does not take left out, and said once."""

import logging
from typing import Any

import pytest

from streamkit.providers.gemini_schema import gemini_schema

# A line is said once in a process; so each test has names of its own.


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_what_is_taken_stays_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    schema = {
        "type": "object",
        "title": "Args",
        "description": "All.",
        "properties": {
            "pattern": {"type": ["string", "null"], "format": "date", "description": "A name like a keyword."},
            "sizes": {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 9}, "minItems": 1},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}, {}], "maxItems": 2},
            "either": {"anyOf": [{"type": "string"}, {"type": "null"}], "oneOf": [{}]},
            "map": {"type": "object", "additionalProperties": {"type": "number"}},
        },
        "required": ["sizes"],
        "additionalProperties": False,
        "propertyOrdering": ["sizes", "pattern"],
    }
    assert gemini_schema(schema) == schema
    assert said(caplog) == []


def test_references_are_inlined(caplog: pytest.LogCaptureFixture) -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/Point", "description": "Where."},
            "b": {"type": "array", "items": {"$ref": "#/definitions/odd~1na~0me%20"}},
            "c": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Point"}},
            "d": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]},
        },
        "$defs": {"Point": {"type": "object", "title": "Point", "description": "A point.",
                            "properties": {"x": {"$ref": "#/$defs/Number"}}},
                  "Number": {"type": "number", "$id": "n", "$comment": "c"}},
        "definitions": {"odd/na~me ": {"type": "string"}},
    }  # fmt: skip
    point = {"type": "object", "title": "Point", "description": "A point.", "properties": {"x": {"type": "number"}}}
    assert gemini_schema(schema) == {
        "type": "object",
        "properties": {
            "a": {**point, "description": "Where."},
            "b": {"type": "array", "items": {"type": "string"}},
            "c": {"type": "object", "additionalProperties": point},
            "d": {"anyOf": [point, {"type": "null"}]},
        },
    }
    assert said(caplog) == []


def test_a_schema_inside_of_itself_is_cut_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    node = {
        "type": "object",
        "title": "Node",
        "properties": {"next": {"$ref": "#/$defs/Node"}, "name": {"type": "string"}},
        "required": ["name"],
    }
    inlined = gemini_schema({"$ref": "#/$defs/Node", "$defs": {"Node": node}})
    assert inlined["properties"]["next"] == {"type": "object", "title": "Node"}
    assert inlined["required"] == ["name"]
    assert said(caplog) == [
        "a schema for Gemini is cut where #/$defs/Node comes again: anything of its type is allowed there"
    ]


def test_the_whole_schema_can_be_referred_to() -> None:
    schema = {"type": "object", "properties": {"child": {"$ref": "#"}}}
    assert gemini_schema(schema)["properties"]["child"] == {
        "type": "object", "properties": {"child": {"type": "object"}},
    }  # fmt: skip


def test_references_that_multiply_come_to_an_end() -> None:
    defs: dict[str, Any] = {
        f"S{number}": {"type": "object", "properties": {name: {"$ref": f"#/$defs/S{number + 1}"} for name in "ab"}}
        for number in range(60)
    }
    assert len(str(gemini_schema({"$ref": "#/$defs/S0", "$defs": {**defs, "S60": {}}}))) < 200_000


@pytest.mark.parametrize("reference", ["#/$defs/Nothing", "other.json#/Point", "#/properties/a/type/b", 5])
def test_a_reference_to_nothing_allows_anything_and_says_so(reference: Any, caplog: pytest.LogCaptureFixture) -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": reference, "description": "What?"}}}
    assert gemini_schema(schema)["properties"]["a"] == {"description": "What?"}
    assert said(caplog) == [
        f"a schema for Gemini refers to {reference}, which it does not hold: anything is allowed there"
    ]


def test_what_is_not_taken_is_left_out_and_said_once_for_each_keyword(caplog: pytest.LogCaptureFixture) -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "x-size": 1, "x-form": "x"},
            "b": {"type": "string", "x-size": 2},
            "c": {"x-not": {"$ref": "#/nowhere"}},
        },
    }
    expected = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}, "c": {}}}
    assert gemini_schema(schema) == gemini_schema(schema) == expected
    assert sorted(said(caplog)) == [
        f"Gemini does not take {keyword!r} in a JSON Schema: it is left out of those that are sent"
        for keyword in ("x-form", "x-not", "x-size")
    ]


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
        ({"type": "string", "enum": ["a"], "description": "d"}, {"type": "string", "enum": ["a"], "description": "d"}),
        ({"enum": [1, 2]}, {"type": "integer", "enum": [1, 2]}),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"const": None}, {"type": "null"}),
        ({"type": ["string", "null"], "enum": ["a", None]},
         {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}),
        ({"enum": [1, 0.5]}, {"anyOf": [{"type": "integer", "enum": [1]}, {"type": "number", "enum": [0.5]}]}),
        ({"enum": []}, {}),
    ],
)  # fmt: skip
def test_values_to_choose_from_have_one_type(
    schema: dict[str, Any], sent: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    assert gemini_schema(schema) == sent
    assert said(caplog) == []


def test_other_values_to_choose_from_are_left_out_and_said(caplog: pytest.LogCaptureFixture) -> None:
    assert gemini_schema({"const": True}) == {"type": "boolean"}
    assert gemini_schema({"enum": [{"a": 1}, [1]]}) == {}
    assert gemini_schema({"enum": ["a", [1]]}) == {"type": "string", "enum": ["a"]}
    assert said(caplog) == [
        "Gemini takes texts and numbers as values to choose from: others are left out of the schemas sent"
    ]


def test_what_must_all_hold_is_written_as_one() -> None:
    schema = {
        "allOf": [
            {"$ref": "#/$defs/Named"},
            {"properties": {"size": {"type": "integer"}}, "required": ["size", "name"]},
        ],
        "properties": {"name": {"description": "Ours."}},
        "required": ["name"],
        "description": "Both.",
        "$defs": {"Named": {"type": "object", "description": "Named.", "properties": {"name": {"type": "string"}}}},
    }
    assert gemini_schema(schema) == {
        "type": "object",
        "description": "Both.",
        "properties": {"name": {"description": "Ours."}, "size": {"type": "integer"}},
        "required": ["name", "size"],
    }


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"properties": {"a": True}}, {"properties": {"a": {}}}),
        ({"items": False}, {"items": {}}),
        ({"additionalProperties": True}, {"additionalProperties": True}),
        ({"properties": None, "anyOf": None, "allOf": None, "enum": None}, {"properties": None, "anyOf": None}),
        ({"properties": {"a": {}}, "required": ["a", "b"]}, {"properties": {"a": {}}, "required": ["a"]}),
    ],
)
def test_odd_schemas_are_no_mistake_of_ours(schema: dict[str, Any], sent: dict[str, Any]) -> None:
    assert gemini_schema(schema) == sent
