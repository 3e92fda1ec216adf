import dataclasses
import enum
import inspect
import json
from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
import pytest
from msgspec import Meta

from streamkit.errors import DefinitionError
from streamkit.shapes.schema import input_struct, json_schema


def struct_of(function: Callable[..., Any]) -> type[msgspec.Struct]:
    return input_struct(list(inspect.signature(function, eval_str=True).parameters.values()), "tool 'it'")


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    return json_schema(struct_of(function))


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Place:
    """Where something is."""

    x: int
    y: Annotated[float, Meta(ge=0)] = 1.5


class Filter(TypedDict):
    words: list[str]
    colour: NotRequired[Colour]


class Tree(msgspec.Struct):
    name: str
    children: "list[Tree]" = []


class Lamp(msgspec.Struct, tag=True):
    watts: int


class Candle(msgspec.Struct, tag=True):
    hours: int


# The schema


def test_parameters_become_the_properties_of_an_object() -> None:
    def search(
        query: Annotated[str, Meta(description="What to look for", min_length=1)],
        limit: Annotated[int, Meta(ge=1, le=50)] = 10,
        mode: Literal["fast", "slow"] = "fast",
        cursor: str | None = None,
    ) -> None: ...

    assert schema_of(search) == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for", "minLength": 1},
            "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
            "mode": {"enum": ["fast", "slow"], "default": "fast"},
            "cursor": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def test_a_function_without_parameters_takes_an_empty_object() -> None:
    assert schema_of(lambda: None) == {"type": "object", "properties": {}, "additionalProperties": False}


def test_classes_are_described_under_defs() -> None:
    def put(place: Place, filter: Filter) -> None: ...

    schema = schema_of(put)
    assert schema["properties"] == {"place": {"$ref": "#/$defs/Place"}, "filter": {"$ref": "#/$defs/Filter"}}
    assert sorted(schema["$defs"]) == ["Colour", "Filter", "Place"]
    assert schema["$defs"]["Place"] == {
        "title": "Place",
        "description": "Where something is.",
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "number", "minimum": 0, "default": 1.5}},
        "required": ["x"],
    }


def test_any_value_may_be_annotated_as_any_or_object() -> None:
    def store(value: Any, more: dict[str, object]) -> None: ...

    described = schema_of(store)["properties"]
    assert described["value"] == {}
    assert "type" not in described["more"]["additionalProperties"]


def test_classes_of_one_name_are_numbered_and_no_module_is_named() -> None:
    def elsewhere() -> type:
        @dataclasses.dataclass
        class Place:
            street: str

        return Place

    def move(start: Place, end: Annotated[Any, None]) -> None: ...

    move.__annotations__["end"] = elsewhere()
    schema = schema_of(move)
    references = {schema["properties"][name]["$ref"].removeprefix("#/$defs/") for name in ("start", "end")}
    assert references == set(schema["$defs"]) == {"Place", "Place_2"}
    assert __name__ not in json.dumps(schema)


def test_a_tagged_union_says_which_is_which() -> None:
    def light(source: Lamp | Candle) -> None: ...

    source = schema_of(light)["properties"]["source"]
    assert source["discriminator"]["mapping"] == {"Lamp": "#/$defs/Lamp", "Candle": "#/$defs/Candle"}


def test_a_struct_that_holds_itself_is_on_top_and_under_defs() -> None:
    schema = json_schema(Tree)
    assert "title" not in schema
    assert schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert schema["$defs"]["Tree"]["properties"]["name"] == {"type": "string"}


def test_the_same_function_has_the_same_schema_always() -> None:
    def paint(place: Place, colour: Colour, other: Filter | None = None) -> None: ...

    assert json.dumps(schema_of(paint)) == json.dumps(schema_of(paint))


# Defaults


class Missing:
    """No JSON can say it."""


def test_defaults_are_said_where_json_can_carry_them() -> None:
    def f(
        *,
        colour: Colour = Colour.RED,
        tags: list[str] = ["a"],  # noqa: B006  the point of the test
        scores: dict[int, str] = {1: "b"},  # noqa: B006
        place: Place = Place(1),  # noqa: B008
        missing: int = Missing(),  # type: ignore[assignment]
        ratio: float = float("nan"),
    ) -> None: ...

    described = schema_of(f)["properties"]
    assert {name: said["default"] for name, said in described.items() if "default" in said} == {
        "colour": "red",
        "tags": ["a"],
        "scores": {"1": "b"},
        "place": {"x": 1, "y": 1.5},
    }
    assert "required" not in schema_of(f)


def test_a_default_that_can_be_changed_is_new_for_each_call() -> None:
    tags = ["a"]

    def f(tags: list[str] = tags, place: Place = Place(1), more: list[str] = []) -> None: ...  # noqa: B006, B008

    struct: Any = struct_of(f)
    one, two = struct(), struct()
    one.tags.append("b")
    one.more.append("b")
    one.place.x = 2
    assert (two.tags, two.place.x, two.more, tags) == (["a"], 1, [], ["a"])


def test_a_default_that_cannot_be_changed_stays_itself() -> None:
    missing = Missing()

    def f(value: int = missing) -> None: ...  # type: ignore[assignment]

    struct: Any = struct_of(f)
    assert struct().value is missing


# What is refused


def refused(function: Callable[..., Any]) -> str:
    with pytest.raises(DefinitionError) as raised:
        struct_of(function)
    assert str(raised.value).startswith("tool 'it': ")
    return str(raised.value)


def test_each_parameter_needs_a_name_and_an_annotation() -> None:
    def bare(query) -> None: ...  # type: ignore[no-untyped-def]
    def many(*queries: str) -> None: ...
    def options(**queries: str) -> None: ...
    def by_position(query: str, /) -> None: ...

    assert "'query' has no annotation: write query: str" in refused(bare)
    assert "*queries" in refused(many)
    assert "**queries" in refused(options)
    assert "must not stand before a /" in refused(by_position)


def test_a_method_that_is_not_bound_is_told_how_to_be() -> None:
    class Desk:
        def search(self, query: str) -> None: ...

    assert "make the tool of the bound one" in refused(Desk.search)


def test_what_json_cannot_carry_is_named_with_its_parameter() -> None:
    def count(good: int, bad: complex) -> None: ...
    def call(back: Callable[[], int]) -> None: ...
    def choose(source: Place | Filter) -> None: ...

    assert "'bad' cannot be described" in refused(count)
    assert "'back' cannot be described" in refused(call)
    assert "'source' cannot be described" in refused(choose)


def test_a_name_that_cannot_be_a_field_is_refused() -> None:
    parameter = inspect.Parameter("__hidden", inspect.Parameter.KEYWORD_ONLY, annotation=int)
    with pytest.raises(DefinitionError, match="'__hidden' cannot be described"):
        input_struct([parameter], "tool 'it'")
