import enum
import json
from datetime import date
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, field_validator, model_validator

from streamkit.shapes.pydantic_models import is_model, model_of, model_problems, plain
from streamkit.shapes.schema import json_schema, mentions_models
from streamkit.shapes.shape import shape_of


class Colour(enum.Enum):
    RED = "red"


class Place(BaseModel):
    """Where something is."""

    x: int
    name: str = Field(default="here", min_length=2)

    @field_validator("x")
    @classmethod
    def in_range(cls, x: int) -> int:
        if x > 90:
            raise ValueError("there is no such place")
        return x


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: dict[int, str] = {}


class Trip(BaseModel):
    model_config = ConfigDict(extra="forbid")

    day: date = Field(alias="on")
    stops: list[Place] = []
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None
    mixed: list[Cat | int] = []
    colour: Colour | None = None
    pair: tuple[int, str] = (1, "a")

    @model_validator(mode="after")
    def short(self) -> "Trip":
        assert len(self.stops) < 3, "too many stops"
        return self


class Tree(BaseModel):
    children: list["Tree"] = []


class Lenient(BaseModel):
    model_config = ConfigDict(strict=False)

    x: int


class Pair(msgspec.Struct):
    place: Place
    more: list[Place] = []
    maybe: Place | None = None


def lines(value: Any, model: type[BaseModel] = Trip) -> list[str]:
    return list(model_problems(model, value, ""))


# Values


def test_only_model_classes_are_models() -> None:
    assert is_model(Place)
    assert is_model(RootModel[int])
    for other in (Place(x=1), int, Pair, list[Place], dict, None, pydantic.TypeAdapter(int)):
        assert not is_model(other)


def test_json_is_read_strictly_but_as_json() -> None:
    trip = model_of(Trip, {"on": "2026-01-02", "colour": "red", "pair": [2, "b"]})
    assert (trip.day, trip.colour, trip.pair) == (date(2026, 1, 2), Colour.RED, (2, "b"))
    assert lines({"x": "1"}, Place) == ['x: expected a valid integer, but got "1"']


def test_a_model_that_says_how_strict_it_is_has_its_way() -> None:
    assert model_of(Lenient, {"x": "1"}) == Lenient(x=1)


def test_a_model_is_written_as_json() -> None:
    assert plain(Trip(on=date(2026, 1, 2), pet=Dog(kind="dog", tricks={1: "sit"})))["on"] == "2026-01-02"


@pytest.mark.parametrize(
    "text", ['{"x": NaN}', '{"x": 1', '[{"x": 1}]', '{"x": 91}', '{"x": 1} {}', "null", '{"x": "1"}']
)
def test_what_does_not_fit_is_refused_as_msgspec_does(text: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        shape_of(Place).decode(text)


def test_text_is_decoded_and_trees_are_converted() -> None:
    assert shape_of(Place).decode('{"x": 1}') == shape_of(Place).convert({"x": 1}) == Place(x=1)


def test_models_stand_anywhere_in_what_msgspec_types() -> None:
    tree = {"place": {"x": 1}, "more": [{"x": 2}], "maybe": None}
    expected = Pair(Place(x=1), [Place(x=2)])
    assert shape_of(Pair).decode(json.dumps(tree)) == shape_of(Pair).convert(tree) == expected
    assert list(shape_of(Pair).problems({"place": {}, "more": [{"x": 1}, {"x": 91}], "maybe": {"x": []}})) == [
        "place.x: required, but missing",
        "more[1].x: there is no such place, but got 91",
        "maybe.x: expected a valid integer, but got []",
    ]


# What is wrong


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"more": 1}, "more: unknown field"),
        ({"on": "soon"}, "on: expected a valid date"),
        ({"stops": {}}, "stops: expected a valid array, but got {}"),
        ({"stops": [3]}, "stops[0]: expected an object, but got 3"),
        ({"stops": [{"x": 1, "name": "a"}]}, 'stops[0].name: string should have at least 2 characters, but got "a"'),
        ({"stops": [{"x": 91}]}, "stops[0].x: there is no such place, but got 91"),
        ({"stops": [{"x": 1}] * 3}, "the top level: too many stops, but got"),
        ({"pet": {"kind": "cat"}}, "pet.lives: required, but missing"),
        ({"pet": {"kind": "dog", "tricks": {"a": "sit"}}}, "pet.tricks.a (a key): expected a valid integer"),
        ({"pet": {"kind": "cow"}}, "pet: input tag 'cow' found using 'kind'"),
        ({"mixed": [{"kind": "cat"}]}, "mixed[0].lives: required, but missing"),
        ({"colour": "green"}, "colour: expected 'red', but got \"green\""),
        ({"pair": [1]}, "pair[1]: required, but missing"),
    ],
    ids=str,
)
def test_the_model_reads_what_was_expected_and_what_came(more: dict[str, Any], line: str) -> None:
    assert lines({"on": "2026-01-02", **more})[0].startswith(line)


def test_all_that_is_wrong_is_told() -> None:
    assert lines({"stops": [{}]}) == ["on: required, but missing", "stops[0].x: required, but missing"]


def test_what_fits_has_no_problems() -> None:
    assert lines({"on": "2026-01-02"}) == []


# Schemas


def test_the_schema_of_a_model_has_it_on_top_and_the_rest_under_defs() -> None:
    schema = json_schema(Trip)
    assert schema["type"] == "object"
    assert "title" not in schema
    assert schema["required"] == ["on"]
    assert schema["properties"]["stops"]["items"] == {"$ref": "#/$defs/Place"}
    assert schema["properties"]["pet"]["anyOf"][0]["discriminator"]["mapping"]["cat"] == "#/$defs/Cat"
    assert set(schema["$defs"]) == {"Place", "Cat", "Dog", "Colour"}


def test_a_model_that_holds_itself_is_on_top_and_under_defs() -> None:
    schema = json_schema(Tree)
    assert schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert set(schema["$defs"]) == {"Tree"}


def test_models_of_one_name_are_numbered() -> None:
    class Other(msgspec.Struct):
        y: int

    Other.__name__ = Other.__qualname__ = "Place"
    both = msgspec.defstruct("Both", [("one", Place), ("other", Other), ("again", list[Place])])
    schema = json_schema(both)
    place = schema["properties"]["one"]["$ref"]
    assert schema["properties"]["again"]["items"]["$ref"] == place
    assert {place, schema["properties"]["other"]["$ref"]} == {"#/$defs/Place", "#/$defs/Place_2"}
    assert "x" in schema["$defs"][place.removeprefix("#/$defs/")]["properties"]


def test_whether_there_is_a_model_in_a_type_is_known() -> None:
    assert mentions_models(Pair)
    assert mentions_models(dict[str, list[Place]])
    assert not mentions_models(list[int])
