import json
from typing import Any

import msgspec
import pytest

from streamkit.errors import DefinitionError
from streamkit.shapes.given_schema import SchemaShape


def object_of(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


def lines(schema: dict[str, Any], tree: dict[str, Any]) -> list[str]:
    shape = SchemaShape(schema)
    with pytest.raises(msgspec.ValidationError):
        shape.convert(tree)
    return list(shape.problems(tree))


def test_what_fits_comes_back_as_it_was_written() -> None:
    shape = SchemaShape(object_of(n={"type": "integer"}, when={"type": "string", "format": "date"}))
    text = '{"n": 123456789012345678901234567890, "when": "soon", "more": [1.5, null]}'
    assert shape.decode(text) == json.loads(text)
    assert list(shape.problems(json.loads(text))) == []


@pytest.mark.parametrize("text", ['{"n": NaN}', "{", "[]", "null", '{"n": "a"}'])
def test_what_is_no_such_object_is_refused(text: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        SchemaShape(object_of(n={"type": "number"})).decode(text)


@pytest.mark.parametrize(
    ("field", "value", "line"),
    [
        ({"type": "integer"}, "a", 'it: expected integer, but got "a"'),
        ({"type": ["string", "null"]}, 3, "it: expected string or null, but got 3"),
        ({"anyOf": [{"type": "integer"}, {"type": ["null"]}]}, "a", 'it: expected integer or null, but got "a"'),
        ({"enum": ["a", 3]}, "b", 'it: expected one of "a", 3, but got "b"'),
        ({"const": 3}, 4, "it: expected 3, but got 4"),
        ({"minimum": 1}, 0, "it: expected >= 1, but got 0"),
        ({"exclusiveMaximum": 1}, 1, "it: expected < 1, but got 1"),
        ({"pattern": "^a"}, "b", 'it: expected text that matches the regex "^a", but got "b"'),
        ({"minLength": 2}, "b", 'it: expected text of length >= 2, but got "b"'),
        ({"maxItems": 1}, [1, 2], "it: expected an array of length <= 1, but got [1, 2]"),
        ({"items": {"type": "integer"}}, [1, "2", None],
         'it[1]: expected integer, but got "2"; it[2]: expected integer, but got null'),
        (object_of(k={"type": "integer"}), {"k": "3"}, 'it.k: expected integer, but got "3"'),
        ({"required": ["a", "b"]}, {}, "it.a: required, but missing; it.b: required, but missing"),
        ({"properties": {"a": {}}, "patternProperties": {"^x": {}}, "additionalProperties": False},
         {"a": 1, "xy": 2, "b": 3}, "it.b: unknown field"),
        ({"properties": {"a": False}}, {"a": 1}, "it: must not hold 1"),
        ({"anyOf": [object_of(k={"type": "integer"}), {"type": "null"}]}, {"k": "3"},
         'it.k: expected integer, but got "3"'),
        ({"anyOf": [{"type": "null"}, object_of(k={"enum": ["a"]}, n={"type": "integer"})]}, {"k": "b", "n": "c"},
         'it.k: expected one of "a", but got "b"; it.n: expected integer, but got "c"'),
        ({"oneOf": [{**object_of(k={"const": "a"}, n={"type": "integer"}), "required": ["n", "m"]},
                    object_of(k={"const": "b"})]}, {"k": "a", "n": "c"},
         'it.n: expected integer, but got "c"; it.m: required, but missing'),
        ({"oneOf": [{"minimum": 1}, {"maximum": 5}]}, 3,
         "it: expected one of the forms that its schema has, but got 3"),
        ({"not": {"type": "string"}}, "a", 'it: expected what keeps not {"type": "string"}, but got "a"'),
    ],
    ids=str,
)  # fmt: skip
def test_the_model_reads_what_was_expected_and_what_came(field: dict[str, Any], value: object, line: str) -> None:
    assert "; ".join(lines(object_of(it=field), {"it": value})) == line


def test_references_within_the_schema_are_followed() -> None:
    schema = {**object_of(it={"$ref": "#/$defs/n"}), "$defs": {"n": {"type": "integer"}}}
    assert lines(schema, {"it": "a"}) == ['it: expected integer, but got "a"']


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "object", "properties": {"a": {"type": "text"}}},
         r"schema\['properties'\]\['a'\]\['type'\] is not a valid"),
        ({"type": "object", "properties": {"a": {"pattern": "["}}}, "is not a valid JSON Schema"),
        ({"type": "object", "required": "a"}, "is not a valid JSON Schema"),
        ({"type": "array"}, "'type': 'object'"),
        ({}, "'type': 'object'"),
        (object_of(a={"$ref": "#/$defs/nowhere"}), "refers to '#/\\$defs/nowhere', which is not in it"),
        (object_of(a={"items": {"$ref": "other.json"}}), "other documents are not fetched"),
    ],
    ids=str,
)  # fmt: skip
def test_a_schema_that_cannot_be_used_is_refused_at_once(schema: dict[str, Any], says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        SchemaShape(schema)


@pytest.mark.parametrize("where", ["http://127.0.0.1:1/schema.json", "file:///etc/hostname"])
def test_no_other_document_is_fetched(where: str) -> None:
    with pytest.raises(DefinitionError, match="not fetched"):
        SchemaShape(object_of(a={"$ref": where}))


def test_a_document_that_carries_the_address_is_referred_to() -> None:
    part = {"$id": "http://example.com/n.json", "type": "integer"}
    schema = {**object_of(it={"$ref": "http://example.com/n.json"}), "$defs": {"n": part}}
    assert lines(schema, {"it": "a"}) == ['it: expected integer, but got "a"']


def test_the_draft_is_the_one_that_the_schema_names() -> None:
    tuples = object_of(it={"items": [{"type": "integer"}]})
    draft_7 = {"$schema": "http://json-schema.org/draft-07/schema#", **tuples}
    assert lines(draft_7, {"it": ["a"]}) == ['it[0]: expected integer, but got "a"']
    with pytest.raises(DefinitionError):
        SchemaShape(tuples)  # a list is no schema in the latest draft
    assert SchemaShape({"$schema": "http://example.com/mine", **object_of()}).decode("{}") == {}


def test_the_model_is_told_the_schema_as_it_was_given() -> None:
    schema = object_of(a={"type": "string", "title": "A", "x-mine": 1})
    shape = SchemaShape(schema)
    assert shape.schema == schema
    schema["properties"]["a"]["type"] = "integer"
    assert shape.decode('{"a": "b"}') == {"a": "b"}
