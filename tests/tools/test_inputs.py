"""What tools take that are typed with a model of pydantic, or with a JSON Schema alone."""

from typing import Annotated, Any

import msgspec
import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, RootModel

from streamkit.errors import DefinitionError, InvalidInput
from streamkit.flows.flow import Sink
from streamkit.tools.decorators import streaming_tool, tool
from streamkit.tools.inputs import Input
from streamkit.tools.tool import Tool, ToolContext

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "default": 3}},
    "required": ["query"],
}


class Place(BaseModel):
    x: int


class Trip(BaseModel):
    stops: list[Place]
    days: int = Field(default=3, ge=1)


class Aliased(BaseModel):
    model_config = ConfigDict(extra="allow")

    first: int = Field(alias="First")
    second: int = Field(2, validation_alias=AliasChoices("Second", "2nd"))


class Renamed(msgspec.Struct, rename="camel"):
    long_name: int


async def anything(**arguments: Any) -> dict[str, Any]:
    """Anything."""
    return arguments


def made(input: Any, function: Any = anything, **fields: Any) -> Tool[..., Any]:
    return Tool(**{"name": "it", "description": "It.", "input": input, "function": function, **fields})


def refused(tool: Tool[..., Any], text: str) -> str:
    with pytest.raises(InvalidInput) as raised:
        tool.decode(text)
    return str(raised.value)


# Models of pydantic


def test_a_model_for_a_parameter_is_given_as_such() -> None:
    @tool
    async def go(place: Place, more: list[Place] = [], maybe: Place | None = None) -> None:  # noqa: B006
        """Go."""

    assert go.decode('{"place": {"x": 1}, "more": [{"x": 2}]}') == {
        "place": Place(x=1), "more": [Place(x=2)], "maybe": None,
    }  # fmt: skip
    assert go.decode('{"place": "{\\"x\\": 1}", "more": null}')["place"] == Place(x=1)
    assert refused(go, '{"place": {"x": "1"}}').split("\n")[1] == '- place.x: expected a valid integer, but got "1"'
    assert go.spec.parameters["properties"]["place"] == {"$ref": "#/$defs/Place"}


def test_a_model_for_all_parameters_is_given_field_by_field() -> None:
    @tool(input=Trip)
    async def plan(stops: list[Place], days: int) -> None:
        """Plan."""

    assert plan.decode('{"stops": [{"x": 1}]}') == {"stops": [Place(x=1)], "days": 3}
    assert plan.decode('{"stops": "[]", "days": "2"}') == {"stops": [], "days": 2}
    assert refused(plan, '{"stops": [{}], "days": "0"}').split("\n") == [
        "the arguments do not fit:",
        "- stops[0].x: required, but missing",
        "- days: expected greater than or equal to 1, but got 0",
        "received fields: stops, days",
    ]
    assert repr(plan) == "<Tool plan(stops, days=3)>"


def test_a_model_without_coercion_is_strict() -> None:
    assert 'days: expected a valid integer, but got "2"' in refused(
        made(Trip, coerce=False), '{"stops": [], "days": "2"}'
    )


def test_arguments_are_read_again_under_either_name() -> None:
    aliased = made(Aliased)
    assert aliased.decode('{"First": 1, "2nd": 5, "more": 3}') == {"first": 1, "second": 5, "more": 3}
    assert aliased.convert({"first": 1}) == aliased.convert({"First": 1}) == {"first": 1, "second": 2}
    renamed = made(Renamed)
    assert renamed.decode('{"longName": 1}') == renamed.convert({"long_name": 1}) == {"long_name": 1}


def test_what_a_person_allows_may_hold_the_models_themselves() -> None:
    plan = made(Trip)
    arguments = plan.decode('{"stops": [{"x": 1}]}')
    assert plan.convert({**arguments, "days": 5}) == {"stops": [Place(x=1)], "days": 5}


