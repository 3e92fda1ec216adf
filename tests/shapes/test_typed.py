import dataclasses
from typing import Annotated, Any, Generic, Literal, NotRequired, TypedDict, TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta
from pydantic import BaseModel

from streamkit.shapes.mismatch import LONGEST_MESSAGE, mismatch
from streamkit.shapes.shape import shape_of

T = TypeVar("T")


@dataclasses.dataclass
class Place:
    x: int
    y: int = 0


class Filter(TypedDict):
    word: str
    limit: NotRequired[int]


class Lamp(msgspec.Struct, tag=True, forbid_unknown_fields=True):
    watts: int
    colour: str


class Candle(msgspec.Struct, tag=True):
    hours: int


class Box(msgspec.Struct, Generic[T]):
    inside: T


class Tree(msgspec.Struct):
    children: "list[Tree]" = []


def message_of(kind: Any, received: Any) -> str:
    return mismatch(shape_of(kind).problems(received), received)


def lines(kind: Any, value: object) -> list[str]:
    """What is said of the one field `it`."""
    struct = msgspec.defstruct("S", [("it", kind)], forbid_unknown_fields=True)
    received = {"it": value}
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(received, struct, str_keys=True)
    first, *problems, last = message_of(struct, received).split("\n")
    assert (first, last) == ("the arguments do not fit:", "received fields: it")
    return problems


@pytest.mark.parametrize(
    ("kind", "value", "line"),
    [
        (int, "abc", '- it: expected integer, but got "abc"'),
        (str, 3, "- it: expected string, but got 3"),
        (float | None, "3", '- it: expected number or null, but got "3"'),
        (bool, "`int`", '- it: expected boolean, but got "`int`"'),
        (Annotated[int, Meta(ge=1)], 0, "- it: expected integer >= 1, but got 0"),
        (Annotated[str, Meta(pattern="^a")], "b", "- it: expected string matching regex '^a', but got \"b\""),
        (Literal["a", "b", 3], "c", '- it: expected one of 3, "a", "b", but got "c"'),
        (list[int], {"a": 1}, '- it: expected array, but got {"a": 1}'),
        (list[int], [1, "2", None], '- it[1]: expected integer, but got "2"\n- it[2]: expected integer, but got null'),
        (Annotated[list[int], Meta(max_length=1)], [1, 2], "- it: expected array of length <= 1, but got [1, 2]"),
        (tuple[int, str], [1, 2], "- it[1]: expected string, but got 2"),
        (tuple[int, str], [1], "- it: expected array of length 2, but got [1]"),
        (tuple[int, ...], [1, "2"], '- it[1]: expected integer, but got "2"'),
        (dict[str, list[int]], {"a": [1, True]}, "- it.a[1]: expected integer, but got true"),
        (dict[int, int], {"a": 1}, "- it (a key): expected integer, got string"),
        (Place, {"y": 1.5}, "- it.x: required, but missing\n- it.y: expected integer, but got 1.5"),
        (Place | None, {"x": []}, "- it.x: expected integer, but got []"),
        (Filter, {"limit": "3"}, '- it.limit: expected integer, but got "3"\n- it.word: required, but missing'),
        (Annotated[Filter, "the filter"], {"word": 3}, "- it.word: expected string, but got 3"),
        (Box[int], {"inside": "a"}, '- it.inside: expected integer, but got "a"'),
        (
            Lamp | Candle,
            {"type": "Lamp", "watts": "9", "volts": 2},
            '- it.watts: expected integer, but got "9"\n- it.colour: required, but missing\n- it.volts: unknown field',
        ),
        (Lamp | Candle, {"type": "Sun"}, "- it.type: invalid value 'Sun'"),
        (Place | str, {"x": "1"}, "- it.x: expected integer, got string"),
    ],
    ids=str,
)
def test_the_model_reads_what_was_expected_and_what_came(kind: Any, value: object, line: str) -> None:
    assert "\n".join(lines(kind, value)) == line


