import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.tools.coercion import coerced, fields_of, takes

OBJECT = {"type": "object"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "integer": {"type": "integer"},
        "number": {"type": "number"},
        "boolean": {"type": "boolean"},
        "array": {"type": "array", "items": {"type": "integer"}},
        "object": {"$ref": "#/$defs/Place"},
        "string": {"type": "string"},
        "text_or_number": {"type": ["string", "integer"]},
        "nullable": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "one_of": {"enum": [1, 2, "1"]},
        "always": {"const": 3},
        "anything": {},
        "both": {"allOf": [{"type": "integer"}, {"minimum": 3}]},
        "nothing": False,
    },
    "required": ["number"],
    "$defs": {"Place": {"type": "object", "properties": {"x": {"type": "integer"}}}},
}


def mended(**fields: Any) -> Any:
    """What became of the one field; Ellipsis where it was left out."""
    ((name, _),) = fields.items()
    return coerced(fields, SCHEMA).get(name, ...)


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("integer", "20", 20),
        ("integer", "-3", -3),
        ("integer", "9" * 40, int("9" * 40)),
        ("integer", 3.0, 3),
        ("nullable", -3.0, -3),
        ("number", "2.5", 2.5),
        ("number", "-1e3", -1000.0),
        ("number", "7", 7),
        ("boolean", "true", True),
        ("boolean", "false", False),
        ("array", ' ["a", 1]\n', ["a", 1]),
        ("object", '{"x": "1"}', {"x": "1"}),
        ("nullable", "3", 3),
        ("one_of", "2", 2),
        ("always", "3", 3),
        ("both", "2", 2),
    ],
)
def test_a_value_becomes_the_only_other_one_that_it_can_stand_for(field: str, text: object, value: object) -> None:
    got = mended(**{field: text})
    assert (got, type(got)) == (value, type(value))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("integer", "3.0"),
        ("integer", "3 apples"),
        ("integer", " 3"),
        ("integer", "007"),
        ("integer", "٣"),
        ("integer", ""),
        ("integer", "true"),
        ("integer", 2.5),
        ("integer", 1e300),
        ("integer", True),
        ("integer", "1" * 5000),
        ("number", "NaN"),
        ("number", "1e999"),
        ("number", "0x10"),
        ("boolean", "True"),
        ("boolean", "yes"),
        ("boolean", "1"),
        ("boolean", 1),
        ("array", "[1, 2"),
        ("array", '["a'),
        ("array", "[NaN]"),
        ("array", "a, b"),
        ("array", '{"x": 1}'),
        ("array", 3),
        ("array", "[" * 100_000),
        ("object", '{"x": 1} and more'),
        ("object", "[]"),
        ("string", 3),
        ("string", ["a"]),
        ("one_of", "3"),
        ("nothing", "3"),
        ("unknown", "3"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_nothing_is_guessed(field: str, value: object) -> None:
    assert mended(**{field: value}) == value


@pytest.mark.parametrize("text", ["3", "true", "null", '{"k": 3}', "[1]"])
@pytest.mark.parametrize("field", ["string", "anything"])
def test_text_stays_text_where_text_fits(field: str, text: str) -> None:
    assert mended(**{field: text}) == text


def test_of_two_readings_the_plain_one_stays() -> None:
    assert mended(text_or_number="3") == "3"
    assert mended(one_of="1") == "1"


def test_null_is_left_out_where_a_field_may_be_missing_but_not_null() -> None:
    assert mended(integer=None) is ...
    assert mended(object=None) is ...
    assert mended(number=None) is None  # required
    assert mended(nullable=None) is None
    assert mended(anything=None) is None


def test_what_is_inside_a_field_stays_as_it_is() -> None:
    assert mended(array=["1"]) == ["1"]
    assert mended(object={"x": "1"}) == {"x": "1"}


trees = st.dictionaries(
    st.sampled_from([*SCHEMA["properties"], "unknown"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["3", "true", "[1]", "{}"]),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("x"), inner),
        max_leaves=3,
    ),
)


@given(trees)
def test_only_what_did_not_fit_is_changed_and_then_fits(tree: dict[str, Any]) -> None:
    before = copy.deepcopy(tree)
    after = coerced(tree, SCHEMA)
    assert tree == before
    for name, value in tree.items():
        if name not in after:
            assert value is None
            assert not takes(SCHEMA["properties"][name], None, SCHEMA)
        elif after[name] is not value:
            assert not takes(SCHEMA["properties"][name], value, SCHEMA)
            assert takes(SCHEMA["properties"][name], after[name], SCHEMA)
            assert after[name] == json.loads(value)


def test_the_fields_of_a_schema_may_stand_elsewhere_in_it() -> None:
    schema = {
        "$ref": "#/$defs/a~1b%20c",
        "allOf": [{"properties": {"y": {"type": "integer"}}, "required": ["y"]}],
        "$defs": {"a/b c": {"properties": {"x": {"type": "integer"}}}},
    }
    assert fields_of(schema) == ({"x": {"type": "integer"}, "y": {"type": "integer"}}, {"y"})
    assert coerced({"x": "1", "y": "2"}, schema) == {"x": 1, "y": 2}


@pytest.mark.parametrize("reference", ["#", "#/$defs/self", "#/$defs/nowhere", "#/type/x", "http://example.com/a", 3])
def test_a_reference_that_leads_nowhere_or_in_circles_takes_anything(reference: object) -> None:
    field: dict[str, Any] = {"$ref": reference}
    assert takes(field, "3", {"properties": {"a": field}, "$ref": "#", "type": ["string"], "$defs": {"self": field}})
