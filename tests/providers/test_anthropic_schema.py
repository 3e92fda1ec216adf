"""What the Messages API holds its model to."""

import json
from typing import Any

import pytest

from streamkit.items import ToolSpec
from streamkit.providers.anthropic_schema import strict_schema
from streamkit.turns import TurnRequest

from .anthropic_requests import body_of


def test_a_tool_says_what_its_model_is_held_to() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    tools = body_of(
        TurnRequest(
            (),
            (
                ToolSpec("a", "A", {}),
                ToolSpec("b", "B", schema, strict=True),
                ToolSpec("c", "C", {"type": "object"}, strict=True),
            ),
        ),
        eager_input=True,
    )["tools"]
    held = {"n": {"type": "integer", "description": '{"minimum": 1}'}}
    assert tools == [
        {"name": "a", "description": "A", "input_schema": {"type": "object"}, "eager_input_streaming": True},
        {
            "name": "b",
            "description": "B",
            "input_schema": {"type": "object", "properties": held, "additionalProperties": False},
            "strict": True,
            "eager_input_streaming": True,
        },
        {"name": "c", "description": "C", "input_schema": {"type": "object"}, "eager_input_streaming": True},
    ]


def test_a_schema_that_the_server_cannot_hold_a_model_to_is_told_to_the_model() -> None:
    body = body_of(TurnRequest((), instructions="Hi", output={"type": "object"}))
    assert "output_config" not in body
    assert [block["text"].splitlines()[-1] for block in body["system"]] == ["Hi", '{"type": "object"}']


OBJECT = {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        ({"type": "string", "format": "x"}, {"type": "string", "description": '{"format": "x"}'}),
        (
            {"type": "array", "minItems": 1, "items": {"enum": [1]}, "maxItems": 2, "description": "D"},
            {"type": "array", "minItems": 1, "items": {"enum": [1]}, "description": 'D\n\n{"maxItems": 2}'},
        ),
        (
            {"type": "array", "minItems": 2},
            {"type": "array", "description": '{"minItems": 2}'},
        ),
        ({"oneOf": [{"type": "null"}, {"const": 1}]}, {"anyOf": [{"type": "null"}, {"const": 1}]}),
        ({"allOf": [{"type": "object", "properties": {}}]}, {"allOf": [OBJECT]}),
        (
            {"$ref": "#/$defs/A", "default": 1, "$defs": {"A": {"type": "object", "properties": {}}}},
            {"$ref": "#/$defs/A", "$defs": {"A": OBJECT}},
        ),
        (
            {"type": "object", "properties": {"a": {"title": "A", "type": "null", "default": None}}, "required": ["a"]},
            {
                "type": "object",
                "properties": {"a": {"title": "A", "type": "null", "description": '{"default": null}'}},
                "required": ["a"],
                "additionalProperties": False,
            },
        ),
        ({"type": "object", "properties": {}, "additionalProperties": False}, OBJECT),
        ({"type": "object"}, None),
        ({"type": "object", "properties": {}, "additionalProperties": True}, None),
        ({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}, None),
        ({"type": "object", "properties": {"a": {}}}, None),
        ({"type": "object", "properties": {"a": True}}, None),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/A"}}}}, None),
    ],
)
def test_a_schema_is_strict_or_there_is_none(schema: dict[str, Any], strict: dict[str, Any] | None) -> None:
    before = json.dumps(schema)
    assert strict_schema(schema) == strict
    assert json.dumps(schema) == before