def test_very_deep_inside_the_first_wrong_field_is_told() -> None:
    tree: dict[str, Any] = {"children": ["no tree", "no tree"]}
    for _ in range(50):
        tree = {"children": [tree]}
    (line,) = lines(Tree, tree)
    assert line.startswith("- it.children[0].children[0].")
    assert line.endswith(": expected object, got string")


class Search(msgspec.Struct, forbid_unknown_fields=True):
    queries: list[str]
    filter: dict[str, int] | None = None
    note: str = ""
    limit: int = 10


def test_missing_and_unknown_fields_are_named_and_what_was_received() -> None:
    assert message_of(Search, {"query": "a", "limit": 3}) == (
        "the arguments do not fit:\n"
        "- queries: required, but missing\n"
        "- query: unknown field\n"
        "received fields: query, limit"
    )


def test_that_nothing_was_received_is_said() -> None:
    assert message_of(Search, {}).endswith("received fields: none")


trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["queries", "filter", "note", "limit", "other"]) | st.text(), trees))
def test_every_wrong_field_is_named_in_a_short_message(received: dict[str, Any]) -> None:
    wrong = {name for name in received if name not in Search.__struct_fields__} | {"queries"} - set(received)
    for field in msgspec.structs.fields(Search):
        try:
            msgspec.convert(received.get(field.name, []), field.type)
        except msgspec.ValidationError:
            if field.name in received:
                wrong.add(field.name)
    message = message_of(Search, received)
    assert len(message) <= LONGEST_MESSAGE
    if "more" not in message:
        assert all(name in message for name in wrong if len(name) < 40)


@pytest.mark.parametrize(
    "received",
    [
        {"queries": [3] * 10_000},
        {"queries": "x" * 1_000_000},
        {"x" * 10_000: 1},
        {f"field_{number}": "x" * 100 for number in range(1000)},
    ],
    ids=["many", "long", "long name", "many long"],
)
def test_the_message_stays_short_whatever_came(received: dict[str, Any]) -> None:
    message = message_of(Search, received)
    assert len(message) <= LONGEST_MESSAGE
    assert "received fields: " in message


def test_that_something_is_left_out_is_said() -> None:
    message = message_of(Search, {"queries": [3] * 1000})
    assert message.endswith("but got 3\n- and more\nreceived fields: queries")


def test_work_stops_when_the_message_is_full() -> None:
    asked = 0

    class Picky(msgspec.Struct):
        number: int

        def __post_init__(self) -> None:
            nonlocal asked
            asked += 1
            raise ValueError("it is never good")

    struct = msgspec.defstruct("S", [("it", list[Picky])])
    message = message_of(struct, {"it": [{"number": 1}] * 10_000})
    assert "- it[0]: it is never good, but got" in message
    assert asked < 100


class Link(TypedDict):
    to: "list[Chain]"


class Chain(msgspec.Struct):
    links: dict[str, Link]


class Pair(msgspec.Struct):
    one: Candle
    other: Candle


class Model(BaseModel):
    word: str


BOUNDED: list[Any] = [Lamp, Pair, list[Place], dict[str, Filter], Lamp | Candle | None, Box[int], tuple[int, list[str]]]
LIAR = Annotated[Any, Meta(extra_json_schema={"type": "string"})]
UNBOUNDED: list[Any] = [Any, list, dict, Box, list[Any], int | Box[Any], Tree, Link, Chain, Box[Pair | list[Chain]]]
UNBOUNDED += [Model, Box[Model], msgspec.Raw, LIAR]


@pytest.mark.parametrize("kind", BOUNDED, ids=str)
def test_a_type_bounds_the_depth_of_its_values(kind: Any) -> None:
    assert not shape_of(kind).takes_any_depth


@pytest.mark.parametrize("kind", UNBOUNDED, ids=str)
def test_what_takes_anything_or_has_itself_inside_bounds_no_depth(kind: Any) -> None:
    assert shape_of(kind).takes_any_depth
