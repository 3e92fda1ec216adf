import subprocess
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from streamkit.errors import DefinitionError
from streamkit.shapes.given_schema import SchemaShape
from streamkit.shapes.pydantic_models import ModelShape
from streamkit.shapes.shape import Shape, shape_of
from streamkit.shapes.typed import TypedShape


class Typed(msgspec.Struct, forbid_unknown_fields=True):
    text: str
    count: int = 0
    flags: list[bool] = []
    note: str | None = None


class Modelled(BaseModel, extra="forbid"):
    text: str
    count: int = 0
    flags: list[bool] = []
    note: str | None = None


TYPED, MODELLED = shape_of(Typed), shape_of(Modelled)
DESCRIBED = shape_of(TYPED.schema)


def test_what_is_given_decides_the_kind_of_shape() -> None:
    assert [type(shape) for shape in (TYPED, MODELLED, DESCRIBED)] == [TypedShape, ModelShape, SchemaShape]
    assert shape_of(list[int]).decode("[1]") == [1]
    with pytest.raises(DefinitionError):
        shape_of({"type": "nothing"})


values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "a", "3"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("x"), inner),
    max_leaves=3,
)


@given(st.dictionaries(st.sampled_from(["text", "count", "flags", "note", "more"]), values))
def test_all_kinds_of_shapes_find_the_same_places_wrong(tree: dict[str, object]) -> None:
    def places(shape: Shape) -> list[str]:
        found = list(shape.problems(tree))
        fits = not found
        for way in (shape.convert, lambda tree: shape.decode(msgspec.json.encode(tree).decode())):
            if fits:
                way(tree)
            else:
                with pytest.raises(msgspec.ValidationError):
                    way(tree)
        return sorted(line.partition(": ")[0] for line in found)

    assert places(TYPED) == places(MODELLED) == places(DESCRIBED)


def run(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def test_neither_library_is_imported_before_it_is_needed() -> None:
    program = """
import sys
from streamkit.answers import answer
from streamkit.tools.decorators import tool
@tool
def f(a: int, b: object = None):
    "F."
f.decode('{"a": "1"}')
print({"jsonschema", "referencing", "pydantic", "pydantic_core"} & set(sys.modules))
"""
    assert run(program) == "set()"


def test_where_jsonschema_is_missing_its_extra_is_named() -> None:
    program = """
import sys
sys.modules["jsonschema"] = None
from streamkit.tools.tool import Tool
try:
    Tool(name="a", description="A.", input={"type": "object"}, function=lambda: None)
except ImportError as error:
    print(error)
"""
    assert "pip install 'streamkit-tools[schema]'" in run(program)