def test_events_hold_models_as_json() -> None:
    plan = made(Trip)
    assert plan.plain(plan.decode('{"stops": [{"x": 1}]}')) == {"stops": [{"x": 1}], "days": 3}
    typed = made(Renamed).decode('{"longName": 1}')
    assert made(Renamed).plain(typed) is typed


def test_a_model_that_is_no_object_is_refused() -> None:
    with pytest.raises(DefinitionError, match="must be an object"):
        made(RootModel[list[int]])
    with pytest.raises(DefinitionError, match="tool 'it': its input cannot be described"):
        made(BaseModel)
    with pytest.raises(DefinitionError, match="must be a msgspec Struct, a model of pydantic or a JSON Schema"):
        made(dict[str, int])


# JSON Schemas


def test_what_a_schema_describes_is_given_as_it_came() -> None:
    it = made(SCHEMA)
    assert it.spec.parameters == SCHEMA
    assert it.decode('{"query": "a"}') == {"query": "a"}  # the defaults are the function's own
    assert it.decode('{"query": "[1]", "limit": "5"}') == {"query": "[1]", "limit": 5}
    assert it.convert({"query": "a", "limit": 5}) == {"query": "a", "limit": 5}
    assert repr(it) == "<Tool it(query, limit=3)>"


def test_a_decorated_function_may_have_a_schema_instead_of_annotations() -> None:
    @tool(input=SCHEMA)
    async def search(context: ToolContext[Any], query, limit=10):  # type: ignore[no-untyped-def]
        """Search."""

    @streaming_tool(input=SCHEMA, finalize=len)
    async def find(context: ToolContext[Any], out: Sink[int], /, **arguments: Any) -> Any:
        """Find."""
        yield 1

    assert search.decode('{"query": "a"}') == {"query": "a"}
    assert (search.takes_context, find.takes_context, find.takes_sink) == (True, True, True)


def test_names_that_are_none_of_python_reach_a_function_that_takes_any() -> None:
    schema = {"type": "object", "properties": {"user-id": {"type": "integer"}, "class": {"type": "string"}}}
    assert made(schema).decode('{"user-id": "3", "class": "a"}') == {"user-id": 3, "class": "a"}


def test_a_name_that_is_taken_is_told_at_definition() -> None:
    async def collides(context: Any, **arguments: Any) -> None: ...
    async def goes_well(context: Any, /, **arguments: Any) -> None: ...

    schema = {"type": "object", "properties": {"context": {"type": "string"}}}
    with pytest.raises(DefinitionError, match="multiple values for argument 'context'"):
        made(schema, collides, takes_context=True)
    assert made(schema, goes_well, takes_context=True).decode('{"context": "a"}') == {"context": "a"}


def test_a_field_that_may_be_missing_must_have_a_default() -> None:
    async def search(query: str, limit: int) -> None: ...

    with pytest.raises(DefinitionError, match="missing a required argument: 'limit'"):
        made(SCHEMA, search)


def test_a_name_that_nobody_described_does_not_reach_the_function() -> None:
    async def search(query: str, limit: int = 3, as_admin: bool = False) -> None: ...
    async def open_search(query: str, as_admin: bool = False, **more: Any) -> None: ...

    text = '{"query": "a", "as_admin": true, "other": 1}'
    assert refused(made(SCHEMA, search), text).split("\n")[1:3] == [
        "- as_admin: unknown field",
        "- other: unknown field",
    ]
    assert "- as_admin: unknown field\nreceived" in refused(made(SCHEMA, open_search), text)
    assert made(SCHEMA, open_search).decode('{"query": "a", "other": 1}') == {"query": "a", "other": 1}


def test_a_schema_that_cannot_be_used_is_told_with_the_tool() -> None:
    with pytest.raises(DefinitionError, match=r"tool 'it': schema\['type'\] is not a valid JSON Schema"):
        made({"type": "odd"})
    with pytest.raises(DefinitionError, match="tool 'it': the schema must be of an object"):
        made({"type": "string"})


# Plain text


