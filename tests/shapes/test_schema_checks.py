"""Options of a schema that refer to the whole again: filters, expressions."""

from typing import Any, Literal

import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.shapes.given_schema import SchemaShape
from streamkit.shapes.schema_checks import checking, errors, is_valid

DRAFTS = (jsonschema.Draft4Validator, jsonschema.Draft7Validator, jsonschema.Draft202012Validator)
OPERATORS = ("and", "or", "not")
Options = Literal["anyOf", "oneOf"]
FIELD = {"type": "object", "properties": {"field": {"type": "string"}}, "required": ["field"]}


def expressions(options: Options, *, named: bool) -> dict[str, Any]:
    """named: each option says by `op` which it is. Else an operation is one by any of them, and no leaf is one."""
    operations = [
        {
            "type": "object",
            "properties": {
                "op": {"enum": [operator]} if named else {"type": "string"},
                "args": {"type": "array", "items": {"$ref": "#/definitions/expression"}},
            },
            "required": ["op", "args"],
        }
        for operator in OPERATORS
    ]
    leaf = {"allOf": [{"$ref": "#/definitions/field"}, {"$ref": "#/definitions/alone"}]}
    definitions = {
        "expression": {"allOf": [{"$ref": "#/definitions/options"}]},
        "options": {options: [*operations, leaf]},
        "field": FIELD,
        "alone": {"maxProperties": 1},
    }
    thrice = [{"properties": {"where": {"$ref": "#/definitions/expression"}}} for _ in range(3)]
    return {"type": "object", "allOf": thrice, "definitions": definitions}


def nested(levels: int, operator: str, leaf: object) -> dict[str, Any]:
    for _ in range(levels):
        leaf = {"op": operator, "args": [leaf]}
    return {"where": leaf}


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("options", ["anyOf", "oneOf"])
def test_deep_values_are_checked_in_this_life(options: Options, named: bool) -> None:
    shape = SchemaShape(expressions(options, named=named))
    wrong = nested(60, "not", {"field": 5})
    with pytest.raises(msgspec.ValidationError):
        shape.convert(wrong)
    (line,) = shape.problems(wrong)
    assert line.startswith("where: expected one of the forms that its schema has")
    right = nested(60, "not", {"field": "a"})
    if named or options == "anyOf":
        assert shape.convert(right) is right


LEAVES = st.sampled_from([{"field": "a"}, {"field": 5}, {"field": "a", "op": "and"}, {}, 5, 5, None])
TREES = st.recursive(
    LEAVES,
    lambda inside: st.fixed_dictionaries(
        {"op": st.sampled_from((*OPERATORS, "xor"))}, optional={"args": st.lists(inside, max_size=3)}
    ),
    max_leaves=6,
)


@given(st.sampled_from(DRAFTS), st.sampled_from(["anyOf", "oneOf"]), st.booleans(), TREES)
def test_what_is_wrong_is_what_jsonschema_says(draft: Any, options: Options, named: bool, tree: Any) -> None:
    schema, value = expressions(options, named=named), {"where": tree}
    plain, ours = draft(schema), checking(draft)(schema)
    assert is_valid(ours, value) == plain.is_valid(value)
    assert [(error.message, error.absolute_path) for error in errors(ours, value)] == [
        (error.message, error.absolute_path) for error in plain.iter_errors(value)
    ]
