"""The parameters of tools, of which one that is refused costs the whole request."""

import json
from typing import Any

import pytest

from streamkit.items import ToolSpec, user
from streamkit.providers.anthropic import encode_request as encode_anthropic
from streamkit.providers.openai_chat import encode_request as encode_chat
from streamkit.providers.openai_responses import encode_request as encode_responses
from streamkit.providers.tool_schema import object_schema, openai_parameters
from streamkit.turns import TurnRequest

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
BY_ID = {"type": "object", "properties": {"kind": {"const": "id"}, "id": NUMBER}, "required": ["kind", "id"]}
BY_NAME = {"type": "object", "properties": {"kind": {"const": "name"}, "name": TEXT}, "required": ["kind", "name"]}
KIND = {"anyOf": [{"const": "id"}, {"const": "name"}]}


def said(schema: dict[str, Any]) -> str:
    return f"It must fit, too: {json.dumps(schema)}"


@pytest.mark.parametrize(
    ("schema", "plain"),
    [
        ({}, {"type": "object"}),
        ({"properties": {"a": TEXT}}, {"type": "object", "properties": {"a": TEXT}}),
        (
            {"oneOf": [BY_ID, {"$ref": "#/$defs/ByName"}], "$defs": {"ByName": BY_NAME}},
            {
                "type": "object",
                "$defs": {"ByName": BY_NAME},
                "properties": {"kind": KIND, "id": NUMBER, "name": TEXT},
                "required": ["kind"],
                "description": said({"oneOf": [BY_ID, {"$ref": "#/$defs/ByName"}]}),
            },
        ),
        (
            {"type": "object", "properties": {"a": TEXT}, "anyOf": [{"required": ["a"]}, {}], "description": "Yes."},
            {"type": "object", "properties": {"a": TEXT},
             "description": f"Yes.\n\n{said({'anyOf': [{'required': ['a']}, {}]})}"},
        ),
        (
            {"type": "object", "properties": {"a": TEXT}, "required": ["a"], "allOf": [{"anyOf": [BY_ID]}, True]},
            {"type": "object", "properties": {"kind": {"const": "id"}, "id": NUMBER, "a": TEXT},
             "required": ["a", "id", "kind"], "description": said({"allOf": [{"anyOf": [BY_ID]}, True]})},
        ),
        (
            {"type": "object", "anyOf": [{"$ref": "#"}, {"$ref": "#/nowhere"}]},
            {"type": "object", "description": said({"anyOf": [{"$ref": "#"}, {"$ref": "#/nowhere"}]})},
        ),
        (
            {"type": "object", "properties": None, "required": None, "anyOf": None},
            {"type": "object", "properties": {}, "required": None, "description": said({"anyOf": None})},
        ),
    ],
)  # fmt: skip
def test_on_top_is_one_object(schema: dict[str, Any], plain: dict[str, Any]) -> None:
    before = json.dumps(schema)
    assert object_schema(schema) == plain
    assert json.dumps(schema) == before


@pytest.mark.parametrize("arguments", [{"kind": "id", "id": 1}, {"kind": "name", "name": "x"}])
def test_what_fits_a_schema_fits_what_is_sent_of_it(arguments: dict[str, Any]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(arguments, openai_parameters({"oneOf": [BY_ID, BY_NAME]}))


@pytest.mark.parametrize(
    ("field", "sent"),
    [
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": ["array", "null"]}, {"type": ["array", "null"], "items": {}}),
        ({"anyOf": [{"type": "array"}, TEXT]}, {"anyOf": [{"type": "array", "items": {}}, TEXT]}),
        (
            {"type": "array", "prefixItems": [{"type": "array"}], "items": False},
            {"type": "array", "prefixItems": [{"type": "array", "items": {}}], "items": {},
             "description": said({"items": False})},
        ),
        (
            {"type": "array", "items": [TEXT, NUMBER]},
            {"type": "array", "items": {}, "description": said({"items": [TEXT, NUMBER]})},
        ),
        ({**TEXT, "pattern": "^a+$"}, {**TEXT, "pattern": "^a+$"}),
        ({**TEXT, "pattern": "^(?!a)"}, {**TEXT, "description": said({"pattern": "^(?!a)"})}),
        (
            {**TEXT, "pattern": r"\p{L}", "description": "A letter."},
            {**TEXT, "description": f"A letter.\n\n{said({'pattern': chr(92) + 'p{L}'})}"},
        ),
        ({"type": "object", "properties": {"pattern": TEXT, "items": TEXT}}, None),
    ],
)  # fmt: skip
def test_what_is_inside_is_written_as_openai_takes_it(field: dict[str, Any], sent: dict[str, Any] | None) -> None:
    schema = {"type": "object", "properties": {"a": field}}
    assert openai_parameters({}) == {"type": "object", "properties": {}}
    assert openai_parameters(schema)["properties"] == {"a": field if sent is None else sent}


def test_all_that_refuse_them_are_sent_other_ones() -> None:
    request = TurnRequest(
        (user("?"),), tuple(ToolSpec("f", "", {"anyOf": [BY_ID]}, strict=strict) for strict in (False, True))
    )
    chat = [tool["function"]["parameters"] for tool in encode_chat(request, "m")["tools"]]
    responses = [tool["parameters"] for tool in encode_responses(request, "m")["tools"]]
    messages = [tool["input_schema"] for tool in encode_anthropic(request, "m")["tools"]]
    for schema in [*chat, *responses, *messages]:
        assert schema["type"] == "object"
        assert not schema.keys() & {"anyOf", "oneOf", "allOf", "not", "enum", "const"}


def test_choices_that_refer_to_themselves_are_read_once() -> None:
    names = [f"kind_{number}" for number in range(12)]
    same = [{"$ref": f"#/$defs/{name}"} for name in names]
    kinds = {name: {"anyOf": same, "properties": {name: {"type": "string"}}} for name in names}
    assert set(object_schema({"anyOf": same, "$defs": kinds})["properties"]) == set(names)