@pytest.mark.parametrize(
    "input",
    [
        msgspec.defstruct("S", [("script", str)]),
        msgspec.defstruct("S", [("script", str), ("seconds", int, 3)]),
        msgspec.defstruct("S", [("script", str, "pass")]),
        {"type": "object", "properties": {"script": {"type": "string"}, "n": {}}, "required": ["script"]},
    ],
    ids=["only", "required", "optional", "schema"],
)
def test_plain_text_goes_to_the_one_field_that_takes_text(input: Any) -> None:
    for text in ("print(1)", '{"script": "a"}', "3", ""):
        assert made(input).take_plain_text(text)["script"] == text
    assert made(input).take_plain_text("\ud800")["script"] == "\ufffd"


@pytest.mark.parametrize(
    "input",
    [
        msgspec.defstruct("S", []),
        msgspec.defstruct("S", [("a", int)]),
        msgspec.defstruct("S", [("a", str), ("b", str)]),
        msgspec.defstruct("S", [("a", str, ""), ("b", str, "")]),
    ],
    ids=["none", "a number", "two", "two optional"],
)
def test_plain_text_that_has_no_place_is_refused(input: Any) -> None:
    with pytest.raises(InvalidInput, match="it came as plain text, but the arguments are a JSON object with"):
        made(input).take_plain_text("a")


def test_plain_text_is_checked_like_any_argument() -> None:
    kind = msgspec.defstruct("S", [("a", Annotated[str, msgspec.Meta(max_length=1)])])
    with pytest.raises(InvalidInput, match="a: expected string of length <= 1"):
        made(kind).take_plain_text("ab")


class Nested(msgspec.Struct):
    a: "list[Nested]"


def taking_anything() -> Input:
    return Input({"type": "object", "properties": {"a": {}}}, "f", takes_other=lambda name: False, coerce=True)


@pytest.mark.parametrize("text", ["[" * 5000 + "]" * 5000, "[" * 128 + "]" * 128, '{"b":' * 200 + "1" + "}" * 200])
def test_arguments_that_are_nested_too_deeply_are_refused_whatever_a_field_takes(text: str) -> None:
    made = taking_anything()
    with pytest.raises(InvalidInput, match="at most 128 objects and arrays"):
        made.decode('{"a":' + text + "}")


def test_a_type_that_has_itself_inside_takes_no_deeper_arguments() -> None:
    with pytest.raises(InvalidInput, match="at most 128 objects and arrays"):
        made(Nested).decode('{"a":[' * 100 + "]}" * 100)
    assert made(Nested).decode('{"a":[' * 64 + "]}" * 64)["a"]


def test_of_a_type_that_has_an_end_nothing_deep_is_kept_or_taken() -> None:
    kind = msgspec.defstruct("S", [("a", list[str])])
    deep = "[" * 200 + "]" * 200
    assert made(kind).decode(f'{{"a":["b"],"unknown":{deep}}}') == {"a": ["b"]}
    with pytest.raises(InvalidInput, match=r"a\[0\]: expected string"):
        made(kind).decode(f'{{"a":[{deep}]}}')


def test_text_that_stands_for_a_list_may_be_nested_no_deeper() -> None:
    kind = msgspec.defstruct("S", [("a", list)])
    assert made(kind).decode('{"a":"' + "[" * 127 + "]" * 127 + '"}')["a"]
    with pytest.raises(InvalidInput, match="a: expected array"):
        made(kind).decode('{"a":"' + "[" * 128 + "]" * 128 + '"}')


def test_edited_arguments_may_be_nested_no_deeper() -> None:
    tree: list[object] = []
    for _ in range(200):
        tree = [tree]
    with pytest.raises(InvalidInput, match="at most 128"):
        taking_anything().convert({"a": tree})


def test_brackets_inside_of_strings_are_no_nesting() -> None:
    text = "[" * 1000 + '\\"' + "{" * 1000
    assert taking_anything().decode(f'{{"a":["{text}"]}}') == {"a": [text.replace('\\"', '"')]}
